/**
 * Protocol Buffers, as far as IM uses them (IM 2): a message is declared as a table of fields, and
 * read and written by that.
 *
 * Every 64-bit field is a `bigint` here, exact over its whole range. Fields that are not known are
 * skipped; of a field that stands there twice the last one counts. What is malformed throws a
 * {@link WireFault} with the word of IM 2.3, whatever the bytes are.
 */

/** Why bytes are no frame: the words of IM 2.3 that a reader can come to. */
export type FaultWord =
  | "length"
  | "too_large"
  | "truncated"
  | "varint"
  | "field_number"
  | "wire_type"
  | "range"
  | "text";

/** Bytes that break the rules of the format. */
export class WireFault extends Error {
  constructor(readonly word: FaultWord) {
    super(`malformed frame: ${word}`);
    this.name = "WireFault";
  }
}

/** A field of a message, of values of this type. */
export interface Field<T> {
  readonly number: number;
  readonly kind: Kind;
  readonly table?: Table;
  /** Phantom: the type of its values. */
  readonly of?: T;
}

type Kind = "uint32" | "sint32" | "uint64" | "fixed64" | "bool" | "string" | "bytes" | "strings"
  | "one" | "many";

/** The fields of a message, by their names. */
export type Table = Readonly<Record<string, Field<unknown>>>;

/** A message of a table. */
export type Fields<T extends Table> = {
  -readonly [K in keyof T]: T[K] extends Field<infer V> ? V : never;
};

export const uint32 = (number: number): Field<number> => ({ number, kind: "uint32" });
export const sint32 = (number: number): Field<number> => ({ number, kind: "sint32" });
export const uint64 = (number: number): Field<bigint> => ({ number, kind: "uint64" });
export const fixed64 = (number: number): Field<bigint> => ({ number, kind: "fixed64" });
export const bool = (number: number): Field<boolean> => ({ number, kind: "bool" });
export const string = (number: number): Field<string> => ({ number, kind: "string" });
export const strings = (number: number): Field<string[]> => ({ number, kind: "strings" });
export const bytes = (number: number): Field<Uint8Array> => ({ number, kind: "bytes" });
export const one = <T extends Table>(number: number, table: T): Field<Fields<T> | undefined> =>
  ({ number, kind: "one", table });
export const many = <T extends Table>(number: number, table: T): Field<Fields<T>[]> =>
  ({ number, kind: "many", table });

/** The largest number of a field: 29 bits. */
const FIELD_NUMBER_MAX = 0x1fffffffn;
const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

const WIRE_TYPES: Readonly<Record<Kind, number>> = {
  uint32: VARINT,
  sint32: VARINT,
  uint64: VARINT,
  bool: VARINT,
  fixed64: FIXED64,
  string: LENGTH,
  bytes: LENGTH,
  strings: LENGTH,
  one: LENGTH,
  many: LENGTH,
};

const UTF8 = new TextEncoder();
const TEXT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The bytes of a text. */
export const utf8 = (text: string): Uint8Array => UTF8.encode(text);

/** A message whose fields have their defaults where `given` has none. */
export function message<T extends Table>(table: T, given: Partial<Fields<T>> = {}): Fields<T> {
  const made: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(table)) made[name] = absent(field);
  return Object.assign(made, given) as Fields<T>;
}

function isRepeated({ kind }: Field<unknown>): boolean {
  return kind === "many" || kind === "strings";
}

function absent(field: Field<unknown>): unknown {
  switch (field.kind) {
    case "uint32":
    case "sint32":
      return 0;
    case "uint64":
    case "fixed64":
      return 0n;
    case "bool":
      return false;
    case "string":
      return "";
    case "bytes":
      return new Uint8Array();
    case "one":
      return undefined;
    case "strings":
    case "many":
      return [];
  }
}

// ---- reading

/** Bytes that are read from the front. */
class Cursor {
  #at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  get isAtEnd(): boolean {
    return this.#at === this.bytes.length;
  }

  take(length: number): Uint8Array {
    if (length > this.bytes.length - this.#at) throw new WireFault("truncated");
    const taken = this.bytes.subarray(this.#at, this.#at + length);
    this.#at += length;
    return taken;
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.take(1)[0]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) {
        if (value >> 64n !== 0n) throw new WireFault("varint");
        return value;
      }
    }
    throw new WireFault("varint");
  }

  fixed64(): bigint {
    const taken = this.take(8);
    return new DataView(taken.buffer, taken.byteOffset, 8).getBigUint64(0, true);
  }

  block(): Uint8Array {
    // Whatever is more than there is, is truncated, however much more.
    return this.take(Number(this.varint()));
  }

  tag(): { number: number; type: number } {
    const tag = this.varint();
    const number = tag >> 3n;
    if (number === 0n || number > FIELD_NUMBER_MAX) throw new WireFault("field_number");
    return { number: Number(number), type: Number(tag & 7n) };
  }

  skip(type: number): void {
    if (type === VARINT) this.varint();
    else if (type === FIXED64) this.take(8);
    else if (type === LENGTH) this.block();
    else if (type === FIXED32) this.take(4);
    else throw new WireFault("wire_type");
  }
}

/** Reads a message. */
export function read<T extends Table>(table: T, bytes: Uint8Array): Fields<T> {
  const found = message(table) as Record<string, unknown>;
  readEach(table, bytes, (name, field, value) => {
    if (isRepeated(field)) (found[name] as unknown[]).push(value);
    else found[name] = value;
  });
  return found as Fields<T>;
}

/** The member of a `oneof`, with its name: of several the last one, whole; of none, none. */
export type Member<T extends Table> = {
  [K in keyof T & string]: { kind: K; fields: NonNullable<Fields<T>[K]> };
}[keyof T & string];

/** Reads a message that is one `oneof` of messages. */
export function readMember<T extends Table>(table: T, bytes: Uint8Array): Member<T> | undefined {
  let found: { kind: string; fields: unknown } | undefined;
  readEach(table, bytes, (kind, _, fields) => {
    found = { kind, fields };
  });
  return found as Member<T> | undefined;
}

function readEach(
  table: Table,
  bytes: Uint8Array,
  take: (name: string, field: Field<unknown>, value: unknown) => void,
): void {
  const cursor = new Cursor(bytes);
  while (!cursor.isAtEnd) {
    const { number, type } = cursor.tag();
    const known = Object.entries(table).find(([, field]) => field.number === number);
    if (known === undefined) {
      cursor.skip(type);
      continue;
    }
    const [name, field] = known;
    if (type !== WIRE_TYPES[field.kind]) throw new WireFault("wire_type");
    take(name, field, readValue(field, cursor));
  }
}

function readValue(field: Field<unknown>, cursor: Cursor): unknown {
  switch (field.kind) {
    case "uint32": {
      const value = cursor.varint();
      if (value > 0xffffffffn) throw new WireFault("range");
      return Number(value);
    }
    case "sint32": {
      const value = cursor.varint();
      if (value > 0xffffffffn) throw new WireFault("range");
      // Zigzag: signs alternate.
      return Number((value & 1n) === 0n ? value >> 1n : -(value >> 1n) - 1n);
    }
    case "uint64":
      return cursor.varint();
    case "fixed64":
      return cursor.fixed64();
    case "bool":
      return cursor.varint() !== 0n;
    case "string":
    case "strings":
      try {
        return TEXT.decode(cursor.block());
      } catch (error) {
        throw error instanceof WireFault ? error : new WireFault("text");
      }
    case "bytes":
      return cursor.block().slice();
    case "one":
    case "many":
      return read(field.table!, cursor.block());
  }
}

// ---- writing

/** Writes a message: fields in the order of their table, those that have their default left out. */
export function write<T extends Table>(table: T, fields: Fields<T>): Uint8Array {
  const out: number[] = [];
  put(table, fields as Record<string, unknown>, out);
  return Uint8Array.from(out);
}

function put(table: Table, fields: Record<string, unknown>, out: number[]): void {
  for (const [name, field] of Object.entries(table)) {
    const value = fields[name];
    if (isRepeated(field)) (value as unknown[]).forEach((each) => putValue(field, each, out));
    else if (!isDefault(value)) putValue(field, value, out);
  }
}

function isDefault(value: unknown): boolean {
  const isEmpty = value instanceof Uint8Array && value.length === 0;
  return value === undefined || value === 0 || value === 0n || value === false || value === ""
    || isEmpty;
}

function putValue(field: Field<unknown>, value: unknown, out: number[]): void {
  putVarint(BigInt(field.number * 8 + WIRE_TYPES[field.kind]), out);
  switch (field.kind) {
    case "uint32":
      return putVarint(BigInt(value as number), out);
    case "sint32": {
      const signed = BigInt(value as number);
      return putVarint(signed < 0n ? -2n * signed - 1n : 2n * signed, out);
    }
    case "uint64":
      return putVarint(value as bigint, out);
    case "bool":
      return putVarint(1n, out);
    case "fixed64": {
      for (let at = 0n; at < 64n; at += 8n) out.push(Number(((value as bigint) >> at) & 0xffn));
      return;
    }
    case "string":
    case "strings":
      return putBlock(utf8(value as string), out);
    case "bytes":
      return putBlock(value as Uint8Array, out);
    case "one":
    case "many": {
      const inner: number[] = [];
      put(field.table!, value as Record<string, unknown>, inner);
      return putBlock(inner, out);
    }
  }
}

function putBlock(block: ArrayLike<number>, out: number[]): void {
  putVarint(BigInt(block.length), out);
  for (let at = 0; at < block.length; at++) out.push(block[at]!);
}

export function putVarint(value: bigint, out: number[]): void {
  let rest = value;
  while (rest >= 0x80n) {
    out.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  out.push(Number(rest));
}
