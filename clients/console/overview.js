// How the server is: a sentence, figures over the last minutes, health of what it stands on.
//
// Every figure is one of `/v1/overview`, or the difference of two of them over the time between.

import { ask } from './api.js';
import { Chart } from './chart.js';
import { h, say, set } from './dom.js';
import { ago, bytes, card, compact, duration, number, pairs, table } from './show.js';

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
  if (failed) found.push(['bad', `${failed} of ${readiness.logs.length} logs failed: nothing is stored there until the disk is mended and the server restarted.`]);
  if (readiness.draining) found.push(['bad', 'The server is being stopped and lets its connections go.']);
  if (full) found.push(['warn', `${full} of ${readiness.logs.length} logs are full: pushes and messages are refused there.`]);
  if (status.memory_pressure !== 'calm') found.push(['warn', `Memory is short (${status.memory_pressure}).`]);
  if (directory.circuit !== 'closed') {
    found.push(['warn', `The directory of presence does not answer: ${directory.fault?.message ?? directory.circuit}. ${number(directory.unwritten)} transitions wait.`]);
  }
  if (readings.bridges > readings.bridges_online) found.push(['warn', `${readings.bridges - readings.bridges_online} of ${readings.bridges} bridges do not reach their broker.`]);
  if (readings.impossible_total) found.push(['warn', `${number(readings.impossible_total)} conditions that cannot be were seen: a defect of the server, see the log.`]);
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
  const protocols = new Chart('Online by protocol', compact, 4);
  charts.push([protocols, moments => lines(moments, 'protocols')]);
  const shards = new Chart('Processor, busiest threads', percent, 0.1);
  charts.push([shards, moments => lines(moments, 'shards')]);
  const places = {
    latencies: h('div'), protocols: h('div'), totals: h('div'), store: h('div'), directory: h('div'), threads: h('div'), shards: h('div'), process: h('div'),
  };
  set(root, verdict, h('div', { class: 'charts' },
    chart('Connections', compact, [['open', 'connections']], 4), protocols.element,
    chart('Coming and going', rate, [['arrivals', 'arrivals'], ['departures', 'departures']], 1),
    chart('Topics', rate, [['published', 'publishes'], ['delivered', 'deliveries']], 1),
    chart('Pushes', rate, [['sent', 'pushesOut'], ['acknowledged', 'pushesAcked']], 1),
    chart('Chat', rate, [['stored', 'chatIn'], ['delivered', 'chatOut']], 1),
    chart('Bytes', byteRate, [['received', 'bytesIn'], ['sent', 'bytesOut']], 1_024, 1_024),
    chart('Processor', percent, [['all threads', 'cpu']], 0.1), shards.element,
    chart('Longest turn of a shard', ms, [['in the last second', 'turn']], 1),
    chart('Memory', bytes, [['of the process', 'memory']], 1 << 20, 1_024),
    chart('What waits', compact, [['messages for sessions', 'queued'], ['pushes', 'waiting'], ['chat, not in every inbox', 'undistributed']], 4)),
  h('div', { class: 'flow' },
    card('Latencies, last minute', places.latencies), card('Protocols', places.protocols), card('Threads', places.threads), card('Shards', places.shards), card('Queues', places.totals),
    card('Store', places.store), card('Directory of presence', places.directory), card('Process', places.process)));
  const draw = () => {
    const times = kept.map(at => at.at_ms);
    for (const [it, of] of charts) it.draw(times, of(kept));
  };
  draw();
  live(now => {
    const found = troubles(now);
    verdict.className = `verdict ${found.some(([kind]) => kind === 'bad') ? 'bad' : found.length ? 'warn' : ''}`;
    const well = `All is well: ${number(now.status.connections)} connections are open; up ${duration(now.at_ms - now.started_ms)}.`;
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
  fresh(places.protocols, table('Protocols', [
    { title: 'Protocol', head: true, cell: ([name]) => name },
    { title: 'Online', end: true, cell: ([, it]) => number(it.online) },
    { title: 'Came', end: true, cell: ([, it]) => number(it.arrivals) },
    { title: 'Went', end: true, cell: ([, it]) => number(it.departures) },
  ], rows, 'Nobody has come yet.', true));
  const oldest = spreads[0] ?? {};
  const phases = now.latencies.phases.map((/** @type {any} */ it) => {
    const name = `${it.of} ${it.phase}`;
    const was = spreads.length > 1 ? oldest[name] : [];
    const since = it.buckets.map((/** @type {number} */ count, /** @type {number} */ at) => count - (was[at] ?? 0));
    const count = since.reduce((/** @type {number} */ sum, /** @type {number} */ inside) => sum + inside, 0);
    return { name, count, of: (/** @type {number} */ share) => micros(quantile(now.latencies.bounds_us, since, share)) };
  });
  fresh(places.latencies, table('Latencies', [
    { title: 'Phase', head: true, cell: it => it.name },
    { title: 'Count', end: true, cell: it => number(it.count) },
    { title: 'p50', end: true, cell: it => it.of(0.5) },
    { title: 'p99', end: true, cell: it => it.of(0.99) },
    { title: 'p99.9', end: true, cell: it => it.of(0.999) },
  ], phases.filter((/** @type {any} */ it) => it.count > 0), 'Nothing was timed.', true));
  const busy = kept[kept.length - 1]?.shards ?? {};
  fresh(places.threads, table('Threads', [
    { title: 'Thread', head: true, cell: ([name]) => name },
    { title: 'Busy now', end: true, cell: ([name]) => (name in busy ? percent(busy[name]) : '–') },
    { title: 'Processor time', end: true, cell: ([, used_ms]) => (Number(used_ms) < 60_000 ? `${(Number(used_ms) / 1_000).toFixed(1)} s` : duration(Number(used_ms))) },
  ], Object.entries(process.threads_cpu_ms).sort(([, a], [, b]) => Number(b) - Number(a)).slice(0, 8), '', true));
  fresh(places.shards, table('Shards', [
    { title: 'Shard', head: true, cell: it => number(it.shard) },
    { title: 'Connections', end: true, cell: it => number(it.connections) },
    { title: 'Turns', end: true, cell: it => number(it.turns) },
    { title: 'A turn lasts', end: true, cell: it => micros(it.turns ? it.busy_us / it.turns : null) },
    { title: 'and is late by', end: true, cell: it => micros(it.turns ? it.lag_us / it.turns : null) },
  ], status.loops, '', true));
  fresh(places.totals, pairs([
    ['Messages that wait for sessions', number(status.queued)], ['Their bytes in memory', bytes(status.queued_bytes)],
    ['Publications for later', number(status.delayed)], ['Retained messages', number(status.retained)],
    ['Their bytes', bytes(status.retained_bytes)], ['Pushes that wait', number(status.waiting)],
    ['Their weight', bytes(status.waiting_bytes)], ['Chat, not in every inbox', number(status.chat_undistributed)],
    ['Chat, for other servers', number(status.chat_queued_out)],
  ]));
  fresh(places.store, pairs([
    ['Logs', now.readiness.logs.join(', ') || '–'], ['Bytes of the logs', bytes(readings.store_log_bytes)],
    ['Of these alive', bytes(readings.store_live_bytes)], ['Calls that wait', number(readings.store_calls_waiting)],
    ['Written since the last checkpoint', bytes(readings.store_behind_bytes)],
    ['Oldest change since then', duration((readings.store_behind_seconds ?? 0) * 1_000)],
    ['Entries not taken', number(status.counters.store_failures_total)],
    ['Lines of the log lost', number(readings.log_lines_lost_total)],
  ]));
  fresh(places.directory, pairs([
    ['Where', directory.directory], ['Node', directory.node], ['Circuit', directory.circuit],
    ['Not written yet', number(directory.unwritten)], ['Oldest of these', duration(directory.lag_ms)],
    ['Last fault', directory.fault ? h('span', {}, `${directory.fault.message}, `, ago(directory.fault.at_ms)) : 'none'],
  ]));
  fresh(places.process, pairs([
    ['Version', status.version], ['Up', duration(now.at_ms - now.started_ms)],
    ['Memory', bytes(process.resident_bytes)], ['Processor time', duration(process.cpu_ms ?? 0)],
    ['Cores', number(process.cores)], ['Shards', number(status.shards)], ['Threads that run them', number(status.threads)],
    ['Longest turn, last second', `${number(status.turn_us_max)} µs`], ['Sessions', number(status.sessions)],
    ['Of these online', number(status.sessions_online)], ['Subscriptions', number(status.subscriptions)],
    ['Devices', number(status.devices)], ['Of these online', number(status.online)],
    ['Users of the book', number(readings.users)], ['Chat, devices online', number(status.chat_sessions)], ['Connections of the API', number(readings.api_connections)],
    ['Sessions of the console', number(readings.console_sessions)],
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

export const page = { title: 'Overview', scopes: ['metrics'], lead: '', show };
