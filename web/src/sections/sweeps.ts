// Measurements with a parameter at several values: what is done per second over the values, and latency against
// what is done. Where it turns upwards, more load only waits.

import { quantityTicks, zeroDomain } from '../axis';
import { h } from '../dom';
import { percentileName, quantity } from '../format';
import type { Model } from '../model';
import { linesKey, linesPlot, type Line, type Lines, type Point } from '../plots/lines';
import type { Cell, MeasurementInfo, Metric, Pair, SweepPoint } from '../summary';
import { tableOf } from './rows';
import { section } from './section';

/** Room for a tick's label, in pixels. */
const TICK_GAP = 62;
const PLOT_WIDTH = 300;
const SHOWN = [0.5, 0.99];

/** A measurement at one value of its parameter, in one environment. */
export interface Load {
  series: string;
  /** Place of the value among those of the sweep. */
  index: number;
  point: SweepPoint;
  cell: Cell;
}

/** A quantity of a cell. */
interface Quantity {
  name: string;
  title: string;
  unit: string;
  of: (cell: Cell) => { value: number; interval?: Pair } | null;
}

export function sweeps(model: Model): HTMLElement | null {
  const names = new Set(model.summary.measurements.flatMap((info) => info.sweep?.sweep ?? []));
  if (names.size === 0) return null;
  return section(
    'sweeps',
    'Over the load',
    h(
      'p',
      {},
      'A point is the median over replicates with its 95 % interval. Lines join the values of the parameter in their order.',
    ),
    [...names].map((name) => ofSweep(model, name)),
  );
}

function ofSweep(model: Model, sweep: string): HTMLElement | null {
  const infos = model.summary.measurements.filter((info) => info.sweep?.sweep === sweep);
  const loads = infos.flatMap((info, index) => loadsOf(model, info, index));
  const first = infos[0];
  if (!first?.sweep || loads.length === 0) return null;
  const parameter = nameOf(first.sweep.parameter);
  const rate = rateOf(first, loads);
  const latencies = latenciesOf(first, loads);
  const series = [...new Set(loads.map((load) => load.series))];
  const values = infos.map((info) => info.sweep?.value ?? '');
  const plots = [
    ...(rate ? [overValues(rate, parameter, values, series, loads)] : []),
    ...latencies.map((latency) =>
      rate
        ? overRate(latency, rate, parameter, series, loads)
        : overValues(latency, parameter, values, series, loads),
    ),
  ];
  return h(
    'div',
    { 'data-sweep': sweep },
    h('h3', {}, sweep),
    linesKey(series),
    h('div', { class: 'lines-plots' }, plots.map(linesPlot)),
    table(parameter, rate ? [rate, ...latencies] : latencies, loads),
  );
}

function loadsOf({ summary }: Model, info: MeasurementInfo, index: number): Load[] {
  const { sweep: point } = info;
  if (!point) return [];
  const series = (cell: Cell): string =>
    summary.factors
      .map(({ name }) => cell.levels[name])
      .filter(Boolean)
      .join(' · ') || point.sweep;
  return summary.cells
    .filter((cell) => cell.measurement === info.name)
    .map((cell) => ({ series: series(cell), index, point, cell }));
}

/** The last step of a parameter's path, in words. */
function nameOf(path: string): string {
  return (path.split('.').pop() ?? path).replaceAll('_', ' ');
}

/** Rate of work, of programs and streams. */
export function rateOf(info: MeasurementInfo, loads: Load[]): Quantity | null {
  if (info.probe !== 'workload' && info.probe !== 'stream') return null;
  const metric = metricsOf(loads)[0];
  return metric?.higher_is_better ? ofMetric(metric.name, metric.title, metric.unit) : null;
}

/** The metrics of the first load with some: where all trials failed there are none. */
function metricsOf(loads: Load[]): Metric[] {
  return loads.find(({ cell }) => cell.metrics.length > 0)?.cell.metrics ?? [];
}

/** Times of a program's own, or of the packets. */
export function latenciesOf(info: MeasurementInfo, loads: Load[]): Quantity[] {
  if (info.probe === 'workload') {
    const times = metricsOf(loads).filter(
      ({ name, unit }) => unit === 'ns' && /(^|-)p\d+$/.test(name),
    );
    return times.map(({ name, title, unit }) => ofMetric(name, title, unit));
  }
  const have = SHOWN.filter((p) => loads.some(({ cell }) => quantileOf(cell, p)));
  return have.map((p) => ({
    name: percentileName(p),
    title: `${info.latency ?? 'latency'}, ${percentileName(p)}`,
    unit: 'ns',
    of: (cell) => quantileOf(cell, p),
  }));
}

function ofMetric(name: string, title: string, unit: string): Quantity {
  return {
    name,
    title,
    unit,
    of: (cell) => {
      const metric = cell.metrics.find((one) => one.name === name);
      return metric ? { value: metric.spread.median, interval: metric.ci95 } : null;
    },
  };
}

function quantileOf(cell: Cell, p: number): { value: number; interval?: Pair } | null {
  const found = cell.latency?.quantiles.find((quantile) => quantile.p === p);
  return found?.value_ns === undefined ? null : { value: found.value_ns, interval: found.ci95_ns };
}

/** A quantity over the values of the parameter, at equal distances. */
function overValues(
  y: Quantity,
  parameter: string,
  values: string[],
  series: string[],
  loads: Load[],
): Lines {
  const ticks = values.map((label, value) => ({ value, label }));
  return {
    kind: 'values',
    name: y.name,
    title: y.title,
    unit: y.unit,
    over: parameter,
    x: { type: 'linear', domain: [-0.4, values.length - 0.6], title: parameter, ticks },
    lines: linesOf(series, loads, parameter, y, ({ index }) => index),
  };
}

/** A latency against what is done per second. */
function overRate(
  y: Quantity,
  rate: Quantity,
  parameter: string,
  series: string[],
  loads: Load[],
): Lines {
  const x = ({ cell }: Load): number | null => rate.of(cell)?.value ?? null;
  const domain = zeroDomain(loads.flatMap((load) => x(load) ?? []));
  return {
    kind: 'load',
    name: y.name,
    title: y.title,
    unit: y.unit,
    over: rate.title,
    x: {
      type: 'linear',
      domain,
      title: `${rate.title}, ${rate.unit}`,
      ticks: quantityTicks(domain, PLOT_WIDTH, rate.unit, TICK_GAP),
    },
    // The first line tells the way of the others.
    lines: linesOf(series, loads, parameter, y, x, series[0]),
  };
}

/** `labelled`: the line at whose points the values of the parameter stand. */
function linesOf(
  series: string[],
  loads: Load[],
  parameter: string,
  y: Quantity,
  x: (load: Load) => number | null,
  labelled?: string,
): Line[] {
  const pointOf = (load: Load): Point[] => {
    const [at, found, { value }] = [x(load), y.of(load.cell), load.point];
    if (at === null || !found) return [];
    const label = load.series === labelled ? value : undefined;
    return [{ x: at, of: `${parameter} ${value}`, label, ...found }];
  };
  const lines = series.map((label, index) => ({
    label,
    index,
    points: loads.filter((load) => load.series === label).flatMap(pointOf),
  }));
  return lines.filter((line) => line.points.length > 0);
}

function table(parameter: string, quantities: Quantity[], loads: Load[]): HTMLElement {
  const value = (load: Load, { of, unit }: Quantity): HTMLElement => {
    const found = of(load.cell);
    return h('td', {}, found ? quantity(found.value, unit) : '');
  };
  const rows = loads.map((load) =>
    h(
      'tr',
      { 'data-cell': load.cell.id },
      h('th', { scope: 'row' }, load.series),
      h('td', {}, load.point.value),
      quantities.map((one) => value(load, one)),
    ),
  );
  return tableOf(['', parameter, ...quantities.map(({ title }) => title)], rows);
}
