// A paper's figures beside those of this run: one row an environment, and both ratios on one logarithmic axis.

import { h, s } from '../dom';
import { quantity, quantityRange, ratio, ratioRange } from '../format';
import type { Model } from '../model';
import type { PaperRow, PaperTable, PaperValue } from '../summary';

const WIDTH = 224;
const HEIGHT = 19;
const MIDDLE = HEIGHT / 2;
const MARGIN = 6;

const VERDICTS = {
  holds: 'holds',
  'does-not-hold': 'does not hold',
  'cannot-be-told': 'cannot be told here',
};

export function paper({ summary }: Model): HTMLElement | null {
  const found = summary.paper;
  if (!found) return null;
  return h(
    'section',
    { id: 'paper', 'aria-labelledby': 'paper-title' },
    h('h2', { id: 'paper-title' }, 'Beside the paper'),
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
  const axis = axisOf(table);
  const rows = table.rows.flatMap((row) =>
    row.values.map((value, index) => rowOf(table, row, value, index, axis)),
  );
  return h(
    'figure',
    { class: 'paper scroll', 'data-paper-table': table.title },
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
  axis: (ratio: number) => number,
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
    h('td', { class: 'axis', 'aria-hidden': 'true' }, index > 0 ? drawn(value, axis) : null),
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

/** From a ratio to its place: logarithmic, with 1 and all ratios of the table in it. */
function axisOf(table: PaperTable): (ratio: number) => number {
  const values = table.rows.flatMap(({ values }) =>
    values.flatMap((v) => [v.published_ratio, v.ratio, ...(v.ratio_ci95 ?? [])]),
  );
  const logs = values.filter((v): v is number => v !== undefined && v > 0).map(Math.log);
  const low = Math.min(Math.log(0.8), ...logs);
  const high = Math.max(Math.log(1.25), ...logs);
  return (ratio) => MARGIN + ((Math.log(ratio) - low) / (high - low)) * (WIDTH - 2 * MARGIN);
}

function drawn(value: PaperValue, axis: (ratio: number) => number): SVGElement {
  const one = axis(1);
  const theirs = value.published_ratio === undefined ? null : axis(value.published_ratio);
  const ours = value.ratio === undefined ? null : axis(value.ratio);
  const [low, high] = (value.ratio_ci95 ?? []).map(axis);
  return s(
    'svg',
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}` },
    s('line', { class: 'one', x1: one, x2: one, y1: 0, y2: HEIGHT }),
    low === undefined || high === undefined
      ? null
      : s('line', { class: 'ours', x1: low, x2: high, y1: MIDDLE, y2: MIDDLE }),
    ours === null ? null : s('circle', { class: 'ours-middle', cx: ours, cy: MIDDLE, r: 3.5 }),
    theirs === null
      ? null
      : s('path', {
          class: 'theirs',
          d: `M ${theirs - 5} ${MIDDLE} l 5 -5 l 5 5 l -5 5 z`,
        }),
  );
}
