// One browser for a file of tests, and pages in it that must stay quiet: an error on the console, an
// exception or a request to anywhere fails the test that opened the page.

import { readFileSync } from 'node:fs';

import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

import type { Summary } from '../../src/summary';
import { fill, fixture, launch, scratch, summaryOf } from '../report.mjs';

export interface Opened {
  page: Page;
  /** Everything that should not have happened. */
  complaints: string[];
}

export class Session {
  private browser: Browser | null = null;
  private readonly files = scratch();
  private count = 0;

  async start(): Promise<void> {
    this.browser = await launch();
  }

  async stop(): Promise<void> {
    await this.browser?.close();
    this.files.remove();
  }

  /** Opens a page from a file, which may ask no server. */
  async open(
    html: string,
    options: BrowserContextOptions = {},
    init: () => void = () => undefined,
  ): Promise<Opened> {
    const url = this.files.write(`report-${++this.count}.html`, html);
    return this.visit(url, (asked) => asked === url, options, init);
  }

  /** Opens an address. A request that `mayAsk` does not allow is a complaint. */
  async visit(
    url: string,
    mayAsk: (url: string) => boolean,
    options: BrowserContextOptions = {},
    init: () => void = () => undefined,
  ): Promise<Opened> {
    if (!this.browser) throw new Error('the browser was not started');
    const context = await this.browser.newContext({
      viewport: { width: 1280, height: 900 },
      colorScheme: 'light',
      ...options,
    });
    const page = await context.newPage();
    await page.addInitScript(init);
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('request', (request) => {
      if (!mayAsk(request.url()) && !request.url().startsWith('data:')) {
        complaints.push(`request for ${request.url()}`);
      }
    });
    page.on('dialog', (dialog) => {
      complaints.push(`dialog ${dialog.message()}`);
      void dialog.dismiss();
    });
    await page.goto(url);
    return { page, complaints };
  }
}

/** The report under test: `LATLAB_REPORT`, or the fixture in the built page. */
export function reportUnderTest(): { html: string; summary: Summary; real: boolean } {
  const path = process.env['LATLAB_REPORT'];
  if (path) {
    const html = readFileSync(path, 'utf8');
    return { html, summary: summaryOf(html), real: true };
  }
  const summary = fixture();
  return { html: fill(summary), summary, real: false };
}

/** Puts a measurement on show with all its groups. */
export async function choose(page: Page, measurement: string): Promise<void> {
  await page.click(`[data-measurement-choice=${JSON.stringify(measurement)}]`);
  await page.waitForSelector(
    `.bench[data-measurement=${JSON.stringify(measurement)}]:not([hidden])`,
  );
  const more = page.locator('.bench:not([hidden]) button.more:not([hidden])').first();
  if (await more.count()) await more.click();
  await settle(page);
}

/** Waits until the page has reacted to what was just done. */
export async function settle(page: Page): Promise<void> {
  await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );
  await page.waitForFunction(() => !document.querySelector('[aria-busy]'));
}

/** Opens all that is folded away, and what appears in it. */
export async function unfold(page: Page): Promise<void> {
  const closed = (): Promise<number> => page.locator('details:not([open])').count();
  while ((await closed()) > 0) {
    await page.$$eval('details', (all) => all.forEach((one) => (one.open = true)));
    await settle(page);
  }
}
