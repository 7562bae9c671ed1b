"""An idle phone by the library for Python: ADDRESS PRODUCT DEVICE FIRST_S."""

import asyncio
import sys

import holdline_miop as miop


async def main():
    address, product, device, first = sys.argv[1:]
    client = miop.Client(
        address, product=product, device=device, heartbeat=(30, int(first), 1800),
        on_state=lambda state: print("#", state.name, state.why, flush=True))
    async with client:
        async for push in client:
            print(push.text, flush=True)


asyncio.run(main())
