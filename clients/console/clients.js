// MQTT clients, their sessions, and devices: lists, details, disconnecting.

import { ask, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { Invalid, blame, choice, field, search, submits, text } from './forms.js';
import { ago, badge, button, bytes, card, duration, loaded, name, notice, number, online, pairs, refresher, sortable, sure, table, toolCard, when } from './show.js';
import { parts, t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** Entries on a page. */
const PAGE = 100;

/** Pages that one request for more reads at most: a rare match takes several. */
const SCANS_MAX = 20;

const STATES = /** @type {[string, string][]} */ ([['', t('All')], ['true', t('Online')], ['false', t('Offline')]]);

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
  let wanted = PAGE;
  const load = (/** @type {string | null} */ after) => loaded(list, async () => {
    let next = after;
    let found = after ? rows : [];
    // A page may be empty and have more behind it.
    for (let scans = 0; scans < SCANS_MAX; scans++) {
      const page = await read(next);
      found = found.concat(page.rows);
      next = page.next;
      if (!next || found.length >= wanted) break;
    }
    rows = found;
    const more = next && button(t('Show more'), () => {
      wanted = rows.length + PAGE;
      return load(next);
    }, { class: 'second' });
    set(foot, h('span', { class: 'quiet', role: 'status' }, next ? t('{count} shown and sorted, more available', { count: number(rows.length) }) : t('{count} shown', { count: number(rows.length) })), more);
    return draw(rows);
  });
  load(null);
  put(place.root, toolCard(title, refresher(place, list, () => load(null)), list, foot));
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
    [t('Client ID begins with'), text('prefix'), t('The first characters of the client ID.')], [t('User'), text('user'), t('The exact name of the user.')],
    [t('Address'), text('address', '192.0.2.7'), t('An IP address. Finds online clients only.')],
    [t('State'), choice('online', STATES), t('Connected now, or offline with a session. Default: all.')],
  ]));
  pages(place, t('Clients'), async after => {
    const { query } = place;
    const { clients, next } = await ask('GET', withQuery('v1/clients', {
      prefix: query.get('prefix'), user: query.get('user'), address: query.get('address'),
      online: query.get('online'), after, limit: PAGE,
    }), undefined, place.gone);
    return { rows: clients, next };
  }, rows => sortable(place, t('Clients'), [
    { title: t('Client'), sort: 'client_id', head: true, cell: it => clientLink(it.client_id) },
    { title: t('User'), sort: 'user', cell: it => (it.user === null ? h('span', { class: 'quiet' }, t('none')) : name(it.user)) },
    { title: t('State'), sort: 'online', cell: it => online(it.online) },
    { title: t('Protocol'), sort: 'protocol', cell: it => it.protocol },
    { title: t('Address'), sort: 'peer', cell: it => it.peer ?? '–' },
    { title: t('Since'), sort: 'since_ms', cell: it => ago(it.since_ms) },
    { title: t('Queued'), sort: 'queued', end: true, cell: it => number(it.queued) },
    { title: t('Dropped'), sort: 'dropped', end: true, cell: it => number(it.dropped) },
  ], rows, t('No clients. Connect one with: mosquitto_sub -t test')));
}

/** @param {Place} place @param {string} id */
function showClient(place, id) {
  const back = h('p', {}, h('a', { href: '#/clients' }, t('← All clients')));
  const state = h('div');
  const subscriptions = h('div');
  const past = h('div');
  const wish = h('input', { name: 'filter', required: true, autocomplete: 'off' });
  const look = () => Promise.all([
    loaded(past, () => history(place, { client: id })),
    loaded(state, async () => clientState(await ask('GET', clientPath(id), undefined, place.gone))),
    loaded(subscriptions, async () => {
      const told = await ask('GET', withQuery('v1/client/subscriptions', { client_id: id }), undefined, place.gone);
      return sortable(place, t('Subscriptions'), [
        { title: t('Topic filter'), sort: 'filter', head: true, cell: it => name(it.filter) },
        { title: t('QoS'), sort: 'granted', end: true, cell: it => String(it.granted) },
        { title: t('Options'), cell: it => [it.no_local && t('no local'), it.retain_as_published && t('retain as published')].filter(Boolean).join(', ') || '–' },
        { title: '', end: true, cell: it => place.may('manage') && button(t('Unsubscribe'), async () => {
          await ask('DELETE', withQuery('v1/client/subscriptions', { client_id: id, filter: it.filter }));
          await look();
        }, { class: 'second small', 'aria-label': t('Unsubscribe from {filter}', { filter: it.filter }) }) },
      ], told.subscriptions, t('No subscriptions.'));
    }),
  ]);
  const acts = place.may('manage') && h('div', { class: 'row' },
    button(t('Disconnect'), async () => {
      if (!await sure(t('Disconnect {id}?', { id }), t('Disconnect client'), t('The client can reconnect at once; its session is kept.'))) return;
      const { was_online: was } = await ask('DELETE', clientPath(id));
      notice(was ? t('{id} was disconnected.', { id }) : t('{id} was not connected.', { id }));
      await look();
    }, { class: 'danger', id: 'kick' }),
    button(t('Delete session'), async () => {
      if (!await sure(t('Delete the session of {id}?', { id }), t('Delete session'), t('Its subscriptions and queued messages are deleted.'))) return;
      await ask('DELETE', clientPath(id, { session: true }));
      notice(t('The session of {id} was deleted.', { id }));
      location.hash = '#/clients';
    }, { class: 'second' }));
  const trace = place.may('trace') && h('p', {}, h('a', { href: `#/trace?client=${encodeURIComponent(id)}` }, t('Trace this client')));
  const subscribe = place.may('manage') && h('form', { class: 'filter' },
    field(t('Subscribe this client to'), wish, t('A topic filter, with the wildcards + and #: at most [mqtt] topic_bytes_max bytes (1,024 by default). The QoS is 1.')),
    h('button', { type: 'submit', class: 'second' }, t('Subscribe')));
  subscribe && submits(subscribe, async () => {
    await ask('POST', withQuery('v1/client/subscriptions', { client_id: id }), { filter: wish.value, qos: 1 });
    wish.value = '';
    await look();
  });
  put(place.root, back, toolCard(parts('Client {id}', { id: name(id) }), refresher(place, place.root, look), state, acts, trace),
    card(t('Subscriptions'), subscriptions, subscribe), card(t('Connection history'), past));
  look();
}

/** @param {any} it */
const clientState = it => pairs([
  [t('State'), online(it.online)], [it.online ? t('Connected') : t('Disconnected'), ago(it.since_ms)], [t('User'), it.user === null ? t('none') : name(it.user)],
  [t('Protocol'), it.protocol], [t('Address'), it.peer ?? '–'], [t('Last seen'), ago(it.seen_ms)],
  [t('Disconnect reason'), it.reason ? h('a', { href: '#/closes' }, it.reason) : '–'],
  [t('Keep-alive'), it.keep_alive_s ? duration(it.keep_alive_s * 1_000) : t('none')],
  [t('Session expiry'), it.session_expiry_s === null ? t('never') : duration(it.session_expiry_s * 1_000)],
  [t('Subscriptions'), number(it.subscriptions)], [t('In flight'), number(it.inflight)], [t('Queued'), number(it.queued)],
  [t('Queued bytes'), bytes(it.queued_bytes)], [t('Dropped in this session'), number(it.dropped)],
  [t('Will message'), it.has_will ? t('yes') : t('no')],
]);

/** When the session of an offline client expires; null: not. @param {any} it */
const ends = it => (it.online || it.session_expiry_s === null ? null : it.since_ms + it.session_expiry_s * 1_000);

/** @param {Place} place */
function showSessions(place) {
  const figures = h('div');
  put(place.root, card(t('Totals'), figures), search(place, [
    [t('Client ID begins with'), text('prefix'), t('The first characters of the client ID.')],
    [t('Show'), choice('kind', [['', t('Offline sessions')], ['waiting', t('Offline sessions with queued messages')], ['all', t('All sessions')]]), t('Which sessions are listed. Default: those of offline clients.')],
  ]));
  if (place.may('metrics')) {
    place.live(({ status }) => set(figures, pairs([
      [t('Sessions'), number(status.sessions)], [t('Online'), number(status.sessions_online)],
      [t('Queued messages'), number(status.queued)], [t('Queued bytes in memory'), bytes(status.queued_bytes)],
      [t('Subscriptions'), number(status.subscriptions)], [t('Expired sessions'), number(status.counters.sessions_expired_total)],
    ])));
  }
  const kind = place.query.get('kind') ?? '';
  pages(place, t('Sessions'), async after => {
    const { clients, next } = await ask('GET', withQuery('v1/clients', {
      prefix: place.query.get('prefix'), online: kind === 'all' ? null : false,
      queued_min: kind === 'waiting' ? 1 : null, after, limit: PAGE,
    }), undefined, place.gone);
    return { rows: clients, next };
  }, rows => sortable(place, t('Sessions'), [
    { title: t('Client'), sort: 'client_id', head: true, cell: it => clientLink(it.client_id) },
    { title: t('State'), sort: 'online', cell: it => online(it.online) },
    { title: t('Since'), sort: 'since_ms', cell: it => ago(it.since_ms) },
    { title: t('Expires'), sort: 'expires', by: ends, cell: it => (it.online ? '–' : it.session_expiry_s === null ? t('never') : when(ends(it))) },
    { title: t('Queued'), sort: 'queued', end: true, cell: it => number(it.queued) },
    { title: t('Queued bytes'), sort: 'queued_bytes', end: true, cell: it => bytes(it.queued_bytes) },
    { title: t('Dropped'), sort: 'dropped', end: true, cell: it => number(it.dropped) },
  ], rows, t('No matching sessions.')));
}

/** @param {Place} place */
function showDevices(place) {
  const [product, device] = [place.query.get('product'), place.query.get('device')];
  if (product && device) return showDevice(place, product, device);
  const form = search(place, [
    [t('Product'), text('product'), t('The exact name of the product.')], [t('Tag'), text('tag'), t('A tag that the device has.')],
    [t('State'), choice('online', STATES), t('Connected now, or offline. Default: all.')],
    [t('Device ID (with a product)'), text('device'), t('The exact device ID: opens the page of this device.')],
  ]);
  put(place.root, form);
  if (device && !product) {
    const of = /** @type {HTMLElement} */ (form.querySelector('[name="product"]'));
    return void blame(form, new Invalid(of, t('A search by device ID needs the product.')));
  }
  pages(place, t('Devices'), async after => {
    const { devices, next } = await ask('GET', withQuery('v1/devices', {
      product, tag: place.query.get('tag'), online: place.query.get('online'), after, limit: PAGE,
    }), undefined, place.gone);
    return { rows: devices, next };
  }, rows => sortable(place, t('Devices'), [
    { title: t('Device'), sort: 'device', head: true, cell: it => h('a', { href: `#/devices?${new URLSearchParams({ product: it.product, device: it.device })}` }, name(it.device)) },
    { title: t('Product'), sort: 'product', cell: it => it.product },
    { title: t('State'), sort: 'online', cell: it => [online(it.online), ' ', it.blocked && badge(t('blocked'), 'bad')] },
    { title: t('Protocol'), sort: 'protocol', cell: it => it.protocol || '–' },
    { title: t('Since'), sort: 'since_ms', cell: it => ago(it.since_ms) },
    { title: t('Queued'), sort: 'waiting', end: true, cell: it => number(it.waiting) },
    { title: t('Tags'), cell: it => it.tags.join(', ') || '–' },
  ], rows, t('No devices. A device is listed after its first connection.')));
}

/**
 * The last connections and disconnections of a device or client.
 * @param {Place} place
 * @param {Record<string, string>} of who
 */
async function history(place, of) {
  const { transitions } = await ask('GET', withQuery('v1/presence/history', { ...of, limit: 50 }), undefined, place.gone);
  return table(t('Connection history'), [
    { title: t('Time'), head: true, cell: it => when(it.at_ms) },
    { title: t('State'), cell: it => online(it.online) },
    { title: t('Protocol'), cell: it => it.protocol },
    { title: t('Address'), cell: it => it.peer ?? '–' },
    { title: t('Disconnect reason'), cell: it => it.reason ?? '–' },
    { title: t('Server'), cell: it => h('span', { title: t('Server start {boot}', { boot: it.boot }) }, it.node) },
  ], transitions.reverse(), t('No entries: it never connected, or longer ago than the history reaches.'));
}

/** @param {Place} place @param {string} product @param {string} device */
function showDevice(place, product, device) {
  const of = { product, device };
  const state = h('div');
  const past = h('div');
  const look = () => Promise.all([loaded(past, () => history(place, of)), loaded(state, async () => {
    const it = await ask('GET', withQuery('v1/device', of), undefined, place.gone);
    const manage = place.may('manage') && h('div', { class: 'row' },
      button(t('Disconnect'), async () => {
        if (!await sure(t('Disconnect {id}?', { id: device }), t('Disconnect device'), t('The device can reconnect at once.'))) return;
        await ask('POST', withQuery('v1/device/kick', of));
        notice(t('{id} was disconnected.', { id: device }));
        await look();
      }, { class: 'danger', id: 'kick' }),
      button(it.blocked ? t('Unblock') : t('Block'), async () => {
        await ask(it.blocked ? 'DELETE' : 'PUT', withQuery('v1/device/block', of));
        await look();
      }, { class: 'second' }));
    return [pairs([
      [t('State'), online(it.online)], [it.online ? t('Connected') : t('Disconnected'), ago(it.since_ms)], [t('Product'), it.product], [t('Protocol'), it.protocol || '–'],
      [t('Last seen'), ago(it.seen_ms)], [t('Disconnect reason'), it.reason ? h('a', { href: '#/closes' }, it.reason) : '–'],
      [t('Heartbeat'), it.online ? duration(it.heartbeat_s * 1_000) : '–'],
      [t('Pushes in flight'), number(it.inflight)], [t('Queued pushes'), number(it.waiting)], [t('Tags'), it.tags.join(', ') || '–'],
      [t('Blocked'), it.blocked ? t('yes') : t('no')], [t('Session'), it.epoch],
    ]), manage];
  })]);
  put(place.root, h('p', {}, h('a', { href: '#/devices' }, t('← All devices'))),
    toolCard(parts('Device {id}', { id: name(device) }), refresher(place, place.root, look), state, h('div', { class: 'row' },
      place.may('push') && h('a', { href: `#/push?${new URLSearchParams(of)}` }, t('Send a push')),
      place.may('trace') && h('a', { href: `#/trace?client=${encodeURIComponent(device)}` }, t('Trace this device')))),
    card(t('Connection history'), past));
  look();
}

export const page = { title: t('Clients'), scopes: ['read'], lead: t('MQTT clients that are online or have a session. A search by address finds online clients only.'), show: showClients };
export const sessions = { title: t('Sessions and queues'), scopes: ['read'], lead: t('MQTT sessions of offline clients, and their queued messages.'), show: showSessions };
export const devices = { title: t('Devices'), scopes: ['read'], lead: t('Devices that receive pushes (MIOP).'), show: showDevices };
