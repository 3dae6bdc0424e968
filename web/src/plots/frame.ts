// The frame that every plot shares: an SVG of the width at hand with a box, two axes and a clipped
// layer for the marks. The SVG carries its own axes as data attributes (type, domain, range), so
// that a test can map drawn points back to values without asking this code.

import {
  drawXAxis,
  drawYAxis,
  scaleOf,
  type AxisSpec,
  type Box,
  type Domain,
  type Scale,
} from '../axis';
import { s } from '../dom';

export interface FrameSpec {
  plot: string;
  group: string;
  /** Read by screen readers in place of the drawing. */
  label: string;
  width: number;
  height: number;
  x: AxisSpec | null;
  y: AxisSpec | null;
  margin?: Partial<Margin>;
}

interface Margin {
  top: number;
  right: number;
  bottom: number;
  left: number;
}

export interface Frame {
  svg: SVGSVGElement;
  box: Box;
  x: Scale;
  y: Scale;
  /** Clipped to the box. */
  marks: SVGGElement;
  /** Above the marks, not clipped. */
  top: SVGGElement;
}

let clips = 0;

export function frame(spec: FrameSpec): Frame {
  const margin: Margin = {
    top: 24,
    right: 10,
    bottom: spec.x?.title ? 40 : 24,
    left: 56,
    ...spec.margin,
  };
  const box: Box = {
    left: margin.left,
    top: margin.top,
    width: Math.max(40, spec.width - margin.left - margin.right),
    height: Math.max(20, spec.height - margin.top - margin.bottom),
  };
  const xRange: Domain = [box.left, box.left + box.width];
  const yRange: Domain = [box.top + box.height, box.top];
  const x = scaleOf(spec.x?.type ?? 'linear', spec.x?.domain ?? [0, 1], xRange);
  const y = scaleOf(spec.y?.type ?? 'linear', spec.y?.domain ?? [0, 1], yRange);
  const clip = `clip-${++clips}`;
  const marks = s('g', { class: 'marks', 'clip-path': `url(#${clip})` });
  const top = s('g', { class: 'top' });
  const svg = s(
    'svg',
    {
      class: 'plot',
      role: 'img',
      'aria-label': spec.label,
      width: spec.width,
      height: spec.height,
      viewBox: `0 0 ${spec.width} ${spec.height}`,
      'data-plot': spec.plot,
      'data-group': spec.group,
      ...axisData('x', spec.x, xRange),
      ...axisData('y', spec.y, yRange),
    },
    s(
      'clipPath',
      { id: clip },
      s('rect', { x: box.left, y: box.top - 1, width: box.width, height: box.height + 2 }),
    ),
  );
  if (spec.x) svg.append(drawXAxis(box, x, spec.x.ticks(spec.x.domain, box.width), spec.x.title));
  if (spec.y) svg.append(drawYAxis(box, y, spec.y.ticks(spec.y.domain, box.height), spec.y.title));
  svg.append(marks, top);
  return { svg, box, x, y, marks, top };
}

function axisData(name: string, axis: AxisSpec | null, range: Domain): Record<string, string> {
  if (!axis) return {};
  return {
    [`data-${name}-type`]: axis.type,
    [`data-${name}-domain`]: axis.domain.join(' '),
    [`data-${name}-range`]: range.join(' '),
  };
}
