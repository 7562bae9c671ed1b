// The part of a conversation that is on the page.

import assert from "node:assert/strict";
import test from "node:test";
import { SHOWN_MAX, Talk } from "../dist/talk.js";

const from = (first, last) =>
  Array.from({ length: last - first + 1 }, (_, at) => ({ seq: first + at }));
const span = (talk) => [talk.shown[0]?.seq, talk.shown.at(-1)?.seq, talk.shown.length];

test("the end comes first, then what is before it, then what is said", () => {
  const talk = new Talk();
  assert.deepEqual([talk.before, talk.after], [0, 0]);
  talk.begin(from(51, 100), true);
  assert.deepEqual([talk.before, talk.after, talk.hasEarlier], [51, 100, true]);
  talk.earlier(from(1, 50), false);
  assert.deepEqual([...span(talk), talk.hasEarlier], [1, 100, 100, false]);
  assert.equal(talk.live({ seq: 101 }), "shown");
  assert.deepEqual(span(talk), [1, 101, 101]);
});

test("a message is there once, and one behind a gap is not shown before the gap is read", () => {
  const talk = new Talk();
  talk.begin(from(1, 3), false);
  assert.equal(talk.live({ seq: 3 }), "known");
  assert.equal(talk.live({ seq: 6 }), "gap");
  assert.equal(talk.after, 3);
  from(4, 6).forEach((message) => assert.equal(talk.live(message), "shown"));
  talk.earlier(from(1, 3), false);
  assert.deepEqual(span(talk), [1, 6, 6], "what is there is not added again");
});

test("a message that is changed keeps its place, and one that is not shown changes nothing", () => {
  const talk = new Talk();
  talk.begin([{ seq: 1, text: "a" }, { seq: 2, text: "b" }], false);
  talk.change(1, (it) => ({ ...it, text: "" }));
  talk.change(9, (it) => ({ ...it, text: "" }));
  assert.deepEqual(talk.shown, [{ seq: 1, text: "" }, { seq: 2, text: "b" }]);
});

test("the first message of all has nothing before it", () => {
  const talk = new Talk();
  assert.equal(talk.live({ seq: 2 }), "gap");
  assert.equal(talk.live({ seq: 1 }), "shown");
  assert.equal(talk.hasEarlier, false);
});

test("there are never more than so many, without a gap", () => {
  const talk = new Talk();
  talk.begin(from(1, SHOWN_MAX), false);
  talk.live({ seq: SHOWN_MAX + 1 });
  assert.deepEqual([...span(talk), talk.hasEarlier, talk.hasLater],
    [2, SHOWN_MAX + 1, SHOWN_MAX, true, false]);
  talk.begin(from(101, SHOWN_MAX + 100), true);
  talk.earlier(from(51, 100), true);
  assert.deepEqual([...span(talk), talk.hasLater], [51, SHOWN_MAX + 50, SHOWN_MAX, true]);
  assert.equal(talk.live({ seq: SHOWN_MAX + 101 }), "known", "it is behind what is shown");
  talk.begin(from(60, 101), true);
  assert.equal(talk.hasLater, false);
});

test("a part from the middle takes nothing that comes, until its end is read", () => {
  const talk = new Talk();
  talk.part([{ seq: 5 }, { seq: 6 }], true, true);
  assert.deepEqual([talk.hasEarlier, talk.hasLater, talk.live({ seq: 7 })], [true, true, "known"]);
  talk.begin([{ seq: 6 }, { seq: 7 }], true);
  assert.deepEqual([talk.hasLater, talk.live({ seq: 8 })], [false, "shown"]);
});
