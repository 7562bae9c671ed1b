/** What callers give: whether it makes sense, and ids that nobody else gives. */

import { hex } from "./message.js";
import type { Queued } from "./message.js";

/** Whether a server could take it (IM 8.2, `invalid`), as far as that is plain here. */
export function isSaid({ kind, text, extra, clientId: id }: Queued): boolean {
  const isKind = Number.isInteger(kind) && kind >= 0 && kind <= 0xffff;
  return isKind && /^[0-9a-f]{32}$/.test(id) && (text !== "" || extra.length > 0);
}

/** Whether it is a place, or a count. */
export function isPlace(it: number): boolean {
  return Number.isSafeInteger(it) && it >= 0;
}

/** So many bytes, drawn. */
export function random(bytes: number): Uint8Array {
  return globalThis.crypto.getRandomValues(new Uint8Array(bytes));
}

/** An id for a message that nobody else gives: a UUID of version 4 (RFC 9562 5.4), in hex. */
export function clientId(): string {
  const id = random(16);
  id[6] = (id[6]! & 0x0f) | 0x40;
  id[8] = (id[8]! & 0x3f) | 0x80;
  return hex(id);
}
