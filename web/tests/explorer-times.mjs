// How long the explorer takes over many runs: to read them, and in Chromium until a view is drawn. The runs are made from
// one, with studies, machines, kernels, versions, dates and values of their own. Prints, asserts nothing: time is measured,
// not tested.
//
// usage: npm run explorer-times -- LATLAB [RUNS [ROUNDS]]

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { base, slower, writeRun } from './explorer/directories.mjs';
import { serveRuns } from './explorer/latlab.mjs';
import { launch } from './report.mjs';

const [latlab, runs = '10000', rounds = '11'] = process.argv.slice(2);
if (latlab === undefined) {
  console.error('usage: npm run explorer-times -- LATLAB [RUNS [ROUNDS]]');
  process.exit(2);
}
const STUDIES = ['quick', 'forwarder', 'tuning', 'boot', 'paths', 'carriers', 'load', 'isolation'];
const MACHINES = ['AMD EPYC 9B45', 'Intel Xeon 8488C', 'AMD EPYC 7B13'];
const WORDS = ['forwarder', 'epyc', 'kind=vm', 'quick', '6.3', 'boot 6.2', 'study:load'];
const MAX_COMPARED = 20;

const folder = mkdtempSync(join(tmpdir(), 'latlab-explorer-'));
try {
  makeRuns(join(folder, 'runs'), Number(runs));
  await measure(join(folder, 'runs'));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Run directories that differ as those of a year do. */
function makeRuns(directory, count) {
  const summary = base();
  const begin = Date.UTC(2025, 10, 1);
  for (let number = 0; number < count; number++) {
    const started = new Date(begin + number * 50 * 60_000).toISOString();
    const study = STUDIES[number % STUDIES.length];
    const id = `${study}-${started.slice(0, 16).replace(':', '')}`;
    const host = {
      ...summary.host,
      cpu: MACHINES[Math.floor(number / 7) % MACHINES.length],
      kernel: `6.${Math.floor(number / 900)}.${number % 9}`,
    };
    const versions = { ...summary.versions, latlab: `0.1.${Math.floor(number / 400)}` };
    // Two in a hundred up and down, and slower by a fifth in the last third.
    const noise = 1 + 0.02 * Math.sin(number * 12.9898);
    const factor = noise * (number > (count * 2) / 3 ? 1.2 : 1);
    const own = { id, study, started, host, versions };
    writeRun(join(directory, id), { ...slower(summary, factor), ...own });
  }
}

async function measure(directory) {
  const begin = performance.now();
  const server = await serveRuns(latlab, directory, folder);
  try {
    const browser = await launch();
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(server.url);
    while (!(await page.evaluate(hasReadAll, Number(runs)))) await page.waitForTimeout(200);
    const seconds = (performance.now() - begin) / 1000;
    console.log(`first reading of ${runs} runs: ${seconds.toFixed(1)} s`);
    for (const [what, times] of Object.entries(await views(page))) {
      times.sort((a, b) => a - b);
      const [middle, most] = [times[times.length >> 1], times.at(-1)];
      const text = `${middle.toFixed(0)} ms, at most ${most.toFixed(0)} ms`;
      console.log(`${what.padEnd(40)} ${text}, ${times.length} rounds`);
    }
    await browser.close();
  } finally {
    await server.stop();
  }
}

async function hasReadAll(count) {
  const list = await (await fetch('/api/runs?limit=1')).json();
  return list.total === count && list.indexing === null;
}

async function views(page) {
  const site = new URL(page.url()).origin;
  const times = {
    'first page': [],
    search: [],
    'the answer to it': [],
    'compare twenty': [],
    trend: [],
  };
  const go = (fragment) => page.evaluate((to) => (location.hash = to), fragment);
  for (let round = 0; round < Number(rounds); round++) {
    const word = WORDS[round % WORDS.length];
    const first = () => page.goto(`${site}/?round=${round}#/`);
    times['first page'].push(await timed(first, () => drawn(page, 'tr[data-run]')));
    await page.waitForSelector(`tr[data-run]:nth-child(${MAX_COMPARED})`);
    const paths = await page.$$eval('tr[data-run]', (rows) => rows.map((row) => row.dataset.run));

    await page.locator('input[type=search]').fill(word.slice(0, -1));
    await answered(page, word.slice(0, -1));
    const last = () => page.keyboard.type(word.slice(-1));
    times.search.push(await timed(last, () => answered(page, word)));
    times['the answer to it'].push(await page.evaluate(lastAnswer));

    const chosen = paths.slice(0, MAX_COMPARED).map((path) => `run=${encodeURIComponent(path)}`);
    const compare = () => go(`#/compare?${chosen.join('&')}`);
    times['compare twenty'].push(
      await timed(compare, () => drawn(page, 'table.compared tbody tr')),
    );

    const choices = await page.evaluate(async () =>
      (await fetch('/api/choices?study=quick')).json(),
    );
    const { cell, quantities } = choices.cells[0];
    const of = new URLSearchParams({ study: 'quick', cell, quantity: quantities[0] });
    times.trend.push(
      await timed(
        () => go(`#/trend?${of}`),
        () => drawn(page, 'svg[data-plot]'),
      ),
    );
  }
  return times;
}

/** Milliseconds from an act until what it brings is drawn. */
async function timed(act, isThere) {
  const begin = performance.now();
  await act();
  await isThere();
  return performance.now() - begin;
}

async function drawn(page, selector) {
  await page.waitForSelector(selector);
  await page.waitForFunction(() => !document.querySelector('[aria-busy]'), null, {
    polling: 'raf',
  });
}

/** Waits until the answer to a search is in the table. */
function answered(page, word) {
  const isLast = (text) => {
    const asked = performance
      .getEntriesByType('resource')
      .filter((e) => e.name.includes('/api/runs?'));
    const query = new URL(asked.at(-1).name).searchParams.get('q');
    return query === text && !document.querySelector('[aria-busy]');
  };
  return page.waitForFunction(isLast, word, { polling: 'raf' });
}

/** Milliseconds of the page's last question to the server. */
function lastAnswer() {
  const asked = performance
    .getEntriesByType('resource')
    .filter((e) => e.name.includes('/api/runs?'));
  return asked.at(-1).duration;
}
