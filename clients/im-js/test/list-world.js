// What a server of IM knows of the conversations of accounts (IM 11), in memory: the sum of each
// inbox, counted anew each time, and devices that follow it.

import { message } from "../dist/wire.js";
import { SERVER_FRAME } from "../dist/frames.js";
import { ModelDevice, ModelServer } from "./world.js";

const CONVERSATION = SERVER_FRAME.conversations.table.conversations.table;
const CONTENT = SERVER_FRAME.message.table.message.table.content.table;
const EXCERPT = CONVERSATION.last.table;
const SETTINGS = [undefined, "pinned", "muted", "hidden", "draft"];

/** A server with cursors, settings and recall. */
export class ListServer extends ModelServer {
  outbox = [];
  #client = 0;
  /** Numbers of messages that count, whatever became of them. */
  #counts = new Set();

  /** Somebody who has no device here says something. */
  says(from, to, given = {}) {
    this.#client += 1;
    const client_id = Uint8Array.from({ length: 16 }, (_, at) => (this.#client >> (8 * at)) & 0xff);
    const content = { kind: 1, text: `by ${from} ${this.#client}`, extra: new Uint8Array() };
    return this.send(from, "none", {
      to, client_id, content: message(CONTENT, { ...content, ...given }),
    });
  }

  send(from, device, asked) {
    const answer = super.send(from, device, asked);
    if (!answer.again && !asked.content.uncounted) this.#counts.add(answer.stored.id);
    return answer;
  }

  /** What an account knows: conversations by whom they are with, as a page has them. */
  truth(account) {
    const rows = new Map();
    this.inbox(account).forEach((entry, at) => this.#add(rows, account, BigInt(at + 1), entry));
    const told = ({ unread, ...row }) =>
      message(CONVERSATION, { ...row, unread: unread.size, last: this.#last(account, row) });
    return new Map([...rows].map(([peer, row]) => [peer, told(row)]));
  }

  #add(rows, account, place, { message: said, event }) {
    const peer = event?.with ?? (said.from === account ? said.to : said.from);
    const none = { with: peer, unread: new Set(), last_seq: 0n, said_seq: 0n, read: 0n,
      peer_read: 0n };
    if (!rows.has(peer)) rows.set(peer, none);
    const row = rows.get(peer);
    if (said !== undefined) {
      row.last_seq = said.seq;
      if (said.amends) {
        if (row.said_seq === 0n) row.place = place;
        return;
      }
      Object.assign(row, { place, hidden: false, said_seq: said.seq });
      const isUnread = said.from !== account && this.#counts.has(said.id) && said.seq > row.read;
      if (isUnread) row.unread.add(said.seq);
      if (said.recalls !== undefined) row.unread.delete(said.recalls);
      return;
    }
    if (row.said_seq === 0n) row.place = place;
    if (event.read > row.read) {
      row.read = event.read;
      for (const seq of row.unread) if (seq <= row.read) row.unread.delete(seq);
    }
    if (event.peer_read > row.peer_read) row.peer_read = event.peer_read;
    const { setting, on, draft } = event.change ?? {};
    if (setting !== undefined) row[SETTINGS[setting]] = SETTINGS[setting] === "draft" ? draft : on;
  }

  #last(account, { with: peer, said_seq }) {
    const stored = this.conversation(account, peer)[Number(said_seq) - 1];
    if (stored === undefined) return undefined;
    const { id, at_ms, from, content: { kind, text, extra } } = stored;
    return message(EXCERPT, { id, at_ms, from, kind, text, whole: extra.length === 0 });
  }

  read(account, peer, upto) {
    const row = this.truth(account).get(peer);
    if (row === undefined || upto > row.last_seq) return undefined;
    if (upto <= row.read) return row.read;
    this.inbox(account).push({ event: { with: peer, read: upto } });
    this.inbox(peer).push({ event: { with: account, peer_read: upto } });
    return upto;
  }

  set(account, peer, change) {
    this.inbox(account).push({ event: { with: peer, change } });
  }

  /** Has a message say something else, or reacts to it, and says so. */
  amend(account, peer, seq, kind) {
    const stored = this.conversation(account, peer)[Number(seq) - 1];
    if (stored === undefined || stored.content.kind > 3) return;
    const text = kind === 6 ? `edited ${this.conversation(account, peer).length}` : "👍";
    if (kind === 6) stored.content = { ...stored.content, text };
    const extra = new TextEncoder().encode(`${seq} ${stored.id}`);
    const { stored: told } = this.says(account, peer, { kind, text, extra, uncounted: true });
    told.amends = true;
  }

  /** Takes a message out, and says so; the number and the place of what says so. */
  recall(account, peer, seq) {
    const stored = this.conversation(account, peer)[Number(seq) - 1];
    if (stored?.from !== account || stored.content.kind > 3) return undefined;
    stored.content = message(CONTENT, { kind: 5 });
    const extra = new TextEncoder().encode(`${seq} ${stored.id}`);
    const content = { kind: 4, text: "", extra, uncounted: true };
    const { stored: told } = this.says(account, peer, content);
    return Object.assign(told, { recalls: seq });
  }
}

/** A device that follows its account's list. */
export class ListDevice extends ModelDevice {
  listMax = 1_000;
  #ask = 0;
  /** A page whose last messages are still being read: others are told things meanwhile. */
  #slow = [];

  settings() {
    return { ...super.settings(), listMax: this.listMax };
  }

  /** Wants something of a conversation: a request of conversation-requests.js. */
  wants(what, peer, ...more) {
    this.#ask += 1;
    this.side.do((machine, now) => machine.about(now, this.#ask, what(peer, ...more)));
  }

  serve(kind, fields) {
    const { server, name } = this;
    const { number } = fields;
    if (this.random(10) === 0) return ["failed", { number, fault: 5, word: "busy" }];
    if (kind === "conversations") {
      this.#slow.push(this.later([kind, this.#page(fields)]));
      return undefined;
    }
    if (kind === "mark_read") {
      const upto = server.read(name, fields.with, fields.upto);
      if (upto !== undefined) return ["marked_read", { number, upto }];
    } else if (kind === "set") {
      server.set(name, fields.with, fields.change);
      return ["set", { number }];
    } else if (kind === "recall") {
      const told = server.recall(name, fields.with, fields.seq);
      if (told !== undefined) return ["sent", { number, ...idOf(told) }];
    }
    return ["failed", { number, fault: 4, word: "invalid" }];
  }

  step() {
    if (this.#slow.length > 0 && this.random(4) === 0) this.#slow.shift()();
    super.step();
  }

  get isAtRest() {
    return super.isAtRest && this.#slow.length === 0;
  }

  #page({ number, with: peer, before, count }) {
    const upto = BigInt(this.server.inbox(this.name).length);
    const truth = this.server.truth(this.name);
    if (peer !== "") {
      return { number, upto, conversations: truth.has(peer) ? [truth.get(peer)] : [] };
    }
    const all = [...truth.values()].filter(({ hidden }) => !hidden)
      .filter(({ place }) => before === 0n || place < before)
      .sort((one, other) => Number(other.place - one.place));
    const conversations = all.slice(0, Math.min(count, 1 + this.random(3)));
    return { number, upto, conversations, more: conversations.length < all.length };
  }
}

function idOf({ id, seq, at_ms }) {
  return { id, seq, at_ms };
}
