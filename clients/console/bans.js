// Bans: addresses, clients and users that the server refuses.

import { ask, withQuery } from './api.js';
import { h, put } from './dom.js';
import { choice, field, submits } from './forms.js';
import { ago, badge, button, card, moment, name, notice, number, sure, table } from './show.js';
import { pages } from './clients.js';
import { parts, t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** What the kinds are called. @type {[string, string][]} */
const KINDS = [['address', t('Address or network')], ['client', t('Client or device')], ['user', t('User')]];

/** How long a ban may last: seconds, with their words. @type {[string, string][]} */
const TIMES = [['600', t('10 minutes')], ['3600', t('1 hour')], ['86400', t('1 day')],
  ['604800', t('1 week')], ['2592000', t('30 days')], ['', t('Permanent')]];

/** What made a ban. @type {Record<string, string>} */
const CAUSES = { operator: t('operator'), flapping: t('disconnected too often'), failed_logins: t('too many failed logins') };

/** @param {Place} place */
function form(place) {
  const kind = h('select', { name: 'kind' }, KINDS.map(([value, word]) => h('option', { value }, word)));
  const subject = h('input', { name: 'subject', required: true, maxlength: 1024, autocomplete: 'off', 'data-errors': 'bad_request,bans_full' });
  const ttl = h('select', { name: 'ttl', 'data-errors': 'ttl_s' }, TIMES.map(([value, word]) => h('option', { value }, word)));
  const note = h('input', { name: 'note', maxlength: 256, autocomplete: 'off' });
  const made = h('form', { class: 'filter', id: 'ban' },
    field(t('Kind'), kind, t('What the subject is. Default: an address or a network.')),
    field(t('Subject'), subject, t('192.0.2.7, 192.0.2.0/24 or 2001:db8::/32, or the exact name of the client, device or user: at most 1,024 bytes.')),
    field(t('Duration'), ttl, t('When the ban ends by itself. Default: after 10 minutes.')),
    field(t('Note'), note, t('The reason, for other operators: at most 256 bytes. Optional.')),
    h('button', { type: 'submit', class: 'danger' }, t('Ban')));
  submits(made, async () => {
    const text = subject.value.trim();
    if (!await sure(t('Ban {subject}?', { subject: text }), t('Ban'), t('Its open connections end at once, and new ones are refused.'))) return;
    const ban = await ask('POST', 'v1/bans', {
      kind: kind.value, subject: text, note: note.value,
      ...(ttl.value ? { ttl_s: Number(ttl.value) } : {}),
    });
    notice(t('{subject} is banned. Connections ended: {count}.', { subject: ban.subject, count: number(ban.ended) }));
    place.go({ made: String(Date.now()) });
  });
  return card(t('Add a ban'), made);
}

/** @param {Place} place */
function show(place) {
  const mayChange = place.may('manage') || place.may('admin');
  const filter = choice('kind', [['', t('All kinds')], ...KINDS]);
  filter.value = place.query.get('kind') ?? '';
  filter.addEventListener('change', () => place.go({ kind: filter.value }));
  put(place.root, h('div', { class: 'filter' }, field(t('Show'), filter, t('Which bans are listed. Default: all.'))));
  const kind = place.query.get('kind');
  pages(place, t('Bans'), async after => {
    const { bans, next } = await ask('GET', withQuery('v1/bans', { kind, after, limit: 100 }), undefined, place.gone);
    return { rows: bans, next };
  }, rows => table(t('Bans'), [
    { title: t('Subject'), head: true, cell: it => name(it.subject) },
    { title: t('Kind'), cell: it => it.kind },
    { title: t('Cause'), cell: it => (it.cause === 'operator' ? CAUSES.operator : badge(CAUSES[it.cause] ?? it.cause, 'warn')) },
    { title: t('Ends'), cell: it => (it.expires_ms === null ? t('never') : moment(it.expires_ms)) },
    { title: t('Added'), cell: it => [ago(it.made_ms), ...(it.made_by ? parts(' by {name}', { name: name(it.made_by) }) : [])] },
    { title: t('Refused'), end: true, cell: it => number(it.refused) },
    { title: t('Connections ended'), end: true, cell: it => number(it.ended) },
    { title: t('Note'), cell: it => (it.note ? name(it.note) : '–') },
    { title: '', end: true, cell: it => mayChange && button(t('Lift'), async () => {
      if (!await sure(t('Lift the ban of {subject}?', { subject: it.subject }), t('Lift'), t('It can connect again at once.'))) return;
      await ask('DELETE', `v1/bans/${it.kind}/${encodeURIComponent(it.subject)}`);
      notice(t('The ban of {subject} is lifted.', { subject: it.subject }));
      place.go({ lifted: String(Date.now()) });
    }, { class: 'second small', 'aria-label': t('Lift the ban of {subject}', { subject: it.subject }) }) },
  ], rows, t('No bans.')));
  if (mayChange) put(place.root, form(place));
}

export const page = { title: t('Bans'), scopes: ['manage', 'view'], lead: t('Addresses, clients and users that are refused, for a time or permanently.'), show };
