// Groups, which rooms of XMPP are, and chatrooms: who owns them, how large they are, what was last
// said when, who is in a group.
//
// What is said in them is not shown: that wants a scope of its own, and the audit log has who read.

import { ask, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { ago, badge, button, card, field, loaded, name, notice, number, pairs, sure, table } from './show.js';
import { pages } from './clients.js';

/** @typedef {import('./console.js').Place} Place */

/** Members of a group on a page. */
const MEMBERS = 100;

/** @param {string} of @param {string} address */
const link = (of, address) => h('a', { href: `#/${of}?${of === 'groups' ? 'group' : 'room'}=${encodeURIComponent(address)}` }, name(address));

/** Figures of chat beside a list. @param {Place} place @param {[string, string][]} shown term and counter */
function figures(place, shown) {
  if (!place.may('metrics')) return;
  const totals = h('div');
  put(place.root, card('Figures, since the start', totals));
  place.live(({ status }) => set(totals, pairs(shown.map(([term, counter]) => [term, number(status.counters[counter] ?? status[counter])]))));
}

/** @param {Place} place */
function showGroups(place) {
  const one = place.query.get('group');
  if (one !== null) return showGroup(place, one);
  figures(place, [
    ['Messages stored', 'chat_sent_total'], ['Places they took in inboxes', 'chat_distributed_total'],
    ['Changes of groups', 'chat_group_changes_total'], ['Refused: too fast', 'chat_rate_limited_total'],
  ]);
  pages(place, 'Groups', async after => {
    const { groups, next } = await ask('GET', withQuery('v1/chat/groups', { after, limit: 100 }), undefined, place.gone);
    return { rows: groups, next };
  }, rows => table('Groups', [
    { title: 'Group', head: true, cell: it => link('groups', it.group) },
    { title: 'Title', cell: it => name(it.title) },
    { title: 'Owner', cell: it => name(it.owner) },
    { title: 'Members', end: true, cell: it => number(it.members) },
    { title: 'State', cell: it => (it.closed ? badge('closed', 'warn') : badge('open', 'good')) },
    { title: 'Messages', end: true, cell: it => number(it.last_seq) },
    { title: 'Last', cell: it => ago(it.last_ms) },
  ], rows, 'None. holdline im groups make makes one.'));
}

/** @param {Place} place @param {string} address */
function showGroup(place, address) {
  const path = `v1/chat/groups/${encodeURIComponent(address)}`;
  const state = h('div');
  const look = () => loaded(state, async () => {
    const it = await ask('GET', withQuery(path, { limit: 1 }), undefined, place.gone);
    return [pairs([
      ['Title', name(it.title)], ['Members', number(it.total)], ['Changes', it.version],
      ['Who may say something', it.closed ? 'owner and admins' : 'every member'],
    ]), place.may('manage') && h('div', { class: 'row' }, button(it.closed ? 'Open it' : 'Close it', async () => {
      await ask('POST', `${path}/changes`, { verb: it.closed ? 'open' : 'close' });
      notice(it.closed ? 'Every member may say something.' : 'Only owner and admins may say something.');
      await look();
    }, { class: 'second', id: 'close' }))];
  });
  put(place.root, h('p', {}, h('a', { href: '#/groups' }, '← All groups')),
    h('section', { class: 'card' }, h('h2', {}, name(address)), state));
  look();
  pages(place, 'Members', async after => {
    const { members, next } = await ask('GET', withQuery(path, { after, limit: MEMBERS }), undefined, place.gone);
    return { rows: members, next };
  }, rows => table('Members', [
    { title: 'Account', head: true, cell: it => name(it.account) },
    { title: 'Role', cell: it => it.role },
    { title: 'State', cell: it => (it.muted ? badge('muted', 'warn') : '–') },
  ], rows, 'Nobody.'));
}

/** @param {Place} place */
function showRooms(place) {
  const one = place.query.get('room');
  figures(place, [
    ['Chatrooms', 'chatrooms'], ['Devices in them', 'chatroom_sessions'], ['Joins', 'chat_chatroom_joins_total'], ['Refused', 'chat_chatroom_refused_total'],
    ['Messages said', 'chat_chatroom_said_total'], ['Refused: too loud', 'chat_chatroom_dropped_total'],
    ['Copies handed out', 'chat_chatroom_delivered_total'], ['Copies not handed out', 'chat_chatroom_missed_total'],
    ['Copies nobody read', 'chat_chatroom_skipped_total'], ['Changes', 'chat_chatroom_changes_total'],
  ]);
  pages(place, 'Chatrooms', async after => {
    const { chatrooms, next } = await ask('GET', withQuery('v1/chat/chatrooms', { after, limit: 100 }), undefined, place.gone);
    return { rows: chatrooms.filter((/** @type {any} */ it) => one === null || it.room === one), next };
  }, rows => table('Chatrooms', [
    { title: 'Chatroom', head: true, cell: it => link('chatrooms', it.room) },
    { title: 'Title', cell: it => name(it.title) },
    { title: 'Owner', cell: it => name(it.owner) },
    { title: 'There now', end: true, cell: it => number(it.here) },
    { title: 'Messages', end: true, cell: it => number(it.said) },
    { title: 'Banned', end: true, cell: it => number(it.banned) },
    { title: 'State', cell: it => (it.quiet ? badge('quiet', 'warn') : badge('open', 'good')) },
    { title: '', end: true, cell: it => place.may('manage') && orders(place, it) },
  ], rows, one === null ? 'None. holdline im chatrooms make makes one.' : 'There is no such chatroom.'));
  if (one !== null) put(place.root, h('p', {}, h('a', { href: '#/chatrooms' }, '← All chatrooms')));
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
    button(it.quiet ? 'Open' : 'Quiet', () => (it.quiet ? order('open', `Everybody may speak in ${it.room}.`)
      : order('quiet', `Only owner and moderators may speak in ${it.room}.`)), { class: 'second small', 'aria-label': `${it.quiet ? 'Open' : 'Quiet'} ${it.room}` }),
    button('End', async () => {
      if (!await sure(`End the chatroom ${it.room}?`, 'End it', `${number(it.here)} are there and are sent away.`)) return;
      await order('close', `${it.room} is over.`);
    }, { class: 'danger small', 'aria-label': `End ${it.room}` }));
}

/** A form that announces something in a chatroom. @param {Place} place */
function announce(place) {
  const room = h('input', { name: 'room', required: true, autocomplete: 'off' });
  const words = h('input', { name: 'text', required: true, maxlength: 500, autocomplete: 'off' });
  const form = h('form', { class: 'grid' }, field('Chatroom', room), field('Announcement', words),
    h('div', { class: 'row foot' }, h('button', { type: 'submit' }, 'Announce')));
  form.addEventListener('submit', async event => {
    event.preventDefault();
    await ask('POST', `v1/chat/chatrooms/${encodeURIComponent(room.value)}/changes`, { verb: 'announce', text: words.value });
    notice('It is announced to everybody who is there, and to those who come.');
  });
  put(place.root, card('Announce something', form));
}

export const groups = { title: 'Rooms and groups', scopes: ['read', 'chat'], lead: 'Groups, which are the rooms of XMPP, in no order; what is said in them is not shown.', show: showGroups };
export const chatrooms = { title: 'Chatrooms', scopes: ['read', 'chat'], lead: 'Rooms of those who are there now.', show: showRooms };
