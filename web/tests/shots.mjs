// Screenshots of a report, for the documentation and for looking at: the fixture's, or a real one's.
//
// usage: npm run shots [-- OUT [REPORT.html]]      (OUT is tests/out by default)

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

async function shoot(name, { width, height, dark = false, phone = false, act = () => {} }) {
  const page = await browser.newPage({
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    hasTouch: phone,
    isMobile: phone,
    deviceScaleFactor: phone ? 2 : 1,
  });
  page.on('pageerror', (error) => console.error(`${name}: ${error.stack}`));
  await page.goto(url);
  await act(page);
  await page.waitForFunction(() => !document.querySelector('[aria-busy]'));
  await page.waitForTimeout(300);
  await page.screenshot({ path: join(out, `${name}.png`) });
  await page.close();
}

/** Scrolls to a plot of the measurement on show. */
const show = (page, plot) =>
  page.evaluate((name) => {
    const panel = document.querySelector(`.bench:not([hidden]) [data-panel="${name}"]`);
    panel?.closest('.plots')?.scrollIntoView({ block: 'start' });
  }, plot);

const point = async (page, plot, x, y) => {
  await show(page, plot);
  const panel = page.locator(`.bench:not([hidden]) [data-panel="${plot}"] .canvas`).first();
  const box = await panel.boundingBox();
  if (box) await page.mouse.move(box.x + box.width * x, box.y + box.height * y);
};

await shoot('report', { width: 1280, height: 900 });
await shoot('report-percentiles', {
  width: 1280,
  height: 760,
  act: (page) => point(page, 'percentiles', 0.62, 0.5),
});
await shoot('report-dark', {
  width: 1280,
  height: 900,
  dark: true,
  act: (page) => point(page, 'boxes', 0.8, 0.4),
});
await shoot('report-table', {
  width: 1280,
  height: 760,
  act: (page) =>
    page.evaluate(() =>
      document
        .querySelector('.bench:not([hidden]) .comparison')
        ?.closest('.plots')
        ?.scrollIntoView({ block: 'start' }),
    ),
});
// Packets through taps, where the report has any.
for (const dark of [false, true]) {
  await shoot(dark ? 'report-slow-dark' : 'report-slow', {
    width: 1280,
    height: 1000,
    dark,
    act: async (page) => {
      const choices = page.locator('[data-measurement-choice]');
      for (let i = 0; i < (await choices.count()); i++) {
        await choices.nth(i).click();
        if (await page.locator('.bench:not([hidden]) .panel.slow').count()) break;
      }
      await page.waitForFunction(() => !document.querySelector('[aria-busy]'));
      await show(page, 'slow');
    },
  });
}
await shoot('report-phone', { width: 390, height: 844, phone: true });
await shoot('report-phone-plot', {
  width: 390,
  height: 844,
  phone: true,
  act: (page) => show(page, 'percentiles'),
});

// Only where it is asked for as a whole: a PDF is looked at, not kept.
if (process.argv.length < 3) {
  const page = await browser.newPage({ colorScheme: 'dark' });
  await page.goto(url);
  await page.pdf({ path: join(out, 'report.pdf'), format: 'A4', printBackground: true });
}
await browser.close();
files.remove();
