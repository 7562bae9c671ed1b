// The cluster: who leads, which nodes there are, and how far the copies of the logs are.

import { ask } from './api.js';
import { h, put } from './dom.js';
import { badge, bytes, card, duration, loaded, name, number, pairs, refresher, sortable, toolCard } from './show.js';
import { t } from './texts.js';

/** @param {any} cluster @param {number | null} node */
const named = (cluster, node) => {
  const found = cluster.nodes.find((/** @type {any} */ it) => it.node === node);
  return node === null ? '–' : found ? `${found.name} (${node})` : String(node);
};

/** How it stands, in a word. @param {any} it */
const standing = it => (it.isolated ? badge(t('isolated: nothing is acknowledged'), 'bad')
  : !it.connected ? badge(t('NATS is disconnected'), 'bad')
    : it.full ? badge(t('NATS is full'), 'bad')
    : it.lost_unseen > 0 ? badge(t('Acknowledged records lost'), 'bad')
    : it.followers < it.followers_wanted ? badge(t('followers are missing'), 'warn') : badge(t('in order'), 'good'));

/** Whether a node was silent for three seconds. @param {any} cluster @param {any} it */
const isAway = (cluster, it) => it.node !== cluster.node && (it.heard_ms === null || it.heard_ms >= 3_000);

/** @param {any} cluster */
const summary = cluster => card(t('Cluster'), pairs([
  [t('Name'), name(cluster.name)],
  [t('State'), standing(cluster)],
  [t('This node'), named(cluster, cluster.node)],
  [t('Leader'), named(cluster, cluster.leader)],
  [t('Followers'), `${number(cluster.followers)} / ${number(cluster.followers_wanted)}`],
]));

/** @param {import('./console.js').Place} place @param {any} cluster */
const nodes = (place, cluster) => card(t('Nodes'), sortable(place, t('Nodes'), [
  { title: t('Node'), sort: 'node', head: true, cell: it => named(cluster, it.node) },
  { title: t('Role'), cell: it => (isAway(cluster, it) ? badge(t('away'), 'warn') : it.node === cluster.leader ? badge(t('leads'), 'good') : t('follows')) },
  { title: t('Last heard'), sort: 'heard_ms', end: true, cell: it => (it.heard_ms === null ? '–' : duration(it.heard_ms)) },
  { title: t('Addresses'), cell: it => it.addresses.join(' ') },
], cluster.nodes, t('No nodes.')));

/** @param {import('./console.js').Place} place @param {any} cluster */
const logs = (place, cluster) => card(t('Logs'), sortable(place, t('Logs'), [
  { title: t('Log'), sort: 'log', head: true, cell: it => String(it.log) },
  { title: t('Epoch'), sort: 'epoch', end: true, cell: it => number(it.epoch) },
  { title: t('Generation'), sort: 'generation', end: true, cell: it => number(it.generation) },
  { title: t('Records'), sort: 'index', end: true, cell: it => number(it.index) },
  { title: t('Unacknowledged'), end: true, cell: it => number(it.index - it.acknowledged) },
  { title: t('Copies'), sort: 'copies', end: true, cell: it => number(it.copies) },
  { title: t('Stream'), sort: 'stream_bytes', end: true, cell: it => bytes(it.stream_bytes) },
  { title: t('Acknowledged after'), sort: 'acknowledged_after_us', end: true, cell: it => `${(it.acknowledged_after_us / 1_000).toFixed(1)} ms` },
], cluster.logs, t('No logs.')));

/** @param {import('./console.js').Place} place */
function show(place) {
  const list = h('div');
  const look = () => loaded(list, async () => {
    const { cluster } = /** @type {any} */ (await ask('GET', 'v1/cluster', undefined, place.gone));
    return cluster === null
      ? h('p', {}, t('This server is alone. A standby that takes over is described in docs/cluster.md.'))
      : h('div', { class: 'sections' }, summary(cluster), nodes(place, cluster), logs(place, cluster));
  });
  put(place.root, toolCard(t('Cluster'), refresher(place, list, look), list));
  look();
}

export const page = { title: t('Cluster'), scopes: ['read'], lead: t('Who leads, and how far the copies of the logs are.'), show };
