// The comparison table as CSV (RFC 4180), every cell of every measurement, in base units, so that it
// can be taken further in a spreadsheet. Metrics of one name may differ in unit, so each has a column for it.

import { floorOf, type Model } from './model';
import type { Cell } from './summary';

type Value = string | number | undefined;

export function csv(model: Model): string {
  const factors = model.summary.factors.map((factor) => factor.name);
  const points = [
    ...new Set(model.summary.cells.flatMap((c) => c.latency?.quantiles.map((q) => q.p) ?? [])),
  ];
  const metrics = [...new Set(model.summary.cells.flatMap((c) => c.metrics.map((m) => m.name)))];
  const head = [
    'cell',
    'measurement',
    ...factors,
    'emulated',
    'replicates',
    'overloaded',
    'samples',
    'min_ns',
    'q1_ns',
    'q3_ns',
    'max_ns',
    ...points.flatMap((p) => [`${name(p)}_ns`, `${name(p)}_low_ns`, `${name(p)}_high_ns`]),
    ...metrics.flatMap((metric) => [metric, `${metric}_unit`, `${metric}_low`, `${metric}_high`]),
    'baseline',
    'quantity',
    'ratio',
    'ratio_low',
    'ratio_high',
    'p_value',
    'verdict',
    'floor_median_ns',
    'sent',
    'received',
    'lost',
    'duplicated',
    'reordered',
    'unmatched',
    'corrupted',
  ];
  const rows = model.summary.cells.map((cell) => row(model, cell, factors, points, metrics));
  return [head, ...rows].map((values) => values.map(quote).join(',')).join('\r\n') + '\r\n';
}

function name(p: number): string {
  return `p${Number((p * 100).toPrecision(10))}`;
}

function row(
  model: Model,
  cell: Cell,
  factors: string[],
  points: number[],
  metrics: string[],
): Value[] {
  const { latency, comparison, counters } = cell;
  return [
    cell.id,
    cell.measurement,
    ...factors.map((factor) => cell.levels[factor]),
    String(cell.environment.emulated),
    cell.replicates,
    cell.overloaded,
    latency?.samples,
    latency?.min_ns,
    latency?.iqr_ns[0],
    latency?.iqr_ns[1],
    latency?.max_ns,
    ...points.flatMap((p): Value[] => {
      const quantile = latency?.quantiles.find((q) => q.p === p);
      return [quantile?.value_ns, quantile?.ci95_ns?.[0], quantile?.ci95_ns?.[1]];
    }),
    ...metrics.flatMap((metric): Value[] => {
      const own = cell.metrics.find((m) => m.name === metric);
      return [own?.spread.median, own?.unit, own?.ci95?.[0], own?.ci95?.[1]];
    }),
    comparison?.baseline,
    comparison?.quantity,
    comparison?.ratio,
    comparison?.ratio_ci95?.[0],
    comparison?.ratio_ci95?.[1],
    comparison?.p_value,
    comparison?.verdict,
    floorOf(model, cell),
    counters.sent,
    counters.received,
    counters.lost,
    counters.duplicated,
    counters.reordered,
    counters.unmatched,
    counters.corrupted,
  ];
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** As `csv_row` of the crate `report`: a text that a spreadsheet would take for a formula gets an apostrophe. */
function quote(value: Value): string {
  const plain = value === undefined ? '' : String(value);
  const isFormula = /^[=+\-@\t\r]/.test(plain) && !NUMBER.test(plain);
  const text = isFormula ? `'${plain}` : plain;
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}
