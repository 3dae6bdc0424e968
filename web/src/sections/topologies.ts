// The labs, drawn: one for every combination of levels.

import { h } from '../dom';
import type { Model } from '../model';
import { topologyCard } from '../plots/topology';
import { fold } from './fold';
import { section } from './section';

const SHOWN = 9;

export function topologies(model: Model): HTMLElement {
  const all = model.summary.topologies;
  const labs = [...new Set(all.map((topology) => topology.lab))];
  return section(
    'topology',
    all.length === 1 ? 'The lab' : 'The labs',
    h(
      'p',
      {},
      labs.length === 1 ? `Lab ${labs[0]}. ` : '',
      'Square: process group, double square: container, hexagon: virtual machine, circle: the host; a dot is a shared medium.',
    ),
    all.length === 0 ? h('p', { class: 'empty' }, 'No topology was recorded.') : null,
    h('div', { class: 'panels labs' }, fold(all, SHOWN, 'lab', topologyCard)),
  );
}
