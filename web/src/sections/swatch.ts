// The sign of a series beside its name: a short line in its colour and dash with its marker. The
// same everywhere, so that a reader learns it once.

import { symbol } from 'd3-shape';
import { h, s } from '../dom';
import { kindLook } from '../kinds';
import type { Model, Series } from '../model';
import { markerPath } from '../palette';

export function swatch(series: Series, width = 34): SVGSVGElement {
  return s(
    'svg',
    {
      class: 'swatch',
      width,
      height: 12,
      viewBox: `0 0 ${width} 12`,
      'aria-hidden': 'true',
      style: { '--c': series.look.color },
    },
    // Two halves from the middle outwards, so that a dash pattern comes out symmetric.
    [1, width - 1].map((end) =>
      s('line', { x1: width / 2, x2: end, y1: 6, y2: 6, 'stroke-dasharray': series.look.dash }),
    ),
    s('path', {
      d: markerPath(series.look.marker, 36),
      transform: `translate(${width / 2} 6)`,
    }),
  );
}

/** Swatch and name of a cell's series. */
export function seriesKey(model: Model, cellId: string): HTMLElement {
  const series = model.seriesOf.get(cellId);
  if (!series) return h('span', { class: 'key' }, cellId);
  return h('span', { class: 'key' }, swatch(series), h('span', {}, series.label));
}

/** Colour and shape of a kind. */
export function kindSwatch(kind: string): SVGSVGElement {
  return s(
    'svg',
    {
      class: 'swatch',
      width: 14,
      height: 12,
      viewBox: '0 0 14 12',
      'aria-hidden': 'true',
      style: { '--c': kindLook(kind).color },
    },
    s('path', { d: symbol(kindLook(kind).marker, 40)() ?? '', transform: 'translate(7 6)' }),
  );
}
