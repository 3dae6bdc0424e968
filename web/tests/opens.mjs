// How long a report takes to open: from the navigation until every plot of the measurement on show is
// drawn, each time in a fresh page. Prints, asserts nothing: time is measured, not tested.
//
// usage: npm run opens -- REPORT.html [ROUNDS]

import { statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

import { launch } from './report.mjs';

const [report, rounds = '7'] = process.argv.slice(2);
if (report === undefined) {
  console.error('usage: npm run opens -- REPORT.html [ROUNDS]');
  process.exit(2);
}
const url = pathToFileURL(report).href;
const browser = await launch();
const times = [];
let packets = 0;
for (let round = 0; round < Number(rounds); round++) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const begin = performance.now();
  await page.goto(url);
  await page.waitForFunction(
    () => window.latlab !== undefined && !document.querySelector('[aria-busy]'),
  );
  times.push((performance.now() - begin) / 1000);
  packets = await page.evaluate(() =>
    (window.latlab?.summary.tails ?? []).reduce((sum, tail) => sum + tail.packets, 0),
  );
  await page.close();
}
await browser.close();
times.sort((a, b) => a - b);
const at = (i) => times[i].toFixed(2);
const megabytes = (statSync(report).size / 1e6).toFixed(1);
console.log(
  `${report}: ${megabytes} MB, of ${packets} timed packets; opens in ${at(times.length >> 1)} s ` +
    `(${at(0)} to ${at(times.length - 1)} in ${times.length} rounds)`,
);
