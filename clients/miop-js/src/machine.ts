/**
 * All decisions of one device: a machine that knows no socket, clock, random source or storage.
 *
 *     idle ─start─► connecting ─► binding ─► bound ─close─► closing ─► ended
 *                    ▲    │ fails    │ no      │ lost                    ▲
 *                    │    ▼          ▼         ▼        permanent no     │
 *                    └─ waiting ◄────┴─────────┴─────────────────────────┘
 *
 * Its input is events (`connected`, `received`, `lost`, `tick`) and requests of the application;
 * `take()` returns the actions, in order. A push is handed out once: its id is held until the
 * application acknowledges it, then remembered. The rules are numbered in
 * clients/conformance/README.md.
 */

import { Backoff } from "./backoff.js";
import { Heartbeat, type HeartbeatOptions, type Learned } from "./heartbeat.js";
import { fromHex, toHex } from "./hex.js";
import { Reports, type SavedReports } from "./reports.js";
import {
  bigEndian, CAP_PULLS, type Claim, concat, decode, encode, Fault, type Frame, frame, Opcode,
  type Properties, type PushRecord, sign, word,
} from "./wire.js";

const CONNECT_MS = 15_000;
const BIND_MS = 15_000;
const PONG_MS = 30_000;
const NUDGE_MS = 10_000;
/** A PING that is later than this tests no interval: the device slept. */
const LATE_MS = 30_000;
const CLOSE_MS = 5_000;
/** Acknowledged ids that are remembered. */
const SEEN_MAX = 256;
/** Pushes that the application may hold; no server sends so many. */
const HELD_MAX = 4_096;
/** Ends with addresses that are followed without a wait, between two sessions. */
const FOLLOWS_MAX = 3;
/** Results after which a device does not come back by itself. */
const PERMANENT = new Set([11, 20, 21, 22, 23, 24, 40, 41]);

/** A device's proof (MIOP 6): an HMAC secret, a token, a certificate, or nothing. */
export interface Credentials {
  readonly secret?: Uint8Array | undefined;
  readonly keyId?: number | undefined;
  readonly token?: Uint8Array | string | undefined;
  readonly certificate?: boolean | undefined;
}

/** What a machine is made with. */
export interface MachineOptions {
  readonly addresses: readonly string[];
  readonly product: string;
  readonly device: string;
  readonly random: () => number;
  readonly randomBytes: (count: number) => Uint8Array;
  readonly tags?: readonly string[] | undefined;
  readonly maxInflight?: number | undefined;
  readonly pulls?: boolean | undefined;
  readonly heartbeat: HeartbeatOptions;
  readonly heartbeatWish: number;
  readonly backoffFirstMs: number;
  readonly backoffLongestMs: number;
  readonly frameBytesMax: number;
}

/** The state that is stored: values of JSON. */
export interface Saved {
  v: 1;
  of: [product: string, device: string];
  session: [token: string, epoch: string] | null;
  seen: string[];
  reports: SavedReports;
  heartbeat: Record<string, Learned>;
}

/** Where the client is. `detail` is the fault of a connection in the platform's words, for people. */
export type State = { readonly why?: string; readonly detail?: string } & (
  | { readonly name: "idle" | "binding" | "closing" }
  | { readonly name: "connecting"; readonly address: string }
  | {
      readonly name: "bound";
      readonly resumed: boolean;
      readonly heartbeat: number;
      readonly offlineCount: number;
    }
  | { readonly name: "waiting"; readonly until: number; readonly why: string }
  | { readonly name: "ended"; readonly why: string; readonly result?: number }
);

/** What to do. */
export type Action =
  | { readonly do: "connect"; readonly address: string }
  | { readonly do: "send"; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly do: "disconnect" }
  | { readonly do: "save"; readonly state: Saved }
  | { readonly do: "state"; readonly state: State }
  | { readonly do: "push"; readonly record: PushRecord }
  | { readonly do: "stored"; readonly clientId: string }
  | { readonly do: "pulled"; readonly remaining: number }
  | { readonly do: "handled"; readonly opcode: number };

/** How a connection ended, as the server said it. */
interface End {
  readonly why: string;
  readonly result?: number;
  readonly hintMs?: number;
  readonly addrs?: readonly string[];
  readonly serverTime?: bigint | undefined;
}

function endOf(it: Frame, otherwise: number): End {
  const { result = otherwise, retry_after_ms = 0, addrs = [], server_time } = it.properties;
  return { why: word(result), result, hintMs: retry_after_ms, addrs, serverTime: server_time };
}

/** One device. Times are milliseconds of a clock that never goes back. */
export class Machine {
  readonly #options: MachineOptions;
  readonly #backoff: Backoff;
  readonly #heartbeat: Heartbeat;
  readonly reports: Reports;
  #session: { token: Uint8Array; epoch: bigint } | null = null;
  readonly #seen = new Set<bigint>();
  readonly #held = new Set<bigint>();
  #acks: bigint[] = [];
  #actions: Action[] = [];
  #isDirty = false;
  #state: State["name"] = "idle";
  #due: number | null = null;
  #buffer: Uint8Array = new Uint8Array(0);
  // Addresses: those that the server named, where it was bound last, those configured.
  #named: string[] = [];
  #lastBound: string | null = null;
  #turn = 0;
  #address = "";
  #follows = 0;
  // Of one connection.
  #claim: Claim | null = null;
  #isChallenged = false;
  #error: End | null = null;
  /** The server is about to go: leave when the pushes of this turn are acknowledged. */
  #away: End | null = null;
  #boundAt = 0;
  #agreed = 0;
  #sentAt = 0;
  #heardAt = 0;
  #pongDue: number | null = null;
  #pongSilence = 0;
  /** A silence that may have killed the connection before: the next Bind decides. */
  #suspect: [silence: number, agreed: number] | null = null;
  #wallMs = 0;
  #clockOffset = 0;
  #isClockCorrected = false;

  constructor(options: MachineOptions, saved: Saved | null) {
    this.#options = options;
    this.#backoff = new Backoff(options.random, options.backoffFirstMs, options.backoffLongestMs);
    this.#heartbeat = new Heartbeat(options.heartbeat);
    this.reports = new Reports(options.random);
    if (saved === null) return;
    this.#heartbeat.load(saved.heartbeat);
    // Of another device only what was learned about networks is of use.
    if (saved.of[0] !== options.product || saved.of[1] !== options.device) return;
    this.reports.load(saved.reports);
    for (const id of saved.seen) this.#seen.add(BigInt(id));
    if (saved.session !== null) {
      const [token, epoch] = saved.session;
      this.#session = { token: fromHex(token), epoch: BigInt(epoch) };
    }
  }

  // -- what the application wants

  /** Connects, unless it does already. */
  start(now: number): void {
    if (this.#state !== "idle" && this.#state !== "ended") return;
    this.#isClockCorrected = false;
    this.#connect(now);
  }

  /** Says goodbye if it can, and ends. */
  close(now: number): void {
    if (this.#state === "bound") {
      this.#flushAcks(now);
      this.#send(now, frame(Opcode.unbind));
      this.#become("closing", now + CLOSE_MS);
      this.#say({ name: "closing" });
    } else if (this.#state === "connecting" || this.#state === "binding") {
      this.#close();
    } else if (this.#state === "idle" || this.#state === "waiting") {
      this.#end("closed");
    }
  }

  /** The network changed or the device woke up: finds out at once whether it is connected. */
  nudge(now: number): void {
    if (this.#state === "waiting") {
      this.#connect(now);
    } else if (this.#state === "bound") {
      if (this.#pongDue === null) this.#ping(now);
      this.#pongDue = Math.min(this.#pongDue ?? Infinity, now + NUDGE_MS);
    }
  }

  /** The device is in this network now; its heartbeat is what was learned there. */
  network(now: number, name: string): void {
    this.#heartbeat.use(name);
    this.#suspect = null;
    this.#pongSilence = 0;
    this.nudge(now);
  }

  /** The application has this push. Its id is stored before the server hears of it. */
  acknowledge(id: bigint): void {
    this.#release(id);
    this.#seen.add(id);
    for (const oldest of this.#seen) {
      if (this.#seen.size <= SEEN_MAX) break;
      this.#seen.delete(oldest);
    }
    this.#isDirty = true;
    this.#acks.push(id);
  }

  /** The application could not handle it: it may come again. */
  reject(id: bigint): void {
    this.#release(id);
  }

  #release(id: bigint): void {
    if (!this.#held.delete(id)) throw new RangeError(`push ${id} is not held`);
  }

  /** Queues a Report; its client id. */
  report(now: number, payload: Uint8Array, clientId?: string): string {
    const name = clientId ?? toHex(this.#options.randomBytes(16));
    if (this.reports.add(name, payload)) {
      this.#isDirty = true;
      this.#sendReports(now);
    }
    return name;
  }

  /** Asks for stored pushes; false without a session. */
  pull(now: number, count: number): boolean {
    if (!(count >= 1 && count <= 65_535)) throw new RangeError("a count is 1 to 65535");
    if (this.#state !== "bound") return false;
    this.#send(now, frame(Opcode.pull, { count }));
    return true;
  }

  // -- what happens

  /** The connection that was asked for is open; `proof` is what the device shows. */
  connected(now: number, wallMs: number, proof: Credentials): void {
    if (this.#state !== "connecting") return;
    this.#buffer = new Uint8Array(0);
    this.#isChallenged = false;
    this.#error = null;
    this.#away = null;
    this.#become("binding", now + BIND_MS);
    this.#say({ name: "binding" });
    this.#send(now, frame(Opcode.bind, this.#bind(wallMs, proof)));
  }

  /** Bytes of the server. */
  received(now: number, bytes: Uint8Array): void {
    if (!this.#listens()) return;
    this.#heard(now);
    this.#buffer = this.#buffer.length === 0 ? bytes : concat([this.#buffer, bytes]);
    try {
      while (this.#listens()) {
        const found = decode(this.#buffer, this.#options.frameBytesMax);
        if (found === null) break;
        const [it, length] = found;
        this.#buffer = this.#buffer.subarray(length);
        this.#handle(now, it);
        this.#actions.push({ do: "handled", opcode: it.opcode });
      }
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#leave(now, { why: error.message });
    }
  }

  /** The connection could not be opened, or was closed by the other side. */
  lost(now: number, why = "lost"): void {
    if (this.#state === "closing") return this.#end("closed");
    if (!["connecting", "binding", "bound"].includes(this.#state)) return;
    if (this.#pongDue !== null) this.#suspect = [this.#pongSilence, this.#agreed];
    this.#after(now, this.#away ?? this.#error ?? { why });
  }

  /** Time has gone by. */
  tick(now: number): void {
    if (this.#state === "bound" && this.#away === null) return this.#tickBound(now);
    if (this.#due === null || now < this.#due) return;
    if (this.#state === "waiting") this.#connect(now);
    else if (this.#state === "connecting") this.#leave(now, { why: "connect_timeout" });
    else if (this.#state === "binding") this.#leave(now, { why: "bind_timeout" });
    else if (this.#state === "closing") this.#close();
    else if (this.#away !== null) this.#leave(now, this.#away);
  }

  /** When `tick` is needed next. */
  due(): number | null {
    if (this.#state !== "bound" || this.#away !== null) return this.#due;
    const due = this.#pongDue ?? this.#pingDue();
    return Math.min(due, this.reports.pausedUntil ?? Infinity);
  }

  /** The last "save" failed: the next turn says it again. */
  notSaved(): void {
    this.#isDirty = true;
  }

  /** What to do, in order. Acknowledgements of one turn share a frame; what was learned and
   *  promised is stored before it is said. */
  take(now: number): Action[] {
    if (this.#state === "bound") this.#flushAcks(now);
    this.#acks = []; // without a connection: they follow when the pushes come again
    const actions = this.#actions;
    this.#actions = [];
    if (this.#isDirty) {
      this.#isDirty = false;
      actions.unshift({ do: "save", state: this.saved() });
    }
    return actions;
  }

  /** The state to be stored. */
  saved(): Saved {
    const session = this.#session;
    return {
      v: 1,
      of: [this.#options.product, this.#options.device],
      session: session === null ? null : [toHex(session.token), session.epoch.toString()],
      seen: Array.from(this.#seen, String),
      reports: this.reports.save(),
      heartbeat: this.#heartbeat.save(),
    };
  }

  // -- connecting

  #listens(): boolean {
    const state = this.#state;
    return (state === "binding" || state === "bound" || state === "closing") && this.#away === null;
  }

  #become(state: State["name"], due: number | null): void {
    this.#state = state;
    this.#due = due;
    this.#pongDue = null;
  }

  #say(state: State): void {
    this.#actions.push({ do: "state", state });
  }

  #connect(now: number): void {
    const named = this.#named.shift() ?? this.#lastBound;
    if (named === this.#lastBound) this.#lastBound = null;
    const { addresses } = this.#options;
    this.#address = named ?? addresses[this.#turn++ % addresses.length]!;
    this.#become("connecting", now + CONNECT_MS);
    this.#say({ name: "connecting", address: this.#address });
    this.#actions.push({ do: "connect", address: this.#address });
  }

  #bind(wallMs: number, proof: Credentials): Properties {
    const { product, device, pulls, maxInflight, tags, heartbeat, heartbeatWish } = this.#options;
    const bind: Properties = { device_id: device, product_key: product };
    bind.heartbeat_wish = [heartbeatWish, heartbeat.shortest, heartbeat.longest];
    if (pulls) bind.caps = CAP_PULLS;
    if (maxInflight) bind.max_inflight = maxInflight;
    if (tags !== undefined) bind.tags = tags.length === 0 ? [""] : [...tags];
    if (this.#session !== null) {
      bind.resume_token = this.#session.token;
      bind.session_epoch = this.#session.epoch;
    }
    this.#wallMs = wallMs;
    this.#claim = null;
    if (proof.secret !== undefined) {
      const clientTs = BigInt(Math.max(0, wallMs + this.#clockOffset));
      const clientNonce = this.#options.randomBytes(16);
      const { secret } = proof;
      this.#claim = { secret, product, device, clientTs, clientNonce, caps: bind.caps ?? 0 };
      bind.auth_type = 1;
      bind.key_id = proof.keyId ?? 0;
      bind.client_ts = clientTs;
      bind.client_nonce = clientNonce;
      bind.mac = sign(this.#claim);
    } else if (proof.token !== undefined) {
      const { token } = proof;
      bind.auth_type = 2;
      bind.token = typeof token === "string" ? new TextEncoder().encode(token) : token;
    } else if (proof.certificate) {
      bind.auth_type = 3;
    }
    return bind;
  }

  // -- frames

  #handle(now: number, it: Frame): void {
    const { opcode } = it;
    const state = this.#state;
    if (it.skipped) return;
    if (opcode === Opcode.error) this.#takeError(now, it);
    else if (opcode === Opcode.kick) this.#leave(now, endOf(it, 0));
    else if (opcode === Opcode.redirect) this.#leave(now, endOf(it, 33));
    else if (opcode === Opcode.goAway) this.#goAway(now, endOf(it, 32));
    else if (state === "binding" && opcode === Opcode.bindAck) this.#takeBindAck(now, it);
    else if (state === "binding" && opcode === Opcode.challenge) this.#takeChallenge(now, it);
    else if (state === "closing") {
      if (opcode === Opcode.unbindAck) this.#close();
    } else if (state === "bound") this.#takeBound(now, it);
    else throw new Fault("out_of_order");
  }

  #takeBound(now: number, it: Frame): void {
    const { properties } = it;
    switch (it.opcode) {
      case Opcode.msg:
        return this.#takeMsg(it);
      case Opcode.pong: // all bytes answer a PING: see #heard
        return;
      case Opcode.pull:
        this.#actions.push({ do: "pulled", remaining: properties.offline_count ?? 0 });
        return;
      case Opcode.config:
        this.#agreed = Math.max(1, properties.heartbeat ?? this.#agreed);
        return;
      case Opcode.reportAck:
        for (const report of this.reports.taken(properties.report_seq!)) {
          this.#isDirty = true;
          this.#actions.push({ do: "stored", clientId: report.clientId });
        }
        return this.#sendReports(now);
      default:
        throw new Fault("out_of_order");
    }
  }

  #goAway(now: number, end: End): void {
    if (this.#state !== "bound") return this.#leave(now, end);
    // Messages that came before may still be acknowledged, in this turn.
    this.#away = end;
    this.#due = now;
  }

  #takeBindAck(now: number, it: Frame): void {
    const { result = 0, heartbeat, resume_token, session_epoch, offline_count } = it.properties;
    if (result > 1) return this.#leave(now, endOf(it, 0));
    if (heartbeat === undefined) throw new Fault("missing_property");
    if (resume_token !== undefined && session_epoch !== undefined) {
      this.#session = { token: resume_token, epoch: session_epoch };
      this.#isDirty = true;
    }
    this.#named = [];
    this.#follows = 0;
    this.#isClockCorrected = false;
    this.#lastBound = this.#address;
    this.#agreed = Math.max(1, heartbeat);
    this.#become("bound", null);
    this.#boundAt = now;
    if (this.#suspect !== null) {
      // The network was there: it had forgotten the silent connection.
      if (this.#heartbeat.failed(...this.#suspect)) this.#isDirty = true;
      this.#suspect = null;
    }
    this.reports.bound();
    const offlineCount = offline_count ?? 0;
    this.#say({ name: "bound", resumed: result === 1, heartbeat: this.#agreed, offlineCount });
    this.#sendReports(now);
  }

  #takeChallenge(now: number, it: Frame): void {
    if (this.#isChallenged || this.#claim === null) throw new Fault("out_of_order");
    this.#isChallenged = true;
    const mac = sign(this.#claim, it.properties.server_nonce);
    this.#send(now, frame(Opcode.auth, { mac }));
  }

  #takeError(now: number, it: Frame): void {
    const { report_seq, reason } = it.properties;
    if (report_seq !== undefined) this.reports.refused(now, report_seq);
    else if (reason !== "unknown_opcode") this.#error = endOf(it, 50);
  }

  #takeMsg(it: Frame): void {
    for (const record of it.records ?? []) {
      if (this.#held.has(record.id)) continue;
      if (this.#seen.has(record.id)) {
        if (!this.#acks.includes(record.id)) this.#acks.push(record.id);
        continue;
      }
      if (this.#held.size >= HELD_MAX) throw new Fault("too_large");
      this.#held.add(record.id);
      this.#actions.push({ do: "push", record });
    }
  }

  // -- sending

  #send(now: number, it: Frame): void {
    this.#sentAt = now;
    this.#actions.push({ do: "send", bytes: encode(it) });
  }

  #flushAcks(now: number): void {
    if (this.#acks.length === 0) return;
    const payload = concat(this.#acks.map((id) => bigEndian(id, 8)));
    this.#acks = [];
    this.#send(now, frame(Opcode.msgAck, {}, payload));
  }

  #sendReports(now: number): void {
    if (this.#state !== "bound") return;
    for (const { seq, payload } of this.reports.toSend(now)) {
      this.#send(now, { ...frame(Opcode.report, {}, payload as Uint8Array<ArrayBuffer>), seq });
    }
  }

  // -- heartbeat

  #pingDue(): number {
    const silentSince = Math.max(this.#sentAt, this.#heardAt);
    const due = silentSince + this.#heartbeat.interval(this.#agreed) * 1_000;
    return Math.min(due, this.#sentAt + this.#agreed * 1_000);
  }

  #ping(now: number): void {
    const isLate = now >= this.#pingDue() + LATE_MS;
    this.#pongSilence = isLate ? 0 : (now - Math.max(this.#sentAt, this.#heardAt)) / 1_000;
    this.#send(now, frame(Opcode.ping));
    this.#pongDue = now + PONG_MS;
  }

  #heard(now: number): void {
    this.#heardAt = now;
    if (this.#pongDue === null) return;
    this.#pongDue = null;
    if (this.#heartbeat.survived(this.#pongSilence, this.#agreed)) this.#isDirty = true;
  }

  #tickBound(now: number): void {
    if (this.#pongDue !== null && now >= this.#pongDue) {
      this.#suspect = [this.#pongSilence, this.#agreed];
      return this.#leave(now, { why: "no_pong" });
    }
    if (this.#pongDue === null && now >= this.#pingDue()) this.#ping(now);
    this.#sendReports(now);
  }

  // -- ends

  /** Closes the connection, and goes on as `end` says. */
  #leave(now: number, end: End): void {
    this.#actions.push({ do: "disconnect" });
    this.#after(now, end);
  }

  #after(now: number, end: End): void {
    if (this.#state === "closing") return this.#end("closed");
    if (this.#state === "bound") this.#backoff.lasted(now - this.#boundAt);
    else this.#suspect = null; // the network or the server was away
    const { why, result, hintMs = 0, addrs = [] } = end;
    if (addrs.length > 0) this.#named = [...addrs];
    if (this.#correctsClock(end)) return this.#connect(now);
    const isPermanent = result !== undefined && PERMANENT.has(result) && hintMs === 0;
    if (isPermanent) return this.#end(why, result);
    if (addrs.length > 0 && hintMs === 0 && this.#follows < FOLLOWS_MAX) {
      this.#follows += 1;
      return this.#connect(now);
    }
    const until = now + this.#backoff.next(hintMs);
    this.#become("waiting", until);
    this.#say({ name: "waiting", until, why });
  }

  #correctsClock(end: End): boolean {
    if (end.result !== 21 || end.serverTime === undefined || this.#isClockCorrected) return false;
    this.#isClockCorrected = true;
    this.#clockOffset = Number(end.serverTime) - this.#wallMs;
    return true;
  }

  #close(): void {
    this.#actions.push({ do: "disconnect" });
    this.#end("closed");
  }

  #end(why: string, result?: number): void {
    this.#become("ended", null);
    this.#say(result === undefined ? { name: "ended", why } : { name: "ended", why, result });
  }
}
