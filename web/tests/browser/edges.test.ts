// Summaries as they are when things went wrong, or grew: nothing here may break the page, show NaN
// or leave a reader without an explanation.

import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';

import type { Cell, Group, Summary, TrialSummary } from '../../src/summary';
import { builtPage, fill, fixture } from '../report.mjs';
import { choose, Session, settle } from './session';

const session = new Session();
beforeAll(() => session.start());
afterAll(() => session.stop());

/** Opens a changed fixture, walks through its measurements, and gives the page's text. */
async function visit(
  change: (summary: Summary) => void,
  look?: (page: Page) => Promise<void>,
): Promise<string> {
  const summary = fixture();
  change(summary);
  const { page, complaints } = await session.open(fill(summary));
  for (const { name } of summary.measurements) await choose(page, name);
  await page.evaluate(() => window.dispatchEvent(new Event('beforeprint')));
  await settle(page);
  await look?.(page);
  const text = (await page.textContent('#page')) ?? '';
  const markup = await page.evaluate(() => document.getElementById('page')?.innerHTML ?? '');
  expect(complaints).toEqual([]);
  expect(markup).not.toMatch(/NaN|undefined|Infinity|\[object/);
  const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(over).toBeLessThanOrEqual(0);
  await page.context().close();
  return text;
}

it('says so when there is no report in it', async () => {
  const { page, complaints } = await session.open(builtPage());
  expect(await page.textContent('h1')).toContain('without a report');
  expect(complaints).toEqual([]);
});

it('says so when the summary is of another version', async () => {
  const { page } = await session.open(fill({ ...fixture(), format: 'latlab.summary/2' }));
  expect(await page.textContent('h1')).toContain('latlab.summary/2');
});

it('shows a run that stopped before its first trial', async () => {
  const text = await visit((s) => {
    s.state = { state: 'incomplete', reason: 'no space left on device' };
    delete s.finished;
    s.trials = [];
    s.notes = [];
    for (const cell of s.cells) empty(cell);
  });
  expect(text).toContain('incomplete: no space left on device.');
  expect(text).toContain('not measured: no trial succeeded');
});

it('shows a run with nothing at all in it', async () => {
  const text = await visit((s) => {
    Object.assign(s, {
      trials: [],
      cells: [],
      groups: [],
      measurements: [],
      topologies: [],
      notes: [],
      factors: [],
    });
    s.state = { state: 'running' };
  });
  expect(text).toContain('Nothing was measured.');
  expect(text).toContain('did not end');
});

it('shows a study of one cell without a baseline', async () => {
  const text = await visit((s) => {
    const cell = s.cells[1] as Cell;
    delete cell.comparison;
    // A cell without levels has the measurement's name as its label.
    cell.label = cell.measurement;
    cell.levels = {};
    s.factors = [];
    s.baseline = {};
    s.cells = [cell];
    s.trials = s.trials.filter((trial) => trial.cell === cell.id);
    s.groups = s.groups.filter((group) => group.id === cell.group);
    const group = s.groups[0] as Group;
    Object.assign(group, { cells: [cell.id], levels: {}, title: cell.measurement });
    delete group.baseline;
    s.measurements = s.measurements.slice(0, 1);
    s.notes = [];
  });
  expect(text).not.toContain('baseline not measured');
});

it('shows one replicate: no intervals, no test', async () => {
  const text = await visit((s) => {
    const first = new Map<string, TrialSummary>();
    for (const trial of s.trials) if (!first.has(trial.cell)) first.set(trial.cell, trial);
    s.trials = [...first.values()];
    s.replicates = 1;
    for (const cell of s.cells) {
      cell.replicates = 1;
      for (const quantile of cell.latency?.quantiles ?? []) delete quantile.ci95_ns;
      for (const metric of cell.metrics) {
        delete metric.ci95;
        metric.values = metric.values.slice(0, 1);
      }
      if (!cell.comparison) continue;
      cell.comparison.verdict = 'too-few-replicates';
      delete cell.comparison.ratio_ci95;
      delete cell.comparison.p_value;
    }
  });
  expect(text).toContain('too few replicates to say');
  expect(text).toContain('no interval');
});

it('shows samples so few that no percentile is left, and all trials failed', async () => {
  const text = await visit((s) => {
    const few = s.cells[0] as Cell;
    few.latency = {
      samples: 3,
      min_ns: 5,
      max_ns: 5,
      iqr_ns: [5, 5],
      sd_ns: 0,
      quantiles: few.latency?.quantiles.map(({ p, needed }) => ({ p, needed })) ?? [],
      curve: [[1, 5]],
      curve_sound_to: 0.3,
      cdf: [[5, 1]],
    };
    for (const trial of s.trials) {
      if (trial.cell !== s.cells[3]?.id) continue;
      trial.failed = 'agent never answered';
      delete trial.spread_ns;
      delete trial.floor;
      trial.series = [];
      trial.checks = [];
    }
    empty(s.cells[3] as Cell);
  });
  expect(text).toContain('needs 20');
  expect(text).toContain('agent never answered');
});

it('does not let a name break out of its element', async () => {
  const nasty = '</script><img src=x onerror="window.hit=1">"\'\\]{}<b>';
  await visit(
    (s) => {
      s.study = nasty;
      (s.notes[0] as Summary['notes'][number]).text = nasty;
      for (const cell of s.cells) if (cell.label === 'vm') cell.label = nasty;
    },
    async (page) => {
      expect(await page.textContent('h1')).toBe(nasty);
      await page
        .locator('[data-legend]')
        .nth(2)
        .evaluate((b) => (b as HTMLElement).focus());
      await settle(page);
      expect(await page.evaluate(() => 'hit' in window)).toBe(false);
    },
  );
});

it('keeps long names inside the page', async () => {
  const long = 'a-rather-long-name-without-any-place-to-break-it-'.repeat(2);
  const summary = fixture();
  summary.study = long;
  for (const group of summary.groups) group.title = `${group.measurement} · link ${long}`;
  for (const cell of summary.cells) cell.label = `${long}${cell.label}`;
  for (const { name } of summary.factors) {
    for (const cell of summary.cells) cell.levels[name] = `${long}${cell.levels[name]}`;
  }
  for (const width of [360, 1280]) {
    const { page } = await session.open(fill(summary), { viewport: { width, height: 800 } });
    for (const { name } of summary.measurements) {
      await choose(page, name);
      const over = await page.evaluate(
        () => document.documentElement.scrollWidth - window.innerWidth,
      );
      expect(over, `${name} at ${width}`).toBeLessThanOrEqual(0);
    }
    await page.context().close();
  }
});

it('shows every column of the comparison in a window of 1280 pixels', async () => {
  const summary = fixture();
  // Narrower ones scroll inside their box; the page never does.
  for (const width of [1024, 1280]) {
    const { page } = await session.open(fill(summary), { viewport: { width, height: 800 } });
    for (const { name } of summary.measurements) {
      await choose(page, name);
      const over = await page.evaluate(() => {
        const beyond = (box: Element): number => box.scrollWidth - box.clientWidth;
        const box = document.querySelector('.bench:not([hidden]) .comparison')?.closest('.scroll');
        return [beyond(document.documentElement), box ? beyond(box) : NaN] as const;
      });
      expect(over[0], `${name} at ${width}`).toBeLessThanOrEqual(0);
      if (width === 1280) expect(over[1], name).toBe(0);
    }
    await page.context().close();
  }
});

it('opens quickly with 300 groups of hundreds of cells, folded', async () => {
  const summary = fixture();
  grow(summary, 100);
  const { page, complaints } = await session.open(fill(summary));
  expect(summary.cells.length).toBe(900);
  const shown = await page
    .locator('.bench:not([hidden]) [data-panel="percentiles"]:not([hidden])')
    .count();
  expect(shown).toBe(12);
  expect(await page.locator('.bench:not([hidden]) button.more').first().textContent()).toContain(
    'more group',
  );
  expect(complaints).toEqual([]);
  await page.context().close();
});

function empty(cell: Cell): void {
  delete cell.latency;
  delete cell.comparison;
  cell.metrics = [];
  cell.replicates = 0;
  cell.overloaded = 0;
  for (const key of Object.keys(cell.counters) as (keyof typeof cell.counters)[])
    cell.counters[key] = 0;
}

/** As many copies of the first measurement's groups, told apart by a further factor. */
function grow(summary: Summary, copies: number): void {
  const name = summary.measurements[0]?.name ?? '';
  const groups = summary.groups.filter((group) => group.measurement === name);
  const levels = Array.from({ length: copies }, (_, i) => `${i}`);
  const rename = (id: string, level: string): string => `${id}/size=${level}`;
  const cells = summary.cells.filter((cell) => cell.measurement === name);
  const trials = summary.trials.filter((trial) => cells.some((cell) => cell.id === trial.cell));
  summary.factors.push({ name: 'size', path: 'topology.size', levels });
  summary.measurements = summary.measurements.slice(0, 1);
  summary.notes = [];
  summary.groups = levels.flatMap((level) =>
    groups.map((group) => ({
      ...group,
      id: rename(group.id, level),
      levels: { ...group.levels, size: level },
      cells: group.cells.map((id) => rename(id, level)),
      baseline: rename(group.baseline ?? '', level),
    })),
  );
  summary.cells = levels.flatMap((level) =>
    cells.map((cell) => ({
      ...cell,
      id: rename(cell.id, level),
      levels: { ...cell.levels, size: level },
      group: rename(cell.group, level),
    })),
  );
  summary.trials = trials.map((trial) => ({ ...trial, cell: rename(trial.cell, '0') }));
}
