// A paper's figures stand beside those of the run, with both ratios on one axis.

import { afterAll, beforeAll, expect, it } from 'vitest';

import type { PaperComparison, Summary } from '../../src/summary';
import { fill, fixture } from '../report.mjs';
import { Session } from './session';

const session = new Session();
beforeAll(() => session.start());
afterAll(() => session.stop());

const PAPER: PaperComparison = {
  name: 'felter2014',
  title: 'A <b>comparison</b>',
  authors: 'Felter',
  published: 'IBM, 2014',
  testbed: 'two Xeons',
  tables: [
    {
      title: 'Compression',
      place: 'Table I',
      columns: ['native', 'container', 'VM'],
      rows: [
        {
          name: 'pxz',
          higher_is_better: true,
          published_unit: 'MB/s',
          measured_unit: 'MB/s',
          values: [
            { published: 76.2, published_spread: 0.93, measured: 10 },
            {
              published: 73.5,
              published_ratio: 0.965,
              published_direction: 'same',
              measured: 9.9,
              ratio: 0.99,
              ratio_ci95: [0.97, 1.01],
              verdict: 'holds',
            },
            {
              published_direction: 'less',
              measured: 2,
              ratio: 0.2,
              ratio_ci95: [0.1, 0.4],
              verdict: 'cannot-be-told',
              reason: 'the VM is emulated',
            },
          ],
        },
      ],
      note: 'enwik9 there',
    },
  ],
};

it('has a row for each environment, and draws both ratios', async () => {
  const summary = fixture() as Summary;
  summary.paper = PAPER;
  const { page, complaints } = await session.open(fill(summary));
  const rows = page.locator('#paper tbody tr');
  expect(await rows.count()).toBe(3);
  const text = (await rows.nth(1).innerText()).replaceAll('\u2009', ' ');
  for (const part of ['73.5 MB/s', '0.965×', '0.990×', '0.970–1.01', 'holds'])
    expect(text).toContain(part);
  expect(await rows.nth(2).innerText()).toContain('the VM is emulated');
  expect(await page.locator('#paper cite').innerText()).toBe('A <b>comparison</b>');
  // The middle of the measured ratio is right of its own smaller one, on one axis for all rows.
  const middle = async (row: number): Promise<number> =>
    Number(await rows.nth(row).locator('circle').getAttribute('cx'));
  expect(await middle(1)).toBeGreaterThan(await middle(2));
  expect(await rows.nth(1).locator('path.theirs').count()).toBe(1);
  expect(await rows.nth(2).locator('path.theirs').count()).toBe(0);
  expect(complaints).toEqual([]);
  await page.close();
});

it('is absent for a run that belongs to no paper', async () => {
  const { page } = await session.open(fill(fixture() as Summary));
  expect(await page.locator('#paper').count()).toBe(0);
  await page.close();
});
