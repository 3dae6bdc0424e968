import { expect, it } from 'vitest';

import { scaleOf } from '../../../src/axis';
import type { ChangePoint, Trend } from '../../../src/explorer/documents';
import {
  barOf,
  changeText,
  isWorse,
  seriesName,
  timeTicks,
  type Placed,
} from '../../../src/explorer/trendPlot';

const labels = (from: string, to: string, pixels = 900): string[] =>
  timeTicks([Date.parse(from), Date.parse(to)], pixels).map(({ label }) => label);

it('times are labelled as finely as they are apart, in UTC', () => {
  expect(labels('2020-01-01', '2026-01-01')).toContain('2023');
  expect(labels('2025-11-28', '2026-11-28')).toContain('Jan 2026');
  expect(labels('2026-11-01', '2026-11-10')).toContain('4 Nov');
  const hours = labels('2026-11-01T20:00:00Z', '2026-11-02T04:00:00Z');
  expect(hours).toContain('2 Nov');
  expect(hours).toContain('22:00');
});

it('a narrow plot has fewer times', () => {
  expect(labels('2025-11-28', '2026-11-28', 300).length).toBeLessThan(6);
});

it('a change is judged by its levels, also where it has no ratio', () => {
  const change = (before: number, after: number): ChangePoint => ({
    index: 3,
    before,
    after,
    ratio: before > 0 && after > 0 ? after / before : null,
    p_value: 0.001,
  });
  const lower = { higher_is_better: false } as Trend;
  const higher = { higher_is_better: true } as Trend;
  for (const [before, after, text] of [
    [10, 13, '▲ 1.30×'],
    [0, 10, '▲ –'],
    [-13, -10, '▲ –'],
    [10, 0, '▼ –'],
    [-10, -13, '▼ –'],
  ] as const) {
    const grew = after > before;
    expect(isWorse(change(before, after), lower), text).toBe(grew);
    expect(isWorse(change(before, after), higher), text).toBe(!grew);
    expect(changeText(change(before, after))).toBe(text);
  }
});

it('an interval that begins at 0 has its bar on a linear axis, and none on a logarithmic one', () => {
  const placed = (low: number | null): Placed =>
    ({ point: { low, high: 4 }, x: 7 }) as unknown as Placed;
  const linear = scaleOf('linear', [0, 10], [100, 0]);
  expect(barOf(placed(0), linear)).toBe('M7.00 100.00V60.00');
  expect(barOf(placed(null), linear)).toBe('');
  const log = scaleOf('log', [1, 100], [100, 0]);
  expect(barOf(placed(0), log)).toBe('');
  expect(barOf(placed(-1), log)).toBe('');
});

it('a series is named with its definition where there are several', () => {
  const series = ['10000/s', '100000/s'].map((definition) => ({ machine: 'one', definition }));
  const trend = (some: typeof series): Trend => ({ series: some }) as unknown as Trend;
  const names = (some: typeof series): string[] =>
    trend(some).series.map((one) => seriesName(one, trend(some)));
  expect(names(series)).toEqual(['one: 10000/s', 'one: 100000/s']);
  expect(names(series.slice(1))).toEqual(['one']);
});
