import { describe, expect, it } from 'vitest';

import {
  atFraction,
  fraction,
  hdrTicks,
  logDomain,
  logTicks,
  quantityTicks,
  scaleOf,
  zeroDomain,
  type Domain,
  type Tick,
} from '../../src/axis';
import { durationTick } from '../../src/format';
import { LinkedView } from '../../src/plots/linked';

const labels = (ticks: Tick[]): string[] =>
  ticks.flatMap((tick) => (tick.label ? [tick.label.replace(/\u2009/g, ' ')] : []));

describe('the HDR axis', () => {
  it('gives every nine the same room', () => {
    const scale = scaleOf('log', [1, 1e6], [0, 600]);
    const at = (p: number): number => scale(1 / (1 - p));
    expect(at(0.99) - at(0.9)).toBeCloseTo(at(0.9999) - at(0.999), 6);
  });

  it('labels the nines', () => {
    expect(labels(hdrTicks([1, 1e5], 700))).toEqual([
      '0 %',
      '50 %',
      '90 %',
      '99 %',
      '99.9 %',
      '99.99 %',
      '99.999 %',
    ]);
  });

  it('drops the least important labels where there is no room', () => {
    expect(labels(hdrTicks([1, 2e5], 240))).toContain('99.9 %');
    expect(labels(hdrTicks([1, 2e5], 240))).not.toContain('0 %');
  });

  it('still has labels when zoomed in far', () => {
    const texts = labels(hdrTicks([205, 390], 400));
    expect(texts.length).toBeGreaterThanOrEqual(2);
    expect(new Set(texts).size).toBe(texts.length);
  });

  it.each([200, 300, 420, 900])('never lets labels touch at %i pixels', (pixels) => {
    for (const domain of [
      [1, 1e3],
      [1, 2.1e5],
      [1, 1e7],
      [30, 4e4],
    ] as Domain[]) {
      const scale = scaleOf('log', domain, [0, pixels]);
      const shown = hdrTicks(domain, pixels).filter((tick) => tick.label);
      for (let i = 1; i < shown.length; i++) {
        const [a, b] = [shown[i - 1] as Tick, shown[i] as Tick];
        const room = scale(b.value) - scale(a.value);
        expect(room).toBeGreaterThan(((a.label.length + b.label.length) / 2) * 4.5);
      }
    }
  });
});

describe('domains and ticks', () => {
  it('ignores what cannot be drawn', () => {
    expect(logDomain([])).toEqual([1, 10]);
    expect(logDomain([NaN, 0, -4])).toEqual([1, 10]);
    const [low, high] = logDomain([NaN, 100, 1000, Infinity]);
    expect(low).toBeLessThan(100);
    expect(high).toBeGreaterThan(1000);
    expect(high).toBeLessThan(2000);
  });

  it('gives a single value an axis with some length', () => {
    const [low, high] = logDomain([500]);
    expect(low).toBeLessThan(450);
    expect(high).toBeGreaterThan(550);
    expect(zeroDomain([])).toEqual([0, 1]);
    expect(zeroDomain([-100])).toEqual([-106, 0]);
  });

  it('labels a narrow logarithmic axis too', () => {
    expect(labels(logTicks([17_000, 19_500], 300, durationTick, true)).length).toBeGreaterThan(1);
  });

  it('has round numbers of the unit that is shown', () => {
    const mebibytes = quantityTicks([0, 160 * 1024 ** 2], 200, 'B', 50);
    expect(labels(mebibytes)).toEqual(['0', '50 MiB', '100 MiB', '150 MiB']);
    expect(mebibytes[1]?.value).toBe(50 * 1024 ** 2);
    expect(labels(quantityTicks([0, 160], 200, 'events/s', 50))).toEqual(['0', '50', '100', '150']);
  });

  it('inverts positions', () => {
    expect(atFraction('log', [1, 1e4], fraction('log', [1, 1e4], 123))).toBeCloseTo(123, 6);
  });
});

describe('zoom', () => {
  const axis = (type: 'log' | 'linear', domain: Domain) => ({
    type,
    domain,
    title: '',
    ticks: () => [],
  });
  const full = { x: axis('log', [1, 1e6]), y: axis('linear', [0, 10]) };

  it('keeps the point under the pointer in place', () => {
    const view = new LinkedView();
    view.magnify(full, 2, [0.25, 0.5], 'xy');
    const zoomed = view.zoom?.x as Domain;
    expect(fraction('log', zoomed, atFraction('log', full.x.domain, 0.25))).toBeCloseTo(0.25, 6);
    expect(view.zoom?.y).toEqual([2.5, 7.5]);
  });

  it('never leaves the axis, and ends when all of it is in view', () => {
    const view = new LinkedView();
    view.magnify(full, 4, [1, 0.5], 'x');
    expect((view.zoom?.x as Domain)[1]).toBe(1e6);
    view.magnify(full, 1 / 8, [0.5, 0.5], 'x');
    expect(view.zoom).toBeNull();
  });
});
