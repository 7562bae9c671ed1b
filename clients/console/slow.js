// Slow clients: by queued bytes, by dropped messages, and live disconnections for that reason.

import { ask, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { bytes, card, loaded, name, number, online, pairs, refresher, sortable, toolCard } from './show.js';
import { watch } from './events.js';
import { t } from './texts.js';

/** Entries that are read to find those with most. */
const READ_MAX = 5_000;

/** Entries of the list. */
const SHOWN_MAX = 100;

/** @param {string} id */
const link = id => h('a', { href: `#/clients?client_id=${encodeURIComponent(id)}` }, name(id));

/** Bytes at the last look at a connection; null before the first one. @param {number | null} of */
const sampled = of => (of === null ? h('span', { title: t('not sampled yet') }, '–') : bytes(of));

/** Clients for which something waits now, in their session, the server's queue or the socket. @param {import('./console.js').Place} place */
async function waiting(place) {
  const { clients, total } = /** @type {any} */ (await ask('GET', withQuery('v1/slow_clients', { limit: SHOWN_MAX }), undefined, place.gone));
  return [sortable(place, t('Clients, worst first'), [
    { title: t('Client'), sort: 'client_id', head: true, cell: it => (it.protocol === 'mqtt' ? link(it.client_id) : name(it.client_id)) },
    { title: t('User'), sort: 'user', cell: it => (it.user === null ? '–' : name(it.user)) },
    { title: t('Protocol'), sort: 'protocol', cell: it => it.protocol },
    { title: t('Queued'), sort: 'queued', end: true, cell: it => number(it.queued) },
    { title: t('Bytes in the queue'), sort: 'queue_bytes', end: true, cell: it => sampled(it.queue_bytes) },
    { title: t('Bytes in the socket'), sort: 'socket_bytes', end: true, cell: it => sampled(it.socket_bytes) },
    { title: t('Bytes read per second'), sort: 'bytes_per_s', end: true, cell: it => (it.stalled ? t('stalled') : sampled(it.bytes_per_s)) },
    { title: t('Dropped'), sort: 'dropped', end: true, cell: it => number(it.dropped) },
  ], clients, t('No slow clients.')),
  total > clients.length && h('p', { class: 'quiet' }, t('The worst {shown} of {count}.', { shown: clients.length, count: number(total) }))];
}

/** Clients that lost messages since their session began. @param {import('./console.js').Place} place */
async function lost(place) {
  /** @type {any[]} */
  let found = [];
  let after = null;
  let reads = 0;
  do {
    const page = /** @type {any} */ (await ask('GET', withQuery('v1/clients', { dropped_min: 1, after, limit: 1_000 }), undefined, place.gone));
    found = found.concat(page.clients);
    after = page.next;
  } while (after && found.length < READ_MAX && ++reads < 100);
  found.sort((a, b) => b.dropped - a.dropped);
  return [sortable(place, t('Clients, worst first'), [
    { title: t('Client'), sort: 'client_id', head: true, cell: it => link(it.client_id) },
    { title: t('State'), sort: 'online', cell: it => online(it.online) },
    { title: t('Address'), sort: 'peer', cell: it => it.peer ?? '–' },
    { title: t('In flight'), sort: 'inflight', end: true, cell: it => number(it.inflight) },
    { title: t('Queued'), sort: 'queued', end: true, cell: it => number(it.queued) },
    { title: t('Queued bytes'), sort: 'queued_bytes', end: true, cell: it => bytes(it.queued_bytes) },
    { title: t('Dropped'), sort: 'dropped', end: true, cell: it => number(it.dropped) },
  ], found.slice(0, SHOWN_MAX), t('No slow clients.')),
  found.length > SHOWN_MAX && h('p', { class: 'quiet' }, after
    ? t('The worst {shown} of the first {count} matches; there are more.', { shown: SHOWN_MAX, count: number(found.length) })
    : t('The worst {shown} of {count}.', { shown: SHOWN_MAX, count: number(found.length) }))];
}

/** @param {import('./console.js').Place} place */
function show(place) {
  const by = place.query.get('by') === 'lost' ? 'lost' : 'waiting';
  const [totals, list] = [h('div'), h('div')];
  const tab = (/** @type {string} */ to, /** @type {string} */ label) =>
    h('a', { href: `#/slow?by=${to}`, 'aria-current': by === to ? 'true' : undefined }, label);
  put(place.root, card(t('Totals'), totals),
    h('nav', { class: 'tabs', 'aria-label': t('Order') }, tab('waiting', t('By waiting bytes')), tab('lost', t('By dropped messages'))),
    toolCard(by === 'lost' ? t('Clients with dropped messages') : t('Clients with waiting messages'), refresher(place, list, () => look()), list));
  if (place.may('metrics')) {
    place.live(({ status }) => set(totals, pairs([
      [t('Disconnected as slow'), number(status.closed.slow_consumer)],
      [t('QoS 0 dropped: slow reader'), number(status.dropped.slow_reader)],
      [t('Dropped: queue full (count)'), number(status.dropped.queue_count)],
      [t('Dropped: queue full (bytes)'), number(status.dropped.queue_bytes)],
      [t('Queued messages'), number(status.queued)], [t('Clients throttled (times)'), number(status.counters.reads_held_total)],
    ])));
  }
  const look = () => loaded(list, async () => (by === 'lost' ? lost(place) : waiting(place)));
  look();
  const events = watch(place, ['messages_dropped', 'client_disconnected', 'offline'],
    it => it.type === 'messages_dropped' || it.reason === 'slow_consumer',
    t('None yet. The server stores events only while a page, webhook or stream listens.'));
  put(place.root, card(t('Drops and disconnections, newest first'), events));
}

export const page = { title: t('Slow clients'), scopes: ['read'], lead: t('Clients that read more slowly than messages arrive for them.'), show };
