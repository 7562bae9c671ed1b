/** What this library uses of Node, so that compiling it needs nothing but the compiler. */

declare module "node:net" {
  export interface Socket {
    write(data: Uint8Array | string): boolean;
    end(): void;
    destroy(error?: Error): void;
    setNoDelay(on: boolean): void;
    pause(): void;
    resume(): void;
    unshift(data: Uint8Array): void;
    on(event: "connect" | "secureConnect" | "end" | "close", call: () => void): this;
    on(event: "data", call: (data: Uint8Array) => void): this;
    on(event: "error", call: (error: Error) => void): this;
    removeAllListeners(event: string): void;
  }
  export function connect(options: { host: string; port: number }): Socket;
  export function isIP(host: string): number;
}

declare module "node:tls" {
  import type { Socket } from "node:net";
  export interface TLSSocket extends Socket {
    getPeerX509Certificate(): { publicKey: { export(how: object): Uint8Array } } | undefined;
  }
  export function connect(options: object): TLSSocket;
}

declare module "node:crypto" {
  export const webcrypto: Crypto;
  export function createHash(name: string): {
    update(data: Uint8Array): { digest(encoding: "base64"): string };
  };
}

declare module "node:fs" {
  export function readFileSync(path: string, encoding: "utf8"): string;
  export function openSync(path: string, flags: string, mode: number): number;
  export function writeSync(descriptor: number, text: string): void;
  export function fsyncSync(descriptor: number): void;
  export function closeSync(descriptor: number): void;
  export function renameSync(from: string, to: string): void;
}
