// A person with stanza.js over a WebSocket. What it is told and what it tells are lines, words with
// tabs between them; xmpp/test_libraries.py knows which.
//
//   node stanza_driver.mjs FOLDER URL NAME PASSWORD
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { join } from "node:path";

const [folder, url, name, password] = process.argv.slice(2);
const { createClient } = createRequire(join(folder, "package.json"))("stanza");

const print = (...words) => console.log(words.join("\t"));
const jid = `${name}@localhost`;
const transports = { websocket: url, bosh: false };
const client = createClient({ jid, password, resource: "desk", transports });
// It would take these without binding anything, which no server may let in (RFC 5802 6).
["SCRAM-SHA-256-PLUS", "SCRAM-SHA-1-PLUS"].forEach((name) => client.sasl.disable(name));
client.on("auth:failed", () => print("failed", "not-authorized"));
client.on("stream:error", (error) => print("failed", error.condition ?? "stream"));
client.on("subscribe", (presence) => {
  client.acceptSubscription(presence.from);
  print("asked", presence.from);
});
client.on("available", (presence) => print("presence", presence.from, presence.show ?? "here"));
client.on("unavailable", (presence) => print("presence", presence.from, "gone"));
client.on("chat", (message) => print("message", message.from, message.body));
client.on("groupchat", (message) => print("room", message.from, message.body));
client.on("session:started", async () => {
  client.enableCarbons();
  await client.getRoster();
  client.sendPresence();
  print("online", client.jid);
});

const does = {
  add: async (other, as) => {
    await client.updateRosterItem({ jid: other, name: as });
    client.subscribe(other);
  },
  roster: async () => {
    const { items } = await client.getRoster();
    for (const item of items) {
      print("contact", item.jid, item.name ?? "", item.subscription);
    }
    print("roster", items.length);
  },
  show: (show) => client.sendPresence({ show }),
  say: (to, text) => client.sendMessage({ to, type: "chat", body: text }),
  join: async (room, nick) => {
    await client.joinRoom(room, nick);
    print("joined", room);
  },
  tell: (room, text) => client.sendMessage({ to: room, type: "groupchat", body: text }),
  archive: async (other) => {
    const found = await client.searchHistory({ with: other, paging: { max: 50 } });
    for (const { item } of found.results) {
      print("archived", item.message.from, item.message.body);
    }
    print("archive", found.results.length);
  },
  quit: () => {
    client.on("disconnected", () => process.exit(0));
    client.disconnect();
  },
};
createInterface({ input: process.stdin }).on("line", async (line) => {
  const [what, ...words] = line.split("\t");
  try {
    await does[what](...words);
  } catch (error) {
    print("failed", what, JSON.stringify(error));
  }
});
client.connect();
