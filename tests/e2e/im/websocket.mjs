// A WebSocket for the browsers' library in Node.

import { createHash, randomBytes } from "node:crypto";
import { connect } from "node:net";

/** A WebSocket of RFC 6455 over a socket of Node, which has none of its own in version 18 and 20. */
export class Socket {
  /** Sees what is sent. */
  static written = () => undefined;
  onopen = null;
  onmessage = null;
  onclose = null;
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
    Socket.written(this, bytes);
    const length = bytes.length < 126 ? [bytes.length | 0x80]
      : [126 | 0x80, bytes.length >> 8, bytes.length & 0xff];
    this.#socket.write(Buffer.from([0x82, ...length, 0, 0, 0, 0, ...bytes]));
  }

  close() {
    this.#socket.end();
  }
}
