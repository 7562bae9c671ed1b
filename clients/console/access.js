// Access: the user database with its rules, API tokens, and the audit log of what was done with them.

import { ask, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { ago, badge, button, card, field, loaded, moment, name, notice, pairs, sure, table, why } from './show.js';
import { choice, pages, search, text } from './clients.js';
import { parts, t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** @param {string} user */
const path = user => `v1/users/${encodeURIComponent(user)}`;

/** @param {any} rule */
const line = rule => `${rule.allow ? 'allow' : 'deny'} ${rule.action} ${rule.filter}`;

/** Rules as lines: `allow publish tills/%c/#`. @param {string} text */
function rules(text) {
  return text.split('\n').map(it => it.trim()).filter(Boolean).map(it => {
    const found = /^(allow|deny)\s+(publish|read|all)\s+(.+)$/.exec(it);
    if (!found) throw new Error(t('Invalid rule: {rule}. A rule is "allow" or "deny", then "publish", "read" or "all", then a topic filter.', { rule: it }));
    return { allow: found[1] === 'allow', action: found[2], filter: found[3] };
  });
}

/** @param {Place} place */
function showUsers(place) {
  const one = place.query.get('user');
  if (one) return showUser(place, one);
  const find = h('input', { name: 'user', type: 'search', required: true, autocomplete: 'off' });
  put(place.root, search(place, [[t('Name'), find]]));
  pages(place, t('Users'), async after => {
    const { users, next } = await ask('GET', withQuery('v1/users', { after, limit: 100 }), undefined, place.gone);
    return { rows: users, next };
  }, rows => table(t('Users'), [
    { title: t('User'), head: true, cell: it => h('a', { href: `#/users?user=${encodeURIComponent(it.name)}` }, name(it.name)) },
    { title: t('Password'), cell: it => (it.has_password ? t('set') : t('none')) },
    { title: t('Flags'), cell: it => [it.superuser && badge(t('superuser'), 'warn'), it.disabled && badge(t('disabled'), 'bad')] },
    { title: t('Rules'), cell: it => (it.rules.length ? name(it.rules.map(line).join('; ')) : '–') },
  ], rows, t('No users in the user database. Users of the password file are not listed.')));
  const user = h('input', { name: 'new', required: true, maxlength: 256, autocomplete: 'off' });
  const password = h('input', { name: 'password', type: 'password', required: true, maxlength: 1024, autocomplete: 'new-password' });
  const fault = h('p', { class: 'fault', role: 'alert' });
  const form = h('form', { class: 'filter' }, field(t('Name'), user), field(t('Password'), password),
    h('button', { type: 'submit' }, t('Add')), fault);
  form.addEventListener('submit', async event => {
    event.preventDefault();
    set(fault);
    try {
      // A form that adds must not change an existing user.
      const there = await ask('GET', path(user.value)).then(() => true, error => {
        if (error.status !== 404) throw error;
        return false;
      });
      if (there) throw new Error(t('This user already exists.'));
      await ask('PUT', path(user.value), { password: password.value });
      notice(t('User {user} was added.', { user: user.value }));
      location.hash = `#/users?user=${encodeURIComponent(user.value)}`;
    } catch (error) {
      set(fault, why(error));
    }
  });
  put(place.root, card(t('Add a user'), form));
}

/** @param {Place} place @param {string} user */
function showUser(place, user) {
  const state = h('div');
  const password = h('input', { type: 'password', name: 'password', required: true, maxlength: 1024, autocomplete: 'new-password' });
  const list = h('textarea', { name: 'rules', spellcheck: 'false', class: 'mono' });
  const fault = h('p', { class: 'fault', role: 'alert' });
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
  const change = h('form', { class: 'filter' }, field(t('New password'), password, t('Ends all sessions that use the old password.')),
    h('button', { type: 'submit' }, t('Set')));
  change.addEventListener('submit', async event => {
    event.preventDefault();
    await ask('PUT', path(user), { password: password.value });
    password.value = '';
    notice(t('The password of {user} was changed.', { user }));
    await look();
  });
  const rulesForm = h('form', { class: 'grid' }, field(t('One rule per line; the first match applies'), list,
    t('allow or deny, then publish, read or all, then a topic filter. %c is the client ID, %u the user. Example: allow publish tills/%c/#')), fault,
  h('div', { class: 'row' }, h('button', { type: 'submit' }, t('Save rules'))));
  rulesForm.addEventListener('submit', async event => {
    event.preventDefault();
    set(fault);
    try {
      await ask('PUT', path(user), { rules: rules(list.value) });
      notice(t('The rules of {user} were saved.', { user }));
      await look();
    } catch (error) {
      set(fault, why(error));
    }
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
  }, rows => table(t('Tokens'), [
    { title: t('Token'), head: true, cell: it => name(it.name) },
    { title: t('Scopes'), cell: it => it.scopes.join(', ') },
    { title: t('Products'), cell: it => it.products.join(', ') || t('all') },
    { title: t('Created'), cell: it => ago(it.made_ms) },
    { title: t('Expires'), cell: it => (it.expires_ms === null ? t('never') : [moment(it.expires_ms), ' ', it.expired && badge(t('expired'), 'bad')]) },
    { title: t('Last used'), cell: it => ago(it.used_ms) },
    { title: '', end: true, cell: it => button(t('Revoke'), async () => {
      if (!await sure(t('Revoke the token {name}?', { name: it.name }), t('Revoke token'), t('Its streams and console sessions end at once.'))) return;
      await ask('DELETE', `v1/tokens/${encodeURIComponent(it.name)}`);
      place.go({});
    }, { class: 'second small', 'aria-label': t('Revoke the token {name}', { name: it.name }) }) },
  ], rows, t('Only the first token, of the file api.token, exists.')));
}

/** @param {Place} place */
function showAudit(place) {
  put(place.root, search(place, [[t('Token or user'), text('token')],
    [t('Outcome'), choice('outcome', [['', t('All')], ['done', t('Done')], ['refused', t('Refused')], ['failed', t('Failed')]])]]));
  const { query } = place;
  pages(place, t('Calls'), async after => {
    const { entries, next } = await ask('GET', withQuery('v1/audit_log', {
      token: query.get('token'), outcome: query.get('outcome'), after, limit: 100,
    }), undefined, place.gone);
    return { rows: entries, next };
  }, rows => table(t('Calls, newest first'), [
    { title: t('Time'), head: true, cell: it => h('span', { class: 'mono' }, moment(it.at_ms)) },
    { title: t('Token or user'), cell: it => (it.token ? name(it.token) : h('span', { class: 'quiet' }, t('none'))) },
    { title: t('Address'), cell: it => it.peer ?? '–' },
    { title: t('Call'), cell: it => h('code', {}, it.action) },
    { title: t('Target'), cell: it => name(it.on) },
    { title: t('Outcome'), cell: it => [badge(it.outcome, it.outcome === 'done' ? 'good' : 'bad'), it.code && ` ${it.code}`, it.more > 0 && ` ${t('and {count} more', { count: it.more })}`] },
  ], rows, t('No matches.')));
}

export const users = { title: t('Users and rules'), scopes: ['users', 'view'], lead: t('The user database: who may log in over MQTT and chat, and which topics each user may publish and read.'), show: showUsers };
export const tokens = { title: t('API tokens'), scopes: ['admin', 'view'], lead: t('Who may call the API and log in to this console. A token is shown once, when it is created.'), show: showTokens };
export const audit = { title: t('Audit log'), scopes: ['admin', 'view'], lead: t('API calls that changed something, and refused calls.'), show: showAudit };
