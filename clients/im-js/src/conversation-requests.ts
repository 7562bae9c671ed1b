/** What is asked of conversations (IM 11), as frames. Knows no connection. */

import type { ImRequest } from "./asks.js";
import { clientFrame } from "./frames.js";
import type { ChangeFields } from "./frames.js";
import type { SearchOptions } from "./options.js";

/** Which conversations are asked for: before a place of the list (0: the newest), or one. */
export interface ConversationsAsk {
  /** Empty: not one alone. */
  readonly peer: string;
  readonly before: number;
  readonly count: number;
}

/** A part of the list, or one conversation. */
export function listRequest({ peer, before, count }: ConversationsAsk): ImRequest {
  const fields = { with: peer, before: BigInt(before), count };
  const frame = (number: number) => clientFrame("conversations", { number, ...fields });
  return { answer: "conversations", frame };
}

/** The account has read a conversation up to a place. */
export function readRequest(peer: string, upto: number): ImRequest {
  const fields = { with: peer, upto: BigInt(upto) };
  const frame = (number: number) => clientFrame("mark_read", { number, ...fields });
  return { answer: "marked_read", frame };
}

/** A conversation is to be kept otherwise. */
export function setRequest(peer: string, change: ChangeFields): ImRequest {
  const fields = { with: peer, change };
  return { answer: "set", frame: (number) => clientFrame("set", { number, ...fields }) };
}

/** What the account has said and heard is searched for a text. */
export function searchRequest(
  text: string,
  { peer = "", from = "", before, count }: SearchOptions & { before: number; count: number },
): ImRequest {
  const range = { since_ms: 0n, until_ms: 0n, before: BigInt(before), count };
  const fields = { text, with: peer, from, ...range };
  return { answer: "found", frame: (number) => clientFrame("search", { number, ...fields }) };
}

/** An own message is to be called back. */
export function recallRequest(peer: string, seq: number): ImRequest {
  const fields = { with: peer, seq: BigInt(seq) };
  return { answer: "sent", frame: (number) => clientFrame("recall", { number, ...fields }) };
}
