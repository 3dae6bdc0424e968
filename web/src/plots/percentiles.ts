// Percentile plot on the HDR axis: x is 1 / (1 - p) on a logarithmic scale, so that every further
// nine has the same room, y the latency. A curve is thin and dotted beyond the point up to which
// enough samples carry it. Markers with whiskers are the table's percentiles with their intervals.

import { line } from 'd3-shape';
import { hdrTicks, logDomain, logTicks, type AxisSpec } from '../axis';
import { s } from '../dom';
import { durationTick, percentile } from '../format';
import { cellsOf, curveAt, type MeasurementView } from '../model';
import { markerPath } from '../palette';
import { quantileFill } from './marks';
import type { Cell, Group, Pair } from '../summary';
import type { Frame } from './frame';
import type { LinkedView } from './linked';
import {
  against,
  between,
  cellData,
  cellStyle,
  curveHeight,
  CurvePanel,
  latencyText,
  visibleCells,
  type Context,
  type CurveAxes,
} from './panel';

/** The cursor's initial place: p99 tells more than the median does. */
const HOME = 100;

export function percentilePanel(
  context: Context,
  group: Group,
  view: LinkedView,
  axes: () => CurveAxes,
): CurvePanel {
  const base = group.baseline ?? group.cells[0];
  return new CurvePanel(
    context,
    group,
    {
      plot: 'percentiles',
      label: ({ title }) => `Latency by percentile, ${title}`,
      height: curveHeight,
      axes,
      draw: (frame, cells) => cells.forEach((cell) => drawCurve(context, frame, cell)),
      home: () => HOME,
      step: (x, direction) => Math.max(1, x * 10 ** (direction * 0.05)),
      at: (x) => `at ${percentile(1 - 1 / x)}`,
      rows: (x, cells) => {
        const baseCell = base === undefined ? undefined : context.model.cells.get(base);
        const baseValue = baseCell ? curveAt(baseCell, 1 - 1 / x) : null;
        return cells.map((cell) => {
          const value = curveAt(cell, 1 - 1 / x);
          const thin = value !== null && x > (cell.latency?.curve_sound_to ?? 0);
          const compared = against(value, baseValue, cell.id === group.baseline);
          let aside = thin ? `${compared} few samples`.trim() : compared;
          if (value === null) aside = 'no samples out here';
          return { cell, value, text: latencyText(value), aside };
        });
      },
      y: (row) => row.value,
    },
    view,
  );
}

/** The axes that all groups share. */
export function percentileAxes(
  context: Context,
  measurement: MeasurementView,
  groups: Group[],
): CurveAxes {
  let cells = groups.flatMap((group) => visibleCells(context, group));
  // With every series hidden the axes stay those of all.
  if (cells.length === 0) cells = groups.flatMap((group) => cellsOf(context.model, group));
  const curves = cells.map((cell) => cell.latency?.curve ?? []);
  const far = Math.max(10, ...curves.map((curve) => curve[curve.length - 1]?.[0] ?? 1));
  const y = logDomain(
    (function* () {
      for (const curve of curves) for (const point of curve) yield point[1];
    })(),
  );
  const meaning = measurement.info.latency;
  return {
    x: { type: 'log', domain: [1, far * 1.05], title: 'percentile', ticks: hdrTicks },
    y: {
      type: 'log',
      domain: y,
      title: meaning ? `latency, ${meaning}` : 'latency',
      ticks: (domain, pixels) => logTicks(domain, pixels, durationTick, true),
    },
  };
}

function drawCurve(context: Context, frame: Frame, cell: Cell): void {
  const latency = cell.latency;
  const series = context.model.seriesOf.get(cell.id);
  if (!latency || !series) return;
  const path = line<Pair>()
    .x((point) => frame.x(point[0]))
    .y((point) => frame.y(point[1]));
  const drawable = latency.curve.filter((point) => point[0] >= 1 && point[1] > 0);
  const [sound, thin] = splitAt(drawable, latency.curve_sound_to);
  const data = cellData(context, 'percentiles', cell);
  const g = s('g', { class: 'series', ...data, style: cellStyle(context, cell) });
  const add = (part: string, points: Pair[], dash: string): void => {
    if (points.length < 2) return;
    const d = path(points) ?? '';
    g.append(s('path', { class: `curve ${part}`, 'data-part': part, d, 'stroke-dasharray': dash }));
  };
  add('thin', thin, '1 4');
  add('sound', sound, series.look.dash);
  for (const quantile of latency.quantiles) {
    if (quantile.value_ns === undefined || quantile.value_ns <= 0) continue;
    const x = frame.x(1 / (1 - quantile.p));
    if (quantile.ci95_ns && quantile.ci95_ns[0] > 0) {
      const [low, high] = quantile.ci95_ns.map((v) => frame.y(v)) as Pair;
      g.append(s('line', { class: 'whisker', x1: x, x2: x, y1: low, y2: high }));
    }
    g.append(
      s('path', {
        class: quantileFill(cell),
        'data-p': quantile.p,
        d: markerPath(series.look.marker),
        transform: `translate(${x.toFixed(2)} ${frame.y(quantile.value_ns).toFixed(2)})`,
      }),
    );
  }
  frame.marks.append(g);
}

/** The curve up to `x` and from there on; both contain the point at `x`. */
export function splitAt(curve: Pair[], x: number): [Pair[], Pair[]] {
  const i = curve.findIndex((point) => point[0] > x);
  if (i < 0) return [curve, []];
  if (i === 0) return [[], curve];
  const [a, b] = [curve[i - 1] as Pair, curve[i] as Pair];
  const axis: AxisSpec = { type: 'log', domain: [1, 10], title: '', ticks: () => [] };
  const cut: Pair = [x, between(axis, a, b, x)];
  return [a[0] === x ? curve.slice(0, i) : [...curve.slice(0, i), cut], [cut, ...curve.slice(i)]];
}
