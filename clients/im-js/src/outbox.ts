/**
 * Messages that were said and that the server has not stored yet, in the order in which they were
 * said.
 *
 * Of one conversation one is on its way at a time, so that the order of a conversation is that in
 * which its messages were said, whatever fails in between. Each keeps its client id until the
 * server has answered, so that it is there once however often it is sent (IM 4.2).
 */

import type { Content, Queued } from "./message.js";
import { contentBytes, hex, unhex, whole } from "./message.js";
import { ImError } from "./words.js";

/** After a message that the server could not take now, milliseconds: it doubles to the most. */
const AGAIN_MS = 1_000;
const AGAIN_MS_MAX = 30_000;

/** The queue's limits. */
export interface QueueLimits {
  /** Messages that may wait. */
  readonly messagesMax: number;
  /** Bytes of their texts and extras. */
  readonly bytesMax: number;
}

/** The queue. */
export class Outbox {
  #queued: Queued[];
  /** What is on its way, by the number of its request. */
  readonly #underWay = new Map<number, Queued>();
  #againAt = 0;
  #againMs = AGAIN_MS;

  constructor(private readonly limits: QueueLimits, queued: readonly Queued[] = []) {
    this.#queued = [...queued];
  }

  /** What waits, oldest first. */
  get queued(): readonly Queued[] {
    return this.#queued;
  }

  /** When {@link due} is to be asked again after a message that was not taken: milliseconds. */
  get wakeAt(): number {
    return this.#againAt > 0 && this.#queued.length > 0 ? this.#againAt : Infinity;
  }

  /** Takes one more, unless it is there already; throws where there is no room. */
  add(message: Queued): void {
    if (this.#queued.some(({ clientId }) => clientId === message.clientId)) return;
    const bytes = (it: Content) => contentBytes(it).text + contentBytes(it).extra;
    const waiting = this.#queued.reduce((sum, it) => sum + bytes(it), 0);
    const isFull = this.#queued.length >= this.limits.messagesMax;
    if (isFull || waiting + bytes(message) > this.limits.bytesMax) throw new ImError("queue_full");
    this.#queued.push(message);
  }

  /** What is to be sent now: the first of each conversation that has none on its way. */
  due(now: number, domain: string, windowMax: number): Queued[] {
    if (now < this.#againAt) return [];
    this.#againAt = 0;
    const busy = new Set([...this.#underWay.values()].map(({ to }) => whole(to, domain)));
    const due: Queued[] = [];
    for (const message of this.#queued) {
      if (this.#underWay.size + due.length >= windowMax) break;
      const peer = whole(message.to, domain);
      if (busy.has(peer)) continue;
      busy.add(peer);
      due.push(message);
    }
    return due;
  }

  /** It was sent under this number. */
  sent(number: number, message: Queued): void {
    this.#underWay.set(number, message);
  }

  /** The server has answered the request of this number for good: the message it was, if any. */
  answered(number: number): Queued | undefined {
    const message = this.#underWay.get(number);
    this.#underWay.delete(number);
    this.#againMs = AGAIN_MS;
    return message && this.take(message.clientId);
  }

  /** The server could not take it now: it stays, and is sent again later. */
  refused(now: number, number: number, retryAfterMs: number): boolean {
    if (!this.#underWay.delete(number)) return false;
    this.#againAt = now + Math.max(this.#againMs, retryAfterMs);
    this.#againMs = Math.min(this.#againMs * 2, AGAIN_MS_MAX);
    return true;
  }

  /** The message is stored, or given up: it waits no more. */
  take(clientId: string): Queued | undefined {
    const found = this.#queued.find((message) => message.clientId === clientId);
    if (found !== undefined) this.#queued = this.#queued.filter((message) => message !== found);
    return found;
  }

  /** The connection is gone: nothing is on its way. */
  disconnected(): void {
    this.#underWay.clear();
    this.#againAt = 0;
  }
}

/** The queue as text, to be kept. */
export function printQueue(queued: readonly Queued[]): string {
  return JSON.stringify(queued.map(({ quote, ...message }) => {
    const quoted = quote && { seq: quote.seq, id: String(quote.id) };
    return { ...message, extra: hex(message.extra), quote: quoted };
  }));
}

/** What {@link printQueue} printed. What is no message is left out. */
export function parseQueue(text: string): Queued[] {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    return [];
  }
  return Array.isArray(found) ? found.flatMap(parseQueued) : [];
}

function parseQueued(value: unknown): Queued[] {
  const it = Object(value) as Record<string, unknown>;
  const { clientId, to, text, extra, kind, saidAt, uncounted } = it;
  const isWhole = typeof clientId === "string" && /^[0-9a-f]{32}$/.test(clientId)
    && typeof to === "string" && typeof text === "string" && typeof extra === "string"
    && typeof kind === "number" && typeof saidAt === "number" && typeof uncounted === "boolean";
  if (!isWhole) return [];
  const of = { clientId, to, text, extra: unhex(extra), kind, saidAt, uncounted };
  return [{ ...of, ...parseOthers(it) }];
}

/** What a message says of others (IM 16.5, 16.6). */
function parseOthers(it: Record<string, unknown>): Partial<Queued> {
  const { mentions, mentionsEverybody } = it;
  const { seq, id } = Object(it["quote"]) as Record<string, unknown>;
  const isQuote = typeof seq === "number" && typeof id === "string" && /^\d{1,20}$/.test(id);
  const areNames = Array.isArray(mentions) && mentions.every((name) => typeof name === "string");
  return {
    ...(isQuote && { quote: { seq, id: BigInt(id) } }),
    ...(areNames && { mentions }),
    ...(mentionsEverybody === true && { mentionsEverybody }),
  };
}
