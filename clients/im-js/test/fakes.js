// A browser for the driver: sockets, a clock, a storage, all by hand.

import { webcrypto } from "node:crypto";
import { Client } from "../dist/client.js";
import { CLIENT_FRAME, Deframer } from "../dist/frames.js";
import { readMember } from "../dist/wire.js";
import { MemoryStorage } from "../dist/storage.js";
import { LIMITS, serverFrame } from "./side.js";

globalThis.crypto ??= webcrypto; // Node 18 has it under this name alone.

/** A clock that is told the time. */
export class FakeClock {
  #now = 0;
  #timers = new Map();
  #last = 0;

  now = () => this.#now;

  setTimeout = (call, ms) => {
    this.#last += 1;
    this.#timers.set(this.#last, { call, at: this.#now + ms });
    return this.#last;
  };

  clearTimeout = (timer) => {
    this.#timers.delete(timer);
  };

  get timers() {
    return this.#timers.size;
  }

  advance(ms) {
    const until = this.#now + ms;
    for (;;) {
      const due = [...this.#timers].filter(([, { at }]) => at <= until)
        .sort(([, one], [, other]) => one.at - other.at)[0];
      if (due === undefined) break;
      this.#now = Math.max(this.#now, due[1].at);
      this.#timers.delete(due[0]);
      due[1].call();
    }
    this.#now = until;
  }
}

/** A WebSocket whose other end is the test. */
export class FakeSocket {
  static all = [];
  onopen = null;
  onmessage = null;
  onclose = null;
  frames = [];
  isClosed = false;
  #deframer = new Deframer(1 << 20);
  #greeted = false;

  constructor(url, protocols) {
    Object.assign(this, { url, protocols });
    FakeSocket.all.push(this);
  }

  send(bytes) {
    if (!this.#greeted) this.#greeted = true;
    else this.frames.push(...this.#deframer.push(bytes).map((it) => readMember(CLIENT_FRAME, it)));
  }

  close() {
    this.isClosed = true;
  }

  says(kind, given) {
    const bytes = serverFrame(kind, given);
    this.onmessage?.({ data: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) });
  }

  async opens() {
    this.onopen();
    await flushed();
  }

  async letsIn(given = {}) {
    await this.opens();
    this.says("logged_in", { ...LIMITS, ...given });
    await flushed();
  }
}

/** Everything that was promised and can be settled is. */
export const flushed = () => new Promise((resolve) => setImmediate(resolve));

/** A client in this browser, and the sockets it makes. */
export function browser(options = {}) {
  FakeSocket.all = [];
  const clock = new FakeClock();
  const storage = options.storage ?? new MemoryStorage();
  const make = (more = {}) => new Client({
    url: "ws://127.0.0.1:7007/im", account: "ann", storage, clock, webSocket: FakeSocket,
    random: () => 0.5, ...options, ...more,
  });
  return { clock, storage, make, client: make(), socket: () => FakeSocket.all.at(-1) };
}
