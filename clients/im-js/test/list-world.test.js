// Random histories: devices of an account follow its list while they and others say, read, keep
// and call back, and connections are lost in every place.

import assert from "node:assert/strict";
import test from "node:test";
import { pageOf } from "../dist/conversation.js";
import { readRequest, recallRequest, setRequest } from "../dist/conversation-requests.js";
import { ListDevice, ListServer } from "./list-world.js";
import { randomOf } from "./world.js";

const SEEDS = 200;
const STEPS = 250;
const PEERS = ["bob@x", "cid@x", "dan@x", "eve@x", "fay@x"];

test("whatever is lost in between, a list is the sum of the inbox", () => {
  for (let seed = 1; seed <= SEEDS; seed++) tryOne(seed, 1_000);
});

test("a list with room for few has no more, and what it has is right", () => {
  for (let seed = 1; seed <= SEEDS / 4; seed++) tryOne(seed, 2);
});

test("wherever a connection is lost, and wherever a page is loaded anew, it stays right", () => {
  for (let at = 0; at < STEPS; at += 1) {
    tryOne(11, 1_000, { at, all: "lose" });
    if (at % 5 === 0) tryOne(12, 1_000, { at, all: "reload" });
  }
});

/** One history; `fixed`: nothing goes wrong but at this step. */
function tryOne(seed, listMax, fixed) {
  const random = randomOf(seed);
  const server = new ListServer();
  const devices = [["ann", "web"], ["ann", "phone"], ["bob", "web"]].map(([account, device]) => {
    const made = new ListDevice(server, account, device, random);
    made.listMax = listMax;
    made.reload();
    return made;
  });
  let said = 0;
  for (let step = 0; step < STEPS; step++) {
    const device = devices[random(devices.length)];
    const chance = random(100);
    if (chance < 8) device.say(said++, someone(device, random));
    else if (chance < 16) strangerSays(server, random);
    else if (chance < 26) wish(server, device, random);
    else if (chance < 30) server.distribute();
    else if (chance < 33 && fixed === undefined) device.lose();
    else if (chance < 34 && fixed === undefined) device.reload();
    else if (chance < 40) device.side.after(random(3_000));
    else device.step();
    if (fixed?.at === step) devices.forEach((it) => it[fixed.all]());
    // At rest in the middle of it, too: what was right once must stay so.
    if (random(120) === 0 && fixed === undefined) settle(server, devices, seed, listMax);
    devices.forEach((it) => it.side.takeTold());
  }
  settle(server, devices, seed, listMax);
}

function someone({ account }, random) {
  return account === "bob" ? "ann@x" : PEERS[random(PEERS.length)];
}

function strangerSays(server, random) {
  const peer = PEERS[1 + random(PEERS.length - 1)];
  const row = server.conversation("ann@x", peer);
  const chance = random(12);
  if (chance > 9 && row.length > 0) {
    return server.amend(peer, "ann@x", BigInt(1 + random(row.length)), 6 + random(2));
  }
  if (chance < 7) server.says(peer, "ann@x", { uncounted: random(5) === 0 });
  else if (chance < 9 && row.length > 0) server.recall(peer, "ann@x", BigInt(1 + random(row.length)));
  else server.read(peer, "ann@x", BigInt(1 + random(9)));
}

/** A device reads, keeps or calls back something. */
function wish(server, device, random) {
  const peer = someone(device, random);
  const length = server.conversation(device.name, peer).length;
  const chance = random(10);
  if (chance < 5) device.wants(readRequest, peer, 1 + random(length + 1));
  else if (chance < 8) {
    const setting = 1 + random(4);
    const draft = setting === 4 && random(3) > 0 ? `draft ${random(9)}` : "";
    device.wants(setRequest, peer, { setting, on: random(2) === 0, draft });
  } else device.wants(recallRequest, peer, 1 + random(length + 1));
}

/** No more is lost, until nobody has anything to do; then each list must be right. */
function settle(server, devices, seed, listMax) {
  for (let round = 0; ; round++) {
    assert.ok(round < 5_000, `seed ${seed}: it comes to rest`);
    server.distribute();
    for (const device of devices) {
      for (let n = 0; n < 8; n++) device.step();
      device.side.after(200);
      device.side.takeTold();
      assert.ok(device.side.machine.list.all.length <= listMax, `seed ${seed}: it has room`);
    }
    if (server.outbox.length === 0 && devices.every((it) => it.isAtRest)) break;
    // Own messages take no places of their own, until the next entry or pull.
    if (round % 50 === 49) devices.forEach((device) => device.lose());
  }
  devices.forEach((device) => compare(server, device, seed, listMax));
}

function compare(server, { side, name, device }, seed, listMax) {
  const { list } = side.machine;
  const conversations = [...server.truth(name).values()];
  const page = pageOf({ conversations, upto: 0n, more: false }, name);
  const truth = new Map(page.conversations.map((it) => [it.peer, it]));
  const about = `seed ${seed}: ${name} ${device}`;
  for (const found of list.all) {
    // The place of an own message is told to other devices alone, until it is pulled.
    const expected = { ...truth.get(found.peer), place: found.place };
    assert.deepEqual(found, expected, `${about}: ${found.peer}`);
  }
  assert.ok(list.isWhole, about);
  if (listMax < PEERS.length) return;
  const shown = (all) => all.filter((it) => !it.isHidden).map(({ peer }) => peer).sort();
  assert.deepEqual(shown(list.all), shown(page.conversations), `${about}: all are there`);
}
