// Logs in to a running server with the browsers' library: how each way of doing it went.
//
//   node scram.mjs FOLDER_OF_THE_LIBRARY URL

import { webcrypto } from "node:crypto";
import { Socket } from "./websocket.mjs";

globalThis.crypto ??= webcrypto;
const [folder, url] = process.argv.slice(2);
const { Client, MemoryStorage } = await import(`${folder}/index.js`);
const { CLIENT_FRAME, Deframer } = await import(`${folder}/frames.js`);
const { readMember } = await import(`${folder}/wire.js`);

const methods = [];

const deframers = new WeakMap();
Socket.written = (socket, bytes) => {
  const deframer = deframers.get(socket);
  if (deframer === undefined) {
    deframers.set(socket, new Deframer(1 << 16)); // The preface.
    return;
  }
  for (const frame of deframer.push(bytes)) {
    const { kind, fields } = readMember(CLIENT_FRAME, frame);
    if (kind === "login" && fields.method !== "") methods.push(fields.method);
  }
};

/** Whom the server takes one for, or why it does not let one in. */
async function login(account, secret) {
  const client = new Client({ url, account, storage: new MemoryStorage(), webSocket: Socket, ...secret });
  try {
    await client.connect();
    return client.state.account;
  } catch (error) {
    return error.code;
  } finally {
    client.close();
  }
}

const right = await login("ann", { password: "pencil" });
const wrong = await login("ann", { password: "pen" });
const tried = [...methods];
const nobody = await login("nobody", { password: "pencil" });
const plain = await login("ann", { token: "pencil" });
console.log(JSON.stringify({ right, plain, wrong, nobody, methods: tried }));
