/**
 * The frames of IM 1 (docs/wire/im.md, schema/im.proto), and how a stream of bytes is cut into
 * them. Names and numbers are the schema's.
 */

import {
  bool, bytes, fixed64, many, message, one, putVarint, readMember, sint32, string, strings, uint32,
  uint64, WireFault, write,
} from "./wire.js";
import type { Fields, Member, Table } from "./wire.js";

/** What a client sends before its first frame (IM 1.1). */
export const PREFACE = Uint8Array.of(0xc4, 0x49, 0x4d, 0x01);

/** The subprotocol of WebSocket (IM 1). */
export const SUBPROTOCOL = "holdline-im.1";

/** The largest frame of a server, bytes (IM 2.2). */
export const SERVER_FRAME_BYTES_MAX = 397_312;

/** A message that another one quotes. */
const QUOTE = { seq: uint64(1), id: fixed64(2), from: string(3), text: string(4) };

export const CONTENT = {
  kind: uint32(1),
  text: string(2),
  extra: bytes(3),
  uncounted: bool(4),
  quote: one(30, QUOTE),
  mentions: strings(31),
  mentions_everybody: bool(32),
};

/** How somebody reacts to a message. */
const REACTION = { by: string(1), emoji: string(2) };

export const CHAT_MESSAGE = {
  id: fixed64(1),
  seq: uint64(2),
  at_ms: uint64(3),
  from: string(4),
  device: string(5),
  to: string(6),
  client_id: bytes(7),
  content: one(8, CONTENT),
  edited_ms: uint64(9),
  reactions: many(10, REACTION),
};

export const INBOX_ENTRY = { seq: uint64(1), message: one(2, CHAT_MESSAGE) };

/** How an account keeps a conversation. */
const CHANGE = { setting: uint32(1), on: bool(2), draft: string(3) };

export const INBOX_EVENT = {
  seq: uint64(1),
  with: string(2),
  read: uint64(3),
  peer_read: uint64(4),
  change: one(5, CHANGE),
};

const EXCERPT = {
  id: fixed64(1),
  at_ms: uint64(2),
  from: string(3),
  kind: uint32(4),
  text: string(5),
  whole: bool(6),
};

const CONVERSATION = {
  with: string(1),
  place: uint64(2),
  last_seq: uint64(3),
  last: one(4, EXCERPT),
  read: uint64(5),
  peer_read: uint64(6),
  unread: uint32(7),
  pinned: bool(8),
  muted: bool(9),
  hidden: bool(10),
  draft: string(11),
  left: bool(12),
  said_seq: uint64(13),
  mentions: uint32(30),
};

const CONTACT = {
  address: string(1),
  listed: bool(2),
  name: string(3),
  groups: strings(4),
  sees: uint32(5),
  seen: uint32(6),
  approved: bool(7),
  greeting: string(8),
  blocked: bool(9),
  version: uint64(10),
};

/** A contact has changed. */
const CONTACT_CHANGED = { contact: one(1, CONTACT), said: uint32(2) };

/** How somebody is there. */
const PRESENCE = { from: string(1), device: string(2), show: uint32(3), status: string(4) };

/** What is kept nowhere. */
const TRANSIENT = {
  to: string(1),
  state: uint32(2),
  content: one(3, CONTENT),
  from: string(4),
  device: string(5),
  number: uint32(6),
};

const CONTACTS_PAGE = {
  number: uint32(1),
  anew: bool(2),
  since: uint64(3),
  upto: uint64(4),
  contacts: many(5, CONTACT),
  more: bool(6),
};

const LOGIN = {
  name: string(1),
  device: string(2),
  password: bytes(3),
  method: string(4),
  data: bytes(5),
  silence_s: uint32(6),
};

const PUSH_REGISTRATION = {
  name: string(1),
  device: string(2),
  app: string(3),
  token: string(4),
  product: string(5),
  miop_device: string(6),
  service: string(7),
};

const QUIET_HOURS = { from_min: uint32(1), to_min: uint32(2), offset_min: sint32(3) };

/**
 * Whether what an account reads is shared: 1 it is, 2 it is not; and who adds it to groups: 1
 * everybody, 2 contacts, 3 nobody. 0 from a client: as it is.
 */
const PRIVACY = { number: uint32(1), reads: uint32(2), adding: uint32(3) };

/** One request of a client. */
export const CLIENT_FRAME = {
  login: one(1, LOGIN),
  proceed: one(2, { data: bytes(1) }),
  send: one(3, {
    number: uint32(1),
    to: string(2),
    client_id: bytes(3),
    content: one(4, CONTENT),
  }),
  pull: one(4, { number: uint32(1), after: uint64(2), count: uint32(3) }),
  history: one(5, {
    number: uint32(1),
    with: string(2),
    from: uint64(3),
    backwards: bool(4),
    count: uint32(5),
  }),
  acknowledge: one(6, { upto: uint64(1) }),
  ping: one(7, {}),
  goodbye: one(8, {}),
  group: one(9, {
    number: uint32(1),
    group: string(2),
    client_id: bytes(3),
    verb: uint32(4),
    title: string(5),
    members: strings(6),
  }),
  members: one(10, {
    number: uint32(1),
    group: string(2),
    version: fixed64(3),
    from: uint32(4),
    count: uint32(5),
    banned: bool(80),
  }),
  mark_read: one(11, { number: uint32(1), with: string(2), upto: uint64(3) }),
  set: one(12, { number: uint32(1), with: string(2), change: one(3, CHANGE) }),
  conversations: one(13, {
    number: uint32(1),
    with: string(2),
    before: uint64(3),
    count: uint32(4),
    groups: bool(5),
  }),
  recall: one(14, { number: uint32(1), with: string(2), seq: uint64(3) }),
  contacts: one(15, { number: uint32(1), after: uint64(2), since: uint64(3), count: uint32(4) }),
  contact: one(16, {
    number: uint32(1),
    contact: string(2),
    verb: uint32(3),
    name: string(4),
    groups: strings(5),
    greeting: string(6),
  }),
  presence: one(17, { number: uint32(1), show: uint32(2), status: string(3) }),
  transient: one(18, TRANSIENT),
  search: one(20, {
    number: uint32(1),
    text: string(2),
    with: string(3),
    from: string(4),
    since_ms: uint64(5),
    until_ms: uint64(6),
    before: uint64(7),
    count: uint32(8),
  }),
  upload: one(22, { number: uint32(1), name: string(2), type: string(3), bytes: uint64(4) }),
  push: one(24, {
    number: uint32(1), registration: one(2, PUSH_REGISTRATION), code: string(3), shared: bool(4),
  }),
  push_settings: one(25, { number: uint32(1), sets: bool(2), quiet: one(3, QUIET_HOURS) }),
  readers: one(30, {
    number: uint32(1),
    with: string(2),
    seq: uint64(3),
    from: uint32(4),
    count: uint32(5),
  }),
  privacy: one(31, PRIVACY),
  chatroom_order: one(32, {
    number: uint32(1),
    room: string(2),
    verb: uint32(3),
    text: string(4),
    accounts: strings(5),
    keeps: uint32(6),
    durable: bool(7),
  }),
  join_chatroom: one(33, { number: uint32(1), room: string(2), history: uint32(3) }),
  leave_chatroom: one(34, { number: uint32(1), room: string(2) }),
  token: one(35, { number: uint32(1), revoke: bool(2) }),
};

const MEMBER = { address: string(1), account: fixed64(2), role: uint32(3), muted: bool(4) };

const LOGGED_IN = {
  account: string(1),
  head: uint64(2),
  cursor: uint64(3),
  server_ms: uint64(4),
  data: bytes(5),
  silence_s: uint32(6),
  page_messages_max: uint32(7),
  text_bytes_max: uint32(8),
  extra_bytes_max: uint32(9),
  requests_max: uint32(10),
  file_bytes_max: uint64(20),
};

/** Refused and End: they say the same in the same places. */
const END = { reason: uint32(1), word: string(2), retry_after_ms: uint32(3), server: string(4) };

const CHATROOM_STATE = {
  room: string(1),
  title: string(2),
  announcement: string(3),
  quiet: bool(4),
  here: uint32(5),
  head: uint64(6),
};

const CHATROOM_JOINED = {
  number: uint32(1),
  state: one(2, CHATROOM_STATE),
  role: uint32(3),
  muted: bool(4),
  history: many(5, CHAT_MESSAGE),
};

const CHATROOM_NEWS = { state: one(1, CHATROOM_STATE), out: uint32(2) };

/** One answer of a server. */
export const SERVER_FRAME = {
  logged_in: one(1, LOGGED_IN),
  challenge: one(2, { data: bytes(1) }),
  refused: one(3, END),
  sent: one(4, {
    number: uint32(1),
    id: fixed64(2),
    seq: uint64(3),
    at_ms: uint64(4),
    again: bool(5),
  }),
  failed: one(5, {
    number: uint32(1),
    fault: uint32(2),
    word: string(3),
    reason: string(4),
    retry_after_ms: uint32(5),
  }),
  message: one(6, INBOX_ENTRY),
  notify: one(7, { head: uint64(1) }),
  page: one(8, {
    number: uint32(1),
    entries: many(2, INBOX_ENTRY),
    upto: uint64(3),
    head: uint64(4),
    events: many(5, INBOX_EVENT),
  }),
  history: one(9, { number: uint32(1), messages: many(2, CHAT_MESSAGE), more: bool(3) }),
  end: one(10, END),
  pong: one(11, {}),
  changed: one(12, {
    number: uint32(1),
    group: string(2),
    id: fixed64(3),
    seq: uint64(4),
    at_ms: uint64(5),
    again: bool(6),
  }),
  members: one(13, {
    number: uint32(1),
    group: string(2),
    version: fixed64(3),
    title: string(4),
    closed: bool(5),
    total: uint32(6),
    from: uint32(7),
    members: many(8, MEMBER),
    description: string(80),
    unlocked: bool(81),
    public: bool(82),
    temporary: bool(83),
  }),
  event: one(14, INBOX_EVENT),
  marked_read: one(15, { number: uint32(1), upto: uint64(2) }),
  set: one(16, { number: uint32(1) }),
  conversations: one(17, {
    number: uint32(1),
    upto: uint64(2),
    conversations: many(3, CONVERSATION),
    more: bool(4),
  }),
  contacts: one(18, CONTACTS_PAGE),
  done: one(19, { number: uint32(1) }),
  contact: one(20, CONTACT_CHANGED),
  presence: one(21, PRESENCE),
  transient: one(22, TRANSIENT),
  found: one(24, {
    number: uint32(1),
    found: many(2, INBOX_ENTRY),
    before: uint64(3),
    more: bool(4),
  }),
  upload: one(26, {
    number: uint32(1),
    put_url: string(2),
    headers: many(3, { name: string(1), value: string(2) }),
    get_url: string(4),
    put_until_ms: uint64(5),
    get_until_ms: uint64(6),
  }),
  push_status: one(28, {
    number: uint32(1),
    registrations: many(2, PUSH_REGISTRATION),
    quiet: one(3, QUIET_HOURS),
  }),
  push_code: one(29, { number: uint32(1) }),
  readers: one(30, {
    number: uint32(1),
    with: string(2),
    seq: uint64(3),
    total: uint32(4),
    read: uint32(5),
    from: uint32(6),
    readers: many(7, { account: string(1), read: uint64(2), delivered: uint64(3) }),
  }),
  privacy: one(31, PRIVACY),
  delivered: one(36, { with: string(1), upto: uint64(2) }),
  chatroom_joined: one(32, CHATROOM_JOINED),
  chatroom_message: one(33, { message: one(1, CHAT_MESSAGE), important: bool(2) }),
  chatroom_missed: one(34, { room: string(1), missed: uint32(2) }),
  chatroom_news: one(35, CHATROOM_NEWS),
  token: one(37, { number: uint32(1), token: string(2), until_ms: uint64(3) }),
};

export type ChatMessageFields = Fields<typeof CHAT_MESSAGE>;
export type EntryFields = Fields<typeof INBOX_ENTRY>;
export type EventFields = Fields<typeof INBOX_EVENT>;
export type ChangeFields = Fields<typeof CHANGE>;
export type ExcerptFields = Fields<typeof EXCERPT>;
export type ConversationFields = Fields<typeof CONVERSATION>;
export type ConversationsFields = NonNullable<Fields<typeof SERVER_FRAME>["conversations"]>;
export type ReadersPageFields = NonNullable<Fields<typeof SERVER_FRAME>["readers"]>;
export type DeliveredFields = NonNullable<Fields<typeof SERVER_FRAME>["delivered"]>;
export type LoginFields = Fields<typeof LOGIN>;
export type LoggedInFields = Fields<typeof LOGGED_IN>;
export type EndFields = Fields<typeof END>;
export type MemberFields = Fields<typeof MEMBER>;
export type ContactFields = Fields<typeof CONTACT>;
export type ContactChangedFields = Fields<typeof CONTACT_CHANGED>;
export type ContactsPageFields = Fields<typeof CONTACTS_PAGE>;
export type ChatroomStateFields = Fields<typeof CHATROOM_STATE>;
export type ChatroomJoinedFields = Fields<typeof CHATROOM_JOINED>;
export type ChatroomNewsFields = Fields<typeof CHATROOM_NEWS>;
export type PresenceFields = Fields<typeof PRESENCE>;
export type TransientFields = Fields<typeof TRANSIENT>;
export type ServerFrame = Member<typeof SERVER_FRAME>;

type Frames<T extends Table> = { [K in keyof T]: NonNullable<Fields<T>[K]> };

/** A request as a client writes it, its length before it. Fields left out have their defaults. */
export function clientFrame<K extends keyof typeof CLIENT_FRAME>(
  kind: K,
  given: Partial<Frames<typeof CLIENT_FRAME>[K]> = {},
): Uint8Array {
  const table = CLIENT_FRAME[kind].table!;
  const fields = message(table, given as Record<string, unknown>);
  return framed(write(CLIENT_FRAME, message(CLIENT_FRAME, { [kind]: fields })));
}

/** A body with its length before it (IM 2.1). */
export function framed(body: Uint8Array): Uint8Array {
  const length: number[] = [];
  putVarint(BigInt(body.length), length);
  const frame = new Uint8Array(length.length + body.length);
  frame.set(length);
  frame.set(body, length.length);
  return frame;
}

/** What a server said; `undefined`: nothing that is known here (IM 2.3). */
export function readServerFrame(body: Uint8Array): ServerFrame | undefined {
  return readMember(SERVER_FRAME, body);
}

/** Cuts a stream of bytes into the bodies of frames, wherever it was split (IM 1). */
export class Deframer {
  #pending = new Uint8Array();

  constructor(private readonly bytesMax: number) {}

  /** The frames that are whole now. Keeps at most one frame's bytes that is not. */
  push(bytes: Uint8Array): Uint8Array[] {
    let rest = joined(this.#pending, bytes);
    const bodies: Uint8Array[] = [];
    for (;;) {
      const head = frameHead(rest, this.bytesMax);
      if (head === undefined || rest.length < head.whole) break;
      bodies.push(rest.subarray(head.begins, head.whole));
      rest = rest.subarray(head.whole);
    }
    this.#pending = rest.slice();
    return bodies;
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  if (first.length === 0) return second;
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

/** Where the body begins and the frame ends; `undefined`: its length is not whole. */
function frameHead(
  bytes: Uint8Array,
  bytesMax: number,
): { begins: number; whole: number } | undefined {
  let length = 0;
  for (let at = 0; at < 5; at++) {
    const byte = bytes[at];
    if (byte === undefined) return undefined;
    length += (byte & 0x7f) * 2 ** (7 * at);
    if (byte < 0x80) {
      const whole = at + 1 + length;
      if (whole > bytesMax) throw new WireFault("too_large");
      return { begins: at + 1, whole };
    }
  }
  throw new WireFault("length");
}
