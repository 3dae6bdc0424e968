// Cumulative distributions: which fraction of the samples was at most this slow. The body of the
// distribution, where the HDR axis shows the tail.

import { line } from 'd3-shape';
import { linearTicks, logDomain, logTicks } from '../axis';
import { s } from '../dom';
import { duration, durationTick, significant } from '../format';
import { cdfAt, cellsOf, type MeasurementView } from '../model';
import type { Cell, Group, Pair } from '../summary';
import type { Frame } from './frame';
import type { LinkedView } from './linked';
import {
  cellData,
  cellStyle,
  curveHeight,
  CurvePanel,
  visibleCells,
  type Context,
  type CurveAxes,
} from './panel';

export function cdfPanel(
  context: Context,
  group: Group,
  view: LinkedView,
  axes: () => CurveAxes,
): CurvePanel {
  return new CurvePanel(
    context,
    group,
    {
      plot: 'cdf',
      label: ({ title }) => `Cumulative distribution of latency, ${title}`,
      height: (width) => Math.min(320, curveHeight(width)),
      axes,
      draw: (frame, cells) => cells.forEach((cell) => drawCdf(context, frame, cell)),
      home: () => home(context, group),
      step: (x, direction) => x * 10 ** (direction * 0.01),
      at: (x) => `at most ${duration(x)}`,
      rows: (x, cells) =>
        cells.map((cell) => {
          const value = cdfAt(cell, x);
          const text = value === null ? 'no samples' : `${significant(value * 100)}\u2009%`;
          return { cell, value, text, aside: '' };
        }),
      y: (row) => row.value,
    },
    view,
  );
}

/** The baseline's median, where the curves differ most. */
function home(context: Context, group: Group): number {
  const cells = cellsOf(context.model, group).filter((cell) => cell.latency);
  return cells[0]?.latency?.quantiles[0]?.value_ns ?? cells[0]?.latency?.iqr_ns[1] ?? 1000;
}

/** The axes that all groups share. */
export function cdfAxes(
  context: Context,
  measurement: MeasurementView,
  groups: Group[],
): CurveAxes {
  let cells = groups.flatMap((group) => visibleCells(context, group));
  if (cells.length === 0) cells = groups.flatMap((group) => cellsOf(context.model, group));
  const ends = cells.flatMap(({ latency }) => {
    if (!latency) return [];
    // Up to the 99.9th percentile: beyond, a CDF is a flat line, and the HDR axis tells more.
    const top = latency.cdf.find(([, fraction]) => fraction >= 0.999) ?? latency.cdf.at(-1);
    return [latency.cdf[0]?.[0] ?? 0, top?.[0] ?? 0];
  });
  const meaning = measurement.info.latency;
  return {
    x: {
      type: 'log',
      domain: logDomain(ends, 0.02),
      title: meaning ? `latency, ${meaning}` : 'latency',
      ticks: (domain, pixels) => logTicks(domain, pixels, durationTick, false),
    },
    y: {
      type: 'linear',
      domain: [0, 1],
      title: 'share of samples',
      ticks: (domain, pixels) =>
        linearTicks(domain, pixels, (v) => `${Number((v * 100).toPrecision(4))}\u2009%`, 50),
    },
  };
}

function drawCdf(context: Context, frame: Frame, cell: Cell): void {
  const series = context.model.seriesOf.get(cell.id);
  const cdf = cell.latency?.cdf.filter(([ns]) => ns > 0);
  if (!series || !cdf || cdf.length < 2) return;
  const d = line<Pair>()
    .x((point) => frame.x(point[0]))
    .y((point) => frame.y(point[1]))(cdf);
  frame.marks.append(
    s(
      'g',
      { class: 'series', ...cellData(context, 'cdf', cell), style: cellStyle(context, cell) },
      s('path', { class: 'curve sound', d, 'stroke-dasharray': series.look.dash }),
    ),
  );
}
