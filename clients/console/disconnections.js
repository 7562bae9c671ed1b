// Connections that ended or were refused, newest first, with filters in the address.

import { ask, withQuery } from './api.js';
import { h, put } from './dom.js';
import { Invalid, blame, choice, search, text } from './forms.js';
import { bytes, duration, moment, name, table } from './show.js';
import { pages } from './clients.js';
import { meanings } from './reasons.js';
import { t } from './texts.js';

/** Entries on a page. */
const PAGE = 100;

/** A time that somebody typed, as Unix milliseconds; empty: none. NaN: it is no time. @param {string | null} typed */
export function unixMs(typed) {
  const written = (typed ?? '').trim();
  if (written === '') return null;
  const ago = /^(\d+)([smhd])$/.exec(written);
  if (ago) return Date.now() - Number(ago[1]) * ({ s: 1, m: 60, h: 3_600, d: 86_400 }[ago[2] ?? 's'] ?? 1) * 1_000;
  return Date.parse(written);
}

/** @param {import('./console.js').Place} place */
function show(place) {
  const { query } = place;
  const [since, until] = [text('since', '15m, 2026-11-29T03:10'), text('until', '2026-11-29T03:20')];
  const form = search(place, [
    [t('Client'), text('client_id'), t('The exact ID of the client or device; of IM and XMPP: account/device.')], [t('User'), text('user'), t('The exact name of the user.')],
    [t('Address or network'), text('address', '10.1.0.0/16'), t('An IP address, or a network as address/prefix length.')],
    [t('Reason'), text('reason', 'slow_consumer'), t('A reason of the page Disconnect reasons.')],
    [t('Protocol'), choice('protocol', [['', t('All')], ['mqtt', 'MQTT'], ['miop', 'MIOP'], ['im', 'IM'], ['xmpp', 'XMPP'], ['http', 'HTTP']]), t('The protocol of the connection. Default: all.')],
    [t('Since'), since, t('The earliest time: how long ago (30s, 15m, 2h, 3d) or a date with a time. Default: no limit.')],
    [t('Until'), until, t('The latest time, in the same way. Default: now.')],
  ]);
  put(place.root, form);
  const [since_ms, until_ms] = [unixMs(query.get('since')), unixMs(query.get('until'))];
  const wrong = [since, until].filter((_, at) => Number.isNaN([since_ms, until_ms][at]));
  wrong.forEach(it => blame(form, new Invalid(it, t('Invalid time. Times are durations (15m) or dates with a time (2026-11-29T03:10).'))));
  if (wrong.length) return;
  pages(place, t('Disconnections, newest first'), async after => {
    const wanted = ['client_id', 'user', 'address', 'reason', 'protocol'].map(key => [key, query.get(key) || null]);
    const page = /** @type {any} */ (await ask('GET', withQuery('v1/disconnections', {
      ...Object.fromEntries(wanted), since_ms, until_ms, after, limit: PAGE,
    }), undefined, place.gone));
    const { closed } = await meanings();
    return { rows: page.disconnections.map((/** @type {any} */ it) => ({ ...it, meaning: closed?.[it.reason] ?? '' })), next: page.next };
  }, rows => table(t('Disconnections'), [
    { title: t('Time'), head: true, cell: it => h('span', { class: 'mono' }, moment(it.at_ms)) },
    { title: t('Client'), cell: it => (it.client_id === null ? '–' : it.protocol === 'mqtt' ? h('a', { href: `#/clients?client_id=${encodeURIComponent(it.client_id)}` }, name(it.client_id)) : name(it.client_id)) },
    { title: t('User'), cell: it => (it.user === null ? '–' : name(it.user)) },
    { title: t('Address'), cell: it => h('span', { class: 'mono' }, it.address ?? '–') },
    { title: t('Protocol'), cell: it => it.protocol ?? '–' },
    { title: t('Listener'), cell: it => name(it.listener) },
    { title: t('Reason'), cell: it => [h('span', { class: 'mono' }, it.reason), it.detail && ` (${it.detail})`, h('p', { class: 'quiet' }, it.meaning)] },
    { title: t('Connected for'), end: true, cell: it => (it.connected_ms === null ? '–' : duration(it.connected_ms)) },
    { title: t('Bytes received'), end: true, cell: it => (it.bytes_in === null ? '–' : bytes(it.bytes_in)) },
    { title: t('Bytes sent'), end: true, cell: it => (it.bytes_out === null ? '–' : bytes(it.bytes_out)) },
  ], rows, t('No disconnections match.')));
}

export const page = { title: t('Disconnections'), scopes: ['read'], lead: t('Connections that ended or were refused: who, when and why. The server keeps the newest ones in memory.'), show };
