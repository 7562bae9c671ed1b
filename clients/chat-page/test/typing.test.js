import assert from "node:assert/strict";
import { test } from "node:test";
import { AGAIN_MS, OwnTyping, PAUSE_MS, SHOWN_MS, Typists } from "../dist/typing.js";

test("somebody types until it says otherwise, or is not heard of for long", () => {
  const typists = new Typists();
  assert.equal(typists.wakeAt, Infinity);
  assert.ok(typists.heard("bob@x", true, 0));
  assert.ok(!typists.heard("bob@x", true, 5_000), "nobody else");
  assert.ok(typists.heard("carol@x", true, 6_000));
  assert.deepEqual(typists.now(6_000), ["bob@x", "carol@x"]);
  assert.equal(typists.wakeAt, 5_000 + SHOWN_MS);
  assert.deepEqual(typists.now(5_000 + SHOWN_MS), ["carol@x"]);
  assert.ok(typists.heard("carol@x", false, 7_000));
  assert.ok(!typists.heard("dave@x", false, 7_000));
  assert.deepEqual(typists.now(7_000), []);
});

test("however many type, as many are remembered as may be", () => {
  const typists = new Typists();
  for (let n = 0; n < 1_000; n++) typists.heard(`p${n}@x`, true, 0);
  assert.equal(typists.now(0).length, 64);
});

test("who writes says so now and then, and that it has stopped", () => {
  const own = new OwnTyping();
  assert.deepEqual(own.writes("bob", "h", 0), [{ peer: "bob", state: "composing" }]);
  assert.deepEqual(own.writes("bob", "he", AGAIN_MS - 1), []);
  assert.deepEqual(own.writes("bob", "hel", AGAIN_MS), [{ peer: "bob", state: "composing" }]);
  assert.equal(own.wakeAt, AGAIN_MS + PAUSE_MS);
  assert.deepEqual(own.wake(AGAIN_MS + PAUSE_MS - 1), []);
  assert.deepEqual(own.wake(AGAIN_MS + PAUSE_MS), [{ peer: "bob", state: "paused" }]);
  assert.deepEqual(own.wake(Infinity), []);
  assert.deepEqual(own.writes("bob", "hell", 20_000), [{ peer: "bob", state: "composing" }]);
  assert.deepEqual(own.writes("bob", " ", 20_001), [{ peer: "bob", state: "active" }]);
});

test("what was said needs no further word, and who goes elsewhere has stopped", () => {
  const own = new OwnTyping();
  own.writes("bob", "h", 0);
  assert.deepEqual(own.leaves(true), []);
  own.writes("bob", "h", 10);
  assert.deepEqual(own.writes("carol", "h", 20), [
    { peer: "bob", state: "paused" }, { peer: "carol", state: "composing" },
  ]);
  assert.deepEqual(own.leaves(false), [{ peer: "carol", state: "paused" }]);
  assert.deepEqual(own.leaves(false), []);
});
