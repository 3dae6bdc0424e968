// Comparison, trend and run: what is drawn is what was answered.

import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Comparison, Run, Trend } from '../../../src/explorer/documents';
import { compareFragment, runFragment } from '../../../src/explorer/route';
import { CELLS, madeUpRuns } from '../../explorer/runs.mjs';
import { Session, settle } from '../session';
import { desk, shared, textOf, unexpected, type Desk } from './desk';

const session = new Session();
beforeAll(() => session.start());
afterAll(() => session.stop());

const RUNS = madeUpRuns(2000);
const QUICK = RUNS.filter((run) => run.study === 'quick');
const SOME = QUICK.filter((_, i) => i % 20 === 0).slice(0, 20);
const paths = (runs: Run[]): string[] => runs.map((run) => run.path);

async function answer<T>({ server }: Desk, name: string): Promise<T> {
  const asked = server.state.requests.filter((url) => url.startsWith(`/api/${name}`)).at(-1) ?? '';
  return (await (await fetch(new URL(asked, server.url))).json()) as T;
}

describe('a comparison', () => {
  const open = (runs: Run[]): Promise<Desk> => desk(session, RUNS, compareFragment(paths(runs)));

  it('of twenty runs has every value, ratio and verdict', async () => {
    const opened = await open(SOME);
    const { page, complaints, close } = opened;
    const { rows } = await answer<Comparison>(opened, 'compare');
    expect(await page.locator('.compared tbody tr').count()).toBe(rows.length);
    const drawn = await page.$$eval('.compared tbody td', (cells) =>
      cells.map((cell) => [Number(cell.dataset['value']), Number(cell.dataset['ratio'])]),
    );
    const wanted = rows.flatMap((row) => row.values.map((one) => [one?.value, one?.ratio ?? NaN]));
    expect(drawn).toEqual(wanted);
    const worse = page.locator('.compared td.worse').first();
    expect(await worse.innerText()).toMatch(/× \[.*–.*\]\s+[▲▼] (slower|worse)/);
    expect(await textOf(page, '.warnings')).toContain('the kernel is');
    expect(await page.locator('.command').count()).toBe(0);
    expect(complaints).toEqual([]);
    await close();
  });

  it('shows the differences alone, the largest first, of one quantity', async () => {
    const { page, complaints, close } = await open(SOME);
    await page.click('[data-control="quantity p99 latency"]');
    expect(await page.locator('.compared tbody tr').count()).toBe(CELLS.length);
    await page.click('[data-control="only"]');
    await page.click('[data-control="sort"]');
    const rows = await page.$$eval('.compared tbody tr', (all) =>
      all.map((row) => {
        const proven = [...row.querySelectorAll<HTMLElement>('td.worse, td.better')];
        return Math.max(...proven.map((td) => Math.abs(Math.log(Number(td.dataset['ratio'])))));
      }),
    );
    expect(rows.length).toBeGreaterThan(1);
    expect(rows).toEqual([...rows].sort((a, b) => b - a));
    expect(await page.evaluate(() => location.hash)).toContain('only=differences&sort=change');
    await page.reload();
    await page.waitForSelector('.compared tbody tr');
    expect(await page.locator('.compared tbody tr').count()).toBe(rows.length);
    expect(complaints).toEqual([]);
    await close();
  });

  it('takes another baseline, and leaves a run out', async () => {
    const { page, complaints, close } = await open(SOME.slice(0, 4));
    await page.locator('[data-action="baseline"]').nth(1).click();
    await page.waitForSelector(`th.baseline[data-run="${SOME[2]?.path}"]`);
    await page.locator('[data-action="remove"]').nth(1).click();
    await page.waitForSelector(`th[data-run="${SOME[0]?.path}"]`, { state: 'detached' });
    expect(await page.locator('.compared thead th').count()).toBe(4);
    expect(complaints).toEqual([]);
    await close();
  });

  it('of two runs names the command that compares raw samples', async () => {
    const [a, b] = SOME;
    const { page, complaints, close } = await open(SOME.slice(0, 2));
    expect(await textOf(page, '.command')).toContain(`latlab compare ${a?.path} ${b?.path}`);
    expect(complaints).toEqual([]);
    await close();
  });

  it('with a run that is gone says which', async () => {
    const { page, complaints, close } = await desk(session, RUNS, compareFragment(['a', 'b']));
    expect(await textOf(page, '.failure')).toContain('run a: not found');
    expect(unexpected(complaints)).toEqual([]);
    await close();
  });
});

const TREND = `#/trend?study=quick&cell=${encodeURIComponent(CELLS[0]?.id ?? '')}&quantity=median%20latency`;

/** Points of the drawing, mapped back through its axes. */
const drawnPoints = (page: Page): Promise<{ run: string; time: number; value: number }[]> =>
  page.$$eval('.trend-line .mark', (marks) => {
    const svg = marks[0]?.closest('svg') as SVGSVGElement;
    const pair = (name: string): [number, number] =>
      (svg.getAttribute(name) ?? '').split(' ').map(Number) as [number, number];
    const [x, xr] = [pair('data-x-domain'), pair('data-x-range')];
    const [y, yr] = [pair('data-y-domain'), pair('data-y-range')];
    return marks.map((mark) => {
      const at = /\(([-\d.]+) ([-\d.]+)\)/.exec(mark.getAttribute('transform') ?? '');
      const [fx, fy] = [
        (Number(at?.[1]) - xr[0]) / (xr[1] - xr[0]),
        (Number(at?.[2]) - yr[0]) / (yr[1] - yr[0]),
      ];
      return {
        run: mark.getAttribute('data-run') ?? '',
        time: x[0] + fx * (x[1] - x[0]),
        value: y[0] * (y[1] / y[0]) ** fy,
      };
    });
  });

describe('a trend', () => {
  it('draws every run at its time and value, and a mark at each change', async () => {
    const opened = await desk(session, RUNS, TREND);
    const { page, complaints, close } = opened;
    const { series } = await answer<Trend>(opened, 'trend');
    const points = series.flatMap((one) => one.points);
    const drawn = await drawnPoints(page);
    expect(drawn.map(({ run }) => run)).toEqual(points.map(({ path }) => path));
    points.forEach((point, i) => {
      expect(Math.abs((drawn[i]?.value ?? 0) / point.value - 1)).toBeLessThan(0.001);
      expect(Math.abs((drawn[i]?.time ?? 0) - Date.parse(point.started))).toBeLessThan(3 * 3600e3);
    });
    const ratios = series.flatMap((one) => one.changes.map((change) => change.ratio));
    expect(ratios.length).toBeGreaterThan(3);
    expect(await page.locator('.plot .change').count()).toBe(ratios.length);
    expect(await page.locator('.changes tbody tr').count()).toBe(ratios.length);
    expect(await page.locator('.lines-key li').count()).toBe(series.length);
    await page.click('.fold summary');
    await page.waitForSelector('.points tbody tr');
    expect(await page.locator('.points tbody tr').count()).toBe(points.length);
    expect(complaints).toEqual([]);
    await close();
  });

  it('is read off with the pointer and the keys, and leads to the run', async () => {
    const { page, complaints, close } = await desk(session, RUNS, TREND);
    const mark = page.locator('.trend-line .mark').nth(30);
    const run = (await mark.getAttribute('data-run')) ?? '';
    await mark.scrollIntoViewIfNeeded();
    const box = await mark.boundingBox();
    await page.mouse.move((box?.x ?? 0) + 3, (box?.y ?? 0) + 3);
    await page.waitForSelector('.tip:not([hidden])');
    await page.focus('.trend-canvas');
    await page.keyboard.press('End');
    await page.keyboard.press('ArrowLeft');
    expect(await textOf(page, '.tip')).toContain('µs [');
    await page.mouse.click((box?.x ?? 0) + 3, (box?.y ?? 0) + 3);
    await page.waitForSelector('.run .facts');
    expect(await page.evaluate(() => location.hash)).toMatch(/^#\/run\?run=/);
    expect(run).not.toBe('');
    expect(complaints).toEqual([]);
    await close();
  });

  it('completes a choice of a study alone, and follows other choices', async () => {
    const { page, complaints, close } = await desk(session, RUNS, '#/trend?study=boot');
    await page.waitForSelector('.trend-line .mark');
    expect(await page.evaluate(() => location.hash)).toContain('cell=rr-udp%2Fcontainer%2Fbridge');
    await page.selectOption('[data-choice="quantity"]', 'p99 latency');
    await page.waitForSelector('h1:has-text("p99 latency")');
    const { machine } = RUNS[0] as Run;
    await page.selectOption('[data-choice="machine"]', machine);
    await page.waitForFunction(() => document.querySelectorAll('.lines-key li').length === 1);
    await page.fill('[data-choice="study"]', 'tails');
    await page.press('[data-choice="study"]', 'Enter');
    await page.waitForFunction(() => location.hash.includes('study=tails&cell='));
    expect(complaints).toEqual([]);
    await close();
  });
});

describe('a run', () => {
  const fresh = (): Run[] => RUNS.slice(0, 50).map((run) => ({ ...run, note: 'old', tags: ['x'] }));
  const open = (runs: Run[], options = {}): Promise<Desk> =>
    desk(session, runs, runFragment(runs[3]?.path ?? ''), options);

  it('has its values, each leading to its trend, and its report', async () => {
    const runs = fresh();
    const { page, complaints, close } = await open(runs);
    expect(await page.locator('.values tbody tr').count()).toBe(CELLS.length);
    expect(await page.getAttribute('a.primary', 'href')).toBe(`/report/${runs[3]?.path}`);
    expect(await textOf(page, '.notes')).toContain('frequency changed');
    await page.click('.values tbody a');
    await page.waitForSelector('.trend-line .mark');
    expect(complaints).toEqual([]);
    await close();
  });

  it('that goes on has no report yet', async () => {
    const runs = fresh().map((run) => ({ ...run, state: 'running' as const }));
    const { page, complaints, close } = await open(runs);
    expect(await textOf(page, '.banner')).toContain('did not end yet');
    expect(await page.locator('a.primary').count()).toBe(0);
    expect(complaints).toEqual([]);
    await close();
  });

  it('keeps a note and tags that are written', async () => {
    const runs = fresh();
    const { page, complaints, close } = await open(runs);
    expect(await page.locator('.editor [type="submit"]').isDisabled()).toBe(true);
    await page.fill('#note', 'Governor was powersave');
    await page.fill('#tags', 'x before-upgrade');
    await page.press('#note', 'Control+Enter');
    await page.waitForSelector('.editor .hint:has-text("Saved")');
    expect(runs[3]).toMatchObject({
      note: 'Governor was powersave',
      tags: ['x', 'before-upgrade'],
    });
    expect(complaints).toEqual([]);
    await close();
  });

  it('keeps what is typed while a note is saved', async () => {
    const runs = fresh();
    let answer = (): void => {};
    const held = new Promise<void>((done) => (answer = done));
    const { page, complaints, close } = await open(runs);
    await page.route('**/api/note*', async (route) => {
      await held;
      await route.continue();
    });
    await page.fill('#note', 'half');
    await page.press('#note', 'Control+Enter');
    await page.waitForSelector('.editor .hint:has-text("Saving")');
    await page.fill('#note', 'half a sentence');
    const answered = page.waitForResponse('**/api/note*');
    answer();
    await (await answered).finished();
    await settle(page);
    expect(runs[3]?.note).toBe('half');
    expect(await page.inputValue('#note')).toBe('half a sentence');
    await page.unroute('**/api/note*');
    await page.press('#note', 'Control+Enter');
    await page.waitForSelector('.editor .hint:text-is("Saved")');
    expect(runs[3]?.note).toBe('half a sentence');
    expect(complaints).toEqual([]);
    await close();
  });

  it('keeps what is being written while another view is looked at', async () => {
    const { page, complaints, close } = await open(fresh());
    await page.fill('#note', 'half a sen');
    await page.click('.brand .name');
    await page.waitForSelector('.runs tbody tr');
    await page.goBack();
    await page.waitForSelector('.editor');
    await settle(page);
    expect(await page.inputValue('#note')).toBe('half a sen');
    expect(complaints).toEqual([]);
    await close();
  });

  it.each([
    ['keep', 'mine'],
    ['take', 'theirs'],
  ])('shows what another wrote meanwhile: %s leaves %s', async (action, left) => {
    const runs = fresh();
    const { page, complaints, close } = await open(runs);
    Object.assign(runs[3] as Run, { note: 'theirs' });
    await page.fill('#note', 'mine');
    await page.click('.editor [type="submit"]');
    await page.waitForSelector('.conflict');
    expect(await textOf(page, '.editor')).toContain('someone else changed it');
    expect(await textOf(page, '.conflict blockquote')).toBe('theirs');
    await page.click(`[data-action="${action}"]`);
    await page.waitForSelector('.conflict', { state: 'detached' });
    await page.waitForFunction((text) => document.querySelector('textarea')?.value === text, left);
    if (action === 'keep') await page.waitForSelector('.editor .hint:has-text("Saved")');
    expect(runs[3]?.note).toBe(left);
    expect(unexpected(complaints)).toEqual([]);
    await close();
  });

  it('says why a note cannot be kept, and keeps it on the page', async () => {
    const { page, complaints, close } = await open(fresh(), { readOnly: true });
    await page.fill('#note', 'mine');
    await page.click('.editor [type="submit"]');
    await page.waitForSelector('.editor .failure');
    expect(await textOf(page, '.editor .failure')).toContain('read-only');
    expect(await page.inputValue('#note')).toBe('mine');
    expect(unexpected(complaints)).toEqual([]);
    await close();
  });
});

/** A list draws its first rows at once, and keeps its height until it has drawn the others. */
async function allDrawn(page: Page, table: string): Promise<void> {
  await page.waitForSelector(`${table} tr`);
  await page.waitForFunction(() => !document.querySelector('[style*="min-height"]'));
}

it.each([
  ['comparison', compareFragment(paths(SOME.slice(0, 2))), 'compare', '.compared tbody tr'],
  ['trend', TREND, 'choices', '.trend-line .mark'],
])('a %s that is gone back to is asked for again', async (_, fragment, name, drawn) => {
  const { page, server, complaints, close } = await desk(session, RUNS, fragment);
  await page.waitForSelector(drawn);
  const asked = (): number =>
    server.state.requests.filter((url) => url.startsWith(`/api/${name}`)).length;
  const before = asked();
  expect(before).toBeGreaterThan(0);
  await page.click('.brand .name');
  await page.waitForSelector('.runs tbody tr');
  await page.goBack();
  await page.waitForSelector(drawn);
  await settle(page);
  expect(asked()).toBe(before + 1);
  expect(complaints).toEqual([]);
  await close();
});

describe('a shared file', () => {
  it.each([
    ['list', '#/?q=study:boot&sort=study', '.runs tbody'],
    ['compare', `${compareFragment(paths(SOME.slice(0, 5)))}&only=differences`, '.compared tbody'],
    ['trend', TREND, '.changes tbody'],
  ])('shows the %s from a disk, and asks no server', async (view, fragment, table) => {
    const { page, complaints, server, close } = await desk(session, RUNS, fragment);
    await allDrawn(page, table);
    const { name, html } = await shared(page);
    expect(name).toMatch(new RegExp(`^explorer-${view}-\\d{4}-\\d\\d-\\d\\d\\.html$`));
    const plain = (selector: string): Promise<string[]> => page.locator(selector).allInnerTexts();
    const [titles, rows] = [await plain('h1'), await plain(`${table} tr`)];
    await close();
    expect(server.state.requests.filter((url) => url === '/')).toHaveLength(2);

    const file = await session.open(html);
    await allDrawn(file.page, table);
    expect(await file.page.locator('h1').allInnerTexts()).toEqual(titles);
    const shownRows = await file.page.locator(`${table} tr`).allInnerTexts();
    // A list in a file has no boxes to choose by.
    const trimmed = (texts: string[]): string[] => texts.map((text) => text.trim());
    expect(trimmed(shownRows)).toEqual(trimmed(rows));
    expect(await file.page.locator('main a, .editor, #search').count()).toBe(0);
    expect(await textOf(file.page, 'footer')).toContain('needs no network');
    expect(file.complaints).toEqual([]);
    expect(complaints).toEqual([]);
    await file.page.context().close();
  });

  it('of a comparison can still be sorted and filtered', async () => {
    const { page, close } = await desk(session, RUNS, compareFragment(paths(SOME.slice(0, 5))));
    const { html } = await shared(page);
    await close();
    const file = await session.open(html);
    await file.page.click('[data-control="quantity p99 latency"]');
    expect(await file.page.locator('.compared tbody tr').count()).toBe(CELLS.length);
    expect(file.complaints).toEqual([]);
    await file.page.context().close();
  });
});
