// Who cannot keep up: by what waits, by what was lost, and whose connection ended for it.

import { ask, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { bytes, card, loaded, name, number, online, pairs, table } from './show.js';
import { watch } from './events.js';

/** Entries that are read to find those with most. */
const READ_MAX = 5_000;

/** Entries of the list. */
const SHOWN_MAX = 100;

/** @param {import('./console.js').Place} place */
function show(place) {
  const by = place.query.get('by') === 'lost' ? 'lost' : 'waiting';
  const [totals, list] = [h('div'), h('div')];
  const tab = (/** @type {string} */ to, /** @type {string} */ label) =>
    h('a', { href: `#/slow?by=${to}`, 'aria-current': by === to ? 'true' : undefined }, label);
  put(place.root, card('All together', totals),
    h('nav', { class: 'tabs', 'aria-label': 'Order' }, tab('waiting', 'By bytes that wait'), tab('lost', 'By messages lost')),
    card(by === 'lost' ? 'Clients that lost messages' : 'Clients for whom messages wait', list));
  if (place.may('metrics')) {
    place.live(({ status }) => set(totals, pairs([
      ['Connections ended as slow', number(status.closed.slow_consumer)],
      ['QoS 0 lost to slow readers', number(status.dropped.slow_reader)],
      ['Lost to full queues, by count', number(status.dropped.queue_count)],
      ['Lost to full queues, by bytes', number(status.dropped.queue_bytes)],
      ['Messages that wait', number(status.queued)], ['Times a client was read more slowly', number(status.counters.reads_held_total)],
    ])));
  }
  loaded(list, async () => {
    /** @type {any[]} */
    let found = [];
    let after = null;
    let reads = 0;
    do {
      const page = /** @type {any} */ (await ask('GET', withQuery('v1/clients', {
        queued_min: by === 'waiting' ? 1 : null, dropped_min: by === 'lost' ? 1 : null, after, limit: 1_000,
      }), undefined, place.gone));
      found = found.concat(page.clients);
      after = page.next;
    } while (after && found.length < READ_MAX && ++reads < 100);
    const most = by === 'lost' ? (/** @type {any} */ it) => it.dropped : (/** @type {any} */ it) => it.queued_bytes;
    found.sort((a, b) => most(b) - most(a));
    return [table('Clients, worst first', [
      { title: 'Client', head: true, cell: it => h('a', { href: `#/clients?client_id=${encodeURIComponent(it.client_id)}` }, name(it.client_id)) },
      { title: 'State', cell: it => online(it.online) },
      { title: 'Address', cell: it => it.peer ?? '–' },
      { title: 'On the way', end: true, cell: it => number(it.inflight) },
      { title: 'Waiting', end: true, cell: it => number(it.queued) },
      { title: 'Bytes', end: true, cell: it => bytes(it.queued_bytes) },
      { title: 'Lost', end: true, cell: it => number(it.dropped) },
    ], found.slice(0, SHOWN_MAX), 'Nobody: everybody keeps up.'),
    found.length > SHOWN_MAX && h('p', { class: 'quiet' }, `The worst ${SHOWN_MAX} of ${number(found.length)}${after ? ' that were looked at; there are more' : ''}.`)];
  });
  const events = watch(place, ['messages_dropped', 'client_disconnected', 'offline'],
    it => it.type === 'messages_dropped' || it.reason === 'slow_consumer',
    'None yet. The server remembers events only while somebody listens.');
  put(place.root, card('Losses and ends, newest first', events));
}

export const page = { title: 'Slow consumers', scopes: ['read'], lead: 'Clients that do not take what is sent to them as fast as it comes.', show };
