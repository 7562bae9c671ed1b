// The place in the inbox, by itself: what is a gap and what is not.

import assert from "node:assert/strict";
import test from "node:test";
import { Follower } from "../dist/follower.js";

const places = (handed) => handed.map(({ place }) => place);
const entries = (...all) => all.map((place) => ({ place, entry: place }));
const begun = (last) => new Follower(last, last, last);

test("after a Notify a gap is nobody's own, also while the pull waits to be asked again", () => {
  const follower = begun(0);
  follower.sentOwn();
  follower.notify(2);
  assert.deepEqual(follower.orders(0), [{ order: "pull", after: 0 }]);
  follower.pullFailed(0);
  assert.deepEqual(places(follower.comes(1, 2, 2)), []);
  assert.deepEqual(follower.orders(999), []);
  assert.deepEqual(follower.orders(1_000), [{ order: "pull", after: 0 }]);
  assert.deepEqual(places(follower.page(1_001, entries(1, 2), 2, 2)), [1, 2]);
});

test("a page has what was sent before it: later gaps are pulled", () => {
  const follower = begun(0);
  follower.sentOwn();
  follower.notify(1);
  follower.orders(0);
  assert.deepEqual(places(follower.page(0, entries(1), 1, 1)), [1]);
  assert.deepEqual(places(follower.comes(0, 3, 3)), []);
  assert.ok(!follower.isInStep);
});

test("what came by itself while a pull was under way is not told again by the page", () => {
  const follower = begun(3);
  follower.notify(5);
  follower.orders(0);
  assert.deepEqual(places(follower.comes(0, 4, 4)), [4]);
  assert.deepEqual(places(follower.page(0, entries(4, 5), 5, 5)), [5]);
  assert.deepEqual(places(follower.comes(0, 5, 5)), []);
  assert.ok(follower.isInStep);
});

test("a place of an event is one that was passed, and one behind a gap is pulled", () => {
  const follower = begun(3);
  follower.comes(0, 4, 4);
  assert.deepEqual(places(follower.comes(0, 5, 5)), [5]);
  assert.equal(follower.last, 5);
  follower.comes(0, 7, 7);
  assert.ok(!follower.isInStep);
  assert.deepEqual(follower.orders(0), [{ order: "pull", after: 5 }]);
  assert.deepEqual(places(follower.page(0, entries(6), 7, 7)), [6]);
  assert.ok(follower.isInStep && follower.last === 7);
});

test("a page that ends before the head goes on behind its end", () => {
  const follower = new Follower(0, 0, 9);
  assert.deepEqual(follower.orders(0), [{ order: "pull", after: 0 }]);
  follower.page(0, [], 4, 9);
  assert.deepEqual(follower.orders(0), [{ order: "pull", after: 4 }]);
  assert.deepEqual(follower.orders(0), []);
});

test("it wakes for what is due, and for nothing when it is in step", () => {
  const follower = begun(7);
  assert.equal(follower.wakeAt, Infinity);
  follower.comes(50, 8, 8);
  follower.comes(90, 9, 9);
  assert.equal(follower.wakeAt, 1_050, "a second after the first");
  assert.deepEqual(follower.orders(1_050), [{ order: "acknowledge", upto: 9 }]);
  assert.equal(follower.wakeAt, Infinity);
});
