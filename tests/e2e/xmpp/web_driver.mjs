// A person with @xmpp/client over a WebSocket: what comes is printed, a line of JSON each; lines of
// standard input are sent.
//
//   node web_driver.mjs FOLDER URL NAME PASSWORD PEER
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [folder, url, name, password, peer] = process.argv.slice(2);
const require = createRequire(join(folder, "package.json"));
globalThis.WebSocket = require("ws");
const library = await import(pathToFileURL(join(folder, "node_modules/@xmpp/client/index.js")));
const { client, xml } = library;

const print = (word) => console.log(JSON.stringify(word));
const xmpp = client({ service: url, domain: "localhost", username: name, password });
xmpp.reconnect.stop();
xmpp.on("error", (error) => print({ error: String(error) }));
xmpp.on("stanza", (stanza) => {
  if (stanza.is("message") && stanza.getChild("body")) {
    print({ body: stanza.getChildText("body"), from: stanza.attrs.from,
            waited: Boolean(stanza.getChild("delay")) });
  }
});
xmpp.on("online", async (address) => {
  await xmpp.send(xml("presence"));
  print({ online: address.toString() });
});
xmpp.on("offline", () => print({ offline: true }));
createInterface({ input: process.stdin }).on("line", async (line) => {
  if (line === "/quit") {
    await xmpp.stop();
    process.exit(0);
  }
  await xmpp.send(xml("message", { type: "chat", to: `${peer}@localhost` }, xml("body", {}, line)));
});
await xmpp.start().catch((error) => print({ error: String(error) }));
