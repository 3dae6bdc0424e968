// Axes: domains, ticks and their drawing. The HDR axis is a logarithmic axis of 1 / (1 - p), on
// which each further nine takes the same room; its ticks are written as percentiles.

import { scaleLinear, scaleLog } from 'd3-scale';
import { s } from './dom';
import { percentile, quantityTick } from './format';

export type Domain = [number, number];

export interface Tick {
  value: number;
  /** Empty for a tick without a label. */
  label: string;
}

export interface AxisSpec {
  type: 'log' | 'linear';
  domain: Domain;
  title: string;
  ticks: (domain: Domain, pixels: number) => Tick[];
}

export interface Scale {
  (value: number): number;
  invert(pixel: number): number;
}

export function scaleOf(type: AxisSpec['type'], domain: Domain, range: Domain): Scale {
  const scale = type === 'log' ? scaleLog(domain, range) : scaleLinear(domain, range);
  return scale as unknown as Scale;
}

/** Position of a value between the ends of a domain, 0 to 1, on this kind of axis. */
export function fraction(type: AxisSpec['type'], domain: Domain, value: number): number {
  return scaleOf(type, domain, [0, 1])(value);
}

/** The inverse of `fraction`. */
export function atFraction(type: AxisSpec['type'], domain: Domain, t: number): number {
  return scaleOf(type, domain, [0, 1]).invert(t);
}

/** Smallest and largest positive finite value, with some air on a logarithmic axis. */
export function logDomain(values: Iterable<number>, air = 0.06): Domain {
  let low = Infinity;
  let high = 0;
  for (const value of values) {
    if (!(value > 0) || !Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!(high > 0)) return [1, 10];
  // A single value still needs an axis with some length.
  if (high / low < 1.2) [low, high] = [low / 1.2, high * 1.2];
  const factor = (high / low) ** air;
  return [low / factor, high * factor];
}

/** From 0, or a little under a value below it, to a little over the largest value. */
export function zeroDomain(values: Iterable<number>): Domain {
  let [low, high] = [0, 0];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low * 1.06, high > 0 ? high * 1.06 : low < 0 ? 0 : 1];
}

/** Ticks of the HDR axis: the nines first, the median, then what fits between them. */
export function hdrTicks(domain: Domain, pixels: number): Tick[] {
  const wanted: [nines: number[], halves: number[], fine: number[]] = [[], [], []];
  const top = Math.ceil(Math.log10(domain[1]) + 1e-9);
  for (let e = Math.max(0, Math.floor(Math.log10(domain[0]))); e <= top; e++) {
    const decade = 10 ** e;
    if (e === 0) wanted[0].push(2, 1);
    else {
      wanted[0].push(decade);
      wanted[1].push(2 * decade);
    }
    wanted[1].push(5 * decade);
    wanted[2].push(4 * decade);
  }
  const label = (x: number): string => percentile(1 - 1 / x);
  const inView = (list: number[]): number =>
    list.filter((x) => x >= domain[0] && x <= domain[1]).length;
  if (inView(wanted.flat()) < 3) {
    // Far zoomed in: round steps of 1 - p, which are round percentiles.
    const steps = scaleLinear([1 / domain[1], 1 / domain[0]], [0, 1]).ticks(4);
    return steps.map((rest) => ({ value: 1 / rest, label: label(1 / rest) })).reverse();
  }
  // With four nines in view, further labels would only be noise.
  const labelled = inView(wanted[0]) > 3 ? 1 : 2;
  const scale = scaleOf('log', domain, [0, pixels]);
  return fit(wanted, domain, scale, label, pixels, { letter: 6.2, labelled });
}

/** Ticks of a logarithmic axis: decades first, then 2 and 5, then the rest. */
export function logTicks(
  domain: Domain,
  pixels: number,
  label: (value: number) => string,
  vertical: boolean,
): Tick[] {
  const wanted: number[][] = [[], [], []];
  const top = Math.ceil(Math.log10(domain[1]));
  for (let e = Math.floor(Math.log10(domain[0])); e <= top; e++) {
    const decade = 10 ** e;
    wanted[0]?.push(decade);
    wanted[1]?.push(2 * decade, 5 * decade);
    wanted[2]?.push(3 * decade, 4 * decade, 6 * decade, 7 * decade, 8 * decade, 9 * decade);
  }
  const inside = wanted.flat().filter((v) => v >= domain[0] && v <= domain[1]);
  const scale = scaleOf('log', domain, [0, pixels]);
  if (inside.length < 3) {
    const linear = scaleLinear(domain, [0, 1]).ticks(
      Math.max(2, Math.floor(pixels / (vertical ? 36 : 64))),
    );
    return linear.map((value) => ({ value, label: label(value) }));
  }
  return fit(wanted, domain, scale, label, pixels, { letter: vertical ? 0 : 6.4, labelled: 2 });
}

export function linearTicks(
  domain: Domain,
  pixels: number,
  label: (value: number) => string,
  spacing = 70,
): Tick[] {
  const ticks = scaleLinear(domain, [0, 1]).ticks(Math.max(2, Math.floor(pixels / spacing)));
  return ticks.map((value) => ({ value, label: label(value) }));
}

/** Ticks of a quantity: round numbers of the unit that is shown, which for bytes is a power of 1024. */
export function quantityTicks(
  domain: Domain,
  pixels: number,
  unit: string,
  spacing?: number,
): Tick[] {
  const size = Math.max(1, Math.abs(domain[0]), Math.abs(domain[1]));
  const factor = unit === 'B' ? 1024 ** Math.floor(Math.log(size) / Math.log(1024)) : 1;
  const scaled: Domain = [domain[0] / factor, domain[1] / factor];
  const label = (value: number): string => quantityTick(value * factor, unit);
  const ticks = linearTicks(scaled, pixels, label, spacing);
  return ticks.map((tick) => ({ ...tick, value: tick.value * factor }));
}

interface Fit {
  /** Width of a letter; 0 on a vertical axis, where labels are as high as a line. */
  letter: number;
  /** How many of the lists, from the first, are labelled; the others are lines only. */
  labelled: number;
}

/** Labels ticks in order of importance, as long as their texts do not touch. */
function fit(
  wanted: number[][],
  domain: Domain,
  scale: Scale,
  label: (value: number) => string,
  pixels: number,
  { letter, labelled }: Fit,
): Tick[] {
  const placed: Domain[] = [];
  const ticks: Tick[] = [];
  const edge = 1e-9;
  wanted.forEach((values, importance) => {
    for (const value of values) {
      if (value < domain[0] * (1 - edge) || value > domain[1] * (1 + edge)) continue;
      const text = label(value);
      const at = scale(value) + (letter === 0 ? 0 : inwards(text, scale(value), pixels));
      const half = letter === 0 ? 9 : (text.length * letter) / 2 + 5;
      const free = placed.every(([from, to]) => at + half <= from || at - half >= to);
      const wants = importance < labelled || placed.length < 2;
      if (free && wants) placed.push([at - half, at + half]);
      ticks.push({ value, label: free && wants ? text : '' });
    }
  });
  return ticks.sort((a, b) => a.value - b.value);
}

/** How far a label near an end of a horizontal axis is moved to stay inside the drawing. */
function inwards(label: string, at: number, pixels: number): number {
  const half = (label.length * 6.3) / 2;
  return Math.max(0, half - 8 - at) - Math.max(0, at + half - 8 - pixels);
}

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Horizontal axis under the box, with faint vertical grid lines at labelled ticks. */
export function drawXAxis(box: Box, scale: Scale, ticks: Tick[], title: string): SVGGElement {
  const bottom = box.top + box.height;
  const g = s('g', { class: 'axis axis-x', 'aria-hidden': 'true' });
  for (const tick of ticks) {
    const x = scale(tick.value);
    g.append(
      s('line', {
        class: tick.label ? 'grid' : 'grid faint',
        x1: x,
        x2: x,
        y1: box.top,
        y2: bottom,
      }),
    );
    if (!tick.label) continue;
    const at = x + inwards(tick.label, x - box.left, box.width);
    g.append(s('text', { x: at, y: bottom + 16, 'text-anchor': 'middle' }, tick.label));
  }
  g.append(
    s('line', { class: 'rule', x1: box.left, x2: box.left + box.width, y1: bottom, y2: bottom }),
  );
  if (title) {
    g.append(
      s(
        'text',
        { class: 'title', x: box.left + box.width, y: bottom + 33, 'text-anchor': 'end' },
        title,
      ),
    );
  }
  return g;
}

/** Vertical axis left of the box; its title stands above it, where it can be read. */
export function drawYAxis(box: Box, scale: Scale, ticks: Tick[], title: string): SVGGElement {
  const g = s('g', { class: 'axis axis-y', 'aria-hidden': 'true' });
  for (const tick of ticks) {
    const y = scale(tick.value);
    g.append(
      s('line', {
        class: tick.label ? 'grid' : 'grid faint',
        x1: box.left,
        x2: box.left + box.width,
        y1: y,
        y2: y,
      }),
    );
    if (tick.label) {
      g.append(s('text', { x: box.left - 7, y: y + 4, 'text-anchor': 'end' }, tick.label));
    }
  }
  if (title) g.append(s('text', { class: 'title', x: 0, y: box.top - 10 }, title));
  return g;
}
