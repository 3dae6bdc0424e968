import { expect, it } from 'vitest';

import { timeTicks } from '../../../src/explorer/trendPlot';

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
