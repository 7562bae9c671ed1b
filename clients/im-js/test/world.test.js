// Random histories: devices that lose connections and are loaded anew, over a model of the server.

import assert from "node:assert/strict";
import test from "node:test";
import { ModelDevice, ModelServer, randomOf } from "./world.js";

const SEEDS = 300;
const STEPS = 400;

test("whatever is lost in between, each message is there once, in order, and told to all", () => {
  for (let seed = 1; seed <= SEEDS; seed++) tryOne(seed);
});

function tryOne(seed) {
  const random = randomOf(seed);
  const server = new ModelServer();
  const devices = [["ann", "web"], ["ann", "phone"], ["bob", "web"]]
    .map(([account, device]) => new ModelDevice(server, account, device, random));
  const said = [];
  for (let step = 0; step < STEPS; step++) {
    const device = devices[random(devices.length)];
    const chance = random(100);
    if (chance < 12) {
      const to = device.account === "ann" ? ["bob", "bob@x"][random(2)] : "ann";
      device.say(said.length, to);
      said.push(`${device.account} ${device.device} ${said.length}`);
    } else if (chance < 15) device.lose();
    else if (chance < 17) device.reload();
    else if (chance < 25) device.side.after(random(3_000));
    else device.step();
    devices.forEach((it) => check(it, seed));
  }
  settle(devices, seed);
  const row = server.conversation("ann@x", "bob@x").map(({ content }) => content.text);
  assert.deepEqual([...row].sort(), [...said].sort(), `seed ${seed}: stored once each`);
  for (const device of devices) {
    const mine = (text) => text.startsWith(`${device.account} ${device.device} `);
    const order = said.filter(mine);
    assert.deepEqual(row.filter(mine), order, `seed ${seed}: in the order in which it was said`);
    assert.deepEqual([...device.told].sort(), [...said].sort(), `seed ${seed}: told to all`);
    assert.deepEqual(device.side.machine.outbox.queued, [], `seed ${seed}: nothing waits`);
  }
}

function check(device, seed) {
  device.collect();
  const { life, side } = device;
  assert.equal(new Set(life).size, life.length, `seed ${seed}: ${device.device} heard twice`);
  const row = device.server.conversation("ann@x", "bob@x").map(({ content }) => content.text);
  const others = life.filter((it) => !it.startsWith(`${device.account} ${device.device} `));
  const expected = row.filter((it) => others.includes(it));
  assert.deepEqual(others, expected, `seed ${seed}: in order`);
  assert.ok(side.asked.length < 100, `seed ${seed}: it does not flood the server`);
}

/** No more is lost, until nobody has anything to do. */
function settle(devices, seed) {
  for (let round = 0; ; round++) {
    assert.ok(round < 5_000, `seed ${seed}: it comes to rest`);
    for (const device of devices) {
      for (let n = 0; n < 8; n++) device.step();
      device.side.after(200);
      check(device, seed);
    }
    const isDone = ({ server, side, name, device }) =>
      side.machine.state.isInStep && side.machine.outbox.queued.length === 0
      && side.last === server.inbox(name).length
      && (server.cursors.get(`${name} ${device}`) ?? 0) === side.last;
    // A device's own messages take no places of its own, until the next entry or pull.
    if (devices.every(isDone)) return;
    if (round % 50 === 49) devices.forEach((device) => device.lose());
  }
}
