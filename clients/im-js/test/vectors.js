// The golden vectors of crates/proto-im, which Google's protobuf library has written, and its
// schema. What is read here is read as tests/e2e/im and testkit::vector read it.

import { readFileSync } from "node:fs";

const PROTO_IM = new URL("../../../crates/proto-im/", import.meta.url);

const text = (path) => readFileSync(new URL(path, PROTO_IM), "utf8");

/** The vectors of a file, {key: text} each: a key that is repeated is joined by a space. */
export function vectors(name) {
  const found = [];
  for (const line of text(`vectors/${name}`).split("\n").map((it) => it.trim())) {
    if (line.startsWith("[")) found.push({ name: line.slice(1, -1) });
    else if (line !== "" && !line.startsWith("#")) {
      const at = line.indexOf("=");
      const [key, value] = [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      const vector = found.at(-1);
      vector[key] = key in vector ? `${vector[key]} ${value}` : value;
    }
  }
  return found;
}

/** Bytes that stand as pairs of hex digits and quoted text. */
export function octets(words) {
  const found = words.matchAll(/"([^"]*)"|([0-9a-f]{2})/g);
  const bytes = [...found].flatMap(([, quoted, pair]) =>
    pair === undefined ? [...new TextEncoder().encode(quoted)] : [parseInt(pair, 16)]);
  return Uint8Array.from(bytes);
}

/** The schema: {message: {field: {number, type, isMany}}}, and {enum value: number}. */
export function schema() {
  const [messages, values] = [{}, {}];
  let message;
  for (const line of text("schema/im.proto").split("\n").map((it) => it.trim())) {
    const opens = line.match(/^(message|enum) (\w+) \{/);
    if (opens) message = messages[opens[2]] = {};
    const field = line.match(/^(repeated )?(\w+) (\w+) = (\d+);/);
    if (field) message[field[3]] = { number: +field[4], type: field[2], isMany: !!field[1] };
    const value = line.match(/^([A-Z_]+) = (\d+);/);
    if (value) values[value[1]] = +value[2];
  }
  return { messages, values };
}

/** A message in the text format of Protocol Buffers, as a message of this table. */
export function textFormat(words, table, make) {
  const { values } = schema();
  const tokens = words.match(/"(?:\\.|[^"\\])*"|-?[\w.]+|[{}:]/g);
  const parse = (table) => {
    const made = make(table);
    while (tokens.length > 0 && tokens[0] !== "}") {
      const name = tokens.shift();
      const field = table[name];
      if (tokens[0] === ":") tokens.shift();
      let value;
      if (field.table !== undefined) {
        tokens.shift();
        value = parse(field.table);
        tokens.shift();
      } else {
        value = scalar(tokens.shift(), field.kind, values);
      }
      if (field.kind === "many" || field.kind === "strings") made[name].push(value);
      else made[name] = value;
    }
    return made;
  };
  return parse(table);
}

function scalar(token, kind, values) {
  if (kind === "bool") return token === "true";
  if (kind === "uint64" || kind === "fixed64") return BigInt(token);
  if (kind === "uint32" || kind === "sint32") return values[token] ?? Number(token);
  const bytes = unescaped(token.slice(1, -1));
  return kind === "bytes" ? bytes : new TextDecoder().decode(bytes);
}

function unescaped(quoted) {
  const named = { t: 9, n: 10, r: 13, '"': 34, "'": 39, "\\": 92 };
  const found = quoted.matchAll(/\\([0-7]{3})|\\(.)|([^\\])/gu);
  return Uint8Array.from([...found].flatMap(([, octal, letter, plain]) => {
    if (octal !== undefined) return [parseInt(octal, 8)];
    return letter !== undefined ? [named[letter]] : [...new TextEncoder().encode(plain)];
  }));
}
