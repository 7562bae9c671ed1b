/**
 * How long a connection may be silent: what a network allows is found and remembered.
 *
 * NATs and proxies forget silent connections sooner than servers do. The interval grows while PINGs
 * are answered, and is searched for between the longest that worked and the shortest that failed.
 * All numbers are seconds.
 */

/** Answered PINGs at an interval before a longer one is tried. */
const GROW_AFTER = 2;
/** Answered PINGs after which an upper bound is forgotten, because networks change. */
const FORGET_AFTER = 50;
/** Networks that are remembered. */
const NETWORKS_MAX = 16;

/** The interval, the longest that worked (0: none), the shortest that failed (0: none). */
export type Learned = [interval: number, worked: number, failed: number];

/** The limits of the interval. */
export interface HeartbeatOptions {
  readonly shortest: number;
  readonly first: number;
  readonly longest: number;
}

/** The interval between PINGs, for each network that the application names. */
export class Heartbeat {
  // The network used last is the last one of the map.
  readonly #learned = new Map<string, Learned>();
  #network = "";
  #answered = 0;
  #sinceSettled = 0;

  constructor(readonly options: HeartbeatOptions) {
    const { shortest, first, longest } = options;
    if (!(shortest >= 1 && shortest <= first && first <= longest && longest <= 65_535)) {
      throw new RangeError("a heartbeat has 1 <= shortest <= first <= longest <= 65535");
    }
  }

  /** The device is in this network now. */
  use(network: string): void {
    if (network === this.#network) return;
    this.#network = network;
    this.#answered = 0;
    this.#sinceSettled = 0;
  }

  #now(): Learned {
    const found = this.#learned.get(this.#network) ?? [this.options.first, 0, 0];
    this.#learned.delete(this.#network);
    this.#learned.set(this.#network, found);
    for (const name of this.#learned.keys()) {
      if (this.#learned.size <= NETWORKS_MAX) break;
      this.#learned.delete(name);
    }
    return found;
  }

  /** The interval; the agreed heartbeat is never exceeded. */
  interval(agreed: number): number {
    return Math.max(1, Math.min(this.#now()[0], agreed));
  }

  /** A PING after so much silence was answered. True if something was learned. */
  survived(silence: number, agreed: number): boolean {
    const it = this.#now();
    const [interval, worked, failed] = it;
    const tried = Math.min(interval, agreed);
    if (silence < tried) return false;
    this.#answered += 1;
    it[1] = Math.max(worked, tried);
    if (failed > 0 && failed - it[1] <= Math.max(10, Math.floor(it[1] / 8))) {
      this.#sinceSettled += 1;
      if (this.#sinceSettled >= FORGET_AFTER) {
        it[2] = 0;
        this.#sinceSettled = 0;
        this.#answered = 0;
      }
    } else if (this.#answered >= GROW_AFTER) {
      const longer = Math.floor(failed > 0 ? (it[1] + failed) / 2 : (interval * 3) / 2);
      it[0] = Math.max(interval, Math.min(longer, agreed, this.options.longest));
      this.#answered = 0;
    }
    return it[0] !== interval || it[1] !== worked || it[2] !== failed;
  }

  /** A connection died of so much silence. True if something was learned. */
  failed(silence: number, agreed: number): boolean {
    const it = this.#now();
    const interval = Math.min(it[0], agreed);
    if (silence < interval) return false;
    if (it[1] >= interval) it[1] = 0; // it worked once: the network has changed
    it[2] = interval;
    it[0] = Math.max(this.options.shortest, it[1] || Math.floor(interval / 2));
    this.#answered = 0;
    this.#sinceSettled = 0;
    return true;
  }

  /** What was learned, for the state. */
  save(): Record<string, Learned> {
    return Object.fromEntries(this.#learned);
  }

  /** Goes on with what was learned earlier, within today's limits. */
  load(learned: Record<string, Learned>): void {
    const { shortest, longest } = this.options;
    for (const [name, [interval, worked, failed]] of Object.entries(learned)) {
      const within = Math.min(Math.max(interval, shortest), longest);
      this.#learned.set(name, [within, worked, failed]);
    }
  }
}
