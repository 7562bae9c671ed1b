// What is begun to be written, and when it is kept.

import assert from "node:assert/strict";
import test from "node:test";
import { draftOf, Drafts, DRAFTS_MAX, PAUSE_MS, UNKEPT_MS } from "../dist/drafts.js";

const kept = (drafts, now) => drafts.due(now).map(({ peer, draft }) => `${peer}: ${draft}`);

test("a draft is kept when its writer pauses, once", () => {
  const drafts = new Drafts();
  assert.equal(drafts.wakeAt, Infinity);
  drafts.writes(0, "bob", "D", "");
  drafts.writes(1_000, "bob", "De", "");
  assert.equal(drafts.wakeAt, 1_000 + PAUSE_MS);
  assert.deepEqual(kept(drafts, 999 + PAUSE_MS), []);
  assert.deepEqual(kept(drafts, 1_000 + PAUSE_MS), ["bob: De"]);
  assert.deepEqual([drafts.wakeAt, drafts.isUnderWay("bob"), drafts.of("bob")], [Infinity, true, "De"]);
  drafts.done("bob");
  assert.deepEqual([drafts.isUnderWay("bob"), kept(drafts, 1e9)], [false, []]);
});

test("who writes on and on has it kept now and then", () => {
  const drafts = new Drafts();
  let text = "";
  for (let now = 0; now < UNKEPT_MS; now += 500) {
    assert.deepEqual(kept(drafts, now), []);
    drafts.writes(now, "bob", (text += "x"), "");
  }
  assert.deepEqual(kept(drafts, UNKEPT_MS), [`bob: ${text}`]);
});

test("who leaves has it kept at once, and what the server has already is not kept", () => {
  const drafts = new Drafts();
  drafts.writes(0, "bob", "Dear", "Dear");
  drafts.writes(0, "cid", "Hi", "");
  drafts.writes(1, "cid", "", "");
  drafts.writes(2, "eve", "  \n", "");
  drafts.leaves(3);
  assert.deepEqual(kept(drafts, 3), []);
  drafts.writes(4, "bob", "", "Dear");
  drafts.leaves(5);
  assert.deepEqual(kept(drafts, 5), ["bob: "], "it was sent, or taken back");
});

test("one of a conversation is on its way at a time, and the last one is kept in the end", () => {
  const drafts = new Drafts();
  drafts.writes(0, "bob", "one", "");
  drafts.leaves(0);
  assert.deepEqual(kept(drafts, 0), ["bob: one"]);
  drafts.writes(1, "bob", "two", "");
  drafts.leaves(1);
  assert.deepEqual([kept(drafts, 9), drafts.wakeAt, drafts.of("bob")], [[], Infinity, "two"]);
  drafts.done("bob");
  assert.deepEqual(kept(drafts, 9), ["bob: two"]);
  drafts.writes(10, "bob", "three", "one");
  drafts.writes(11, "bob", "two", "one");
  drafts.done("bob");
  assert.deepEqual([kept(drafts, 1e9), drafts.isUnderWay("bob")], [[], false], "it is on its way");
});

test("one that could not be kept now is kept later, unless more was written", () => {
  const drafts = new Drafts();
  drafts.writes(0, "bob", "one", "");
  drafts.leaves(0);
  drafts.due(0);
  drafts.failed(0, "bob");
  assert.deepEqual([kept(drafts, 2_999), kept(drafts, 3_000)], [[], ["bob: one"]]);
  drafts.writes(3_001, "bob", "two", "");
  drafts.failed(3_002, "bob");
  assert.deepEqual(kept(drafts, 3_001 + PAUSE_MS), ["bob: two"]);
  drafts.done("bob");
  drafts.failed(9_000, "bob");
  assert.equal(drafts.wakeAt, Infinity, "nothing was on its way");
});

test("a draft ends where the server would take no more, and not within a character", () => {
  assert.equal(draftOf("x".repeat(1_025)).length, 1_024);
  assert.equal(draftOf("🙂".repeat(300)), "🙂".repeat(256));
  assert.equal(draftOf(`x${"é".repeat(600)}`), `x${"é".repeat(511)}`);
  assert.equal(draftOf("\ud800").length, 1, "half a character is one that is not known");
  assert.equal(draftOf(" \n\t"), "");
});

test("no more than so many wait", () => {
  const drafts = new Drafts();
  for (let n = 0; n <= DRAFTS_MAX; n++) drafts.writes(n, `p${n}`, "x", "");
  drafts.leaves(99);
  const found = drafts.due(99);
  assert.deepEqual([found.length, found[0].peer], [DRAFTS_MAX, "p1"]);
});
