// Who makes the load: names with most traffic, or for which most bytes wait.

import { ask, withQuery } from './api.js';
import { h, put } from './dom.js';
import { choice, field } from './forms.js';
import { bytes, duration, loaded, name, number, refresher, sortable, toolCard } from './show.js';
import { t } from './texts.js';

/** Entries of the list. */
const SHOWN_MAX = 100;

/** What is ranked. @type {[string, string][]} */
const KINDS = [['clients', t('Clients')], ['users', t('Users')], ['topics', t('Topics')], ['groups', t('Groups')], ['addresses', t('Source addresses')]];

/** What it is ranked by. @type {[string, string][]} */
const ORDERS = [['bytes', t('Bytes')], ['messages', t('Messages')], ['memory', t('Waiting bytes')]];

/** Kinds whose waiting bytes are known. */
const WAITS = ['clients', 'users', 'addresses'];

/** Where an entry of a kind is shown. @type {Record<string, (name: string) => string>} */
const PLACES = {
  clients: it => `clients?prefix=${encodeURIComponent(it)}`, users: it => `clients?user=${encodeURIComponent(it)}`,
  topics: it => `topics?topic=${encodeURIComponent(it)}`, groups: it => `groups?group=${encodeURIComponent(it)}`,
  addresses: it => `clients?address=${encodeURIComponent(it)}`,
};

/** @param {import('./console.js').Place} place */
function show(place) {
  const of = KINDS.some(([kind]) => kind === place.query.get('of')) ? String(place.query.get('of')) : 'clients';
  const orders = ORDERS.filter(([order]) => order !== 'memory' || WAITS.includes(of));
  const wanted = place.query.get('by');
  const by = orders.some(([order]) => order === wanted) ? String(wanted) : 'bytes';
  const order = choice('by', orders);
  order.value = by;
  order.addEventListener('change', () => place.go({ of, by: order.value }));
  const list = h('div');
  const look = () => loaded(list, async () => {
    const { entries, since_ms, at_ms } = /** @type {any} */ (await ask('GET', withQuery(`v1/top/${of}`, { by, limit: SHOWN_MAX }), undefined, place.gone));
    const none = (/** @type {any} */ value, /** @type {(value: number) => string} */ format) => (value === null ? '–' : format(value));
    return [h('p', { class: 'quiet' }, t('Traffic of the last {time}.', { time: duration(at_ms - since_ms) })),
      sortable(place, t('Names with most traffic'), [
        { title: t('Name'), sort: 'name', head: true, cell: it => h('a', { href: `#/${PLACES[of](it.name)}` }, name(it.name)) },
        { title: t('Messages in'), sort: 'messages_in', end: true, cell: it => number(it.messages_in) },
        { title: t('Messages out'), sort: 'messages_out', end: true, cell: it => none(it.messages_out, number) },
        { title: t('Bytes in'), sort: 'bytes_in', end: true, cell: it => bytes(it.bytes_in) },
        { title: t('Bytes out'), sort: 'bytes_out', end: true, cell: it => bytes(it.bytes_out) },
        { title: t('Waiting bytes'), sort: 'memory_bytes', end: true, cell: it => none(it.memory_bytes, bytes) },
      ], entries, t('No traffic.'))];
  });
  put(place.root,
    h('nav', { class: 'tabs', 'aria-label': t('What is ranked') }, KINDS.map(([kind, label]) =>
      h('a', { href: `#/talkers?of=${kind}`, 'aria-current': of === kind ? 'true' : undefined }, label))),
    h('div', { class: 'filter' }, field(t('Ranked by'), order, t('Bytes or messages of the last one to two minutes, or bytes that wait now. Default: bytes.'))),
    toolCard(t('Names with most traffic'), refresher(place, list, () => look()), list));
  look();
}

export const page = { title: t('Top talkers'), scopes: ['read'], lead: t('Who makes the load. Under load, traffic is sampled: the shares are right on average.'), show };
