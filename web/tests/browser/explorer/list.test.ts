// The list of ten thousand runs: pages, search, filters, choosing.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { madeUpRuns } from '../../explorer/runs.mjs';
import { Session, settle } from '../session';
import { desk, textOf, unexpected } from './desk';

const session = new Session();
beforeAll(() => session.start());
afterAll(() => session.stop());

const RUNS = madeUpRuns(10_000);
const LATEST = RUNS[RUNS.length - 1]?.path ?? '';

describe('pages', () => {
  it('have fifty runs each, the latest first', async () => {
    const { page, complaints, close } = await desk(session, RUNS);
    // Those below the window follow a moment later.
    await page.waitForSelector('tbody tr:nth-child(50)', { state: 'attached' });
    expect(await page.locator('tbody tr').count()).toBe(50);
    expect(await page.getAttribute('tbody tr', 'data-run')).toBe(LATEST);
    expect(await textOf(page, '.found')).toBe('10 000 runs, 1 to 50 shown');
    await page.click('[data-page="2"]');
    await page.waitForSelector('text=Page 2 of 200');
    expect(await page.evaluate(() => location.hash)).toBe('#/?page=2');
    expect(await page.getAttribute('tbody tr', 'data-run')).toBe(RUNS.at(-51)?.path);
    await page.goBack();
    await page.waitForSelector('text=Page 1 of 200');
    expect(complaints).toEqual([]);
    await close();
  });

  it('are ordered by a heading, which says so', async () => {
    const { page, complaints, close } = await desk(session, RUNS);
    await page.click('[data-sort="study"]');
    await page.waitForSelector('th[aria-sort="ascending"] [data-sort="study"]');
    await page.click('[data-sort="study"]');
    await page.waitForSelector('th[aria-sort="descending"] [data-sort="study"]');
    expect(await textOf(page, 'tbody tr .study a')).toBe('tails');
    expect(await page.evaluate(() => document.activeElement?.getAttribute('data-sort'))).toBe(
      'study',
    );
    expect(complaints).toEqual([]);
    await close();
  });
});

describe('the search', () => {
  it('is led to by the key / and asks while one types', async () => {
    const { page, complaints, close } = await desk(session, RUNS);
    await page.keyboard.press('/');
    await page.keyboard.type('study:boot');
    await page.waitForFunction(() => location.hash === '#/?q=study%3Aboot');
    await settle(page);
    const studies = await page.locator('.study a').allInnerTexts();
    expect(new Set(studies)).toEqual(new Set(['boot']));
    expect(await page.inputValue('#search')).toBe('study:boot');
    expect(complaints).toEqual([]);
    await close();
  });

  it('drops the answer to what was typed before', async () => {
    const delay = (url: URL): number => (url.searchParams.get('q') === 'study:qui' ? 1200 : 0);
    const { page, server, complaints, close } = await desk(session, RUNS, '', { delay });
    await page.fill('#search', 'study:qui');
    await page.waitForRequest((request) => request.url().includes('qui'));
    await page.fill('#search', 'study:tails');
    await page.waitForFunction(() => location.hash === '#/?q=study%3Atails');
    await settle(page);
    expect(await textOf(page, 'tbody tr .study a')).toBe('tails');
    const asked = server.state.requests.filter((url) => url.includes('q=study'));
    expect(asked).toHaveLength(2);
    await page.waitForTimeout(1500);
    const studies = await page.locator('.study a').allInnerTexts();
    expect(new Set(studies)).toEqual(new Set(['tails']));
    expect(complaints).toEqual([]);
    await close();
  });

  it('takes filters from the chips, and gives them back', async () => {
    const { page, complaints, close } = await desk(session, RUNS);
    const chip = page.locator('.facet[aria-label="Machine"] .chip').first();
    const machine = (await chip.getAttribute('title')) ?? '';
    await chip.click();
    await page.waitForSelector('.chip[aria-pressed="true"]');
    expect(await page.inputValue('#search')).toBe(`machine="${machine}"`);
    await settle(page);
    const machines = await page.locator('.machine .clamped:first-child').allInnerTexts();
    expect(new Set(machines)).toEqual(new Set([machine]));
    await page.locator('.chip[aria-pressed="true"]').click();
    await page.waitForSelector('text=10 000 runs'.replace(' ', '\u202f'));
    expect(await page.inputValue('#search')).toBe('');
    await page.click('tbody tr .level:text-is("vm")');
    await page.waitForFunction(() => location.hash.includes('kind%3Dvm'));
    expect(complaints).toEqual([]);
    await close();
  });

  it('shows what is wrong with it, and keeps what was found before', async () => {
    const { page, complaints, close } = await desk(session, RUNS);
    await page.fill('#search', 'colour:red');
    await page.waitForSelector('.failure');
    expect(await textOf(page, '.failure')).toContain('`colour:` is no field');
    expect(await textOf(page, '.failure')).toContain('fields are study');
    await page.waitForSelector('tbody tr:nth-child(50)', { state: 'attached' });
    expect(await page.locator('tbody tr').count()).toBe(50);
    await page.fill('#search', 'study:quick');
    await page.waitForSelector('.failure', { state: 'detached' });
    expect(unexpected(complaints)).toEqual([]);
    await close();
  });

  it('that finds nothing leads back to all runs', async () => {
    const { page, complaints, close } = await desk(session, RUNS, '#/?q=nothing-has-this');
    expect(await textOf(page, '.empty-list')).toContain('No run matches');
    await page.click('[data-action="all"]');
    await page.waitForSelector('tbody tr');
    expect(complaints).toEqual([]);
    await close();
  });
});

it('an empty directory says how runs are made', async () => {
  const { page, complaints, close } = await desk(session, []);
  expect(await textOf(page, '.empty-list')).toContain('latlab run');
  expect(complaints).toEqual([]);
  await close();
});

it('an index that is being built is looked at until it is whole', async () => {
  const indexing = { done: 4000, of: 10_000 };
  const { page, server, complaints, close } = await desk(session, RUNS, '', { indexing });
  expect(await textOf(page, '.indexing')).toContain('4000 of 10 000');
  server.state.indexing = { done: 9000, of: 10_000 };
  await page.waitForSelector('.indexing:has-text("9000")');
  server.state.indexing = null;
  await page.waitForSelector('.indexing', { state: 'hidden' });
  const asked = server.state.requests.length;
  await page.waitForTimeout(1500);
  expect(server.state.requests.length).toBe(asked);
  expect(complaints).toEqual([]);
  await close();
});

it('an empty list is asked for again while directories are listed', async () => {
  const indexing = { done: 0, of: 0 };
  const { page, server, complaints, close } = await desk(session, [], '', { indexing });
  expect(await textOf(page, '.indexing')).toContain('Looking for runs');
  expect(await textOf(page, '.empty-list')).toContain('Looking for runs');
  server.state.runs = RUNS;
  server.state.indexing = null;
  await page.waitForSelector('.runs tbody tr');
  expect(complaints).toEqual([]);
  await close();
});

it('a browser without the token is told where to get one', async () => {
  const { page, close } = await desk(session, RUNS, '', { refuse: [401, 'not authorised'] });
  expect(await textOf(page, '.failure')).toContain('latlab serve');
  await close();
});

it('a server that is gone is named as such', async () => {
  const { page, server, close } = await desk(session, RUNS);
  await server.stop();
  await page.fill('#search', 'quick');
  await page.waitForSelector('.failure');
  expect(await textOf(page, '.failure')).toContain('does not answer');
  await close();
});

it('runs are chosen over pages, twenty at most, and compared', async () => {
  const { page, complaints, close } = await desk(session, RUNS);
  for (let i = 0; i < 12; i++) await page.locator('[data-choose]').nth(i).check();
  await page.click('[data-page="2"]');
  await page.waitForSelector('text=Page 2 of 200');
  for (let i = 0; i < 8; i++) await page.locator('[data-choose]').nth(i).check();
  expect(await textOf(page, '.chosen')).toContain('20 chosen');
  expect(await page.locator('[data-choose]').nth(8).isDisabled()).toBe(true);
  await page.locator('[data-choose]').nth(0).uncheck();
  expect(await page.locator('[data-choose]').nth(8).isEnabled()).toBe(true);
  await page.locator('[data-choose]').nth(8).check();
  await page.click('.chosen a.primary');
  await page.waitForSelector('.compared tbody tr');
  expect(await page.locator('.compared thead th').count()).toBe(21);
  expect(await page.getAttribute('.compared thead th.baseline', 'data-run')).toBe(LATEST);
  await page.goBack();
  await page.waitForSelector('.runs tbody tr');
  await page.click('[data-action="clear"]');
  expect(await page.locator('.chosen').isHidden()).toBe(true);
  expect(complaints).toEqual([]);
  await close();
});
