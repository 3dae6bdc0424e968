// The page and the real server together: LATLAB names the program, which `./test` builds.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { base, slower, writeRun } from '../../explorer/directories.mjs';
import { serveRuns } from '../../explorer/latlab.mjs';
import { Session, settle } from '../session';
import { textOf } from './desk';

const latlab = process.env['LATLAB'];
const HOSTILE = '<img src=x onerror="window.hacked=1">';

describe.skipIf(!latlab)('the page over `latlab serve` (LATLAB names the program)', () => {
  const session = new Session();
  const folder = mkdtempSync(join(tmpdir(), 'latlab-served-'));
  const runs = join(folder, 'runs');
  let server: Awaited<ReturnType<typeof serveRuns>>;
  let page: Page;
  let complaints: string[];

  const go = async (fragment: string): Promise<void> => {
    await page.goto(`${new URL(server.url).origin}/${fragment}`);
    await settle(page);
  };

  beforeAll(async () => {
    const summary = base();
    for (let day = 1; day <= 20; day++) {
      const id = `nightly-${String(day).padStart(2, '0')}`;
      const started = `2026-10-${String(day).padStart(2, '0')}T02:00:00Z`;
      const noise = 1 + 0.001 * (day % 3);
      const own = { id, study: 'nightly', started };
      writeRun(join(runs, id), { ...slower(summary, noise * (day > 12 ? 1.4 : 1)), ...own });
    }
    writeRun(join(runs, 'hostile'), {
      ...summary,
      id: 'hostile',
      study: HOSTILE,
      description: '</script><script>window.hacked=1</script>',
    });
    server = await serveRuns(latlab ?? '', runs, folder);
    await session.start();
    const { origin } = new URL(server.url);
    ({ page, complaints } = await session.visit(server.url, (url) => url.startsWith(origin)));
    await page.waitForSelector('text=21 runs');
    await settle(page);
  });

  afterAll(async () => {
    await session.stop();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('finds runs, and the token is not in the address', async () => {
    expect(page.url()).not.toContain('token');
    await page.fill('input[type=search]', 'study=nightly before:2026-10-04');
    await page.waitForSelector('text=3 of 21 runs');
    expect(await page.locator('tr[data-run]').count()).toBe(3);
    await page.fill('input[type=search]', 'nosuch:x');
    await page.waitForSelector('.failure');
    expect(await textOf(page, '.failure')).toContain('`nosuch:` is no field');
    // The refusal is what was asked for.
    complaints.splice(0);
  });

  it('compares runs of before and after', async () => {
    await go('#/compare?run=nightly-03&run=nightly-15');
    await page.waitForSelector('table.compared tbody tr');
    expect(await textOf(page, 'table.compared')).toMatch(/1\.40×[\s\S]*slower/);
  });

  it('finds the night on which a cell became slower', async () => {
    const cell = base().cells[0]?.id ?? '';
    const of = new URLSearchParams({ study: 'nightly', cell, quantity: 'median latency' });
    await go(`#/trend?${of}`);
    await page.waitForSelector('.trend-line');
    expect(await textOf(page, '.trend')).toContain('2026-10-13');
  });

  it('keeps a note and tags in the run directory', async () => {
    await go('#/run?run=nightly-13');
    await page.fill('textarea', 'kernel was updated');
    await page.fill('input[placeholder^="baseline"]', 'after-upgrade');
    await page.click('text=Save');
    await page.waitForSelector('text=Saved');
    const written = JSON.parse(readFileSync(join(runs, 'nightly-13/annotation.json'), 'utf8'));
    expect(written).toMatchObject({ note: 'kernel was updated', tags: ['after-upgrade'] });
    await go('#/?q=tag%3Dafter-upgrade');
    await page.waitForSelector('text=1 of 21 runs');
  });

  it('opens the report of a run', async () => {
    await page.goto(`${new URL(server.url).origin}/report/nightly-01`);
    await settle(page);
    expect(await page.title()).toContain('nightly');
    expect(await page.locator('svg').count()).toBeGreaterThan(0);
  });

  it('shows hostile names as text, in the list and in the report', async () => {
    for (const address of ['#/?q=path%3Ahostile', '#/run?run=hostile', 'report/hostile']) {
      await go(address);
      await page.waitForSelector(`text=${HOSTILE}`);
      expect(await page.evaluate(() => 'hacked' in window)).toBe(false);
      expect(await page.locator('#page img').count()).toBe(0);
    }
    expect(complaints).toEqual([]);
  });
});
