/** Presence and contacts as they are shown. Knows no page and no client. */

import type { Contact, Presence, Show } from "./im/index.js";

/** How somebody is there, as one word of the page; the best of several devices. */
export type Standing = "online" | "away" | "busy" | "offline";

const RANKS: readonly Standing[] = ["online", "busy", "away", "offline"];

const STANDINGS: Readonly<Record<Show, Standing>> = {
  online: "online", talkative: "online", away: "away", long_away: "away", busy: "busy",
  offline: "offline",
};

/** How somebody is there on all devices together. */
export function standingOf(presences: readonly Presence[]): Standing {
  const all = presences.map(({ show }) => STANDINGS[show]);
  return RANKS.find((it) => all.includes(it)) ?? "offline";
}

/** What two have to do with each other, as the page offers to change it. */
export type Tie = "none" | "asks" | "asked" | "friend" | "blocked";

/** What this account has to do with a contact; `undefined`: it knows nobody of this name. */
export function tieOf(contact: Contact | undefined): Tie {
  if (contact === undefined) return "none";
  if (contact.isBlocked) return "blocked";
  if (contact.seen === "pending") return "asks";
  if (contact.sees === "pending") return "asked";
  return contact.sees === "subscribed" ? "friend" : "none";
}
