// What the page of the API makes of a description.

import assert from 'node:assert/strict';
import test from 'node:test';
import { micros, quantile } from '../overview.js';
import { calls, command, group, kind, page } from '../reference.js';

const ALL = {
  paths: {
    '/healthz': { get: { summary: 'a' } },
    '/v1/users/{user}': { put: { summary: 'b' }, get: { summary: 'c' } },
  },
  components: { schemas: { Word: { enum: ['a', 'b'] }, 'A/B': { type: 'integer' } } },
};

test('calls are in the order of the description, filed under the first word of their path', () => {
  assert.deepEqual(calls(ALL).map(it => `${it.method} ${it.path}`), ['GET /healthz', 'GET /v1/users/{user}', 'PUT /v1/users/{user}']);
  assert.deepEqual(['/', '/healthz', '/v1/users/{user}', '/console/{file}'].map(group), ['index', 'healthz', 'users', 'console']);
});

test('a type is told in a few words, through references', () => {
  assert.equal(kind(ALL, { $ref: '#/components/schemas/Word' }), '"a" | "b"');
  assert.equal(kind(ALL, { type: 'array', items: { $ref: '#/components/schemas/A~1B' } }), 'integer[]');
  assert.equal(kind(ALL, { anyOf: [{ type: ['string', 'null'] }, { const: 5 }] }), 'string | null | 5');
  assert.equal(kind(ALL, {}), 'any');
});

test('whoever may call anything sees the page', () => {
  // As `/openapi.json` names them; `admin` has them all.
  assert.deepEqual([...page.scopes].sort(), ['chat', 'manage', 'metrics', 'publish', 'push', 'read', 'trace', 'users', 'view']);
});

test('a line for a shell quotes what it is given', () => {
  assert.equal(command('GET', 'http://a/b?c=d', '', ''), `curl -H "Authorization: Bearer $TOKEN" 'http://a/b?c=d'`);
  assert.equal(command('PUT', 'http://a/', `{"a": "it's"}`, 'application/json'),
    `curl -H "Authorization: Bearer $TOKEN" -X PUT -H 'Content-Type: application/json' -d '{"a": "it'\\''s"}' 'http://a/'`);
});

test('a share of durations is found in its bucket, as the server finds it', () => {
  const bounds = [100, 250, 500];
  assert.equal(quantile(bounds, [0, 0, 0, 0], 0.5), null);
  assert.equal(quantile(bounds, [90, 0, 10, 0], 0.5), 100 * (50 / 90));
  assert.equal(quantile(bounds, [90, 0, 10, 0], 0.99), 250 + 250 * 0.9);
  assert.equal(quantile(bounds, [0, 0, 0, 1], 0.5), 500);
  assert.deepEqual([null, 55.4, 1_500, 2_500_000].map(micros), ['–', '55\u00a0µs', '1.5\u00a0ms', '2.5\u00a0s']);
});
