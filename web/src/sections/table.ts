// The comparison table: one block a group, baseline first, sortable within each block (a number of
// one group says nothing about another's order). A percentile without enough samples says how many it
// needs.

import { verdictWords } from '../answers';
import { h } from '../dom';
import * as format from '../format';
import { cellsOf, floorOf, shortTitle, type MeasurementView, type Model } from '../model';
import type { State } from '../state';
import type { Cell, Group, Quantile, TailRatio } from '../summary';
import { seriesKey } from './swatch';

interface Column {
  key: string;
  title: string;
  /** Meaning of the column, for a tool tip. */
  hint?: string;
  numeric: boolean;
  content: (cell: Cell) => (Node | string)[];
  /** Sorts rows; undefined goes last. */
  sort: (cell: Cell) => number | string | undefined;
}

export class ComparisonTable {
  readonly element: HTMLElement;
  private sorted: { key: string; descending: boolean } | null = null;
  private readonly table = h('table', { class: 'comparison' });
  private readonly columns: Column[];

  constructor(
    private readonly model: Model,
    private readonly state: State,
    private readonly view: MeasurementView,
  ) {
    this.columns = columnsFor(model, view);
    this.element = h(
      'div',
      {
        class: 'scroll',
        tabindex: '0',
        role: 'region',
        'aria-label': `Comparison, ${view.info.name}`,
      },
      this.table,
    );
    this.draw();
  }

  draw(): void {
    const { columns, view, state, model } = this;
    const groups = view.groups.filter((group) => state.showsGroup(view, group));
    const first = h('th', { scope: 'col' }, 'Environment');
    const head = h(
      'thead',
      {},
      h(
        'tr',
        {},
        first,
        columns.map((column) => this.heading(column)),
      ),
    );
    const bodies = groups.map((group) => {
      const title = h(
        'th',
        { scope: 'rowgroup', colspan: columns.length + 1 },
        h('span', {}, shortTitle(group)),
      );
      const rows = this.order(cellsOf(model, group)).map((cell) => this.row(group, cell));
      return h('tbody', { 'data-group': group.id }, h('tr', { class: 'group' }, title), rows);
    });
    const caption = h(
      'caption',
      { class: 'visually-hidden' },
      `Comparison of ${view.info.name}, by group`,
    );
    this.table.replaceChildren(caption, head, ...bodies);
  }

  private heading(column: Column): HTMLElement {
    const active = this.sorted?.key === column.key ? this.sorted : null;
    const direction = active ? (active.descending ? 'descending' : 'ascending') : 'none';
    const sort = (): void => {
      this.sorted = !active
        ? { key: column.key, descending: false }
        : active.descending
          ? null
          : { key: column.key, descending: true };
      this.draw();
      this.table.querySelector<HTMLElement>(`[data-sort="${CSS.escape(column.key)}"]`)?.focus();
    };
    const arrow = active ? (active.descending ? ' ↓' : ' ↑') : '';
    return h(
      'th',
      { scope: 'col', class: column.numeric ? 'number' : '', 'aria-sort': direction },
      h(
        'button',
        { type: 'button', 'data-sort': column.key, title: column.hint, onclick: sort },
        column.title,
        arrow,
      ),
    );
  }

  private order(cells: Cell[]): Cell[] {
    const column = this.columns.find(({ key }) => key === this.sorted?.key);
    if (!column) return cells;
    const sign = this.sorted?.descending ? -1 : 1;
    return [...cells].sort((a, b) => {
      const [x, y] = [column.sort(a), column.sort(b)];
      if (x === undefined || y === undefined)
        return Number(x === undefined) - Number(y === undefined);
      return (x < y ? -1 : x > y ? 1 : 0) * sign;
    });
  }

  private row(group: Group, cell: Cell): HTMLElement {
    const { model, state } = this;
    const series = model.seriesOf.get(cell.id);
    const isBase = cell.id === group.baseline;
    // A baseline may be compared with another group's baseline, in that group's block.
    const shown = isBase ? { ...cell, comparison: undefined } : cell;
    return h(
      'tr',
      {
        'data-row': cell.id,
        'data-series': series?.key,
        'data-cell': cell.id,
        class: state.visible(cell.id) ? '' : 'off',
        onpointerenter: () => state.hover(series?.key ?? null),
        onpointerleave: () => state.hover(null),
      },
      h(
        'th',
        { scope: 'row' },
        seriesKey(model, cell.id),
        isBase ? h('small', {}, 'baseline') : null,
        cell.environment.emulated
          ? h('small', { title: cell.environment.emulation?.join(', ') }, 'emulated')
          : null,
      ),
      this.columns.map((column) =>
        h(
          'td',
          { class: column.numeric ? 'number' : '', 'data-column': column.key },
          column.content(shown),
        ),
      ),
    );
  }
}

function columnsFor(model: Model, view: MeasurementView): Column[] {
  const cells = view.groups.flatMap((group) => cellsOf(model, group));
  return [
    ...(view.hasLatency ? medianColumns() : metricColumns(cells)),
    ...comparisonColumns(),
    ...(view.hasLatency ? [...tailColumns(cells), deviationColumn()] : []),
    ...(view.hasLatency && view.hasMetrics ? metricColumns(cells) : []),
    samplesColumn(view),
    ...(view.hasLatency ? [floorColumn(model)] : []),
    ...counterColumns(cells),
  ];
}

function samplesColumn(view: MeasurementView): Column {
  return {
    key: 'samples',
    title: view.hasLatency ? 'Samples' : 'Trials',
    hint: 'Samples of all trials together, and the trials they come from',
    numeric: true,
    sort: (cell) => cell.latency?.samples ?? cell.replicates,
    content: (cell) => {
      const trials = format.plural(cell.replicates, 'trial');
      const over = cell.overloaded > 0 ? small(`${cell.overloaded} overloaded`) : '';
      const again = cell.repeated ? small(`${cell.repeated} repeated`) : '';
      if (!cell.latency) return [trials, over, again];
      return [format.count(cell.latency.samples), small(trials), over, again];
    },
  };
}

function medianColumns(): Column[] {
  const iqr: Column = {
    key: 'iqr',
    title: 'IQR',
    hint: 'Interquartile range: the middle half of the samples',
    numeric: true,
    sort: (cell) => cell.latency && cell.latency.iqr_ns[1] - cell.latency.iqr_ns[0],
    content: ({ latency }) => [latency ? format.durationRange(latency.iqr_ns) : format.NONE],
  };
  return [quantileColumn(0.5), iqr];
}

/** Percentiles up to p99.99, and beyond if some cell has the samples. */
function tailColumns(cells: Cell[]): Column[] {
  const all = cells.find((cell) => cell.latency)?.latency?.quantiles.map((q) => q.p) ?? [];
  const carried = (p: number): boolean =>
    cells.some((cell) =>
      cell.latency?.quantiles.some((q) => q.p === p && q.value_ns !== undefined),
    );
  return all.filter((p) => p > 0.5 && (p <= 0.9999 || carried(p))).map(quantileColumn);
}

/** A tail's ratio to the baseline's; nothing without a baseline. */
function tailRatio(cell: Cell, of: string): Node | string {
  return ratioNote(cell.comparison?.tails?.find((tail) => tail.of === of));
}

/** The figure with stolen time set aside, and its ratio; nothing where steal is unknown. */
function stealAside(cell: Cell, of: string, value: number | undefined): (Node | string)[] {
  if (value === undefined) return [];
  const tail = cell.comparison?.tails_steal_aside?.find((tail) => tail.of === of);
  const figure = whole(format.duration(value));
  return [h('small', { class: 'wraps' }, 'steal aside: ', figure), ratioNote(tail)];
}

function ratioNote(tail: TailRatio | undefined): Node | string {
  if (!tail) return '';
  const interval = tail.ratio_ci95 ? whole(`[${format.ratioRange(tail.ratio_ci95)}]`) : '';
  return h('small', { class: 'wraps' }, `${format.ratio(tail.ratio)} `, interval);
}

function deviationColumn(): Column {
  return {
    key: 'sd',
    title: 'Std. deviation',
    hint: 'Of all samples, with its ratio to the baseline’s',
    numeric: true,
    sort: (cell) => cell.latency?.sd_ns,
    content: (cell) =>
      cell.latency
        ? [
            format.duration(cell.latency.sd_ns),
            tailRatio(cell, 'sd'),
            ...stealAside(cell, 'sd', cell.latency.steal_aside?.sd_ns),
          ]
        : [format.NONE],
  };
}

function quantileColumn(p: number): Column {
  const of = (cell: Cell): Quantile | undefined => cell.latency?.quantiles.find((q) => q.p === p);
  const isMedian = p === 0.5;
  return {
    key: isMedian ? 'median' : format.percentileName(p),
    title: isMedian ? 'Median' : format.percentileName(p),
    hint: 'With the bootstrap 95 % interval over replicates, and the ratio to the baseline’s',
    numeric: true,
    sort: (cell) => of(cell)?.value_ns,
    content: (cell) => {
      const quantile = of(cell);
      if (!quantile) return [format.NONE];
      if (quantile.value_ns === undefined) {
        return [
          h('span', { class: 'missing' }, 'not enough samples'),
          small(`needs ${format.count(quantile.needed)}`),
        ];
      }
      const interval = quantile.ci95_ns
        ? small(format.durationRange(quantile.ci95_ns))
        : small('no interval');
      if (isMedian) return [format.duration(quantile.value_ns), interval];
      const name = format.percentileName(p);
      const aside = cell.latency?.steal_aside?.quantiles.find((q) => q.p === p);
      return [
        format.duration(quantile.value_ns),
        interval,
        tailRatio(cell, name),
        ...(p >= 0.999 ? stealAside(cell, name, aside?.value_ns) : []),
      ];
    },
  };
}

function metricColumns(cells: Cell[]): Column[] {
  const names = [...new Set(cells.flatMap((cell) => cell.metrics.map((metric) => metric.name)))];
  return names.map((name) => {
    const of = (cell: Cell) => cell.metrics.find((metric) => metric.name === name);
    return {
      key: name,
      title: cells.map(of).find((metric) => metric)?.title ?? name,
      hint: 'Median over trials, with the bootstrap 95 % interval',
      numeric: true,
      sort: (cell) => of(cell)?.spread.median,
      content: (cell) => {
        const metric = of(cell);
        if (!metric) return [format.NONE];
        const interval = metric.ci95
          ? format.quantityRange(metric.ci95, metric.unit)
          : 'no interval';
        return [format.quantity(metric.spread.median, metric.unit), small(interval)];
      },
    };
  });
}

function comparisonColumns(): Column[] {
  return [
    {
      key: 'ratio',
      title: 'Ratio',
      hint: 'To the baseline, with the bootstrap 95 % interval',
      numeric: true,
      sort: (cell) => cell.comparison?.ratio,
      content: ({ comparison }) =>
        comparison
          ? [
              format.ratio(comparison.ratio),
              small(
                comparison.ratio_ci95 ? format.ratioRange(comparison.ratio_ci95) : 'no interval',
              ),
            ]
          : [format.NONE],
    },
    {
      key: 'verdict',
      title: 'Verdict',
      numeric: false,
      hint: 'With p of the two-sided Mann–Whitney U test on the replicates’ values; sorts by p',
      sort: (cell) => cell.comparison?.p_value,
      content: (cell) => {
        const { comparison } = cell;
        if (!comparison) return [cell.replicates === 0 ? 'not measured' : format.NONE];
        const words = verdictWords(comparison.verdict, comparison);
        const { p_value: p } = comparison;
        const test = p === undefined ? 'no test' : `p ${p < 0.001 ? '' : '= '}${format.pValue(p)}`;
        const emulated = cell.environment.emulation ? ', emulated' : '';
        const about = small((cell.latency ? test : `${comparison.quantity}, ${test}`) + emulated);
        return [h('span', { class: `verdict wraps ${comparison.verdict}` }, words), about];
      },
    },
  ];
}

function floorColumn(model: Model): Column {
  return {
    key: 'floor',
    title: 'Floor',
    hint: 'The same probe over the sender’s own loopback, median, measured beside each trial',
    numeric: true,
    sort: (cell) => floorOf(model, cell),
    content: (cell) => [format.duration(floorOf(model, cell))],
  };
}

/** Lost packets, and those duplicated, reordered, unmatched or corrupted. */
function counterColumns(cells: Cell[]): Column[] {
  if (!cells.some((cell) => cell.counters.sent > 0)) return [];
  const others = [
    ['duplicated', 'duplicated'],
    ['reordered', 'reordered'],
    ['unmatched', 'unmatched'],
    ['corrupted', 'corrupt'],
  ] as const;
  return [
    {
      key: 'lost',
      title: 'Lost',
      hint: 'Packets or transactions, with those duplicated, reordered, unmatched or corrupted',
      numeric: true,
      sort: (cell) => cell.counters.lost,
      content: ({ counters }) => [
        format.count(counters.lost),
        small(`of ${format.count(counters.sent)}`),
        ...others
          .filter(([name]) => counters[name] > 0)
          .map(([name, word]) => small(`${format.count(counters[name])} ${word}`)),
      ],
    },
  ];
}

function small(text: string): HTMLElement {
  return h('small', {}, text);
}

/** A part that stays on one line where what it is in wraps: a range would be broken behind its dash. */
function whole(text: string): HTMLElement {
  return h('span', { class: 'whole' }, text);
}
