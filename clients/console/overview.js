// How the server is: a sentence, figures over the last minutes, health of what it stands on.
//
// Every figure is one of `/v1/overview`, or the difference of two of them over the time between.

import { ask } from './api.js';
import { Chart } from './chart.js';
import { h, say, set } from './dom.js';
import { ago, bytes, card, compact, duration, number, pairs, table } from './show.js';
import { t } from './texts.js';

/** Moments that are kept: fifteen minutes, one a second. */
const KEPT_MAX = 900;

/** Lines in one chart; further protocols are added up. */
const LINES_MAX = 5;

/**
 * What of an overview is drawn. Rates are a second's.
 * @typedef {{ at_ms: number, values: Record<string, number | null>, protocols: Record<string, number>, shards: Record<string, number> }} Moment
 */

/** Histograms of the last minute, one a second: each phase's buckets. @type {Record<string, number[]>[]} */
const spreads = [];

/** Moments over which latencies are told. */
const SPREADS_MAX = 60;

/** @type {Moment[]} */
const kept = [];
/** @type {any} */
let before = null;

/** Figures that only rise, by what they are drawn as. @type {Record<string, (it: any) => number | null>} */
const RISING = {
  arrivals: it => it.presence?.arrivals ?? null,
  departures: it => it.presence?.departures ?? null,
  publishes: it => it.status.counters.publishes_received_total,
  deliveries: it => it.status.counters.deliveries_total,
  chatIn: it => it.status.counters.chat_sent_total,
  chatOut: it => it.status.counters.chat_delivered_total,
  pushesOut: it => it.status.counters.pushes_sent_total,
  pushesAcked: it => it.status.counters.pushes_delivered_total,
  bytesIn: it => it.status.counters.bytes_received_total,
  bytesOut: it => it.status.counters.bytes_sent_total,
};

/** Protocols with how many are online, added up over products. @param {any} presence */
function byProtocol(presence) {
  /** @type {Record<string, { online: number, arrivals: number, departures: number }>} */
  const sums = {};
  for (const { protocol, online, arrivals, departures } of presence?.by ?? []) {
    const sum = (sums[protocol] ??= { online: 0, arrivals: 0, departures: 0 });
    sum.online += online;
    sum.arrivals += arrivals;
    sum.departures += departures;
  }
  return sums;
}

/** Keeps what an overview says for the charts, whichever page is shown. @param {any} now */
export function keep(now) {
  const passed_ms = before ? now.at_ms - before.at_ms : 0;
  const isNext = before && before.started_ms === now.started_ms && passed_ms > 0;
  /** @type {Record<string, number | null>} */
  const values = {
    connections: now.status.connections,
    turn: now.status.turn_us_max / 1_000,
    memory: now.process.resident_bytes,
    cpu: isNext && now.process.cpu_ms !== null ? (now.process.cpu_ms - before.process.cpu_ms) / passed_ms : null,
    queued: now.status.queued,
    waiting: now.status.waiting,
    undistributed: now.status.chat_undistributed,
  };
  for (const [name, of] of Object.entries(RISING)) {
    const [old, fresh] = [isNext ? of(before) : null, of(now)];
    values[name] = old === null || fresh === null ? null : Math.max(0, ((fresh - old) / passed_ms) * 1_000);
  }
  /** @type {Record<string, number>} */
  const shards = {};
  for (const [name, used_ms] of Object.entries(now.process.threads_cpu_ms)) {
    const old = before?.process.threads_cpu_ms[name];
    if (isNext && old !== undefined) shards[name] = Math.max(0, (used_ms - old) / passed_ms);
  }
  const protocols = Object.fromEntries(
    Object.entries(byProtocol(now.presence)).map(([name, sum]) => [name, sum.online]));
  kept.push({ at_ms: now.at_ms, values, protocols, shards });
  if (kept.length > KEPT_MAX) kept.splice(0, kept.length - KEPT_MAX);
  if (before && before.started_ms !== now.started_ms) spreads.length = 0;
  spreads.push(Object.fromEntries(now.latencies.phases.map((/** @type {any} */ it) => [`${it.of} ${it.phase}`, it.buckets])));
  if (spreads.length > SPREADS_MAX + 1) spreads.shift();
  before = now;
}

/**
 * What this share of durations does not exceed, in microseconds, as far as buckets tell; within one
 * it is taken to be even. Null: there were none.
 * @param {number[]} bounds
 * @param {number[]} buckets
 * @param {number} share
 */
export function quantile(bounds, buckets, share) {
  const count = buckets.reduce((sum, inside) => sum + inside, 0);
  const wanted = Math.max(1, Math.ceil(count * share));
  let below = 0;
  for (const [at, inside] of buckets.entries()) {
    if (inside > 0 && below + inside >= wanted) {
      const low = at > 0 ? bounds[at - 1] : 0;
      const high = bounds[at] ?? low;
      return low + ((high - low) * (wanted - below)) / inside;
    }
    below += inside;
  }
  return null;
}

/** Microseconds as people read them. @param {number | null} us */
export const micros = us =>
  us === null ? '–' : us < 1_000 ? `${Math.round(us)} µs` : us < 1_000_000 ? `${compact(us / 1_000)} ms` : `${compact(us / 1_000_000)} s`;

/** What is wrong, worst first; nothing: an empty list. @param {any} now @returns {['bad' | 'warn', string][]} */
export function troubles(now) {
  const { readiness, status, directory, readings } = now;
  /** @type {['bad' | 'warn', string][]} */
  const found = [];
  const failed = readiness.logs.filter((/** @type {string} */ log) => log === 'failed').length;
  const full = readiness.logs.filter((/** @type {string} */ log) => log === 'full').length;
  if (failed) found.push(['bad', t('Storage failed in {count} of {total} logs: writes are refused until the disk is repaired and the server restarted.', { count: failed, total: readiness.logs.length })]);
  if (readiness.draining) found.push(['bad', t('The server is draining: it closes its connections and stops.')]);
  if (full) found.push(['warn', t('Storage is full in {count} of {total} logs: pushes and messages are refused.', { count: full, total: readiness.logs.length })]);
  if (status.memory_pressure !== 'calm') found.push(['warn', t('Memory pressure: {level}.', { level: status.memory_pressure })]);
  if (directory.circuit !== 'closed') {
    found.push(['warn', t('The presence directory does not answer: {reason}. Unwritten changes: {count}.', { reason: directory.fault?.message ?? directory.circuit, count: number(directory.unwritten) })]);
  }
  if (readings.bridges > readings.bridges_online) found.push(['warn', t('Bridges disconnected: {count} of {total}.', { count: readings.bridges - readings.bridges_online, total: readings.bridges })]);
  if (readings.impossible_total) found.push(['warn', t('Internal errors: {count}. This is a defect of the server; the log has the details.', { count: number(readings.impossible_total) })]);
  return found;
}

const percent = (/** @type {number} */ share) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
const rate = (/** @type {number} */ value) => `${compact(value)}/s`;
const ms = (/** @type {number} */ value) => `${compact(value)} ms`;
const byteRate = (/** @type {number} */ value) => `${bytes(value)}/s`;

/** @param {import('./console.js').Place} place */
function show({ root, live, gone, may }) {
  const verdict = h('div', { class: 'verdict', role: 'status' });
  /** @type {[Chart, (moments: Moment[]) => import('./chart.js').Line[]][]} */
  const charts = [];
  const chart = (/** @type {string} */ title, /** @type {(value: number) => string} */ format,
    /** @type {[string, string][]} */ lines, least = 0, base = 10) => {
    const it = new Chart(title, format, least, base);
    charts.push([it, moments => lines.map(([name, key]) => ({ name, values: moments.map(at => at.values[key] ?? null) }))]);
    return it.element;
  };
  const protocols = new Chart(t('Online by protocol'), compact, 4);
  charts.push([protocols, moments => lines(moments, 'protocols')]);
  const shards = new Chart(t('CPU by shard'), percent, 0.1);
  charts.push([shards, moments => lines(moments, 'shards')]);
  const places = {
    latencies: h('div'), protocols: h('div'), totals: h('div'), store: h('div'), directory: h('div'), threads: h('div'), shards: h('div'), process: h('div'),
  };
  set(root, verdict, h('div', { class: 'charts' },
    chart(t('Connections'), compact, [[t('open'), 'connections']], 4), protocols.element,
    chart(t('Connections / Disconnections'), rate, [[t('connected'), 'arrivals'], [t('disconnected'), 'departures']], 1),
    chart(t('MQTT messages'), rate, [[t('received'), 'publishes'], [t('sent'), 'deliveries']], 1),
    chart(t('Pushes'), rate, [[t('sent'), 'pushesOut'], [t('acknowledged'), 'pushesAcked']], 1),
    chart(t('Chat messages'), rate, [[t('stored'), 'chatIn'], [t('delivered'), 'chatOut']], 1),
    chart(t('Network traffic'), byteRate, [[t('received'), 'bytesIn'], [t('sent'), 'bytesOut']], 1_024, 1_024),
    chart(t('CPU'), percent, [[t('all threads'), 'cpu']], 0.1), shards.element,
    chart(t('Longest event loop iteration'), ms, [[t('last second'), 'turn']], 1),
    chart(t('Memory'), bytes, [[t('process'), 'memory']], 1 << 20, 1_024),
    chart(t('Queued'), compact, [[t('MQTT messages'), 'queued'], [t('pushes'), 'waiting'], [t('chat messages'), 'undistributed']], 4)),
  h('div', { class: 'flow' },
    card(t('Latency, last minute'), places.latencies), card(t('Protocols'), places.protocols), card(t('Threads'), places.threads),
    card(t('Shards'), places.shards), card(t('Queues'), places.totals), card(t('Storage'), places.store),
    card(t('Presence directory'), places.directory), card(t('Process'), places.process)));
  const draw = () => {
    const times = kept.map(at => at.at_ms);
    for (const [it, of] of charts) it.draw(times, of(kept));
  };
  draw();
  live(now => {
    const found = troubles(now);
    verdict.className = `verdict ${found.some(([kind]) => kind === 'bad') ? 'bad' : found.length ? 'warn' : ''}`;
    const well = t('No problems found. Connections: {count}. Uptime: {time}.', { count: number(now.status.connections), time: duration(now.at_ms - now.started_ms) });
    const words = found.map(([, text]) => text);
    const said = found.length ? words.join(' ') : well;
    if (verdict.textContent !== said) {
      set(verdict, found.length > 1 ? h('ul', {}, words.map(text => h('li', {}, text))) : said);
    }
    draw();
    details(now, places);
  });
  if (may('metrics')) past(gone).then(draw, () => {});
}

/** One line for each name, the largest ones. @param {Moment[]} moments @param {'protocols' | 'shards'} of */
function lines(moments, of) {
  const newest = moments[moments.length - 1]?.[of] ?? {};
  const seen = new Set(moments.flatMap(at => Object.keys(at[of])));
  const most = (/** @type {string} */ name) => newest[name] ?? 0;
  let names = [...seen].sort((a, b) => a.localeCompare(b));
  if (of === 'shards') names = names.filter(name => name.startsWith('shard'));
  if (names.length > LINES_MAX) names = names.sort((a, b) => most(b) - most(a)).slice(0, LINES_MAX);
  return names.map(name => ({ name, values: moments.map(at => at[of][name] ?? (of === 'protocols' ? 0 : null)) }));
}

/** The quarter of an hour before the page was opened, as far as the server remembers it. @param {AbortSignal} gone */
async function past(gone) {
  if (kept.length > 60) return;
  const { moments } = await ask('GET', `v1/presence/statistics?step=second&count=${KEPT_MAX}`, undefined, gone);
  const first = kept[0]?.at_ms ?? Infinity;
  const older = moments.filter((/** @type {any} */ it) => it.at_s * 1_000 < first).map((/** @type {any} */ it) => ({
    at_ms: it.at_s * 1_000,
    values: { arrivals: it.arrivals, departures: it.departures },
    protocols: Object.fromEntries(Object.entries(byProtocol(it)).map(([name, sum]) => [name, sum.online])),
    shards: {},
  }));
  kept.unshift(...older.slice(-(KEPT_MAX - kept.length)));
}

/** Tables below the charts. @param {any} now @param {Record<string, HTMLElement>} places */
function details(now, places) {
  const { status, readings, directory, process, presence } = now;
  const rows = Object.entries(byProtocol(presence)).sort(([a], [b]) => a.localeCompare(b));
  fresh(places.protocols, table(t('Protocols'), [
    { title: t('Protocol'), head: true, cell: ([name]) => name },
    { title: t('Online'), end: true, cell: ([, it]) => number(it.online) },
    { title: t('Connections'), end: true, cell: ([, it]) => number(it.arrivals) },
    { title: t('Disconnections'), end: true, cell: ([, it]) => number(it.departures) },
  ], rows, t('No connections yet.'), true));
  const oldest = spreads[0] ?? {};
  const phases = now.latencies.phases.map((/** @type {any} */ it) => {
    const name = `${it.of} ${it.phase}`;
    const was = spreads.length > 1 ? oldest[name] : [];
    const since = it.buckets.map((/** @type {number} */ count, /** @type {number} */ at) => count - (was[at] ?? 0));
    const count = since.reduce((/** @type {number} */ sum, /** @type {number} */ inside) => sum + inside, 0);
    return { name, count, of: (/** @type {number} */ share) => micros(quantile(now.latencies.bounds_us, since, share)) };
  });
  fresh(places.latencies, table(t('Latency, last minute'), [
    { title: t('Phase'), head: true, cell: it => it.name },
    { title: t('Count'), end: true, cell: it => number(it.count) },
    { title: 'p50', end: true, cell: it => it.of(0.5) },
    { title: 'p99', end: true, cell: it => it.of(0.99) },
    { title: 'p99.9', end: true, cell: it => it.of(0.999) },
  ], phases.filter((/** @type {any} */ it) => it.count > 0), t('No messages in the last minute.'), true));
  const busy = kept[kept.length - 1]?.shards ?? {};
  fresh(places.threads, table(t('Threads'), [
    { title: t('Thread'), head: true, cell: ([name]) => name },
    { title: t('CPU'), end: true, cell: ([name]) => (name in busy ? percent(busy[name]) : '–') },
    { title: t('CPU time'), end: true, cell: ([, used_ms]) => (Number(used_ms) < 60_000 ? `${(Number(used_ms) / 1_000).toFixed(1)} s` : duration(Number(used_ms))) },
  ], Object.entries(process.threads_cpu_ms).sort(([, a], [, b]) => Number(b) - Number(a)).slice(0, 8), '', true));
  fresh(places.shards, table(t('Shards'), [
    { title: t('Shard'), head: true, cell: it => number(it.shard) },
    { title: t('Connections'), end: true, cell: it => number(it.connections) },
    { title: t('Iterations'), end: true, cell: it => number(it.turns) },
    { title: t('Average duration'), end: true, cell: it => micros(it.turns ? it.busy_us / it.turns : null) },
    { title: t('Average delay'), end: true, cell: it => micros(it.turns ? it.lag_us / it.turns : null) },
  ], status.loops, '', true));
  fresh(places.totals, pairs([
    [t('Queued MQTT messages'), number(status.queued)], [t('Queued MQTT bytes in memory'), bytes(status.queued_bytes)],
    [t('Delayed publications'), number(status.delayed)], [t('Retained messages'), number(status.retained)],
    [t('Retained bytes'), bytes(status.retained_bytes)], [t('Queued pushes'), number(status.waiting)],
    [t('Queued push bytes'), bytes(status.waiting_bytes)], [t('Chat messages not yet in all inboxes'), number(status.chat_undistributed)],
    [t('Chat messages queued for other servers'), number(status.chat_queued_out)],
  ]));
  fresh(places.store, pairs([
    [t('State of the logs'), now.readiness.logs.join(', ') || '–'], [t('Log size'), bytes(readings.store_log_bytes)],
    [t('Live data'), bytes(readings.store_live_bytes)], [t('Queued calls'), number(readings.store_calls_waiting)],
    [t('Written since the last checkpoint'), bytes(readings.store_behind_bytes)],
    [t('Oldest change since the checkpoint'), duration((readings.store_behind_seconds ?? 0) * 1_000)],
    [t('Failed writes'), number(status.counters.store_failures_total)],
    [t('Server log lines dropped'), number(readings.log_lines_lost_total)],
  ]));
  fresh(places.directory, pairs([
    [t('Directory'), directory.directory], [t('Node'), directory.node], [t('Circuit breaker'), directory.circuit],
    [t('Unwritten changes'), number(directory.unwritten)], [t('Oldest unwritten'), duration(directory.lag_ms)],
    [t('Last error'), directory.fault ? h('span', {}, `${directory.fault.message}, `, ago(directory.fault.at_ms)) : t('none')],
  ]));
  fresh(places.process, pairs([
    [t('Version'), status.version], [t('Uptime'), duration(now.at_ms - now.started_ms)],
    [t('Memory'), bytes(process.resident_bytes)], [t('CPU time'), duration(process.cpu_ms ?? 0)],
    [t('CPU cores'), number(process.cores)], [t('Shards'), number(status.shards)], [t('Shard threads'), number(status.threads)],
    [t('Longest event loop iteration'), micros(status.turn_us_max)], [t('MQTT sessions'), number(status.sessions)],
    [t('MQTT sessions online'), number(status.sessions_online)], [t('Subscriptions'), number(status.subscriptions)],
    [t('Devices'), number(status.devices)], [t('Devices online'), number(status.online)],
    [t('Chat devices online'), number(status.chat_sessions)], [t('Users in the database'), number(readings.users)],
    [t('API connections'), number(readings.api_connections)], [t('Console sessions'), number(readings.console_sessions)],
  ]));
}

/** Replaces what is shown only where it says something else, and keeps where somebody is in it. @param {HTMLElement} place @param {Element} part */
function fresh(place, part) {
  const old = place.firstElementChild;
  if (!old || old.tagName !== part.tagName || old.querySelectorAll('td, dd').length !== part.querySelectorAll('td, dd').length) return set(place, part);
  const pick = 'th, td > div, dt, dd';
  const [were, are] = [old.querySelectorAll(pick), part.querySelectorAll(pick)];
  if (were.length !== are.length) return set(place, part);
  were.forEach((it, at) => say(it, are[at].textContent ?? ''));
}

export const page = { title: t('Overview'), scopes: ['metrics'], lead: '', show };
