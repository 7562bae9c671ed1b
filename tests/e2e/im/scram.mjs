// Logs in to a running server with the browsers' library: how each way of doing it went.
//
//   node scram.mjs FOLDER_OF_THE_LIBRARY URL

import { createHash, randomBytes, webcrypto } from "node:crypto";
import { connect } from "node:net";

globalThis.crypto ??= webcrypto;
const [folder, url] = process.argv.slice(2);
const { Client, MemoryStorage } = await import(`${folder}/index.js`);
const { CLIENT_FRAME, Deframer } = await import(`${folder}/frames.js`);
const { readMember } = await import(`${folder}/wire.js`);

const methods = [];

/** A WebSocket of RFC 6455 over a socket of Node, which has none of its own in version 18 and 20. */
class Socket {
  onopen = null;
  onmessage = null;
  onclose = null;
  #deframer;
  #pending = Buffer.alloc(0);
  #socket;

  constructor(address, [subprotocol]) {
    const { hostname, port, pathname, host } = new URL(address);
    const key = randomBytes(16).toString("base64");
    const made = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
    const accept = made.digest("base64");
    this.#socket = connect(Number(port), hostname);
    this.#socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\n`
      + `Connection: Upgrade\r\nSec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: 13\r\n`
      + `Origin: http://${host}\r\nSec-WebSocket-Protocol: ${subprotocol}\r\n\r\n`);
    let isOpen = false;
    this.#socket.on("data", (bytes) => {
      this.#pending = Buffer.concat([this.#pending, bytes]);
      if (!isOpen) {
        const end = this.#pending.indexOf("\r\n\r\n");
        if (end < 0) return;
        const head = this.#pending.subarray(0, end).toString();
        if (!head.startsWith("HTTP/1.1 101") || !head.includes(accept)) throw new Error(head);
        this.#pending = this.#pending.subarray(end + 4);
        isOpen = true;
        this.onopen?.();
      }
      this.#frames();
    });
    this.#socket.on("close", () => this.onclose?.());
    this.#socket.on("error", () => undefined);
  }

  #frames() {
    while (this.#pending.length >= 2) {
      const short = this.#pending[1];
      const head = short === 126 ? 4 : 2;
      if (this.#pending.length < head) return;
      const length = short === 126 ? this.#pending.readUInt16BE(2) : short;
      if (this.#pending.length < head + length) return;
      const body = this.#pending.subarray(head, head + length);
      const isBinary = (this.#pending[0] & 0x0f) === 2;
      this.#pending = this.#pending.subarray(head + length);
      if (isBinary) this.onmessage?.({ data: Uint8Array.from(body).buffer });
    }
  }

  send(bytes) {
    if (this.#deframer === undefined) this.#deframer = new Deframer(1 << 16); // The preface.
    else {
      for (const frame of this.#deframer.push(bytes)) {
        const { kind, fields } = readMember(CLIENT_FRAME, frame);
        if (kind === "login" && fields.method !== "") methods.push(fields.method);
      }
    }
    const length = bytes.length < 126 ? [bytes.length | 0x80]
      : [126 | 0x80, bytes.length >> 8, bytes.length & 0xff];
    this.#socket.write(Buffer.from([0x82, ...length, 0, 0, 0, 0, ...bytes]));
  }

  close() {
    this.#socket.end();
  }
}

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
