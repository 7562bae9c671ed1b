// Names behind an @, and messages that are quoted.

import assert from "node:assert/strict";
import test from "node:test";
import { begunAt, completed, mentionedIn, offered } from "../dist/mentions.js";
import { Quotes } from "../dist/quotes.js";

test("a text mentions those whose names stand behind an @", () => {
  const of = (text, isOfGroup = true) => mentionedIn(text, "x", isOfGroup);
  assert.deepEqual(of("@bob, and @eve@y: @bob."), {
    mentions: ["bob@x", "eve@y"], mentionsEverybody: false,
  });
  assert.deepEqual(of("@all @bob"), { mentions: ["bob@x"], mentionsEverybody: true });
  assert.deepEqual(of("@all", false), { mentions: ["all@x"], mentionsEverybody: false });
  for (const text of ["ann@bob", "@", "@ bob", "a.@bob", "@Bob", "@@"]) {
    assert.deepEqual(of(text).mentions, [], text);
  }
  const many = Array.from({ length: 40 }, (_, at) => `@p${at}`).join(" ");
  assert.equal(of(many).mentions.length, 32);
});

test("while a name is written those are offered that begin so, and one takes its place", () => {
  assert.equal(begunAt("hello @bo", 9), "bo");
  assert.equal(begunAt("hello @", 7), "");
  assert.equal(begunAt("hello @bo", 5), undefined);
  assert.equal(begunAt("ann@bo", 6), undefined);
  assert.deepEqual(offered(["eve", "bob", "bo", "ann"], "bo"), ["bo", "bob"]);
  assert.equal(offered(Array.from({ length: 20 }, (_, at) => `p${at}`), "").length, 6);
  assert.deepEqual(completed("hi @bo there", 6, "bob"), { text: "hi @bob there", at: 8 });
  assert.deepEqual(completed("@", 1, "bob"), { text: "@bob ", at: 5 });
});

test("what is quoted is looked for among what is shown, and else read once", async () => {
  const asked = [];
  let shown = 0;
  const history = async (peer, { before }) => {
    asked.push([peer, before]);
    return { messages: [{ seq: before - 1, id: 7n, text: "old" }], hasMore: true };
  };
  const quotes = new Quotes({ history }, "bob@x", () => { shown += 1; });
  const rows = [{ seq: 5, id: 50n, text: "five" }, { seq: 6, id: 60n, text: "six" }];
  assert.equal(quotes.of({ seq: 6, id: 60n }, rows).text, "six");
  assert.equal(quotes.of({ seq: 6, id: 61n }, rows), undefined, "another one stands there");
  assert.equal(quotes.of({ seq: 2, id: 7n }, rows), undefined, "it is not there yet");
  assert.equal(quotes.of({ seq: 2, id: 7n }, rows), undefined);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(quotes.of({ seq: 2, id: 7n }, rows).text, "old");
  assert.deepEqual([asked, shown], [[["bob@x", 3]], 1]);
});

test("what cannot be read is asked for once, and no more is kept than may be", async () => {
  let asked = 0;
  const history = () => {
    asked += 1;
    return Promise.reject(new Error("no connection"));
  };
  const quotes = new Quotes({ history }, "bob@x", () => assert.fail("nothing was read"));
  for (let seq = 1; seq <= 300; seq++) quotes.of({ seq, id: 1n }, []);
  quotes.of({ seq: 300, id: 1n }, []);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(asked, 300);
  quotes.of({ seq: 1, id: 1n }, []);
  assert.equal(asked, 301, "the oldest was forgotten");
});
