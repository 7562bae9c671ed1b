// The driver: promises, events, sockets, what is kept over a reload, and who is shown a secret.

import assert from "node:assert/strict";
import test from "node:test";
import { Client, MemoryStorage } from "../dist/index.js";
import { Proof } from "../dist/scram.js";
import { browser, FakeSocket, flushed } from "./fakes.js";
import { chatMessage, entry, LIMITS } from "./side.js";

const kinds = (socket) => socket.frames.map(({ kind }) => kind);
const text = (bytes) => new TextDecoder().decode(bytes);

test("it connects by the subprotocol, logs in and resolves", async () => {
  const { client, socket } = browser();
  const connected = client.connect();
  assert.deepEqual([socket().url, socket().protocols],
    ["ws://127.0.0.1:7007/im", ["holdline-im.1"]]);
  assert.equal(socket().binaryType, "arraybuffer");
  await socket().letsIn();
  await connected;
  assert.deepEqual([client.state.name, client.state.account], ["online", "ann@x"]);
  await client.connect();
  assert.equal(FakeSocket.all.length, 1, "it is connected");
});

test("connecting rejects when the server does not let it in, and when it is closed", async () => {
  const { client, socket } = browser();
  const refused = client.connect();
  await socket().opens();
  socket().says("refused", { reason: 1, word: "bad_credentials" });
  await assert.rejects(refused, { code: "bad_credentials" });
  const closed = client.connect();
  client.close();
  await assert.rejects(closed, { code: "closed" });
});

test("a message is sent and resolves with its place", async () => {
  const { client, socket } = browser();
  client.connect();
  await socket().letsIn();
  const events = [];
  client.on("message", (message) => events.push(message.text));
  const off = client.on("queue", (queue) => events.push(queue.length));
  const sent = client.send("bob", "hello");
  const { fields } = socket().frames.at(-1);
  assert.deepEqual([fields.to, fields.content.kind, fields.content.text], ["bob", 1, "hello"]);
  assert.equal(client.queue.length, 1);
  socket().says("sent", { number: fields.number, id: 7n, seq: 3n, at_ms: 9n });
  const { id, seq, at, peer, clientId } = await sent;
  assert.deepEqual([id, seq, at, peer, clientId.length], [7n, 3, 9, "bob@x", 32]);
  assert.deepEqual(events, [1, "hello", 0]);
  off();
  client.send("bob", { extra: Uint8Array.of(1), kind: 1000, uncounted: true });
  assert.equal(events.length, 3, "nobody listens any more");
  const other = socket().frames.at(-1).fields.content;
  assert.deepEqual([other.kind, [...other.extra], other.uncounted], [1000, [1], true]);
});

test("a send that the server refuses rejects and is told", async () => {
  const { client, socket } = browser();
  client.connect();
  await socket().letsIn();
  const failed = [];
  client.on("failed", ({ queued, error }) => failed.push([queued.text, error.code]));
  const sent = client.send("nobody", "x");
  const { number } = socket().frames.at(-1).fields;
  socket().says("failed", { number, fault: 1, word: "unknown_account" });
  await assert.rejects(sent, { code: "unknown_account" });
  assert.deepEqual(failed, [["x", "unknown_account"]]);
});

test("what makes no sense rejects before it is sent", async () => {
  const { client } = browser({ queueMessagesMax: 1 });
  for (const said of [{ kind: 1.5, text: "x" }, { kind: 65_536, text: "x" }, { kind: -1 }, "",
    { clientId: "short", text: "x" }]) {
    await assert.rejects(client.send("bob", said), { code: "invalid" });
  }
  for (const options of [{ before: -1 }, { before: 0.5 }, { count: 0 }, { after: NaN }]) {
    await assert.rejects(client.history("bob", options), { code: "invalid" });
  }
  client.send("bob", "one");
  await assert.rejects(client.send("bob", "two"), { code: "queue_full" });
});

test("what was said is kept over a reload, and sent with the same id", async () => {
  const { client, make, socket } = browser();
  client.send("bob", { text: "later", extra: Uint8Array.of(0, 255) });
  const [{ clientId }] = client.queue;
  const again = make();
  assert.equal(again.device, client.device);
  assert.deepEqual(again.queue, client.queue);
  again.connect();
  await socket().letsIn();
  const { fields } = socket().frames.at(-1);
  assert.equal(Buffer.from(fields.client_id).toString("hex"), clientId);
  socket().says("sent", { number: fields.number, id: 1n, seq: 1n });
  assert.deepEqual(make().queue, []);
});

test("the place is kept after its message was told, and goes on from there", async () => {
  const { client, make, socket } = browser();
  const kept = [];
  client.on("message", () => kept.push(make().state.name && socket().frames.length));
  client.connect();
  await socket().letsIn();
  socket().says("message", entry(1));
  assert.equal(kept.length, 1);
  client.close();
  const again = make();
  again.connect();
  await socket().letsIn({ head: 3n, cursor: 0n });
  const pull = socket().frames.find(({ kind }) => kind === "pull");
  assert.equal(pull.fields.after, 1n);
});

test("a handler that throws is told of, and keeps nothing from going on", async () => {
  const { client, socket } = browser();
  client.connect();
  await socket().letsIn();
  const [heard, thrown] = [[], []];
  globalThis.reportError = (error) => thrown.push(error.message); // Node has none.
  client.on("message", () => {
    throw new Error("the application's");
  });
  client.on("message", (message) => heard.push(message.seq));
  socket().says("message", entry(1));
  socket().says("message", entry(2));
  assert.deepEqual([heard, thrown], [[1, 2], ["the application's", "the application's"]]);
});

test("a handler may say something at once", async () => {
  const { client, socket } = browser();
  client.connect();
  await socket().letsIn();
  client.on("message", ({ isOwn, from }) => isOwn || client.send(from, "answer"));
  socket().says("message", entry(1));
  assert.equal(socket().frames.at(-1).fields.to, "bob@x");
});

test("a history is asked for and comes", async () => {
  const { client, socket } = browser();
  await assert.rejects(client.history("bob"), { code: "disconnected" });
  client.connect();
  await socket().letsIn();
  const history = client.history("bob", { before: 9, count: 2 });
  const { number, from, count, backwards } = socket().frames.at(-1).fields;
  assert.deepEqual([from, count, backwards], [9n, 2, true]);
  socket().says("history", { number, messages: [chatMessage(8), chatMessage(7)], more: true });
  const { messages, hasMore } = await history;
  assert.deepEqual([messages.map(({ seq }) => seq), hasMore], [[7, 8], true]);
});

test("a connection that is lost is made again, and text in it is no IM", async () => {
  const { client, clock, socket } = browser();
  client.connect();
  await socket().letsIn();
  socket().onclose();
  assert.equal(client.state.name, "waiting");
  clock.advance(500);
  assert.equal(FakeSocket.all.length, 2);
  await socket().letsIn();
  const second = socket();
  second.onmessage({ data: "text" });
  assert.ok(second.isClosed);
  assert.equal(client.state.error.code, "server_malformed");
  clock.advance(1_000);
  assert.equal(FakeSocket.all.length, 3);
  client.close();
  assert.deepEqual([socket().isClosed, clock.timers], [true, 0], "nothing is left behind");
});

test("where the browser has no network any more it does not wait to be told of the end", async () => {
  const heard = new Map();
  globalThis.document = { addEventListener() {}, removeEventListener() {}, visibilityState: "visible" };
  globalThis.addEventListener = (name, handler) => heard.set(name, handler);
  globalThis.removeEventListener = (name) => heard.delete(name);
  try {
    const { client, socket } = browser();
    client.connect();
    await socket().letsIn();
    heard.get("offline")();
    assert.deepEqual([client.state.name, socket().isClosed], ["waiting", true]);
    heard.get("offline")();
    assert.equal(client.state.name, "waiting", "once is enough");
    heard.get("online")();
    assert.equal(client.state.name, "connecting");
    client.close();
    assert.equal(heard.size, 0);
  } finally {
    for (const name of ["document", "addEventListener", "removeEventListener"]) {
      delete globalThis[name];
    }
  }
});

test("an address that no socket takes is tried again like one that does not answer", async () => {
  const { client, clock } = browser({
    webSocket: class {
      constructor() {
        throw new SyntaxError("no");
      }
    },
  });
  client.connect();
  await flushed();
  assert.deepEqual([client.state.name, client.state.error.code], ["waiting", "unreachable"]);
  clock.advance(500);
  await flushed();
  assert.equal(client.state.name, "waiting");
});

test("a password is proved by SCRAM, and the server must prove itself", async () => {
  const { client, socket } = browser({ password: "pencil" });
  const connected = client.connect();
  await socket().opens();
  const login = socket().frames[0].fields;
  assert.equal(login.method, "SCRAM-SHA-256");
  assert.deepEqual([login.password.length, login.name], [0, "ann"]);
  const nonce = text(login.data).match(/^n,,n=ann,r=(.+)$/)[1];
  const data = new TextEncoder().encode(`r=${nonce}more,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=64`);
  socket().says("challenge", { data });
  while (!kinds(socket()).includes("proceed")) await flushed();
  socket().says("logged_in", { account: "ann@x", data: new TextEncoder().encode("v=AAAA") });
  await assert.rejects(connected, { code: "server_not_proved" });
});

test("the example of the standard comes out, and what is not ours is not answered", async () => {
  // RFC 7677 3.
  const proof = new Proof(crypto.subtle, "user", "pencil", "rOprNGfwEbeRWgbNEkqO");
  assert.equal(text(proof.first), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
  const answer = (challenge) => proof.answer(new TextEncoder().encode(challenge));
  const whole = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
  const { data, expected } = await answer(`${whole},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`);
  assert.equal(text(data), `c=biws,${whole},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=`);
  assert.equal(expected, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
  for (const challenge of ["r=other,s=QQ==,i=1", `${whole},s=QQ==,i=4000000000`, "",
    `${whole},s=QQ==,i=0`, `${whole},s=*,i=1`, "r=rOprNGfwEbeRWgbNEkqO,s=QQ==,i=1"]) {
    assert.equal(await answer(challenge), undefined, challenge);
  }
  const odd = new Proof(crypto.subtle, "a,b=c", "x", "n");
  assert.equal(text(odd.first), "n,,n=a=2Cb=3Dc,r=n");
});

test("a secret is shown to nobody but over wss or to this machine", async () => {
  const at = (url, more) => new Client({ url, account: "ann", storage: new MemoryStorage(), ...more });
  for (const url of ["wss://chat.example/im", "ws://localhost/im", "ws://[::1]:1/im",
    "ws://127.1.2.3/im", "ws://a.localhost/im"]) {
    at(url, { token: "t" });
  }
  for (const url of ["ws://chat.example/im", "ws://127.0.0.1.example/im", "ws://10.0.0.1/im"]) {
    assert.throws(() => at(url, { token: "t" }), { code: "insecure" }, url);
    at(url, { password: "proved by SCRAM" });
  }
  const { client, socket } = browser({ url: "ws://10.0.0.1/im", password: "p" });
  const connected = client.connect();
  await socket().opens();
  socket().says("refused", { reason: 4, word: "bad_method" });
  await assert.rejects(connected, { code: "bad_method" }, "and not in the clear then");
});

test("a token is asked for before each login", async () => {
  const tokens = ["first", "second"];
  const { client, clock, socket } = browser({ token: async () => tokens.shift() });
  client.connect();
  await socket().letsIn();
  assert.equal(text(socket().frames[0].fields.password), "first");
  socket().says("end", { reason: 16, word: "expired" });
  clock.advance(500);
  await socket().opens();
  assert.equal(text(socket().frames[0].fields.password), "second");
  const { client: other, socket: its } = browser({ token: () => Promise.reject(new Error("x")) });
  other.connect();
  await its().opens();
  assert.equal(other.state.error.code, "unavailable");
});

test("a storage that fails, or holds something else, costs no more than what it kept", async () => {
  const broken = {
    getItem() { throw new Error("x"); },
    setItem() { throw new Error("x"); },
    removeItem() { throw new Error("x"); },
  };
  const { client, socket } = browser({ storage: broken });
  client.connect();
  await socket().letsIn();
  client.send("bob", "hi");
  assert.equal(kinds(socket()).at(-1), "send");
  for (const [last, queue] of [["x", "{"], ["-1", "[1,{}]"], ["9".repeat(16), "7"]]) {
    const storage = new MemoryStorage();
    const prefix = "holdline-im:ws://127.0.0.1:7007/im:ann:";
    storage.setItem(`${prefix}last`, last);
    storage.setItem(`${prefix}queue`, queue);
    const { client: other } = browser({ storage });
    assert.deepEqual(other.queue, []);
  }
});

test("accounts and servers do not share what is kept, and forgetting forgets", () => {
  const { client, make, storage } = browser();
  const eve = make({ account: "eve" });
  const elsewhere = make({ url: "ws://localhost/im" });
  assert.equal(new Set([client.device, eve.device, elsewhere.device]).size, 3);
  client.send("bob", "x");
  client.forget();
  const again = make();
  assert.notEqual(again.device, client.device);
  assert.deepEqual(again.queue, []);
  assert.equal(make({ account: "eve" }).device, eve.device);
  assert.ok(storage.getItem("holdline-im:ws://127.0.0.1:7007/im:ann:queue") === null);
});

// ---- tokens

const HELLO = "68656c6c6f";
// HMAC-SHA-256 by OpenSSL: printf Initiator | openssl dgst -sha256 -hmac 68656c6c6f -binary | base64
const [INITIATOR, RESPONDER] = ["5HIc9uZaIvvk9KY2bKEOu7g9OsKkVyQ5H0k5ihYLxNY=", "wG6mzqvB8MJE8IyTEom+YPhtia3cRvFf91g+mHUtAL0="];

/** WebCrypto answers when it likes. */
async function logsIn(socket) {
  await socket.opens();
  while (socket.frames.length === 0) await flushed();
}

test("a login by a token proves it, does not show it, and has the server prove it", async () => {
  for (const [proof, name] of [[RESPONDER, "online"], [INITIATOR, "ended"], ["", "ended"]]) {
    const { client, socket } = browser({ loginToken: HELLO });
    client.connect().catch(() => undefined);
    await logsIn(socket());
    const { fields } = socket().frames[0];
    assert.deepEqual([fields.method, fields.name, fields.password.length],
      ["HT-SHA-256-NONE", "ann", 0]);
    const data = Buffer.from(fields.data);
    assert.equal(data.subarray(0, 4).toString(), "ann\0");
    assert.equal(data.subarray(4).toString("base64"), INITIATOR);
    assert.ok(!data.includes(HELLO));
    socket().says("logged_in", { ...LIMITS, data: Buffer.from(proof, "base64") });
    assert.equal(client.state.name, name);
  }
});

test("a client asks for a token, goes on by it, and has its tokens revoked", async () => {
  const { client, socket } = browser({ loginToken: HELLO });
  client.connect();
  await logsIn(socket());
  socket().says("logged_in", { ...LIMITS, data: Buffer.from(RESPONDER, "base64") });
  const asked = client.requestToken();
  const { kind, fields } = socket().frames.at(-1);
  assert.deepEqual([kind, fields.revoke], ["token", false]);
  socket().says("token", { number: fields.number, token: "00ff", until_ms: 7n });
  assert.deepEqual(await asked, { token: "00ff", until: 7 });
  const denied = client.requestToken();
  const { number } = socket().frames.at(-1).fields;
  socket().says("failed", { number, fault: 9, word: "forbidden" });
  await assert.rejects(denied, { code: "forbidden" });
  const revoked = client.revokeTokens();
  const revoke = socket().frames.at(-1).fields;
  assert.equal(revoke.revoke, true);
  socket().says("done", { number: revoke.number });
  await revoked;
  socket().onclose();
  client.nudge();
  await logsIn(socket());
  const mac = Buffer.from(socket().frames[0].fields.data).subarray(4).toString("base64");
  assert.notEqual(mac, INITIATOR, "by the new token");
});

test("a token is neither shown nor asked for where others could read it", async () => {
  const url = "ws://chat.example.org/im";
  assert.throws(() => browser({ url, loginToken: HELLO }), { code: "insecure" });
  const { client } = browser({ url });
  await assert.rejects(client.requestToken(), { code: "insecure" });
});

test("all of one conversation is searched without a text, and of all of them none is", async () => {
  const { client, socket } = browser();
  client.connect();
  await socket().letsIn();
  const asked = client.search("", { peer: "lunch@conference.x", count: 2 });
  const { kind, fields } = socket().frames.at(-1);
  assert.deepEqual([kind, fields.text, fields.with], ["search", "", "lunch@conference.x"]);
  socket().says("found", { number: fields.number, found: [entry(3)], before: 3n, more: true });
  const { messages, before, hasMore } = await asked;
  assert.deepEqual([messages.length, before, hasMore], [1, 3, true]);
  await assert.rejects(client.search(""), { code: "invalid" });
});
