// The people whom somebody has talked with.

import assert from "node:assert/strict";
import test from "node:test";
import { parsePeople, People, PEOPLE_MAX, printPeople } from "../dist/people.js";

const said = (peer, seq, more = {}) =>
  ({ peer, text: `${peer} ${seq}`, at: seq * 10, seq, isOwn: false, ...more });
const names = (people) => people.all.map(({ peer }) => peer);

test("who spoke last is first, and what was not looked at is counted", () => {
  const people = new People();
  people.heard(said("bob", 1), false);
  people.heard(said("cid", 2), false);
  people.heard(said("bob", 3), false);
  assert.deepEqual(names(people), ["bob", "cid"]);
  assert.deepEqual(people.all.map(({ unread }) => unread), [2, 1]);
  people.seen("bob");
  assert.equal(people.all[0].unread, 0);
  people.heard(said("bob", 4), true);
  people.heard(said("bob", 5, { isOwn: true }), false);
  assert.deepEqual([people.all[0].unread, people.all[0].glimpse], [0, "bob 5"]);
});

test("what is told again after a reload counts once", () => {
  const people = new People();
  people.heard(said("bob", 1), false);
  const again = parsePeople(printPeople(people));
  again.heard(said("bob", 1), false);
  assert.equal(again.all[0].unread, 1);
  again.heard(said("bob", 2), false);
  assert.equal(again.all[0].unread, 2);
});

test("a group keeps its title, and what happens in one counts for nothing", () => {
  const people = new People();
  people.titled("g", "us");
  assert.deepEqual(names(people), [], "nobody is made by a title");
  people.heard(said("g", 1, { uncounted: true }), false);
  people.titled("g", "us");
  people.heard(said("g", 2), false);
  assert.deepEqual([people.all[0].title, people.all[0].unread], ["us", 1]);
  const again = parsePeople(printPeople(people));
  assert.equal(again.all[0].title, "us");
  assert.deepEqual(names(parsePeople(JSON.stringify([{ ...people.all[0], title: 7 }]))), []);
});

test("who is met is there without a word, once", () => {
  const people = new People();
  people.met("bob", 5);
  people.heard(said("cid", 1), false);
  people.met("cid", 99);
  assert.deepEqual(names(people), ["cid", "bob"]);
  people.heard(said("bob", 1), false);
  assert.equal(people.all.find(({ peer }) => peer === "bob").unread, 1);
});

test("those who were silent for longest are let go, and long texts cut", () => {
  const people = new People();
  for (let at = 1; at <= PEOPLE_MAX + 3; at++) people.heard(said(`p${at}`, at), false);
  assert.equal(people.all.length, PEOPLE_MAX);
  assert.deepEqual([names(people)[0], names(people).at(-1)], [`p${PEOPLE_MAX + 3}`, "p4"]);
  people.heard(said("long", 9_999, { text: "好🙂".repeat(99) }), false);
  assert.equal(Array.from(people.all[0].glimpse).length, 80);
});

test("what was kept and is broken is left out", () => {
  for (const text of [null, "", "{", "7", "null", "{}"]) {
    assert.deepEqual(names(parsePeople(text)), []);
  }
  const good = { peer: "bob", glimpse: "", at: 1, seq: 0, unread: 0 };
  const kept = [null, 7, {}, { ...good, peer: 1 }, { ...good, at: -1 }, { ...good, seq: 1.5 }, good];
  assert.deepEqual(names(parsePeople(JSON.stringify(kept))), ["bob"]);
});
