// Screenshots of a report, for the documentation and for looking at.
//
// usage: node tests/shots.mjs OUT [REPORT.html]

import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { fill, fixture, launch, scratch } from './report.mjs';

const [out = 'tests/out', report] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const files = scratch();
const url = files.write(
  'report.html',
  report === undefined ? fill(fixture()) : readFileSync(report, 'utf8'),
);
const browser = await launch();

async function shoot(name, { width, height, dark = false, touch = false, act, full = true }) {
  const page = await browser.newPage({
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    hasTouch: touch,
    deviceScaleFactor: touch ? 2 : 1,
  });
  page.on('pageerror', (error) => console.error(`${name}: ${error.stack}`));
  page.on('console', (message) => message.type() === 'error' && console.error(message.text()));
  await page.goto(url);
  if (act) await act(page);
  await page.screenshot({ path: join(out, `${name}.png`), fullPage: full });
  await page.close();
}

const hover = async (page) => {
  const panel = page.locator('[data-panel="percentiles"] .canvas').first();
  await panel.scrollIntoViewIfNeeded();
  const box = await panel.boundingBox();
  await page.mouse.move(box.x + box.width * 0.62, box.y + box.height * 0.5);
};

await shoot('desktop', { width: 1280, height: 900 });
await shoot('desktop-top', { width: 1280, height: 900, full: false });
await shoot('desktop-dark', { width: 1280, height: 900, dark: true, act: hover });
await shoot('phone', { width: 390, height: 844, touch: true });

const page = await browser.newPage({ colorScheme: 'dark' });
await page.goto(url);
await page.pdf({ path: join(out, 'print.pdf'), format: 'A4', printBackground: true });
await browser.close();
files.remove();
