/**
 * What is told to whoever is there now, and kept nowhere (IM 16.1): that somebody is typing, and
 * an application's own.
 *
 * Knows no connection. Nothing answers a transient, and it may be lost wherever there is too much.
 */

import { message as fieldsOf } from "./wire.js";
import { CONTENT } from "./frames.js";
import type { TransientFields } from "./frames.js";
import { contentFields, peerOf } from "./message.js";

/** What somebody does in a conversation, by the numbers on the wire less one (IM 16.1). */
export const CHAT_STATES = ["composing", "paused", "active", "inactive", "gone"] as const;

/** What somebody does in a conversation, apart from saying something. */
export type ChatState = (typeof CHAT_STATES)[number];

/** What is to be told. */
export interface Tellable {
  readonly state?: ChatState;
  /** An application's own, from 1,000 on, with a text, bytes, or both. */
  readonly kind?: number;
  readonly text?: string;
  readonly extra?: Uint8Array;
}

/** What somebody tells. */
export interface Transient {
  readonly from: string;
  readonly device: string;
  readonly to: string;
  /** Whose conversation with this account it is: the other one, or the group. */
  readonly peer: string;
  /** It is this account's own, from another device. */
  readonly isOwn: boolean;
  /** `undefined`: nothing that is known here. */
  readonly state: ChatState | undefined;
  readonly kind: number;
  readonly text: string;
  readonly extra: Uint8Array;
}

/** What the wire tells, as this account sees it. */
export function transientOf(fields: TransientFields, account: string): Transient {
  const { from, device, to } = fields;
  const isOwn = from === account;
  const { kind, text, extra } = fields.content ?? fieldsOf(CONTENT);
  const peer = peerOf(fields, account);
  const state = CHAT_STATES[fields.state - 1];
  return { from, device, to, peer, isOwn, state, kind, text, extra };
}

/** The fields of what is told. */
export function transientFields(to: string, { state, kind, text, extra }: Tellable) {
  const number = state === undefined ? 0 : CHAT_STATES.indexOf(state) + 1;
  const isMore = kind !== undefined || text !== undefined || extra !== undefined;
  const said = { kind: kind ?? 0, text: text ?? "", extra: extra ?? new Uint8Array() };
  const content = isMore ? contentFields({ ...said, uncounted: false }) : undefined;
  return { to, state: number, content };
}
