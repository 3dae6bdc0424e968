// Ratios on one logarithmic axis, a row each, with a line at 1.

import { s } from '../dom';
import type { Pair } from '../summary';

const WIDTH = 224;
const HEIGHT = 19;
const MIDDLE = HEIGHT / 2;
const MARGIN = 6;

/** From a ratio to its place. */
export type RatioAxis = (ratio: number) => number;

/** An axis with 1 and all these ratios in it. */
export function ratioAxis(ratios: (number | undefined)[]): RatioAxis {
  const logs = ratios.filter((v): v is number => v !== undefined && v > 0).map(Math.log);
  const low = Math.min(Math.log(0.8), ...logs);
  const high = Math.max(Math.log(1.25), ...logs);
  return (ratio) => MARGIN + ((Math.log(ratio) - low) / (high - low)) * (WIDTH - 2 * MARGIN);
}

/** A dot with its interval, and a diamond for what a paper has. */
export function ratioMark(
  axis: RatioAxis,
  ratio: { value?: number; interval?: Pair; published?: number },
): SVGElement {
  const one = axis(1);
  const published = ratio.published === undefined ? null : axis(ratio.published);
  const value = ratio.value === undefined ? null : axis(ratio.value);
  const [low, high] = (ratio.interval ?? []).map(axis);
  return s(
    'svg',
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}` },
    s('line', { class: 'one', x1: one, x2: one, y1: 0, y2: HEIGHT }),
    low === undefined || high === undefined
      ? null
      : s('line', { class: 'ours', x1: low, x2: high, y1: MIDDLE, y2: MIDDLE }),
    value === null ? null : s('circle', { class: 'ours-middle', cx: value, cy: MIDDLE, r: 3.5 }),
    published === null
      ? null
      : s('path', {
          class: 'theirs',
          d: `M ${published - 5} ${MIDDLE} l 5 -5 l 5 5 l -5 5 z`,
        }),
  );
}
