/**
 * The conversations beside the one that is looked at, as they are shown: in which order, what is
 * said of each, and how much is unread in all.
 *
 * Knows no page and no client.
 */

import { isGroup, RECALLED, UNREAD_MAX } from "./im/index.js";
import type { Conversation, Excerpt } from "./im/index.js";
import { sentenceOfChanges, sentenceOfRecall, sentenceOfSomeChange } from "./changes.js";
import { shortName } from "./place.js";
import { wordOf } from "./words.js";
import type { Language } from "./words.js";

/** Kinds of messages that the server alone says (IM 8.3). */
const GROUP_CHANGE = 3;
const RECALL = 4;
/** Characters that are shown beside a name. */
const GLIMPSE_MAX = 80;
/** Counts beyond are shown as "and more". */
const COUNT_MAX = 999;

/** One that is shown. */
export interface Listed {
  readonly peer: string;
  /** What is known of it; `undefined`: it is of those who were named here alone. */
  readonly conversation: Conversation | undefined;
}

/**
 * What is shown: those who were named here and with whom nothing was said first, then the list.
 * One that is hidden is shown while it is looked at.
 */
export function listed(
  conversations: readonly Conversation[],
  named: Iterable<string>,
  current: string | undefined,
): Listed[] {
  const all = conversations.filter(isKnown);
  const known = new Set(all.map(({ peer }) => peer));
  const shown = all.filter(({ isHidden, peer }) => !isHidden || peer === current);
  const pinned = shown.filter(({ isPinned }) => isPinned);
  const others = shown.filter(({ isPinned }) => !isPinned);
  const of = (conversation: Conversation) => ({ peer: conversation.peer, conversation });
  const alone = [...named].filter((peer) => !known.has(peer))
    .map((peer) => ({ peer, conversation: undefined }));
  return [...pinned.map(of), ...alone, ...others.map(of)];
}

/** Whether the server knows of it: of one that was asked for and has not come there is no place. */
export function isKnown({ place }: Conversation): boolean {
  return place > 0;
}

/**
 * What is unread where it is to be noticed: not where it is hidden; where it is muted, what mentions
 * one.
 */
export function unreadIn(
  conversations: readonly Conversation[],
): { count: number; isMore: boolean } {
  const shown = conversations.filter(({ isHidden }) => !isHidden);
  const counts = shown.map(({ isMuted, unread, mentions }) => (isMuted ? mentions : unread));
  const count = counts.reduce((sum, it) => sum + it, 0);
  return { count, isMore: counts.some((it) => it >= UNREAD_MAX) };
}

/** A count as it is shown. */
export function countOf(count: number, isMore = false): string {
  return isMore || count > COUNT_MAX ? `${Math.min(count, COUNT_MAX)}+` : String(count);
}

/** The line below a name; `current`: what is begun to be written there is to be seen anyway. */
export function glimpseOf(
  language: Language,
  { peer, last, draft }: Conversation,
  account: string,
  isCurrent: boolean,
): string {
  const begun = draft !== "" && !isCurrent;
  const text = begun ? `${wordOf(language, "draft")}: ${draft}`
    : last === undefined ? "" : said(language, last, account, isGroup(peer));
  const line = text.slice(0, 2 * GLIMPSE_MAX).replace(/\s+/gu, " ");
  return Array.from(line).slice(0, GLIMPSE_MAX).join("");
}

function said(
  language: Language,
  { kind, from, changes, text }: Excerpt,
  account: string,
  isOfGroup: boolean,
): string {
  if (kind === RECALL || kind === RECALLED) return sentenceOfRecall(language, from, account);
  if (changes.length > 0) return sentenceOfChanges(language, from, changes, account);
  if (kind === GROUP_CHANGE) return sentenceOfSomeChange(language, from, account);
  // In a group it is not plain who says something.
  const domain = account.slice(account.indexOf("@") + 1);
  return isOfGroup && from !== account ? `${shortName(from, domain)}: ${text}` : text;
}
