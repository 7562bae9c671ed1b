/** What a machine is made with, is asked, and wants done outside. It decides nothing. */

import type { ChatroomEvent, JoinedChatroom } from "./chatroom.js";
import type { ConversationEvent, ConversationsPage } from "./conversation.js";
import type { ContactChange, Presence } from "./contact.js";
import type { UploadSlot } from "./file.js";
import type { GroupChanged, MembersPage } from "./group.js";
import type { Message, Queued, Recalled, Sent } from "./message.js";
import type { QueueLimits } from "./outbox.js";
import type { Delivered, Readers } from "./receipts.js";
import type { LoginToken } from "./token.js";
import type { Transient } from "./transient.js";
import type { ImError } from "./words.js";

/** How far a client is. */
export type State = { readonly error?: ImError } & (
  /** Not connected, and not about to be. */
  | { readonly name: "idle" }
  | { readonly name: "connecting" }
  /** Logged in. In step: everything in the inbox has been told. */
  | { readonly name: "online"; readonly account: string; readonly isInStep: boolean }
  /** The connection was lost; it connects again after so many milliseconds. */
  | { readonly name: "waiting"; readonly retryMs: number; readonly error: ImError }
  /** The server let it in no more, and coming back by itself would not help. */
  | { readonly name: "ended"; readonly error: ImError }
);

/** A part of a conversation. */
export interface History {
  /** Oldest first. */
  readonly messages: readonly Message[];
  /** There are more in the direction that was asked for. */
  readonly hasMore: boolean;
}

/** What was found of what an account has said and heard. */
export interface Found {
  /** The newest first. */
  readonly messages: readonly Message[];
  /** Where to go on. */
  readonly before: number;
  /** Not all was looked through. */
  readonly hasMore: boolean;
}

/** What is asked of a conversation: behind a place, or before one, or the end. */
export interface HistoryAsk {
  readonly peer: string;
  readonly before: number;
  readonly after: number | undefined;
  readonly count: number;
}

/** How a device shows who it is. */
export type LoginMethod = "none" | "scram" | "plain" | "token";

/** What is to be done outside. */
export type Action =
  /** Open a connection; then call `opened`, `received` and `lost` with its number. */
  | {
    readonly do: "open";
    readonly link: number;
    readonly url: string;
    readonly method: LoginMethod;
  }
  | { readonly do: "write"; readonly bytes: Uint8Array }
  /** Answer a challenge of SCRAM; then call `proceed`. */
  | { readonly do: "prove"; readonly link: number; readonly challenge: Uint8Array }
  /** Close the connection. */
  | { readonly do: "drop" }
  | { readonly do: "state"; readonly state: State }
  | { readonly do: "message"; readonly message: Message }
  /** A message of the queue is stored. Its `message` was told before. */
  | { readonly do: "sent"; readonly sent: Sent }
  /** A message of the queue is given up. */
  | { readonly do: "failed"; readonly queued: Queued; readonly error: ImError }
  | { readonly do: "history"; readonly ask: number; readonly result: History | ImError }
  | { readonly do: "found"; readonly ask: number; readonly result: Found | ImError }
  | { readonly do: "changed"; readonly ask: number; readonly result: GroupChanged | ImError }
  | { readonly do: "members"; readonly ask: number; readonly result: MembersPage | ImError }
  | {
    readonly do: "conversations";
    readonly ask: number;
    readonly result: ConversationsPage | ImError;
  }
  | { readonly do: "marked_read"; readonly ask: number; readonly result: number | ImError }
  | { readonly do: "set"; readonly ask: number; readonly result: ImError | undefined }
  | { readonly do: "upload"; readonly ask: number; readonly result: UploadSlot | ImError }
  | { readonly do: "readers"; readonly ask: number; readonly result: Readers | ImError }
  | { readonly do: "privacy"; readonly ask: number; readonly result: boolean | ImError }
  | { readonly do: "token"; readonly ask: number; readonly result: LoginToken | ImError }
  | { readonly do: "recalled"; readonly ask: number; readonly result: Recalled | ImError }
  | {
    readonly do: "chatroom_joined";
    readonly ask: number;
    readonly result: JoinedChatroom | ImError;
  }
  /** Something in a chatroom. */
  | { readonly do: "chatroom"; readonly event: ChatroomEvent }
  /** A conversation is read further, or kept otherwise. */
  | { readonly do: "event"; readonly event: ConversationEvent }
  /** Somebody has what the account said. */
  | { readonly do: "delivered"; readonly delivered: Delivered }
  /** The machine's list of conversations has changed. */
  | { readonly do: "list" }
  /** An order about a contact is done. */
  | { readonly do: "done"; readonly ask: number; readonly result: ImError | undefined }
  /** The contacts have changed, and one of them has. */
  | { readonly do: "contacts" }
  | { readonly do: "contact"; readonly change: ContactChange }
  /** Somebody came, went or is there otherwise. */
  | { readonly do: "presence"; readonly presence: Presence }
  /** Somebody tells something that is kept nowhere. */
  | { readonly do: "transient"; readonly transient: Transient }
  /** Keep how far the inbox was told; keep the queue. */
  | { readonly do: "keep_last"; readonly last: number }
  | { readonly do: "keep_queue" }
  /** Everything that follows from a frame was said above. */
  | { readonly do: "handled"; readonly answer: string };

/** What a machine is made with. */
export interface MachineSettings {
  /** Where servers are, one at least. */
  readonly urls: readonly string[];
  readonly account: string;
  readonly device: string;
  /** The longest silence it wishes, seconds; 0: the server's. */
  readonly silenceS: number;
  /** Ways to log in, the best one first; another one is tried where the server knows it not. */
  readonly methods: readonly LoginMethod[];
  /** It can bring a new token when the old one has expired. */
  readonly renewsToken: boolean;
  readonly queue: QueueLimits;
  /** Conversations of the list that is kept right; 0: there is none. */
  readonly listMax: number;
  /** Contacts and presence are kept right. */
  readonly people: boolean;
  /** From 0 up to 1, drawn anew. */
  readonly random: () => number;
}

/** What a device remembers. */
export interface Remembered {
  /** The last place of the inbox that was told; `undefined`: nothing was ever. */
  readonly last: number | undefined;
  readonly queue: readonly Queued[];
}
