// Measurements over the values of a parameter: every point is drawn at what was done and how long it took.

import { afterAll, beforeAll, expect, it } from 'vitest';

import type { Cell, Metric, Quantile, Summary } from '../../src/summary';
import { fill, fixture } from '../report.mjs';
import { drawnLines, valueAt, type Axis } from './drawn';
import { Session } from './session';

const session = new Session();
beforeAll(() => session.start());
afterAll(() => session.stop());

const KINDS = ['native', 'container'];
const CONNECTIONS = [1, 8, 64];
const RATES = [1000, 50000];

function metric(name: string, title: string, unit: string, median: number): Metric {
  const values = [0.98, 1, 1.02].map((factor) => median * factor);
  const [min, , max] = values as [number, number, number];
  const spread = { min, p5: min, q1: min, median, q3: max, p95: max, max };
  return { name, title, unit, higher_is_better: unit !== 'ns', spread, ci95: [min, max], values };
}

/** The fixture with a server over its connections, and requests over their rate, for each of two kinds. */
function withSweeps(): Summary {
  const summary = fixture() as Summary;
  const shape = summary.cells[0] as Cell;
  const add = (
    sweep: string,
    parameter: string,
    value: number,
    probe: string,
    contents: (k: number) => Partial<Cell>,
  ): void => {
    const name = `${sweep}-${value}`;
    const point = { sweep, parameter, value: String(value) };
    const latency = probe === 'rr' ? 'round trip' : undefined;
    summary.measurements.push({ name, probe, description: name, latency, sweep: point });
    const cells = KINDS.map((kind, k): Cell => ({
      ...shape,
      id: `${name}/server=${kind}`,
      measurement: name,
      levels: { server: kind },
      label: kind,
      group: name,
      latency: undefined,
      comparison: undefined,
      metrics: [],
      ...contents(k),
    }));
    summary.cells.push(...cells);
    const ids = cells.map(({ id }) => id);
    summary.groups.push({ id: name, measurement: name, levels: {}, title: name, cells: ids });
  };
  for (const many of CONNECTIONS) {
    add('redis', 'program.connections', many, 'workload', (k) => ({
      metrics: [
        metric('per-node', 'Requests, per node', '1/s', (90000 - 9000 * k) * (1 - 0.5 / many)),
        metric('get-p50', 'GET, p50', 'ns', 30000 * many),
        metric('get-max', 'GET, longest', 'ns', 9e6),
      ],
    }));
  }
  for (const rate of RATES) {
    const quantile = (p: number, value_ns: number): Quantile => ({ p, value_ns, needed: 10 });
    add('asked', 'rate', rate, 'rr', (k) => ({
      latency: {
        ...(shape.latency as NonNullable<Cell['latency']>),
        quantiles: [quantile(0.5, 20000 + k), quantile(0.99, 30000 * rate)],
      },
    }));
  }
  summary.factors.push({ name: 'server', path: 'topology.nodes.server.kind', levels: KINDS });
  return JSON.parse(JSON.stringify(summary)) as Summary;
}

it('draws rates over the values, and latencies against the rates', async () => {
  const summary = withSweeps();
  const { page, complaints } = await session.open(fill(summary));
  const drawn = (
    await Promise.all(
      ['redis', 'asked'].map(async (sweep) => {
        const lines = await drawnLines(page, `#sweeps [data-sweep="${sweep}"]`);
        return lines.map((one) => ({ sweep, ...one }));
      }),
    )
  ).flat();
  expect(drawn.map(({ sweep, plot, quantity }) => [sweep, plot, quantity])).toEqual([
    ['redis', 'values', 'per-node'],
    ['redis', 'load', 'get-p50'],
    ['asked', 'values', 'p50'],
    ['asked', 'values', 'p99'],
  ]);
  for (const { sweep, plot, quantity: name, x, y, marks } of drawn) {
    const values = sweep === 'redis' ? CONNECTIONS : RATES;
    expect(marks.length, name).toBe(KINDS.length * values.length);
    KINDS.forEach((series) => {
      marks
        .filter(({ line }) => line === series)
        .forEach((mark, index) => {
          const id = `${sweep}-${values[index]}/server=${series}`;
          const cell = summary.cells.find((one) => one.id === id) as Cell;
          const of = (one: string): number =>
            cell.metrics.find((found) => found.name === one)?.spread.median ??
            cell.latency?.quantiles.find(({ p }) => `p${p * 100}` === one)?.value_ns ??
            NaN;
          const near = (axis: Axis, at: number, value: number): void =>
            expect(Math.abs(valueAt(axis, at) - value), id).toBeLessThan(axis.domain[1] / 1e4);
          near(x, mark.x, plot === 'load' ? of('per-node') : index);
          near(y, mark.y, of(name));
        });
    });
  }
  const row = page.locator('#sweeps tr[data-cell="redis-8/server=container"]');
  const text = (await row.textContent()) ?? '';
  for (const words of ['container', '8', '240']) expect(text).toContain(words);
  expect(await page.locator('#page').innerHTML()).not.toMatch(/NaN|undefined/);
  expect(complaints).toEqual([]);
});

it('has no such section without a sweep', async () => {
  const { page } = await session.open(fill(fixture()));
  expect(await page.locator('#sweeps').count()).toBe(0);
});
