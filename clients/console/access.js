// Who may do what: users of the book with their rules, tokens of the API, and what was done with them.

import { ask, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { ago, badge, button, card, field, loaded, moment, name, notice, pairs, sure, table, why } from './show.js';
import { choice, pages, search, text } from './clients.js';

/** @typedef {import('./console.js').Place} Place */

/** @param {string} user */
const path = user => `v1/users/${encodeURIComponent(user)}`;

/** @param {any} rule */
const line = rule => `${rule.allow ? 'allow' : 'deny'} ${rule.action} ${rule.filter}`;

/** Rules as lines: `allow publish tills/%c/#`. @param {string} text */
function rules(text) {
  return text.split('\n').map(it => it.trim()).filter(Boolean).map(it => {
    const found = /^(allow|deny)\s+(publish|read|all)\s+(.+)$/.exec(it);
    if (!found) throw new Error(`A rule is "allow" or "deny", then "publish", "read" or "all", then a topic filter: ${it}`);
    return { allow: found[1] === 'allow', action: found[2], filter: found[3] };
  });
}

/** @param {Place} place */
function showUsers(place) {
  const one = place.query.get('user');
  if (one) return showUser(place, one);
  const find = h('input', { name: 'user', type: 'search', required: true, autocomplete: 'off' });
  put(place.root, search(place, [['Name', find]]));
  pages(place, 'Users', async after => {
    const { users, next } = await ask('GET', withQuery('v1/users', { after, limit: 100 }), undefined, place.gone);
    return { rows: users, next };
  }, rows => table('Users', [
    { title: 'User', head: true, cell: it => h('a', { href: `#/users?user=${encodeURIComponent(it.name)}` }, name(it.name)) },
    { title: 'Password', cell: it => (it.has_password ? 'has one' : 'none') },
    { title: 'Is', cell: it => [it.superuser && badge('superuser', 'warn'), it.disabled && badge('disabled', 'bad')] },
    { title: 'Rules', cell: it => (it.rules.length ? name(it.rules.map(line).join('; ')) : '–') },
  ], rows, 'The book has no user. Users of a password file are not in it.'));
  const user = h('input', { name: 'new', required: true, maxlength: 256, autocomplete: 'off' });
  const password = h('input', { name: 'password', type: 'password', required: true, maxlength: 1024, autocomplete: 'new-password' });
  const fault = h('p', { class: 'fault', role: 'alert' });
  const form = h('form', { class: 'filter' }, field('Name', user), field('Password', password),
    h('button', { type: 'submit' }, 'Add'), fault);
  form.addEventListener('submit', async event => {
    event.preventDefault();
    set(fault);
    try {
      // A name that is there already is not changed by a form that says "add".
      const there = await ask('GET', path(user.value)).then(() => true, error => {
        if (error.status !== 404) throw error;
        return false;
      });
      if (there) throw new Error('There is a user with this name.');
      await ask('PUT', path(user.value), { password: password.value });
      notice(`${user.value} can log in.`);
      location.hash = `#/users?user=${encodeURIComponent(user.value)}`;
    } catch (error) {
      set(fault, why(error));
    }
  });
  put(place.root, card('Add a user', form));
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
      ['Password', it.has_password ? 'has one' : 'none'], ['Superuser', it.superuser ? 'yes, may do everything' : 'no'],
      ['Disabled', it.disabled ? 'yes, is refused' : 'no'], ['Number', it.uid], ['Epoch', it.epoch],
    ]), h('div', { class: 'row' },
      button('End all its sessions', async () => {
        if (!await sure(`End all sessions of ${user}?`, 'End them', 'It may come again with its password.')) return;
        await ask('POST', `${path(user)}/kick`);
        notice(`All sessions of ${user} are over.`);
        await look();
      }, { class: 'danger', id: 'kick' }),
      button(it.disabled ? 'Enable' : 'Disable', change({ disabled: !it.disabled }), { class: 'second' }),
      button(it.superuser ? 'Superuser no more' : 'Make it a superuser', change({ superuser: !it.superuser }), { class: 'second' }),
      button('Remove', async () => {
        if (!await sure(`Remove ${user}?`, 'Remove it', 'Its connections end, and its rules are gone.')) return;
        await ask('DELETE', path(user));
        notice(`${user} is gone.`);
        location.hash = '#/users';
      }, { class: 'second', id: 'remove' }))];
  });
  const change = h('form', { class: 'filter' }, field('New password', password, 'Ends the sessions that were begun with the old one.'),
    h('button', { type: 'submit' }, 'Set'));
  change.addEventListener('submit', async event => {
    event.preventDefault();
    await ask('PUT', path(user), { password: password.value });
    password.value = '';
    notice(`${user} has a new password.`);
    await look();
  });
  const rulesForm = h('form', { class: 'grid' }, field('One a line; the first that matches holds', list,
    'allow or deny, then publish, read or all, then a filter; %c is the client identifier, %u the user.'), fault,
  h('div', { class: 'row' }, h('button', { type: 'submit' }, 'Save the rules')));
  rulesForm.addEventListener('submit', async event => {
    event.preventDefault();
    set(fault);
    try {
      await ask('PUT', path(user), { rules: rules(list.value) });
      notice(`The rules of ${user} hold.`);
      await look();
    } catch (error) {
      set(fault, why(error));
    }
  });
  put(place.root, h('p', {}, h('a', { href: '#/users' }, '← All users')),
    h('section', { class: 'card' }, h('h2', {}, 'User ', name(user)), state),
    h('div', { class: 'pair' }, card('Password', change), card('Rules', rulesForm)));
  look();
}

/** @param {Place} place */
function showTokens(place) {
  pages(place, 'Tokens', async after => {
    const { tokens, next } = await ask('GET', withQuery('v1/tokens', { after, limit: 100 }), undefined, place.gone);
    return { rows: tokens, next };
  }, rows => table('Tokens', [
    { title: 'Token', head: true, cell: it => name(it.name) },
    { title: 'Good for', cell: it => it.scopes.join(', ') },
    { title: 'Products', cell: it => it.products.join(', ') || 'all' },
    { title: 'Made', cell: it => ago(it.made_ms) },
    { title: 'Ends', cell: it => (it.expires_ms === null ? 'never' : [moment(it.expires_ms), it.expired && badge('over', 'bad')]) },
    { title: 'Last used', cell: it => ago(it.used_ms) },
    { title: '', end: true, cell: it => button('Revoke', async () => {
      if (!await sure(`Revoke the token ${it.name}?`, 'Revoke it', 'It opens nothing from then on; its streams and sessions end.')) return;
      await ask('DELETE', `v1/tokens/${encodeURIComponent(it.name)}`);
      place.go({});
    }, { class: 'second small', 'aria-label': `Revoke the token ${it.name}` }) },
  ], rows, 'There is only the first one, of the file. holdline token make NAME --scope read makes another.'));
}

/** @param {Place} place */
function showAudit(place) {
  put(place.root, search(place, [['Token', text('token')],
    ['Outcome', choice('outcome', [['', 'All'], ['done', 'Done'], ['refused', 'Refused'], ['failed', 'Failed']])]]));
  const { query } = place;
  pages(place, 'Calls', async after => {
    const { entries, next } = await ask('GET', withQuery('v1/audit_log', {
      token: query.get('token'), outcome: query.get('outcome'), after, limit: 100,
    }), undefined, place.gone);
    return { rows: entries, next };
  }, rows => table('Calls, newest first', [
    { title: 'At', head: true, cell: it => h('span', { class: 'mono' }, moment(it.at_ms)) },
    { title: 'Token', cell: it => (it.token ? name(it.token) : h('span', { class: 'quiet' }, 'none')) },
    { title: 'From', cell: it => it.peer ?? '–' },
    { title: 'Call', cell: it => h('code', {}, it.action) },
    { title: 'On', cell: it => name(it.on) },
    { title: 'Outcome', cell: it => [badge(it.outcome, it.outcome === 'done' ? 'good' : 'bad'), it.code && ` ${it.code}`, it.more > 0 && ` and ${it.more} more`] },
  ], rows, 'No call is like that.'));
}

export const users = { title: 'Users and rules', scopes: ['users', 'view'], lead: 'The book of users: who may log in over MQTT and IM, and publish and read what.', show: showUsers };
export const tokens = { title: 'Tokens of the API', scopes: ['admin', 'view'], lead: 'Who may call the API and log in here. The tokens themselves are never shown again.', show: showTokens };
export const audit = { title: 'Audit log', scopes: ['admin', 'view'], lead: 'Calls that changed something, and calls that were refused.', show: showAudit };
