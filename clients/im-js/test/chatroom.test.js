// Chatrooms: what a client is told of them, and a machine that joins, says something and hears it.

import assert from "node:assert/strict";
import test from "node:test";
import {
  CHATROOM_VERBS, chatroomVerbNumber, isChatroom, joinedOf, newsOf,
} from "../dist/chatroom.js";
import { SERVER_FRAME } from "../dist/frames.js";
import { message } from "../dist/wire.js";
import { faultOf } from "../dist/words.js";
import { schema } from "./vectors.js";

const STATE = SERVER_FRAME.chatroom_news.table.state.table;
const room = "lobby@live.a.example";

test("a chatroom is known by its address", () => {
  assert.ok(isChatroom(room) && isChatroom("x@live.b"));
  for (const other of ["lobby@a.example", "live@a.example", "x@conference.live.a"]) {
    assert.ok(!isChatroom(other), other);
  }
});

test("verbs have the numbers of the schema", () => {
  const { values } = schema();
  for (const verb of CHATROOM_VERBS) {
    assert.equal(chatroomVerbNumber(verb), values[`CHATROOM_VERB_${verb.toUpperCase()}`], verb);
  }
});

test("who has joined knows what the room is, and what was said last", () => {
  const state = message(STATE, { room, title: "Lobby", here: 7, quiet: true });
  const fields = message(SERVER_FRAME.chatroom_joined.table, { number: 1, state, role: 2 });
  const joined = joinedOf(fields, "ann@a.example");
  const expected = { room, title: "Lobby", announcement: "", isQuiet: true, here: 7 };
  assert.deepEqual(joined, { ...expected, role: "admin", isMuted: false, messages: [] });
});

test("news say how a room is, or that one is out of it, for whatever reason", () => {
  const state = message(STATE, { room, here: 8 });
  const of = (out) => newsOf({ state, out });
  assert.equal(of(0).state.here, 8);
  assert.deepEqual([1, 2, 3, 9].map((out) => of(out).out), ["kicked", "banned", "closed", "kicked"]);
  assert.equal(of(2).room, room);
});

test("why something is not done in a chatroom is said in words", () => {
  const { values } = schema();
  for (const word of ["NO_CHATROOM", "CHATROOM_FULL", "CHATROOM_BANNED", "NOT_IN_CHATROOM", "CHATROOMS_FULL"]) {
    const { error } = faultOf(values[`FAULT_${word}`], "");
    assert.ok(error.code === word.toLowerCase() && !error.message.includes("does not know"), word);
  }
});
