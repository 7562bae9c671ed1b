/**
 * Names behind an `@`: whom a text mentions, and which names are offered while one is written.
 *
 * Knows no page. Invariant: what is offered is a name that is there; what a text mentions can be
 * said to a server.
 */

import { isName, wholeName } from "./place.js";

/** The name that means everybody of a group. */
export const EVERYBODY = "all";
/** Names that one text mentions; with more the last ones are words like others. */
const MENTIONS_MAX = 32;
/** Names that are offered at once. */
const OFFERED_MAX = 6;

/** An `@` with a name behind it, at the beginning or behind what is no part of a name. */
const MENTION = /(?<![\w.+-])@([a-z0-9._+-]+(?:@[a-z0-9.-]+)?)/g;

/** Whom a text mentions. */
export interface Mentioned {
  readonly mentions: readonly string[];
  readonly mentionsEverybody: boolean;
}

/** Whom a text mentions that is said in a group, or to somebody. */
export function mentionedIn(text: string, domain: string, isOfGroup: boolean): Mentioned {
  // A sentence may end behind a name.
  const names = [...text.matchAll(MENTION)].map(([, name]) => name!.replace(/[.+_-]+$/, ""));
  const mentionsEverybody = isOfGroup && names.includes(EVERYBODY);
  const people = names.filter((name) => isName(name) && !(isOfGroup && name === EVERYBODY));
  const mentions = [...new Set(people.map((name) => wholeName(name, domain)))];
  return { mentions: mentions.slice(0, MENTIONS_MAX), mentionsEverybody };
}

/** The beginning of a name that is being written behind an `@`, before a place of the text. */
export function begunAt(text: string, at: number): string | undefined {
  return /(?<![\w.+-])@([a-z0-9._+-]*)$/.exec(text.slice(0, at))?.[1];
}

/** Names that begin so, in their order. */
export function offered(names: readonly string[], begun: string): readonly string[] {
  return names.filter((name) => name.startsWith(begun)).sort().slice(0, OFFERED_MAX);
}

/** The text with a name in place of its beginning, and where one goes on writing. */
export function completed(text: string, at: number, name: string): { text: string; at: number } {
  const begun = begunAt(text, at) ?? "";
  const before = `${text.slice(0, at - begun.length)}${name} `;
  return { text: before + text.slice(at).replace(/^ /, ""), at: before.length };
}
