"""Pushes that take effect exactly once: one transaction stores the push's id with its effect.

Usage: python3 store_first.py HOST:PORT DEVICE
"""

import asyncio
import sqlite3
import sys

import holdline_miop as miop


async def main(address, device):
    database = sqlite3.connect(f"{device}.sqlite")
    database.execute("CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, body BLOB)")
    client = miop.Client(address, product="demo", device=device, manual=True,
                         store=miop.FileStore(f"{device}.json"))
    async with client:
        async for push in client:
            with database:
                database.execute("INSERT OR IGNORE INTO inbox VALUES (?, ?)",
                                 (str(push.id), push.body))
            push.acknowledge()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
