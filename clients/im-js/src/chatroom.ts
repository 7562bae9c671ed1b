/**
 * Chatrooms (IM 18): what is asked of one, and what its members are told.
 *
 * Knows no connection, and nothing of who is in which room: whoever joined joins again after a
 * connection that was lost.
 */

import type { ImRequest } from "./asks.js";
import { clientFrame } from "./frames.js";
import type { ChatroomJoinedFields, ChatroomNewsFields, ChatroomStateFields } from "./frames.js";
import { roleOf } from "./group.js";
import type { GroupRole } from "./group.js";
import { messageOf } from "./message.js";
import type { Message } from "./message.js";

/** What is done to a chatroom, by its number on the wire less one (IM 18.2). */
export const CHATROOM_VERBS = [
  "create", "rename", "announce", "promote", "demote", "mute", "unmute", "kick", "ban", "unban",
  "quiet", "open", "close",
] as const;

/** A verb. */
export type ChatroomVerb = (typeof CHATROOM_VERBS)[number];

/** Why a device is in a chatroom no more, by its number on the wire less one (IM 18.5). */
const OUTS = ["kicked", "banned", "closed"] as const;

/** Why. */
export type ChatroomOut = (typeof OUTS)[number];

/** What an order about a chatroom has besides. */
export interface ChatroomOptions {
  /** The title, of `create` and `rename`, or the announcement. */
  readonly text?: string;
  /** Whom it concerns. */
  readonly accounts?: readonly string[];
  /** Of `create`: so many of the last messages are kept for those who join. */
  readonly keeps?: number;
  /** Of `create`: over a restart of the server, too. */
  readonly isDurable?: boolean;
}

/** An order about a chatroom. */
export interface ChatroomOrder extends Required<ChatroomOptions> {
  readonly room: string;
  readonly verb: ChatroomVerb;
}

/** What a chatroom is. */
export interface Chatroom {
  /** Its whole address. */
  readonly room: string;
  readonly title: string;
  readonly announcement: string;
  /** Only owner and moderators may say something. */
  readonly isQuiet: boolean;
  /** How many are there, as of a while ago. */
  readonly here: number;
}

/** A chatroom that this device is in now. */
export interface JoinedChatroom extends Chatroom {
  /** What the account may do there: owner and admins are its moderators. */
  readonly role: GroupRole;
  readonly isMuted: boolean;
  /** The last messages, the oldest first. */
  readonly messages: readonly Message[];
}

/** What a client is told of a chatroom that it is in. */
export type ChatroomEvent =
  | { readonly room: string; readonly message: Message; readonly isImportant: boolean }
  /** So many messages were left out, for this device did not read fast enough. */
  | { readonly room: string; readonly missed: number }
  | { readonly room: string; readonly state: Chatroom }
  /** It is in the room no more. */
  | { readonly room: string; readonly out: ChatroomOut };

/** Whether an address is a chatroom's. */
export function isChatroom(address: string): boolean {
  return address.slice(address.indexOf("@") + 1).startsWith("live.");
}

/** A verb's number on the wire. */
export function chatroomVerbNumber(verb: ChatroomVerb): number {
  return CHATROOM_VERBS.indexOf(verb) + 1;
}

/** One wants to be in a chatroom, and to be told so many of its last messages. */
export function joinRequest(room: string, history: number): ImRequest {
  const frame = (number: number) => clientFrame("join_chatroom", { number, room, history });
  return { answer: "chatroom_joined", frame };
}

/** One wants to be there no more. */
export function leaveRequest(room: string): ImRequest {
  const frame = (number: number) => clientFrame("leave_chatroom", { number, room });
  return { answer: "done", frame };
}

/** A chatroom is to be made or changed. */
export function chatroomRequest(order: ChatroomOrder): ImRequest {
  const { room, text, keeps, isDurable: durable } = order;
  const [verb, accounts] = [chatroomVerbNumber(order.verb), [...order.accounts]];
  const fields = { room, verb, text, accounts, keeps, durable };
  return { answer: "done", frame: (number) => clientFrame("chatroom_order", { number, ...fields }) };
}

/** A chatroom that was joined. */
export function joinedOf(fields: ChatroomJoinedFields, account: string): JoinedChatroom {
  const { state, role, muted: isMuted, history } = fields;
  const messages = history.map((it) => messageOf(it, account));
  return { ...chatroomOf(state), role: roleOf(role), isMuted, messages };
}

/** What is told by news of a chatroom. */
export function newsOf({ state, out }: ChatroomNewsFields): ChatroomEvent {
  const told = chatroomOf(state);
  const { room } = told;
  // For a reason that a later version added it is out all the same.
  return out === 0 ? { room, state: told } : { room, out: OUTS[out - 1] ?? "kicked" };
}

function chatroomOf(fields: ChatroomStateFields | undefined): Chatroom {
  const { room = "", title = "", announcement = "", quiet = false, here = 0 } = fields ?? {};
  return { room, title, announcement, isQuiet: quiet, here };
}
