/** What a client needs of the outside: connections, time, a place for its state. */

/** An open or opening connection. */
export interface Connection {
  send(bytes: Uint8Array<ArrayBuffer>): void;
  /** Ends it; bytes that were sent before still leave. No event follows. */
  close(): void;
}

/** What a connection says. Nothing follows `closed`. */
export interface ConnectionEvents {
  /** `isSafe`: others cannot read along, by TLS or since the server is on this machine. */
  opened(isSafe: boolean): void;
  received(bytes: Uint8Array): void;
  /** `why` is `connect_failed`, `pin_mismatch` or `lost`; `detail` the platform's words for it. */
  closed(why: string, detail?: string): void;
}

/** Opens a connection to an address. */
export type Connector = (address: string, events: ConnectionEvents) => Connection;

/** Time, milliseconds. */
export interface Clock {
  /** A clock that never goes back. */
  now(): number;
  /** Unix time. */
  wall(): number;
  /** Calls at a time of `now`; returns how to cancel it. */
  at(due: number, call: () => void): () => void;
}

/** Where a client keeps its state, a text. It contains the session's token: keep it secret. */
export interface Store {
  load(): string | null;
  save(text: string): void;
}

/** Forgets everything with the process: a push may then be handed out again after a restart. */
export class MemoryStore implements Store {
  constructor(public text: string | null = null) {}

  load(): string | null {
    return this.text;
  }

  save(text: string): void {
    this.text = text;
  }
}

/** A key of the page's `localStorage`. */
export class LocalStore implements Store {
  constructor(private readonly key = "holdline-miop") {}

  load(): string | null {
    return localStorage.getItem(this.key);
  }

  save(text: string): void {
    localStorage.setItem(this.key, text);
  }
}

// A timer above 2^31 - 1 ms would ring at once.
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Real time. */
export const realClock: Clock = {
  now: () => Math.floor(performance.now()),
  wall: () => Date.now(),
  at(due, call) {
    const wait = Math.min(Math.max(0, Math.ceil(due - performance.now())), TIMER_MS_MAX);
    const timer = setTimeout(call, wait);
    return () => clearTimeout(timer);
  },
};

/** The host is this machine. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, "").replace(/^::ffff:/, "");
  return name === "localhost" || name === "::1" || /^127(\.\d+){3}$/.test(name);
}

function isSafeUrl({ protocol, hostname }: URL): boolean {
  return protocol === "wss:" || isLoopback(hostname);
}

/** WebSockets of the platform: addresses are URLs. */
export const webSocketConnector: Connector = (address, events) => {
  let socket: WebSocket | null = null;
  let isOpen = false;
  const over = (why: string): void => {
    if (socket === null) return;
    socket = null;
    events.closed(why);
  };
  try {
    socket = new WebSocket(address, ["miop"]);
  } catch {
    // No URL that this page may open. The client hears of it when it has the connection.
    queueMicrotask(() => events.closed("connect_failed"));
    return { send() {}, close() {} };
  }
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    isOpen = true;
    if (socket !== null) events.opened(isSafeUrl(new URL(address)));
  };
  socket.onmessage = ({ data }) => {
    if (socket !== null && data instanceof ArrayBuffer) events.received(new Uint8Array(data));
  };
  socket.onclose = () => over(isOpen ? "lost" : "connect_failed");
  return {
    send(bytes) {
      if (socket?.readyState === WebSocket.OPEN) socket.send(bytes);
    },
    close() {
      const it = socket;
      socket = null;
      it?.close();
    },
  };
};
