// A device of MIOP 7 in Node, with nothing but its net module: binds, prints a push, acknowledges.
// Usage: node node_device.js PORT DEVICE

"use strict";
const net = require("node:net");
const [port, device] = process.argv.slice(2);

function frame(opcode, properties, payload = Buffer.alloc(0)) {
  const block = Buffer.concat(properties.flatMap(([key, value]) =>
    [Buffer.from([key, value.length]), Buffer.from(value)]));
  const body = Buffer.concat([Buffer.from([block.length]), block, payload]);
  const head = Buffer.from([0, 7, 1, opcode, 0, 0, 0, 0]);
  head.writeUInt32BE(body.length, 4);
  return Buffer.concat([head, body]);
}

const socket = net.connect(Number(port), "127.0.0.1", () => {
  socket.write(frame(2, [[1, device], [2, "demo"]]));
});
let buffer = Buffer.alloc(0);
socket.on("data", (data) => {
  buffer = Buffer.concat([buffer, data]);
  while (buffer.length >= 4) {
    const size = buffer[2] & 1 ? (buffer.length < 8 ? Infinity : 8 + buffer.readUInt32BE(4)) : 4;
    if (buffer.length < size) return;
    received(buffer[3], buffer.subarray(8, size));
    buffer = buffer.subarray(size);
  }
});

function received(opcode, body) {
  if (opcode === 6) {
    console.log("bound");
  } else if (opcode === 3) {
    // No properties, no collapse key, a short body: each length is one byte.
    const record = body.subarray(1 + body[0]);
    const text = record.subarray(17 + 1 + record[17] + 1);
    console.log(`push ${text}`);
    socket.write(frame(4, [], record.subarray(0, 8)), () => socket.write(frame(5, [])));
  } else if (opcode === 7) {
    console.log("unbound");
  }
}
