// How long containers and VMs took to start: one row a lab and kind, a bar to the median of all its nodes.

import { h } from '../dom';
import { count, duration, plural } from '../format';
import type { Model } from '../model';
import type { Starts, TimeRange } from '../summary';

export function starts({ summary }: Model): HTMLElement | null {
  const rows = summary.starts ?? [];
  if (rows.length === 0) return null;
  const longest = Math.max(...rows.map((row) => row.all.largest));
  const heads = ['Lab', 'Kind', 'Nodes', 'One node', 'All of them', ''];
  return h(
    'section',
    { id: 'starts', 'aria-labelledby': 'starts-title' },
    h('h2', { id: 'starts-title' }, 'Start of nodes'),
    h(
      'p',
      {},
      'Until a node was ready for commands, its network included: one node from its own begin, all of them from the first begin to the last end; medians and ranges.',
    ),
    h(
      'div',
      { class: 'scroll' },
      h(
        'table',
        { class: 'starts' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            heads.map((head) => h('th', { scope: 'col' }, head)),
          ),
        ),
        h(
          'tbody',
          {},
          rows.map((row) => rowOf(row, longest)),
        ),
      ),
    ),
  );
}

function rowOf(row: Starts, longest: number): HTMLElement {
  const levels = Object.values(row.levels).join(' · ');
  const share = (value: number): string => `${((100 * value) / longest).toFixed(2)}%`;
  return h(
    'tr',
    { 'data-start': row.kind, 'data-nodes': row.nodes },
    h('th', { scope: 'row' }, levels || 'the lab'),
    h('td', {}, row.kind),
    h('td', {}, count(row.nodes), h('small', {}, plural(row.deployments, 'deployment'))),
    rangeOf(row.each),
    rangeOf(row.all),
    h(
      'td',
      { class: 'bar', 'aria-hidden': 'true' },
      h('span', { style: `width:${share(row.all.median)}` }),
    ),
  );
}

function rangeOf({ median, smallest, largest }: TimeRange): HTMLElement {
  const ends = `${duration(smallest)}–${duration(largest)}`;
  return h('td', {}, duration(median), h('small', {}, ends));
}
