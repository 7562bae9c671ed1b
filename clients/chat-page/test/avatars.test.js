// Initials and colours.

import assert from "node:assert/strict";
import test from "node:test";
import { initialsOf, toneOf, TONES } from "../dist/avatars.js";

test("initials are of the first two words of a name", () => {
  for (const [name, initials] of [["bob", "B"], ["Ann Lee", "AL"], ["ann.lee@a.example", "AL"],
    ["王小明", "王"], ["🙂 x", "🙂X"], ["", "?"], ["@x", "?"], ["élan vital plus", "ÉV"]]) {
    assert.equal(initialsOf(name), initials, name);
  }
});

test("a colour depends on the address alone, and all colours are used", () => {
  assert.equal(toneOf("ann@x"), toneOf("ann@x"));
  const tones = new Set(Array.from({ length: 200 }, (_, at) => toneOf(`user${at}@x`)));
  assert.equal(tones.size, TONES);
});
