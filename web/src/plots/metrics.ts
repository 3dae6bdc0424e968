// Quantities with one value a trial (throughput, CPU time per byte, loss): a dot a trial, a bar for
// the 95 % interval of the median, a tick for the median. The axis starts at zero, because these are
// amounts. A metric has one axis over all groups.

import { quantityTicks, scaleOf, zeroDomain, drawXAxis, type Domain } from '../axis';
import { h, s } from '../dom';
import { quantity, quantityRange, significant } from '../format';
import { cellsOf, measuredTrials } from '../model';
import type { Cell, Group, Metric } from '../summary';
import { caption, cellData, cellStyle, visibleCells, type Context, type Panel } from './panel';

const ROW = 26;
const HEAD = 30;
const FOOT = 34;
const VALUE = 84;
/** Units that stand at each value. */
const PREFIXED = ['bit/s', '1', 'ns', 'B'];
/** Width of a letter of a row's name. */
const LETTER = 5.8;
const HINT = 'A dot is one trial, the bar the 95 % interval of the median.';

export function metricPanel(context: Context, group: Group, shownGroups: () => Group[]): Panel {
  const canvas = h('div', { class: 'canvas' });
  const readout = h('p', { class: 'readout line', 'data-readout': 'metrics' }, HINT);
  const element = h(
    'figure',
    { class: 'panel', 'data-panel': 'metrics', 'data-group': group.id },
    caption(group),
    canvas,
    readout,
  );
  const point = (event: Event): void => {
    const row = (event.target as Element).closest('[data-metric]');
    const cell = context.model.cells.get(row?.getAttribute('data-cell') ?? '');
    const metric = cell?.metrics.find((m) => m.name === row?.getAttribute('data-metric'));
    if (cell && metric) readout.textContent = describe(context, cell, metric);
  };
  canvas.addEventListener('pointerover', point);
  canvas.addEventListener('click', point);
  return {
    element,
    canvas,
    group,
    height: () => heightOf(context, group),
    draw: (width) => canvas.replaceChildren(drawMetrics(context, group, shownGroups(), width)),
  };
}

function describe({ model }: Context, cell: Cell, metric: Metric): string {
  const label = model.seriesOf.get(cell.id)?.label ?? cell.label;
  const { unit, spread, ci95, values } = metric;
  const interval = ci95 ? `, 95 % interval ${quantityRange(ci95, unit)}` : '';
  const range = `, trials ${quantityRange([spread.min, spread.max], unit)}`;
  return `${label}, ${metric.title}: median ${quantity(spread.median, unit)}${interval}${range} (${values.length})`;
}

/** Every metric that a cell of the group has, in the order of first appearance. */
function metricsOf(cells: Cell[]): Metric[] {
  const found = new Map<string, Metric>();
  for (const cell of cells) {
    for (const metric of cell.metrics) if (!found.has(metric.name)) found.set(metric.name, metric);
  }
  return [...found.values()];
}

function rowsHeight(cells: number): number {
  return HEAD + Math.max(1, cells) * ROW + FOOT;
}

function heightOf(context: Context, group: Group): number {
  const metrics = metricsOf(cellsOf(context.model, group)).length;
  return Math.max(1, metrics) * rowsHeight(visibleCells(context, group).length);
}

function drawMetrics(context: Context, group: Group, shown: Group[], width: number): SVGSVGElement {
  const cells = visibleCells(context, group);
  const metrics = metricsOf(cellsOf(context.model, group));
  const each = rowsHeight(cells.length);
  const height = heightOf(context, group);
  const svg = s('svg', {
    class: 'plot',
    role: 'img',
    'aria-label': `Values of each trial, ${group.title}`,
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    'data-plot': 'metrics',
    'data-group': group.id,
  });
  const labels = Math.min(
    Math.max(110, width / 4),
    Math.max(60, ...cells.map((cell) => labelOf(context, cell).length * LETTER + 14)),
  );
  metrics.forEach((metric, i) => {
    const domain = domainOf(context, shown, metric.name);
    const range: Domain = [labels, Math.max(labels + 60, width - VALUE)];
    svg.append(drawMetric(context, metric, cells, i * each, domain, range));
  });
  return svg;
}

function labelOf({ model }: Context, cell: Cell): string {
  return model.seriesOf.get(cell.id)?.label ?? cell.label;
}

function domainOf(context: Context, groups: Group[], name: string): Domain {
  const values = groups
    .flatMap((group) => visibleCells(context, group))
    .flatMap((cell) => cell.metrics.filter((metric) => metric.name === name))
    .flatMap((metric) => [...metric.values, ...(metric.ci95 ?? [])]);
  return zeroDomain(values);
}

function drawMetric(
  context: Context,
  metric: Metric,
  cells: Cell[],
  top: number,
  domain: Domain,
  range: Domain,
): SVGGElement {
  const x = scaleOf('linear', domain, range);
  const box = {
    left: range[0],
    top: top + HEAD,
    width: range[1] - range[0],
    height: Math.max(1, cells.length) * ROW,
  };
  const ticks = quantityTicks(domain, box.width, metric.unit, 90);
  const better = metric.higher_is_better ? 'more is better' : 'less is better';
  const unit = PREFIXED.includes(metric.unit) ? '' : `, ${metric.unit}`;
  const g = s('g', {
    'data-metric-axis': metric.name,
    'data-x-domain': domain.join(' '),
    'data-x-range': range.join(' '),
  });
  g.append(
    s('text', { class: 'label strong', x: 0, y: top + 18 }, `${metric.title}${unit}`),
    s(
      'text',
      { class: 'label faint', x: box.left + box.width + VALUE, y: top + 18, 'text-anchor': 'end' },
      better,
    ),
    drawXAxis(box, x, ticks, ''),
  );
  cells.forEach((cell, i) => {
    const own = cell.metrics.find((m) => m.name === metric.name);
    g.append(drawRow(context, cell, own, metric, box.top + (i + 0.5) * ROW, x, box));
  });
  return g;
}

/** A value whose unit stands in the metric's title already, where it is not written with a prefix. */
function amount(value: number, unit: string): string {
  return PREFIXED.includes(unit) ? quantity(value, unit) : significant(value);
}

function drawRow(
  context: Context,
  cell: Cell,
  metric: Metric | undefined,
  kind: Metric,
  y: number,
  x: (v: number) => number,
  box: { left: number; width: number },
): SVGGElement {
  const g = s('g', {
    class: 'series',
    ...cellData(context, 'metrics', cell),
    'data-metric': kind.name,
    style: cellStyle(context, cell),
  });
  const right = box.left + box.width + 8;
  g.append(
    s('rect', { class: 'target', x: 0, y: y - ROW / 2, width: right + VALUE, height: ROW }),
    s('text', { class: 'label', x: 0, y: y + 4 }, labelOf(context, cell)),
  );
  if (!metric || metric.values.length === 0) {
    g.append(s('text', { class: 'label faint', x: box.left + 4, y: y + 4 }, 'not measured'));
    return g;
  }
  if (metric.ci95) {
    const [low, high] = metric.ci95;
    g.append(
      s('rect', {
        class: 'interval',
        x: x(low),
        width: Math.max(1, x(high) - x(low)),
        y: y - 6,
        height: 12,
      }),
    );
  }
  const trials = measuredTrials(context.model, cell);
  const matched = trials.length === metric.values.length;
  metric.values.forEach((value, i) => {
    const trial = matched ? trials[i] : undefined;
    g.append(
      s('circle', {
        class: trial?.overloaded ? 'dot overloaded' : 'dot',
        cx: x(value),
        cy: y,
        r: 3.2,
        'data-trial': trial?.trial,
        'data-value': value,
      }),
    );
  });
  const median = x(metric.spread.median);
  g.append(
    s('line', {
      class: 'median',
      'data-median': metric.spread.median,
      x1: median,
      x2: median,
      y1: y - 9,
      y2: y + 9,
    }),
    s(
      'text',
      { class: 'label value', x: right, y: y + 4 },
      amount(metric.spread.median, metric.unit),
    ),
  );
  return g;
}
