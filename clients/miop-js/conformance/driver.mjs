// The driver of clients/conformance for this library: JSON lines on standard input and output.

import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";

import { Client, MemoryStore, QueueFull } from "../dist/node.js";
import { fromHex, toHex } from "../dist/hex.js";
import * as wire from "../dist/wire.js";

const LONG = new Set(["client_ts", "last_msg_id", "session_epoch", "server_time"]);
const RAW = new Set(["client_nonce", "server_nonce", "mac", "token", "resume_token"]);
const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

const pushOf = ({ id, appId, silent, high, expireAt, collapse, body }) => ({
  id: String(id), app_id: appId, silent, high, expire_at: expireAt,
  collapse: toHex(collapse), body: toHex(body),
});

function frameOf(it) {
  if (it.skipped) return { opcode: it.opcode, skipped: true };
  const properties = Object.fromEntries(Object.entries(it.properties).map(([name, value]) =>
    [name, LONG.has(name) ? String(value) : RAW.has(name) ? toHex(value) : value]));
  const out = { opcode: it.opcode, properties };
  if (it.records === undefined) out.payload = toHex(it.payload);
  else out.records = it.records.map(pushOf);
  if (it.ackReq) out.ack_req = true;
  if (it.dup) out.dup = true;
  if (it.seq !== undefined) out.seq = it.seq;
  return out;
}

function toFrame({ opcode, properties, payload = "", seq }) {
  const values = Object.fromEntries(Object.entries(properties).map(([name, value]) =>
    [name, LONG.has(name) ? BigInt(value) : RAW.has(name) ? fromHex(value) : value]));
  return { ...wire.frame(opcode, values, fromHex(payload)), ...(seq === undefined ? {} : { seq }) };
}

class ManualClock {
  #now = 0;
  #calls = new Set();

  constructor(wallMs) {
    this.wallMs = wallMs;
  }

  now() {
    return this.#now;
  }

  wall() {
    return this.wallMs + this.#now;
  }

  at(due, call) {
    const it = { due, call };
    this.#calls.add(it);
    return () => this.#calls.delete(it);
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

let client, clock, store;
const held = new Map();
const take = (id) => {
  const push = held.get(id);
  held.delete(id);
  return push;
};

const commands = {
  hello: () => ({
    library: "holdline-miop for JavaScript", version,
    features: ["tls", "pins", "socks5", "http_connect", "detail", "break_store",
      ...(typeof WebSocket === "undefined" ? [] : ["websocket"])],
  }),
  decode({ bytes, frame_bytes_max = 65_536 }) {
    try {
      const found = wire.decode(fromHex(bytes), frame_bytes_max);
      return found === null ? { more: true } : { frame: frameOf(found[0]), length: found[1] };
    } catch (error) {
      if (error instanceof wire.Fault) return { fault: error.message };
      throw error;
    }
  },
  encode: ({ frame }) => ({ bytes: toHex(wire.encode(toFrame(frame))) }),
  mac({ secret, product, device, client_ts, client_nonce, caps, server_nonce }) {
    const claim = { secret: fromHex(secret), product, device, clientTs: BigInt(client_ts),
      clientNonce: fromHex(client_nonce), caps };
    return { mac: toHex(wire.sign(claim, fromHex(server_nonce))) };
  },
  open({ addresses, product, device, secret, key_id, token, tags, acknowledge, heartbeat,
    heartbeat_wish, max_inflight, pulls, random = 0.5, wall_ms = 0, state = null, tls, proxy }) {
    clock = new ManualClock(wall_ms);
    store = new MemoryStore(state);
    held.clear();
    const mine = { product, device, address: addresses, store, clock, random: () => random,
      manual: acknowledge === "manual" };
    const optional = {
      secret: secret === undefined ? undefined : fromHex(secret), keyId: key_id, token, tags,
      heartbeat, heartbeatWish: heartbeat_wish, maxInflight: max_inflight, pulls, proxy, pins: tls?.pins, serverName: tls?.name,
      tls: tls === undefined ? undefined : { ca: readFileSync(tls.ca) },
    };
    client = new Client({
      ...mine,
      ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
      onPush(push) {
        held.set(String(push.id), push);
        say({ event: "push", ...pushOf(push) });
      },
      onState({ name, offlineCount, ...more }) {
        const count = offlineCount === undefined ? {} : { offline_count: offlineCount };
        say({ event: "state", state: name, ...more, ...count });
      },
      onStored: (client_id) => say({ event: "stored", client_id }),
      onPulled: (remaining) => say({ event: "pulled", remaining }),
      onFrame: (opcode) => say({ event: "frame", opcode }),
      onError: (error) => say({ event: "error", error: String(error) }),
    });
    client.start();
  },
  time({ ms }) {
    clock.advance(ms);
    return { next: clock.next() };
  },
  acknowledge: ({ id }) => take(id).acknowledge(),
  reject: ({ id }) => take(id).reject(),
  report({ payload, client_id }) {
    try {
      return { client_id: client.report(fromHex(payload), client_id) };
    } catch (error) {
      if (error instanceof QueueFull) return { error: error.message };
      throw error;
    }
  },
  opened: ({ id }) => ({ client_id: client.opened(BigInt(id)) }),
  dismissed: ({ id }) => ({ client_id: client.dismissed(BigInt(id)) }),
  pull({ count }) {
    client.pull(count);
  },
  break_store({ broken }) {
    if (broken) store.save = () => { throw new Error("broken"); };
    else delete store.save;
  },
  nudge: () => client.nudge(),
  network: ({ name }) => client.network(name),
  close() {
    void client.close();
  },
  kill() {
    client.abandon();
    return { state: store.text };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { n, do: name, ...fields } = JSON.parse(line);
  let answer;
  try {
    answer = commands[name](fields);
  } catch (error) {
    answer = { error: String(error.stack) };
  }
  await null; // what was put off to the end of this turn
  say({ n, ...answer });
}
