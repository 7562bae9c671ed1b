/**
 * The client in Node: besides WebSockets TCP (`im://host:port`) and TLS (`ims://host:port`) with
 * pins, SOCKS5 and HTTP proxies, and a file as its storage.
 */

import { createHash, webcrypto } from "node:crypto";
import * as fs from "node:fs";
import * as net from "node:net";
import * as tls from "node:tls";

import { Client as AnyClient } from "./client.js";
import type { ClientOptions, WebSocketLike } from "./options.js";
import { askProxy } from "./proxy.js";
import type { StorageLike } from "./storage.js";
import { ImError } from "./words.js";

export * from "./index.js";

// Node 18 has no WebCrypto by itself.
if (globalThis.crypto === undefined) {
  Object.defineProperty(globalThis, "crypto", { value: webcrypto });
}

/** How a client reaches servers over TCP. */
export interface TcpOptions {
  /** Options of `tls.connect` (`ca`, `cert`, `key`) for `ims:` URLs. */
  readonly tls?: object;
  /** The name in the server's certificate, at every address. */
  readonly serverName?: string;
  /** The server's key must be one of these: `sha256/BASE64` of SubjectPublicKeyInfo. */
  readonly pins?: readonly string[];
  /** `socks5://user:password@host:port` or `http://…` (CONNECT). */
  readonly proxy?: string;
}

/** A device of an account. */
export class Client extends AnyClient {
  constructor(options: ClientOptions & TcpOptions) {
    const isRelayed = options.proxy !== undefined;
    super({ webSocket: socketClass(options), isRelayed, ...options });
  }
}

const PIN = /^sha256\/[A-Za-z0-9+/]{43}=$/;
const TCP = ["im:", "ims:"];

/** What opens `im:` and `ims:` URLs by itself, and others with the platform's WebSocket. */
export function socketClass(
  options: TcpOptions = {},
): new (url: string, protocols: string[]) => WebSocketLike {
  const pins = options.pins ?? [];
  const bad = pins.find((pin) => !PIN.test(pin));
  if (bad !== undefined) throw new RangeError(`a pin is sha256/BASE64, not ${bad}`);
  const proxy = options.proxy === undefined ? null : new URL(options.proxy);
  if (proxy !== null && !["socks5:", "http:"].includes(proxy.protocol)) {
    throw new RangeError("a proxy is socks5://… or http://…");
  }
  const open = (url: string, protocols: string[]): WebSocketLike => {
    const { protocol } = new URL(url);
    if (TCP.includes(protocol)) return new Tcp(new URL(url), options, proxy);
    if (proxy !== null || pins.length > 0) throw new RangeError("pins and proxies need im: or ims:");
    return new globalThis.WebSocket(url, protocols);
  };
  return function (url: string, protocols: string[]) {
    return open(url, protocols);
  } as unknown as new (url: string, protocols: string[]) => WebSocketLike;
}

/** How long a connection that is closed may take to send what was written. */
const FAREWELL_MS = 5_000;

/** A TCP connection with the calls of a WebSocket. */
class Tcp implements WebSocketLike {
  binaryType = "arraybuffer";
  onopen: ((event: never) => unknown) | null = null;
  onmessage: ((event: never) => unknown) | null = null;
  onclose: ((event: never) => unknown) | null = null;
  onerror: ((event: never) => unknown) | null = null;
  #socket: net.Socket | null = null;
  #isOpen = false;
  #isOver = false;

  constructor(url: URL, private readonly options: TcpOptions, proxy: URL | null) {
    const isSecure = url.protocol === "ims:";
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const port = Number(url.port) || (isSecure ? 7_006 : 7_005);
    const first = proxy === null ? { host, port } : {
      host: proxy.hostname,
      port: Number(proxy.port) || (proxy.protocol === "socks5:" ? 1_080 : 8_080),
    };
    const socket = net.connect(first);
    socket.setNoDelay(true);
    this.#use(socket);
    const reached = (): void => isSecure ? this.#secure(socket, host) : this.#opened(socket);
    socket.on("connect", () => {
      if (proxy === null) return reached();
      askProxy(socket, proxy, host, port, (isGood) =>
        isGood ? reached() : socket.destroy(new Error("the proxy refused")));
    });
  }

  send(bytes: Uint8Array<ArrayBuffer>): void {
    this.#socket?.write(bytes);
  }

  close(): void {
    this.#isOver = true;
    // Before it is open there is nothing to send; afterwards what was written still leaves.
    const socket = this.#socket;
    if (!this.#isOpen) socket?.destroy();
    else {
      socket?.end();
      // A network that is dead never takes it, and the system would try for a quarter of an hour.
      const timer: unknown = setTimeout(() => socket?.destroy(), FAREWELL_MS);
      (timer as { unref(): void }).unref(); // it does not keep the process alive
    }
  }

  /** From here on the end of this socket is the end of the connection. */
  #use(socket: net.Socket): void {
    this.#socket = socket;
    let fault = "closed by the other side";
    socket.on("error", (error) => fault = error.message || String(error)); // "close" follows
    socket.on("close", () => {
      if (this.#socket !== socket) return;
      this.#over(this.#isOpen ? undefined : new ImError("unreachable", fault));
    });
  }

  #secure(socket: net.Socket, host: string): void {
    if (this.#isOver) return socket.destroy();
    const name = this.options.serverName ?? host;
    const server = net.isIP(name) ? {} : { servername: name };
    const secure = tls.connect({
      ALPNProtocols: ["holdline-im/1"], ...this.options.tls, socket, ...server, host: name,
    });
    this.#use(secure);
    secure.on("secureConnect", () => {
      if (this.#isPinned(secure)) return this.#opened(secure);
      this.#over(new ImError("pin_mismatch"));
      secure.destroy();
    });
  }

  #isPinned(socket: tls.TLSSocket): boolean {
    const { pins = [] } = this.options;
    if (pins.length === 0) return true;
    const key = socket.getPeerX509Certificate()?.publicKey.export({ type: "spki", format: "der" });
    if (key === undefined) return false;
    return pins.includes(`sha256/${createHash("sha256").update(key).digest("base64")}`);
  }

  #opened(socket: net.Socket): void {
    if (this.#isOver) return socket.destroy();
    this.#isOpen = true;
    socket.on("data", (data) => {
      if (!this.#isOver) this.onmessage?.({ data: new Uint8Array(data).buffer } as never);
    });
    socket.on("end", () => this.#over());
    this.onopen?.({} as never);
  }

  #over(error?: ImError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.onclose?.({ error } as never);
  }
}

/** A JSON file that only its owner reads. Each change replaces it whole, so that a crash leaves the
 *  state before or after; it is on the disk when the call returns, unless `sync` is false. */
export class FileStorage implements StorageLike {
  readonly #items: Map<string, string>;

  constructor(private readonly path: string, private readonly sync = true) {
    this.#items = new Map(Object.entries(this.#load()));
  }

  getItem(key: string): string | null {
    return this.#items.get(key) ?? null;
  }

  setItem(key: string, value: string): void {
    this.#items.set(key, value);
    this.#save();
  }

  removeItem(key: string): void {
    if (this.#items.delete(key)) this.#save();
  }

  #load(): Record<string, string> {
    try {
      return JSON.parse(fs.readFileSync(this.path, "utf8"));
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return {};
      throw error;
    }
  }

  #save(): void {
    const fresh = `${this.path}.new`;
    const descriptor = fs.openSync(fresh, "w", 0o600);
    try {
      fs.writeSync(descriptor, JSON.stringify(Object.fromEntries(this.#items)));
      if (this.sync) fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
    fs.renameSync(fresh, this.path);
  }
}
