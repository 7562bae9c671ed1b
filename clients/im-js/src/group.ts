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

/** A change of a group, as a line of the message says that tells of it (IM 10.4). */
export interface GroupChange {
  readonly verb: GroupVerb;
  /** The title of `create` and `rename`, the description of `describe`; of others the reason. */
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

/**
 * The changes that a message of this content tells of, in their order. A line that is not known
 * here is passed over.
 */
export function changesOf(kind: number, text: string, extra: Uint8Array): readonly GroupChange[] {
  if (kind !== GROUP_KIND) return [];
  const lines = new TextDecoder().decode(extra).split("\n");
  return lines.flatMap((line) => changeOf(line, text) ?? []);
}

/** The change that a line tells of. `text`: that of the message, for a line without its own. */
function changeOf(line: string, text: string): GroupChange | undefined {
  const [said = "", digits, ...more] = line.split(" =");
  const [word, ...named] = said.split(" ");
  const verb = GROUP_VERBS.find((it) => it === word);
  const title = digits === undefined ? text : textOf(digits);
  const isAccount = (it: string) => /^[^#@]+@[^#@]+#\d+$/.test(it);
  const isWrong = more.length > 0 || !named.every(isAccount);
  if (verb === undefined || title === undefined || isWrong) return undefined;
  return { verb, title, members: named.map((it) => it.slice(0, it.indexOf("#"))) };
}

/** The text whose UTF-8 these hexadecimal digits are; `undefined`: they are no text's. */
function textOf(digits: string): string | undefined {
  if (!/^([\da-f]{2})*$/i.test(digits)) return undefined;
  try {
    return decodeURIComponent(digits.replace(/../g, "%$&"));
  } catch {
    return undefined;
  }
}

/** Whether it tells of something that happened to a group and is not known here: not shown. */
export function isOfNothingKnown(said: {
  readonly kind: number;
  readonly changes: readonly GroupChange[];
}): boolean {
  return said.kind === GROUP_KIND && said.changes.length === 0;
}

/** Whether an account is no member any more after these changes. `isOwn`: it made them itself. */
export function endsMembership(
  changes: readonly GroupChange[],
  isOwn: boolean,
  account: string,
): boolean {
  return changes.reduce((isOut, { verb, members }) => {
    if (verb === "dissolve" || (verb === "leave" && isOwn)) return true;
    if (!members.includes(account)) return isOut;
    // Who is invited is no member until it joins.
    if (verb === "remove" || verb === "ban" || verb === "invite") return true;
    return isOut && verb !== "add" && verb !== "join";
  }, false);
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
