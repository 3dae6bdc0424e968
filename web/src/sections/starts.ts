// How long containers and VMs took to start: one row a lab and kind, a bar to the median of all its nodes.

import { h } from '../dom';
import { count, plural } from '../format';
import type { Model } from '../model';
import type { Starts } from '../summary';
import { barCell, rangeCell, tableOf } from './rows';
import { section } from './section';

export function starts({ summary }: Model): HTMLElement | null {
  const rows = summary.starts ?? [];
  if (rows.length === 0) return null;
  const longest = Math.max(...rows.map((row) => row.all.largest));
  const heads = ['Lab', 'Kind', 'Nodes', 'One node', 'All of them', ''];
  return section(
    'starts',
    'Start of nodes',
    h(
      'p',
      {},
      'Until a node was ready for commands, its network included: one node from its own begin, all of them from the first begin to the last end; medians and ranges.',
    ),
    tableOf(
      heads,
      rows.map((row) => rowOf(row, longest)),
    ),
  );
}

function rowOf(row: Starts, longest: number): HTMLElement {
  const levels = Object.values(row.levels).join(' · ');
  return h(
    'tr',
    { 'data-start': row.kind, 'data-nodes': row.nodes },
    h('th', { scope: 'row' }, levels || 'the lab'),
    h('td', {}, row.kind),
    h('td', {}, count(row.nodes), h('small', {}, plural(row.deployments, 'deployment'))),
    rangeCell(row.each),
    rangeCell(row.all),
    barCell(row.all.median, longest),
  );
}
