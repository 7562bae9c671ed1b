// Groups: what is ordered, what happens in them, and who is in one.

import assert from "node:assert/strict";
import test from "node:test";
import {
  changesOf, endsMembership, GROUP_ROLES, GROUP_VERBS, isGroup, isOfNothingKnown, MembersList,
  roleOf, verbNumber,
} from "../dist/group.js";
import { messageOf } from "../dist/message.js";
import { browser, flushed } from "./fakes.js";
import { chatMessage, entry, Side } from "./side.js";
import { schema } from "./vectors.js";

const GROUP = "mabcdefghijkl@conference.x";
const ORDER = { group: GROUP, verb: "add", title: "", members: ["bob"], clientId: "7".repeat(32) };
const bytes = (text) => new TextEncoder().encode(text);

test("verbs and roles are those of the schema", () => {
  const { values } = schema();
  const name = (prefix, word) => `${prefix}_${word.toUpperCase().replace("-", "_")}`;
  for (const verb of GROUP_VERBS) assert.equal(verbNumber(verb), values[name("GROUP_VERB", verb)]);
  for (const role of GROUP_ROLES) assert.equal(roleOf(values[name("GROUP_ROLE", role)]), role);
  const count = Object.keys(values).filter((it) => it.startsWith("GROUP_")).length;
  assert.equal(count, GROUP_VERBS.length + GROUP_ROLES.length + 2, "and there are no others");
  assert.equal(roleOf(77), "member", "one of a later version");
});

test("a change is read out of the message that tells of it, and nothing else is", () => {
  const add = bytes("add bob@x#1 carol@y#18446744073709551615");
  assert.deepEqual(changesOf(3, "", add), [
    { verb: "add", title: "", members: ["bob@x", "carol@y"] },
  ]);
  assert.deepEqual(changesOf(3, "us", bytes("rename")), [
    { verb: "rename", title: "us", members: [] },
  ]);
  assert.deepEqual(changesOf(1, "", add), []);
  for (const extra of ["", "\n", "addict bob@x#1", "add bob", "add bob@x", "add bob@x#",
    "add  bob@x#1", "add bob@x#1 ", "rename =7", "rename =7g", "rename =ff", "rename =61 =62",
    "rename =6 1", "rename= 61", "=61"]) {
    assert.deepEqual(changesOf(3, "", bytes(extra)), [], extra);
  }
});

test("changes that were made at once are read in their order, some with a text of their own", () => {
  const of = (...lines) => changesOf(3, "spam", bytes(lines.join("\n")));
  const all = of("add bob@x#1", "add-owner bob@x#1 =", "rename =546561", "describe =C3a9");
  assert.deepEqual(all, [
    { verb: "add", title: "spam", members: ["bob@x"] },
    { verb: "add-owner", title: "", members: ["bob@x"] },
    { verb: "rename", title: "Tea", members: [] },
    { verb: "describe", title: "é", members: [] },
  ]);
  const some = of("close", "paint bob@x#1", "rename =ff", "", "ban bob@x#1");
  assert.deepEqual(some.map((it) => it.verb), ["close", "ban"], "the others are not known");
});

test("what happened to a group and is not known here is told apart from what is said", () => {
  const of = (kind, extra) => ({ kind, changes: changesOf(kind, "", bytes(extra)) });
  assert.equal(isOfNothingKnown(of(3, "fan-out-on-read")), true);
  assert.equal(isOfNothingKnown(of(3, "paint\nadd bob@x#1")), false);
  assert.equal(isOfNothingKnown(of(1, "fan-out-on-read")), false);
});

test("a recall is read out of the message that tells of it, and nothing else is", () => {
  const recallOf = (kind, extra) => {
    const content = { kind, text: "", extra: bytes(extra), uncounted: true, mentions: [] };
    return messageOf(chatMessage(9, { content }), "ann@x").recall;
  };
  assert.equal(recallOf(4, "12 18446744073709551615"), 12);
  assert.equal(recallOf(4, "12 7 a name\neve@x 1760000000000 spam"), 12, "moderated");
  assert.equal(recallOf(4, "12 7\neve@x 1760000000000 "), 12, "of a message without a name");
  assert.equal(recallOf(1, "12 7"), undefined);
  for (const extra of ["", "12", "12 ", " 12 7", "-1 7", "9999999999999999 7"]) {
    assert.equal(recallOf(4, extra), undefined, extra);
  }
});

test("what is said in a group is of the conversation with the group, whoever says it", () => {
  assert.ok(isGroup(GROUP) && !isGroup("conference@x") && !isGroup("bob@x"));
  const heard = messageOf(chatMessage(1, { to: GROUP }), "ann@x");
  assert.deepEqual([heard.peer, heard.isOwn, heard.from], [GROUP, false, "bob@x"]);
  const own = messageOf(chatMessage(2, { to: GROUP, from: "ann@x" }), "ann@x");
  assert.deepEqual([own.peer, own.isOwn], [GROUP, true]);
  assert.equal(messageOf(chatMessage(3), "ann@x").peer, "bob@x");
});

test("an order is told what came of it, and its message comes as others' do", () => {
  const side = new Side().online();
  side.do((machine, now) => machine.order(now, 5, ORDER));
  const { kind, fields } = side.asked.pop();
  assert.deepEqual([kind, fields.group, fields.verb, fields.members], ["group", GROUP, 2, ["bob"]]);
  assert.deepEqual(fields.client_id, Uint8Array.from({ length: 16 }, () => 0x77));
  const { number } = fields;
  side.takeTold();
  side.says("changed", { number, group: GROUP, id: 9n, seq: 3n, at_ms: 5n });
  assert.deepEqual(side.takeTold(), [{ group: GROUP, id: 9n, seq: 3, at: 5 }]);
  side.says("changed", { number, group: GROUP, id: 9n, seq: 3n, at_ms: 5n });
  assert.deepEqual(side.takeTold(), [], "once");
  const told = { text: "", to: GROUP, from: "ann@x", device: "web" };
  side.says("message", entry(1, told));
  assert.deepEqual(side.takeTold(), [""], "it is at the next place of the inbox");
  side.says("message", entry(3, told));
  side.after(0);
  assert.ok(side.takeAsked().includes("pull 1"), "its answer stands for no place");
});

test("an order that is refused, or has no connection, is told so", () => {
  const side = new Side().online();
  side.takeTold();
  for (const [fault, code] of [[9, "forbidden"], [12, "unchanged"], [5, "busy"], [11, "group_full"]]) {
    side.do((machine, now) => machine.order(now, 1, ORDER));
    side.says("failed", { number: side.asked.pop().fields.number, fault, word: code });
    assert.deepEqual(side.takeTold().map((it) => it.code), [code]);
  }
  side.do((machine, now) => machine.order(now, 2, ORDER));
  side.do((machine, now) => machine.members(now, 3, GROUP, { version: 0n, from: 0 }));
  side.lose();
  const codes = side.takeTold().map((it) => it.code ?? it);
  assert.deepEqual(codes, ["disconnected", "disconnected", "waiting"]);
  side.do((machine, now) => machine.order(now, 4, ORDER));
  assert.deepEqual(side.takeTold().map((it) => it.code), ["disconnected"]);
});

test("a list comes in pages, and begins anew where its group has changed", () => {
  const member = (address) => ({ address, role: "member", isMuted: false });
  const page = (version, from, total, ...names) => ({
    group: GROUP, title: "us", description: "", isClosed: false, isUnlocked: false, isPublic: false,
    isTemporary: false,
    version, from, total, members: names.map(member),
  });
  const list = new MembersList();
  assert.deepEqual(list.next, { version: 0n, from: 0 });
  assert.equal(list.page(page(7n, 0, 3, "a@x", "b@x")), undefined);
  assert.deepEqual(list.next, { version: 7n, from: 2 });
  assert.equal(list.page(page(8n, 0, 2, "a@x")), undefined, "somebody went");
  assert.deepEqual(list.next, { version: 8n, from: 1 });
  const whole = list.page(page(8n, 1, 2, "c@x"));
  assert.deepEqual(whole.members.map((it) => it.address), ["a@x", "c@x"]);
  const hasty = new MembersList();
  for (let version = 1n; !hasty.isHopeless; version += 1n) hasty.page(page(version, 0, 3, "a@x"));
  assert.equal(hasty.next.version, 17n, "it is given up some time");
});

test("a client makes a group, and has its members whole", async () => {
  const { client, socket } = browser();
  const connected = client.connect();
  await socket().letsIn();
  await connected;
  const made = client.createGroup({ members: ["bob"], title: "us" });
  const { fields } = socket().frames.pop();
  assert.deepEqual([fields.group, fields.verb, fields.title, fields.members], ["", 1, "us", ["bob"]]);
  socket().says("changed", { number: fields.number, group: GROUP, id: 9n, seq: 1n, at_ms: 5n });
  assert.equal((await made).group, GROUP);
  const members = client.members(GROUP);
  const asks = () => socket().frames.pop().fields;
  const page = { group: GROUP, version: 9n, title: "us", total: 2 };
  const ann = { address: "ann@x", account: 1n, role: 3, muted: false };
  socket().says("members", { ...page, number: asks().number, members: [ann] });
  await flushed();
  const { number, version, from } = asks();
  assert.deepEqual([version, from], [9n, 1]);
  const bob = { address: "bob@x", account: 2n, role: 1, muted: true };
  socket().says("members", { ...page, number, from: 1, members: [bob] });
  assert.deepEqual(await members, {
    group: GROUP, title: "us", description: "", isClosed: false, isUnlocked: false, isPublic: false,
    isTemporary: false,
    members: [
      { address: "ann@x", role: "owner", isMuted: false },
      { address: "bob@x", role: "member", isMuted: true },
    ],
  });
  const wrong = [client.changeGroup("", "add"), client.changeGroup(GROUP, "create"),
    client.createGroup({ clientId: "7" })];
  for (const it of wrong) await assert.rejects(it, { code: "invalid" });
});

test("an account is no member after it left, was removed, banned or invited, or the group ended", () => {
  const of = (verb, members, isOwn = false) =>
    endsMembership([{ verb, members, title: "" }], isOwn, "ann@x");
  assert.ok(of("leave", [], true) && !of("leave", []));
  for (const verb of ["remove", "ban", "invite"]) {
    assert.ok(of(verb, ["bob@x", "ann@x"]) && !of(verb, ["bob@x"]), verb);
  }
  assert.ok(of("dissolve", []));
  for (const verb of ["create", "add", "join", "promote"]) assert.ok(!of(verb, ["ann@x"]), verb);
});

test("of changes that were made at once the last of an account says whether it is a member", () => {
  const of = (extra, isOwn = false) =>
    endsMembership(changesOf(3, "", bytes(extra)), isOwn, "ann@x");
  assert.ok(of("add bob@x#2\nremove ann@x#1\nban eve@x#3"));
  assert.ok(of("demote bob@x#2\nleave ann@x#1", true));
  assert.ok(!of("remove ann@x#1\nunban eve@x#3\nadd ann@x#4"), "another account of this name");
  assert.ok(of("ban ann@x#1\nadd bob@x#2"));
  assert.ok(!of("paint ann@x#1\nclose"));
});
