/** What a client is made with, and what follows from it. */

import type { LoginMethod } from "./actions.js";
import type { OnProgress, UploadRequestLike } from "./file.js";
import type { StorageLike } from "./storage.js";
import { ImError } from "./words.js";

/** A WebSocket, as far as it is needed: a browser's, or anything of that shape. */
export interface WebSocketLike {
  binaryType: string;
  onopen: ((event: never) => unknown) | null;
  onmessage: ((event: never) => unknown) | null;
  onclose: ((event: never) => unknown) | null;
  onerror: ((event: never) => unknown) | null;
  send(data: Uint8Array<ArrayBuffer>): void;
  close(): void;
}

/** What a client is made with. */
export interface ClientOptions {
  /** Where the server is, or servers: `wss://chat.example.org/im`. */
  readonly url: string | readonly string[];
  /** The account: `ann`, or `ann@example.org`. */
  readonly account: string;
  /** Its password. It is proved by SCRAM-SHA-256, which does not show it, where WebCrypto is. */
  readonly password?: string;
  /** A token instead, or what gives one: it is asked before each login. */
  readonly token?: string | (() => string | Promise<string>);
  /**
   * A token that {@link Client.requestToken} gave to this device, instead of the password. It is
   * proved and not shown. With one that is void the client ends with `bad_credentials`.
   */
  readonly loginToken?: string;
  /** The device's own name, the same each time. Without one it is drawn once and kept. */
  readonly device?: string;
  /** Where device, place and queue are kept. `localStorage`, or memory where there is none. */
  readonly storage?: StorageLike;
  /** The longest silence of the client, seconds; 0: the server's. 50: proxies wait for 60. */
  readonly silenceS?: number;
  /** Messages that may wait to be sent: 256. Beyond, `send` rejects with `queue_full`. */
  readonly queueMessagesMax?: number;
  /** Bytes of their texts and extras: 1 MiB. */
  readonly queueBytesMax?: number;
  /**
   * Conversations of {@link Client.list}, which is kept right while the client is connected; 0:
   * there is no list.
   */
  readonly listMax?: number;
  /**
   * Contacts are read and kept right, and presence with them: whoever may see the account sees
   * that it is online, unless `setPresence` says otherwise. Without it the client is
   * told nothing of people, and shown to nobody.
   */
  readonly people?: boolean;
  /** What makes a connection: the browser's `WebSocket`. */
  readonly webSocket?: new (url: string, protocols: string[]) => WebSocketLike;
  /** What puts files where the server says: the browser's `XMLHttpRequest`. */
  readonly uploadRequest?: new () => UploadRequestLike;
  /** The time in milliseconds, and timers: the browser's. */
  readonly clock?: Clock;
  /** From 0 up to 1: `Math.random`. */
  readonly random?: () => number;
  /** Connections go through a proxy: no address is of this machine. */
  readonly isRelayed?: boolean;
  /** Of tests: called after each frame that was handled, with the name of its answer. */
  readonly onFrame?: (answer: string) => void;
}

/** Throws a RangeError for a name that the server would refuse. */
export function checkName(what: string, name: string, bytesMax: number): void {
  const { length } = new TextEncoder().encode(name);
  if (length < 1 || length > bytesMax) {
    throw new RangeError(`${what} has 1 to ${bytesMax} bytes, not ${JSON.stringify(name)}`);
  }
}

/** The URLs of a client; throws a RangeError where there is none. */
export function urlsOf({ url }: ClientOptions): readonly string[] {
  const urls = typeof url === "string" ? [url] : [...url];
  if (urls.length === 0) throw new RangeError("a client needs a URL");
  return urls;
}

/** How a file is uploaded. */
export interface UploadOptions {
  /** What it is called; the name of a `File` by itself. */
  readonly name?: string;
  /** Its media type; that of the `Blob` by itself. */
  readonly type?: string;
  /** Called while it goes out. */
  readonly onProgress?: OnProgress;
  /** Gives it up: the upload rejects with `aborted`. */
  readonly signal?: AbortSignal;
}

/** Which part of a conversation. */
export interface HistoryOptions {
  /** What was said before this place, the newest of it. Without either: the end. */
  readonly before?: number;
  /** What was said behind this place, the oldest of it; 0 is the beginning. */
  readonly after?: number;
  /** The most that is wanted: 50. The server may give less, and says whether there is more. */
  readonly count?: number;
}

/** What is searched, and where to go on. */
export interface SearchOptions {
  /** Only the conversation with this one, or of this group. */
  readonly peer?: string;
  /** Only what this one has said. */
  readonly from?: string;
  /** Where a search before has ended. Without it: from the newest on. */
  readonly before?: number;
  /** The most that is wanted: 20. */
  readonly count?: number;
}

/** Which part of the list of conversations. */
export interface ConversationsOptions {
  /** Those before this `place`. Without it: the newest. */
  readonly before?: number;
  /** The most that is wanted: 50. The server may give less, and says whether there is more. */
  readonly count?: number;
}

/** What an order to a group has besides. */
export interface OrderOptions {
  /** Whom it concerns: `bob`, or `bob@example.org`. */
  readonly members?: readonly string[];
  /** Of `create` and `rename`. */
  readonly title?: string;
  /** 32 hex digits: whoever gives an order again by the same changes nothing twice. */
  readonly clientId?: string;
}

/** Time and timers. */
export interface Clock {
  /** Milliseconds since any moment; it never goes back. */
  now(): number;
  setTimeout(call: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
}

/** The browser's. */
export const BROWSER_CLOCK: Clock = {
  now: () => performance.now(),
  setTimeout: (call, ms) => setTimeout(call, ms),
  clearTimeout: (timer) => clearTimeout(timer as number),
};

/**
 * The ways to log in, the best one first. A password is shown to nobody but over wss, or to this
 * machine; it is proved where the page may use WebCrypto, which is where it came by https or from
 * this machine.
 */
export function loginMethods(options: ClientOptions): LoginMethod[] {
  const isSafe = areSafe(urlsOf(options), options);
  const isToken = options.token !== undefined || options.loginToken !== undefined;
  if (isToken && !isSafe) throw new ImError("insecure");
  if (options.loginToken !== undefined) return ["token"];
  if (options.token !== undefined) return ["plain"];
  if (options.password === undefined) return ["none"];
  const methods: LoginMethod[] = [];
  if (globalThis.crypto?.subtle !== undefined) methods.push("scram");
  if (isSafe) methods.push("plain");
  if (methods.length === 0) throw new ImError("insecure");
  return methods;
}

/** Nobody on the way reads what is sent there. */
export function areSafe(urls: readonly string[], { isRelayed = false }: ClientOptions): boolean {
  return urls.every((url) => isSafeUrl(new URL(url), isRelayed));
}

function isSafeUrl({ protocol, hostname }: URL, isRelayed: boolean): boolean {
  const isNear = hostname === "localhost" || hostname.endsWith(".localhost")
    || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
  return protocol === "wss:" || protocol === "ims:" || (isNear && !isRelayed);
}
