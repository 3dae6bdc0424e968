// Screenshots of the explorer over made-up runs, for looking at.
//
// usage: npm run shots:explorer [-- OUT]      (OUT is tests/out by default)

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { launch } from '../report.mjs';
import { CELLS, madeUpRuns } from './runs.mjs';
import { serve } from './server.mjs';

const [out = 'tests/out'] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const runs = madeUpRuns(10_000);
const server = await serve(runs);
const browser = await launch();

const quick = runs.filter((run) => run.study === 'quick');
const asked = (list) => list.map((run) => `run=${encodeURIComponent(run.path)}`).join('&');
const noted = quick.findLast((run) => run.note !== '' && run.serious > 0) ?? quick[0];
const few = runs.filter((run) => run.study === 'bridges' && run.tags.length > 0);
const trend = (study, cell) =>
  `#/trend?study=${study}&cell=${encodeURIComponent(cell.id)}&quantity=median%20latency`;
// A study of fewer runs, as most are.
runs.filter((run, i) => run.study === 'boot' && i % 9 > 0).forEach((run) => (run.study = 'starts'));

const VIEWS = {
  list: ['#/', '.runs tbody tr'],
  search: ['#/?q=study%3Dquick%20tag%3Dbaseline', '.runs tbody tr', choose],
  compare: [`#/compare?${asked(few.slice(0, 6))}`, '.compared tbody tr'],
  'compare-two': [`#/compare?${asked(few.slice(-2))}&sort=change`, '.compared tbody tr'],
  'compare-twenty': [`#/compare?${asked(few.slice(0, 20))}&sort=change`, '.compared tbody tr'],
  trend: [trend('boot', CELLS[0]), '.trend-line', point],
  'trend-many': [trend('quick', CELLS[3]), '.trend-line'],
  run: [`#/run?run=${encodeURIComponent(noted.path)}`, '.values tbody tr'],
};

async function choose(page) {
  for (const i of [1, 3, 4]) await page.locator('[data-choose]').nth(i).check();
}

async function point(page) {
  await page.focus('.trend-canvas');
  for (let i = 0; i < 40; i++) await page.keyboard.press('ArrowLeft');
}

for (const [name, [fragment, ready, act]] of Object.entries(VIEWS)) {
  for (const dark of [false, true]) {
    for (const width of [1280, 420]) {
      const page = await browser.newPage({
        viewport: { width, height: 900 },
        colorScheme: dark ? 'dark' : 'light',
      });
      page.on('pageerror', (error) => console.error(`${name}: ${error.stack}`));
      await page.goto(server.url + fragment);
      await page.waitForSelector(ready);
      await act?.(page);
      const file = `explorer-${name}-${width}${dark ? '-dark' : ''}.png`;
      await page.screenshot({ path: join(out, file) });
      await page.close();
    }
  }
}
await browser.close();
await server.stop();
