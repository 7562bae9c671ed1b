/** What stands at a place of an inbox: a message, or an event (IM 11.1). */

import { eventOf } from "./conversation.js";
import type { ConversationEvent } from "./conversation.js";
import type { Placed } from "./follower.js";
import type { EntryFields, EventFields } from "./frames.js";
import { exact, messageOf } from "./message.js";
import type { Message } from "./message.js";
import { WireFault } from "./wire.js";

/** An entry. One without either was added by a later version: its place is taken. */
export interface InboxEntry {
  readonly message?: Message;
  readonly event?: ConversationEvent;
}

/** A message at its place, as this account sees it. */
export function placedMessage(fields: EntryFields, account: string): Placed<InboxEntry> {
  if (fields.message === undefined) throw new WireFault("truncated");
  return { place: exact(fields.seq), entry: { message: messageOf(fields.message, account) } };
}

/** An event at its place. */
export function placedEvent(fields: EventFields): Placed<InboxEntry> {
  const event = eventOf(fields);
  return { place: exact(fields.seq), entry: event === undefined ? {} : { event } };
}

/** What a page has, in the order of the inbox. */
export function placedAll(
  page: { readonly entries: readonly EntryFields[]; readonly events: readonly EventFields[] },
  account: string,
): Placed<InboxEntry>[] {
  const messages = page.entries.map((fields) => placedMessage(fields, account));
  const all = [...messages, ...page.events.map(placedEvent)];
  return all.sort((one, other) => one.place - other.place);
}
