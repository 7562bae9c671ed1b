/** Instant messaging over Holdline's IM protocol, from browsers. README.md has an example. */
export { Client, clientId } from "./client.js";
export { isGroup } from "./group.js";
export { MemoryStorage } from "./storage.js";
export { ImError, OWN_WORDS } from "./words.js";
