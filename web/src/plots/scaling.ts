// A quantity over the number of nodes: a line a series with the 95 % interval of each point. The numbers
// of nodes stand at equal distances per doubling, and the other axis starts at zero.

import {
  drawXAxis,
  drawYAxis,
  quantityTicks,
  scaleOf,
  zeroDomain,
  type Box,
  type Domain,
} from '../axis';
import { h, s } from '../dom';
import { count, quantity, quantityRange } from '../format';
import { look, markerPath } from '../palette';
import type { Pair } from '../summary';

export interface Point {
  nodes: number;
  value: number;
  interval?: Pair;
}

export interface Line {
  label: string;
  /** Number of its look. */
  index: number;
  points: Point[];
}

export interface Scaling {
  /** For tests and for the reader of the source. */
  name: string;
  title: string;
  unit: string;
  lines: Line[];
}

const WIDTH = 380;
const HEIGHT = 230;
const BOX: Box = { left: 62, top: 26, width: WIDTH - 78, height: HEIGHT - 70 };

export function scalingPlot(plot: Scaling): HTMLElement {
  const points = plot.lines.flatMap((line) => line.points);
  const nodes = [...new Set(points.map((point) => point.nodes))].sort((a, b) => a - b);
  const ends: Domain = [nodes[0] ?? 1, nodes[nodes.length - 1] ?? 1];
  // A single number still needs an axis with some length, and marks some air.
  const xDomain: Domain = [ends[0] / 1.2, ends[1] * 1.2];
  const xRange: Domain = [BOX.left, BOX.left + BOX.width];
  const yDomain = zeroDomain(points.flatMap((point) => [point.value, ...(point.interval ?? [])]));
  const yRange: Domain = [BOX.top + BOX.height, BOX.top];
  const x = scaleOf('log', xDomain, xRange);
  const y = scaleOf('linear', yDomain, yRange);
  const svg = s('svg', {
    class: 'plot',
    role: 'img',
    'aria-label': `${plot.title} over the number of nodes`,
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    'data-plot': 'scaling',
    'data-quantity': plot.name,
    'data-x-domain': xDomain.join(' '),
    'data-x-range': xRange.join(' '),
    'data-x-type': 'log',
    'data-y-domain': yDomain.join(' '),
    'data-y-range': yRange.join(' '),
    'data-y-type': 'linear',
  });
  svg.append(
    drawXAxis(
      BOX,
      x,
      nodes.map((value) => ({ value, label: count(value) })),
      'nodes',
    ),
    drawYAxis(BOX, y, quantityTicks(yDomain, BOX.height, plot.unit, 34), heading(plot)),
    ...plot.lines.map((line) => drawLine(line, plot.unit, x, y)),
  );
  return h('figure', { class: 'scaling-plot', 'data-quantity': plot.name }, svg);
}

/** Units with a prefix stand at the ticks. */
function heading({ title, unit }: Scaling): string {
  return ['bit/s', 'ns', 'B', '1', '×'].includes(unit) ? title : `${title}, ${unit}`;
}

function drawLine(
  line: Line,
  unit: string,
  x: (value: number) => number,
  y: (value: number) => number,
): SVGGElement {
  const { color, dash, marker } = look(line.index);
  const points = [...line.points].sort((a, b) => a.nodes - b.nodes);
  const path = points.map((p, i) => `${i ? 'L' : 'M'}${at(x(p.nodes))} ${at(y(p.value))}`);
  const g = s('g', { class: 'scaling-line', 'data-line': line.label, style: { '--c': color } });
  g.append(s('path', { class: 'joined', d: path.join(''), 'stroke-dasharray': dash || null }));
  for (const point of points) {
    const [px, py] = [x(point.nodes), y(point.value)];
    const nodes = `${count(point.nodes)} ${point.nodes === 1 ? 'node' : 'nodes'}`;
    const interval = point.interval ? `, 95 % interval ${quantityRange(point.interval, unit)}` : '';
    const title = `${line.label}, ${nodes}: ${quantity(point.value, unit)}${interval}`;
    const mark = s('g', { 'data-nodes': point.nodes, 'data-value': point.value });
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
    g.append(mark);
  }
  return g;
}

const at = (pixels: number): string => pixels.toFixed(3);
