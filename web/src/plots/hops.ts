// Where several devices stand in a row: the latency of each on the HDR axis, one line a device. What the
// packets took on the whole way is in the percentile plot above.

import { line } from 'd3-shape';
import { hdrTicks, logDomain, logTicks } from '../axis';
import { h, s, widthOf } from '../dom';
import { durationTick } from '../format';
import { look, markerPath } from '../palette';
import { seriesKey } from '../sections/swatch';
import type { Group, Pair, Tail } from '../summary';
import { frame } from './frame';
import type { Context, Panel } from './panel';

const HEIGHT = 280;

/** One cell's devices; `tails` are in the order of the way. */
export function hopsPanel(context: Context, group: Group, tails: Tail[]): Panel {
  const cell = tails[0]?.cell ?? '';
  const canvas = h('div', { class: 'canvas' });
  const key = (tail: Tail, i: number): HTMLElement =>
    h(
      'li',
      { style: { '--c': look(i).color } },
      s(
        'svg',
        { class: 'swatch', width: 34, height: 12, viewBox: '0 0 34 12', 'aria-hidden': 'true' },
        s('line', { x1: 1, x2: 33, y1: 6, y2: 6, 'stroke-dasharray': look(i).dash }),
        s('path', { d: markerPath(look(i).marker, 36), transform: 'translate(17 6)' }),
      ),
      ` ${tail.device}`,
    );
  const element = h(
    'figure',
    { class: 'panel hops', 'data-panel': 'hops', 'data-group': group.id, 'data-cell': cell },
    h(
      'figcaption',
      {},
      h('h4', {}, seriesKey(context.model, cell), ' · latency through each device'),
    ),
    h('ul', { class: 'keys' }, tails.map(key)),
    canvas,
  );
  const draw = (): void => {
    const visible = context.state.visible(cell);
    element.toggleAttribute('data-off', !visible);
    canvas.replaceChildren(...(visible ? [drawing(group, tails, widthOf(canvas))] : []));
  };
  return { element, canvas, group, height: () => HEIGHT, draw };
}

function drawing(group: Group, tails: Tail[], width: number): SVGSVGElement {
  const curves = tails.map((tail) => tail.curve.filter(([x, ns]) => x >= 1 && ns > 0));
  const far = Math.max(10, ...curves.map((curve) => curve[curve.length - 1]?.[0] ?? 1));
  const drawn = frame({
    plot: 'hops',
    group: group.id,
    label: `Latency through each device by percentile, ${group.title}`,
    width,
    height: HEIGHT,
    x: { type: 'log', domain: [1, far * 1.05], title: 'percentile', ticks: hdrTicks },
    y: {
      type: 'log',
      domain: logDomain(curves.flatMap((curve) => curve.map(([, ns]) => ns))),
      title: 'time between the taps',
      ticks: (domain, pixels) => logTicks(domain, pixels, durationTick, true),
    },
  });
  const path = line<Pair>()
    .x(([x]) => drawn.x(x))
    .y(([, ns]) => drawn.y(ns));
  curves.forEach((curve, i) => {
    drawn.marks.append(
      s(
        'g',
        { class: 'hop', 'data-device': tails[i]?.device, style: { '--c': look(i).color } },
        s('path', {
          class: 'curve sound',
          d: path(curve) ?? '',
          'stroke-dasharray': look(i).dash,
        }),
      ),
    );
  });
  return drawn.svg;
}
