/**
 * Contacts and presence (IM 12): whom an account knows, who of two sees whom, and how somebody is
 * there.
 *
 * Knows no connection.
 */

import type { ContactFields, PresenceFields } from "./frames.js";

/** What is wanted of a contact, by its number on the wire less one (IM 8.7). */
export const CONTACT_VERBS = [
  "set", "remove", "befriend", "request", "cancel", "accept", "refuse", "block", "unblock",
] as const;

/** A verb. */
export type ContactVerb = (typeof CONTACT_VERBS)[number];

/** What a contact says by itself. */
export type ContactSaid = "request" | "cancel" | "accept" | "refuse";

/** Whether one of two sees the other, by its number on the wire (IM 8.8). */
export const HALVES = ["none", "pending", "subscribed"] as const;

/** Whether one of two sees the other. */
export type Half = (typeof HALVES)[number];

/** How somebody is there, by its number on the wire less one (IM 8.9). */
export const SHOWS = ["online", "talkative", "away", "long_away", "busy", "offline"] as const;

/** How somebody is there. */
export type Show = (typeof SHOWS)[number];

/** Contacts that are asked for at once (IM 9). */
export const CONTACTS_PAGE = 256;

/** Bytes of what one is there with in words (IM 9). */
export const STATUS_BYTES_MAX = 512;

/** An order about somebody. */
export interface ContactOrder {
  readonly contact: string;
  readonly verb: ContactVerb;
  readonly name: string;
  readonly groups: readonly string[];
  readonly greeting: string;
}

/** Somebody whom the account knows. */
export interface Contact {
  /** `name@domain`. */
  readonly address: string;
  /** It is in the account's list. Others are here because they ask, or are blocked. */
  readonly isListed: boolean;
  /** What the account calls it; may be empty. */
  readonly name: string;
  readonly groups: readonly string[];
  /** Whether the account sees its presence. */
  readonly sees: Half;
  /** Whether it sees the account's: `pending` waits for `befriend`, `accept` or `refuse`. */
  readonly seen: Half;
  /** If it asks, that is granted. */
  readonly isApproved: boolean;
  /** What it said when it asked, while that has no answer. */
  readonly greeting: string;
  /** Nothing of it reaches the account, nor the other way round. */
  readonly isBlocked: boolean;
}

/** A contact has changed. */
export interface ContactChange {
  /** As it is now; `undefined`: it is gone. */
  readonly contact: Contact | undefined;
  readonly address: string;
  /** What the contact said, if the change is that. */
  readonly said: ContactSaid | undefined;
}

/** How somebody is there on one device; `offline`: no more. */
export interface Presence {
  /** `name@domain`: a contact, or the account itself. */
  readonly address: string;
  /** Empty: on no device any more. */
  readonly device: string;
  readonly show: Show;
  /** In words; may be empty. */
  readonly status: string;
}

/** Whether two see each other. */
export function areFriends({ sees, seen }: Contact): boolean {
  return sees === "subscribed" && seen === "subscribed";
}

/** A verb's number on the wire. */
export function contactVerbNumber(verb: ContactVerb): number {
  return CONTACT_VERBS.indexOf(verb) + 1;
}

/** A show's number on the wire. */
export function showNumber(show: Show): number {
  return SHOWS.indexOf(show) + 1;
}

/** A contact as it travels; `undefined`: nothing is left of it. */
export function contactOf(fields: ContactFields): Contact | undefined {
  const { address, listed, name, groups, approved, greeting, blocked } = fields;
  const [sees, seen] = [halfOf(fields.sees), halfOf(fields.seen)];
  const isTied = sees !== "none" || seen !== "none" || approved;
  if (!listed && !blocked && !isTied) return undefined;
  return {
    address, isListed: listed, name, groups, sees, seen, isApproved: approved, greeting,
    isBlocked: blocked,
  };
}

/** What a contact said; `undefined`: nothing that is known here. */
export function saidOf(number: number): ContactSaid | undefined {
  const verb = CONTACT_VERBS[number - 1];
  const isSaid = verb === "request" || verb === "cancel" || verb === "accept" || verb === "refuse";
  return isSaid ? verb : undefined;
}

/** How somebody is there. Who is there in a way that a later version added is there. */
export function presenceOf({ from, device, show: number, status }: PresenceFields): Presence {
  const show = device === "" ? "offline" : (SHOWS[number - 1] ?? "online");
  return { address: from, device, show, status };
}

function halfOf(number: number): Half {
  return HALVES[number] ?? "none";
}
