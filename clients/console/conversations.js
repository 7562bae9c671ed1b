// Conversations of an account, for moderators: what was said, and its recall.
//
// The server records in its audit log who reads them.

import { ask, withQuery } from './api.js';
import { h, put } from './dom.js';
import { search, text } from './forms.js';
import { ago, badge, button, card, moment, name, notice, number, sure, table } from './show.js';
import { pages } from './clients.js';
import { t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** What the addresses of groups and channels have. */
const GROUP = /@(conference|channel)\./;

/** Kind of a message whose text was recalled. */
const RECALLED = 5;

/** @param {string} account @param {string} other */
const link = (account, other) =>
  h('a', { href: `#/conversations?account=${encodeURIComponent(account)}&with=${encodeURIComponent(other)}` }, name(other));

/** @param {Place} place @param {string} account */
function list(place, account) {
  pages(place, t('Conversations'), async before => {
    const { conversations, next } = await ask('GET', withQuery(`v1/chat/accounts/${encodeURIComponent(account)}/conversations`, { before, limit: 100 }), undefined, place.gone);
    return { rows: conversations, next };
  }, rows => table(t('Conversations'), [
    { title: t('With'), head: true, cell: it => link(account, it.with) },
    { title: t('Last message'), cell: it => (it.last === null ? '–' : [name(it.last.from), ': ', name(it.last.text), ' ', ago(it.last.at_ms)]) },
    { title: t('Messages'), end: true, cell: it => number(it.last_seq) },
    { title: t('Unread'), end: true, cell: it => number(it.unread) },
  ], rows, t('No conversations.')));
}

/** @param {Place} place @param {string} account @param {string} other */
function history(place, account, other) {
  const path = `v1/chat/accounts/${encodeURIComponent(account)}`;
  put(place.root, h('p', {}, h('a', { href: `#/conversations?account=${encodeURIComponent(account)}` }, t('← All conversations'))));
  pages(place, t('Messages, newest first'), async before => {
    const { messages, more } = await ask('GET', withQuery(`${path}/history`, { with: other, before, limit: 100 }), undefined, place.gone);
    const rows = [...messages].sort((/** @type {any} */ a, /** @type {any} */ b) => b.seq - a.seq);
    return { rows, next: more ? String(rows[rows.length - 1].seq) : null };
  }, rows => table(t('Messages'), [
    { title: t('Time'), head: true, cell: it => moment(it.at_ms) },
    { title: t('From'), cell: it => name(it.from) },
    { title: t('Text'), cell: it => (it.kind === RECALLED ? badge(t('recalled'), 'warn') : name(it.text)) },
    { title: '', end: true, cell: it => place.may('manage') && it.kind !== RECALLED && button(t('Recall'), async () => {
      if (!await sure(t('Recall this message?'), t('Recall'), t('It disappears for everyone in the conversation.'))) return;
      // A message between two accounts is named by both, one of a group by the group.
      if (GROUP.test(it.to)) await ask('POST', `v1/chat/groups/${encodeURIComponent(it.to)}/recall`, { seq: it.seq });
      else await ask('POST', `${path}/recall`, { with: other, seq: it.seq });
      notice(t('The message is recalled.'));
      place.go({ account, with: other, recalled: String(it.seq) });
    }, { class: 'second small' }) },
  ], rows, t('No messages.')));
}

/** @param {Place} place */
function show(place) {
  const [account, other] = [place.query.get('account'), place.query.get('with')];
  put(place.root, search(place, [[t('Account'), text('account', 'ann'), t('The name of the account.')],
    [t('With'), text('with', 'bob'), t('The other account, or the address of a group. Leave empty for all conversations.')]]));
  if (!account) put(place.root, card(t('Conversations'), h('p', {}, t('Name an account to see its conversations.'))));
  else if (other) history(place, account, other);
  else list(place, account);
}

export const page = { title: t('Conversations'), scopes: ['chat'], lead: t('What an account wrote and received, for moderators. The audit log records who reads it.'), show };
