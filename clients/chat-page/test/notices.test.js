// Of which messages the browser notifies, and with which words.

import assert from "node:assert/strict";
import test from "node:test";
import { noticeOf } from "../dist/notices.js";

const message = (given = {}) => ({
  kind: 1, text: "hello", isOwn: false, from: "bob@x", mentions: [], changes: [], ...given,
});
const of = (given, mode = "on", known = undefined, title = "bob") => noticeOf(message(given), known,
  { account: "ann@x", language: "en", title, from: "bob", mode });

test("a message of somebody else is told, with its text unless the user wants none", () => {
  assert.deepEqual(of(), { title: "bob", body: "hello" });
  assert.deepEqual(of({}, "on", undefined, "Lunch"), { title: "Lunch", body: "bob: hello" });
  const told = JSON.stringify(of({}, "private"));
  assert.ok(!told.includes("hello") && !told.includes("bob"), told);
  assert.equal(of({}, "off"), undefined);
  assert.equal(Array.from(of({ text: "🙂".repeat(999) }).body).length, 200);
});

test("own messages, edits, reactions, recalls and changes of groups are not told", () => {
  for (const given of [{ isOwn: true }, { target: {} }, { recall: 3 }, { kind: 3 },
    { kind: 3, changes: [{ verb: "rename", members: [] }] },
    { kind: 3, changes: [
      { verb: "add", members: ["eve@x"] }, { verb: "mute", members: ["ann@x"] },
    ] }]) assert.equal(of(given), undefined);
  for (const verb of ["add", "invite"]) {
    const changes = [verb, "promote"].map((it) => ({ verb: it, members: ["ann@x"], title: "" }));
    assert.match(of({ kind: 3, changes }, "on", undefined, "Lunch").body, /invit/);
  }
});

test("of a muted conversation only mentions are told", () => {
  assert.equal(of({}, "on", { isMuted: true }), undefined);
  assert.ok(of({ mentions: ["ann@x"] }, "on", { isMuted: true }));
});
