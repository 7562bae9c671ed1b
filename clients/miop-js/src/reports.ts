/** Reports that wait for the server: in order, each under one number until it was taken. */

import { fromHex, toHex } from "./hex.js";

const COUNT_MAX = 256;
const BYTES_MAX = 1 << 20;
const IN_FLIGHT_MAX = 16;
const PAUSE_FIRST_MS = 5_000;
const PAUSE_LONGEST_MS = 300_000;

/** Too many Reports wait. */
export class QueueFull extends Error {
  constructor() {
    super("queue_full");
  }
}

/** One that waits. */
export interface Report {
  readonly seq: number;
  readonly clientId: string;
  readonly payload: Uint8Array;
  sent: boolean;
}

/** The queue as it is stored: the next number, and number, client id and payload (hex) of each. */
export interface SavedReports {
  next: number;
  queue: [seq: number, clientId: string, payload: string][];
}

/** The queue of one device. */
export class Reports {
  #queue: Report[] = [];
  #nextSeq = 1;
  #bytes = 0;
  #pauseMs = PAUSE_FIRST_MS;
  /** No Report is sent before this time; `null`: no pause. */
  pausedUntil: number | null = null;

  constructor(private readonly random: () => number) {}

  get size(): number {
    return this.#queue.length;
  }

  /** Queues one; false if its client id is queued already. */
  add(clientId: string, payload: Uint8Array): boolean {
    if (this.#queue.some((report) => report.clientId === clientId)) return false;
    if (this.#queue.length >= COUNT_MAX || this.#bytes + payload.length > BYTES_MAX) {
      throw new QueueFull();
    }
    this.#queue.push({ seq: this.#nextSeq, clientId, payload, sent: false });
    this.#nextSeq = (this.#nextSeq % 0xffff_ffff) + 1;
    this.#bytes += payload.length;
    return true;
  }

  /** A new session: what was in flight is sent again. */
  bound(): void {
    for (const report of this.#queue) report.sent = false;
  }

  /** Those that may be sent now; they count as sent. */
  toSend(now: number): Report[] {
    if (this.pausedUntil !== null && now < this.pausedUntil) return [];
    this.pausedUntil = null;
    const room = IN_FLIGHT_MAX - this.#queue.filter((report) => report.sent).length;
    const found = this.#queue.filter((report) => !report.sent).slice(0, Math.max(0, room));
    for (const report of found) report.sent = true;
    return found;
  }

  /** The server has all that are in flight up to this number. */
  taken(seq: number): Report[] {
    const isTaken = (it: Report): boolean => it.sent && ((seq - it.seq) >>> 0) < 2 ** 31;
    const gone = this.#queue.filter(isTaken);
    this.#queue = this.#queue.filter((it) => !isTaken(it));
    for (const report of gone) this.#bytes -= report.payload.length;
    if (gone.length > 0) this.#pauseMs = PAUSE_FIRST_MS;
    return gone;
  }

  /** The server did not take this one: all wait for a while. */
  refused(now: number, seq: number): void {
    const report = this.#queue.find((it) => it.seq === seq && it.sent);
    if (report === undefined) return;
    report.sent = false;
    const half = this.#pauseMs / 2;
    this.pausedUntil = now + Math.floor(half + this.random() * half);
    this.#pauseMs = Math.min(this.#pauseMs * 2, PAUSE_LONGEST_MS);
  }

  /** The queue, for the state. */
  save(): SavedReports {
    const queue = this.#queue.map((it): [number, string, string] =>
      [it.seq, it.clientId, toHex(it.payload)]);
    return { next: this.#nextSeq, queue };
  }

  /** Goes on with a stored queue. */
  load(saved: SavedReports): void {
    this.#nextSeq = saved.next;
    this.#queue = saved.queue.map(([seq, clientId, payload]) =>
      ({ seq, clientId, payload: fromHex(payload), sent: false }));
    this.#bytes = this.#queue.reduce((sum, it) => sum + it.payload.length, 0);
  }
}
