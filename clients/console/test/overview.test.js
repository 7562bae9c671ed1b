// What the overview makes of the figures of the API.

import assert from 'node:assert/strict';
import test from 'node:test';
import { pastMoments, thinned, troubles } from '../overview.js';

/** An overview of a server without problems. */
const healthy = (/** @type {any} */ at_ms, /** @type {any} */ changes = {}) => ({
  at_ms, started_ms: 1, alarms: [], readiness: { draining: false, logs: ['good', 'good'] },
  status: { connections: 1, turn_us_max: 0, memory_pressure: 'calm', queued: 0, waiting: 0, chat_undistributed: 0,
    counters: { store_failures_total: 0, accept_failures_total: 0 }, closed: { slow_consumer: 0, full: 0, no_descriptor: 0 },
    dropped: { queue_count: 0, expired: 0, ...changes.dropped } },
  presence: null, directory: { circuit: 'closed' }, latencies: { phases: [] },
  process: { resident_bytes: 1, cpu_ms: 1, threads_cpu_ms: {} }, readings: { ...changes.readings },
});

test('problems are the alarms of the server in its order, each with a link', () => {
  const alarm = (/** @type {any} */ it) => ({ id: 1, level: 'warning', subject: '', raised_ms: 1, cleared_ms: null, ...it });
  const now = { ...healthy(1_000), alarms: [
    alarm({ kind: 'messages_dropped', level: 'critical', text: '3 messages dropped in the last minute' }),
    alarm({ kind: 'bridge_down', subject: 'hub', text: 'the bridge is disconnected' }),
    alarm({ kind: 'of_a_later_server', text: 'something' }),
  ] };
  assert.deepEqual(troubles(healthy(1_000)), []);
  assert.deepEqual(troubles(now), [
    { level: 'bad', title: 'Messages dropped', subject: '', text: '3 messages dropped in the last minute', act: ['slow?by=lost', 'Slow clients'] },
    { level: 'warn', title: 'Bridge disconnected', subject: 'hub', text: 'the bridge is disconnected', act: ['services', 'Services'] },
    { level: 'warn', title: 'of_a_later_server', subject: '', text: 'something', act: ['alarms', 'Alarms'] },
  ]);
});

test('a thinned chart keeps its peaks and its newest moment', () => {
  const moments = Array.from({ length: 10 }, (_, at) =>
    ({ at_ms: at * 1_000, values: { rate: at === 4 ? 99 : 1, cpu: null }, protocols: { mqtt5: at }, shards: {} }));
  const thin = thinned(moments, 3_000);
  assert.deepEqual(thin.map(it => it.at_ms), [2_000, 5_000, 8_000, 9_000]);
  assert.deepEqual(thin.map(it => it.values.rate), [1, 99, 1, 1]);
  assert.deepEqual(thin.map(it => it.protocols.mqtt5), [2, 5, 8, 9]);
  assert.ok(!('cpu' in thin[0].values), 'unknown stays unknown');
});

test('the past of the server becomes moments of the charts, up to where the page was opened', () => {
  const counts = ['cpu_ms', 'connects', 'disconnects', 'publishes', 'deliveries', 'chat_sent', 'chat_delivered',
    'pushes_sent', 'pushes_delivered', 'bytes_in', 'bytes_out', 'dropped'];
  const counted = Object.fromEntries(counts.map(name => [name, [50, 100, 150]]));
  const gauges = ['connections', 'resident_bytes', 'turn_us', 'queued', 'waiting', 'chat_undistributed'];
  const highest = Object.fromEntries(gauges.map(name => [name, [1_000, 2_000, 3_000]]));
  const moments = pastMoments({ step_s: 10, from_ms: 5_000, at_ms: [10_000, 20_000, 30_000], highest, counted, online: { mqtt5: [7, 8, 9] } }, 25_000);
  assert.deepEqual(moments.map(it => it.at_ms), [10_000, 20_000]);
  assert.deepEqual(moments.map(it => it.values.publishes), [10, 10], 'a rate over the time that passed');
  assert.deepEqual(moments.map(it => it.values.cpu), [0.01, 0.01]);
  assert.deepEqual(moments.map(it => it.values.turn), [1, 2], 'milliseconds');
  assert.equal(moments[1].protocols.mqtt5, 8);
  assert.deepEqual(Object.keys(moments[0].values).sort(), ['arrivals', 'bytesIn', 'bytesOut', 'chatIn', 'chatOut', 'connections', 'cpu', 'deliveries', 'departures',
    'dropped', 'memory', 'publishes', 'pushesAcked', 'pushesOut', 'queued', 'turn', 'undistributed', 'waiting']);
});
