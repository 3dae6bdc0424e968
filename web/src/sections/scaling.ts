// Workloads over the number of their nodes: what a node gets, how much slower it is than one alone, and
// what it takes of the host's memory, by three readings that count shared pages in different ways.

import type { Domain } from '../axis';
import { h } from '../dom';
import { count, quantity, ratio, ratioRange } from '../format';
import type { Model } from '../model';
import { linesKey, linesPlot, type Line, type Lines, type Point } from '../plots/lines';
import type { Cell, Metric } from '../summary';
import { tableOf } from './rows';
import { section } from './section';

const MEMORY: [name: string, title: string][] = [
  ['memory-host', 'Memory per node, host’s loss'],
  ['memory-pss', 'Memory per node, PSS'],
  ['memory-cgroup', 'Memory per node, cgroup'],
];
const HEADS = ['Nodes', 'Per node', 'All nodes', 'Slowdown', 'Smallest/largest', 'Jain', 'Begins'];

export function scaling(model: Model): HTMLElement | null {
  const { summary } = model;
  const counts = (measurement: string): number =>
    new Set(
      summary.cells
        .filter((cell) => cell.measurement === measurement)
        .flatMap((cell) => cell.scaling?.nodes ?? []),
    ).size;
  // One number of nodes is no curve.
  const shown = summary.measurements.filter(({ name }) => counts(name) > 1);
  if (shown.length === 0) return null;
  return section(
    'scaling',
    'Over the number of nodes',
    h(
      'p',
      {},
      'All nodes begin at the same time. A point is the median over replicates of the median over nodes, with its 95 % interval. Slowdown is against the lab with one node. Memory is read while all programs wait: what the host has less of since before the lab was deployed, the proportional set size of a node’s processes, and the charge of its cgroup. Their difference is shared, or the kernel’s.',
    ),
    shown.map(({ name }) => ofMeasurement(model, name)),
  );
}

function ofMeasurement(model: Model, measurement: string): HTMLElement {
  const cells = model.summary.cells.filter(
    (cell) => cell.measurement === measurement && cell.scaling,
  );
  const names = [...new Set(cells.map((cell) => seriesOf(model, cell)))];
  const lines = (value: (cell: Cell) => Pick<Point, 'value' | 'interval'> | null): Line[] =>
    names
      .map((label, index) => ({
        label,
        index,
        points: cells
          .filter((cell) => seriesOf(model, cell) === label)
          .flatMap((cell) => {
            const found = value(cell);
            const nodes = cell.scaling?.nodes ?? 1;
            const of = `${count(nodes)} ${nodes === 1 ? 'node' : 'nodes'}`;
            return found ? [{ x: nodes, of, ...found }] : [];
          })
          .sort((a, b) => a.x - b.x),
      }))
      .filter((line) => line.points.length > 0);
  const over = { kind: 'scaling', over: 'the number of nodes', x: axisOf(cells) };
  const ofMetric = (name: string, title: string): Lines => {
    const first = cells.map((cell) => metricOf(cell, name)).find(Boolean);
    return {
      ...over,
      name,
      title,
      unit: first?.unit ?? '',
      lines: lines((cell) => {
        const metric = metricOf(cell, name);
        return metric ? { value: metric.spread.median, interval: metric.ci95 } : null;
      }),
    };
  };
  const slowdown: Lines = {
    ...over,
    name: 'slowdown',
    title: 'Slowdown against one node',
    unit: '×',
    lines: lines(({ scaling: found }) =>
      found?.slowdown
        ? { value: found.slowdown.ratio, interval: found.slowdown.ratio_ci95 }
        : found?.nodes === 1
          ? { value: 1 }
          : null,
    ),
  };
  const metric = metricOf(cells[0] as Cell, 'per-node');
  const plots = [
    ofMetric('per-node', metric?.title ?? 'Per node'),
    slowdown,
    ...MEMORY.map(([name, title]) => ofMetric(name, title)),
  ].filter((plot) => plot.lines.length > 0);
  return h(
    'div',
    { 'data-scaling': measurement },
    h('h3', {}, measurement),
    linesKey(names),
    h('div', { class: 'lines-plots' }, plots.map(linesPlot)),
    table(model, cells),
  );
}

/** Numbers of nodes at equal distances per doubling. */
function axisOf(cells: Cell[]): Lines['x'] {
  const nodes = [...new Set(cells.map((cell) => cell.scaling?.nodes ?? 1))].sort((a, b) => a - b);
  // A single number still needs an axis with some length, and marks some air.
  const domain: Domain = [(nodes[0] ?? 1) / 1.2, (nodes[nodes.length - 1] ?? 1) * 1.2];
  const ticks = nodes.map((value) => ({ value, label: count(value) }));
  return { type: 'log', domain, title: 'nodes', ticks };
}

/** The levels of a cell other than those that count nodes. */
function seriesOf({ summary }: Model, cell: Cell): string {
  const levels = summary.factors
    .filter(({ path }) => !path.split(', ').some((one) => one.endsWith('.count')))
    .map(({ name }) => cell.levels[name]);
  return levels.filter(Boolean).join(' · ') || cell.measurement;
}

function metricOf(cell: Cell, name: string): Metric | undefined {
  return cell.metrics.find((metric) => metric.name === name);
}

function table(model: Model, cells: Cell[]): HTMLElement {
  const memory = MEMORY.filter(([name]) => cells.some((cell) => metricOf(cell, name)));
  const heads = [
    ...HEADS,
    'CPU time',
    ...memory.map(([, title]) => title.replace(' per node', '')),
  ];
  const value = (cell: Cell, name: string): HTMLElement => {
    const metric = metricOf(cell, name);
    return h('td', {}, metric ? quantity(metric.spread.median, metric.unit) : '');
  };
  const rows = cells.map((cell) => {
    const slowdown = cell.scaling?.slowdown;
    return h(
      'tr',
      { 'data-cell': cell.id },
      h('th', { scope: 'row' }, seriesOf(model, cell)),
      h('td', {}, count(cell.scaling?.nodes)),
      value(cell, 'per-node'),
      value(cell, 'all-nodes'),
      h(
        'td',
        {},
        slowdown ? ratio(slowdown.ratio) : '',
        slowdown?.ratio_ci95 ? h('small', {}, ratioRange(slowdown.ratio_ci95)) : null,
      ),
      ['min-max', 'jain', 'begin-spread', 'cpu-per-node'].map((name) => value(cell, name)),
      memory.map(([name]) => value(cell, name)),
    );
  });
  return tableOf(['', ...heads], rows);
}
