/**
 * Frames of MIOP 7 (docs/wire/miop.md): bytes to values and back.
 *
 * It knows no state: which frame is allowed when, the machine decides. A fault has its name of
 * MIOP 9. Numbers of 64 bits are bigints.
 */

import { hmacSha256 } from "./sha256.js";

/** Opcodes (MIOP 3). */
export const Opcode = {
  ping: 0, pong: 1, bind: 2, msg: 3, msgAck: 4, unbind: 5, bindAck: 6, unbindAck: 7, report: 8,
  reportAck: 9, kick: 10, redirect: 11, challenge: 12, auth: 13, config: 14, pull: 15, goAway: 16,
  error: 17,
} as const;

/** The device fetches stored pushes with PULL. */
export const CAP_PULLS = 2;

const BODY = 0x01;
const SEQ = 0x02;
const ACK_REQ = 0x04;
const COMPRESSED_OR_MORE = 0x18;
const DUP = 0x20;
const MUST_UNDERSTAND = 0x80;
const PROPERTIES_BYTES_MAX = 8_192;
const VALUE_BYTES_MAX = 512;
const ADDRESSES_MAX = 4;
const ADDRESS_BYTES_MAX = 64;
const TAGS_MAX = 64;

/** The properties of a frame (MIOP 5.4). */
export interface Properties {
  device_id?: string;
  product_key?: string;
  client_ts?: bigint;
  heartbeat_wish?: number[];
  heartbeat?: number;
  client_nonce?: Uint8Array;
  server_nonce?: Uint8Array;
  auth_type?: number;
  key_id?: number;
  mac?: Uint8Array;
  token?: Uint8Array;
  resume_token?: Uint8Array;
  last_msg_id?: bigint;
  session_epoch?: bigint;
  result?: number;
  reason?: string;
  retry_after_ms?: number;
  addrs?: string[];
  caps?: number;
  max_frame?: number;
  max_inflight?: number;
  ack_timeout_ms?: number;
  offline_count?: number;
  server_time?: bigint;
  tags?: string[];
  count?: number;
  report_seq?: number;
}

type Name = keyof Properties;
type Kind = "number" | "text" | "bytes" | "wish";

/** Key, name, kind and width (0: any), in the order in which they are written. */
const PROPERTIES: readonly (readonly [number, Name, Kind, number])[] = [
  [1, "device_id", "text", 0], [2, "product_key", "text", 0], [3, "client_ts", "number", 8],
  [4, "heartbeat_wish", "wish", 6], [5, "heartbeat", "number", 2],
  [6, "client_nonce", "bytes", 16], [7, "server_nonce", "bytes", 16],
  [8, "auth_type", "number", 1], [9, "key_id", "number", 4], [10, "mac", "bytes", 32],
  [11, "token", "bytes", 0], [12, "resume_token", "bytes", 32], [13, "last_msg_id", "number", 8],
  [14, "session_epoch", "number", 8], [15, "result", "number", 1], [16, "reason", "text", 0],
  [17, "retry_after_ms", "number", 4], [19, "addrs", "text", 0], [20, "caps", "number", 4],
  [21, "max_frame", "number", 4], [22, "max_inflight", "number", 2],
  [23, "ack_timeout_ms", "number", 4], [27, "offline_count", "number", 4],
  [28, "server_time", "number", 8], [30, "tags", "text", 0], [31, "count", "number", 2],
  [33, "report_seq", "number", 4],
];
const BY_KEY = new Map(PROPERTIES.map((spec) => [spec[0], spec]));
const isList = (name: Name): name is "addrs" | "tags" => name === "addrs" || name === "tags";

const WORDS: Readonly<Record<number, string>> = {
  0: "bound", 1: "resumed", 10: "malformed", 11: "version", 12: "too_large", 20: "auth_failed",
  21: "clock_skew", 22: "replay", 23: "unknown_product", 24: "device_blocked", 30: "busy",
  31: "quota", 32: "draining", 33: "redirect", 40: "replaced", 41: "kicked",
  42: "heartbeat_timeout", 43: "slow_consumer", 44: "bind_timeout", 50: "internal",
};

/** The word of a result (MIOP 9). */
export function word(result: number): string {
  return WORDS[result] ?? `result_${result}`;
}

/** The server sent what it must not; `message` is a name of MIOP 9. */
export class Fault extends Error {}

/** A push in a MSG (MIOP 5.5). */
export interface PushRecord {
  readonly id: bigint;
  readonly appId: number;
  /** Show nothing. */
  readonly silent: boolean;
  /** It may have overtaken others. */
  readonly high: boolean;
  /** Unix second after which the push means nothing; 0: deliver now or never. */
  readonly expireAt: number;
  readonly collapse: Uint8Array;
  readonly body: Uint8Array;
}

/** A frame. Of a MSG the payload is in `records`; an unknown opcode is `skipped` unread. */
export interface Frame {
  opcode: number;
  properties: Properties;
  payload: Uint8Array;
  seq?: number;
  ackReq?: boolean;
  dup?: boolean;
  records?: PushRecord[];
  skipped?: boolean;
}

const NOTHING = new Uint8Array(0);

/** A frame of a device. */
export function frame(opcode: number, properties: Properties = {}, payload = NOTHING): Frame {
  return { opcode, properties, payload };
}

// ---- writing ------------------------------------------------------------------------------------

/** Joins arrays of bytes. */
export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** A number in so many bytes. */
export function bigEndian(value: number | bigint, width: number): Uint8Array {
  const out = new Uint8Array(width);
  let rest = BigInt(value);
  for (let at = width - 1; at >= 0; at--) {
    out[at] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return out;
}

function varint(value: number): Uint8Array {
  const out = [];
  while (value > 0x7f) {
    out.push((value & 0x7f) | 0x80);
    value >>>= 7;
  }
  out.push(value);
  return Uint8Array.from(out);
}

function encodeProperty(key: number, value: unknown, kind: Kind, width: number): Uint8Array {
  let bytes: Uint8Array;
  if (kind === "number") bytes = bigEndian(value as number | bigint, width);
  else if (kind === "text") bytes = new TextEncoder().encode(value as string);
  else if (kind === "wish") bytes = concat((value as number[]).map((it) => bigEndian(it, 2)));
  else bytes = value as Uint8Array;
  if (bytes.length > VALUE_BYTES_MAX) throw new RangeError(`property ${key} is too long`);
  return concat([Uint8Array.of(key), varint(bytes.length), bytes]);
}

/** The bytes of a frame of a device. */
export function encode(it: Frame): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  for (const [key, name, kind, width] of PROPERTIES) {
    const value = it.properties[name];
    if (value === undefined) continue;
    for (const one of isList(name) ? (value as string[]) : [value]) {
      parts.push(encodeProperty(key, one, kind, width));
    }
  }
  const block = concat(parts);
  if (it.seq === undefined && block.length === 0 && it.payload.length === 0) {
    return Uint8Array.of(0, 7, 0, it.opcode);
  }
  const seq = it.seq === undefined ? NOTHING : bigEndian(it.seq, 4);
  const body = concat([seq, varint(block.length), block, it.payload]);
  const flags = BODY | (it.seq === undefined ? 0 : SEQ);
  return concat([Uint8Array.of(0, 7, flags, it.opcode), bigEndian(body.length, 4), body]);
}

/** What a device signs. */
export interface Claim {
  secret: Uint8Array;
  product: string;
  device: string;
  clientTs: bigint;
  clientNonce: Uint8Array;
  caps: number;
}

/** The signature of a BIND, or of the answer to a challenge (MIOP 6.1). */
export function sign(claim: Claim, serverNonce: Uint8Array = NOTHING): Uint8Array {
  const text = new TextEncoder();
  const parts = [
    text.encode("MIOP7-BIND"), text.encode(claim.product), text.encode(claim.device),
    bigEndian(claim.clientTs, 8), claim.clientNonce, bigEndian(claim.caps, 4), NOTHING, serverNonce,
  ];
  const bytes = concat(parts.flatMap((part) => [bigEndian(part.length, 2), part]));
  return hmacSha256(claim.secret, bytes);
}

// ---- reading ------------------------------------------------------------------------------------

/** Reads numbers and blocks off the front of bytes; `fault` is what a short one is called. */
class Reader {
  #at = 0;

  constructor(readonly bytes: Uint8Array, readonly fault: string) {}

  get isEmpty(): boolean {
    return this.#at >= this.bytes.length;
  }

  take(count: number): Uint8Array {
    if (this.#at + count > this.bytes.length) throw new Fault(this.fault);
    this.#at += count;
    return this.bytes.subarray(this.#at - count, this.#at);
  }

  rest(): Uint8Array {
    return this.take(this.bytes.length - this.#at);
  }

  number(width: number): number {
    return this.take(width).reduce((sum, byte) => sum * 256 + byte, 0);
  }

  long(): bigint {
    return this.take(8).reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  }

  /** A varint in its shortest form, and so many bytes. */
  block(): Uint8Array {
    let length = 0;
    for (let width = 0; width < 5; width++) {
      const byte = this.number(1);
      if ((width > 0 && byte === 0) || (width === 4 && byte > 0x0f)) throw new Fault(this.fault);
      length += (byte & 0x7f) * 2 ** (7 * width);
      if (byte < 0x80) return this.take(length);
    }
    throw new Fault(this.fault);
  }
}

/** The frame at the front and its length; `null` if more bytes are needed. */
export function decode(bytes: Uint8Array, frameBytesMax: number): [Frame, number] | null {
  checkVersion(bytes);
  if (bytes.length < 4) return null;
  const flags = bytes[2]!;
  const opcode = bytes[3]!;
  if (flags & MUST_UNDERSTAND) throw new Fault("must_understand");
  if (flags & COMPRESSED_OR_MORE || (flags & (SEQ | BODY)) === SEQ) throw new Fault("bad_flags");
  const it = frame(opcode);
  if (flags & ACK_REQ) it.ackReq = true;
  if (flags & DUP) it.dup = true;
  if (opcode > Opcode.error) it.skipped = true;
  let end = 4;
  if (flags & BODY) {
    if (bytes.length < 8) return null;
    end = 8 + new Reader(bytes.subarray(4, 8), "bad_length").number(4);
    if (end > frameBytesMax) throw new Fault("too_large");
    if (bytes.length < end) return null;
    // A copy: what is handed to the application must not hold a whole buffer.
    if (!it.skipped) decodeBody(it, bytes.slice(8, end), (flags & SEQ) !== 0);
  }
  if (!it.skipped) checkContent(it);
  return [it, end];
}

function checkVersion(bytes: Uint8Array): void {
  const [high, low] = bytes;
  if (high !== undefined && high !== 0) throw new Fault("unknown_version");
  if (low === undefined || low === 7) return;
  if (low > 7) throw new Fault("newer_version");
  throw new Fault(low === 5 || low === 6 ? "version_changed" : "unknown_version");
}

function decodeBody(it: Frame, body: Uint8Array, hasSeq: boolean): void {
  const reader = new Reader(body, "bad_length");
  if (hasSeq) it.seq = reader.number(4);
  const block = reader.block();
  if (block.length > PROPERTIES_BYTES_MAX) throw new Fault("too_large");
  it.properties = decodeProperties(block);
  it.payload = reader.rest();
}

function decodeProperties(block: Uint8Array): Properties {
  const reader = new Reader(block, "bad_length");
  const properties: Record<string, unknown> = {};
  while (!reader.isEmpty) {
    const key = reader.number(1);
    const value = reader.block();
    if (value.length > VALUE_BYTES_MAX) throw new Fault("bad_property");
    const spec = BY_KEY.get(key);
    if (spec === undefined) {
      if (key >= 128) throw new Fault("critical_property");
      continue;
    }
    const [, name, kind, width] = spec;
    if (isList(name)) {
      const list = (properties[name] ??= []) as string[];
      list.push(decodeText(name, value, list.length));
    } else if (name in properties || (width > 0 && value.length !== width)) {
      throw new Fault("bad_property");
    } else {
      properties[name] = decodeValue(kind, value);
    }
  }
  return properties;
}

function decodeValue(kind: Kind, value: Uint8Array): unknown {
  const reader = new Reader(value, "bad_property");
  if (kind === "number") return value.length === 8 ? reader.long() : reader.number(value.length);
  if (kind === "wish") return [reader.number(2), reader.number(2), reader.number(2)];
  return kind === "text" ? new TextDecoder().decode(value) : value;
}

function decodeText(name: "addrs" | "tags", value: Uint8Array, count: number): string {
  if (name === "tags" && count === TAGS_MAX) throw new Fault("too_large");
  const isLong = value.length === 0 || value.length > ADDRESS_BYTES_MAX;
  if (name === "addrs" && (count === ADDRESSES_MAX || isLong)) throw new Fault("bad_property");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(value);
  } catch {
    throw new Fault("bad_property");
  }
}

/** What the specification demands of the frames that a device reads. What else a BIND_ACK that
 *  lets in must have, the machine checks. */
function checkContent(it: Frame): void {
  const { properties } = it;
  if (it.opcode === Opcode.msg) {
    it.records = decodeRecords(it.payload);
    it.payload = NOTHING;
  } else if (
    (it.opcode === Opcode.bindAck && properties.result === undefined) ||
    (it.opcode === Opcode.challenge && properties.server_nonce === undefined) ||
    (it.opcode === Opcode.reportAck && properties.report_seq === undefined)
  ) {
    throw new Fault("missing_property");
  }
}

function decodeRecords(payload: Uint8Array): PushRecord[] {
  const reader = new Reader(payload, "bad_record");
  const records: PushRecord[] = [];
  while (!reader.isEmpty) {
    const id = reader.long();
    const appId = reader.number(4);
    const flags = reader.number(1);
    const expireAt = reader.number(4);
    const collapse = reader.block();
    const body = reader.block();
    if (flags & 8) throw new Fault("bad_record");
    const silent = (flags & 2) !== 0;
    records.push({ id, appId, silent, high: (flags & 4) !== 0, expireAt, collapse, body });
  }
  if (records.length === 0) throw new Fault("empty_block");
  return records;
}
