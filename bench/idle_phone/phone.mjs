// An idle phone by the library for JavaScript: ADDRESS PRODUCT DEVICE FIRST_S.

import { Client } from "holdline-miop/node";

const [address, product, device, first] = process.argv.slice(2);
const client = new Client({
  address, product, device, heartbeat: { shortest: 30, first: Number(first), longest: 1800 },
  onState: (state) => console.log("#", state.name, state.why ?? ""),
});
client.start();
for await (const push of client) console.log(push.text);
