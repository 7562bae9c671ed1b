/** The client in Node: TCP and TLS with pins, SOCKS5 and HTTP proxies, and a file for the state. */

import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as net from "node:net";
import * as tls from "node:tls";

import { Client as AnyClient, type Options as AnyOptions } from "./client.js";
import { type Connection, type ConnectionEvents, type Connector, type Store,
  isLoopback, webSocketConnector } from "./connection.js";
import { askProxy } from "./proxy.js";

export * from "./index.js";

/** How a client reaches servers over TCP. */
export interface TcpOptions {
  /** True for the system's authorities, or options of `tls.connect` (`ca`, `cert`, `key`). */
  readonly tls?: boolean | object;
  /** The name in the server's certificate, at every address. */
  readonly serverName?: string;
  /** The server's key must be one of these: `sha256/BASE64` of SubjectPublicKeyInfo. */
  readonly pins?: readonly string[];
  /** `socks5://user:password@host:port` or `http://…` (CONNECT). */
  readonly proxy?: string;
}

/** What a client is made with; addresses are `host:port` or WebSocket URLs. */
export interface Options extends AnyOptions, TcpOptions {}

/** A device. */
export class Client extends AnyClient {
  constructor(options: Options) {
    const tcp = tcpConnector(options);
    super({
      connector: (address, events) =>
        address.includes("://") ? webSocketConnector(address, events) : tcp(address, events),
      randomBytes, // Node 18 has no global `crypto`
      ...options,
    });
  }
}

const PIN = /^sha256\/[A-Za-z0-9+/]{43}=$/;

/** Opens TCP connections to `host:port`. */
export function tcpConnector(options: TcpOptions = {}): Connector {
  const pins = options.pins ?? [];
  const bad = pins.find((pin) => !PIN.test(pin));
  if (bad !== undefined) throw new RangeError(`a pin is sha256/BASE64, not ${bad}`);
  if (pins.length > 0 && !options.tls) throw new RangeError("pins need TLS");
  const proxy = options.proxy === undefined ? null : new URL(options.proxy);
  if (proxy !== null && !["socks5:", "http:"].includes(proxy.protocol)) {
    throw new RangeError("a proxy is socks5://… or http://…");
  }
  return (address, events) => new Tcp(address, events, options, proxy);
}

/** How long a connection that is closed may take to send what was written. */
const FAREWELL_MS = 5_000;

/** One connection, from the attempt to its end. */
class Tcp implements Connection {
  #socket: net.Socket | null = null;
  #isOpen = false;
  #isOver = false;

  constructor(
    address: string,
    private readonly events: ConnectionEvents,
    private readonly options: TcpOptions,
    private readonly proxy: URL | null,
  ) {
    const [, host = "", port = ""] = /^\[?(.*?)\]?:(\d+)$/.exec(address) ?? [];
    // The client must not hear of it before it has the connection.
    if (host === "" || Number(port) > 65_535) queueMicrotask(() => this.#over("connect_failed", `no address: ${address}`));
    else this.#connect(host, Number(port), proxy);
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

  #connect(host: string, port: number, proxy: URL | null): void {
    const first = proxy === null ? { host, port } : {
      host: proxy.hostname,
      port: Number(proxy.port) || (proxy.protocol === "socks5:" ? 1_080 : 8_080),
    };
    const socket = net.connect(first);
    socket.setNoDelay(true);
    this.#use(socket);
    socket.on("connect", () => {
      if (proxy === null) return this.#secure(socket, host);
      askProxy(socket, proxy, host, port, (isGood) => {
        if (isGood) this.#secure(socket, host);
        else socket.destroy(new Error("the proxy refused"));
      });
    });
  }

  /** From here on the end of this socket is the end of the connection. */
  #use(socket: net.Socket): void {
    this.#socket = socket;
    let fault = "closed by the other side";
    socket.on("error", (error) => fault = error.message || String(error)); // "close" follows
    socket.on("close", () => {
      if (this.#socket === socket) this.#over(this.#isOpen ? "lost" : "connect_failed", fault);
    });
  }

  #secure(socket: net.Socket, host: string): void {
    if (this.#isOver) return socket.destroy();
    if (!this.options.tls) return this.#opened(socket);
    const name = this.options.serverName ?? host;
    const more = this.options.tls === true ? {} : this.options.tls;
    const server = net.isIP(name) ? {} : { servername: name };
    const secure = tls.connect(
      { ALPNProtocols: ["miop/7"], ...more, socket, ...server, host: name });
    this.#use(secure);
    secure.on("secureConnect", () => {
      if (this.#isPinned(secure)) return this.#opened(secure);
      this.#over("pin_mismatch", "the server's key is not pinned");
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
      if (!this.#isOver) this.events.received(data);
    });
    socket.on("end", () => this.#over("lost"));
    const isNear = this.proxy === null && isLoopback(socket.remoteAddress ?? "");
    this.events.opened(Boolean(this.options.tls) || isNear);
  }

  #over(why: string, detail?: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.events.closed(why, detail);
  }
}

/** A file that only its owner reads. Each save replaces it whole, so that a crash leaves the state
 *  before or after; it is on the disk when `save` returns, unless `sync` is false. */
export class FileStore implements Store {
  constructor(private readonly path: string, private readonly sync = true) {}

  load(): string | null {
    try {
      return fs.readFileSync(this.path, "utf8");
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return null;
      throw error;
    }
  }

  save(text: string): void {
    const fresh = `${this.path}.new`;
    const descriptor = fs.openSync(fresh, "w", 0o600);
    try {
      fs.writeSync(descriptor, text);
      if (this.sync) fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
    fs.renameSync(fresh, this.path);
  }
}
