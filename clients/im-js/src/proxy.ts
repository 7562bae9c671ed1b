/** Asks a proxy for a connection: SOCKS5 (RFC 1928, 1929) and HTTP CONNECT (RFC 9110 9.3.6). */

import type { Socket } from "node:net";

const HEAD_BYTES_MAX = 16_384;

/** What the proxy answers step by step: returns how many bytes were taken, 0 for "more", or -1 for
 *  "no". The conversation is over when `step` is the last one. */
interface Conversation {
  readonly first: Uint8Array | string;
  /** Takes the front of what came; says what to send next. */
  take(bytes: Uint8Array): { taken: number; send?: Uint8Array; isDone?: boolean } | null;
}

/** Talks to the proxy at an open socket; `done` is called once, with whether it agreed. */
export function askProxy(
  socket: Socket, proxy: URL, host: string, port: number, done: (isGood: boolean) => void,
): void {
  const login = proxy.username === "" ? null :
    [decodeURIComponent(proxy.username), decodeURIComponent(proxy.password)] as const;
  const talk = proxy.protocol === "socks5:" ? socks5(host, port, login) : http(host, port, login);
  let buffer: Uint8Array = new Uint8Array(0);
  const end = (isGood: boolean): void => {
    socket.removeAllListeners("data");
    socket.pause();
    // Bytes behind the proxy's answer are the server's.
    if (buffer.length > 0) socket.unshift(buffer);
    done(isGood);
    if (isGood) socket.resume();
  };
  socket.on("data", (data) => {
    buffer = concat([buffer, data]);
    try {
      for (;;) {
        const next = talk.take(buffer);
        if (next === null) return;
        buffer = buffer.subarray(next.taken);
        if (next.send !== undefined) socket.write(next.send);
        if (next.isDone) return end(true);
      }
    } catch {
      end(false);
    }
  });
  socket.write(talk.first);
}

type Login = readonly [user: string, password: string] | null;

class Refused extends Error {}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function block(text: string): Uint8Array {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > 255) throw new Refused();
  return concat([Uint8Array.of(bytes.length), bytes]);
}

function socks5(host: string, port: number, login: Login): Conversation {
  const method = login === null ? 0 : 2;
  // The proxy resolves the name.
  const connect = (): Uint8Array =>
    concat([Uint8Array.of(5, 1, 0, 3), block(host), Uint8Array.of(port >> 8, port & 0xff)]);
  let step: "method" | "login" | "answer" = "method";
  return {
    first: Uint8Array.of(5, 1, method),
    take(bytes) {
      if (step === "answer") return answered(bytes);
      if (bytes.length < 2) return null;
      if (step === "method") {
        if (bytes[0] !== 5 || bytes[1] !== method) throw new Refused();
        step = login === null ? "answer" : "login";
        const send = login === null ? connect() :
          concat([Uint8Array.of(1), block(login[0]), block(login[1])]);
        return { taken: 2, send };
      }
      if (bytes[1] !== 0) throw new Refused();
      step = "answer";
      return { taken: 2, send: connect() };
    },
  };
}

function answered(bytes: Uint8Array): { taken: number; isDone: true } | null {
  if (bytes.length < 5) return null;
  if (bytes[1] !== 0) throw new Refused();
  const address = bytes[3] === 1 ? 4 : bytes[3] === 4 ? 16 : 1 + bytes[4]!;
  const taken = 4 + address + 2;
  return bytes.length < taken ? null : { taken, isDone: true };
}

function http(host: string, port: number, login: Login): Conversation {
  const target = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  const user = login === null ? "" : btoa(String.fromCharCode(
    ...new TextEncoder().encode(login.join(":"))));
  const header = login === null ? "" : `Proxy-Authorization: Basic ${user}\r\n`;
  return {
    first: `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${header}\r\n`,
    take(bytes) {
      const text = String.fromCharCode(...bytes.subarray(0, HEAD_BYTES_MAX));
      const end = text.indexOf("\r\n\r\n");
      if (end < 0 && bytes.length < HEAD_BYTES_MAX) return null;
      if (end < 0 || !/^HTTP\/1\.[01] 2\d\d/.test(text)) throw new Refused();
      return { taken: end + 4, isDone: true };
    },
  };
}
