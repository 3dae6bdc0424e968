// One quantity of one cell over time: a line for each machine and definition of the measurement, with the
// interval of each point, and a mark where a series changed.

import { scaleUtc } from 'd3-scale';
import {
  logDomain,
  logTicks,
  quantityTicks,
  zeroDomain,
  type AxisSpec,
  type Domain,
  type Tick,
} from '../axis';
import { s } from '../dom';
import { quantityTick, ratio } from '../format';
import { look, markerPath } from '../palette';
import { frame, type Frame } from '../plots/frame';
import type { ChangePoint, Series, Trend, TrendPoint } from './documents';

/** A point with its place in the drawing. */
export interface Placed {
  point: TrendPoint;
  series: Series;
  x: number;
  y: number;
  color: string;
}

export interface TrendDrawing {
  svg: SVGSVGElement;
  /** In order of time. */
  placed: Placed[];
}

const timeOf = (point: TrendPoint): number => new Date(point.started).getTime();
const at = (pixels: number): string => pixels.toFixed(2);

/** Whether a change made the quantity worse. */
export function isWorse(change: ChangePoint, trend: Trend): boolean {
  return change.after > change.before !== trend.higher_is_better;
}

/** `▲ 1.30×`: the sign says whether the value grew, also where there is no ratio. */
export function changeText({ before, after, ratio: own }: ChangePoint): string {
  return `${after > before ? '▲' : '▼'} ${ratio(own)}`;
}

/** Whether the measurement was defined in several ways over time. */
export function isRedefined({ series }: Trend): boolean {
  return new Set(series.map(({ definition }) => definition)).size > 1;
}

/** The machine; with what was measured, where that was not always the same. */
export function seriesName({ machine, definition }: Series, trend: Trend): string {
  return isRedefined(trend) ? `${machine}: ${definition}` : machine;
}

/** The trend at this width in pixels, and where its points are. */
export function drawTrend(trend: Trend, width: number): TrendDrawing {
  const points = trend.series.flatMap((series) => series.points);
  const drawn = frame({
    plot: 'trend',
    group: trend.cell,
    label: `${trend.quantity} of ${trend.cell} over time; the table below has the numbers`,
    width,
    height: width > 760 ? 400 : 320,
    x: timeAxis(points.map(timeOf).filter(Number.isFinite)),
    y: valueAxis(points, trend),
    margin: { top: 30, left: 62, right: 16 },
  });
  const all: Placed[] = [];
  trend.series.forEach((series, index) => {
    const own = series.points.map((point) => ({
      point,
      series,
      x: drawn.x(timeOf(point)),
      y: drawn.y(point.value),
      color: look(index).color,
    }));
    all.push(...own);
    drawn.marks.append(drawSeries(drawn, own, series, index));
  });
  drawChanges(drawn, trend, all);
  const placed = all.filter(hasPlace).sort((a, b) => a.x - b.x);
  return { svg: drawn.svg, placed };
}

/** Whether anything of the trend can be drawn. */
export function canBeDrawn(trend: Trend): boolean {
  return trend.series.some(({ points }) => points.some((point) => Number.isFinite(timeOf(point))));
}

/** A run whose time cannot be read has no place. */
function hasPlace({ x, y }: Placed): boolean {
  return Number.isFinite(x) && Number.isFinite(y);
}

function valueAxis(points: TrendPoint[], { unit, quantity }: Trend): AxisSpec {
  const values = points.map((point) => point.value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const label = (value: number): string => quantityTick(value, unit);
  if (!(least > 0)) {
    return {
      type: 'linear',
      domain: zeroDomain(values),
      title: quantity,
      ticks: (domain, pixels) => quantityTicks(domain, pixels, unit, 40),
    };
  }
  // An interval that reaches far beyond all values would leave no room for them.
  const ends = points.flatMap(({ low, high }) => [low ?? least, high ?? most]);
  const within = ends.map((end) => Math.min(Math.max(end, least / 2), most * 2));
  return {
    type: 'log',
    domain: logDomain([...values, ...within], 0.08),
    title: quantity,
    ticks: (domain, pixels) =>
      // Over less than a decade, 1, 2 and 5 are too few.
      domain[1] / domain[0] < 8
        ? quantityTicks(domain, pixels, unit, 45)
        : logTicks(domain, pixels, label, true),
  };
}

const DAY = 86_400_000;

function timeAxis(times: number[]): AxisSpec {
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const air = Math.max((last - first) * 0.02, 60_000);
  return {
    type: 'linear',
    domain: [first - air, last + air],
    title: 'UTC',
    ticks: (domain, pixels) => timeTicks(domain, pixels),
  };
}

/** Round times; a label says no more than the distance to the next needs. */
export function timeTicks(domain: Domain, pixels: number): Tick[] {
  const dates = scaleUtc(domain, [0, pixels]).ticks(Math.max(2, Math.floor(pixels / 90)));
  const step = Number(dates[1] ?? domain[1]) - Number(dates[0] ?? domain[0]);
  return dates.map((date) => ({ value: date.getTime(), label: timeLabel(date, step) }));
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

function timeLabel(date: Date, step: number): string {
  const month = MONTHS[date.getUTCMonth()] ?? '';
  if (step > 300 * DAY) return String(date.getUTCFullYear());
  if (step > 27 * DAY) return `${month} ${date.getUTCFullYear()}`;
  const time = date.toISOString().slice(11, 16);
  if (step < DAY && time !== '00:00') return time;
  return `${date.getUTCDate()} ${month}`;
}

function drawSeries({ y }: Frame, all: Placed[], series: Series, index: number): SVGGElement {
  const { color, dash, marker } = look(index);
  const placed = all.filter(hasPlace);
  const bars = placed.map((one) => barOf(one, y));
  const line = placed.map(({ x, y }, i) => `${i > 0 ? 'L' : 'M'}${at(x)} ${at(y)}`);
  const d = markerPath(marker, placed.length > 200 ? 16 : 36);
  return s(
    'g',
    { class: 'trend-line', 'data-machine': series.machine, style: { '--c': color } },
    s('path', { class: 'bars', d: bars.join('') }),
    s('path', { class: 'joined', d: line.join(''), 'stroke-dasharray': dash || null }),
    levels(all, series, y),
    placed.map(({ point, x, y }) =>
      s('path', {
        class: 'mark',
        d,
        transform: `translate(${at(x)} ${at(y)})`,
        'data-run': point.path,
        'data-value': point.value,
      }),
    ),
  );
}

/** The path of a point's interval; empty where an end has no place, as 0 on a logarithmic axis. */
export function barOf({ point, x }: Placed, y: (value: number) => number): string {
  const { low, high } = point;
  if (low === null || high === null) return '';
  const [from, to] = [y(low), y(high)];
  return Number.isFinite(from) && Number.isFinite(to) ? `M${at(x)} ${at(from)}V${at(to)}` : '';
}

/** The centre of each segment, as a line over its length. */
function levels(all: Placed[], { changes }: Series, y: (value: number) => number): SVGElement[] {
  return changes.flatMap((change, i) => {
    const from = changes[i - 1]?.index ?? 0;
    const to = changes[i + 1]?.index ?? all.length;
    const before = i === 0 ? [[from, change.index, change.before] as const] : [];
    return [...before, [change.index, to, change.after] as const].flatMap(([start, end, value]) => {
      const segment = all.slice(start, end).filter(hasPlace);
      const [first, last] = [segment[0], segment.at(-1)];
      if (!first || !last) return [];
      return [s('line', { class: 'level', x1: first.x, x2: last.x, y1: y(value), y2: y(value) })];
    });
  });
}

/** Room of a label, in pixels. */
const LABEL = { width: 50, height: 13 };
/** Pixels by which a mark stands out over the step that it marks. */
const OVER = 12;

/** A mark at each step, as high as the step, with the ratio above it where there is room. */
function drawChanges({ box, top, y }: Frame, trend: Trend, all: Placed[]): void {
  const labels: { x: number; y: number }[] = [];
  for (const series of trend.series) {
    const own = all.filter((one) => one.series === series);
    for (const change of series.changes) {
      const [before, after] = [own[change.index - 1], own[change.index]];
      if (!before || !after || !hasPlace(before) || !hasPlace(after)) continue;
      const x = (before.x + after.x) / 2;
      const ends = [y(change.before), y(change.after)];
      const y1 = Math.max(box.top + LABEL.height, Math.min(...ends) - OVER);
      const y2 = Math.min(box.top + box.height, Math.max(...ends) + OVER);
      const mark = s(
        'g',
        {
          class: `change ${isWorse(change, trend) ? 'worse' : 'better'}`,
          'data-machine': series.machine,
          'data-index': change.index,
          'data-ratio': change.ratio,
        },
        s('line', { x1: x, x2: x, y1, y2 }),
      );
      const label = { x, y: y1 - 4 };
      const isFree = labels.every(
        (other) =>
          Math.abs(other.x - label.x) > LABEL.width || Math.abs(other.y - label.y) > LABEL.height,
      );
      // Where there is no room, the table below has the ratio.
      if (isFree) {
        labels.push(label);
        mark.append(s('text', { ...label, 'text-anchor': 'middle' }, changeText(change)));
      }
      top.append(mark);
    }
  }
}
