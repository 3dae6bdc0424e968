// A paper's figures beside those of this run: one row an environment, and both ratios on one logarithmic axis.

import { h } from '../dom';
import { quantity, quantityRange, ratio, ratioRange } from '../format';
import type { Model } from '../model';
import { ratioAxis, ratioMark, type RatioAxis } from '../plots/ratio';
import type { PaperRow, PaperTable, PaperValue } from '../summary';
import { section } from './section';

const VERDICTS = {
  holds: 'holds',
  'does-not-hold': 'does not hold',
  'cannot-be-told': 'cannot be told here',
};

export function paper({ summary }: Model): HTMLElement | null {
  const found = summary.paper;
  if (!found) return null;
  return section(
    'paper',
    'Beside the paper',
    h('p', {}, h('cite', {}, found.title), `. ${found.authors}, ${found.published}.`),
    h('p', {}, `Published figures: ${found.testbed}.`),
    h(
      'p',
      {},
      'Only ratios to the first row of each block are compared. A published ratio says more, less, or the same within 5 %; it holds if the whole 95 % interval of the ratio here says the same. On the axis the diamond is the paper’s ratio, the dot with its interval the one here.',
    ),
    found.tables.map(tableOf),
  );
}

function tableOf(table: PaperTable): HTMLElement {
  const heads = [
    '',
    'Environment',
    'Published',
    'Here',
    'Published ratio',
    'Ratio here',
    'Both, the line is 1×',
    '',
  ];
  const axis = ratioAxis(
    table.rows.flatMap(({ values }) =>
      values.flatMap((v) => [v.published_ratio, v.ratio, ...(v.ratio_ci95 ?? [])]),
    ),
  );
  const rows = table.rows.flatMap((row) =>
    row.values.map((value, index) => rowOf(table, row, value, index, axis)),
  );
  return h(
    'figure',
    { class: 'paper ratios scroll', 'data-paper-table': table.title },
    h('figcaption', {}, h('strong', {}, table.title), ` · ${table.place}`),
    h(
      'table',
      {},
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          heads.map((head) => h('th', { scope: 'col' }, head)),
        ),
      ),
      h('tbody', {}, rows),
    ),
    table.note ? h('p', { class: 'hint' }, table.note) : null,
  );
}

function rowOf(
  table: PaperTable,
  row: PaperRow,
  value: PaperValue,
  index: number,
  axis: RatioAxis,
): HTMLElement {
  const interval = value.ratio_ci95 ? ratioRange(value.ratio_ci95) : '';
  const range = value.measured_ci95
    ? quantityRange(value.measured_ci95, row.measured_unit)
    : undefined;
  return h(
    'tr',
    { class: index === 0 ? 'first' : '', 'data-verdict': value.verdict },
    h('th', { scope: 'row' }, index === 0 ? row.name : ''),
    h('td', {}, table.columns[index]),
    h(
      'td',
      {},
      given(value.published, (v) => quantity(v, row.published_unit)),
    ),
    h(
      'td',
      {},
      given(value.measured, (v) => quantity(v, row.measured_unit)),
      range ? h('small', {}, range) : null,
    ),
    h('td', {}, given(value.published_ratio, ratio) || value.published_direction),
    h('td', {}, given(value.ratio, ratio), interval ? h('small', {}, interval) : null),
    h(
      'td',
      { class: 'axis', 'aria-hidden': 'true' },
      index > 0
        ? ratioMark(axis, {
            value: value.ratio,
            interval: value.ratio_ci95,
            published: value.published_ratio,
          })
        : null,
    ),
    h(
      'td',
      {},
      value.verdict ? VERDICTS[value.verdict] : '',
      value.reason ? h('small', {}, value.reason) : null,
    ),
  );
}

function given(value: number | undefined, shown: (value: number) => string): string {
  return value === undefined ? '' : shown(value);
}
