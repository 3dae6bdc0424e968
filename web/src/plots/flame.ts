// Where in its code a device was: a flame graph of its slowest packets beside all others. The outermost
// functions are at the top. A function is as wide as the mean of its two shares, and its colour says in which
// of the two it has more.

import { h, s } from '../dom';
import { count, significant } from '../format';
import type { Code } from '../summary';

const ROW = 18;
/** Width of the drawing in its own units; it is scaled to the page. */
const WIDTH = 1000;
/** A narrower function has no name in it. */
const NAMED = 30;
const CHARACTER = 6.2;

export interface Flame {
  name: string;
  depth: number;
  x: number;
  width: number;
  slow: number;
  otherwise: number;
}

/** Places the functions: below their callers, side by side in the order of their names. */
export function flames(code: Code): Flame[] {
  const share = (samples: number, of: number): number => (of > 0 ? samples / of : 0);
  const both = code.slow > 0 && code.otherwise > 0 ? 2 : 1;
  const all: Flame[] = code.functions.map(([name, , slow, otherwise]) => {
    const shares = [share(slow, code.slow), share(otherwise, code.otherwise)] as const;
    const width = (WIDTH * (shares[0] + shares[1])) / both;
    return { name, depth: 0, x: 0, width, slow: shares[0], otherwise: shares[1] };
  });
  const below = new Map<number | null, number[]>();
  code.functions.forEach(([, caller], place) => {
    const siblings = below.get(caller) ?? [];
    siblings.push(place);
    below.set(caller, siblings);
  });
  const put = (caller: number | null, from: number, depth: number): void => {
    const places = below.get(caller) ?? [];
    places.sort((a, b) => ((all[a] as Flame).name < (all[b] as Flame).name ? -1 : 1));
    let x = from;
    for (const place of places) {
      const one = all[place] as Flame;
      one.x = x;
      one.depth = depth;
      x += one.width;
    }
  };
  put(null, 0, 0);
  // Callers come first, so each is placed before what it calls.
  all.forEach((one, place) => put(place, one.x, one.depth + 1));
  return all;
}

/** How red (more in slow packets) or blue (less) a function is, in percent. */
function tone({ slow, otherwise }: Flame): string {
  const more = Math.round(Math.min(1, Math.abs(slow - otherwise)) * 100);
  const towards = slow >= otherwise ? 'var(--serious)' : 'var(--accent)';
  return `color-mix(in srgb, ${towards} ${more}%, var(--wash))`;
}

const percent = (share: number): string => `${significant(share * 100, 3)} %`;

function drawn(one: Flame): SVGElement {
  const { name, slow, otherwise } = one;
  const text = `${name}: ${percent(slow)} in the slowest packets, ${percent(otherwise)} otherwise`;
  const room = Math.floor((one.width - 6) / CHARACTER);
  const strong = Math.abs(slow - otherwise) > 0.5;
  return s(
    'g',
    { class: 'flame', 'data-function': name, 'data-slow': slow, 'data-otherwise': otherwise },
    s('title', {}, text),
    s('rect', {
      x: one.x.toFixed(2),
      y: one.depth * ROW,
      width: Math.max(0, one.width - 0.5).toFixed(2),
      height: ROW - 1,
      style: `fill: ${tone(one)}`,
    }),
    one.width >= NAMED &&
      s(
        'text',
        { x: (one.x + 3).toFixed(2), y: one.depth * ROW + 13, class: strong ? 'strong' : null },
        name.length > room ? `${name.slice(0, Math.max(1, room - 1))}…` : name,
      ),
  );
}

export function flameGraph(device: string, code: Code): HTMLElement {
  const all = flames(code);
  const rows = 1 + Math.max(0, ...all.map((one) => one.depth));
  const lost = code.lost > 0 ? `; ${count(code.lost)} found no room` : '';
  return h(
    'div',
    { class: 'flames' },
    h('h5', {}, 'Where in its code'),
    h(
      'p',
      {},
      `${count(code.slow)} samples in the slowest 1 % of its packets, ${count(code.otherwise)} otherwise, `,
      `by ${count(code.rate)} samples/s${lost}. Red functions have more of the slow packets, blue ones less.`,
    ),
    h(
      'div',
      { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Code of ${device}` },
      s(
        'svg',
        {
          viewBox: `0 0 ${WIDTH} ${rows * ROW}`,
          width: WIDTH,
          height: rows * ROW,
          role: 'img',
          'aria-label': `Functions of ${device}, callers above`,
          'data-plot': 'flames',
        },
        all.map(drawn),
      ),
    ),
  );
}
