// The console: login, navigation, and which page is shown.
//
// The address after `#` names the page and its query, so that every view can be linked and gone
// back to. This module knows no figure; pages know their own. A page stops at the signal `gone`.

import { ask, follow, onSessionOver, Refused, why } from './api.js';
import { h, say, set } from './dom.js';
import { field } from './forms.js';
import { duration, notice } from './show.js';
import { LANGUAGES, choose, language, parts, t } from './texts.js';
import * as access from './access.js';
import * as alarms from './alarms.js';
import * as bans from './bans.js';
import * as clients from './clients.js';
import * as cluster from './cluster.js';
import * as configuration from './configuration.js';
import * as conversations from './conversations.js';
import * as disconnections from './disconnections.js';
import * as events from './events.js';
import * as log from './log.js';
import * as overview from './overview.js';
import * as products from './products.js';
import * as push from './push.js';
import * as pushes from './pushes.js';
import * as reasons from './reasons.js';
import * as reference from './reference.js';
import * as rooms from './rooms.js';
import * as services from './services.js';
import * as slow from './slow.js';
import * as talkers from './talkers.js';
import * as topics from './topics.js';
import * as trace from './trace.js';

/**
 * @typedef {object} Session
 * @property {string} token
 * @property {string | null} role
 * @property {string[]} scopes
 * @property {string[]} products
 * @property {number | null} ends_ms
 */

/**
 * The place of a page: its element, its query in the address, and what it may use.
 * @typedef {object} Place
 * @property {Element} root where it is shown
 * @property {URLSearchParams} query what of it is wanted
 * @property {(query: Record<string, string>) => void} go shows it with another query
 * @property {(query: Record<string, string>) => void} keep changes the query in the address; the page goes on
 * @property {(scope: string) => boolean} may whether whoever is logged in may do that
 * @property {(hear: (overview: any) => void) => void} live hears how the server is, once a second
 * @property {AbortSignal} gone told when the page is left
 */

/** @typedef {{ title: string, scopes: string[], lead: string, show: (place: Place) => void }} Page */

/** Pages by their names, in groups of the rail. @type {[string, Record<string, Page>][]} */
const GROUPS = [
  [t('Monitoring'), { overview: overview.page, alarms: alarms.page, events: events.page, trace: trace.page, log: log.page }],
  [t('Clients and devices'), { clients: clients.page, sessions: clients.sessions, devices: clients.devices, disconnections: disconnections.page, slow: slow.page, talkers: talkers.page }],
  [t('Messages'), { topics: topics.page, groups: rooms.groups, chatrooms: rooms.chatrooms, conversations: conversations.page, push: push.page, pushes: pushes.page }],
  [t('Diagnostics'), { closes: reasons.closes, drops: reasons.drops, counters: reasons.counters }],
  [t('Server'), { cluster: cluster.page, services: services.page, products: products.page, users: access.users, tokens: access.tokens, bans: bans.page, audit: access.audit, configuration: configuration.page, api: reference.page }],
];

/** @type {Record<string, Page>} */
const PAGES = Object.assign({}, ...GROUPS.map(([, pages]) => pages));

/** @type {Session | null} */
let session = null;
let leave = new AbortController();
let unfollow = () => {};
/** @type {any} */
let newest = null;
/** @type {Set<(overview: any) => void>} */
const hearers = new Set();

const may = (/** @type {string} */ scope) => session?.scopes.includes(scope) ?? false;

// -- theme and language

/** @param {string} theme */
function wear(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** What was chosen before; a browser may keep nothing. */
function chosen() {
  try {
    return localStorage.getItem('theme') ?? 'system';
  } catch {
    return 'system';
  }
}

function themes() {
  const options = [['system', t('Same as system')], ['light', t('Light')], ['dark', t('Dark')]];
  const select = h('select', { id: 'theme' },
    options.map(([value, label]) => h('option', { value, selected: value === chosen() }, label)));
  select.addEventListener('change', () => {
    wear(select.value);
    try {
      localStorage.setItem('theme', select.value);
    } catch {
      // The choice lasts until the page is closed.
    }
  });
  return h('label', { class: 'field' }, h('span', { class: 'quiet' }, t('Theme')), select);
}

/** The switch between the languages; texts are made when modules load, so another one reloads. */
function languages() {
  const select = h('select', { id: 'language' }, LANGUAGES.map(([code, label]) =>
    h('option', { value: code, lang: code, selected: code === language }, label)));
  select.addEventListener('change', () => {
    if (choose(select.value)) location.reload();
    else select.value = language;
  });
  return h('label', { class: 'field' }, h('span', { class: 'quiet' }, 'Language / 语言'), select);
}

const brand = () => h('div', { class: 'brand' }, h('img', { src: 'console/icon.svg', alt: '' }), 'Holdline');

// -- login

/** What each role permits. @type {Record<string, string>} */
const ROLES = {
  viewer: t('viewer: can see everything, can change nothing'),
  operator: t('operator: can also disconnect, push, publish and trace'),
  admin: t('admin: full access'),
};

/** @param {string} [said] */
function door(said = '') {
  unfollow();
  leave.abort();
  session = null;
  const token = h('input', {
    id: 'token', type: 'password', autocomplete: 'current-password', required: true, maxlength: 1024,
    spellcheck: 'false',
  });
  const user = h('input', { id: 'user', name: 'username', autocomplete: 'username', maxlength: 256, spellcheck: 'false' });
  const fault = h('p', { id: 'door-fault', class: 'fault', role: 'alert' }, said);
  const enter = h('button', { type: 'submit' }, t('Log in'));
  const form = h('form', {}, h('h1', { class: 'brand' }, h('img', { src: 'console/icon.svg', alt: '' }), 'Holdline'),
    field(t('User'), user, t('A user with a role. Leave empty to log in with an API token.')),
    field(t('Password or API token'), token, t('The password of this user, or the token.')), fault, enter,
    h('p', { class: 'quiet' }, parts('The first token has full access; it is in {file} in the data folder of the server. Create a read-only token with {command}.',
      { file: h('code', {}, 'api.token'), command: h('code', {}, 'holdline token make NAME --scope read') })),
    languages());
  form.addEventListener('submit', async event => {
    event.preventDefault();
    enter.disabled = true;
    try {
      const who = user.value ? { user: user.value, password: token.value } : { token: token.value.trim() };
      session = (await ask('POST', 'v1/session', who)).session;
      room();
    } catch (error) {
      const wrong = user.value ? t('Wrong user name or password, or the user has no role.') : t('Invalid token.');
      const said = error instanceof Refused && error.status === 401 ? wrong : why(error);
      set(fault, said);
      enter.disabled = false;
      token.select();
    }
  });
  document.title = `Holdline: ${t('Log in')}`;
  set(document.body, h('main', { id: 'door' }, form));
  (said ? token : user).focus();
}

async function out() {
  await ask('DELETE', 'v1/session').catch(() => {});
  door(t('You are logged out.'));
}

// -- navigation and pages

function room() {
  const open = (/** @type {boolean} */ is) => {
    rail.classList.toggle('open', is);
    menu.setAttribute('aria-expanded', String(is));
  };
  const menu = h('button', { id: 'menu', class: 'second', type: 'button', 'aria-expanded': 'false',
    'aria-controls': 'pages' }, t('Menu'));
  menu.addEventListener('click', () => open(!rail.classList.contains('open')));
  const seen = (/** @type {Page} */ page) => page.scopes.some(may);
  const groups = GROUPS.map(([title, pages]) => {
    const shown = Object.entries(pages).filter(([, page]) => seen(page));
    return shown.length > 0 && [h('h2', {}, title), h('ul', {},
      shown.map(([name, page]) => h('li', {}, h('a', { href: `#/${name}` }, page.title))))];
  });
  const logout = h('button', { id: 'logout', class: 'second', type: 'button' }, t('Log out'));
  logout.addEventListener('click', out);
  const rail = h('header', { id: 'rail' },
    h('div', { class: 'bar' }, brand(), menu),
    h('nav', { id: 'pages', 'aria-label': t('Pages') }, ...groups.filter(Boolean).map(it => /** @type {any} */ (it)).flat()),
    h('div', { class: 'who' }, h('div', {}, h('small', {}, session?.role ? t('User') : t('Token')), ' ', h('bdi', {}, session?.token ?? ''),
      h('div', { id: 'role', class: 'quiet' }, session?.role ? ROLES[session.role] : session?.scopes.includes('admin') ? t('full access') : session?.scopes.join(', '))),
    themes(), languages(), logout));
  rail.addEventListener('click', event => {
    if (event.target instanceof Element && event.target.closest('a')) open(false);
  });
  set(document.body, h('a', { class: 'skip', href: '#main', onclick: (/** @type {Event} */ event) => {
    event.preventDefault();
    document.getElementById('main')?.focus();
  } }, t('Skip to the page')), h('div', { id: 'frame' }, rail,
    h('main', { id: 'main', tabindex: -1 },
      h('header', {}, h('h1', { id: 'title' }), h('span', { id: 'live', class: 'live quiet' }), h('p', { id: 'lead', class: 'lead' })),
      h('div', { id: 'page' }))),
  h('div', { id: 'notices', role: 'status', 'aria-live': 'polite' }));
  listen();
  show();
}

/** Hears how the server is, once for all pages. */
function listen() {
  unfollow();
  if (!may('metrics')) return;
  let state = 'lost';
  const tell = () => {
    const place = document.getElementById('live');
    if (!place) return;
    const age_ms = newest ? Date.now() - heard_ms : 0;
    const old = newest && age_ms > 3_000;
    const word = { live: t('Live'), paused: t('Paused'), lost: t('Not connected') }[/** @type {'live'} */ (state)];
    say(place, old && state !== 'paused' ? t('{state}, figures are {age} old', { state: word, age: duration(age_ms) }) : word);
    place.dataset.state = old && state === 'live' ? 'stale' : state;
  };
  let heard_ms = 0;
  const end = follow(() => 'v1/overview/stream', {
    overview: told => {
      newest = told;
      heard_ms = Date.now();
      overview.keep(told);
      hearers.forEach(hear => hear(told));
      tell();
    },
  }, it => {
    state = it;
    tell();
  });
  const timer = setInterval(tell, 1_000);
  unfollow = () => {
    end();
    clearInterval(timer);
  };
}

/** Shows the page that the address names. */
function show() {
  if (!session) return;
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const first = Object.keys(PAGES).find(name => PAGES[name].scopes.some(may));
  const name = path in PAGES && PAGES[path].scopes.some(may) ? path : (first ?? 'overview');
  const page = PAGES[name];
  leave.abort();
  leave = new AbortController();
  hearers.clear();
  const root = document.getElementById('page');
  const title = document.getElementById('title');
  const lead = document.getElementById('lead');
  if (!root || !title || !lead) return;
  for (const link of document.querySelectorAll('#pages a')) {
    if (link.getAttribute('href') === `#/${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const isOther = title.textContent !== page.title;
  say(title, page.title);
  say(lead, page.lead);
  document.title = `${page.title} – Holdline`;
  set(root);
  const wanted = new URLSearchParams(query);
  page.show({
    root,
    query: wanted,
    keep: changes => {
      for (const [key, value] of Object.entries(changes)) {
        if (value) wanted.set(key, value);
        else wanted.delete(key);
      }
      const text = wanted.toString();
      history.replaceState(null, '', `#/${name}${text ? `?${text}` : ''}`);
    },
    go: wanted => {
      const text = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)).toString();
      const to = `#/${name}${text ? `?${text}` : ''}`;
      if (location.hash === to) show();
      else location.hash = to;
    },
    may,
    live: hear => {
      hearers.add(hear);
      if (newest) hear(newest);
    },
    gone: leave.signal,
  });
  if (isOther) window.scrollTo(0, 0);
}

wear(chosen());
document.documentElement.lang = language === 'zh' ? 'zh-CN' : language;
window.addEventListener('hashchange', show);
window.addEventListener('unhandledrejection', event => {
  // A call of a page that is closed was aborted.
  if (event.reason instanceof DOMException && event.reason.name === 'AbortError') return event.preventDefault();
  event.preventDefault();
  notice(why(event.reason), 'bad');
});
onSessionOver(() => session && door(t('Session ended. Log in again.')));
ask('GET', 'v1/session').then(told => {
  session = told.session;
  if (session) room();
  else door();
}, error => door(why(error)));
