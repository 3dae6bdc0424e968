// The labs, drawn. Drawing starts when a lab comes near the window: there is one for every
// combination of levels.

import { h } from '../dom';
import type { Model } from '../model';
import { topologyCard } from '../plots/topology';
import { fold } from './fold';

const SHOWN = 9;

export function topologies(model: Model): HTMLElement {
  const cards = model.summary.topologies.map((topology, index) => topologyCard(topology, index));
  const labs = [...new Set(model.summary.topologies.map((topology) => topology.lab))];
  return h(
    'section',
    { id: 'topology', 'aria-labelledby': 'topology-title' },
    h('h2', { id: 'topology-title' }, cards.length === 1 ? 'The lab' : 'The labs'),
    h(
      'p',
      {},
      labs.length === 1 ? `Lab ${labs[0]}. ` : '',
      'Square: process group, double square: container, hexagon: virtual machine, circle: the host; a dot is a shared medium.',
    ),
    cards.length === 0 ? h('p', { class: 'empty' }, 'No topology was recorded.') : null,
    h('div', { class: 'panels labs' }, fold(cards, SHOWN, 'lab')),
  );
}
