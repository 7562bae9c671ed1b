// A server of IM in memory, as docs/wire/im.md has it, and a network that loses connections: what
// the machines are tried on with random histories.

import { message } from "../dist/wire.js";
import { hex } from "../dist/message.js";
import { CHAT_MESSAGE, INBOX_EVENT } from "../dist/frames.js";
import { LIMITS, Side } from "./side.js";

/** Numbers that follow from a seed. */
export function randomOf(seed) {
  let state = seed * 2_654_435_761 + 1;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) % below;
  };
}

/** Messages that a device is sent before it acknowledges. */
const INLINE_MAX = 4;

/** What a server keeps. An inbox has entries: `{ message }` or `{ event }`. */
export class ModelServer {
  conversations = new Map();
  inboxes = new Map();
  cursors = new Map();
  /** What is stored and in no inbox yet; without: it is there at once. */
  outbox;
  #known = new Map();
  #id = 0n;

  conversation(one, other) {
    return listed(this.conversations, [one, other].sort().join(" "));
  }

  inbox(account) {
    return listed(this.inboxes, account);
  }

  /** Stores a message, once; gives what stands there. */
  send(from, device, { to, client_id, content }) {
    const peer = to.includes("@") ? to : `${to}@x`;
    const key = `${from} ${hex(client_id)}`;
    const known = this.#known.get(key);
    if (known !== undefined) return { stored: known, again: true };
    const row = this.conversation(from, peer);
    this.#id += 1n;
    const stored = message(CHAT_MESSAGE, {
      id: this.#id, seq: BigInt(row.length + 1), at_ms: this.#id, from, device, to: peer,
      client_id, content,
    });
    row.push(stored);
    this.#known.set(key, stored);
    this.outbox?.push(stored);
    if (this.outbox === undefined) this.#reaches(stored);
    return { stored, again: false };
  }

  #reaches(message) {
    const { from, to } = message;
    for (const account of new Set([from, to])) this.inbox(account).push({ message });
  }

  /** One message more comes into the inboxes that it is for. */
  distribute() {
    if (this.outbox?.length > 0) this.#reaches(this.outbox.shift());
  }
}

function listed(map, key) {
  if (!map.has(key)) map.set(key, []);
  return map.get(key);
}

/** A device of an account at a model server, and the connection between them. */
export class ModelDevice {
  /** Texts that were told in this life, and in all. */
  life = [];
  told = new Set();
  #connection;

  constructor(server, account, device, random) {
    Object.assign(this, { server, account, name: `${account}@x`, device, random });
    this.start({ last: undefined, queue: [] });
  }

  /** Of what a machine is made, in this world. */
  settings() {
    const { account, device } = this;
    const random = () => this.random(1_000) / 1_000;
    return { account, device, queue: { messagesMax: 1_000, bytesMax: 1e6 }, random };
  }

  start(remembered) {
    this.side = new Side(this.settings(), remembered);
    this.side.last = remembered.last;
    this.life = [];
    this.#connection = undefined;
    this.side.do((machine, now) => machine.connect(now));
  }

  /** The page is loaded anew: what was kept is all there is. */
  reload() {
    const { last, machine } = this.side;
    this.start({ last, queue: [...machine.outbox.queued] });
  }

  lose() {
    this.#connection = undefined;
    if (this.side.isOpen) this.side.lose();
  }

  say(number, to) {
    this.side.send(number, { to, text: `${this.account} ${this.device} ${number}` });
  }

  /** One step of the connection: the server takes a request, or what it says arrives. */
  step() {
    const { side } = this;
    if (!side.isOpen) return;
    const connection = this.#connection;
    if (connection?.link !== side.link) return this.#open();
    if (side.asked.length > 0 && this.random(2) === 0) this.#serve(side.asked.shift());
    else if (connection.out.length > 0) side.says(...connection.out.shift());
    else if (side.asked.length > 0) this.#serve(side.asked.shift());
    this.#look();
  }

  /** Nobody has anything to say, and nothing is on its way. */
  get isAtRest() {
    const { side, server, name } = this;
    const { machine } = side;
    return machine.state.isInStep === true && machine.outbox.queued.length === 0
      && side.asked.length === 0 && this.#connection?.out.length === 0
      && side.last === server.inbox(name).length && machine.list.wakeAt === Infinity;
  }

  #open() {
    this.side.asked.length = 0;
    this.#connection = { link: this.side.link, out: [], at: 0, isBehind: true, own: new Set() };
    this.side.opens();
  }

  #serve({ kind, fields }) {
    const { server, name, device } = this;
    const connection = this.#connection;
    const cursors = server.cursors;
    const inbox = server.inbox(name);
    const key = `${name} ${device}`;
    if (kind === "login") {
      const cursor = cursors.get(key) ?? 0;
      const head = BigInt(inbox.length);
      connection.at = cursor;
      connection.isBehind = cursor < inbox.length;
      const told = { ...LIMITS, account: name, head, cursor: BigInt(cursor) };
      connection.out.push(["logged_in", told]);
    } else if (kind === "send") {
      const { number } = fields;
      if (this.random(10) === 0) {
        connection.out.push(["failed", { number, fault: 5, word: "busy" }]);
        return;
      }
      const { stored: { id, seq, at_ms }, again } = server.send(name, device, fields);
      connection.own.add(id);
      connection.out.push(["sent", { number, id, seq, at_ms, again }]);
    } else if (kind === "pull") {
      const [after, { number }] = [Number(fields.after), fields];
      const upto = Math.min(after + 1 + this.random(3), inbox.length);
      const all = inbox.slice(after, upto)
        .map((entry, at) => ({ ...entry, seq: BigInt(after + at + 1) }));
      const entries = all.filter(({ message }) => message !== undefined);
      const events = all.filter(({ event }) => event !== undefined)
        .map(({ seq, event }) => message(INBOX_EVENT, { ...event, seq }));
      const page = { number, entries, events, upto: BigInt(upto), head: BigInt(inbox.length) };
      connection.at = Math.max(connection.at, upto);
      if (upto >= inbox.length) connection.isBehind = false;
      connection.out.push(["page", page]);
    } else if (kind === "acknowledge") {
      cursors.set(key, Math.max(cursors.get(key) ?? 0, Number(fields.upto)));
    } else if (kind === "ping") {
      connection.out.push(["pong"]);
    } else {
      const answer = this.serve(kind, fields);
      if (answer !== undefined) connection.out.push(answer);
    }
  }

  /** Says something later, over the connection that there is now. */
  later(answer) {
    const { out } = this.#connection;
    return () => out.push(answer);
  }

  /** The answer to what this world has besides. */
  serve(kind) {
    throw new Error(`nobody serves ${kind}`);
  }

  /** The server sends what is next in the inbox, or says that there is more. */
  #look() {
    const connection = this.#connection;
    if (connection === undefined || connection.isBehind || this.side.machine.wakeAt === 0) return;
    if (this.side.machine.state.name !== "online") return;
    const inbox = this.server.inbox(this.name);
    const cursor = this.server.cursors.get(`${this.name} ${this.device}`) ?? 0;
    while (connection.at < inbox.length && this.random(3) > 0) {
      const { message: stored, event } = inbox[connection.at];
      if (connection.at - cursor >= INLINE_MAX || this.random(12) === 0) {
        connection.isBehind = true;
        connection.out.push(["notify", { head: BigInt(inbox.length) }]);
        return;
      }
      connection.at += 1;
      const seq = BigInt(connection.at);
      if (event !== undefined) connection.out.push(["event", { ...event, seq }]);
      else if (!connection.own.has(stored.id)) {
        connection.out.push(["message", { seq, message: stored }]);
      }
    }
  }

  /** What was told since: texts, each once in a life. */
  collect() {
    for (const it of this.side.takeTold()) {
      if (typeof it !== "string" || !/^\w+ \w+ \d+$/.test(it)) continue;
      this.life.push(it);
      this.told.add(it);
    }
  }
}
