// How far a message is shown to be, against what a client tells and is asked.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Receipts } from "../dist/receipts.js";

/** A client of which nothing but deliveries and readers is used. */
function fake(answers = {}) {
  const heard = new Set();
  return {
    on: (name, handler) => {
      assert.equal(name, "delivered");
      heard.add(handler);
      return () => heard.delete(handler);
    },
    readers: async (peer, ask = {}) => {
      const answer = answers[`${peer} ${ask.seq ?? 0}`];
      if (answer === undefined) throw Object.assign(new Error("no"), { code: "readers_untold" });
      return answer;
    },
    tells: (delivered) => heard.forEach((handler) => handler(delivered)),
    heard,
  };
}

test("a message is sent, delivered, read, and never less again", async () => {
  const client = fake({ "bob@x 0": { readers: [{ address: "bob@x", read: 1, delivered: 3 }] } });
  let changes = 0;
  const receipts = new Receipts(client, "bob@x", () => { changes += 1; });
  assert.equal(receipts.tick(3, 0), "sent");
  await receipts.begin();
  assert.deepEqual([receipts.tick(3, 0), receipts.tick(4, 0), changes], ["delivered", "sent", 1]);
  client.tells({ peer: "cid@x", upto: 9 });
  client.tells({ peer: "bob@x", upto: 2 });
  assert.equal(changes, 1, "another's, and an older one");
  client.tells({ peer: "bob@x", upto: 4 });
  assert.deepEqual([receipts.tick(4, 3), receipts.tick(3, 3), changes], ["delivered", "read", 2]);
  receipts.close();
  assert.equal(client.heard.size, 0);
});

test("of a group it is counted who has read a message, or told why not", async () => {
  const group = "g@conference.x";
  const readers = [{ address: "bob@x", read: 7, delivered: 0 }];
  const found = { peer: group, total: 2, read: 1, readers };
  const client = fake({ [`${group} 7`]: found });
  let changes = 0;
  const receipts = new Receipts(client, group, () => { changes += 1; });
  await receipts.begin();
  assert.deepEqual([receipts.readersOf(7), changes], [undefined, 0], "nobody asked");
  assert.equal(await receipts.count(7), undefined);
  assert.deepEqual([receipts.readersOf(7), changes], [found, 1]);
  assert.equal(await receipts.count(8), "readers_untold");
  assert.deepEqual([receipts.readersOf(8), changes], [undefined, 1]);
});
