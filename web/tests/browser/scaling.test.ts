// A workload over the number of nodes: every point is drawn where the summary says, and the table has the
// same numbers.

import { afterAll, beforeAll, expect, it } from 'vitest';

import type { Cell, Metric, Pair, Summary } from '../../src/summary';
import { fill, fixture } from '../report.mjs';
import { drawnLines, valueAt } from './drawn';
import { Session, settle } from './session';

const session = new Session();
beforeAll(() => session.start());
afterAll(() => session.stop());

const KINDS = ['container', 'vm'];
const COUNTS = [1, 2, 4];

function metric(name: string, title: string, unit: string, median: number): Metric {
  const values = [0.98, 1, 1.02].map((factor) => median * factor);
  const [min, , max] = values as [number, number, number];
  const spread = { min, p5: min, q1: min, median, q3: max, p95: max, max };
  return { name, title, unit, higher_is_better: true, spread, ci95: [min, max], values };
}

/** The fixture with a measurement more: two kinds, one to four nodes. */
function withWorkload(): Summary {
  const summary = fixture() as Summary;
  const shape = summary.cells[0] as Cell;
  const cells = KINDS.flatMap((kind, k) =>
    COUNTS.map((count): Cell => {
      const rate = (2000 - 700 * k) / Math.max(1, count / 2);
      const slowed: Pair = [count / 2 - 0.1, count / 2 + 0.1];
      return {
        ...shape,
        id: `primes/guest=${kind}/count=${count}`,
        measurement: 'primes',
        levels: { guest: kind, count: String(count) },
        label: kind,
        group: `primes/count=${count}`,
        latency: undefined,
        comparison: undefined,
        metrics: [
          metric('per-node', 'Events, per node', 'events/s', rate),
          ...(count > 1
            ? [
                metric('all-nodes', 'Events, all nodes', 'events/s', rate * count),
                metric('jain', 'Jain’s index', '1', 0.99),
              ]
            : []),
          metric('memory-host', 'Memory per node, host’s loss', 'B', (34 * k - 4) * 1024 ** 2),
          metric('memory-pss', 'Memory per node, PSS', 'B', (2 + 22 * k) * 1024 ** 2),
        ],
        scaling: {
          nodes: count,
          slowdown:
            count > 1
              ? { alone: `primes/guest=${kind}/count=1`, ratio: count / 2, ratio_ci95: slowed }
              : undefined,
        },
      };
    }),
  );
  summary.factors = [
    ...summary.factors,
    { name: 'guest', path: 'topology.nodes.guest', levels: KINDS },
    { name: 'count', path: 'topology.nodes.guest.count', levels: COUNTS.map(String) },
  ];
  summary.measurements.push({ name: 'primes', probe: 'workload', description: 'sysbench cpu' });
  summary.groups.push(
    ...COUNTS.map((count) => ({
      id: `primes/count=${count}`,
      measurement: 'primes',
      levels: { count: String(count) },
      title: `primes · count ${count}`,
      cells: KINDS.map((kind) => `primes/guest=${kind}/count=${count}`),
    })),
  );
  summary.cells.push(...cells);
  return JSON.parse(JSON.stringify(summary)) as Summary;
}

it('draws each number of nodes at its value, with its interval', async () => {
  const summary = withWorkload();
  const { page, complaints } = await session.open(fill(summary));
  const drawn = await drawnLines(page, '#scaling');
  expect(drawn.map(({ quantity }) => quantity)).toEqual([
    'per-node',
    'slowdown',
    'memory-host',
    'memory-pss',
  ]);
  for (const { quantity: name, x, y, marks } of drawn) {
    expect(marks.length, name).toBe(KINDS.length * COUNTS.length);
    for (const mark of marks) {
      const cell = summary.cells.find(
        ({ id }) => id === `primes/guest=${mark.line}/count=${mark.at}`,
      ) as Cell;
      const found = cell.metrics.find((one) => one.name === name);
      const value = found?.spread.median ?? cell.scaling?.slowdown?.ratio ?? 1;
      const ends = found?.ci95 ?? cell.scaling?.slowdown?.ratio_ci95 ?? null;
      const near = (a: number, b: number): void =>
        expect(Math.abs(a - b), `${name} ${cell.id}`).toBeLessThan(y.domain[1] / 1e4);
      near(valueAt(y, mark.y), value);
      expect(Math.abs(valueAt(x, mark.x) - mark.at)).toBeLessThan(0.001);
      expect(mark.ends === null).toBe(ends === null);
      if (mark.ends && ends) mark.ends.forEach((end, i) => near(valueAt(y, end), ends[i] ?? NaN));
    }
  }
  const row = page.locator('#scaling tr[data-cell="primes/guest=vm/count=4"]');
  const text = (await row.textContent()) ?? '';
  for (const words of ['vm', '650', '2.00×', '99.0', '30.0', '24.0']) expect(text).toContain(words);
  expect(await page.locator('#page').innerHTML()).not.toMatch(/NaN|undefined/);
  expect(await page.locator('#scaling .lines-key li').allTextContents()).toEqual(KINDS);
  expect(complaints).toEqual([]);
});

it('has no such section without a workload', async () => {
  const { page } = await session.open(fill(fixture()));
  expect(await page.locator('#scaling').count()).toBe(0);
});

it('has a workload among the measurements, without a plot over time', async () => {
  const { page, complaints } = await session.open(fill(withWorkload()));
  await page.click('[data-measurement-choice="primes"]');
  await settle(page);
  const bench = page.locator('.bench[data-measurement="primes"]');
  expect(await bench.locator('h3').allTextContents()).toEqual([
    'What nodes get, and what it costs',
    'Comparison',
  ]);
  expect(complaints).toEqual([]);
});
