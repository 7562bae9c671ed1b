// The machine under a told clock: login, the queue, the inbox, silence, and coming back.

import assert from "node:assert/strict";
import test from "node:test";
import { chatMessage, entry, LIMITS, queued, serverFrame, Side } from "./side.js";

const refused = (reason, retry_after_ms = 0) => ({ reason, word: "word", retry_after_ms });

// ---- login

test("it says who it is, and is told its terms", () => {
  const side = new Side();
  side.do((machine, now) => machine.connect(now));
  assert.deepEqual(side.takeTold(), ["connecting"]);
  side.opens({ password: Uint8Array.of(1) });
  const [{ kind, fields }] = side.asked;
  assert.equal(kind, "login");
  assert.deepEqual([fields.name, fields.device, fields.silence_s], ["ann", "web", 50]);
  assert.deepEqual(fields.password, Uint8Array.of(1));
  side.says("logged_in", LIMITS);
  assert.deepEqual(side.takeTold(), ["in step"]);
  assert.equal(side.machine.state.account, "ann@x");
});

test("a server that does not let it in is not called again by itself", () => {
  for (const [reason, code] of [[1, "bad_credentials"], [2, "not_authorized"], [3, "name_invalid"],
    [4, "bad_method"], [16, "expired"], [37, "unknown_version"]]) {
    const side = new Side();
    side.do((machine, now) => machine.connect(now));
    side.opens();
    side.says("refused", refused(reason));
    assert.deepEqual(side.takeTold(), ["connecting", "ended"]);
    assert.equal(side.machine.state.error.code, code);
    side.after(1e9);
    assert.ok(!side.isOpen && side.machine.wakeAt === Infinity);
    side.online();
    assert.equal(side.machine.state.name, "online", "when it is told to");
  }
});

test("one that is busy is called again after the time it said, and some chance", () => {
  const side = new Side();
  side.do((machine, now) => machine.connect(now));
  side.opens();
  side.says("refused", refused(6, 7_000));
  assert.deepEqual([side.machine.state.name, side.machine.state.retryMs], ["waiting", 7_500]);
  side.do((machine, now) => machine.nudge(now));
  assert.ok(!side.isOpen, "not even when it is woken");
  side.after(7_499);
  assert.ok(!side.isOpen);
  side.after(1);
  assert.ok(side.isOpen);
});

test("another server that is named is used at once, three times at most", () => {
  const side = new Side({ urls: ["wss://one.example/im"] });
  side.do((machine, now) => machine.connect(now));
  const urls = [];
  for (const server of ["two.example:1", "three.example:2", "one.example:443", "two.example:1"]) {
    side.opens();
    side.says("refused", { ...refused(11), server });
    urls.push(side.url);
  }
  assert.deepEqual(urls, ["wss://two.example:1/im", "wss://three.example:2/im",
    "wss://one.example/im", "wss://one.example/im"]);
  assert.equal(side.machine.state.name, "waiting");
});

test("SCRAM is answered, and a server that does not prove itself is left", () => {
  const proof = { data: Uint8Array.of(7), expected: "v=right" };
  for (const [data, name] of [["v=right", "online"], ["v=wrong", "ended"], ["", "ended"]]) {
    const side = new Side({ methods: ["scram", "plain"] });
    side.do((machine, now) => machine.connect(now));
    assert.equal(side.method, "scram");
    side.opens({ method: "SCRAM-SHA-256" });
    side.says("challenge", { data: new TextEncoder().encode("r=x") });
    assert.equal(side.challenge, "r=x");
    side.do((machine, now) => machine.proceed(now, side.link, proof));
    assert.deepEqual(side.takeAsked(), ["login", "proceed"]);
    side.says("logged_in", { ...LIMITS, data: new TextEncoder().encode(data) });
    assert.equal(side.machine.state.name, name, data);
  }
  const side = new Side({ methods: ["scram"] });
  side.do((machine, now) => machine.connect(now));
  side.opens();
  side.says("logged_in", LIMITS);
  assert.equal(side.machine.state.error.code, "server_not_proved", "without a challenge at all");
});

test("a method that the server does not know is followed by the next one", () => {
  const side = new Side({ methods: ["scram", "plain"] });
  side.do((machine, now) => machine.connect(now));
  side.opens();
  side.says("refused", refused(4));
  assert.deepEqual([side.isOpen, side.method], [true, "plain"]);
  side.opens();
  side.says("refused", refused(4));
  assert.equal(side.machine.state.error.code, "bad_method");
});

test("a token that has expired is asked for again where one can be had", () => {
  const side = new Side({ methods: ["plain"], renewsToken: true }).online();
  side.says("end", refused(16));
  assert.equal(side.machine.state.name, "waiting");
});

test("what answers neither the connection nor the login in time is called again", () => {
  const side = new Side();
  side.do((machine, now) => machine.connect(now));
  side.after(20_000);
  assert.equal(side.machine.state.error.code, "timed_out");
  side.after(500);
  side.opens();
  side.after(20_000);
  assert.equal(side.machine.state.name, "waiting");
});

test("a server that speaks something else is left", () => {
  for (const bytes of [[0xff, 0xff, 0xff, 0xff, 0xff], [2, 0x5a, 0], [0xff, 0xff, 0xff, 1],
    [2, 0x52, 5], [3, 0x3a, 1, 8]]) {
    const side = new Side();
    side.do((machine, now) => machine.connect(now));
    side.opens();
    side.bytes(Uint8Array.from(bytes));
    assert.equal(side.machine.state.name, "waiting", `${bytes}`);
    assert.equal(side.machine.state.error.code, "server_malformed");
  }
  const side = new Side().online();
  side.says("logged_in", LIMITS);
  assert.equal(side.machine.state.name, "waiting", "a second LoggedIn");
  const other = new Side();
  other.do((machine, now) => machine.connect(now));
  other.opens();
  other.says("logged_in", { ...LIMITS, head: 2n ** 63n });
  assert.equal(other.machine.state.error.code, "server_malformed", "a place beyond 2^53");
});

// ---- coming back

test("the waits double from a second to a minute, each drawn whole", () => {
  const side = new Side();
  side.do((machine, now) => machine.connect(now));
  const waits = [];
  for (let n = 0; n < 9; n++) {
    side.lose();
    waits.push(side.machine.state.retryMs);
    side.after(side.machine.state.retryMs);
  }
  assert.deepEqual(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  side.opens();
  side.says("logged_in", LIMITS);
  side.lose();
  assert.equal(side.machine.state.retryMs, 30_000, "a session that ends at once was none");
  side.after(30_000);
  side.opens();
  side.says("logged_in", LIMITS);
  side.after(10_000);
  side.lose();
  assert.equal(side.machine.state.retryMs, 500, "a good one");
});

test("a nudge makes a wait short, and asks a connection whether it lives", () => {
  const side = new Side().online();
  side.lose();
  side.do((machine, now) => machine.nudge(now));
  assert.ok(side.isOpen);
  side.opens();
  side.says("logged_in", LIMITS);
  side.takeAsked();
  side.do((machine, now) => machine.nudge(now));
  assert.deepEqual(side.takeAsked(), ["ping"]);
  side.after(9_999);
  assert.equal(side.machine.state.name, "online");
  side.after(1);
  assert.equal(side.machine.state.error.code, "timed_out");
});

test("what an older connection says or does is nobody's", () => {
  const side = new Side().online();
  const old = side.link;
  side.lose();
  side.after(500);
  side.do((machine, now) => machine.lost(now, old));
  side.do((machine, now) => machine.received(now, old, serverFrame("end", refused(14))));
  assert.equal(side.machine.state.name, "connecting");
});

test("another connection of the device ends this one for good", () => {
  const side = new Side().online();
  side.says("end", refused(14));
  assert.equal(side.machine.state.error.code, "taken_over");
  assert.ok(!side.isOpen);
});

test("closing says farewell, and opens nothing any more", () => {
  const side = new Side().online();
  side.takeAsked();
  side.do((machine) => machine.close());
  assert.deepEqual(side.takeAsked(), ["goodbye"]);
  assert.deepEqual([side.isOpen, side.machine.state.name], [false, "idle"]);
  side.after(1e9);
  assert.ok(!side.isOpen);
});

// ---- signs of life

test("who has nothing to say pings, and who hears nothing then connects anew", () => {
  const side = new Side().online();
  side.takeAsked();
  side.after(299_999);
  assert.deepEqual(side.takeAsked(), []);
  side.after(1);
  assert.deepEqual(side.takeAsked(), ["ping"]);
  side.says("pong");
  side.after(299_999);
  assert.deepEqual(side.takeAsked(), []);
  side.after(1);
  side.after(29_999);
  assert.equal(side.machine.state.name, "online");
  side.after(1);
  assert.equal(side.machine.state.error.code, "timed_out");
});

// ---- the queue

test("a message is sent, told when it is stored, and never again", () => {
  const side = new Side().online();
  side.takeTold();
  side.send(1);
  const [send] = side.sends();
  assert.deepEqual([send.to, send.content.text, send.client_id[15]], ["bob", "said 1", 1]);
  side.stored(send.number, 4);
  assert.deepEqual(side.takeTold(), ["said 1", "sent 4"]);
  side.stored(send.number, 4);
  assert.deepEqual([side.takeTold(), side.machine.outbox.queued], [[], []]);
});

test("what was said without a connection is sent in its order, one of a conversation at a time",
  () => {
    const side = new Side();
    for (const [number, to] of [[1, "bob"], [2, "eve"], [3, "bob@x"], [4, "bob"]]) {
      side.send(number, { to });
    }
    side.online();
    const [one, two, ...none] = side.sends();
    assert.deepEqual([one.content.text, two.content.text, none], ["said 1", "said 2", []]);
    side.stored(one.number, 1);
    const [three] = side.sends();
    assert.equal(three.content.text, "said 3", "the same conversation by its whole name");
    side.stored(two.number, 1);
    assert.deepEqual(side.sends(), []);
    side.stored(three.number, 2);
    assert.equal(side.sends()[0].content.text, "said 4");
  });

test("after a connection is lost it is sent again with the same id", () => {
  const side = new Side().online();
  side.send(1);
  const [first] = side.sends();
  side.lose();
  side.online();
  const [again] = side.sends();
  assert.deepEqual(again.client_id, first.client_id);
  side.takeTold();
  side.stored(again.number, 1, { again: true });
  assert.deepEqual(side.takeTold(), ["said 1", "sent 1"]);
});

test("what the server cannot take now is sent again later, and holds the next of its row", () => {
  const side = new Side().online();
  side.send(1);
  side.send(2);
  const [first] = side.sends();
  side.says("failed", { number: first.number, fault: 5, word: "busy" });
  assert.deepEqual(side.sends(), []);
  side.after(1_000);
  const [again] = side.sends();
  assert.deepEqual(again.client_id, first.client_id);
  side.says("failed", { number: again.number, fault: 6, word: "store_full" });
  side.after(1_999);
  assert.deepEqual(side.sends(), []);
  side.after(1);
  side.stored(side.sends()[0].number, 1);
  assert.equal(side.sends()[0].content.text, "said 2");
});

test("what the server refuses is given up, and the next one goes", () => {
  const side = new Side().online();
  for (const [fault, code] of [[1, "unknown_account"], [2, "conflict"], [3, "too_large"],
    [4, "invalid"], [99, "unspecified"]]) {
    side.send(fault);
    const [{ number }] = side.sends();
    side.takeTold();
    side.says("failed", { number, fault, word: code });
    assert.deepEqual(side.takeTold(), [`failed ${code}`]);
  }
  assert.deepEqual(side.machine.outbox.queued, []);
});

test("what is larger than the server allows is not sent at all", () => {
  const side = new Side();
  side.send(1, { text: "ü".repeat(33) });
  side.send(2, { text: "ü".repeat(32) });
  side.online();
  assert.ok(side.takeTold().includes("failed too_large"));
  assert.deepEqual(side.sends().map(({ content }) => content.text.length), [32]);
  side.send(3, { extra: new Uint8Array(9) });
  assert.ok(side.takeTold().includes("failed too_large"));
});

test("the queue has room for so many messages and so many bytes", () => {
  const side = new Side();
  for (let number = 0; number < 10; number++) side.send(number);
  assert.throws(() => side.send(10), { code: "queue_full" });
  const other = new Side();
  other.send(1, { text: "x".repeat(600) });
  assert.throws(() => other.send(2, { text: "x".repeat(401) }), { code: "queue_full" });
  other.send(3, { text: "x".repeat(400) });
});

test("a queue that was kept is sent after a start", () => {
  const side = new Side({}, { last: 0, queue: [queued(1), queued(2)] }).online();
  assert.deepEqual(side.sends().map(({ content }) => content.text), ["said 1"]);
});

// ---- the inbox

test("a device that is behind pulls page by page, tells each once and acknowledges", () => {
  const side = new Side().online({ head: 5n, cursor: 1n });
  side.takeTold();
  assert.deepEqual(side.takeAsked(), ["login", "pull 1"]);
  const page = (from, upto) => ({
    number: 0xffffffff, upto: BigInt(upto), head: 5n,
    entries: Array.from({ length: upto - from + 1 }, (_, at) => entry(from + at)),
  });
  side.says("page", page(2, 3));
  assert.deepEqual([side.takeAsked(), side.last], [["pull 3"], 3]);
  side.says("page", page(4, 5));
  assert.deepEqual(side.takeTold(), ["text 2", "text 3", "text 4", "text 5", "in step"]);
  assert.deepEqual(side.takeAsked(), []);
  side.after(1_000);
  assert.deepEqual(side.takeAsked(), ["acknowledge 5"]);
  side.says("message", entry(6));
  side.says("message", entry(6));
  assert.deepEqual(side.takeTold(), ["text 6"], "once");
  side.after(999);
  assert.deepEqual(side.takeAsked(), []);
  side.after(1);
  assert.deepEqual(side.takeAsked(), ["acknowledge 6"]);
});

test("many at once are acknowledged before the server stops", () => {
  const side = new Side().online();
  side.takeAsked();
  for (let place = 1; place <= 64; place++) side.says("message", entry(place));
  assert.deepEqual(side.takeAsked(), ["acknowledge 32", "acknowledge 64"]);
});

test("a gap, and a Notify, are pulled", () => {
  const side = new Side().online();
  side.takeAsked();
  side.takeTold();
  side.says("message", entry(2));
  assert.deepEqual([side.takeAsked(), side.takeTold()], [["pull 0"], ["online"]]);
  const pages = { number: 0xffffffff, head: 2n, upto: 2n, entries: [entry(1), entry(2)] };
  side.says("page", pages);
  assert.deepEqual(side.takeTold(), ["text 1", "text 2", "in step"]);
  side.says("notify", { head: 4n });
  assert.deepEqual(side.takeAsked(), ["pull 2"]);
  side.says("notify", { head: 5n });
  assert.deepEqual(side.takeAsked(), [], "one at a time");
  side.says("failed", { number: 0xffffffff, fault: 5, word: "busy" });
  assert.deepEqual(side.takeAsked(), []);
  side.after(1_000);
  assert.deepEqual(side.takeAsked().at(-1), "pull 2", "again, later");
});

test("what the device sent itself is no gap, but where it heard a Notify", () => {
  const side = new Side().online();
  side.send(1);
  side.stored(side.sends()[0].number, 1);
  side.takeTold();
  side.says("message", entry(2));
  assert.deepEqual([side.takeTold(), side.takeAsked()], [["text 2"], []]);
  side.send(2);
  side.stored(side.sends()[0].number, 2);
  side.says("message", entry(5));
  assert.deepEqual(side.takeAsked(), ["pull 2"], "of three one was its own");
  side.says("page", { number: 0xffffffff, upto: 5n, head: 5n, entries: [] });
  side.send(3);
  side.stored(side.sends()[0].number, 3);
  side.says("notify", { head: 7n });
  side.says("message", entry(7));
  side.says("page", {
    number: 0xffffffff, upto: 7n, head: 7n,
    entries: [entry(6, { from: "ann@x", client_id: clientId(3) }), entry(7)],
  });
  assert.deepEqual(side.takeTold().filter((it) => it === "text 7"), ["text 7"]);
});

test("a Sent that is given again says nothing of the inbox: a gap is pulled", () => {
  const side = new Side().online();
  side.send(1);
  side.stored(side.sends()[0].number, 1, { again: true });
  side.says("message", entry(2));
  assert.deepEqual(side.takeAsked(), ["pull 0"]);
});

const clientId = (number) => Uint8Array.from({ length: 16 }, (_, at) => (at === 15 ? number : 0));

test("an own message that a page has is told once: by its Sent, or by the page", () => {
  const own = (place, number) => entry(place, { from: "ann@x", client_id: clientId(number) });
  const side = new Side().online();
  side.send(1);
  side.stored(side.sends()[0].number, 1);
  side.send(2);
  const [unanswered] = side.sends();
  side.takeTold();
  side.says("notify", { head: 3n });
  side.says("page", {
    number: 0xffffffff, upto: 3n, head: 3n, entries: [own(1, 1), own(2, 2), own(3, 9)],
  });
  assert.deepEqual(side.takeTold(), ["online", "text 2", "sent 2", "text 3", "in step"]);
  side.stored(unanswered.number, 2);
  assert.deepEqual([side.takeTold(), side.machine.outbox.queued], [[], []]);
});

test("a device that comes back elsewhere than at its cursor pulls first", () => {
  const remembered = { last: 4, queue: [] };
  const side = new Side({}, remembered).online({ head: 4n, cursor: 2n });
  assert.deepEqual(side.takeAsked(), ["login", "acknowledge 4", "pull 4"]);
  const same = new Side({}, remembered).online({ head: 4n, cursor: 4n });
  assert.deepEqual(same.takeAsked(), ["login"], "nothing to ask");
  const other = new Side({}, remembered).online({ head: 3n, cursor: 1n });
  assert.deepEqual(other.takeAsked(), ["login", "pull 1"], "another inbox than it knew");
});

// ---- history

test("a history comes oldest first, whichever way it was asked", () => {
  const side = new Side().online();
  const ask = (number, asked) =>
    side.do((machine, now) => machine.history(now, number, { peer: "bob", count: 9, ...asked }));
  ask(1, { before: 0 });
  ask(2, { before: 0, after: 2 });
  const [, first, second] = side.asked.splice(0);
  assert.deepEqual([first.fields.backwards, first.fields.from], [true, 0n]);
  assert.deepEqual([second.fields.backwards, second.fields.from], [false, 2n]);
  side.takeTold();
  const { number } = first.fields;
  side.says("history", { number, messages: [chatMessage(3), chatMessage(2)], more: true });
  side.says("history", { number: second.fields.number, messages: [chatMessage(3)] });
  side.says("history", { number: 77, messages: [chatMessage(3)] });
  const [back, forth] = side.takeTold();
  assert.deepEqual([back.messages.map(({ seq }) => seq), back.hasMore], [[2, 3], true]);
  assert.deepEqual([forth.messages.map(({ seq }) => seq), forth.hasMore], [[3], false]);
  const [message] = back.messages;
  assert.deepEqual([message.peer, message.isOwn, message.id], ["bob@x", false, 2n]);
});

test("a history needs a connection, and says when it went", () => {
  const side = new Side();
  const ask = () => side.do((machine, now) => machine.history(now, 1, { peer: "b", before: 0 }));
  ask();
  assert.equal(side.takeTold()[0].code, "disconnected");
  side.online();
  side.do((machine, now) => machine.history(now, 2, { peer: "bob", before: 0, count: 1 }));
  side.takeTold();
  side.lose();
  assert.deepEqual(side.takeTold().map((it) => it.code ?? it), ["disconnected", "waiting"]);
  side.online();
  side.do((machine, now) => machine.history(now, 3, { peer: "B!", before: 0, count: 1 }));
  const { number } = side.asked.at(-1).fields;
  side.takeTold();
  side.says("failed", { number, fault: 4, word: "invalid" });
  assert.equal(side.takeTold()[0].code, "invalid");
});
