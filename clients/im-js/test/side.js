// A machine under a told clock, and the server's side of its connection by hand.

import assert from "node:assert/strict";
import { Deframer, framed, PREFACE, SERVER_FRAME, CLIENT_FRAME } from "../dist/frames.js";
import { Machine } from "../dist/machine.js";
import { message, readMember, write } from "../dist/wire.js";

/** A frame of a server, its fields by their names; those left out have their defaults. */
export function serverFrame(kind, given = {}) {
  const fields = message(SERVER_FRAME[kind].table, given);
  return framed(write(SERVER_FRAME, message(SERVER_FRAME, { [kind]: fields })));
}

/** The fields of a message in a conversation, or in an inbox. */
export function chatMessage(seq, given = {}) {
  const content = { kind: 1, text: `text ${seq}`, extra: new Uint8Array(), uncounted: false, mentions: [] };
  const { text = content.text, client = seq, ...more } = given;
  return {
    id: BigInt(seq), seq: BigInt(seq), at_ms: 1_700_000_000_000n + BigInt(seq), from: "bob@x",
    device: "tv", to: "ann@x", client_id: Uint8Array.from({ length: 16 }, () => client),
    content: { ...content, text }, edited_ms: 0n, reactions: [], ...more,
  };
}

export const entry = (place, given) => ({
  seq: BigInt(place), message: chatMessage(place, given),
});

export const queued = (number, given = {}) => ({
  clientId: number.toString(16).padStart(32, "0"), to: "bob", kind: 1, text: `said ${number}`,
  extra: new Uint8Array(), uncounted: false, saidAt: 5, ...given,
});

export const LIMITS = {
  account: "ann@x", server_ms: 5n, silence_s: 300, page_messages_max: 3, text_bytes_max: 64,
  extra_bytes_max: 8, requests_max: 256,
};

/** A machine and who plays its server. */
export class Side {
  now = 0;
  /** What the machine told: messages' texts, states' names, and so on, in order. */
  told = [];
  /** Requests that the server has not looked at. */
  asked = [];
  link = 0;
  method = undefined;
  isOpen = false;
  last = undefined;
  challenge = undefined;

  constructor(settings = {}, remembered = { last: undefined, queue: [] }) {
    const usual = {
      urls: ["ws://127.0.0.1/im"], account: "ann", device: "web", silenceS: 50, methods: ["none"], renewsToken: false,
      queue: { messagesMax: 10, bytesMax: 1_000 }, listMax: 0, people: false, random: () => 0.5,
    };
    this.machine = new Machine({ ...usual, ...settings }, remembered);
  }

  /** Does something with the machine, and what it wants then. */
  do(step) {
    step(this.machine, this.now);
    for (let action = this.machine.next(); action; action = this.machine.next()) {
      this.#carryOut(action);
    }
  }

  #carryOut(action) {
    switch (action.do) {
      case "open":
        assert.ok(!this.isOpen, "one connection at a time");
        [this.link, this.method, this.isOpen] = [action.link, action.method, true];
        this.url = action.url;
        this.deframer = new Deframer(200_000);
        this.greeted = false;
        return;
      case "write": {
        assert.ok(this.isOpen, "nothing is written without a connection");
        if (!this.greeted) {
          assert.deepEqual(action.bytes, PREFACE);
          this.greeted = true;
          return;
        }
        for (const body of this.deframer.push(action.bytes)) {
          this.asked.push(readMember(CLIENT_FRAME, body));
        }
        return;
      }
      case "prove":
        this.challenge = new TextDecoder().decode(action.challenge);
        return;
      case "drop":
        this.isOpen = false;
        return;
      case "handled":
        return;
      case "message":
        this.told.push(action.message.text);
        return;
      case "state":
        this.told.push(action.state.isInStep ? "in step" : action.state.name);
        return;
      case "transient":
        this.told.push(`${action.transient.peer} ${action.transient.state}`);
        return;
      case "sent":
        this.told.push(`sent ${action.sent.seq}`);
        return;
      case "failed":
        this.told.push(`failed ${action.error.code}`);
        return;
      case "contacts":
        this.told.push("contacts");
        return;
      case "contact": {
        const { address, contact, said } = action.change;
        this.told.push(`contact ${address} ${contact?.sees ?? "gone"} ${said ?? ""}`.trim());
        return;
      }
      case "presence": {
        const { address, device, show } = action.presence;
        this.told.push(`presence ${address}/${device} ${show}`);
        return;
      }
      case "done":
      case "history":
      case "changed":
      case "members":
      case "conversations":
      case "marked_read":
      case "set":
      case "recalled":
        this.told.push(action.result);
        return;
      case "event":
        this.told.push(action.event);
        return;
      case "list":
        this.told.push("list");
        return;
      case "keep_last":
        this.last = action.last;
        return;
      case "keep_queue":
        return;
      default:
        assert.fail(action.do);
    }
  }

  /** What was told since it was looked at last. */
  takeTold() {
    return this.told.splice(0);
  }

  /** The requests since they were looked at last, in short. */
  takeAsked() {
    return this.asked.splice(0).map(({ kind, fields }) => {
      if (kind === "send") return `send ${fields.content.text}`;
      if (kind === "pull") return `pull ${fields.after}`;
      if (kind === "acknowledge") return `acknowledge ${fields.upto}`;
      return kind;
    });
  }

  says(kind, given) {
    this.bytes(serverFrame(kind, given));
  }

  bytes(bytes) {
    this.do((machine, now) => machine.received(now, this.link, bytes));
  }

  lose() {
    this.isOpen = false;
    this.do((machine, now) => machine.lost(now, this.link));
  }

  /** Time goes on, and what is due in it happens. */
  after(ms) {
    const until = this.now + ms;
    for (;;) {
      const { wakeAt } = this.machine;
      if (wakeAt > until) break;
      this.now = Math.max(this.now, wakeAt);
      this.do((machine, now) => machine.wake(now));
    }
    this.now = until;
  }

  opens(login = {}) {
    this.do((machine, now) => machine.opened(now, this.link, login));
  }

  /** Connects and is let in. */
  online(given = {}) {
    this.do((machine, now) => machine.connect(now));
    this.opens();
    this.says("logged_in", { ...LIMITS, head: 0n, cursor: 0n, ...given });
    return this;
  }

  send(number, given) {
    this.do((machine, now) => machine.send(now, queued(number, given)));
  }

  /** The numbers of the sends that were asked and not answered, oldest first. */
  sends() {
    return this.asked.splice(0).filter(({ kind }) => kind === "send").map(({ fields }) => fields);
  }

  stored(number, seq, given = {}) {
    this.says("sent", { number, id: BigInt(seq), seq: BigInt(seq), at_ms: 9n, ...given });
  }
}
