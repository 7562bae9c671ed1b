// What an account knows of its conversations: what is asked, what is told, and the list by itself.

import assert from "node:assert/strict";
import test from "node:test";
import {
  changesOf, CONVERSATION_SETTINGS, eventOf, excerptOf, pageOf, unknownConversation, UNREAD_MAX,
} from "../dist/conversation.js";
import { ConversationList } from "../dist/conversation-list.js";
import {
  listRequest, readRequest, recallRequest, setRequest,
} from "../dist/conversation-requests.js";
import { INBOX_EVENT, SERVER_FRAME } from "../dist/frames.js";
import { messageOf } from "../dist/message.js";
import { message, WireFault } from "../dist/wire.js";
import { browser, flushed } from "./fakes.js";
import { chatMessage, entry, Side } from "./side.js";
import { schema } from "./vectors.js";
import { randomOf } from "./world.js";

const event = (place, given) => message(INBOX_EVENT, { seq: BigInt(place), with: "bob@x", ...given });
const said = (seq, given) => messageOf(chatMessage(seq, given), "ann@x");
const kept = (peer, place, given = {}) => ({ ...unknownConversation(peer), place, ...given });
const page = (upto, conversations, hasMore = false) => ({ upto, conversations, hasMore });
const peers = (list) => list.all.map(({ peer }) => peer);

/** A list that has been read: what the server says of these. */
function begun(upto, conversations, most = 100) {
  const list = new ConversationList(most);
  list.online(false);
  assert.deepEqual(list.order(0), { peer: "", before: 0 });
  list.page(page(upto, conversations));
  return list;
}

// ---- the wire

test("settings are those of the schema", () => {
  const { values } = schema();
  const numbers = Object.entries(values).filter(([name]) => name.startsWith("SETTING_"))
    .filter(([, number]) => number > 0);
  const expected = CONVERSATION_SETTINGS.map((name, at) => [`SETTING_${name.toUpperCase()}`, at + 1]);
  assert.deepEqual(numbers, expected);
  assert.deepEqual(changesOf({ draft: "x", pin: true, hide: false }), [
    { setting: 1, on: true, draft: "" }, { setting: 3, on: false, draft: "" },
    { setting: 4, on: false, draft: "x" },
  ]);
  assert.deepEqual(changesOf({}), []);
});

test("an event is one of three, and what a later version added is none", () => {
  const told = { place: 7, peer: "bob@x", read: undefined, peerRead: undefined, change: undefined };
  assert.deepEqual(eventOf(event(7, { read: 3n })), { ...told, read: 3 });
  assert.deepEqual(eventOf(event(7, { peer_read: 4n })), { ...told, peerRead: 4 });
  const pin = { setting: 1, on: true, draft: "" };
  assert.deepEqual(eventOf(event(7, { change: pin })),
    { ...told, change: { setting: "pin", isOn: true } });
  assert.deepEqual(eventOf(event(7, { change: { ...pin, setting: 4, draft: "d" } })).change,
    { setting: "draft", draft: "d" });
  for (const given of [{}, { change: { ...pin, setting: 5 } }, { change: { ...pin, setting: 0 } },
    { with: "", read: 3n }]) {
    assert.equal(eventOf(event(7, given)), undefined);
  }
  assert.throws(() => eventOf(event(7, { read: 2n ** 60n })), WireFault);
});

test("an excerpt is cut by characters, and counts what is beside the text", () => {
  const long = excerptOf(said(1, { text: "🙂".repeat(300) }));
  assert.deepEqual([Array.from(long.text).length, long.isWhole], [256, false]);
  const short = excerptOf(said(2));
  assert.deepEqual([short.text, short.isWhole, short.isOwn, short.at], ["text 2", true, false,
    1_700_000_000_002]);
  const { text, kind, uncounted } = said(3);
  const more = { text, kind, uncounted, extra: Uint8Array.of(1) };
  assert.equal(excerptOf({ ...said(3), ...more }).isWhole, false);
});

test("a page of the list is what the wire says of each", () => {
  const table = SERVER_FRAME.conversations.table.conversations.table;
  const last = message(table.last.table, { id: 9n, at_ms: 5n, from: "ann@x", kind: 1, text: "t" });
  const one = message(table, {
    with: "bob@x", place: 8n, last_seq: 7n, last, read: 6n, peer_read: 5n, unread: 99_999,
    pinned: true, hidden: true, draft: "d", left: true, said_seq: 6n, mentions: 7,
  });
  const { conversations: [found], upto, hasMore } = pageOf(
    { number: 1, upto: 9n, conversations: [one], more: true }, "ann@x");
  assert.deepEqual([upto, hasMore], [9, true]);
  assert.deepEqual(found, {
    peer: "bob@x", place: 8, seq: 7, read: 6, peerRead: 5, unread: UNREAD_MAX, isPinned: true,
    isMuted: false, isHidden: true, draft: "d", hasLeft: true, saidSeq: 6, mentions: 7,
    last: { id: 9n, at: 5, from: "ann@x", isOwn: true, kind: 1, text: "t", isWhole: false,
      changes: [] },
  });
});

// ---- the machine

test("what is asked of a conversation is answered once, or told why not", () => {
  const side = new Side().online();
  side.takeTold();
  const asks = [
    [readRequest, ["bob", 3], "mark_read", { with: "bob", upto: 3n }, "marked_read", { upto: 4n }, 4],
    [setRequest, ["bob", { setting: 1, on: true, draft: "" }], "set", { with: "bob" }, "set", {},
      undefined],
    [recallRequest, ["bob", 2], "recall", { with: "bob", seq: 2n }, "sent",
      { id: 9n, seq: 3n, at_ms: 5n }, { id: 9n, seq: 3, at: 5 }],
    [listRequest, [{ peer: "", before: 7, count: 2 }], "conversations",
      { with: "", before: 7n, count: 2 }, "conversations", { upto: 4n, more: true },
      { conversations: [], upto: 4, hasMore: true }],
  ];
  for (const [call, given, kind, fields, answer, answered, result] of asks) {
    const ask = () => side.do((machine, now) => machine.about(now, 5, call(...given)));
    ask();
    const asked = side.asked.pop();
    assert.equal(asked.kind, kind);
    for (const [name, value] of Object.entries(fields)) assert.equal(asked.fields[name], value, name);
    const { number } = asked.fields;
    side.says(answer, { number, ...answered });
    assert.deepEqual(side.takeTold(), [result], kind);
    side.says(answer, { number, ...answered });
    assert.deepEqual(side.takeTold(), [], "once");
    ask();
    side.says("failed", { number: side.asked.pop().fields.number, fault: 14, word: "too_late" });
    assert.deepEqual(side.takeTold().map((it) => it.code), ["too_late"]);
    ask();
    side.lose();
    assert.equal(side.takeTold()[0].code, "disconnected");
    ask();
    assert.equal(side.takeTold()[0].code, "disconnected", "nobody is there");
    side.online();
    side.takeTold();
    side.asked.length = 0;
  }
});

test("events are told in order with messages, live and in pages, each once", () => {
  const side = new Side().online();
  side.takeTold();
  side.says("message", entry(1));
  side.says("event", event(2, { read: 1n }));
  side.says("event", event(2, { read: 1n }));
  side.says("event", event(3, { change: { setting: 9, on: true, draft: "" } }));
  side.says("event", event(5, { peer_read: 1n }));
  const inOrder = (told) => told.map((it) => it.place ?? it);
  assert.deepEqual(inOrder(side.takeTold()), ["text 1", 2, "online"], "a later version's takes a place");
  const entries = [entry(6), entry(4)];
  side.says("page", {
    number: 0xffffffff, upto: 6n, head: 6n, entries, events: [event(5, { peer_read: 1n })],
  });
  assert.deepEqual(inOrder(side.takeTold()), ["text 4", 5, "text 6", "in step"]);
  side.says("event", event(2 ** 53, { read: 1n }));
  assert.equal(side.machine.state.error.code, "server_malformed");
});

test("a list is asked for when it is wanted, page by page, and goes on over a lost connection", () => {
  const side = new Side({ listMax: 9 }).online({ head: 7n, cursor: 7n });
  const table = SERVER_FRAME.conversations.table.conversations.table;
  const one = (peer, place) => message(table, { with: peer, place: BigInt(place) });
  const list = () => side.asked.splice(0).filter(({ kind }) => kind === "conversations")
    .map(({ fields }) => fields);
  const [first] = list();
  assert.deepEqual([first.before, first.count, first.with], [0n, 3, ""]);
  const { number } = first;
  side.takeTold();
  side.says("conversations", { number, upto: 7n, conversations: [one("bob@x", 7)], more: true });
  assert.deepEqual(side.takeTold(), ["list"]);
  assert.equal(list()[0].before, 7n);
  side.lose();
  side.online({ head: 7n, cursor: 7n });
  assert.equal(list()[0].before, 7n, "what was read is not read again");
  side.says("failed", { number, fault: 5, word: "busy" });
  assert.deepEqual(list(), []);
  side.after(1_000);
  assert.equal(list()[0].before, 7n);
  side.says("conversations", { number, upto: 7n, conversations: [one("cid@x", 3)] });
  assert.deepEqual([peers(side.machine.list), side.machine.list.isWhole], [["bob@x", "cid@x"], true]);
  side.says("conversations", { number, upto: 9n, conversations: [one("eve@x", 8)] });
  assert.deepEqual(peers(side.machine.list), ["bob@x", "cid@x"], "nobody asked");
  side.lose();
  side.online({ head: 2n, cursor: 2n });
  assert.deepEqual(peers(side.machine.list), [], "another inbox than it knew");
  assert.equal(list()[0].before, 0n);
});

// ---- the list by itself

test("pinned ones come first, then the newest; what is hidden is until something is said", () => {
  const list = begun(20, [kept("bob@x", 20), kept("cid@x", 15), kept("eve@x", 9)]);
  const change = (place, peer, given) =>
    list.entry(place, { event: eventOf(event(place, { with: peer, change: given })) });
  change(21, "eve@x", { setting: 1, on: true, draft: "" });
  assert.deepEqual(peers(list), ["eve@x", "bob@x", "cid@x"]);
  change(22, "bob@x", { setting: 3, on: true, draft: "" });
  assert.ok(list.all[1].isHidden);
  list.entry(23, { message: said(1) });
  assert.deepEqual([list.all[1].isHidden, list.all[1].unread, list.all[1].place], [false, 1, 23]);
  list.stored(24, said(1, { from: "ann@x", to: "cid@x" }));
  assert.deepEqual(peers(list), ["eve@x", "cid@x", "bob@x"]);
  const before = list.all;
  assert.equal(list.all, before, "the same until it changes");
});

test("what a page has already changes nothing, however late it is told", () => {
  const list = begun(9, [kept("bob@x", 9, { seq: 4, unread: 2, isMuted: true })]);
  const before = list.all;
  list.entry(8, { message: said(4) });
  list.entry(9, { event: eventOf(event(9, { change: { setting: 2, on: false, draft: "" } })) });
  list.entry(5, { message: said(1, { from: "eve@x" }) });
  assert.equal(list.all, before);
  assert.equal(list.order(0), undefined, "who is not in it is hidden, or gone");
});

test("how much is unread is known by what was told, or asked for", () => {
  const list = begun(9, [kept("bob@x", 9, { seq: 4, read: 2, unread: 2 })]);
  const unread = () => list.all[0].unread;
  list.entry(10, { message: said(5) });
  list.entry(11, { message: { ...said(6), uncounted: true } });
  assert.equal(unread(), 3);
  list.entry(12, { event: eventOf(event(12, { read: 5n })) });
  assert.deepEqual([unread(), list.order(0)], [0, undefined], "none that counts is behind it");
  list.entry(13, { message: said(7) });
  list.entry(14, { message: said(8) });
  list.entry(15, { event: eventOf(event(15, { read: 7n })) });
  assert.deepEqual([unread(), list.order(0)], [2, { peer: "bob@x", before: 0 }]);
  list.entry(16, { message: said(9) });
  list.page(page(15, [kept("bob@x", 14, { seq: 8, read: 7, unread: 1 })]));
  assert.deepEqual([unread(), list.all[0].seq], [2, 9], "what came meanwhile is on top");
  list.entry(17, { message: { ...said(10), recall: 8, uncounted: true } });
  assert.deepEqual(list.order(0), { peer: "bob@x", before: 0 });
  list.page(page(17, []));
  assert.deepEqual([peers(list), list.order(0)], [["bob@x"], undefined], "it is not asked for ever");
});

test("unread is counted up to so many", () => {
  const list = begun(9, [kept("bob@x", 9, { seq: 4, unread: UNREAD_MAX - 1 })]);
  for (let seq = 5; seq < 9; seq++) list.entry(5 + seq, { message: said(seq) });
  assert.equal(list.all[0].unread, UNREAD_MAX);
});

test("one that is not known is asked for, and one of which nothing is known is let go", () => {
  const list = begun(9, []);
  list.entry(10, { message: said(1) });
  assert.deepEqual(peers(list), ["bob@x"], "it is shown at once");
  assert.deepEqual(list.order(0), { peer: "bob@x", before: 0 });
  assert.equal(list.order(0), undefined, "one thing at a time");
  list.failed(0, true);
  assert.deepEqual([list.wakeAt, list.order(999)], [1_000, undefined]);
  assert.deepEqual(list.order(1_000), { peer: "bob@x", before: 0 });
  list.page(page(10, [kept("eve@x", 3), kept("bob@x", 10, { seq: 1, unread: 1, draft: "d" })]));
  assert.deepEqual([peers(list), list.all[0].draft], [["bob@x"], "d"], "what was not asked is not taken");
  list.entry(11, { event: eventOf(event(11, { with: "cid@x", peer_read: 2n })) });
  assert.deepEqual(list.order(1_000), { peer: "cid@x", before: 0 });
  list.page(page(11, []));
  assert.deepEqual(peers(list), ["bob@x"]);
});

test("what happened in a group is not lost to a page that does not tell it", () => {
  const list = begun(9, []);
  const changes = [{ verb: "add", title: "", members: ["cid@x"] }];
  list.entry(10, { message: { ...said(1), kind: 3, changes } });
  list.order(0);
  const excerpt = excerptOf({ ...said(1), kind: 3 });
  list.page(page(10, [kept("bob@x", 10, { seq: 1, last: excerpt })]));
  assert.deepEqual(list.all[0].last.changes, changes);
  const other = begun(9, [kept("bob@x", 9, { seq: 1, last: { ...excerpt, changes } })]);
  other.entry(10, { message: { ...said(2), recall: 1 } });
  other.entry(11, { event: eventOf(event(11, { read: 1n })) });
  other.order(0);
  other.page(page(11, [kept("bob@x", 10, { seq: 2, last: { ...excerpt, kind: 5 } })]));
  assert.deepEqual(other.all[0].last.changes, [], "but to one that was called back");
});

test("one that is looked at is asked for, though it be hidden, and let go if there is none", () => {
  const list = new ConversationList(100);
  list.look("bob@x");
  list.look("eve@x");
  list.online(true);
  assert.deepEqual(list.order(0), { peer: "", before: 0 });
  list.page(page(9, [kept("cid@x", 9)]));
  assert.deepEqual(list.order(0), { peer: "bob@x", before: 0 });
  list.page(page(9, [kept("bob@x", 4, { isHidden: true })]));
  assert.deepEqual(list.order(0), { peer: "eve@x", before: 0 });
  list.failed(0, false);
  assert.deepEqual([peers(list), list.order(0)], [["cid@x", "bob@x"], undefined]);
  list.look("bob@x");
  assert.equal(list.order(0), undefined, "it is known");
});

test("with more between question and answer than is kept, it is asked again", () => {
  const list = new ConversationList(100);
  list.online(false);
  list.order(0);
  for (let place = 1; place <= 1_030; place++) list.entry(place, { message: said(place) });
  list.page(page(5, [kept("bob@x", 5, { seq: 5, unread: 5 })]));
  assert.equal(list.all[0].unread, UNREAD_MAX);
  assert.deepEqual(list.order(0), { peer: "", before: 0 });
  list.page(page(1_030, [kept("bob@x", 1_030, { seq: 1_030, unread: 7 })]));
  assert.deepEqual([list.all[0].unread, list.order(0)], [7, undefined]);
});

test("there are never more than so many, and a list without room for any asks nothing", () => {
  const list = begun(9, [kept("bob@x", 9), kept("cid@x", 8), kept("eve@x", 7)], 2);
  assert.deepEqual([peers(list), list.isWhole], [["bob@x", "cid@x"], true]);
  list.entry(10, { message: said(1, { from: "dan@x" }) });
  assert.deepEqual(peers(list), ["dan@x", "bob@x"]);
  const none = new ConversationList(0);
  none.online(false);
  none.entry(1, { message: said(1) });
  none.stored(2, said(2, { from: "ann@x", to: "bob@x" }));
  assert.deepEqual([none.all, none.order(0), none.wakeAt], [[], undefined, Infinity]);
});

test("a server whose pages make no sense is not followed for ever", () => {
  const list = new ConversationList(100);
  list.online(false);
  let asks = 0;
  for (; list.order(0) !== undefined; asks++) {
    assert.ok(asks < 10);
    list.page(page(0, [kept("bob@x", 9), kept("bob@x", 9)], true));
  }
  assert.deepEqual([asks, peers(list)], [2, ["bob@x"]]);
  const other = begun(9, [kept("bob@x", 9, { seq: 1, unread: 1 })]);
  for (let place = 10; place < 12; place++) {
    other.entry(place, { message: { ...said(place), recall: 1, uncounted: true } });
    assert.deepEqual(other.order(0), { peer: "bob@x", before: 0 });
    other.page(page(3, [kept("bob@x", 3, { seq: 1, unread: 1 })]));
    assert.equal(other.order(0), undefined);
  }
  const refused = new ConversationList(100);
  refused.online(false);
  refused.order(0);
  refused.failed(0, false);
  assert.deepEqual([refused.order(1e9), refused.isWhole], [undefined, true]);
});

test("whatever a server says of conversations, the machine goes on or leaves it", () => {
  const random = randomOf(5);
  const pick = (...all) => all[random(all.length)];
  const number = () => BigInt(pick(0, 1, 2, random(50), 2 ** 40, Number.MAX_SAFE_INTEGER, 2 ** 60));
  const text = () => pick("", "bob@x", "ann@x", "g@conference.x", "<b>", "\u0000", "🙂".repeat(99));
  const list = SERVER_FRAME.conversations.table.conversations.table;
  const one = () => message(list, {
    with: text(), place: number(), last_seq: number(), read: number(), peer_read: number(),
    unread: random(4_000_000_000), hidden: random(2) === 0, pinned: random(2) === 0, draft: text(),
    last: pick(undefined, message(list.last.table, { from: text(), kind: random(9), text: text() })),
  });
  const bent = () => message(INBOX_EVENT, {
    seq: number(), with: text(), read: number(), peer_read: number(),
    change: pick(undefined, { setting: random(9), on: random(2) === 0, draft: text() }),
  });
  const said = () => ({ seq: number(), message: chatMessage(random(30), {
    from: text(), to: text(), text: text(), content: {
      kind: pick(0, 1, 3, 4, 5), text: text(), mentions: [], uncounted: random(2) === 0,
      extra: new TextEncoder().encode(pick("", "7 7", "9999999999999999 1", "add bob@x#1", "x")),
    },
  }) });
  const frames = [
    () => ["event", bent()], () => ["message", said()], () => ["notify", { head: number() }],
    () => ["page", { number: 0xffffffff, entries: [said(), said()], events: [bent(), bent()],
      upto: number(), head: number() }],
    () => ["conversations", { number: pick(0xfffffffe, 1), upto: number(),
      conversations: [one(), one(), one()], more: random(2) === 0 }],
    () => ["failed", { number: pick(0xfffffffe, 1), fault: random(30), word: text() }],
    () => ["sent", { number: random(3), id: 1n, seq: number(), at_ms: number() }],
  ];
  for (let round = 0; round < 300; round++) {
    const side = new Side({ listMax: 3 }).online({ head: 9n, cursor: BigInt(random(10)) });
    for (let n = 0; n < 40; n++) {
      if (random(9) === 0) side.do((machine, now) => machine.about(now, 1, recallRequest("bob", 1)));
      side.says(...frames[random(frames.length)]());
      if (side.machine.state.name === "online") side.after(random(2_000));
      const { state, list: kept } = side.machine;
      assert.ok(kept.all.length <= 3);
      assert.ok(kept.all.every(({ unread, peer }) => unread <= UNREAD_MAX && peer !== ""));
      if (state.name === "online") continue;
      assert.equal(state.error.code, "server_malformed");
      break;
    }
  }
});

// ---- the client

test("a client reads, keeps, calls back, and has a list", async () => {
  const { client, socket } = browser({ listMax: 5 });
  const [lists, events] = [[], []];
  client.on("list", (all) => lists.push(all.length));
  client.on("event", (it) => events.push(it.place));
  const connected = client.connect();
  await socket().letsIn({ head: 1n, cursor: 1n });
  await connected;
  const table = SERVER_FRAME.conversations.table.conversations.table;
  const one = message(table, { with: "bob@x", place: 1n, last_seq: 1n, unread: 1 });
  const answers = (kind, given) => {
    const { number } = socket().frames.pop().fields;
    socket().says(kind, { number, ...given });
  };
  answers("conversations", { upto: 1n, conversations: [one] });
  assert.deepEqual([client.list[0].unread, client.isListWhole, lists.at(-1)], [1, true, 1]);
  const read = client.markRead("bob", 1);
  socket().says("event", event(2, { read: 1n }));
  answers("marked_read", { upto: 1n });
  assert.deepEqual([await read, client.list[0].unread, events], [1, 0, [2]]);
  const set = client.settings("bob", { pin: true, draft: "d" });
  answers("set");
  answers("set");
  assert.equal(await set, undefined);
  const recalled = client.recall("bob", 1);
  answers("sent", { id: 9n, seq: 2n, at_ms: 3n });
  assert.deepEqual(await recalled, { id: 9n, seq: 2, at: 3 });
  const asked = client.conversations({ before: 3, count: 70_000 });
  assert.equal(socket().frames.at(-1).fields.count, 65_535);
  answers("conversations", { upto: 7n, conversations: [one], more: true });
  assert.deepEqual((await asked).conversations.map(({ peer }) => peer), ["bob@x"]);
  const alone = client.conversation("bob");
  answers("conversations", { upto: 7n });
  assert.equal(await alone, undefined);
  const late = client.settings("bob", { mute: true });
  answers("failed", { fault: 3, word: "too_large" });
  await assert.rejects(late, { code: "too_large" });
  for (const wrong of [client.markRead("bob", 0), client.markRead("bob", 1.5),
    client.recall("bob", 0), client.conversations({ count: 0 }), client.conversation("")]) {
    await assert.rejects(wrong, { code: "invalid" });
  }
  await flushed();
});
