// Access: the user database with its rules, API tokens, and the audit log of API calls.

import { ask, exists, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { Invalid, choice, field, fieldset, search, submits, text } from './forms.js';
import { ago, badge, button, card, copy, loaded, name, notice, pairs, sortable, sure, when } from './show.js';
import { pages } from './clients.js';
import { parts, t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** @param {string} user */
const path = user => `v1/users/${encodeURIComponent(user)}`;

/** @param {any} rule */
const line = rule => `${rule.allow ? 'allow' : 'deny'} ${rule.action} ${rule.filter}`;

/** Rules, one a line: `allow publish tills/%c/#`. @param {HTMLTextAreaElement} list */
function rules(list) {
  return list.value.split('\n').map(it => it.trim()).filter(Boolean).map(it => {
    const found = /^(allow|deny)\s+(publish|read|all)\s+(.+)$/.exec(it);
    if (!found) throw new Invalid(list, t('Invalid rule: {rule}. A rule is "allow" or "deny", then "publish", "read" or "all", then a topic filter.', { rule: it }));
    return { allow: found[1] === 'allow', action: found[2], filter: found[3] };
  });
}

/** @param {Place} place */
function showUsers(place) {
  const one = place.query.get('user');
  if (one) return showUser(place, one);
  const find = h('input', { name: 'user', type: 'search', required: true, autocomplete: 'off' });
  put(place.root, search(place, [[t('Name'), find, t('The exact name of the user.')]]));
  pages(place, t('Users'), async after => {
    const { users, next } = await ask('GET', withQuery('v1/users', { after, limit: 100 }), undefined, place.gone);
    return { rows: users, next };
  }, rows => sortable(place, t('Users'), [
    { title: t('User'), sort: 'name', head: true, cell: it => h('a', { href: `#/users?user=${encodeURIComponent(it.name)}` }, name(it.name)) },
    { title: t('Password'), cell: it => (it.has_password ? t('set') : t('none')) },
    { title: t('Flags'), cell: it => [it.superuser && badge(t('superuser'), 'warn'), it.disabled && badge(t('disabled'), 'bad')] },
    { title: t('Rules'), cell: it => (it.rules.length ? name(it.rules.map(line).join('; ')) : '–') },
  ], rows, t('No users in the user database. Users of the password file are not listed.')));
  const user = h('input', { name: 'new', required: true, maxlength: 256, autocomplete: 'off', 'data-errors': 'users_full,bad_request' });
  const password = h('input', { name: 'password', type: 'password', required: true, maxlength: 1024, autocomplete: 'new-password' });
  const form = h('form', { class: 'filter' },
    field(t('Name'), user, t('The name that the user logs in with: 1 to 256 bytes, no control characters.')),
    field(t('Password'), password, t('1 to 1,024 bytes. The server stores only its hash.')),
    h('button', { type: 'submit' }, t('Add')));
  submits(form, async () => {
    // A form that adds must not change an existing user.
    if (await exists(path(user.value))) throw new Invalid(user, t('This user already exists.'));
    await ask('PUT', path(user.value), { password: password.value });
    notice(t('User {user} was added.', { user: user.value }));
    location.hash = `#/users?user=${encodeURIComponent(user.value)}`;
  });
  put(place.root, card(t('Add a user'), form));
}

/** @param {Place} place @param {string} user */
function showUser(place, user) {
  const state = h('div');
  const password = h('input', { type: 'password', name: 'password', required: true, maxlength: 1024, autocomplete: 'new-password' });
  const list = h('textarea', { name: 'rules', spellcheck: 'false', class: 'mono' });
  const look = () => loaded(state, async () => {
    const it = await ask('GET', path(user), undefined, place.gone);
    list.value = it.rules.map(line).join('\n');
    const change = (/** @type {any} */ to) => async () => {
      await ask('PUT', path(user), to);
      await look();
    };
    return [pairs([
      [t('Password'), it.has_password ? t('set') : t('none')], [t('Superuser'), it.superuser ? t('yes, no rule applies') : t('no')],
      [t('Disabled'), it.disabled ? t('yes, logins are refused') : t('no')], [t('ID'), it.uid], [t('Epoch'), it.epoch],
    ]), h('div', { class: 'row' },
      button(t('End all sessions'), async () => {
        if (!await sure(t('End all sessions of {user}?', { user }), t('End sessions'), t('The user can log in again.'))) return;
        await ask('POST', `${path(user)}/kick`);
        notice(t('All sessions of {user} were ended.', { user }));
        await look();
      }, { class: 'danger', id: 'kick' }),
      button(it.disabled ? t('Enable') : t('Disable'), change({ disabled: !it.disabled }), { class: 'second' }),
      button(it.superuser ? t('Revoke superuser') : t('Make superuser'), change({ superuser: !it.superuser }), { class: 'second' }),
      button(t('Remove'), async () => {
        if (!await sure(t('Remove {user}?', { user }), t('Remove user'), t('Connections of the user end, and the rules are deleted.'))) return;
        await ask('DELETE', path(user));
        notice(t('User {user} was removed.', { user }));
        location.hash = '#/users';
      }, { class: 'second', id: 'remove' }))];
  });
  const change = h('form', { class: 'filter' },
    field(t('New password'), password, t('1 to 1,024 bytes. It ends all sessions that use the old one.')),
    h('button', { type: 'submit' }, t('Set')));
  submits(change, async () => {
    await ask('PUT', path(user), { password: password.value });
    password.value = '';
    notice(t('The password of {user} was changed.', { user }));
    await look();
  });
  const rulesForm = h('form', { class: 'grid' }, field(t('One rule per line; the first match applies'), list,
    t('allow or deny, then publish, read or all, then a topic filter. %c is the client ID, %u the user. Example: allow publish tills/%c/#. At most 256 rules.')),
  h('div', { class: 'row' }, h('button', { type: 'submit' }, t('Save rules'))));
  submits(rulesForm, async () => {
    await ask('PUT', path(user), { rules: rules(list) });
    notice(t('The rules of {user} were saved.', { user }));
    await look();
  });
  put(place.root, h('p', {}, h('a', { href: '#/users' }, t('← All users'))),
    h('section', { class: 'card' }, h('h2', {}, parts('User {user}', { user: name(user) })), state),
    h('div', { class: 'pair' }, card(t('Password'), change), card(t('Rules'), rulesForm)));
  look();
}

/** @param {Place} place */
function showTokens(place) {
  pages(place, t('Tokens'), async after => {
    const { tokens, next } = await ask('GET', withQuery('v1/tokens', { after, limit: 100 }), undefined, place.gone);
    return { rows: tokens, next };
  }, rows => sortable(place, t('Tokens'), [
    { title: t('Token'), sort: 'name', head: true, cell: it => name(it.name) },
    { title: t('Scopes'), sort: 'scopes', by: it => it.scopes.join(), cell: it => it.scopes.join(', ') },
    { title: t('Products'), cell: it => it.products.join(', ') || t('all') },
    { title: t('Created'), sort: 'made_ms', cell: it => ago(it.made_ms) },
    { title: t('Expires'), sort: 'expires_ms', cell: it => (it.expires_ms === null ? t('never') : [when(it.expires_ms), ' ', it.expired && badge(t('expired'), 'bad')]) },
    { title: t('Last used'), sort: 'used_ms', cell: it => ago(it.used_ms) },
    { title: '', end: true, cell: it => button(t('Revoke'), async () => {
      if (!await sure(t('Revoke the token {name}?', { name: it.name }), t('Revoke token'), t('Its streams and console sessions end at once.'))) return;
      await ask('DELETE', `v1/tokens/${encodeURIComponent(it.name)}`);
      place.go({});
    }, { class: 'second small', 'aria-label': t('Revoke the token {name}', { name: it.name }) }) },
  ], rows, t('Only the first token, of the file api.token, exists.')));
  if (place.may('admin')) makeToken(place);
}

/** Scopes of a token, each with what it permits. @type {[string, string][]} */
const SCOPES = [
  ['metrics', t('figures: overview, counters, /metrics')], ['read', t('everything except users, tokens and the audit log')],
  ['push', t('send pushes')], ['publish', t('publish MQTT messages')],
  ['manage', t('disconnect, block and change devices, clients and sessions; delete retained messages')],
  ['trace', t('trace packets')], ['chat', t('send and read chat messages, manage accounts and groups')],
  ['users', t('manage the user database')], ['view', t('see users, tokens, the audit log and the configuration')],
  ['admin', t('everything')],
];

/** A form that creates a token, which is shown this once. @param {Place} place */
function makeToken(place) {
  const label = h('input', { name: 'token-name', required: true, maxlength: 64, autocomplete: 'off', 'data-errors': 'token_exists,tokens_full', pattern: '[A-Za-z0-9_\\-][A-Za-z0-9_.\\-]*' });
  const days = h('input', { name: 'token-days', type: 'number', min: 1, max: 3_650, autocomplete: 'off', 'data-errors': 'ttl_s' });
  const products = h('input', { name: 'token-products', autocomplete: 'off', 'data-errors': 'products,unknown_product' });
  const boxes = SCOPES.map(([scope, permits]) => {
    const box = h('input', { type: 'checkbox', name: 'scope', value: scope });
    return { box, element: h('label', { class: 'check' }, box, h('span', {}, h('code', {}, scope), ' ', h('small', {}, permits))) };
  });
  const made = h('div', { role: 'status' });
  const form = h('form', { class: 'grid' }, h('div', { class: 'cards' },
    field(t('Name'), label, t('The audit log shows it: 1 to 64 letters, digits, - _ and . (not first).')),
    field(t('Expires after (days)'), days, t('Days until the token becomes invalid: 1 to 3,650. Leave empty for a token that never expires.')),
    field(t('Products'), products, t('Products that the token is limited to, separated by commas: at most 64, with the scopes push, read and manage only. Leave empty for all products.'))),
  fieldset(t('Scopes'), 'scopes', t('What the token permits: choose at least one.'), boxes.map(it => it.element)),
  h('div', { class: 'row' }, h('button', { type: 'submit' }, t('Create token'))), made);
  submits(form, async () => {
    const { token } = await ask('POST', 'v1/tokens', {
      name: label.value, scopes: boxes.filter(it => it.box.checked).map(it => it.box.value),
      products: products.value.split(',').map(it => it.trim()).filter(Boolean),
      ttl_s: days.value ? Number(days.value) * 86_400 : undefined,
    });
    form.reset();
    set(made, h('p', {}, t('Copy the token now. It is not shown again.')), h('div', { class: 'row' }, h('code', { id: 'made-token' }, token), copy(token)));
  });
  put(place.root, card(t('Create a token'), form));
}

/** @param {Place} place */
function showAudit(place) {
  put(place.root, search(place, [[t('Token or user'), text('token'), t('The exact name of the token or user that made the call.')],
    [t('Outcome'), choice('outcome', [['', t('All')], ['done', t('Done')], ['refused', t('Refused')], ['failed', t('Failed')]]), t('Whether the server carried out the call. Default: all.')]]));
  const { query } = place;
  pages(place, t('Calls'), async after => {
    const { entries, next } = await ask('GET', withQuery('v1/audit_log', {
      token: query.get('token'), outcome: query.get('outcome'), after, limit: 100,
    }), undefined, place.gone);
    return { rows: entries, next };
  }, rows => sortable(place, t('Calls, newest first'), [
    { title: t('Time'), sort: 'at_ms', head: true, cell: it => when(it.at_ms) },
    { title: t('Token or user'), sort: 'token', cell: it => (it.token ? name(it.token) : h('span', { class: 'quiet' }, t('none'))) },
    { title: t('Address'), sort: 'peer', cell: it => it.peer ?? '–' },
    { title: t('Call'), sort: 'action', cell: it => h('code', {}, it.action) },
    { title: t('Target'), sort: 'on', cell: it => name(it.on) },
    { title: t('Outcome'), sort: 'outcome', cell: it => [badge(it.outcome, it.outcome === 'done' ? 'good' : 'bad'), it.code && ` ${it.code}`, it.more > 0 && ` ${t('and {count} more', { count: it.more })}`] },
  ], rows, t('No matches.')));
}

export const users = { title: t('Users and rules'), scopes: ['users', 'view'], lead: t('The user database: who may log in over MQTT and chat, and which topics each user may publish and read.'), show: showUsers };
export const tokens = { title: t('API tokens'), scopes: ['admin', 'view'], lead: t('Who may call the API and log in to this console. A token is shown once, when it is created.'), show: showTokens };
export const audit = { title: t('Audit log'), scopes: ['admin', 'view'], lead: t('API calls that changed something, and refused calls.'), show: showAudit };
