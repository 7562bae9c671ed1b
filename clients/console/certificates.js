// Certificates in use, and when they expire: a card of the page of services.

import { ask } from './api.js';
import { h } from './dom.js';
import { badge, card, loaded, moment, name, number, table } from './show.js';
import { t } from './texts.js';

/** What kinds are called. @type {Record<string, string>} */
const KINDS = { certificate: t('Certificate'), client_ca: t('Client authority'), revocation_list: t('Revocation list') };

/** @type {Record<string, 'good' | 'bad' | 'warn'>} */
const STATES = { valid: 'good', expiring: 'warn', expired: 'bad' };

/** @param {import('./console.js').Place} place */
export function certificates(place) {
  const list = h('div');
  loaded(list, async () => {
    const told = await ask('GET', 'v1/certificates', undefined, place.gone);
    return table(t('Certificates'), [
      { title: t('Subject'), head: true, cell: it => name(it.subject) },
      { title: t('Kind'), cell: it => KINDS[it.kind] ?? it.kind },
      { title: t('State'), cell: it => badge(it.state, STATES[it.state] ?? 'off') },
      { title: t('Expires'), cell: it => moment(it.expires_ms) },
      { title: t('Days left'), end: true, cell: it => number(it.days_left) },
      { title: t('Listeners'), cell: it => name(it.listeners.join(', ')) },
      { title: t('File'), cell: it => name(it.file) },
    ], told.certificates, t('No listener uses TLS.'));
  });
  return card(t('Certificates'), list);
}
