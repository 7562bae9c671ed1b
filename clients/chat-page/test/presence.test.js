// Presence and contacts as they are shown.

import assert from "node:assert/strict";
import test from "node:test";
import { standingOf, tieOf } from "../dist/presence.js";

const on = (...shows) => standingOf(shows.map((show) => ({ show })));

test("of several devices the one counts that can be reached best", () => {
  assert.equal(on(), "offline");
  assert.equal(on("long_away", "talkative"), "online");
  assert.equal(on("away", "busy"), "busy");
  assert.equal(on("long_away"), "away");
  assert.equal(on("offline"), "offline");
});

test("a contact is blocked, asks, is asked, or is one", () => {
  const contact = (sees, seen, more = {}) => ({ sees, seen, isBlocked: false, ...more });
  assert.equal(tieOf(undefined), "none");
  assert.equal(tieOf(contact("none", "none")), "none");
  assert.equal(tieOf(contact("pending", "none")), "asked");
  assert.equal(tieOf(contact("none", "pending")), "asks");
  assert.equal(tieOf(contact("subscribed", "pending")), "asks");
  assert.equal(tieOf(contact("subscribed", "subscribed")), "friend");
  assert.equal(tieOf(contact("subscribed", "subscribed", { isBlocked: true })), "blocked");
});
