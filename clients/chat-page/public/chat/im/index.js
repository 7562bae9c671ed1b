/** Instant messaging over Holdline's IM protocol, from browsers. README.md has an example. */
export { isChatroom } from "./chatroom.js";
export { Client } from "./client.js";
export { DRAFT_BYTES_MAX, UNREAD_MAX } from "./conversation.js";
export { FILE, fileExtra, fileOf, isPicture } from "./file.js";
export { clientId } from "./given.js";
export { areFriends, STATUS_BYTES_MAX } from "./contact.js";
export { isGroup, isOfNothingKnown } from "./group.js";
export { amended, EDIT, isMentioned, REACTION, RECALLED } from "./message.js";
export { MemoryStorage } from "./storage.js";
export { CHAT_STATES } from "./transient.js";
export { ImError, OWN_WORDS } from "./words.js";
