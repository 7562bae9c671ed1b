// Contacts and presence: the machine under a told clock, and lists against a model of the server.

import assert from "node:assert/strict";
import test from "node:test";
import {
  areFriends, CONTACT_VERBS, contactOf, contactVerbNumber, HALVES, presenceOf, saidOf, showNumber,
  SHOWS,
} from "../dist/contact.js";
import { People } from "../dist/people.js";
import { Client } from "../dist/client.js";
import { Side } from "./side.js";
import { schema } from "./vectors.js";

const fields = (name, version, given = {}) => ({
  address: `${name}@x`, listed: true, name: "", groups: [], sees: 0, seen: 0, approved: false,
  greeting: "", blocked: false, version: BigInt(version), ...given,
});

const gone = (name, version) => fields(name, version, { listed: false });

const page = (contacts, given = {}) => ({
  number: 0xffff_fffd, anew: false, since: 0n, upto: 0n, more: false, contacts, ...given,
});

/** What a side was asked since it was looked at last, but who it is. */
const asked = (side) => side.asked.splice(0).filter(({ kind }) => kind !== "login");

/** Up to where the list is asked for. */
const places = (side) => asked(side).map((it) => [it.fields.after, it.fields.since]);

const kinds = (side) => asked(side).map(({ kind }) => kind);

// ---- words

test("the words are those of the schema", () => {
  const { values } = schema();
  const words = (prefix) => Object.entries(values)
    .filter(([word]) => word.startsWith(prefix) && !word.endsWith("_UNSPECIFIED"))
    .map(([word, number]) => [word.slice(prefix.length).toLowerCase(), number]);
  assert.deepEqual(CONTACT_VERBS.map((verb) => [verb, contactVerbNumber(verb)]),
    words("CONTACT_VERB_"));
  assert.deepEqual(HALVES.map((half, number) => [half, number]), words("HALF_"));
  assert.deepEqual(SHOWS.map((show) => [show, showNumber(show)]), words("SHOW_"));
});

test("what a later version adds means little, and nothing is left of who is gone", () => {
  assert.equal(contactOf(gone("bob", 1)), undefined);
  for (const given of [{ blocked: true }, { approved: true }, { seen: 1 }, { sees: 2 }]) {
    assert.notEqual(contactOf({ ...gone("bob", 1), ...given }), undefined, given);
  }
  const later = contactOf(fields("bob", 1, { sees: 9, seen: 2 }));
  assert.deepEqual([later.sees, later.seen, areFriends(later)], ["none", "subscribed", false]);
  assert.ok(areFriends(contactOf(fields("bob", 1, { sees: 2, seen: 2 }))));
  assert.deepEqual([0, 1, 4, 5, 6, 7, 8, 77].map(saidOf), [
    undefined, undefined, "request", "cancel", "accept", "refuse", undefined, undefined,
  ]);
  const told = (device, show) => presenceOf({ from: "bob@x", device, show, status: "" }).show;
  assert.deepEqual([told("tv", 5), told("tv", 99), told("", 1)], ["busy", "online", "offline"]);
});

// ---- the machine

test("a client that does not want people asks nothing of them", () => {
  const side = new Side().online();
  assert.deepEqual(kinds(side), []);
  side.says("done", { number: 77 });
  side.says("contacts", page([], { number: 5 }));
  assert.equal(side.machine.state.name, "online", "an answer that nobody asked for is skipped");
});

test("contacts are read page by page, and behind what is here the next time", () => {
  const side = new Side({ people: true }).online();
  assert.deepEqual(asked(side).map((it) => it.fields), [
    { number: 0xffff_fffd, after: 0n, since: 0n, count: 256 },
  ]);
  side.takeTold();
  side.says("contacts", page([fields("bob", 5)], { anew: true, since: 9n, upto: 5n, more: true }));
  assert.deepEqual([side.takeTold(), side.machine.people.isWhole], [["contacts"], false]);
  assert.deepEqual(places(side), [[5n, 9n]]);
  // A change between the pages, which the next page has too.
  side.says("contact", { contact: fields("carol", 10), said: 0 });
  side.lose();
  side.online();
  assert.deepEqual(places(side), [[5n, 9n]]);
  side.says("contacts", page([fields("ann", 7), fields("carol", 10)], { upto: 10n }));
  const { people } = side.machine;
  assert.deepEqual(people.contacts.map((it) => it.address), ["ann@x", "bob@x", "carol@x"]);
  assert.ok(people.isWhole && people.contacts === people.contacts, "the same until it changes");
  side.says("contact", { contact: gone("bob", 12), said: 7 });
  assert.equal(people.contacts.length, 2);
  side.lose();
  assert.ok(!people.isWhole);
  side.online();
  assert.deepEqual(places(side), [[12n, 0n]]);
  side.says("contacts", page([fields("dave", 20)], { anew: true, since: 20n, upto: 20n }));
  assert.deepEqual(people.contacts.map((it) => it.address), ["dave@x"], "it began anew");
});

test("what a contact says is told each time, and a busy server is asked again", () => {
  const side = new Side({ people: true }).online();
  side.says("failed", { number: 0xffff_fffd, fault: 5, word: "busy" });
  assert.deepEqual(kinds(side), ["contacts"]);
  side.after(1_999);
  assert.deepEqual(kinds(side), []);
  side.after(1);
  assert.deepEqual(kinds(side), ["contacts"]);
  side.says("contacts", page([]));
  side.takeTold();
  const asks = { contact: fields("bob", 5, { listed: false, seen: 1, greeting: "hi" }), said: 4 };
  side.says("contact", asks);
  side.says("contact", asks);
  const told = ["contact bob@x none request", "contacts"];
  assert.deepEqual(side.takeTold(), [...told, ...told]);
  assert.equal(side.machine.people.contacts[0].greeting, "hi");
});

test("presence is known by devices, and forgotten with the connection", () => {
  const side = new Side({ people: true }).online();
  const { people } = side.machine;
  const shows = (address) => people.presence(address).map((it) => `${it.device} ${it.show}`);
  side.says("presence", { from: "bob@x", device: "tv", show: 1, status: "here" });
  side.says("presence", { from: "bob@x", device: "desk", show: 3 });
  side.says("presence", { from: "bob@x", device: "tv", show: 5 });
  assert.deepEqual(shows("bob@x"), ["tv busy", "desk away"]);
  side.says("presence", { from: "bob@x", device: "tv", show: 6 });
  assert.deepEqual(shows("bob@x"), ["desk away"]);
  side.says("presence", { from: "carol@x", device: "tv", show: 1 });
  side.says("presence", { from: "bob@x", show: 6 });
  assert.deepEqual([shows("bob@x"), shows("carol@x")], [[], ["tv online"]]);
  side.lose();
  assert.deepEqual(shows("carol@x"), []);
});

test("how one is there is said before the contacts are asked for, at each connection", () => {
  const side = new Side({ people: true });
  side.do((machine, now) => machine.present(now, { show: "away", status: "back soon" }));
  side.online();
  assert.deepEqual(kinds(side), ["presence", "contacts"]);
  side.says("done", { number: 0xffff_fffc });
  side.says("presence", { from: "bob@x", device: "tv", show: 1 });
  side.lose();
  side.online();
  const [{ fields: said }] = asked(side);
  assert.deepEqual([said.show, said.status], [3, "back soon"]);
  side.says("presence", { from: "bob@x", device: "tv", show: 1 });
  side.do((machine, now) => machine.present(now, { show: "offline", status: "" }));
  assert.equal(asked(side)[0].fields.show, 6);
  side.says("done", { number: 0xffff_fffc });
  assert.deepEqual(side.machine.people.presence("bob@x"), [], "who is not seen sees nobody");
});

test("orders about contacts are answered to whoever gave them", () => {
  const side = new Side({ people: true });
  const order = { contact: "bob", verb: "befriend", name: "", groups: [], greeting: "hi" };
  side.do((machine, now) => machine.contact(now, 1, order));
  assert.equal(side.takeTold()[0].code, "disconnected");
  side.online();
  asked(side);
  side.do((machine, now) => machine.contact(now, 2, order));
  side.do((machine, now) => machine.contact(now, 3, { ...order, verb: "set", groups: ["work"] }));
  const [first, second] = asked(side).map((it) => it.fields);
  assert.deepEqual([first.contact, first.verb, first.greeting], ["bob", 3, "hi"]);
  assert.deepEqual([second.verb, second.groups], [1, ["work"]]);
  side.takeTold();
  side.says("done", { number: second.number });
  side.says("failed", { number: first.number, fault: 17, word: "contacts_full" });
  const [done, failed] = side.takeTold();
  assert.deepEqual([done, failed.code], [undefined, "contacts_full"]);
});

// ---- the client

test("a client that keeps no people cannot say how it is there", () => {
  const given = { url: "ws://127.0.0.1/im", account: "ann", device: "web" };
  const said = (options, ...words) => () => new Client({ ...given, ...options })
    .setPresence(...words);
  assert.throws(said({}, "away"), { code: "invalid" });
  assert.throws(said({ people: true }, "away", "ü".repeat(257)), { code: "too_large" });
  said({ people: true }, "away", "ü".repeat(256))();
});

// ---- lists against a model of the server

/** A list of contacts as the server has it, with a floor below which removals are forgotten. */
class Server {
  contacts = new Map();
  version = 0;
  floor = 0;

  change(name, isGone) {
    this.version += 1;
    const make = isGone ? gone : fields;
    this.contacts.set(name, make(name, this.version, isGone ? {} : { name: `v${this.version}` }));
    return { contact: this.contacts.get(name), said: 0 };
  }

  /** What was removed is forgotten. */
  forget() {
    for (const [name, it] of this.contacts) {
      if (it.listed) continue;
      this.floor = Math.max(this.floor, Number(it.version));
      this.contacts.delete(name);
    }
  }

  page({ after, since, count }) {
    since = Number(since > after ? since : after);
    const anew = since === 0 || since < this.floor || since > this.version;
    const from = anew ? 0 : Number(after);
    if (anew) since = this.version;
    const all = [...this.contacts.values()]
      .filter((it) => it.version > from && (it.version > since || it.listed))
      .sort((a, b) => Number(a.version - b.version));
    const these = all.slice(0, count);
    const more = all.length > count;
    const upto = more ? these.at(-1).version : BigInt(this.version);
    return page(these, { anew, since: BigInt(since), upto, more });
  }
}

test("in random histories a client has in the end what the server has", () => {
  let seed = 11;
  const random = (below) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  for (let history = 0; history < 200; history++) {
    const [server, people] = [new Server(), new People(true)];
    let isOnline = false;
    /** What the server has said and did not arrive, in its order. */
    let wire = [];
    const step = (what) => {
      if (what < 4) {
        const told = server.change(`p${random(6)}`, random(3) === 0);
        if (isOnline) wire.push(["changed", told]);
      } else if (what === 4) {
        server.forget();
      } else if (what === 5) {
        isOnline = !isOnline;
        wire = [];
        if (isOnline) people.online();
        else people.lost();
      } else if (what < 8) {
        const order = people.order(0);
        if (order !== undefined) wire.push(["page", server.page({ ...order, count: 2 })]);
      } else {
        const [kind, said] = wire.shift() ?? [];
        if (kind !== undefined) people[kind](said);
      }
    };
    for (let n = 0; n < 120; n++) step(random(11));
    if (!isOnline) step(5);
    for (let n = 0; n < 60; n++) step(n % 2 === 0 ? 6 : 8);
    while (wire.length > 0) step(8);
    const names = [...server.contacts.values()].filter((it) => it.listed);
    const expected = names.map((it) => [it.address, it.name]).sort();
    assert.ok(people.isWhole, `${history}`);
    assert.deepEqual(people.contacts.map((it) => [it.address, it.name]), expected, `${history}`);
  }
});
