// Data derived from the summary once: the series, the cells and trials of each group, and numbers that
// several plots need.
//
// A *series* is what keeps its colour everywhere: the levels of the baseline's factors (`native`,
// `container`, `vm`). A cell is one series within one group.

import { bisector } from 'd3-array';
import { look, type Look } from './palette';
import type { Cell, Group, MeasurementInfo, Summary, TrialSummary } from './summary';

export interface Series {
  key: string;
  label: string;
  index: number;
  look: Look;
  /** Every cell of it was emulated. */
  emulated: boolean;
}

export interface Model {
  summary: Summary;
  /** The seed's digits, exact. */
  seed: string;
  series: Series[];
  seriesOf: Map<string, Series>;
  cells: Map<string, Cell>;
  groups: Map<string, Group>;
  /** Trials of each cell, in the order of running. */
  trials: Map<string, TrialSummary[]>;
  measurements: MeasurementView[];
}

/** A measurement with its groups, and the factors in which the groups differ. */
export interface MeasurementView {
  info: MeasurementInfo;
  groups: Group[];
  factors: { name: string; levels: string[] }[];
  /** Latency was measured somewhere in it. */
  hasLatency: boolean;
  hasMetrics: boolean;
}

export function buildModel(summary: Summary, seed: string): Model {
  const cells = new Map(summary.cells.map((cell) => [cell.id, cell]));
  const groups = new Map(summary.groups.map((group) => [group.id, group]));
  const trials = new Map<string, TrialSummary[]>();
  for (const trial of summary.trials) {
    const list = trials.get(trial.cell);
    if (list) list.push(trial);
    else trials.set(trial.cell, [trial]);
  }
  const { series, seriesOf } = findSeries(summary, cells);
  const measurements = summary.measurements.map((info) => viewOf(info, summary, cells));
  return { summary, seed, series, seriesOf, cells, groups, trials, measurements };
}

/** Cells in the order of their groups, baselines first, so that the baseline has the first look. */
function findSeries(
  summary: Summary,
  cells: Map<string, Cell>,
): Pick<Model, 'series' | 'seriesOf'> {
  const byKey = new Map<string, Series>();
  const seriesOf = new Map<string, Series>();
  const ordered = summary.groups.flatMap((group) => group.cells.map((id) => cells.get(id)));
  for (const cell of [...ordered, ...summary.cells]) {
    if (!cell || seriesOf.has(cell.id)) continue;
    const key = seriesKey(cell, summary);
    let series = byKey.get(key);
    if (!series) {
      const index = byKey.size;
      series = { key, label: key, index, look: look(index), emulated: true };
      byKey.set(key, series);
    }
    series.emulated = series.emulated && cell.environment.emulated;
    seriesOf.set(cell.id, series);
  }
  return { series: [...byKey.values()], seriesOf };
}

function seriesKey(cell: Cell, summary: Summary): string {
  if (cell.label) return cell.label;
  const compared = Object.keys(summary.baseline).map((name) => cell.levels[name]);
  return compared.filter(Boolean).join(' · ') || 'all';
}

function viewOf(
  info: MeasurementInfo,
  summary: Summary,
  cells: Map<string, Cell>,
): MeasurementView {
  const groups = summary.groups.filter((group) => group.measurement === info.name);
  const mine = groups.flatMap((group) => group.cells.map((id) => cells.get(id)));
  const factors = summary.factors
    .map(({ name, levels }) => {
      const used = new Set(groups.map((group) => group.levels[name]));
      return { name, levels: levels.filter((level) => used.has(level)) };
    })
    .filter((factor) => factor.levels.length > 1);
  return {
    info,
    groups,
    factors,
    hasLatency: mine.some((cell) => cell?.latency !== undefined),
    hasMetrics: mine.some((cell) => (cell?.metrics.length ?? 0) > 0),
  };
}

/** The cells of a group that are in the summary. */
export function cellsOf(model: Model, group: Group): Cell[] {
  return group.cells
    .map((id) => model.cells.get(id))
    .filter((cell): cell is Cell => cell !== undefined);
}

/** A group's title without the measurement's name, which stands above it anyway. */
export function shortTitle(group: Group): string {
  const parts = group.title.split(' · ').filter((part) => part !== group.measurement);
  return parts.join(' · ') || group.title;
}

const byX = bisector((point: [number, number]) => point[0]);

/**
 * Latency at the percentile `p`, read off the cell's curve as it is drawn: straight between two
 * points of the curve on the plot's logarithmic axes. `null` beyond the last sample.
 */
export function curveAt(cell: Cell, p: number): number | null {
  const curve = cell.latency?.curve;
  if (!curve || curve.length === 0 || !(p >= 0 && p < 1)) return null;
  // 1 - p loses digits near 1; an exact tick must not fall behind the last point by 1e-13.
  const x = 1 / (1 - p);
  const last = curve[curve.length - 1] as [number, number];
  if (x > last[0]) return x <= last[0] * (1 + 1e-9) ? last[1] : null;
  const i = byX.left(curve, x);
  const b = curve[i] as [number, number];
  const a = curve[Math.max(0, i - 1)] as [number, number];
  if (b[0] === x || a === b || a[0] === b[0]) return b[1];
  const t = (Math.log(x) - Math.log(a[0])) / (Math.log(b[0]) - Math.log(a[0]));
  if (a[1] <= 0 || b[1] <= 0) return a[1] + t * (b[1] - a[1]);
  return Math.exp(Math.log(a[1]) + t * (Math.log(b[1]) - Math.log(a[1])));
}

const byFraction = bisector((point: [number, number]) => point[0]);

/** Fraction of samples at or below `ns`, straight between the points of the cell's CDF. */
export function cdfAt(cell: Cell, ns: number): number | null {
  const cdf = cell.latency?.cdf;
  if (!cdf || cdf.length === 0) return null;
  const first = cdf[0] as [number, number];
  const last = cdf[cdf.length - 1] as [number, number];
  if (ns < first[0]) return 0;
  if (ns >= last[0]) return last[1];
  const i = byFraction.right(cdf, ns);
  const a = cdf[i - 1] as [number, number];
  const b = cdf[i] as [number, number];
  if (a[0] <= 0 || ns <= 0) return a[1];
  const t = (Math.log(ns) - Math.log(a[0])) / (Math.log(b[0]) - Math.log(a[0]));
  return a[1] + t * (b[1] - a[1]);
}

/** The trials of a cell that entered its statistics, in the order of `Metric.values`. */
export function measuredTrials(model: Model, cell: Cell): TrialSummary[] {
  return (model.trials.get(cell.id) ?? []).filter((trial) => trial.failed === undefined);
}

/** The cell's value at a tabulated percentile, when there were enough samples. */
export function quantileOf(cell: Cell, p: number): number | undefined {
  return cell.latency?.quantiles.find((q) => Math.abs(q.p - p) < 1e-12)?.value_ns;
}

/** Floors measured beside a cell's trials: the middle one of their medians. */
export function floorOf(model: Model, cell: Cell): number | undefined {
  const medians = (model.trials.get(cell.id) ?? [])
    .map((trial) => trial.floor?.median_ns)
    .filter((value): value is number => typeof value === 'number')
    .sort((a, b) => a - b);
  return medians[Math.floor((medians.length - 1) / 2)];
}
