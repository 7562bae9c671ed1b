// Pushes that take effect exactly once: one append writes the push's id with its effect, and the id
// is looked up before. Usage: node store-first.mjs HOST:PORT DEVICE

import { appendFileSync, closeSync, existsSync, fsyncSync, openSync, readFileSync } from "node:fs";

import { Client, FileStore } from "holdline-miop/node";

const [address, device] = process.argv.slice(2);
const file = `${device}.inbox`;
const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
const known = new Set(lines.slice(0, -1).map((line) => line.split(" ", 1)[0]));

const client = new Client({
  address, product: "demo", device, manual: true, store: new FileStore(`${device}.json`),
});
client.start();
for await (const push of client) {
  const id = String(push.id);
  if (!known.has(id)) {
    const inbox = openSync(file, "a");
    appendFileSync(inbox, `${id} ${JSON.stringify(push.text)}\n`);
    fsyncSync(inbox);
    closeSync(inbox);
    known.add(id);
  }
  push.acknowledge();
}
