// Clients of topics, their sessions, and devices: found, looked at, sent away.

import { ask, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { ago, badge, button, bytes, card, field, loaded, moment, name, notice, number, online, pairs, sure, table } from './show.js';

/** @typedef {import('./console.js').Place} Place */

/** Entries on a page. */
const PAGE = 100;

/** Pages that are looked through for what is rare before one is told how far it came. */
const SCANS_MAX = 20;

/**
 * A form that looks for something: what is wanted is in the address.
 * @param {Place} place
 * @param {[string, HTMLInputElement | HTMLSelectElement][]} fields label and input, whose name is the query's
 */
export function search(place, fields) {
  const form = h('form', { class: 'filter', role: 'search' }, fields.map(([label, input]) => field(label, input)),
    h('button', { type: 'submit' }, 'Search'));
  for (const [, input] of fields) input.value = place.query.get(input.name) ?? '';
  form.addEventListener('submit', event => {
    event.preventDefault();
    place.go(Object.fromEntries(fields.map(([, input]) => [input.name, input.value.trim()])));
  });
  return form;
}

/** A field of such a form. @param {string} of @param {string} [like] */
export const text = (of, like) => h('input', { name: of, type: 'search', autocomplete: 'off', spellcheck: 'false', placeholder: like });

/** @param {string} of @param {[string, string][]} options value and label */
export const choice = (of, options) => h('select', { name: of }, options.map(([value, label]) => h('option', { value }, label)));

const STATES = /** @type {[string, string][]} */ ([['', 'All'], ['true', 'Online'], ['false', 'Offline']]);

/**
 * A list that is read page by page.
 * @param {Place} place
 * @param {string} title
 * @param {(after: string | null) => Promise<{ rows: any[], next: string | null }>} read
 * @param {(rows: any[]) => Element} draw
 */
export function pages(place, title, read, draw) {
  const list = h('div');
  const foot = h('div', { class: 'row' });
  /** @type {any[]} */
  let rows = [];
  const load = (/** @type {string | null} */ after) => loaded(list, async () => {
    let next = after;
    const before = rows.length;
    // A page may be empty and have more behind it.
    for (let scans = 0; scans < SCANS_MAX; scans++) {
      const page = await read(next);
      rows = rows.concat(page.rows);
      next = page.next;
      if (!next || rows.length - before >= PAGE) break;
    }
    const more = next && button('Show more', () => load(next), { class: 'second' });
    set(foot, h('span', { class: 'quiet', role: 'status' }, `${number(rows.length)} shown${next ? ', there may be more' : ''}`), more);
    return draw(rows);
  });
  load(null);
  put(place.root, card(title, list, foot));
}

/** @param {string} id */
const clientLink = id => h('a', { href: `#/clients?client_id=${encodeURIComponent(id)}` }, name(id));

/** @param {string} id @param {Record<string, any>} [more] */
const clientPath = (id, more) => withQuery('v1/client', { client_id: id, ...more });

/** @param {Place} place */
function showClients(place) {
  const one = place.query.get('client_id');
  if (one !== null) return showClient(place, one);
  put(place.root, search(place, [
    ['Identifier begins with', text('prefix')], ['User', text('user')], ['Address', text('address', '192.0.2.7')],
    ['State', choice('online', STATES)],
  ]));
  pages(place, 'Clients', async after => {
    const { query } = place;
    const { clients, next } = await ask('GET', withQuery('v1/clients', {
      prefix: query.get('prefix'), user: query.get('user'), address: query.get('address'),
      online: query.get('online'), after, limit: PAGE,
    }), undefined, place.gone);
    return { rows: clients, next };
  }, rows => table('Clients', [
    { title: 'Client', head: true, cell: it => clientLink(it.client_id) },
    { title: 'User', cell: it => (it.user === null ? h('span', { class: 'quiet' }, 'none') : name(it.user)) },
    { title: 'State', cell: it => online(it.online) },
    { title: 'Protocol', cell: it => it.protocol },
    { title: 'Address', cell: it => it.peer ?? '–' },
    { title: 'Since', cell: it => ago(it.since_ms) },
    { title: 'Waiting', end: true, cell: it => number(it.queued) },
    { title: 'Lost', end: true, cell: it => number(it.dropped) },
  ], rows, 'Nobody. A client of MQTT is here while it has a session: mosquitto_sub -t test connects one.'));
}

/** @param {Place} place @param {string} id */
function showClient(place, id) {
  const back = h('p', {}, h('a', { href: '#/clients' }, '← All clients'));
  const state = h('div');
  const subscriptions = h('div');
  const past = h('div');
  const wish = h('input', { name: 'filter', required: true, autocomplete: 'off' });
  const look = () => Promise.all([
    loaded(past, () => history(place, { client: id })),
    loaded(state, async () => clientState(await ask('GET', clientPath(id), undefined, place.gone))),
    loaded(subscriptions, async () => {
      const told = await ask('GET', withQuery('v1/client/subscriptions', { client_id: id }), undefined, place.gone);
      return table('Subscriptions', [
        { title: 'Filter', head: true, cell: it => name(it.filter) },
        { title: 'QoS', end: true, cell: it => String(it.granted) },
        { title: 'Options', cell: it => [it.no_local && 'no local', it.retain_as_published && 'keeps retain'].filter(Boolean).join(', ') || '–' },
        { title: '', end: true, cell: it => place.may('manage') && button('End', async () => {
          await ask('DELETE', withQuery('v1/client/subscriptions', { client_id: id, filter: it.filter }));
          await look();
        }, { class: 'second small', 'aria-label': `End the subscription to ${it.filter}` }) },
      ], told.subscriptions, 'It has none.');
    }),
  ]);
  const acts = place.may('manage') && h('div', { class: 'row' },
    button('End its connection', async () => {
      if (!await sure(`End the connection of ${id}?`, 'End it', 'It may come back at once; its session stays.')) return;
      const { was_online: was } = await ask('DELETE', clientPath(id));
      notice(was ? `The connection of ${id} was ended.` : `${id} had no connection.`);
      await look();
    }, { class: 'danger', id: 'kick' }),
    button('Forget its session', async () => {
      if (!await sure(`Forget the session of ${id}?`, 'Forget it', 'Its subscriptions and everything that waits for it are lost.')) return;
      await ask('DELETE', clientPath(id, { session: true }));
      notice(`The session of ${id} is gone.`);
      location.hash = '#/clients';
    }, { class: 'second' }),
    button('Look again', look, { class: 'second' }));
  const trace = place.may('admin') && h('p', {}, h('a', { href: `#/trace?client=${encodeURIComponent(id)}` }, 'Trace it: see what it says'));
  const subscribe = place.may('manage') && h('form', { class: 'filter' }, field('Subscribe it to', wish),
    h('button', { type: 'submit', class: 'second' }, 'Subscribe'));
  subscribe && subscribe.addEventListener('submit', async event => {
    event.preventDefault();
    await ask('POST', withQuery('v1/client/subscriptions', { client_id: id }), { filter: wish.value, qos: 1 });
    wish.value = '';
    await look();
  });
  put(place.root, back, h('section', { class: 'card' }, h('h2', {}, 'Client ', name(id)), state, acts, trace),
    card('Subscriptions', subscriptions, subscribe), card('When it came and went', past));
  look();
}

/** @param {any} it */
const clientState = it => pairs([
  ['State', online(it.online)], [it.online ? 'Came' : 'Went', ago(it.since_ms)], ['User', it.user === null ? 'none' : name(it.user)],
  ['Protocol', it.protocol], ['Address', it.peer ?? '–'], ['Last seen for certain', ago(it.seen_ms)],
  ['Why it went', it.reason ? h('a', { href: '#/closes' }, it.reason) : '–'],
  ['Keep-alive', it.keep_alive_s ? `${it.keep_alive_s} s` : 'none'],
  ['Its session outlives it', it.session_expiry_s === null ? 'for ever' : `${number(it.session_expiry_s)} s`],
  ['Subscriptions', number(it.subscriptions)], ['On the way', number(it.inflight)], ['Waiting', number(it.queued)],
  ['Bytes that wait', bytes(it.queued_bytes)], ['Lost since the session began', number(it.dropped)],
  ['Will', it.has_will ? 'yes' : 'no'],
]);

/** @param {Place} place */
function showSessions(place) {
  const figures = h('div');
  put(place.root, card('All together', figures), search(place, [
    ['Identifier begins with', text('prefix')],
    ['Shown', choice('kind', [['', 'Offline sessions'], ['waiting', 'Offline, with messages that wait'], ['all', 'All sessions']])],
  ]));
  if (place.may('metrics')) {
    place.live(({ status }) => set(figures, pairs([
      ['Sessions', number(status.sessions)], ['Online', number(status.sessions_online)],
      ['Messages that wait', number(status.queued)], ['Their bytes in memory', bytes(status.queued_bytes)],
      ['Subscriptions', number(status.subscriptions)], ['Ended by expiry', number(status.counters.sessions_expired_total)],
    ])));
  }
  const kind = place.query.get('kind') ?? '';
  pages(place, 'Sessions', async after => {
    const { clients, next } = await ask('GET', withQuery('v1/clients', {
      prefix: place.query.get('prefix'), online: kind === 'all' ? null : false,
      queued_min: kind === 'waiting' ? 1 : null, after, limit: PAGE,
    }), undefined, place.gone);
    return { rows: clients, next };
  }, rows => table('Sessions', [
    { title: 'Client', head: true, cell: it => clientLink(it.client_id) },
    { title: 'State', cell: it => online(it.online) },
    { title: 'Since', cell: it => ago(it.since_ms) },
    { title: 'Ends', cell: it => (it.online ? '–' : it.session_expiry_s === null ? 'never' : moment(it.since_ms + it.session_expiry_s * 1_000)) },
    { title: 'Waiting', end: true, cell: it => number(it.queued) },
    { title: 'Bytes', end: true, cell: it => bytes(it.queued_bytes) },
    { title: 'Lost', end: true, cell: it => number(it.dropped) },
  ], rows, 'There is none: every session has its client.'));
}

/** @param {Place} place */
function showDevices(place) {
  const [product, device] = [place.query.get('product'), place.query.get('device')];
  if (product && device) return showDevice(place, product, device);
  put(place.root, search(place, [
    ['Product', text('product')], ['Tag', text('tag')], ['State', choice('online', STATES)],
    ['Device of the product', text('device')],
  ]));
  pages(place, 'Devices', async after => {
    const { devices, next } = await ask('GET', withQuery('v1/devices', {
      product, tag: place.query.get('tag'), online: place.query.get('online'), after, limit: PAGE,
    }), undefined, place.gone);
    return { rows: devices, next };
  }, rows => table('Devices', [
    { title: 'Device', head: true, cell: it => h('a', { href: `#/devices?${new URLSearchParams({ product: it.product, device: it.device })}` }, name(it.device)) },
    { title: 'Product', cell: it => it.product },
    { title: 'State', cell: it => [online(it.online), it.blocked && badge('blocked', 'bad')] },
    { title: 'Protocol', cell: it => it.protocol || '–' },
    { title: 'Since', cell: it => ago(it.since_ms) },
    { title: 'Waiting', end: true, cell: it => number(it.waiting) },
    { title: 'Tags', cell: it => it.tags.join(', ') || '–' },
  ], rows, 'Nobody. A device is here from its first Bind on.'));
}

/**
 * The last times that a device or client came and went.
 * @param {Place} place
 * @param {Record<string, string>} of who
 */
async function history(place, of) {
  const { transitions } = await ask('GET', withQuery('v1/presence/history', { ...of, limit: 50 }), undefined, place.gone);
  return table('History', [
    { title: 'When', head: true, cell: it => moment(it.at_ms) },
    { title: 'State', cell: it => online(it.online) },
    { title: 'Protocol', cell: it => it.protocol },
    { title: 'From', cell: it => it.peer ?? '–' },
    { title: 'Why it went', cell: it => it.reason ?? '–' },
    { title: 'Server', cell: it => `${it.node}, start ${it.boot}` },
  ], transitions.reverse(), 'The history has nothing of it: it came before the oldest line that is kept, or never.');
}

/** @param {Place} place @param {string} product @param {string} device */
function showDevice(place, product, device) {
  const of = { product, device };
  const state = h('div');
  const past = h('div');
  const look = () => Promise.all([loaded(past, () => history(place, of)), loaded(state, async () => {
    const it = await ask('GET', withQuery('v1/device', of), undefined, place.gone);
    const manage = place.may('manage') && h('div', { class: 'row' },
      button('End its connection', async () => {
        if (!await sure(`End the connection of ${device}?`, 'End it', 'It may come back at once.')) return;
        await ask('POST', withQuery('v1/device/kick', of));
        notice(`${device} was told to go.`);
        await look();
      }, { class: 'danger', id: 'kick' }),
      button(it.blocked ? 'Unblock' : 'Block', async () => {
        await ask(it.blocked ? 'DELETE' : 'PUT', withQuery('v1/device/block', of));
        await look();
      }, { class: 'second' }));
    return [pairs([
      ['State', online(it.online)], ['Since', ago(it.since_ms)], ['Product', it.product], ['Protocol', it.protocol || '–'],
      ['Last seen for certain', ago(it.seen_ms)], ['Why it went', it.reason ?? '–'], ['Heartbeat', it.online ? `${it.heartbeat_s} s` : '–'],
      ['Pushes on the way', number(it.inflight)], ['Pushes that wait', number(it.waiting)], ['Tags', it.tags.join(', ') || '–'],
      ['Blocked', it.blocked ? 'yes' : 'no'], ['Session', it.epoch],
    ]), manage];
  })]);
  put(place.root, h('p', {}, h('a', { href: '#/devices' }, '← All devices')),
    h('section', { class: 'card' }, h('h2', {}, 'Device ', name(device)), state, h('div', { class: 'row' },
      button('Look again', look, { class: 'second' }),
      place.may('push') && h('a', { href: `#/push?${new URLSearchParams(of)}` }, 'Push to it'),
      place.may('admin') && h('a', { href: `#/trace?client=${encodeURIComponent(device)}` }, 'Trace it'))),
    card('When it came and went', past));
  look();
}

export const page = { title: 'Clients', scopes: ['read'], lead: 'Clients of topics (MQTT), online or with a session. An address finds those that are online from there.', show: showClients };
export const sessions = { title: 'Sessions and queues', scopes: ['read'], lead: 'Sessions that outlive their connection, and what waits in them.', show: showSessions };
export const devices = { title: 'Devices', scopes: ['read'], lead: 'Devices that receive pushes (MIOP).', show: showDevices };
