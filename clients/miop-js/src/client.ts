/** The client: the machine of one device, with connections, a clock and a store. */

import { type Clock, type Connection, type Connector, MemoryStore, realClock, type Store,
  webSocketConnector } from "./connection.js";
import type { HeartbeatOptions } from "./heartbeat.js";
import { type Action, type Credentials, Machine, type Saved, type State } from "./machine.js";
import { Opcode, type PushRecord } from "./wire.js";

/** The client will not come back by itself: `why` is a word, `result` the server's number. */
export class Ended extends Error {
  constructor(readonly why: string, readonly result?: number) {
    super(result === undefined ? why : `${why} (${result})`);
  }
}

/** A push. Acknowledge it when you have it; until then the server keeps it. */
export class Push implements PushRecord {
  readonly id!: bigint;
  readonly appId!: number;
  readonly silent!: boolean;
  readonly high!: boolean;
  readonly expireAt!: number;
  readonly collapse!: Uint8Array;
  readonly body!: Uint8Array;
  readonly #done: (isGood: boolean) => void;
  #isOpen = true;

  /** @internal */
  constructor(record: PushRecord, done: (isGood: boolean) => void) {
    Object.assign(this, record);
    this.#done = done;
  }

  get text(): string {
    return new TextDecoder().decode(this.body);
  }

  json(): unknown {
    return JSON.parse(this.text);
  }

  /** You have it. A second call does nothing. */
  acknowledge(): void {
    this.#end(true);
  }

  /** You could not handle it: the server sends it again later. */
  reject(): void {
    this.#end(false);
  }

  #end(isGood: boolean): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#done(isGood);
  }
}

/** What a client is made with. */
export interface Options {
  /** A URL (`wss://…`), in Node also `host:port`; or a list. */
  readonly address: string | readonly string[];
  readonly product: string;
  readonly device: string;
  /** The proof: a secret of the product, */
  readonly secret?: Uint8Array;
  readonly keyId?: number;
  /** or a token, which is sent only over TLS or to this machine, */
  readonly token?: string | Uint8Array;
  /** or the connection's certificate, */
  readonly certificate?: boolean;
  /** or what this returns or promises, asked before each connection. */
  readonly credentials?: () => Credentials | Promise<Credentials>;
  readonly store?: Store;
  /** Pushes are acknowledged by `push.acknowledge()` alone. */
  readonly manual?: boolean;
  readonly tags?: readonly string[];
  readonly maxInflight?: number;
  /** Stored pushes are sent after `pull` alone. */
  readonly pulls?: boolean;
  /** Of the interval between PINGs, seconds. */
  readonly heartbeat?: HeartbeatOptions;
  /** The heartbeat that is asked for, seconds; 0: the product's default. The interval between PINGs
   *  never exceeds what is agreed. */
  readonly heartbeatWish?: number;
  readonly backoffFirstMs?: number;
  readonly backoffLongestMs?: number;
  readonly frameBytesMax?: number;
  /** Handles a push, instead of `for await`. Unless `manual`, it is acknowledged when this returns
   *  or its promise resolves, and comes again when it throws. One runs at a time. */
  readonly onPush?: (push: Push) => void | Promise<void>;
  readonly onState?: (state: State) => void;
  /** The server has taken the Report with this client id. */
  readonly onStored?: (clientId: string) => void;
  /** After `pull`: so many stored pushes remain. */
  readonly onPulled?: (remaining: number) => void;
  /** An error of a handler, or of the store. */
  readonly onError?: (error: unknown) => void;
  /** A frame with this opcode was received and handled. */
  readonly onFrame?: (opcode: number) => void;
  readonly connector?: Connector;
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly randomBytes?: (count: number) => Uint8Array;
}

const TOKEN_BYTES_MAX = 512;
const NAME = /^[A-Za-z0-9._\-+:/=]+$/;

/** A device. */
export class Client implements AsyncIterable<Push> {
  readonly #options: Options;
  readonly #machine: Machine;
  readonly #clock: Clock;
  readonly #store: Store;
  readonly #addresses: readonly string[];
  readonly #credentials: () => Credentials | Promise<Credentials>;
  #state: State = { name: "idle" };
  #connection: Connection | null = null;
  #timer: { due: number; cancel: () => void } | null = null;
  #fault: string | undefined; // of the last connection
  #isRunning = false;
  #isSoon = false;
  #isUnsaved = false;
  #handled: number[] = [];
  readonly #pushes: Push[] = [];
  #isHandling = false;
  #wake: (() => void)[] = [];

  constructor(options: Options) {
    const { address, product, device } = options;
    this.#addresses = typeof address === "string" ? [address] : [...address];
    if (this.#addresses.length === 0) throw new RangeError("a client needs an address");
    checkName("product", product, 32);
    checkName("device", device, 64);
    for (const tag of options.tags ?? []) checkName("a tag", tag, 64);
    this.#options = options;
    this.#clock = options.clock ?? realClock;
    this.#store = options.store ?? new MemoryStore();
    const { secret, keyId, token, certificate, tags, maxInflight, pulls } = options;
    const proof = checked({ secret, keyId, token, certificate });
    this.#credentials = options.credentials ?? (() => proof);
    this.#machine = new Machine({
      addresses: this.#addresses, product, device, tags, maxInflight, pulls,
      random: options.random ?? Math.random,
      randomBytes: options.randomBytes ?? randomBytes,
      heartbeat: options.heartbeat ?? { shortest: 30, first: 120, longest: 1_800 },
      heartbeatWish: options.heartbeatWish ?? 0,
      backoffFirstMs: options.backoffFirstMs ?? 1_000,
      backoffLongestMs: options.backoffLongestMs ?? 60_000,
      frameBytesMax: options.frameBytesMax ?? 1 << 20,
    }, this.#load());
  }

  /** The state it is in. */
  get state(): State {
    return this.#state;
  }

  // -- life

  /** Begins to connect, and stays connected until `close`. */
  start(): void {
    this.#machine.start(this.#clock.now());
    this.#run();
  }

  /** Resolves with a session. Rejects with Ended if the server refuses the device for good. */
  async bound(): Promise<void> {
    while (this.#state.name !== "bound") {
      this.#throwIfEnded();
      await this.#change();
    }
  }

  /** Says goodbye to the server and ends. The session, the pushes that the server holds and the
   *  Reports stay for the next start. */
  async close(): Promise<void> {
    this.#machine.close(this.#clock.now());
    this.#run();
    while (this.#state.name !== "ended") await this.#change();
  }

  /** Drops the connection without a word, as the end of the process does. */
  abandon(): void {
    this.#isRunning = true; // nothing is done any more
    this.#timer?.cancel();
    this.#connection?.close();
    this.#connection = null;
  }

  /** Call it when the network changed or the device woke up: the client finds out at once whether
   *  it is connected, or connects without waiting. */
  nudge(): void {
    this.#machine.nudge(this.#clock.now());
    this.#run();
  }

  /** The device is in this network now, say `wifi:home`: its heartbeat is remembered by it. */
  network(name: string): void {
    this.#machine.network(this.#clock.now(), name);
    this.#run();
  }

  // -- pushes

  /** Pushes, until the client is closed; throws Ended if the server ends it. Unless `manual`,
   *  asking for the next one acknowledges the one before: the body of the loop is done with it. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Push, void, void> {
    for (;;) {
      const push = this.#pushes.shift();
      if (push !== undefined) {
        yield push;
        if (!this.#options.manual) push.acknowledge();
      } else if (this.#state.name === "ended" && this.#state.why === "closed") {
        return;
      } else {
        this.#throwIfEnded();
        await this.#change();
      }
    }
  }

  /** With `pulls`: asks for stored pushes; false without a session. */
  pull(count = 32): boolean {
    const isAsked = this.#machine.pull(this.#clock.now(), count);
    this.#run();
    return isAsked;
  }

  // -- reports

  /** Queues a Report and returns its client id. Throws QueueFull. Connections and restarts do not
   *  matter, if the store outlives them; a client id that is still queued is not queued twice. */
  report(payload: Uint8Array | string, clientId?: string): string {
    const bytes = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
    const name = this.#machine.report(this.#clock.now(), bytes, clientId);
    this.#run();
    return name;
  }

  /** Reports that the user opened a push: a Report, with a client id of its own, so that it is
   *  queued once. Throws QueueFull. */
  opened(id: bigint): string {
    return this.#reportPush(1, "opened", id);
  }

  /** Reports that the user dismissed a push, likewise. */
  dismissed(id: bigint): string {
    return this.#reportPush(2, "dismissed", id);
  }

  /** The form of MIOP 5.10. */
  #reportPush(what: number, word: string, id: bigint): string {
    const body = new Uint8Array(15);
    body.set([0, 0x6d, 0x69, 0x6f, 0x70, 0, what]);
    new DataView(body.buffer).setBigUint64(7, id);
    return this.report(body, `${word}-${id}`);
  }

  get reportsWaiting(): number {
    return this.#machine.reports.size;
  }

  // -- the machine's actions

  /** At the end of this turn, so that acknowledgements share a frame. */
  #runSoon(): void {
    if (this.#isRunning || this.#isSoon) return;
    this.#isSoon = true;
    queueMicrotask(() => {
      this.#isSoon = false;
      this.#run();
    });
  }

  /** Does what the machine says, until it says nothing more. */
  #run(): void {
    if (this.#isRunning) return; // called by a handler: the loop below sees what it did
    this.#isRunning = true;
    for (;;) {
      const now = this.#clock.now();
      const actions = this.#machine.take(now);
      for (const action of actions) this.#do(action);
      if (actions.length > 0) continue;
      const due = this.#machine.due();
      if (due === null || due > now) break;
      this.#machine.tick(now);
    }
    const handled = this.#handled;
    this.#handled = [];
    for (const opcode of handled) this.#tell(this.#options.onFrame, opcode);
    this.#isRunning = false;
    if (this.#isUnsaved) this.#machine.notSaved();
    this.#arm();
  }

  #do(action: Action): void {
    switch (action.do) {
      case "send":
        // An acknowledgement says that the id was stored.
        if (this.#isUnsaved && action.bytes[3] === Opcode.msgAck) return;
        return this.#connection?.send(action.bytes);
      case "save":
        this.#isUnsaved = true;
        return this.#tell((state) => {
          this.#store.save(JSON.stringify(state));
          this.#isUnsaved = false;
        }, action.state);
      case "push":
        return this.#handOut(action.record);
      case "connect":
        this.#fault = undefined;
        return this.#connect(action.address);
      case "disconnect":
        this.#connection?.close();
        this.#connection = null;
        return;
      case "state": {
        const { state } = action;
        const isFault = state.name === "waiting" && this.#fault !== undefined;
        this.#state = isFault ? { ...state, detail: this.#fault! } : state;
        this.#tell(this.#options.onState, this.#state);
        return this.#changed();
      }
      case "stored":
        return this.#tell(this.#options.onStored, action.clientId);
      case "pulled":
        return this.#tell(this.#options.onPulled, action.remaining);
      case "handled":
        this.#handled.push(action.opcode);
    }
  }

  #handOut(record: PushRecord): void {
    const push = new Push(record, (isGood) => {
      if (isGood) this.#machine.acknowledge(record.id);
      else this.#machine.reject(record.id);
      this.#runSoon();
    });
    this.#pushes.push(push);
    if (this.#options.onPush === undefined) this.#changed();
    else if (!this.#isHandling) this.#handle(this.#options.onPush);
  }

  /** Handles pushes one after the other. A handler that returns no promise is done at once. */
  #handle(handler: (push: Push) => void | Promise<void>): void {
    for (let push = this.#pushes.shift(); push !== undefined; push = this.#pushes.shift()) {
      const it = push;
      const good = (): void => {
        if (!this.#options.manual) it.acknowledge();
      };
      const bad = (error: unknown): void => {
        it.reject();
        this.#options.onError?.(error);
      };
      try {
        const result = handler(it);
        if (result instanceof Promise) {
          this.#isHandling = true;
          void result.then(good, bad).then(() => {
            this.#isHandling = false;
            this.#handle(handler);
          });
          return;
        }
        good();
      } catch (error) {
        bad(error);
      }
    }
  }

  #tell<T>(handler: ((what: T) => void) | undefined, what: T): void {
    try {
      handler?.(what);
    } catch (error) {
      this.#options.onError?.(error);
    }
  }

  /** Asks for the credentials, then connects. */
  #connect(address: string): void {
    const asking: Connection = { send() {}, close() {} };
    this.#connection = asking;
    const failed = (error: unknown): void => {
      this.#options.onError?.(error);
      if (this.#connection === asking) this.#lost("credentials_failed", String(error));
    };
    try {
      const proof = this.#credentials();
      if (!(proof instanceof Promise)) return this.#dial(address, checked(proof));
      proof.then((it) => {
        if (this.#connection === asking) this.#dial(address, checked(it));
      }).catch(failed);
    } catch (error) {
      queueMicrotask(() => failed(error)); // the machine's actions are not all done yet
    }
  }

  #lost(why: string, fault?: string): void {
    this.#connection = null;
    this.#fault = fault;
    this.#machine.lost(this.#clock.now(), why);
    this.#run();
  }

  #dial(address: string, proof: Credentials): void {
    const connector = this.#options.connector ?? webSocketConnector;
    const connection = connector(this.#reachable(address), {
      opened: (isSafe) => {
        if (this.#connection !== connection) return;
        if (proof.token !== undefined && !isSafe) {
          // A server that names another one cannot make the client show its token to a network.
          connection.close();
          return this.#lost("insecure", "a token is sent only over TLS");
        }
        this.#machine.connected(this.#clock.now(), this.#clock.wall(), proof);
        this.#run();
      },
      received: (bytes) => {
        if (this.#connection !== connection) return;
        this.#machine.received(this.#clock.now(), bytes);
        this.#run();
      },
      closed: (why, detail) => {
        if (this.#connection === connection) this.#lost(why, detail);
      },
    });
    this.#connection = connection;
  }

  /** A server names others as `ip:port`. With WebSocket that replaces the host of the URL; with TLS
   *  it cannot, for a browser would ask the address for a certificate of its own: the configured
   *  server is asked again. */
  #reachable(address: string): string {
    const configured = this.#addresses[0]!;
    if (address.includes("://") || !configured.includes("://")) return address;
    const url = new URL(configured);
    if (url.protocol === "ws:") url.host = address;
    return url.href;
  }

  #arm(): void {
    const due = this.#machine.due();
    if (this.#timer !== null) {
      if (this.#timer.due === due) return;
      this.#timer.cancel();
      this.#timer = null;
    }
    if (due === null) return;
    const cancel = this.#clock.at(due, () => {
      this.#timer = null;
      this.#machine.tick(this.#clock.now());
      this.#run();
    });
    this.#timer = { due, cancel };
  }

  // -- waiting

  #change(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  #changed(): void {
    const wake = this.#wake;
    this.#wake = [];
    for (const resolve of wake) resolve();
  }

  #throwIfEnded(): void {
    if (this.#state.name === "ended") throw new Ended(this.#state.why, this.#state.result);
  }

  #load(): Saved | null {
    try {
      const state = JSON.parse(this.#store.load() ?? "null") as Saved | null;
      return state?.v === 1 ? state : null;
    } catch (error) {
      this.#options.onError?.(error);
      return null;
    }
  }
}

function checked(proof: Credentials): Credentials {
  const { token } = proof;
  const length = typeof token === "string" ? new TextEncoder().encode(token).length : token?.length;
  if (length !== undefined && (length < 1 || length > TOKEN_BYTES_MAX)) {
    throw new RangeError(`a token has 1 to ${TOKEN_BYTES_MAX} bytes`);
  }
  return proof;
}

function randomBytes(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count));
}

function checkName(what: string, name: string, bytesMax: number): void {
  if (name.length > bytesMax || !NAME.test(name)) {
    const allowed = `1 to ${bytesMax} letters, digits and . _ - + : / =`;
    throw new RangeError(`${what} is ${allowed}, not ${JSON.stringify(name)}`);
  }
}
