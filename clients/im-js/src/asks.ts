/**
 * Requests that are answered to whoever asked: parts of conversations, orders to groups and about
 * contacts, lists of members, lists of conversations and what is changed in them.
 *
 * Knows no connection. Invariant: each is answered once, by the server's word or by why there is
 * none.
 */

import type { Action, HistoryAsk } from "./actions.js";
import { joinedOf } from "./chatroom.js";
import { pageOf } from "./conversation.js";
import type { MemberFields, ServerFrame } from "./frames.js";
import { roleOf } from "./group.js";
import type { Member } from "./group.js";
import { exact, messageOf } from "./message.js";
import { readersOf } from "./receipts.js";
import type { ImError } from "./words.js";

/** Something that was asked for and is not answered. */
export type Asked =
  | { readonly do: "history"; readonly ask: number; readonly asked: HistoryAsk }
  | { readonly do: "changed"; readonly ask: number }
  | { readonly do: "members"; readonly ask: number }
  | { readonly do: "conversations"; readonly ask: number }
  | { readonly do: "marked_read"; readonly ask: number }
  | { readonly do: "set"; readonly ask: number }
  | { readonly do: "found"; readonly ask: number }
  | { readonly do: "upload"; readonly ask: number }
  | { readonly do: "readers"; readonly ask: number }
  | { readonly do: "privacy"; readonly ask: number }
  | { readonly do: "chatroom_joined"; readonly ask: number }
  | { readonly do: "token"; readonly ask: number }
  /** A recall. */
  | { readonly do: "sent"; readonly ask: number }
  /** An order about a contact, or a chatroom. */
  | { readonly do: "done"; readonly ask: number };

/** A request, and by which frame it is answered. */
export interface ImRequest {
  readonly answer: Exclude<Asked["do"], "history">;
  /** The frame under a number. */
  frame(number: number): Uint8Array;
}

/** A frame that answers one. */
export type AskedFrame = Extract<ServerFrame, { kind: Asked["do"] }>;

/** What was asked for and is not answered, by the numbers of the requests. */
export class Asks {
  readonly #asked = new Map<number, Asked>();

  get size(): number {
    return this.#asked.size;
  }

  /** It was asked for under this number. */
  asked(number: number, asked: Asked): void {
    this.#asked.set(number, asked);
  }

  /** The server has answered; `undefined`: nobody asked. */
  answered(frame: AskedFrame, account: string): Action | undefined {
    const { number } = frame.fields;
    const asked = this.#asked.get(number);
    if (asked?.do !== frame.kind) return undefined;
    this.#asked.delete(number);
    return resultOf(asked, frame, account);
  }

  /** The server has refused it; `undefined`: nobody asked. */
  refused(number: number, error: ImError): Action | undefined {
    const asked = this.#asked.get(number);
    this.#asked.delete(number);
    return asked && failed(asked, error);
  }

  /** Nobody is there to answer any of them. */
  lost(error: ImError): Action[] {
    const all = [...this.#asked.values()].map((asked) => failed(asked, error));
    this.#asked.clear();
    return all;
  }
}

/** What is told of something that was not done. */
export function failed({ do: what, ask }: Asked, result: ImError): Action {
  return { do: what === "sent" ? "recalled" : what, ask, result };
}

function resultOf(asked: Asked, frame: AskedFrame, account: string): Action {
  const { ask } = asked;
  switch (frame.kind) {
    case "history": {
      const messages = frame.fields.messages.map((fields) => messageOf(fields, account));
      if (asked.do === "history" && asked.asked.after === undefined) messages.reverse();
      return { do: "history", ask, result: { messages, hasMore: frame.fields.more } };
    }
    case "changed": {
      const { group, id, seq, at_ms } = frame.fields;
      return { do: "changed", ask, result: { group, id, seq: exact(seq), at: exact(at_ms) } };
    }
    case "done":
      return { do: "done", ask, result: undefined };
    case "chatroom_joined":
      return { do: "chatroom_joined", ask, result: joinedOf(frame.fields, account) };
    case "members": {
      const { group, title, version, total, from } = frame.fields;
      const { description, closed: isClosed, unlocked: isUnlocked } = frame.fields;
      const { public: isPublic, temporary: isTemporary } = frame.fields;
      const members = frame.fields.members.map(memberOf);
      const about = { group, title, description, isClosed, isUnlocked, isPublic, isTemporary };
      const result = { ...about, version, total, from, members };
      return { do: "members", ask, result };
    }
    case "conversations":
      return { do: "conversations", ask, result: pageOf(frame.fields, account) };
    case "marked_read":
      return { do: "marked_read", ask, result: exact(frame.fields.upto) };
    case "found": {
      const { found, before, more: hasMore } = frame.fields;
      const messages = found.flatMap(({ message }) => message ? [messageOf(message, account)] : []);
      return { do: "found", ask, result: { messages, before: exact(before), hasMore } };
    }
    case "set":
      return { do: "set", ask, result: undefined };
    case "token": {
      const { token, until_ms } = frame.fields;
      return { do: "token", ask, result: { token, until: exact(until_ms) } };
    }
    case "readers":
      return { do: "readers", ask, result: readersOf(frame.fields) };
    case "privacy":
      return { do: "privacy", ask, result: frame.fields.reads === 1 };
    case "upload": {
      const { put_url: putUrl, get_url: getUrl, put_until_ms, get_until_ms } = frame.fields;
      const headers = frame.fields.headers.map(({ name, value }) => [name, value] as const);
      const [putUntil, getUntil] = [exact(put_until_ms), exact(get_until_ms)];
      return { do: "upload", ask, result: { putUrl, headers, getUrl, putUntil, getUntil } };
    }
    case "sent": {
      const { id, seq, at_ms } = frame.fields;
      return { do: "recalled", ask, result: { id, seq: exact(seq), at: exact(at_ms) } };
    }
  }
}

function memberOf({ address, role, muted: isMuted }: MemberFields): Member {
  return { address, role: roleOf(role), isMuted };
}
