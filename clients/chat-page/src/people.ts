/**
 * The people whom somebody has talked with, the latest first, as a browser keeps them.
 *
 * Knows no storage and no page. Invariant: there are at most {@link PEOPLE_MAX}; those who were
 * silent for longest are forgotten here, and come back with their next message.
 */

/** People that are kept. */
export const PEOPLE_MAX = 500;
/** Characters of a message that are shown beside a name. */
const GLIMPSE_MAX = 80;

/** Somebody. */
export interface Person {
  /** The whole address. */
  readonly peer: string;
  /** The beginning of what was said last, and when. */
  readonly glimpse: string;
  readonly at: number;
  /** The last place of the conversation that is known of. */
  readonly seq: number;
  /** Messages of theirs that were not looked at here. */
  readonly unread: number;
  /** Of a group, the title that it was last known by. */
  readonly title?: string;
}

/** What is to be known of a message. */
export interface Heard {
  readonly peer: string;
  readonly text: string;
  readonly at: number;
  readonly seq: number;
  readonly isOwn: boolean;
  /** It does not count as unread. */
  readonly uncounted?: boolean;
}

/** The people. */
export class People {
  #people: Person[];

  constructor(people: readonly Person[] = []) {
    this.#people = [...people].sort((one, other) => other.at - one.at).slice(0, PEOPLE_MAX);
  }

  /** The latest first. */
  get all(): readonly Person[] {
    return this.#people;
  }

  /** Something was said; `isSeen`: its conversation is being looked at. One is heard once. */
  heard(message: Heard, isSeen: boolean): void {
    const { peer, at, seq } = message;
    const known = this.#people.find((it) => it.peer === peer);
    if (known !== undefined && seq <= known.seq) return;
    const counts = !message.isOwn && !isSeen && message.uncounted !== true;
    const unread = isSeen ? 0 : (known?.unread ?? 0) + Number(counts);
    const glimpse = Array.from(message.text).slice(0, GLIMPSE_MAX).join("");
    this.#put({ ...known, peer, glimpse, at, seq, unread });
  }

  /** A group has this title. */
  titled(peer: string, title: string): void {
    this.#people = this.#people.map((it) => (it.peer === peer ? { ...it, title } : it));
  }

  /** Somebody is to be written to. */
  met(peer: string, now: number): void {
    const known = this.#people.some((it) => it.peer === peer);
    if (!known) this.#put({ peer, glimpse: "", at: now, seq: 0, unread: 0 });
  }

  /** The conversation was looked at. */
  seen(peer: string): void {
    this.#people = this.#people.map((it) => (it.peer === peer ? { ...it, unread: 0 } : it));
  }

  #put(person: Person): void {
    const others = this.#people.filter(({ peer }) => peer !== person.peer);
    const behind = others.findIndex(({ at }) => at <= person.at);
    others.splice(behind < 0 ? others.length : behind, 0, person);
    this.#people = others.slice(0, PEOPLE_MAX);
  }
}

/** The people as text, to be kept. */
export function printPeople(people: People): string {
  return JSON.stringify(people.all);
}

/** Those that {@link printPeople} printed. Who is no person is left out. */
export function parsePeople(text: string | null): People {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    return new People(Array.isArray(found) ? found.filter(isPerson) : []);
  } catch {
    return new People();
  }
}

function isPerson(value: unknown): value is Person {
  const { peer, glimpse, at, seq, unread, title } = Object(value) as Record<string, unknown>;
  const isCount = (it: unknown) => Number.isSafeInteger(it) && (it as number) >= 0;
  return typeof peer === "string" && typeof glimpse === "string" && isCount(at) && isCount(seq)
    && isCount(unread) && (title === undefined || typeof title === "string");
}
