/**
 * Groups (IM 10): what is done to them, what happened in one, and who is in it.
 *
 * Knows no frames and no connection.
 */

/** What is done to a group, by its number on the wire less one (IM 8.4). */
export const GROUP_VERBS = [
  "create", "add", "remove", "leave", "hand-over", "promote", "demote", "mute", "unmute", "close",
  "open", "rename", "dissolve", "join", "ban", "unban", "describe", "lock", "unlock",
  "reveal", "hide", "persist", "unpersist", "invite", "add-owner", "remove-owner",
] as const;

/** A verb. */
export type GroupVerb = (typeof GROUP_VERBS)[number];

/** What a member may do, by its number on the wire less one (IM 8.5). */
export const GROUP_ROLES = ["member", "admin", "owner"] as const;

/** A role. */
export type GroupRole = (typeof GROUP_ROLES)[number];

/** Members that are asked for at once (IM 9). */
export const MEMBERS_PAGE = 256;

/** Kind of a message that tells what happened in its group (IM 8.3). */
export const GROUP_KIND = 3;

/** An order to a group; without `group` one is made. */
export interface GroupOrder {
  readonly group: string;
  readonly clientId: string;
  readonly verb: GroupVerb;
  readonly title: string;
  readonly members: readonly string[];
}

/** A change that is stored. */
export interface GroupChanged {
  /** The group's whole address. */
  readonly group: string;
  /** Of the message that tells of it. */
  readonly id: bigint;
  readonly seq: number;
  readonly at: number;
}

/** What happened in a group, as a message says that tells of it (IM 10.4). */
export interface GroupChange {
  readonly verb: GroupVerb;
  /** Of `create` and `rename`. */
  readonly title: string;
  /** Whom it concerns, whole; of `create` the owner first. */
  readonly members: readonly string[];
}

/** A member of a group. */
export interface Member {
  /** `name@domain`. */
  readonly address: string;
  readonly role: GroupRole;
  readonly isMuted: boolean;
}

/** A group, and who is in it. */
export interface GroupMembers {
  readonly group: string;
  readonly title: string;
  /** What is said of it besides. */
  readonly description: string;
  /** Whoever knows its address may join it. */
  readonly isUnlocked: boolean;
  /** It is in the list of its domain. */
  readonly isPublic: boolean;
  /** It ends when nobody is in its room of XMPP any more. */
  readonly isTemporary: boolean;
  /** Only its owner and admins may say something. */
  readonly isClosed: boolean;
  readonly members: readonly Member[];
}

/** A page of a list of members. */
export interface MembersPage extends GroupMembers {
  readonly version: bigint;
  readonly total: number;
  readonly from: number;
}

/** Whether an address is a group's, or a channel's (IM 10.5). */
export function isGroup(address: string): boolean {
  const domain = address.slice(address.indexOf("@") + 1);
  return domain.startsWith("conference.") || domain.startsWith("channel.");
}

/** A verb's number on the wire. */
export function verbNumber(verb: GroupVerb): number {
  return GROUP_VERBS.indexOf(verb) + 1;
}

/** A role by its number; one that a later version added may at least what every member may. */
export function roleOf(number: number): GroupRole {
  return GROUP_ROLES[number - 1] ?? "member";
}

/** What a message of this content tells of; `undefined`: of nothing that is known here. */
export function changeOf(kind: number, text: string, extra: Uint8Array): GroupChange | undefined {
  if (kind !== GROUP_KIND) return undefined;
  const [word, ...named] = new TextDecoder().decode(extra).split(" ");
  const verb = GROUP_VERBS.find((it) => it === word);
  const isAccount = (it: string) => /^[^#@]+@[^#@]+#\d+$/.test(it);
  if (verb === undefined || !named.every(isAccount)) return undefined;
  return { verb, title: text, members: named.map((it) => it.slice(0, it.indexOf("#"))) };
}

/** Whether it tells of something that happened to a group and is not known here: not shown. */
export function isOfNothingKnown(said: {
  readonly kind: number;
  readonly change: GroupChange | undefined;
}): boolean {
  return said.kind === GROUP_KIND && said.change === undefined;
}

/** Whether an account is no member any more after this change. `isOwn`: it made it itself. */
export function endsMembership(
  { verb, members }: GroupChange,
  isOwn: boolean,
  account: string,
): boolean {
  if (verb === "leave") return isOwn;
  // Who is invited is no member until it joins.
  const isOf = verb === "remove" || verb === "ban" || verb === "invite";
  return verb === "dissolve" || (isOf && members.includes(account));
}

/** A list of members as its pages come. */
export class MembersList {
  #version = 0n;
  #members: Member[] = [];
  /** How often it began anew. */
  #anew = 0;

  /** What is to be asked for next. */
  get next(): { version: bigint; from: number } {
    return { version: this.#version, from: this.#members.length };
  }

  /** It began anew so often that it is given up: the group changes faster than it is read. */
  get isHopeless(): boolean {
    return this.#anew > 16;
  }

  /** The whole list, if this page was the last of it. */
  page(page: MembersPage): GroupMembers | undefined {
    if (page.version !== this.#version) {
      this.#version = page.version;
      this.#members = [];
      this.#anew += 1;
    }
    const isLast = page.members.length === 0;
    this.#members.push(...page.members);
    if (!isLast && this.#members.length < page.total) return undefined;
    const { group, title, description, isClosed, isUnlocked, isPublic, isTemporary } = page;
    const about = { group, title, description, isClosed, isUnlocked, isPublic, isTemporary };
    return { ...about, members: this.#members };
  }
}
