// Actions on nodes: the strip of a trial has them at their times, and the table has their numbers.

import { afterAll, beforeAll, expect, it } from 'vitest';

import { duration } from '../../src/format';
import type { ActionRecord, Actions, Summary, TrialSummary } from '../../src/summary';
import { fill, fixture } from '../report.mjs';
import { choose, Session, unfold } from './session';

const session = new Session();
beforeAll(() => session.start());
afterAll(() => session.stop());

const MOVED: ActionRecord = {
  node: 'server',
  act: 'migrate',
  to: 'other',
  asked_ns: 500e6,
  done_ns: 900e6,
  stopped_ns: 700e6,
  running_ns: 720e6,
  claimed_ns: 6e6,
  copied: { bytes: 70 * 1024 ** 2, passes: 4, was_forced: false },
  gap_ns: 38e6,
};

const range = (value: number): Actions['took'] => ({
  median: value,
  smallest: value / 2,
  largest: value * 2,
});

/** The fixture, with a node that moved in a trial that was drawn. */
function withMove(): { summary: Summary; trial: TrialSummary; measurement: string } {
  const summary = fixture() as Summary;
  const trial = summary.trials.find((one) => one.series.length > 1 && one.failed === undefined);
  const cell = summary.cells.find((one) => one.id === trial?.cell);
  if (!trial || !cell) throw new Error('the fixture has no trial');
  trial.actions = [MOVED];
  trial.silence_ns = 38e6;
  summary.actions = [
    {
      cell: cell.id,
      node: 'server',
      act: 'migrate',
      count: 1,
      gap: range(38e6),
      stood: range(20e6),
      claimed: range(6e6),
      took: range(400e6),
      copied: range(70 * 1024 ** 2),
      passes: range(4),
      forced: 1,
    },
  ];
  return { summary, trial, measurement: cell.measurement };
}

it('draws an action from its order to its end, and where the node stood still within it', async () => {
  const { summary, trial, measurement } = withMove();
  const { page, complaints } = await session.open(fill(summary));
  await choose(page, measurement);
  await unfold(page);
  const strip = page.locator(`.bench:not([hidden]) .series [data-part="action"]`).first();
  await strip.waitFor({ state: 'attached' });
  const drawn = await page.evaluate(() => {
    const part = (name: string): DOMRect | undefined =>
      document
        .querySelector<SVGGraphicsElement>(`.bench:not([hidden]) [data-part="${name}"]`)
        ?.getBoundingClientRect();
    const [action, stood] = [part('action'), part('stood')];
    return { action: action?.toJSON(), stood: stood?.toJSON() } as Record<string, DOMRect>;
  });
  const { action, stood } = drawn as { action: DOMRect; stood: DOMRect };
  // 400 ms, and 20 ms of them.
  expect(stood.width / action.width).toBeLessThan(0.2);
  expect((stood.left - action.left) / action.width).toBeCloseTo(0.5, 1);
  expect(trial.actions).toHaveLength(1);
  expect(complaints).toEqual([]);
  await page.close();
});

it('has a row for each kind of action', async () => {
  const { summary } = withMove();
  const { page, complaints } = await session.open(fill(summary));
  const row = page.locator('#lives [data-act="migrate"]');
  const text = (await row.innerText()).replaceAll('\u2009', ' ');
  for (const value of [38e6, 20e6, 6e6, 400e6])
    expect(text).toContain(duration(value).replaceAll('\u2009', ' '));
  expect(text).toContain('server moved');
  // All levels: cells of two links have the same label.
  const cell = summary.cells.find(({ id }) => id === summary.actions?.[0]?.cell);
  const levels = summary.factors.map(({ name }) => cell?.levels[name]);
  expect(levels).toHaveLength(2);
  expect(text).toContain([cell?.measurement, ...levels].join(' · '));
  expect(text).toContain('1 stopped for the rest');
  expect(complaints).toEqual([]);
  await page.close();
});
