/** Instant messaging over Holdline's IM protocol, from browsers. README.md has an example. */

export type { Found, History, State } from "./actions.js";
export { isChatroom } from "./chatroom.js";
export type {
  Chatroom, ChatroomEvent, ChatroomOptions, ChatroomOut, ChatroomVerb, JoinedChatroom,
} from "./chatroom.js";
export { Client } from "./client.js";
export type { ClientEvents, ContactOptions, Said } from "./client.js";
export { DRAFT_BYTES_MAX, UNREAD_MAX } from "./conversation.js";
export type {
  Conversation, ConversationChange, ConversationEvent, ConversationSettings, ConversationsPage,
  Excerpt,
} from "./conversation.js";
export { FILE, fileExtra, fileOf, isPicture } from "./file.js";
export type { FileNote, OnProgress, UploadRequestLike } from "./file.js";
export { clientId } from "./given.js";
export { areFriends, STATUS_BYTES_MAX } from "./contact.js";
export type {
  Contact, ContactChange, ContactSaid, ContactVerb, Half, Presence, Show,
} from "./contact.js";
export { isGroup, isOfNothingKnown } from "./group.js";
export type {
  GroupChange, GroupChanged, GroupMembers, GroupRole, GroupVerb, Member,
} from "./group.js";
export { amended, EDIT, isMentioned, REACTION, RECALLED } from "./message.js";
export type {
  Content, Message, Queued, Quote, Reaction, Recalled, Sent, Target,
} from "./message.js";
export type {
  ClientOptions, Clock, ConversationsOptions, HistoryOptions, OrderOptions, SearchOptions,
  UploadOptions, WebSocketLike,
} from "./options.js";
export type { Delivered, Reader, Readers, ReadersAsk } from "./receipts.js";
export { MemoryStorage } from "./storage.js";
export type { StorageLike } from "./storage.js";
export type { LoginToken } from "./token.js";
export { CHAT_STATES } from "./transient.js";
export type { ChatState, Tellable, Transient } from "./transient.js";
export { ImError, OWN_WORDS } from "./words.js";
