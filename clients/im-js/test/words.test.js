// Quotes, mentions and search: what is written, read, and kept over a reload.

import assert from "node:assert/strict";
import test from "node:test";
import { ConversationList } from "../dist/conversation-list.js";
import { contentBytes, isMentioned, messageOf } from "../dist/message.js";
import { parseQueue, printQueue } from "../dist/outbox.js";
import { browser } from "./fakes.js";
import { chatMessage, queued } from "./side.js";

const QUOTE = { seq: 3, id: 510_613_618_950_144_001n };

test("what is said of others goes out, and is read as it is told", async () => {
  const { client, socket } = browser();
  client.connect();
  await socket().letsIn();
  const others = { quote: QUOTE, mentions: ["bo@x"], mentionsEverybody: true };
  client.send("eve", { text: "yes", ...others });
  const { content } = socket().frames.at(-1).fields;
  assert.deepEqual([content.quote.seq, content.quote.id, content.quote.from],
    [3n, 510_613_618_950_144_001n, ""]);
  assert.deepEqual([content.mentions, content.mentions_everybody], [["bo@x"], true]);
  client.send("bob", "no");
  const plain = socket().frames.at(-1).fields.content;
  assert.deepEqual([plain.quote, plain.mentions, plain.mentions_everybody], [undefined, [], false]);
  const told = { ...content, quote: { ...content.quote, from: "ann@x", text: "it" } };
  const message = messageOf(chatMessage(4, { content: told }), "ann@x");
  assert.deepEqual(message.quote, { ...QUOTE, from: "ann@x", text: "it" });
  assert.deepEqual([message.mentions, message.mentionsEverybody], [["bo@x"], true]);
  assert.ok(isMentioned(message, "ann@x") && !isMentioned({ ...message, isOwn: true }, "ann@x"));
  const one = messageOf(chatMessage(4, { content: { ...told, mentions_everybody: false } }), "ann@x");
  assert.deepEqual([isMentioned(one, "ann@x"), isMentioned(one, "bo@x")], [false, true]);
  assert.equal("quote" in messageOf(chatMessage(5), "ann@x"), false);
});

test("what waits keeps what it says of others, and what is none is left out", () => {
  const one = queued(1, { quote: QUOTE, mentions: ["bob@x"], mentionsEverybody: true });
  assert.deepEqual(parseQueue(printQueue([one, queued(2)])), [one, queued(2)]);
  const [bad] = JSON.parse(printQueue([queued(3)]));
  const bent = { ...bad, quote: { seq: "1", id: "x" }, mentions: [7], mentionsEverybody: "yes" };
  assert.deepEqual(parseQueue(JSON.stringify([bent])), [queued(3)]);
  assert.equal(contentBytes(one).extra, "bob@x".length + 4, "a mention counts beside the text");
});

test("what mentions one is counted apart, until it is read", () => {
  const list = new ConversationList(9);
  list.online(false, "ann@x");
  list.order(0);
  list.page({ conversations: [], upto: 0, hasMore: false });
  const said = (seq, given) => ({ message: messageOf(chatMessage(seq, given), "ann@x") });
  const content = (mentions) => ({
    kind: 1, text: "t", extra: new Uint8Array(), uncounted: false, quote: undefined, mentions,
    mentions_everybody: false,
  });
  list.entry(1, said(1, { content: content(["ann@x"]) }));
  list.entry(2, said(2, { content: content(["bob@x"]) }));
  assert.deepEqual([list.all[0].unread, list.all[0].mentions], [2, 1]);
  list.entry(3, { event: { place: 3, peer: "bob@x", read: 2, peerRead: undefined, change: undefined } });
  assert.deepEqual([list.all[0].unread, list.all[0].mentions], [0, 0]);
});

test("a search asks for a text, and is told what was found and where to go on", async () => {
  const { client, socket } = browser();
  client.connect();
  await socket().letsIn();
  await assert.rejects(client.search(""), ({ code }) => code === "invalid");
  const found = client.search("lunch", { peer: "bob", before: 40 });
  const { fields } = socket().frames.at(-1);
  assert.deepEqual([fields.text, fields.with, fields.before, fields.count], ["lunch", "bob", 40n, 20]);
  const entries = [{ seq: 12n, message: chatMessage(4, { text: "Lunch?" }) }];
  socket().says("found", { number: fields.number, found: entries, before: 3n, more: true });
  const { messages, before, hasMore } = await found;
  assert.deepEqual([messages.map(({ text }) => text), before, hasMore], [["Lunch?"], 3, true]);
});
