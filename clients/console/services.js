// Other services that the server uses, with their state and backlog: webhooks and their dead
// letters, the archive, the account database, the push gateway, bridges, federation, files.
//
// A service that is not configured has no readings and no card, but for the push gateway.

import { ask } from './api.js';
import { certificates } from './certificates.js';
import { h, put, set } from './dom.js';
import { badge, button, bytes, card, duration, loaded, name, notice, number, pairs, refresher, sortable, sure, toolCard } from './show.js';
import { parts, t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** Letters that are posted again by one press of a button. */
const LETTERS = 1_000;

const up = (/** @type {number} */ is) => (is ? badge(t('connected'), 'good') : badge(t('disconnected'), 'bad'));

/** The gateway reports 0 when it is not configured, too: unused, it is not a fault. @param {number} is @param {any} readings */
const gateway = (is, readings) =>
  (is || readings.push_gateway_requests_total || readings.push_gateway_waiting || readings.push_gateway_put_off_total
    ? up(is) : badge(t('not in use'), 'off'));

const seconds = (/** @type {number} */ s) => (s ? duration(s * 1_000) : '–');

/**
 * Cards: title, the reading that must exist, and the rows: label, reading and how it is shown.
 * @type {[string, string, [string, string, ((value: number, readings: any) => any)?][]][]}
 */
const CARDS = [
  [t('Message archive'), 'archive_up', [
    [t('State'), 'archive_up', up], [t('Queued messages'), 'archive_waiting'], [t('Oldest queued'), 'archive_waiting_seconds', seconds],
    [t('Archived'), 'archive_taken_total'], [t('Dropped'), 'archive_lost_total'], [t('Failed calls'), 'archive_faults_total'],
  ]],
  [t('Account database'), 'accounts_database_up', [
    [t('State'), 'accounts_database_up', up], [t('Accounts loaded'), 'accounts_database_loaded'],
    [t('Changes received'), 'accounts_database_changes_total'], [t('Failed calls'), 'accounts_database_faults_total'],
    [t('Changes refused while disconnected'), 'accounts_database_refused_total'], [t('Invalid rows'), 'accounts_database_rows_wrong_total'],
  ]],
  [t('LDAP server'), 'access_ldap_up', [
    [t('State'), 'access_ldap_up', up], [t('Logins checked'), 'access_ldap_asked_total'],
    [t('No connection'), 'access_ldap_unreachable_total'], [t('No answer in time'), 'access_ldap_timeout_total'],
    [t('TLS failed'), 'access_ldap_tls_total'], [t('Own login refused'), 'access_ldap_credentials_total'],
    [t('Invalid answers'), 'access_ldap_nonsense_total'], [t('Requests refused'), 'access_ldap_refused_total'],
    [t('Ambiguous users'), 'access_ldap_ambiguous_total'], [t('Users without a name'), 'access_ldap_unnamed_total'],
  ]],
  [t('Event stream'), 'events_stream_appended_total', [
    [t('State'), 'events_stream_away', value => up(value ? 0 : 1)], [t('Queued events'), 'events_stream_waiting'],
    [t('Appended'), 'events_stream_appended_total'], [t('Dropped'), 'events_stream_lost_total'], [t('Failed attempts'), 'events_stream_failures_total'],
  ]],
  [t('Push gateway'), 'push_gateway_up', [
    [t('State'), 'push_gateway_up', gateway], [t('Queued notifications'), 'push_gateway_waiting'], [t('Queued bytes'), 'push_gateway_waiting_bytes', bytes],
    [t('Accepted'), 'push_gateway_taken_total'], [t('Rejected'), 'push_gateway_refused_total'], [t('Failed, to be retried'), 'push_gateway_failed_total'],
    [t('Expired device tokens'), 'push_gateway_gone_total'], [t('To devices of this server'), 'push_hub_total'],
  ]],
  [t('Metrics by OTLP'), 'otlp_exports_total', [
    [t('Exports'), 'otlp_exports_total'], [t('Failed exports'), 'otlp_failures_total'],
  ]],
  [t('Files'), 'media_folder_bytes', [[t('Folder size'), 'media_folder_bytes', bytes]]],
  [t('Traces'), 'traces', [
    [t('Running'), 'traces'], [t('Events sent'), 'trace_events_total'], [t('Events skipped'), 'trace_events_left_out_total'],
  ]],
];

/** Counters of other domains and of the hook before a message is stored. @type {[string, [string, string][]][]} */
const COUNTED = [
  [t('Federation'), [
    [t('Messages sent'), 'chat_foreign_sent_total'], [t('Messages received'), 'chat_foreign_received_total'],
    [t('Dropped or rejected'), 'chat_foreign_dropped_total'],
  ]],
  [t('Message hook'), [
    [t('Messages checked'), 'chat_reviewed_total'], [t('Changed'), 'chat_reviews_changed_total'],
    [t('Refused'), 'chat_reviews_refused_total'], [t('No answer'), 'chat_reviews_missed_total'],
  ]],
];

/** @param {Place} place */
function show(place) {
  const [hooks, bridges, figures] = [h('div'), h('div'), h('div', { class: 'flow' })];
  if (place.may('metrics')) {
    const drawn = new Map();
    place.live(({ readings, status }) => {
      const cards = CARDS.filter(([, first]) => first in readings);
      for (const [title, , rows] of cards) {
        draw(figures, drawn, title, rows.map(([term, key, shown]) => [term, (shown ?? number)(readings[key], readings)]));
      }
      for (const [title, rows] of COUNTED) {
        draw(figures, drawn, title, rows.map(([term, key]) => [term, number(status.counters[key])]));
      }
    });
  }
  if (place.may('read')) {
    const lists = h('div', { class: 'sections' }, card(t('Bridges'), bridges, configured(BRIDGE)), certificates(place));
    const lookHooks = () => showHooks(place, hooks);
    const lookBridges = () => loaded(bridges, async () => {
      const told = await ask('GET', 'v1/bridges', undefined, place.gone);
      return sortable(place, t('Bridges'), [
        { title: t('Bridge'), sort: 'name', head: true, cell: it => name(it.name) },
        { title: t('State'), sort: 'online', cell: it => up(it.online) },
        { title: t('Sent'), sort: 'out', end: true, cell: it => number(it.out) },
        { title: t('Received'), sort: 'received', end: true, cell: it => number(it.received) },
        { title: t('Refused'), sort: 'refused', end: true, cell: it => number(it.refused) },
        { title: t('Connections'), sort: 'connects', end: true, cell: it => number(it.connects) },
        { title: t('Last error'), cell: it => (it.last_fault ? name(it.last_fault) : '–') },
      ], told.bridges, t('No bridges configured.'), 'bridges');
    });
    const look = () => Promise.all([lookHooks(), lookBridges()]);
    lists.prepend(toolCard(t('Webhooks'), refresher(place, lists, look), hooks, configured(WEBHOOK)));
    put(place.root, lists);
    look();
  }
  put(place.root, figures);
}

/**
 * How a service is configured that the API cannot make: its section of the configuration file.
 * @param {string} section
 */
const configured = section => h('details', {}, h('summary', {}, t('How to add or change one')),
  h('p', {}, t('These are set in the configuration file of the server, one section each:')),
  h('pre', { class: 'mono', tabindex: 0 }, section),
  h('p', {}, parts('The page {page} describes every key, and says whether a reload applies a change or the server must be restarted.',
    { page: h('a', { href: '#/configuration' }, t('Configuration')) })));

/** A webhook of the configuration file. */
const WEBHOOK = `[[webhook]]
url = "https://app.example/events"
secret = ""  # 16 to 128 characters; signs the requests (HMAC-SHA256)
products = []  # all
events = []  # all but messages and chat
topics = []  # all
`;

/** A bridge of the configuration file. */
const BRIDGE = `[bridge.up]
addresses = ["broker.example:1883"]
topics = ["sensors/# out 1"]
`;

/** A card of figures, made once and told anew. @param {Element} root @param {Map<string, Element>} drawn @param {string} title @param {[string, any][]} rows */
function draw(root, drawn, title, rows) {
  let inner = drawn.get(title);
  if (!inner) {
    inner = h('div');
    drawn.set(title, inner);
    put(root, card(title, inner));
  }
  set(inner, pairs(rows));
}

/** @param {Place} place @param {Element} list */
function showHooks(place, list) {
  const look = () => loaded(list, async () => {
    const told = await ask('GET', 'v1/webhooks', undefined, place.gone);
    return sortable(place, t('Webhooks'), [
      { title: t('Webhook'), sort: 'url', head: true, cell: it => name(it.url) },
      { title: t('Events'), cell: it => it.events.join(', ') || t('all default events') },
      { title: t('Delivered'), sort: 'delivered', end: true, cell: it => number(it.delivered) },
      { title: t('Failed attempts'), sort: 'failures', end: true, cell: it => number(it.failures) },
      { title: t('Dropped'), sort: 'dropped', end: true, cell: it => number(it.dropped) },
      { title: t('Dead letters'), sort: 'dead', by: it => it.dead_letters?.count, end: true, cell: it => (it.dead_letters ? number(it.dead_letters.count) : '–') },
      { title: '', end: true, cell: it => place.may('manage') && it.dead_letters?.count > 0 && letters(it, look) },
    ], told.webhooks, t('No webhooks configured.'), 'webhooks');
  });
  return look();
}

/** What is done with dead letters. @param {any} hook @param {() => Promise<void>} look */
function letters(hook, look) {
  const path = `v1/webhooks/${hook.number}/dead_letters`;
  return h('div', { class: 'row end' }, button(t('Redeliver'), async () => {
    const { taken, left, failure } = await ask('POST', `${path}/redeliver`, { limit: LETTERS });
    const done = t('Delivered: {taken}. Remaining: {left}.', { taken: number(taken), left: number(left) });
    notice(failure ? `${done} ${failure}` : done, failure ? 'bad' : 'good');
    await look();
  }, { class: 'second small', 'aria-label': t('Redeliver the dead letters of webhook {number}', { number: hook.number }) }), button(t('Delete'), async () => {
    if (!await sure(t('Delete {count} dead letters?', { count: number(hook.dead_letters.count) }), t('Delete dead letters'), t('These events will never be delivered.'))) return;
    await ask('DELETE', path);
    await look();
  }, { class: 'danger small', 'aria-label': t('Delete the dead letters of webhook {number}', { number: hook.number }) }));
}

export const page = { title: t('Services'), scopes: ['metrics', 'read'], lead: t('Connections of this server to other services: state, queues and failures.'), show };
