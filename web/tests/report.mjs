// What the browser tests and the screenshots share: the built page with a summary put into it as
// latlab does it, and a Chromium that stays off the network.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { chromium } from 'playwright-core';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

export const PLACEHOLDER =
  '<script id="summary" type="application/json">/*latlab-summary*/</script>';

export function builtPage() {
  return readFileSync(here('../dist/report.html'), 'utf8');
}

export function fixture() {
  return JSON.parse(readFileSync(here('fixtures/summary.json'), 'utf8'));
}

/** The page with this summary in it; `</` must not end the script element. */
export function fill(summary) {
  const page = builtPage();
  if (page.split(PLACEHOLDER).length !== 2) throw new Error('the placeholder must occur once');
  const json = JSON.stringify(summary).replace(/<\//g, '<\\/');
  return page.replace(PLACEHOLDER, () => PLACEHOLDER.replace('/*latlab-summary*/', () => json));
}

/** Reads the summary back out of a report. */
export function summaryOf(html) {
  const match = /<script id="summary" type="application\/json">([\s\S]*?)<\/script>/.exec(html);
  if (!match) throw new Error('the report has no summary in it');
  return JSON.parse(match[1]);
}

/** Files for one test run, gone after it. */
export function scratch() {
  const folder = mkdtempSync(join(tmpdir(), 'latlab-report-'));
  return {
    write(name, html) {
      const path = join(folder, name);
      writeFileSync(path, html);
      return pathToFileURL(path).href;
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

const BROWSERS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

export async function launch() {
  const executablePath = process.env.LATLAB_CHROMIUM ?? BROWSERS.find((path) => existsSync(path));
  if (!executablePath) {
    throw new Error('no Chromium found: install the package chromium, or set LATLAB_CHROMIUM');
  }
  return chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--disable-component-update',
      '--no-first-run',
    ],
  });
}
