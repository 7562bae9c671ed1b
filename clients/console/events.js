// Live events: connections, disconnections with their reasons, dropped messages.

import { follow, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { choice, search, text } from './forms.js';
import { badge, card, name, number, table, when } from './show.js';
import { t } from './texts.js';

/** Events that are kept on the page. */
const KEPT_MAX = 200;

/** Time between two drawings, milliseconds: there may be thousands of events a second. */
const DRAW_MS = 250;

const TYPES = ['online', 'offline', 'report', 'pushed', 'client_connected', 'client_disconnected', 'client_refused',
  'session_ended', 'client_subscribed', 'client_unsubscribed', 'messages_dropped'];

/** @param {any} it */
const whose = it => (it.device !== undefined
  ? h('a', { href: `#/devices?${new URLSearchParams({ product: it.product, device: it.device })}` }, name(it.device))
  : it.client_id !== undefined
    ? h('a', { href: `#/clients?client_id=${encodeURIComponent(it.client_id)}` }, name(it.client_id))
    : '–');

/** @param {any} it */
function about(it) {
  const parts = [it.protocol, it.peer, it.resumed && t('session resumed'), it.reason && h('a', { href: '#/closes' }, it.reason),
    it.outcome, it.filter && name(it.filter), it.count !== undefined && t('{count} dropped', { count: number(it.count) }), it.body && name(it.body)];
  return parts.filter(Boolean).flatMap((part, at) => (at ? [', ', part] : [part]));
}

/** @param {string} type */
const kind = type => (/^(online|client_connected)$/.test(type) ? 'good' : /refused|dropped/.test(type) ? 'bad' : 'off');

/**
 * A list of events, the newest first, beginning with those that the server still stores.
 * @param {import('./console.js').Place} place
 * @param {string[]} types
 * @param {(event: any) => boolean} wanted
 * @param {string} none
 * @param {Record<string, string | null>} [query]
 */
export function watch(place, types, wanted, none, query = {}) {
  const list = h('div', { 'aria-busy': 'true' }); // until what comes is heard
  /** @type {any[]} */
  let kept = [];
  let lost = 0;
  let isReplay = true; // what is missing before the first event was not kept, and nobody lost it
  let last = 'none'; // no id of this server: it tells all that it remembers
  let timer = 0;
  const draw = () => {
    timer = 0;
    set(list, lost > 0 && h('p', { class: 'quiet' }, t('At least {count} events are missing: they arrived faster than the page could show them.', { count: number(lost) })),
      table(t('Events'), [
        { title: t('Time'), head: true, cell: it => when(it.at_ms) },
        { title: t('Event'), cell: it => badge(it.type, /** @type {any} */ (kind(it.type))) },
        { title: t('Client'), cell: whose },
        { title: t('Details'), cell: about },
      ], [...kept].reverse(), none));
  };
  const soon = () => (timer ||= window.setTimeout(draw, DRAW_MS));
  const heard = Object.fromEntries(types.map(type => [type, (/** @type {any} */ it, /** @type {string} */ id) => {
    last = id;
    isReplay = false;
    if (!wanted(it)) return;
    kept.push(it);
    if (kept.length > KEPT_MAX) kept = kept.slice(-KEPT_MAX);
    soon();
  }]));
  const end = follow(() => withQuery('v1/events', { type: types.join(','), last_event_id: last, ...query }), {
    ...heard,
    gap: told => {
      if (isReplay) return;
      lost += told.lost ?? 0;
      soon();
    },
  }, state => (state === 'live' ? list.removeAttribute('aria-busy') : list.setAttribute('aria-busy', 'true')));
  place.gone.addEventListener('abort', () => {
    end();
    clearTimeout(timer);
  });
  draw();
  return list;
}

/** @param {import('./console.js').Place} place */
function show(place) {
  const { query } = place;
  put(place.root, search(place, [
    [t('Event'), choice('type', [['', t('All')], ...TYPES.map(it => /** @type {[string, string]} */ ([it, it]))]), t('The type of the events. Default: all.')],
    [t('Product (devices only)'), text('product'), t('The exact name of the product.')], [t('Contains'), text('with'), t('Text in any field of the event, in upper or lower case.')],
  ]));
  const type = query.get('type');
  const sought = (query.get('with') ?? '').toLowerCase();
  const types = type && TYPES.includes(type) ? [type] : TYPES;
  const wanted = (/** @type {any} */ it) => !sought || JSON.stringify(Object.values(it)).toLowerCase().includes(sought);
  const list = watch(place, types, wanted, t('No events yet. The server stores events only while a page, webhook or stream listens.'), { product: query.get('product') });
  put(place.root, card(t('The newest {count}, live', { count: KEPT_MAX }), list));
}

export const page = { title: t('Events'), scopes: ['read'], lead: t('Connections, disconnections with their reasons, and dropped messages, live.'), show };
