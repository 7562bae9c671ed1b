// Titles of groups that a browser keeps.

import assert from "node:assert/strict";
import test from "node:test";
import { parseTitles, Titles, TITLES_MAX } from "../dist/titles.js";

test("a title is kept, and what is known is no news", () => {
  const titles = new Titles();
  assert.equal(titles.of("g"), undefined);
  assert.ok(titles.put("g", "us"));
  assert.ok(!titles.put("g", "us"));
  assert.ok(titles.put("g", ""));
  assert.equal(titles.of("g"), "", "none is known to be none");
  titles.put("long", "好🙂".repeat(200));
  assert.equal(Array.from(titles.of("long")).length, 256);
  const again = parseTitles(titles.print());
  assert.deepEqual([again.of("g"), again.of("long")], ["", titles.of("long")]);
});

test("there are never more than so many: the one told longest ago goes", () => {
  const titles = new Titles();
  for (let n = 0; n < TITLES_MAX; n++) titles.put(`g${n}`, `${n}`);
  titles.put("g0", "told again");
  titles.put("one more", "x");
  assert.deepEqual([titles.of("g0"), titles.of("g1"), titles.of("g2")], ["told again", undefined, "2"]);
  const many = JSON.stringify(Array.from({ length: 9_999 }, (_, n) => [`g${n}`, "t"]));
  assert.equal(JSON.parse(parseTitles(many).print()).length, TITLES_MAX);
});

test("what was kept and is broken, or is of an older page, is left out", () => {
  for (const text of [null, "", "{", "7", "null", "{}", '[{"peer":"bob","glimpse":"secret"}]']) {
    assert.equal(parseTitles(text).print(), "[]");
  }
  const kept = [null, [], ["g"], ["g", 7], [7, "t"], ["g", "t", "more"], ["right", "t"]];
  assert.equal(parseTitles(JSON.stringify(kept)).print(), '[["right","t"]]');
});
