// The conversations as they are listed.

import assert from "node:assert/strict";
import test from "node:test";
import { countOf, glimpseOf, listed, unreadIn } from "../dist/listed.js";

let place = 100;
const kept = (peer, given = {}) => ({
  peer, place: (place -= 1), seq: 1, last: undefined, read: 0, peerRead: 0, unread: 0, mentions: 0,
  isPinned: false, isMuted: false, isHidden: false, draft: "", ...given,
});
const said = (given) => ({
  id: 1n, at: 1, from: "bob@x", isOwn: false, kind: 1, text: "t", isWhole: true, changes: [],
  ...given,
});
const names = (...given) => listed(...given).map(({ peer }) => peer);

test("pinned ones are first, then who was named, then the newest; hidden ones are not shown", () => {
  const all = [kept("pin", { isPinned: true }), kept("bob"), kept("gone", { isHidden: true }),
    kept("cid")];
  assert.deepEqual(names(all, ["new", "bob"], undefined), ["pin", "new", "bob", "cid"]);
  assert.deepEqual(names(all, [], "gone"), ["pin", "bob", "gone", "cid"], "but while it is looked at");
  const asked = kept("asked", { place: 0 });
  assert.deepEqual(names([...all, asked], [], undefined), ["pin", "bob", "cid"]);
  const [found] = listed([asked], ["asked"], undefined);
  assert.deepEqual(found, { peer: "asked", conversation: undefined });
});

test("what is muted or hidden is not counted but where one is mentioned, and a count that is more says so", () => {
  const all = [kept("a", { unread: 2 }), kept("b", { unread: 9, isMuted: true }),
    kept("c", { unread: 9, isHidden: true }), kept("d", { unread: 1 })];
  assert.deepEqual(unreadIn(all), { count: 3, isMore: false });
  const mentioned = kept("e", { unread: 9, mentions: 2, isMuted: true });
  assert.deepEqual(unreadIn([...all, mentioned]), { count: 5, isMore: false });
  assert.deepEqual(unreadIn([kept("a", { unread: 1_024 })]), { count: 1_024, isMore: true });
  assert.deepEqual([countOf(3), countOf(999), countOf(1_000), countOf(1_024, true), countOf(7, true)],
    ["3", "999", "999+", "999+", "7+"]);
});

test("the line below a name is what was said last, what happened, or what is begun", () => {
  const of = (given, isCurrent = false, language = "en") =>
    glimpseOf(language, kept("g", given), "me@x", isCurrent);
  assert.equal(of({}), "");
  assert.equal(of({ last: said({ text: "two\n lines" }) }), "two lines");
  const inGroup = (given) => glimpseOf("en", kept("g@conference.x", given), "me@x", false);
  assert.equal(inGroup({ last: said() }), "bob: t");
  assert.equal(inGroup({ last: said({ from: "me@x", isOwn: true }) }), "t");
  assert.equal(of({ last: said({ kind: 4 }) }), "bob deleted a message");
  assert.equal(of({ last: said({ kind: 5, text: "" }) }), "bob deleted a message");
  const changes = ["add", "promote"].map((verb) => ({ verb, members: ["cid@x"], title: "" }));
  assert.equal(of({ last: said({ kind: 3, changes: changes.slice(1) }) }), "bob made cid an admin");
  assert.equal(of({ last: said({ kind: 3, changes }) }), "bob added cid; bob made cid an admin");
  assert.equal(of({ last: said({ kind: 3, text: "us" }) }), "bob changed the group");
  assert.equal(of({ last: said({ kind: 3, text: "us" }) }, false, "zh"), "bob 更改了群组");
  assert.equal(of({ last: said({ kind: 1_000, text: "" }) }), "", "one that nobody knows");
  assert.equal(of({ last: said(), draft: "Dear" }), "Draft: Dear");
  assert.equal(of({ last: said(), draft: "Dear" }, true), "t", "it is to be seen in the field");
  assert.equal(Array.from(of({ last: said({ text: "好🙂".repeat(99) }) })).length, 80);
});
