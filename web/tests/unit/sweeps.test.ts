import { expect, it } from 'vitest';

import { latenciesOf, rateOf, type Load } from '../../src/sections/sweeps';
import type { Cell, MeasurementInfo, Metric } from '../../src/summary';

const metric = (name: string, unit: string): Metric =>
  ({ name, title: name, unit, higher_is_better: unit !== 'ns' }) as Metric;
const load = (index: number, metrics: Metric[]): Load => ({
  series: 'native',
  index,
  point: { sweep: 'redis', parameter: 'program.connections', value: String(index) },
  cell: { metrics } as unknown as Cell,
});
const INFO: MeasurementInfo = { name: 'redis-1', probe: 'workload', description: '' };

it('a sweep whose first cell failed has the quantities of the others', () => {
  const measured = [metric('per-node', '1/s'), metric('get-p50', 'ns'), metric('get-max', 'ns')];
  const loads = [load(0, []), load(1, measured), load(2, measured)];
  expect(rateOf(INFO, loads)?.name).toBe('per-node');
  expect(latenciesOf(INFO, loads).map(({ name }) => name)).toEqual(['get-p50']);
  expect(rateOf({ ...INFO, probe: 'stream' }, loads)?.name).toBe('per-node');
});

it('a sweep of which every cell failed has none', () => {
  const loads = [load(0, []), load(1, [])];
  expect(rateOf(INFO, loads)).toBeNull();
  expect(latenciesOf(INFO, loads)).toEqual([]);
});
