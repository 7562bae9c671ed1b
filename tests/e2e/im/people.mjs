// Two people with the browsers' library against a running server: they become friends, and see each
// other come, go and be away.
//
//   node people.mjs FOLDER_OF_THE_LIBRARY URL

import { webcrypto } from "node:crypto";
import { Socket } from "./websocket.mjs";

globalThis.crypto ??= webcrypto;
const [folder, url] = process.argv.slice(2);
const { areFriends, Client, MemoryStorage } = await import(`${folder}/index.js`);

const person = (account) => new Client({
  url, account, device: "web", storage: new MemoryStorage(), webSocket: Socket, people: true,
});

/** Waits until something is so, which a client is told of. */
const until = (client, isSo) => new Promise((resolve) => {
  const look = () => {
    const found = isSo();
    if (found) resolve(found);
  };
  client.on("contacts", look);
  client.on("presence", look);
  look();
});

const [ann, bob] = [person("ann"), person("bob")];
let greeting = "";
bob.on("contact", async ({ contact, said }) => {
  if (said !== "request" || greeting !== "") return;
  greeting = contact.greeting;
  await bob.changeContact(contact.address, "befriend");
});
await bob.connect();
await ann.connect();
await ann.changeContact("bob", "befriend", { greeting: "it is ann" });
const friend = await until(ann, () => ann.contacts.find((it) => areFriends(it)));
const seen = (show) => () => ann.presence(friend.address).find((it) => it.show === show);
const { device } = await until(ann, seen("online"));
bob.setPresence("away", "back at two");
const { status } = await until(ann, seen("away"));
await bob.changeContact("ann", "set", { name: "Annie", groups: ["work"] });
const { name, groups } = await until(bob, () => bob.contacts.find((it) => it.name !== ""));
const full = await bob.changeContact("nobody", "request").catch((error) => error.code);
bob.close();
await until(ann, () => ann.presence(friend.address).length === 0);
ann.close();
const told = { friend: friend.address, greeting, device, status, name, groups, full };
console.log(JSON.stringify(told));
