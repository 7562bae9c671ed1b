// Alarms: conditions that need an operator, active and past, and their acknowledgement.

import { ask, withQuery } from './api.js';
import { h, put } from './dom.js';
import { ago, badge, button, loaded, moment, name, notice, refresher, table, toolCard } from './show.js';
import { parts, t } from './texts.js';

/** Alarms of a list. */
const SHOWN_MAX = 1_000;

/** What the kinds are called. @type {Record<string, string>} */
export const KINDS = {
  log_failed: t('Log failed'), log_full: t('Log full'), store_write_failed: t('Failed writes to the store'), messages_dropped: t('Messages dropped'),
  certificate_expired: t('Certificate expired'), store_almost_full: t('Storage is almost full'), draining: t('Server draining'),
  store_filling: t('Storage is filling up'), slow_disconnected: t('Clients disconnected as slow'), slow_clients: t('Slow clients'),
  memory_pressure: t('Memory pressure'), connections_refused: t('Connections refused'), directory_down: t('Presence directory not reachable'),
  platform_denied: t('Push platform refuses credentials'),
  bridge_down: t('Bridge disconnected'), webhook_failing: t('Webhook failing'), archive_down: t('Message archive disconnected'),
  accounts_database_down: t('Account database disconnected'), ldap_down: t('LDAP server unavailable'), event_stream_down: t('Event stream disconnected'),
  certificate_expiring: t('Certificate expires soon'), backup_old: t('Backup is old'),
  stream_full: t('NATS is full'), isolated: t('NATS is not reachable'), acknowledged_lost: t('Acknowledged records lost'),
  followers: t('Followers missing'), node_unreachable: t('Node not reachable'), clock_differs: t('Clocks differ'),
  follower_full: t('Follower: disk full'), follower_behind: t('Follower far behind'), nats_down: t('NATS is disconnected'),
  internal_error: t('Internal errors'),
};

/** @param {import('./console.js').Place} place */
function show(place) {
  const mayChange = place.may('manage') || place.may('admin');
  const state = place.query.get('state') === 'past' ? 'past' : 'active';
  const list = h('div');
  const look = () => loaded(list, async () => {
    const { alarms } = /** @type {any} */ (await ask('GET', withQuery('v1/alarms', { state, limit: SHOWN_MAX }), undefined, place.gone));
    return table(t('Alarms'), [
      { title: t('Condition'), head: true, cell: it => [KINDS[it.kind] ?? it.kind, it.subject && [' ', name(it.subject)], h('p', { class: 'quiet' }, it.text)] },
      { title: t('Severity'), cell: it => badge(it.level === 'critical' ? t('critical') : t('warning'), it.level === 'critical' ? 'bad' : 'warn') },
      { title: t('Raised'), cell: it => moment(it.raised_ms) },
      ...(state === 'past' ? [{ title: t('Cleared'), cell: (/** @type {any} */ it) => moment(it.cleared_ms) }] : []),
      { title: t('Acknowledged'), cell: it => (it.acknowledged_ms === null ? '–' : [ago(it.acknowledged_ms), ...parts(' by {name}', { name: name(it.acknowledged_by) })]) },
      { title: '', end: true, cell: it => mayChange && it.acknowledged_ms === null && button(t('Acknowledge'), async () => {
        await ask('POST', `v1/alarms/${it.id}/acknowledge`);
        notice(t('The alarm is acknowledged.'));
        look();
      }, { class: 'second small' }) },
    ], alarms, state === 'past' ? t('No past alarms.') : t('No active alarms.'));
  });
  const tab = (/** @type {string} */ to, /** @type {string} */ label) =>
    h('a', { href: `#/alarms?state=${to}`, 'aria-current': state === to ? 'true' : undefined }, label);
  put(place.root, h('nav', { class: 'tabs', 'aria-label': t('Show') }, tab('active', t('Active')), tab('past', t('Past'))),
    toolCard(t('Alarms'), refresher(place, list, () => look()), list));
  look();
}

export const page = { title: t('Alarms'), scopes: ['read'], lead: t('Conditions that need an operator. The server looks every ten seconds, and keeps the newest past alarms, also over a restart.'), show };
