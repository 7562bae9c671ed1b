// Groups, which XMPP clients see as rooms, and chatrooms: owner, size, time of the last message,
// members.
//
// Message texts are not shown: they need a scope of their own, and the audit log records who reads them.

import { ask, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { field, submits } from './forms.js';
import { ago, badge, button, card, loaded, name, notice, number, pairs, sortable, sure } from './show.js';
import { pages } from './clients.js';
import { t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** Members of a group on a page. */
const MEMBERS = 100;

/** @param {string} of @param {string} address */
const link = (of, address) => h('a', { href: `#/${of}?${of === 'groups' ? 'group' : 'room'}=${encodeURIComponent(address)}` }, name(address));

/** Figures of chat beside a list. @param {Place} place @param {[string, string][]} shown term and counter */
function figures(place, shown) {
  if (!place.may('metrics')) return;
  const totals = h('div');
  put(place.root, card(t('Totals since the server started'), totals));
  place.live(({ status }) => set(totals, pairs(shown.map(([term, counter]) => [term, number(status.counters[counter] ?? status[counter])]))));
}

/** @param {Place} place */
function showGroups(place) {
  const one = place.query.get('group');
  if (one !== null) return showGroup(place, one);
  figures(place, [
    [t('Messages stored'), 'chat_sent_total'], [t('Inbox entries written'), 'chat_distributed_total'],
    [t('Group changes'), 'chat_group_changes_total'], [t('Refused: rate limit'), 'chat_rate_limited_total'],
  ]);
  pages(place, t('Groups'), async after => {
    const { groups, next } = await ask('GET', withQuery('v1/chat/groups', { after, limit: 100 }), undefined, place.gone);
    return { rows: groups, next };
  }, rows => sortable(place, t('Groups'), [
    { title: t('Group'), sort: 'group', head: true, cell: it => link('groups', it.group) },
    { title: t('Title'), sort: 'title', cell: it => name(it.title) },
    { title: t('Owner'), sort: 'owner', cell: it => name(it.owner) },
    { title: t('Members'), sort: 'members', end: true, cell: it => number(it.members) },
    { title: t('State'), sort: 'closed', cell: it => (it.closed ? badge(t('closed'), 'warn') : badge(t('open'), 'good')) },
    { title: t('Messages'), sort: 'last_seq', end: true, cell: it => number(it.last_seq) },
    { title: t('Last message'), sort: 'last_ms', cell: it => ago(it.last_ms) },
  ], rows, t('No groups. Create one with: holdline im groups make')));
}

/** @param {Place} place @param {string} address */
function showGroup(place, address) {
  const path = `v1/chat/groups/${encodeURIComponent(address)}`;
  const state = h('div');
  const look = () => loaded(state, async () => {
    const it = await ask('GET', withQuery(path, { limit: 1 }), undefined, place.gone);
    return [pairs([
      [t('Title'), name(it.title)], [t('Members'), number(it.total)], [t('Version'), it.version],
      [t('Who may send'), it.closed ? t('owner and admins') : t('all members')],
    ]), place.may('manage') && h('div', { class: 'row' }, button(it.closed ? t('Open group') : t('Close group'), async () => {
      await ask('POST', `${path}/changes`, { verb: it.closed ? 'open' : 'close' });
      notice(it.closed ? t('All members may send.') : t('Only the owner and admins may send.'));
      await look();
    }, { class: 'second', id: 'close' }))];
  });
  put(place.root, h('p', {}, h('a', { href: '#/groups' }, t('← All groups'))),
    h('section', { class: 'card' }, h('h2', {}, name(address)), state));
  look();
  pages(place, t('Members'), async after => {
    const { members, next } = await ask('GET', withQuery(path, { after, limit: MEMBERS }), undefined, place.gone);
    return { rows: members, next };
  }, rows => sortable(place, t('Members'), [
    { title: t('Account'), sort: 'account', head: true, cell: it => name(it.account) },
    { title: t('Role'), sort: 'role', cell: it => it.role },
    { title: t('State'), cell: it => (it.muted ? badge(t('muted'), 'warn') : '–') },
  ], rows, t('No members.')));
}

/** @param {Place} place */
function showRooms(place) {
  const one = place.query.get('room');
  figures(place, [
    [t('Chatrooms'), 'chatrooms'], [t('Devices joined'), 'chatroom_sessions'], [t('Joins'), 'chat_chatroom_joins_total'], [t('Joins refused'), 'chat_chatroom_refused_total'],
    [t('Messages sent'), 'chat_chatroom_said_total'], [t('Messages refused: rate limit'), 'chat_chatroom_dropped_total'],
    [t('Copies delivered'), 'chat_chatroom_delivered_total'], [t('Copies not delivered'), 'chat_chatroom_missed_total'],
    [t('Copies skipped: slow reader'), 'chat_chatroom_skipped_total'], [t('Changes'), 'chat_chatroom_changes_total'],
  ]);
  pages(place, t('Chatrooms'), async after => {
    const { chatrooms, next } = await ask('GET', withQuery('v1/chat/chatrooms', { after, limit: 100 }), undefined, place.gone);
    return { rows: chatrooms.filter((/** @type {any} */ it) => one === null || it.room === one), next };
  }, rows => sortable(place, t('Chatrooms'), [
    { title: t('Chatroom'), sort: 'room', head: true, cell: it => link('chatrooms', it.room) },
    { title: t('Title'), sort: 'title', cell: it => name(it.title) },
    { title: t('Owner'), sort: 'owner', cell: it => name(it.owner) },
    { title: t('Online'), sort: 'here', end: true, cell: it => number(it.here) },
    { title: t('Messages'), sort: 'said', end: true, cell: it => number(it.said) },
    { title: t('Banned'), sort: 'banned', end: true, cell: it => number(it.banned) },
    { title: t('State'), cell: it => (it.quiet ? badge(t('quiet'), 'warn') : badge(t('open'), 'good')) },
    { title: '', end: true, cell: it => place.may('manage') && orders(place, it) },
  ], rows, one === null ? t('No chatrooms. Create one with: holdline im chatrooms make') : t('Unknown chatroom.')));
  if (one !== null) put(place.root, h('p', {}, h('a', { href: '#/chatrooms' }, t('← All chatrooms'))));
  else if (place.may('manage')) announce(place);
}

/** What is done to a chatroom. @param {Place} place @param {any} it */
function orders(place, it) {
  const path = `v1/chat/chatrooms/${encodeURIComponent(it.room)}/changes`;
  const order = async (/** @type {string} */ verb, /** @type {string} */ done) => {
    await ask('POST', path, { verb });
    notice(done);
    place.go(Object.fromEntries(place.query));
  };
  return h('div', { class: 'row end' },
    button(it.quiet ? t('Unmute') : t('Mute'), () => (it.quiet ? order('open', t('Everyone may send in {room}.', { room: it.room }))
      : order('quiet', t('Only the owner and moderators may send in {room}.', { room: it.room }))),
    { class: 'second small', 'aria-label': it.quiet ? t('Unmute {room}', { room: it.room }) : t('Mute {room}', { room: it.room }) }),
    button(t('Close'), async () => {
      if (!await sure(t('Close the chatroom {room}?', { room: it.room }), t('Close chatroom'), t('Participants who will be removed: {count}.', { count: number(it.here) }))) return;
      await order('close', t('{room} was closed.', { room: it.room }));
    }, { class: 'danger small', 'aria-label': t('Close {room}', { room: it.room }) }));
}

/** A form that announces something in a chatroom. @param {Place} place */
function announce(place) {
  const room = h('input', { name: 'room', required: true, autocomplete: 'off', 'data-errors': 'unknown_group,bad_request' });
  const words = h('input', { name: 'text', required: true, maxlength: 1_024, autocomplete: 'off' });
  const form = h('form', { class: 'grid' }, field(t('Chatroom'), room, t('The name of the chatroom: lobby, or lobby@live.DOMAIN.')),
    field(t('Announcement'), words, t('Shown to all participants, and to those who join later: at most 1,024 bytes.')),
    h('div', { class: 'row' }, h('button', { type: 'submit' }, t('Announce'))));
  submits(form, async () => {
    await ask('POST', `v1/chat/chatrooms/${encodeURIComponent(room.value)}/changes`, { verb: 'announce', text: words.value });
    notice(t('Announcement sent.'));
  });
  put(place.root, card(t('Announce'), form));
}

export const groups = { title: t('Rooms and groups'), scopes: ['read', 'chat'], lead: t('Groups of instant messaging, which XMPP clients see as rooms. Message texts are not shown.'), show: showGroups };
export const chatrooms = { title: t('Chatrooms'), scopes: ['read', 'chat'], lead: t('Live rooms: participants are those who are online in them now.'), show: showRooms };
