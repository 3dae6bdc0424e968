// A quantity over another one: a line a series with the 95 % interval of each point. The axis of the quantity
// starts at zero, unless it is of times that are too far apart for that.

import {
  drawXAxis,
  drawYAxis,
  logDomain,
  logTicks,
  quantityTicks,
  scaleOf,
  zeroDomain,
  type AxisSpec,
  type Box,
  type Domain,
  type Tick,
} from '../axis';
import { h, s } from '../dom';
import { durationTick, quantity, quantityRange } from '../format';
import { look, markerPath } from '../palette';
import type { Pair } from '../summary';

export interface Point {
  x: number;
  /** Name for people: `4 nodes`. */
  of: string;
  value: number;
  interval?: Pair;
  /** Written beside the mark. */
  label?: string;
}

export interface Line {
  label: string;
  /** Number of its look. */
  index: number;
  points: Point[];
}

export interface Lines {
  /** For tests and for the reader of the source. */
  kind: string;
  name: string;
  title: string;
  unit: string;
  /** The other quantity: `the number of nodes`. */
  over: string;
  x: Pick<AxisSpec, 'type' | 'domain' | 'title'> & { ticks: Tick[] };
  lines: Line[];
}

const WIDTH = 380;
const HEIGHT = 230;
/** Largest over smallest time, beyond which the small ones could not be told apart on a linear axis. */
const MAX_LINEAR = 50;
const BOX: Box = { left: 62, top: 26, width: WIDTH - 78, height: HEIGHT - 70 };

export function linesPlot(plot: Lines): HTMLElement {
  const points = plot.lines.flatMap((line) => line.points);
  const xRange: Domain = [BOX.left, BOX.left + BOX.width];
  const values = points.flatMap((point) => [point.value, ...(point.interval ?? [])]);
  const isFarApart = Math.max(...values) > MAX_LINEAR * Math.min(...values);
  const yType = plot.unit === 'ns' && Math.min(...values) > 0 && isFarApart ? 'log' : 'linear';
  const yDomain = yType === 'log' ? logDomain(values) : zeroDomain(values);
  const yTicks =
    yType === 'log'
      ? logTicks(yDomain, BOX.height, durationTick, true)
      : quantityTicks(yDomain, BOX.height, plot.unit, 34);
  const yRange: Domain = [BOX.top + BOX.height, BOX.top];
  const x = scaleOf(plot.x.type, plot.x.domain, xRange);
  const y = scaleOf(yType, yDomain, yRange);
  const svg = s('svg', {
    class: 'plot',
    role: 'img',
    'aria-label': `${plot.title} over ${plot.over}`,
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    'data-plot': plot.kind,
    'data-quantity': plot.name,
    'data-x-domain': plot.x.domain.join(' '),
    'data-x-range': xRange.join(' '),
    'data-x-type': plot.x.type,
    'data-y-domain': yDomain.join(' '),
    'data-y-range': yRange.join(' '),
    'data-y-type': yType,
  });
  svg.append(
    drawXAxis(BOX, x, plot.x.ticks, plot.x.title),
    drawYAxis(BOX, y, yTicks, heading(plot)),
    ...plot.lines.map((line) => drawLine(line, plot.unit, x, y)),
  );
  return h('figure', { class: 'lines-plot', 'data-quantity': plot.name }, svg);
}

/** The looks of the lines, with their labels. */
export function linesKey(labels: string[]): HTMLElement {
  return h(
    'ul',
    { class: 'lines-key' },
    labels.map((label, index) => {
      const { color, dash, marker } = look(index);
      const svg = s('svg', { width: 30, height: 12, 'aria-hidden': 'true', class: 'plot' });
      const line = s('g', { class: 'lines-line', style: { '--c': color } });
      line.append(
        s('path', { class: 'joined', d: 'M0 6H30', 'stroke-dasharray': dash || null }),
        s('path', { class: 'mark', d: markerPath(marker), transform: 'translate(15 6)' }),
      );
      svg.append(line);
      return h('li', {}, svg, label);
    }),
  );
}

/** Units with a prefix stand at the ticks. */
function heading({ title, unit }: Lines): string {
  return ['bit/s', 'ns', 'B', '1', '×'].includes(unit) ? title : `${title}, ${unit}`;
}

function drawLine(
  line: Line,
  unit: string,
  x: (value: number) => number,
  y: (value: number) => number,
): SVGGElement {
  const { color, dash, marker } = look(line.index);
  const { points } = line;
  const path = points.map((p, i) => `${i ? 'L' : 'M'}${at(x(p.x))} ${at(y(p.value))}`);
  const g = s('g', { class: 'lines-line', 'data-line': line.label, style: { '--c': color } });
  g.append(s('path', { class: 'joined', d: path.join(''), 'stroke-dasharray': dash || null }));
  for (const point of points) {
    const [px, py] = [x(point.x), y(point.value)];
    const interval = point.interval ? `, 95 % interval ${quantityRange(point.interval, unit)}` : '';
    const title = `${line.label}, ${point.of}: ${quantity(point.value, unit)}${interval}`;
    const mark = s('g', { 'data-x': point.x, 'data-value': point.value });
    if (point.interval) {
      const [from, to] = point.interval;
      mark.append(s('line', { class: 'error', x1: px, x2: px, y1: y(from), y2: y(to) }));
    }
    mark.append(
      s('path', {
        class: 'mark',
        d: markerPath(marker),
        transform: `translate(${at(px)} ${at(py)})`,
      }),
      s('title', {}, title),
    );
    if (point.label) {
      mark.append(s('text', { x: px + 6, y: py - 6 }, point.label));
    }
    g.append(mark);
  }
  return g;
}

const at = (pixels: number): string => pixels.toFixed(3);
