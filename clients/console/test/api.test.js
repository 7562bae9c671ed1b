// How a stream of events is read.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Refused, stream } from '../api.js';

/** An answer whose body comes in these pieces. @param {Uint8Array[]} pieces */
const answer = pieces => new Response(new ReadableStream({
  start(controller) {
    pieces.forEach(piece => controller.enqueue(piece));
    controller.close();
  },
}), { status: 200 });

test('events are told whole, however they are cut', async () => {
  const text = ': quiet\n\nevent: trace\ndata: {"kind":"ü"}\n\nevent: other\ndata: {}\n\nevent: over\ndata: {"reason":"time"}\n\n';
  const bytes = new TextEncoder().encode(text);
  for (const length of [1, 7, bytes.length]) {
    const pieces = [];
    for (let at = 0; at < bytes.length; at += length) pieces.push(bytes.slice(at, at + length));
    globalThis.fetch = async () => answer(pieces);
    /** @type {any[]} */
    const heard = [];
    const hear = (/** @type {any} */ told) => heard.push(told);
    await stream('v1/trace', { trace: hear, over: hear }, new AbortController().signal);
    assert.deepEqual(heard, [{ kind: 'ü' }, { reason: 'time' }], `pieces of ${length}`);
  }
});

test('why a stream was refused is told', async () => {
  const body = JSON.stringify({ error: { code: 'busy', message: 'come back' } });
  globalThis.fetch = async () => new Response(body, { status: 503 });
  const asked = stream('v1/trace', {}, new AbortController().signal);
  await assert.rejects(asked, error => error instanceof Refused && error.status === 503 && error.message === 'come back');
});
