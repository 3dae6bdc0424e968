// Actions on nodes within the windows: one row a cell, node and act, a bar to the median silence.

import { h } from '../dom';
import { bytes, participle, plural } from '../format';
import type { Model } from '../model';
import type { Actions } from '../summary';
import { cellName } from './notes';
import { barCell, rangeCell, tableOf } from './rows';
import { section } from './section';

export function lives(model: Model): HTMLElement | null {
  const rows = model.summary.actions ?? [];
  if (rows.length === 0) return null;
  const longest = Math.max(...rows.map((row) => row.gap?.largest ?? 0), 1);
  const heads = ['Done', 'Longest silence', 'Stood still', 'QEMU says', 'Took', 'Copied', ''];
  return section(
    'lives',
    'What was done to nodes',
    h(
      'p',
      {},
      'The longest time without an arrival, from the order until a second after it was done, is what users notice. Beside it: how long the node stood still, how long by the account of QEMU, and all of the action; medians and ranges.',
    ),
    tableOf(
      heads,
      rows.map((row) => rowOf(model, row, longest)),
    ),
  );
}

function rowOf(model: Model, row: Actions, longest: number): HTMLElement {
  const passes = row.passes && `${row.passes.median} passes`;
  const forced = row.forced > 0 ? `, ${row.forced} stopped for the rest` : '';
  return h(
    'tr',
    { 'data-act': row.act, 'data-node': row.node },
    h(
      'th',
      { scope: 'row' },
      `${row.node} ${participle(row.act)}`,
      h('small', {}, `${cellName(model, row.cell)}, ${plural(row.count, 'time')}`),
    ),
    rangeCell(row.gap),
    rangeCell(row.stood),
    rangeCell(row.claimed),
    rangeCell(row.took),
    h(
      'td',
      {},
      row.copied ? bytes(row.copied.median) : '',
      h('small', {}, passes ? passes + forced : ''),
    ),
    barCell(row.gap?.median ?? 0, longest),
  );
}
