// The overview, in the order in which an operator asks: problems and where to act, the figures that
// matter, charts, details.
//
// Problems are the alarms of the API. Every figure is one of `/v1/overview`, or the difference of two of them over the time between.

import { KINDS } from './alarms.js';
import { ask } from './api.js';
import { Chart } from './chart.js';
import { h, say, set } from './dom.js';
import { ago, badge, bytes, card, compact, duration, name, number, pairs, table, unit } from './show.js';
import { t } from './texts.js';

/** Moments that are kept: an hour, one a second. */
const KEPT_MAX = 3_600;

/** Points of a line that is as long as the range. */
const POINTS = 300;

/** Lines in one chart; further protocols are added up. */
const LINES_MAX = 5;

/**
 * Figures of an overview for the charts. Rates are per second.
 * @typedef {{ at_ms: number, values: Record<string, number | null>, protocols: Record<string, number>, shards: Record<string, number> }} Moment
 */

/** Overviews of the last minute, one a second, for what changed in it. @type {any[]} */
const minute = [];

/** What is called the last minute, milliseconds. */
const MINUTE_MS = 60_000;

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
  dropped: it => Object.values(it.status.dropped).reduce((/** @type {number} */ sum, count) => sum + Number(count), 0),
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
  if (before && before.started_ms !== now.started_ms) minute.length = 0;
  minute.push(now);
  while (now.at_ms - minute[0].at_ms > MINUTE_MS) minute.shift();
  before = now;
}

/**
 * The quantile of durations in microseconds, interpolated within a bucket. Null: no durations.
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
  us === null ? '–' : us < 1_000 ? unit(Math.round(us), 'µs') : us < 1_000_000 ? unit(compact(us / 1_000), 'ms') : unit(compact(us / 1_000_000), 's');

/**
 * @typedef {object} Trouble
 * @property {'bad' | 'warn'} level
 * @property {string} title
 * @property {string} subject which bridge, webhook, log or file; empty where there is only one
 * @property {string} text
 * @property {[string, string]} act where to look or act: route and name of the page
 */

/** Where to look or act, by kind of alarm; for others on the page of alarms. @type {Record<string, [string, string]>} */
const ACTS = {
  log_failed: ['log', t('Log')], log_full: ['log', t('Log')], store_write_failed: ['log', t('Log')],
  messages_dropped: ['slow?by=lost', t('Slow clients')], certificate_expired: ['certificates', t('Certificates')],
  store_almost_full: ['configuration?with=store', t('Configuration')], draining: ['log', t('Log')],
  store_filling: ['configuration?with=store', t('Configuration')], slow_disconnected: ['slow', t('Slow clients')],
  slow_clients: ['slow', t('Slow clients')], memory_pressure: ['sessions?kind=waiting', t('Sessions and queues')],
  connections_refused: ['closes', t('Disconnect reasons')], directory_down: ['log', t('Log')], bridge_down: ['services', t('Services')],
  platform_denied: ['log', t('Log')], webhook_failing: ['services', t('Services')], archive_down: ['services', t('Services')], accounts_database_down: ['services', t('Services')], ldap_down: ['services', t('Services')],
  event_stream_down: ['services', t('Services')], certificate_expiring: ['certificates', t('Certificates')], backup_old: ['log', t('Log')],
  stream_full: ['cluster', t('Cluster')], isolated: ['cluster', t('Cluster')], acknowledged_lost: ['cluster', t('Cluster')],
  followers: ['cluster', t('Cluster')], node_unreachable: ['cluster', t('Cluster')], clock_differs: ['cluster', t('Cluster')],
  follower_full: ['cluster', t('Cluster')], follower_behind: ['cluster', t('Cluster')], nats_down: ['cluster', t('Cluster')],
  internal_error: ['log', t('Log')],
};

/** Reasons for which a message is dropped that was to be delivered; others, an expiry say, are as ordered. */
const LOSSES = ['queue_bytes', 'queue_count', 'slow_reader', 'store_full', 'busy'];

/** What a counter grew by in the last minute. @param {(it: any) => number | undefined} of */
function grown(of) {
  const [first, last] = [minute[0], minute[minute.length - 1]];
  return first ? Math.max(0, (of(last) ?? 0) - (of(first) ?? 0)) : 0;
}

/** Messages lost in the last minute. */
const losses = () => grown(it => LOSSES.reduce((sum, reason) => sum + (it.status.dropped[reason] ?? 0), 0));

/** Active alarms of the server, the worst first. @param {any} now @returns {Trouble[]} */
export function troubles(now) {
  return now.alarms.map((/** @type {any} */ it) => ({
    level: it.level === 'critical' ? 'bad' : 'warn', title: KINDS[it.kind] ?? it.kind, subject: it.subject, text: it.text,
    act: ACTS[it.kind] ?? ['alarms', t('Alarms')],
  }));
}

const percent = (/** @type {number} */ share) => unit((share * 100).toFixed(share < 0.1 ? 1 : 0), '%');
const rate = (/** @type {number} */ value) => `${compact(value)}/s`;
const ms = (/** @type {number} */ value) => unit(compact(value), 'ms');
const byteRate = (/** @type {number} */ value) => `${bytes(value)}/s`;

/** Problems, and where to act. @param {any} now @param {HTMLElement} place @param {HTMLElement} uptime */
function health(now, place, uptime) {
  const found = troubles(now);
  place.className = `health ${found[0]?.level ?? ''}`;
  // Screen readers announce a change once, not every second.
  const said = JSON.stringify(found);
  if (place.dataset.said === said) return;
  place.dataset.said = said;
  if (!found.length) return set(place, h('p', {}, h('b', {}, t('No problems found.'))), uptime);
  set(place, h('ul', {}, found.map(({ level, title, subject, text, act }) => h('li', {},
    badge(level === 'bad' ? t('critical') : t('warning'), level),
    h('span', {}, h('b', {}, title), subject && [' ', name(subject)], ': ', text),
    h('a', { href: `#/${act[0]}` }, `${act[1]} →`)))));
}

/**
 * Key figures: title, page, value and the line below it.
 * @type {[string, string, (now: any, rates: Record<string, number | null>) => string, ((now: any) => string)?][]}
 */
const FIGURES = [
  [t('Connections'), 'clients?online=true', now => number(now.status.connections), now => t('{count} subscriptions', { count: number(now.status.subscriptions) })],
  [t('Messages in'), 'topics', (_, rates) => perSecond(rates.publishes, rates.chatIn), () => t('all protocols')],
  [t('Messages out'), 'topics', (_, rates) => perSecond(rates.deliveries, rates.chatOut, rates.pushesOut), () => t('all protocols')],
  [t('Queued'), 'sessions?kind=waiting', now => number(now.status.queued + now.status.waiting), now => bytes(now.status.queued_bytes + now.status.waiting_bytes)],
  [t('Dropped'), 'drops', () => number(losses()), () => t('last minute')],
  [t('CPU'), 'overview', (now, rates) => (rates.cpu === null ? '–' : percent(rates.cpu / now.process.cores)), now => t('of {count} cores', { count: now.process.cores })],
  [t('Memory'), 'overview', now => bytes(now.process.resident_bytes), now => (now.status.memory_pressure === 'calm' ? t('calm') : now.status.memory_pressure)],
];

/** @param {(number | null)[]} rates */
const perSecond = (...rates) => (rates.some(it => it === null) ? '–' : rate(rates.reduce((/** @type {number} */ sum, it) => sum + (it ?? 0), 0)));

/** Time shown by charts, in minutes. */
const RANGES = ['5', '15', '60'];

/** @param {import('./console.js').Place} place */
function show(place) {
  const { root, live, gone, may } = place;
  const strip = h('div', { id: 'health', class: 'health' });
  const uptime = h('span', { class: 'figure' });
  const figures = FIGURES.map(([title, to]) => {
    const [value, more] = [h('b', { class: 'figure' }), h('small', { class: 'figure' })];
    const inner = [h('span', {}, title), value, more];
    return { value, more, element: to === 'overview' ? h('div', {}, inner) : h('a', { href: `#/${to}` }, inner) };
  });
  /** @type {[Chart, (moments: Moment[]) => import('./chart.js').Line[]][]} */
  const charts = [];
  const chart = (/** @type {string} */ title, /** @type {(value: number) => string} */ format,
    /** @type {[string, string][]} */ lines, least = 0, base = 10) => {
    const it = new Chart(title, format, least, base);
    charts.push([it, moments => lines.map(([name, key]) => ({ name, values: moments.map(at => at.values[key] ?? null) }))]);
    return it.element;
  };
  const several = (/** @type {string} */ title, /** @type {(value: number) => string} */ format, /** @type {'protocols' | 'shards'} */ of, least = 0,
    /** @type {[string, string] | null} */ all = null) => {
    const it = new Chart(title, format, least);
    const sum = (/** @type {Moment[]} */ moments) => (all ? [{ name: all[0], values: moments.map(at => at.values[all[1]] ?? null) }] : []);
    charts.push([it, moments => [...sum(moments), ...lines(moments, of)]]);
    return it.element;
  };
  const range = h('select', { id: 'range', class: 'small' }, RANGES.map(it =>
    h('option', { value: it, selected: it === (place.query.get('minutes') ?? '15') }, t('Last {time}', { time: duration(Number(it) * 60_000) }))));
  const places = {
    latencies: h('div'), protocols: h('div'), totals: h('div'), store: h('div'), directory: h('div'), threads: h('div'), shards: h('div'), process: h('div'),
  };
  set(root, strip, h('nav', { class: 'figures', 'aria-label': t('Key figures') }, figures.map(it => it.element)),
    h('div', { class: 'head' }, h('h2', {}, t('Over time')), h('label', { class: 'tools' }, h('span', { class: 'unseen' }, t('Time range')), range)),
    h('div', { class: 'charts' },
      chart(t('Connections'), compact, [[t('current'), 'connections']], 4),
      chart(t('Connections / Disconnections'), rate, [[t('connects'), 'arrivals'], [t('disconnects'), 'departures']], 1),
      several(t('Online by protocol'), compact, 'protocols', 4),
      chart(t('MQTT messages'), rate, [[t('received'), 'publishes'], [t('sent'), 'deliveries']], 1),
      chart(t('Dropped messages'), rate, [[t('dropped'), 'dropped']], 1),
      chart(t('Queued'), compact, [[t('MQTT messages'), 'queued'], [t('pushes'), 'waiting'], [t('chat messages'), 'undistributed']], 4),
      chart(t('Pushes'), rate, [[t('sent'), 'pushesOut'], [t('acknowledged'), 'pushesAcked']], 1),
      chart(t('Chat messages'), rate, [[t('stored'), 'chatIn'], [t('delivered'), 'chatOut']], 1),
      chart(t('Network traffic'), byteRate, [[t('received'), 'bytesIn'], [t('sent'), 'bytesOut']], 1_024, 1_024),
      several(t('CPU'), percent, 'shards', 0.1, [t('all threads'), 'cpu']),
      chart(t('Memory'), bytes, [[t('process'), 'memory']], 1 << 20, 1_024),
      chart(t('Longest event loop iteration'), ms, [[t('last second'), 'turn']], 1)),
    h('h2', {}, t('Details')), h('div', { class: 'flow' },
      card(t('Latency, last minute'), places.latencies), card(t('Protocols'), places.protocols), card(t('Threads'), places.threads),
      card(t('Shards'), places.shards), card(t('Queues'), places.totals), card(t('Storage'), places.store),
      card(t('Presence directory'), places.directory), card(t('Process'), places.process)));
  const draw = () => {
    const span_ms = Number(range.value) * 60_000;
    const since_ms = (kept[kept.length - 1]?.at_ms ?? 0) - span_ms;
    const shown = thinned(kept.filter(it => it.at_ms > since_ms), span_ms / POINTS);
    const times = shown.map(at => at.at_ms);
    for (const [it, of] of charts) it.draw(times, of(shown));
  };
  range.addEventListener('change', () => {
    place.keep({ minutes: range.value });
    draw();
  });
  draw();
  live(now => {
    say(uptime, t('Up {time}, version {version}', { time: duration(now.at_ms - now.started_ms), version: now.status.version }));
    health(now, strip, uptime);
    const rates = kept[kept.length - 1]?.values ?? {};
    FIGURES.forEach(([, , value, more], at) => {
      say(figures[at].value, value(now, rates));
      if (more) say(figures[at].more, more(now));
    });
    draw();
    details(now, places);
  });
  if (may('metrics')) past(gone).then(draw, () => {});
}

/**
 * One moment for each step of time, with the highest figures of those in it, so that no peak is lost.
 * @param {Moment[]} moments
 * @param {number} step_ms
 * @returns {Moment[]}
 */
export function thinned(moments, step_ms) {
  /** @type {Moment[]} */
  const found = [];
  const raise = (/** @type {Record<string, any>} */ to, /** @type {Record<string, any>} */ from) => {
    for (const [key, value] of Object.entries(from)) {
      if (value !== null && !(to[key] >= value)) to[key] = value;
    }
  };
  let step = NaN;
  for (const { at_ms, values, protocols, shards } of moments) {
    if (Math.floor(at_ms / step_ms) !== step) found.push({ at_ms, values: {}, protocols: {}, shards: {} });
    step = Math.floor(at_ms / step_ms);
    const last = found[found.length - 1];
    last.at_ms = at_ms;
    raise(last.values, values);
    raise(last.protocols, protocols);
    raise(last.shards, shards);
  }
  return found;
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

/** Whether the past was read. */
let hasPast = false;

/** Charts' names of counts, by their names in the history. @type {[string, string][]} */
const COUNTED = [
  ['arrivals', 'connects'], ['departures', 'disconnects'], ['publishes', 'publishes'], ['deliveries', 'deliveries'],
  ['chatIn', 'chat_sent'], ['chatOut', 'chat_delivered'], ['pushesOut', 'pushes_sent'], ['pushesAcked', 'pushes_delivered'],
  ['bytesIn', 'bytes_in'], ['bytesOut', 'bytes_out'], ['dropped', 'dropped'],
];

/**
 * Moments before the page was opened, from `/v1/overview/history`; those from `end_ms` on are left out.
 * @param {any} told
 * @param {number} end_ms
 * @returns {Moment[]}
 */
export function pastMoments(told, end_ms) {
  const { at_ms, from_ms, highest, counted, online } = told;
  return at_ms.map((/** @type {number} */ at, /** @type {number} */ step) => {
    const passed_ms = Math.max(1, at - (at_ms[step - 1] ?? from_ms));
    /** @type {Record<string, number | null>} */
    const values = {
      connections: highest.connections[step], memory: highest.resident_bytes[step], turn: highest.turn_us[step] / 1_000,
      queued: highest.queued[step], waiting: highest.waiting[step], undistributed: highest.chat_undistributed[step],
      cpu: counted.cpu_ms[step] / passed_ms,
    };
    for (const [name, key] of COUNTED) values[name] = (counted[key][step] / passed_ms) * 1_000;
    const protocols = Object.fromEntries(Object.entries(online).map(([name, numbers]) => [name, numbers[step]]));
    return { at_ms: at, values, protocols, shards: {} };
  }).filter((/** @type {Moment} */ it) => it.at_ms < end_ms);
}

/** The last hour, as the server remembers it. @param {AbortSignal} gone */
async function past(gone) {
  if (hasPast) return;
  const told = await ask('GET', 'v1/overview/history', undefined, gone);
  if (hasPast) return;
  hasPast = true;
  kept.unshift(...pastMoments(told, kept[0]?.at_ms ?? Infinity));
}

/** When the newest scheduled backup was made. @param {number | undefined} newest_s */
const newestBackup = newest_s => (newest_s === undefined ? t('not scheduled') : newest_s === 0 ? t('none') : ago(newest_s * 1_000));

/** Tables below the charts. @param {any} now @param {Record<string, HTMLElement>} places */
function details(now, places) {
  const { status, readings, directory, process, presence } = now;
  const rows = Object.entries(byProtocol(presence)).sort(([a], [b]) => a.localeCompare(b));
  fresh(places.protocols, table(t('Protocols'), [
    { title: t('Protocol'), head: true, cell: ([name]) => name },
    { title: t('Online'), end: true, cell: ([, it]) => number(it.online) },
    { title: t('Connects'), end: true, cell: ([, it]) => number(it.arrivals) },
    { title: t('Disconnects'), end: true, cell: ([, it]) => number(it.departures) },
  ], rows, t('No connections yet.'), true));
  const oldest = Object.fromEntries((minute.length > 1 ? minute[0].latencies.phases : [])
    .map((/** @type {any} */ it) => [`${it.of} ${it.phase}`, it.buckets]));
  const phases = now.latencies.phases.map((/** @type {any} */ it) => {
    const name = `${it.of} ${it.phase}`;
    const was = oldest[name] ?? [];
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
    { title: t('CPU time'), end: true, cell: ([, used_ms]) => (Number(used_ms) < 60_000 ? unit((Number(used_ms) / 1_000).toFixed(1), t('s')) : duration(Number(used_ms))) },
  ], Object.entries(process.threads_cpu_ms).sort(([, a], [, b]) => Number(b) - Number(a)).slice(0, 8), '', true));
  fresh(places.shards, table(t('Shards'), [
    { title: t('Shard'), head: true, cell: it => number(it.shard) },
    { title: t('Connections'), end: true, cell: it => number(it.connections) },
    { title: t('Iterations'), end: true, cell: it => number(it.turns) },
    { title: t('Avg time'), end: true, cell: it => micros(it.turns ? it.busy_us / it.turns : null) },
    { title: t('Avg delay'), end: true, cell: it => micros(it.turns ? it.lag_us / it.turns : null) },
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
    [t('Newest scheduled backup'), newestBackup(readings.backup_newest_timestamp_seconds)],
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
