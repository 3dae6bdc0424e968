// Reads what is drawn back out of the page: pixels of paths and marks, and the axes they stand on,
// so that a test can compare them with the summary without trusting the page's own code.

import type { Page } from 'playwright-core';

export type Point = [number, number];

/** An axis as its SVG describes it. */
export interface Axis {
  type: string;
  domain: Point;
  range: Point;
}

export interface DrawnSeries {
  plot: string;
  cell: string;
  trial: number | null;
  failed: boolean;
  overloaded: boolean;
  x: Axis | null;
  y: Axis | null;
  /** Points of each path, by its `data-part`. */
  paths: Record<string, Point[]>;
  /** Pixel heights of a box: median and both quartiles. */
  box: { median: number; q1: number; q3: number } | null;
}

/** Value at a pixel of an axis. */
export function valueAt(axis: Axis, pixel: number): number {
  const [from, to] = axis.range;
  const t = (pixel - from) / (to - from);
  const [low, high] = axis.domain;
  if (axis.type === 'log') return low * (high / low) ** t;
  return low + t * (high - low);
}

/** Every series of a plot that is drawn in the measurement on show. */
export async function drawnSeries(page: Page, plot: string): Promise<DrawnSeries[]> {
  return page.evaluate((name) => {
    const pair = (text: string | null): [number, number] | null =>
      text === null ? null : (text.split(' ').map(Number) as [number, number]);
    const axis = (element: Element, which: string) => {
      const find = (what: string): string | null =>
        element.closest(`[data-${which}-${what}]`)?.getAttribute(`data-${which}-${what}`) ?? null;
      const domain = pair(find('domain'));
      const range = pair(find('range'));
      return domain && range ? { type: find('type') ?? 'linear', domain, range } : null;
    };
    const points = (path: Element): [number, number][] => {
      const numbers = (path.getAttribute('d') ?? '').match(/-?[\d.]+(?:e-?\d+)?/g) ?? [];
      const list: [number, number][] = [];
      for (let i = 0; i + 1 < numbers.length; i += 2) {
        list.push([Number(numbers[i]), Number(numbers[i + 1])]);
      }
      return list;
    };
    const found = document.querySelectorAll(
      `.bench:not([hidden]) .panel:not([hidden]) svg .series[data-plot="${name}"]`,
    );
    return [...found].map((g) => {
      const paths: Record<string, [number, number][]> = {};
      for (const path of g.querySelectorAll('path.curve')) {
        paths[path.getAttribute('data-part') ?? 'all'] = points(path);
      }
      const median = g.querySelector('line.median');
      const rect = g.querySelector('rect.box');
      const number = (element: Element, attribute: string): number =>
        Number(element.getAttribute(attribute));
      const trial = g.getAttribute('data-trial');
      return {
        plot: name,
        cell: g.getAttribute('data-cell') ?? '',
        trial: trial === null ? null : Number(trial),
        failed: g.hasAttribute('data-failed'),
        overloaded: g.classList.contains('overloaded'),
        x: axis(g, 'x'),
        y: axis(g, 'y'),
        paths,
        box:
          median && rect
            ? {
                median: number(median, 'y1'),
                q3: number(rect, 'y'),
                q1: number(rect, 'y') + number(rect, 'height'),
              }
            : null,
      };
    });
  }, plot);
}

export interface DrawnMetric {
  cell: string;
  metric: string;
  axis: Axis;
  values: number[];
  median: number | null;
}

/** Pixels of the dots and medians of the metrics on show. */
export async function drawnMetrics(page: Page): Promise<DrawnMetric[]> {
  return page.evaluate(() => {
    const rows = document.querySelectorAll(
      '.bench:not([hidden]) .panel:not([hidden]) .series[data-plot="metrics"]',
    );
    return [...rows].map((row) => {
      const holder = row.closest('[data-metric-axis]') as Element;
      const pair = (name: string): [number, number] =>
        (holder.getAttribute(name) ?? '').split(' ').map(Number) as [number, number];
      const median = row.querySelector('line.median')?.getAttribute('x1');
      return {
        cell: row.getAttribute('data-cell') ?? '',
        metric: row.getAttribute('data-metric') ?? '',
        axis: { type: 'linear', domain: pair('data-x-domain'), range: pair('data-x-range') },
        values: [...row.querySelectorAll('circle.dot')].map((dot) =>
          Number(dot.getAttribute('cx')),
        ),
        median: median === undefined || median === null ? null : Number(median),
      };
    });
  });
}

export interface DrawnLines {
  plot: string;
  quantity: string;
  x: Axis;
  y: Axis;
  marks: DrawnMark[];
}

export interface DrawnMark {
  line: string;
  /** Value that the mark says it stands at, and its pixels. */
  at: number;
  x: number;
  y: number;
  /** Pixel heights of the interval's ends. */
  ends: Point | null;
}

/** Every plot of lines in an element of the page. */
export async function drawnLines(page: Page, within: string): Promise<DrawnLines[]> {
  return page.evaluate((selector) => {
    const numbers = (text: string | null | undefined): [number, number] =>
      (text?.match(/-?[\d.]+(?:e[+-]?\d+)?/g) ?? []).map(Number) as [number, number];
    return [...document.querySelectorAll(`${selector} svg[data-plot]`)].map((svg) => {
      const attribute = (name: string): string => svg.getAttribute(name) ?? '';
      const axis = (which: string) => ({
        type: attribute(`data-${which}-type`),
        domain: numbers(attribute(`data-${which}-domain`)),
        range: numbers(attribute(`data-${which}-range`)),
      });
      const marks = [...svg.querySelectorAll('[data-x]')].map((mark) => {
        const [x, y] = numbers(mark.querySelector('.mark')?.getAttribute('transform'));
        const error = mark.querySelector('.error');
        const end = (name: string): number => Number(error?.getAttribute(name));
        const ends: [number, number] | null = error ? [end('y1'), end('y2')] : null;
        const line = mark.closest('[data-line]')?.getAttribute('data-line') ?? '';
        return { line, at: Number(mark.getAttribute('data-x')), x, y, ends };
      });
      const [plot, quantity] = [attribute('data-plot'), attribute('data-quantity')];
      return { plot, quantity, x: axis('x'), y: axis('y'), marks };
    });
  }, within);
}

/** Straight lines between points on logarithmic axes; null outside. The test's own arithmetic. */
export function interpolate(curve: Point[], x: number): number | null {
  for (let i = 1; i < curve.length; i++) {
    const [x0, y0] = curve[i - 1] as Point;
    const [x1, y1] = curve[i] as Point;
    if (x < x0 || x > x1 || x0 === x1) continue;
    const t = Math.log(x / x0) / Math.log(x1 / x0);
    return y0 * (y1 / y0) ** t;
  }
  return null;
}
