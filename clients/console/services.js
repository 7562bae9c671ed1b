// What the server asks and tells elsewhere, and how far behind that is: webhooks and their dead
// letters, the archive, the database of accounts, the push gateway, bridges, other domains, files.
//
// A service that is not configured has no figures, and no card.

import { ask } from './api.js';
import { h, put, set } from './dom.js';
import { badge, button, bytes, card, duration, loaded, name, notice, number, pairs, sure, table } from './show.js';

/** @typedef {import('./console.js').Place} Place */

/** Letters that are posted again by one press of a button. */
const LETTERS = 1_000;

const up = (/** @type {number} */ is) => (is ? badge('there', 'good') : badge('away', 'bad'));
const seconds = (/** @type {number} */ s) => (s ? duration(s * 1_000) : '–');

/**
 * Cards: title, the reading without which there is none, and what is told of it: term, reading and
 * how that is shown.
 * @type {[string, string, [string, string, ((value: number) => any)?][]][]}
 */
const CARDS = [
  ['Archive of messages', 'archive_up', [
    ['State', 'archive_up', up], ['Messages that wait', 'archive_waiting'], ['Oldest of these', 'archive_waiting_seconds', seconds],
    ['Taken', 'archive_taken_total'], ['Lost', 'archive_lost_total'], ['Calls that failed', 'archive_faults_total'],
  ]],
  ['Accounts in a database', 'accounts_database_up', [
    ['State', 'accounts_database_up', up], ['Accounts read', 'accounts_database_loaded'],
    ['Changes seen', 'accounts_database_changes_total'], ['Calls that failed', 'accounts_database_faults_total'],
    ['Changes refused meanwhile', 'accounts_database_refused_total'], ['Rows that are none', 'accounts_database_rows_wrong_total'],
  ]],
  ['Stream of events', 'events_stream_appended_total', [
    ['State', 'events_stream_away', value => up(value ? 0 : 1)], ['Events that wait', 'events_stream_waiting'],
    ['Appended', 'events_stream_appended_total'], ['Lost', 'events_stream_lost_total'], ['Tries that failed', 'events_stream_failures_total'],
  ]],
  ['Push gateway', 'push_gateway_up', [
    ['State', 'push_gateway_up', up], ['Notifications that wait', 'push_gateway_waiting'], ['Their bytes', 'push_gateway_waiting_bytes', bytes],
    ['Taken', 'push_gateway_taken_total'], ['Refused for good', 'push_gateway_refused_total'], ['No answer, or later', 'push_gateway_failed_total'],
    ['Tokens that are gone', 'push_gateway_gone_total'], ['To devices of our own', 'push_hub_total'],
  ]],
  ['Metrics by OTLP', 'otlp_exports_total', [
    ['Exports taken', 'otlp_exports_total'], ['Not taken', 'otlp_failures_total'],
  ]],
  ['Files', 'media_folder_bytes', [['Bytes in the folder', 'media_folder_bytes', bytes]]],
  ['Traces', 'traces', [
    ['That go on', 'traces'], ['Events told', 'trace_events_total'], ['Left out, and told so', 'trace_events_left_out_total'],
  ]],
];

/** Counters of other domains and of what is looked at before a message is stored. @type {[string, [string, string][]][]} */
const COUNTED = [
  ['Other domains', [
    ['Messages to them', 'chat_foreign_sent_total'], ['Messages of theirs', 'chat_foreign_received_total'],
    ['Dropped, or refused to who said it', 'chat_foreign_dropped_total'],
  ]],
  ['The hook before sending', [
    ['Messages asked about', 'chat_reviewed_total'], ['Changed', 'chat_reviews_changed_total'],
    ['Refused', 'chat_reviews_refused_total'], ['Without an answer', 'chat_reviews_missed_total'],
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
        draw(figures, drawn, title, rows.map(([term, key, shown]) => [term, (shown ?? number)(readings[key])]));
      }
      for (const [title, rows] of COUNTED) {
        draw(figures, drawn, title, rows.map(([term, key]) => [term, number(status.counters[key])]));
      }
    });
  }
  if (place.may('read')) {
    put(place.root, card('Webhooks', hooks), card('Bridges', bridges));
    showHooks(place, hooks);
    loaded(bridges, async () => {
      const told = await ask('GET', 'v1/bridges', undefined, place.gone);
      return table('Bridges', [
        { title: 'Bridge', head: true, cell: it => name(it.name) },
        { title: 'State', cell: it => up(it.online) },
        { title: 'Out', end: true, cell: it => number(it.out) },
        { title: 'In', end: true, cell: it => number(it.received) },
        { title: 'Not taken', end: true, cell: it => number(it.refused) },
        { title: 'Connections', end: true, cell: it => number(it.connects) },
        { title: 'Why it is away', cell: it => (it.last_fault ? name(it.last_fault) : '–') },
      ], told.bridges, 'None is configured.');
    });
  }
  put(place.root, figures);
}

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
    return table('Webhooks', [
      { title: 'Webhook', head: true, cell: it => name(it.url) },
      { title: 'Events', cell: it => it.events.join(', ') || 'all but those by name' },
      { title: 'Taken', end: true, cell: it => number(it.delivered) },
      { title: 'Not taken', end: true, cell: it => number(it.failures) },
      { title: 'Given up', end: true, cell: it => number(it.dropped) },
      { title: 'Dead letters', end: true, cell: it => (it.dead_letters ? number(it.dead_letters.count) : '–') },
      { title: '', end: true, cell: it => place.may('manage') && it.dead_letters?.count > 0 && letters(it, look) },
    ], told.webhooks, 'None is configured.');
  });
  look();
}

/** What is done with dead letters. @param {any} hook @param {() => Promise<void>} look */
function letters(hook, look) {
  const path = `v1/webhooks/${hook.number}/dead_letters`;
  return h('div', { class: 'row end' }, button('Post again', async () => {
    const { taken, left, failure } = await ask('POST', `${path}/redeliver`, { limit: LETTERS });
    notice(`${number(taken)} were taken, ${number(left)} are left${failure ? `: ${failure}` : ''}.`, failure ? 'bad' : 'good');
    await look();
  }, { class: 'second small', 'aria-label': `Post the dead letters of webhook ${hook.number} again` }), button('Clear', async () => {
    if (!await sure(`Clear ${number(hook.dead_letters.count)} dead letters?`, 'Clear them', 'Nobody will have these events.')) return;
    await ask('DELETE', path);
    await look();
  }, { class: 'danger small', 'aria-label': `Clear the dead letters of webhook ${hook.number}` }));
}

export const page = { title: 'Services', scopes: ['metrics', 'read'], lead: 'What the server asks and tells elsewhere, and how far behind that is.', show };
