/** What stands at a place of an inbox: a message, or an event (IM 11.1). */
import { eventOf } from "./conversation.js";
import { exact, messageOf } from "./message.js";
import { WireFault } from "./wire.js";
/** A message at its place, as this account sees it. */
export function placedMessage(fields, account) {
    if (fields.message === undefined)
        throw new WireFault("truncated");
    return { place: exact(fields.seq), entry: { message: messageOf(fields.message, account) } };
}
/** An event at its place. */
export function placedEvent(fields) {
    const event = eventOf(fields);
    return { place: exact(fields.seq), entry: event === undefined ? {} : { event } };
}
/** What a page has, in the order of the inbox. */
export function placedAll(page, account) {
    const messages = page.entries.map((fields) => placedMessage(fields, account));
    const all = [...messages, ...page.events.map(placedEvent)];
    return all.sort((one, other) => one.place - other.place);
}
