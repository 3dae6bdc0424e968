// A study of two factors says what each of them does, and whether they depend on each other.

import { afterAll, beforeAll, expect, it } from 'vitest';

import type { Effect, Summary } from '../../src/summary';
import { fill, fixture } from '../report.mjs';
import { Session } from './session';

const session = new Session();
beforeAll(() => session.start());
afterAll(() => session.stop());

const vm = { factor: 'kind', from: 'native', to: '<i>vm</i>' };
const bridge = { factor: 'link', from: 'veth', to: 'bridge' };

function effect(changes: Effect['changes'], ratio: number, verdict: Effect['verdict']): Effect {
  return {
    measurement: 'rr-udp',
    quantity: 'median latency',
    changes,
    ratio,
    ratio_ci95: [ratio * 0.9, ratio * 1.1],
    p_value: 0.0004,
    combinations: 2,
    verdict,
  };
}

it('has a row for each effect, with the tail beside it', async () => {
  const summary = fixture() as Summary;
  const main = [
    effect([vm], 20, 'worse'),
    effect([bridge], 0.7, 'better'),
    effect([vm, bridge], 0.8, 'better'),
  ];
  const tail = { ...effect([vm], 30, 'worse'), quantity: 'p99.9' };
  summary.effects = [...main, tail];
  const { page, complaints } = await session.open(fill(summary));
  const rows = await page.$$eval('[data-effects="rr-udp"] tbody tr', (all) =>
    all.map((row) => ({
      verdict: row.getAttribute('data-verdict'),
      texts: [...row.children].map((cell) => cell.textContent ?? ''),
      marks: row.querySelectorAll('circle').length,
      y: row.getBoundingClientRect().width,
    })),
  );
  expect(rows.map(({ verdict }) => verdict)).toEqual(['worse', 'better', 'interaction']);
  expect(rows.map(({ marks }) => marks)).toEqual([1, 1, 1]);
  expect(rows[0]?.texts[0]).toBe('kind <i>vm</i>from native');
  expect(rows[0]?.texts[1]).toContain('20.0');
  expect(rows[0]?.texts[4]).toContain('30.0');
  expect(rows[1]?.texts[4]).toBe('not known');
  expect(rows[1]?.texts[3]).toContain('faster');
  expect(rows[2]?.texts[0]).toBe('kind <i>vm</i> × link bridge');
  expect(rows[2]?.texts[3]).toContain('less together');
  expect(complaints).toEqual([]);
});

it('leaves the section out for a study of one factor', async () => {
  const { page } = await session.open(fill(fixture()));
  expect(await page.$('#effects')).toBeNull();
});
