// Behaviour that the conformance suite cannot see: hashes, order of actions, handlers, iteration, files.

import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Heartbeat } from "../dist/heartbeat.js";
import { toHex } from "../dist/hex.js";
import { Machine } from "../dist/machine.js";
import { Client, Ended, FileStore, MemoryStore, tcpConnector } from "../dist/node.js";
import { hmacSha256, sha256 } from "../dist/sha256.js";
import * as wire from "../dist/wire.js";

const bytes = (length) => Uint8Array.from({ length }, (_, at) => (at * 7) & 0xff);

test("SHA-256 and HMAC are those of Node, for every length around a block", () => {
  for (let length = 0; length < 200; length++) {
    const data = bytes(length);
    assert.equal(toHex(sha256(data)), createHash("sha256").update(data).digest("hex"));
    const mac = createHmac("sha256", data).update(data).digest("hex");
    assert.equal(toHex(hmacSha256(data, data)), mac);
  }
});

const server = {
  bindAck: (more = {}) => wire.encode(wire.frame(wire.Opcode.bindAck, {
    result: 0, heartbeat: 300, resume_token: bytes(32), session_epoch: 1n, ...more })),
  msg: (...ids) => wire.encode(wire.frame(wire.Opcode.msg, {}, wire.concat(ids.map((id) =>
    wire.concat([wire.bigEndian(id, 8), new Uint8Array(9), Uint8Array.of(0, 2, 104, 105)]))))),
};

const heartbeat = { shortest: 30, first: 120, longest: 1_800 };
const options = {
  addresses: ["127.0.0.1:1"], product: "demo", device: "dev", heartbeat, heartbeatWish: 900,
  random: () => 0.5, randomBytes: bytes, backoffFirstMs: 1_000, backoffLongestMs: 60_000,
  frameBytesMax: 65_536,
};

function boundMachine() {
  const machine = new Machine(options, null);
  machine.start(0);
  machine.connected(0, 0, {});
  machine.received(0, server.bindAck());
  machine.take(0);
  return machine;
}

test("a wish for the heartbeat is sent", () => {
  const machine = new Machine(options, null);
  machine.start(0);
  machine.connected(0, 0, {});
  const { bytes: sent } = machine.take(0).find((action) => action.do === "send");
  const [{ properties }] = wire.decode(sent, 65_536);
  assert.deepEqual(properties.heartbeat_wish, [900, 30, 1_800]);
});

test("an id is saved before the server hears of it", () => {
  const machine = boundMachine();
  machine.received(0, server.msg(7));
  machine.take(0);
  machine.acknowledge(7n);
  const [first, second] = machine.take(0);
  assert.deepEqual([first.do, first.state.seen, second.do], ["save", ["7"], "send"]);
});

test("a Report is saved before it is sent", () => {
  const machine = boundMachine();
  machine.report(0, bytes(2), "one");
  const [first, second] = machine.take(0);
  assert.deepEqual(first.state.reports.queue, [[1, "one", "0007"]]);
  assert.equal(second.do, "send");
});

test("the state of another device is not used", () => {
  const saved = boundMachine().saved();
  assert.notEqual(new Machine(options, saved).saved().session, null);
  const other = new Machine(options, { ...saved, of: ["demo", "other"] });
  assert.equal(other.saved().session, null);
});

test("any network is found and few connections are lost", () => {
  for (let nat = 31; nat < 2_000; nat += 7) {
    const it = new Heartbeat(heartbeat);
    let lost = 0;
    for (let at = 0; at < 60; at++) {
      const interval = it.interval(1_800);
      assert.ok(interval >= 30 && interval <= 1_800);
      if (interval < nat) it.survived(interval, 1_800);
      else lost += Number(it.failed(interval, 1_800));
    }
    const best = Math.min(nat, 1_800);
    assert.ok(it.interval(1_800) + Math.max(10, best / 8) + 1 >= best, `NAT of ${nat} s`);
    assert.ok(lost <= 8, `NAT of ${nat} s: ${lost} lost`);
  }
});

/** A connector whose server answers at once; `sent` collects opcodes and acknowledged ids. */
function fakes(answers = [server.bindAck(), server.msg(1, 2, 3)]) {
  const sent = { opcodes: [], ids: [] };
  const connector = (_, events) => {
    queueMicrotask(() => {
      events.opened(true);
      for (const answer of answers) events.received(answer);
    });
    return {
      close() {},
      send(data) {
        sent.opcodes.push(data[3]);
        if (data[3] === wire.Opcode.msgAck) {
          for (let at = 9; at < data.length; at += 8) sent.ids.push(data[at + 7]);
        } else if (data[3] === wire.Opcode.unbind) {
          queueMicrotask(() => events.received(wire.encode(wire.frame(wire.Opcode.unbindAck))));
        }
      },
    };
  };
  return { sent, client: (more) => new Client({
    address: "127.0.0.1:1", product: "demo", device: "dev", connector, ...more }) };
}

test("asking for the next push acknowledges the one before", async () => {
  const { sent, client } = fakes();
  const it = client();
  it.start();
  const seen = [];
  for await (const push of it) {
    await null;
    assert.deepEqual(sent.ids, seen);
    seen.push(Number(push.id));
    assert.equal(push.text, "hi");
    if (seen.length === 3) break;
  }
  await it.close();
  assert.deepEqual(sent.ids, [1, 2], "the third one is held by the loop that ended");
});

test("a handler that fails keeps its push, and handlers run one at a time", async () => {
  const { sent, client } = fakes();
  const errors = [];
  let running = 0;
  await new Promise((resolve) => {
    const it = client({
      onError: (error) => errors.push(error.message),
      async onPush(push) {
        running += 1;
        assert.equal(running, 1);
        await null;
        running -= 1;
        if (push.id === 2n) throw new Error("disk full");
        if (push.id === 3n) queueMicrotask(() => queueMicrotask(() => resolve(it.close())));
      },
    });
    it.start();
  });
  assert.deepEqual([sent.ids, errors], [[1, 3], ["disk full"]]);
});

test("credentials are asked before each connection", async () => {
  const { client } = fakes();
  const errors = [];
  let asked = 0;
  let now = 0;
  let ring;
  const it = client({
    clock: { now: () => now, wall: () => 0, at: (_, call) => { ring = call; return () => {}; } },
    onError: (error) => errors.push(error.message),
    async credentials() {
      if (asked++ === 0) throw new Error("no token today");
      return { token: "fresh" };
    },
  });
  it.start();
  while (it.state.name === "connecting") await null;
  assert.deepEqual([it.state.name, it.state.why], ["waiting", "credentials_failed"]);
  now = it.state.until;
  ring();
  await it.bound();
  assert.deepEqual([asked, errors], [2, ["no token today"]]);
  await it.close();
});

test("a refusal is thrown", async () => {
  const { client } = fakes([server.bindAck({ result: 20 })]);
  const it = client();
  it.start();
  const isEnded = (error) => error instanceof Ended && error.why === "auth_failed" &&
    error.result === 20;
  await assert.rejects(it.bound(), isEnded);
  await assert.rejects(async () => {
    for await (const push of it) assert.fail(String(push));
  }, isEnded);
});

test("a page's secure server is not left for an address that has no name", async () => {
  const redirect = wire.encode(wire.frame(wire.Opcode.redirect,
    { result: 33, addrs: ["10.0.0.2:7000"] }));
  for (const [url, next] of [["wss://push.example/miop", "wss://push.example/miop"],
    ["ws://push.example/miop", "ws://10.0.0.2:7000/miop"]]) {
    const asked = [];
    const it = new Client({
      address: url, product: "demo", device: "dev",
      connector(address, events) {
        asked.push(address);
        if (asked.length === 1) {
          queueMicrotask(() => {
            events.opened(true);
            events.received(server.bindAck());
            events.received(redirect);
          });
        }
        return { send() {}, close() {} };
      },
    });
    it.start();
    await null;
    await null;
    assert.deepEqual(asked, [url, next]);
    await it.close();
  }
});

test("a file keeps the last state for its owner", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdline-miop-"));
  try {
    const store = new FileStore(join(folder, "state"));
    assert.equal(store.load(), null);
    store.save("one");
    store.save("two");
    assert.equal(new FileStore(join(folder, "state")).load(), "two");
    assert.equal(statSync(join(folder, "state")).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(folder), ["state"]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a damaged state is a new beginning", () => {
  for (const text of ["{", "[]", '{"v": 9}']) {
    const it = new Client({ address: "127.0.0.1:1", product: "demo", device: "dev",
      store: new MemoryStore(text) });
    assert.equal(it.reportsWaiting, 0);
  }
});

test("nonsense is refused when the client is made", () => {
  const good = { address: "127.0.0.1:1", product: "demo", device: "dev" };
  assert.ok(new Client(good));
  for (const bad of [{ device: "a b" }, { device: "" }, { product: "p".repeat(33) },
    { address: [] }, { tags: ["a b"] }, { token: "" }, { token: "t".repeat(513) }, { pins: ["sha256/AAAA"] }, { proxy: "ftp://x" },
    { heartbeat: { shortest: 60, first: 30, longest: 90 } },
    { pins: [`sha256/${"A".repeat(43)}=`] }]) {
    assert.throws(() => new Client({ ...good, ...bad }), RangeError, JSON.stringify(bad));
  }
});

test("a damaged frame is a frame, a fault or incomplete", () => {
  let state = 1;
  const random = (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * below);
  };
  const good = [server.bindAck({ server_time: 5n }), server.msg(1, 2)];
  const faults = new Set();
  for (let at = 0; at < 20_000; at++) {
    const data = good[random(good.length)].slice();
    for (let count = random(3); count >= 0; count--) {
      data[2 + random(data.length - 2)] = random(256);
    }
    try {
      wire.decode(data, 65_536);
    } catch (error) {
      assert.ok(error instanceof wire.Fault, String(error.stack));
      faults.add(error.message);
    }
  }
  for (const name of ["bad_length", "bad_property", "bad_record", "bad_flags", "too_large",
    "critical_property", "missing_property"]) assert.ok(faults.has(name), name);
});

test("a closed connection that the other side does not end is dropped after five seconds", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const listener = net.createServer({ allowHalfOpen: true }).listen(0, "127.0.0.1");
  await once(listener, "listening");
  const asked = once(listener, "connection");
  let connection;
  await new Promise((opened) => {
    connection = tcpConnector()(`127.0.0.1:${listener.address().port}`, {
      opened, received() {}, closed() {} });
  });
  const [peer] = await asked;
  peer.resume();
  const ended = once(peer, "end");
  connection.close();
  await ended;
  t.mock.timers.tick(5_000);
  const dropped = new Promise((done) => peer.on("error", done));
  const write = () => peer.destroyed || peer.write("x", () => setImmediate(write));
  write(); // the first byte for a dropped connection is answered with a reset
  assert.match(String((await dropped).code), /ECONNRESET|EPIPE/);
  listener.close();
});
