// The driver of clients/conformance for this library: JSON lines on standard input and output.

import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";

import { Client, clientId, MemoryStorage, socketClass } from "../dist/node.js";
import { Deframer, readServerFrame, SERVER_FRAME_BYTES_MAX } from "../dist/frames.js";
import { GROUP_KIND } from "../dist/group.js";
import { hex, messageOf, unhex } from "../dist/message.js";
import { base64, Proof } from "../dist/scram.js";
import { HASHED_TOKEN, proveToken } from "../dist/token.js";
import { WireFault } from "../dist/wire.js";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const FRAMING = ["length", "too_large"];

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

class ManualClock {
  #now = 0;
  #calls = new Set();

  now() {
    return this.#now;
  }

  setTimeout(call, ms) {
    const it = { due: this.#now + ms, call };
    this.#calls.add(it);
    return it;
  }

  clearTimeout(it) {
    this.#calls.delete(it);
  }

  stop() {
    this.#calls.clear();
    this.setTimeout = () => undefined;
  }

  advance(now) {
    this.#now = now;
    for (;;) {
      const ready = [...this.#calls].filter((it) => it.due <= now).sort((a, b) => a.due - b.due);
      if (ready.length === 0) return;
      this.#calls.delete(ready[0]);
      ready[0].call();
    }
  }

  next() {
    return this.#calls.size === 0 ? null : Math.min(...[...this.#calls].map((it) => it.due));
  }
}

// The keys begin with the URL, which is another one in each scenario; account and name remain.
const short = (key) => key.split(":").slice(-2).join(":");

class Storage extends MemoryStorage {
  items = {};

  getItem(key) {
    return this.items[short(key)] ?? null;
  }

  setItem(key, value) {
    this.items[short(key)] = value;
  }

  removeItem(key) {
    delete this.items[short(key)];
  }
}

/** A client, and what it says while it lives. */
class Life {
  clock = new ManualClock();
  storage = new Storage();
  #isOver = false;
  #sockets = [];
  #sent = new Set();

  constructor({ addresses, account, device, password, token, login_token, silence_s, random = 0.5,
    state, tls, proxy }) {
    if (state) this.storage.items = JSON.parse(state);
    const scheme = tls === undefined ? "im" : "ims";
    const tcp = { proxy, pins: tls?.pins, serverName: tls?.name };
    const given = Object.fromEntries(Object.entries(tcp).filter(([, value]) => value !== undefined));
    const Socket = socketClass({ ...given, ...(tls && { tls: { ca: readFileSync(tls.ca) } }) });
    const sockets = this.#sockets;
    const secrets = { password, token, loginToken: login_token, silenceS: silence_s };
    const options = {
      ...given,
      url: addresses.map((it) => it.includes("://") ? it : `${scheme}://${it}`), account, device,
      clock: this.clock, storage: this.storage, random: () => random,
      webSocket: function (url, protocols) {
        const socket = new Socket(url, protocols);
        sockets.push(socket);
        return socket;
      },
      onFrame: (answer) => this.#say({ event: "frame", answer }),
      ...Object.fromEntries(Object.entries(secrets).filter(([, value]) => value !== undefined)),
    };
    this.client = new Client(options);
    this.client.on("state", (it) => this.#tellState(it));
    this.client.on("message", (it) => this.#tellMessage(it));
    this.client.on("event", ({ peer, place }) => this.#say({ event: "event", seq: place, with: peer }));
    this.client.on("failed", ({ queued, error }) =>
      this.#say({ event: "failed", client_id: queued.clientId, why: error.code }));
    for (const { clientId: id } of this.client.queue) this.#sent.add(id);
    this.client.connect().catch(() => {});
  }

  send(to, text, id = clientId()) {
    this.#sent.add(id);
    let refused;
    this.client.send(to, { text, clientId: id }).catch((error) => {
      refused = error.code;
    });
    return Promise.resolve().then(() => Promise.resolve()).then(() =>
      refused === "queue_full" ? { error: refused } : { client_id: id });
  }

  async history(ask, peer, count) {
    try {
      const { messages, hasMore } = await this.client.history(peer, { count });
      const texts = messages.map(({ text }) => text);
      this.#say({ event: "history", ask, texts, more: hasMore });
    } catch (error) {
      this.#say({ event: "history", ask, error: error.code });
    }
  }

  end() {
    this.#isOver = true;
    this.clock.stop();
    for (const socket of this.#sockets) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
    return JSON.stringify(this.storage.items);
  }

  #say(what) {
    if (!this.#isOver) say(what);
  }

  #tellState({ name, account, retryMs, error }) {
    const until = retryMs === undefined ? 0 : this.clock.now() + retryMs;
    const isIdle = name === "idle";
    const why = isIdle ? "closed" : error?.code ?? "";
    this.#say({ event: "state", state: isIdle ? "ended" : name, account, until, why,
      detail: error?.message ?? "" });
  }

  /** A message that this device sent is told as sent. */
  #tellMessage(it) {
    const { clientId: client_id, id, seq } = it;
    if (it.isOwn && this.#sent.has(client_id)) {
      return this.#say({ event: "sent", client_id, id: String(id), seq });
    }
    this.#say({ event: "message", seq, id: String(id), from: it.from, to: it.to,
      text: it.text, client_id });
  }
}

let life, asks = 0;

const commands = {
  hello: () => ({
    library: "holdline-im for JavaScript", version,
    features: ["tls", "pins", "socks5", "http_connect", "detail",
      ...(typeof WebSocket === "undefined" ? [] : ["websocket"])],
  }),
  decode({ bytes }) {
    try {
      const [body] = new Deframer(SERVER_FRAME_BYTES_MAX).push(unhex(bytes));
      if (body === undefined) return { more: true };
      const length = headOf(unhex(bytes)) + body.length;
      const frame = readServerFrame(body);
      return { answer: frame?.kind ?? null, length, ...changesIn(frame) };
    } catch (error) {
      if (!(error instanceof WireFault)) throw error;
      return { fault: FRAMING.includes(error.word) ? error.word : "malformed" };
    }
  },
  async prove({ method, account, password, nonce, challenge, token }) {
    const { subtle } = globalThis.crypto;
    if (method === HASHED_TOKEN) {
      const { data, expected } = await proveToken(subtle, account, token);
      return { first: hex(data), proof: Buffer.from(expected, "base64").toString("hex") };
    }
    const proof = new Proof(subtle, account, password, nonce);
    const { data, expected } = await proof.answer(Buffer.from(challenge));
    return { first: textOf(proof.first), answer: textOf(data), proof: expected };
  },
  open(options) {
    life = new Life(options);
  },
  time({ ms }) {
    life.clock.advance(ms);
    return { next: life.clock.next() };
  },
  send: ({ to, text, client_id }) => life.send(to, text, client_id),
  history({ with: peer, count }) {
    asks += 1;
    void life.history(asks, peer, count);
    return { ask: asks };
  },
  nudge: () => life.client.nudge(),
  close: () => life.client.close(),
  kill: () => ({ state: life.end() }),
};

/** What a message announces of its group. */
function changesIn(frame) {
  if (frame?.kind !== "message") return {};
  const { kind, changes } = messageOf(frame.fields.message, "");
  return kind === GROUP_KIND ? { changes } : {};
}

const textOf = (bytes) => new TextDecoder().decode(bytes);
const headOf = (bytes) => bytes.findIndex((byte) => byte < 0x80) + 1;

for await (const line of createInterface({ input: process.stdin })) {
  const { n, do: name, ...fields } = JSON.parse(line);
  let answer;
  try {
    answer = await commands[name](fields);
  } catch (error) {
    answer = { error: String(error.stack) };
  }
  await null; // what was put off to the end of this turn
  say({ n, ...answer });
}
