/**
 * Receipts (IM 17): how far others have got what an account said, and read it. Knows no connection.
 */

import type { ImRequest } from "./asks.js";
import { clientFrame } from "./frames.js";
import type { DeliveredFields, ReadersPageFields } from "./frames.js";
import { exact } from "./message.js";

/** Readers that are asked for at once (IM 9). */
export const READERS_PAGE = 256;

/** The other of two has, on some device, what this account said. */
export interface Delivered {
  readonly peer: string;
  /** Up to this place of the conversation. */
  readonly upto: number;
}

/** How far somebody is. */
export interface Reader {
  /** `name@domain`. */
  readonly address: string;
  /** It has read up to this place; 0: nothing, or nothing that it lets others know. */
  readonly read: number;
  /** Some device of it has all up to this place; 0 in a group. */
  readonly delivered: number;
}

/** Who has read what of a conversation. */
export interface Readers {
  readonly peer: string;
  /** All others of it. */
  readonly total: number;
  /** Those of them who have read the message that was asked for, as far as they let others know. */
  readonly read: number;
  /** A part of the others, by their addresses. */
  readonly readers: readonly Reader[];
}

/** What is asked of readers: of which message, how many to pass over, the most that is wanted. */
export interface ReadersAsk {
  readonly seq?: number;
  readonly from?: number;
  readonly count?: number;
}

/** How others are with a conversation. */
export function readersRequest(peer: string, ask: Required<ReadersAsk>): ImRequest {
  const fields = { with: peer, ...ask, seq: BigInt(ask.seq) };
  return { answer: "readers", frame: (number) => clientFrame("readers", { number, ...fields }) };
}

/** Whether what one reads is shared; `undefined`: it is only asked. */
export function privacyRequest(sharesReads: boolean | undefined): ImRequest {
  const reads = sharesReads === undefined ? 0 : sharesReads ? 1 : 2;
  return { answer: "privacy", frame: (number) => clientFrame("privacy", { number, reads, adding: 0 }) };
}

/** What the server has told of readers. */
export function readersOf({ with: peer, total, read, readers }: ReadersPageFields): Readers {
  const of = readers.map((it) => (
    { address: it.account, read: exact(it.read), delivered: exact(it.delivered) }));
  return { peer, total, read, readers: of };
}

/** What it has told of a delivery. */
export function deliveredOf({ with: peer, upto }: DeliveredFields): Delivered {
  return { peer, upto: exact(upto) };
}
