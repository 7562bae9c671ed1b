// How far somebody has read, and when the server is told.

import assert from "node:assert/strict";
import test from "node:test";
import { GAP_MS, Reading, READINGS_MAX } from "../dist/reading.js";

test("what is seen is told at once, and what comes meanwhile in one word", () => {
  const reading = new Reading();
  assert.equal(reading.wakeAt, Infinity);
  reading.sees("bob", 3, 1);
  assert.ok(reading.wakeAt <= 0);
  assert.deepEqual(reading.due(0), { peer: "bob", upto: 3 });
  reading.sees("bob", 3, 1);
  for (const upto of [4, 6, 5]) reading.sees("bob", upto, 1);
  assert.deepEqual([reading.due(1), reading.wakeAt], [undefined, Infinity]);
  reading.done(10);
  assert.deepEqual([reading.wakeAt, reading.due(9 + GAP_MS)], [10 + GAP_MS, undefined]);
  assert.deepEqual(reading.due(10 + GAP_MS), { peer: "bob", upto: 6 });
  reading.done(1_000);
  reading.sees("bob", 6, 6);
  assert.deepEqual([reading.wakeAt, reading.due(9_999)], [Infinity, undefined], "it is known");
});

test("what could not be told now is told later, as far as it was seen then", () => {
  const reading = new Reading();
  reading.sees("bob", 3, 0);
  reading.due(0);
  reading.sees("bob", 5, 0);
  reading.failed(10);
  assert.equal(reading.due(3_009), undefined);
  assert.deepEqual(reading.due(3_010), { peer: "bob", upto: 5 });
  reading.failed(4_000);
  assert.deepEqual(reading.due(7_000), { peer: "bob", upto: 5 });
  reading.done(8_000);
  reading.failed(8_000);
  assert.equal(reading.due(99_999), undefined, "nothing was on its way");
});

test("each conversation is told, and no more than so many wait", () => {
  const reading = new Reading();
  for (let n = 0; n <= READINGS_MAX; n++) reading.sees(`p${n}`, 1, 0);
  const told = [];
  for (let now = 0; ; now += GAP_MS) {
    const found = reading.due(now);
    if (found === undefined) break;
    told.push(found.peer);
    reading.done(now);
  }
  assert.deepEqual([told.length, told[0], told.at(-1)], [READINGS_MAX, "p1", `p${READINGS_MAX}`]);
});
