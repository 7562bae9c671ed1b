// Frames, held against the vectors and the schema of crates/proto-im.

import assert from "node:assert/strict";
import test from "node:test";
import {
  CLIENT_FRAME, clientFrame, Deframer, framed, readServerFrame, SERVER_FRAME,
} from "../dist/frames.js";
import { message, read, readMember, WireFault, write } from "../dist/wire.js";
import { octets, schema, textFormat, vectors } from "./vectors.js";

const FRAMES = vectors("2-frames.txt");
const MALFORMED = vectors("1-malformed.txt");
/** Words of a server's machine, not of a reader of frames. */
const NOT_OF_A_READER = ["preface", "unknown_version", "out_of_order"];

/** The one body in the bytes of a whole frame. */
function bodyOf(bytes) {
  const bodies = new Deframer(500_000).push(bytes);
  assert.equal(bodies.length, 1);
  return bodies[0];
}

test("every vector is read from its bytes and written as the same bytes", () => {
  assert.ok(FRAMES.length > 50);
  for (const { name, side, text, bytes } of FRAMES) {
    const table = side === "client" ? CLIENT_FRAME : SERVER_FRAME;
    const expected = textFormat(text, table, message);
    const body = bodyOf(octets(bytes));
    assert.deepEqual(read(table, body), expected, name);
    assert.deepEqual(framed(write(table, expected)), octets(bytes), name);
  }
});

test("a server's frame is read as its one answer, a client's written from its one request", () => {
  for (const { name, side, text, bytes } of FRAMES) {
    if (side === "server") {
      const { kind, fields } = readServerFrame(bodyOf(octets(bytes)));
      assert.deepEqual(fields, textFormat(text, SERVER_FRAME, message)[kind], name);
    } else {
      const given = textFormat(text, CLIENT_FRAME, message);
      const [kind, fields] = Object.entries(given).find(([, it]) => it !== undefined);
      assert.deepEqual(clientFrame(kind, fields), octets(bytes), name);
    }
  }
});

test("malformed frames throw their word", () => {
  const tried = MALFORMED.filter(({ word }) => !NOT_OF_A_READER.includes(word));
  assert.ok(tried.length > 20);
  for (const { name, bytes, word, limit } of tried) {
    const take = () => {
      const bodies = new Deframer(Number(limit ?? 133_120)).push(octets(bytes));
      const found = bodies.map((body) => readMember(CLIENT_FRAME, body));
      // What a server takes for a fault, a client skips (IM 2.3).
      if (found.length === 1 && found[0] === undefined) throw new WireFault("no_request");
    };
    assert.throws(take, (fault) => fault instanceof WireFault && fault.word === word, name);
  }
});

test("the tables are those of the schema", () => {
  const { messages } = schema();
  const scalars = ["uint32", "sint32", "uint64", "fixed64", "bool", "string", "bytes"];
  const compare = (name, table) => {
    assert.deepEqual(Object.keys(table).sort(), Object.keys(messages[name]).sort(), name);
    for (const [field, { number, kind, table: inner }] of Object.entries(table)) {
      const told = messages[name][field];
      assert.equal(number, told.number, `${name}.${field}`);
      if (inner !== undefined) {
        assert.equal(kind, told.isMany ? "many" : "one", `${name}.${field}`);
        compare(told.type, inner);
      } else {
        // An enum travels as a number of 32 bits.
        const single = scalars.includes(told.type) ? told.type : "uint32";
        const expected = told.isMany ? `${single}s` : single;
        assert.equal(kind, expected, `${name}.${field}`);
      }
    }
  };
  compare("ClientFrame", CLIENT_FRAME);
  compare("ServerFrame", SERVER_FRAME);
});

test("a stream is cut into the same frames wherever it was split", () => {
  const whole = FRAMES.filter(({ side }) => side === "server").map(({ bytes }) => octets(bytes));
  const stream = Uint8Array.from(whole.flatMap((bytes) => [...bytes]));
  const expected = whole.map(bodyOf);
  for (const step of [1, 2, 3, 7, 64, stream.length]) {
    const deframer = new Deframer(400);
    const bodies = [];
    for (let at = 0; at < stream.length; at += step) {
      bodies.push(...deframer.push(stream.subarray(at, at + step)).map((body) => body.slice()));
    }
    assert.deepEqual(bodies, expected, `${step} at a time`);
  }
});

test("what is not known is skipped, and of several answers the last one counts", () => {
  const later = octets('a2 06 03 "new"');
  assert.equal(readServerFrame(later), undefined);
  const both = Uint8Array.from([...later, 0x5a, 0, 0x3a, 2, 0x08, 0x0e, ...later]);
  assert.deepEqual(readServerFrame(both), { kind: "notify", fields: { head: 14n } });
});

test("a text keeps its first mark and its planes", () => {
  const text = "\ufeffgrüß 👋 \u0000";
  const table = { text: CLIENT_FRAME.send.table.to };
  assert.deepEqual(read(table, write(table, { text })), { text });
});

test("mutated bytes are read, or throw a fault of the wire", () => {
  let seed = 7;
  const random = (below) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  const all = FRAMES.map(({ bytes }) => octets(bytes));
  for (let round = 0; round < 5_000; round++) {
    const bytes = all[random(all.length)].slice();
    for (let n = random(3); n >= 0; n--) bytes[random(bytes.length)] = random(256);
    const cut = bytes.subarray(0, bytes.length - random(3));
    try {
      for (const body of new Deframer(400_000).push(cut)) {
        readMember(SERVER_FRAME, body);
        readMember(CLIENT_FRAME, body);
      }
    } catch (fault) {
      assert.ok(fault instanceof WireFault, `${fault.stack} ${cut}`);
    }
  }
});
