// Actions of a reader: hide and highlight series, read values off, zoom, choose, sort, follow a chip,
// take the numbers along; on a desk, on a phone, in the dark, on paper.

import { readFileSync } from 'node:fs';

import type { Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import type { Cell } from '../../src/summary';
import { drawnSeries, interpolate, valueAt, type Axis } from './drawn';
import { choose, reportUnderTest, Session, settle, unfold, type Opened } from './session';

const { html, summary } = reportUnderTest();
const session = new Session();

beforeAll(() => session.start());
afterAll(() => session.stop());

const withCurves = summary.measurements.find((m) =>
  summary.cells.some((c) => c.measurement === m.name && (c.latency?.curve.length ?? 0) > 1),
)?.name;

describe.runIf(withCurves !== undefined)('on a desk', () => {
  let opened: Opened;
  let page: Page;
  beforeEach(async () => {
    opened = await session.open(html);
    page = opened.page;
    await choose(page, withCurves ?? '');
  });
  afterEach(async () => {
    expect(opened.complaints).toEqual([]);
    await page.context().close();
  });

  const panel = (plot: string): Locator =>
    page.locator(`.bench:not([hidden]) [data-panel="${plot}"]:not([hidden]) .canvas`).first();

  const axisOf = (plot: string): Promise<{ x: Axis; y: Axis }> =>
    page
      .locator(`.bench:not([hidden]) [data-panel="${plot}"]:not([hidden]) svg.plot`)
      .first()
      .evaluate((svg) => {
        const pair = (name: string): [number, number] =>
          (svg.getAttribute(name) ?? '').split(' ').map(Number) as [number, number];
        const axis = (which: string) => ({
          type: svg.getAttribute(`data-${which}-type`) ?? '',
          domain: pair(`data-${which}-domain`),
          range: pair(`data-${which}-range`),
        });
        return { x: axis('x'), y: axis('y') };
      });

  it('hides a series from every plot by its legend entry, and shows it again', async () => {
    const key = (await page.locator('[data-legend]').last().getAttribute('data-legend')) ?? '';
    const drawn = `.bench .panel:not([hidden]) [data-series=${JSON.stringify(key)}]`;
    const one = (await page.locator(drawn).first().getAttribute('data-cell')) ?? '';
    const before = await page.locator(drawn).count();
    expect(before).toBeGreaterThan(0);
    const visible = () => page.evaluate((id) => window.latlab?.visible(id), one);

    await page.click(`[data-legend=${JSON.stringify(key)}]`);
    await settle(page);
    const marks = '.bench .panel:not([hidden]) svg';
    expect(await page.locator(`${marks} [data-series=${JSON.stringify(key)}]`).count()).toBe(0);
    expect(await visible()).toBe(false);
    expect(await page.getAttribute(`[data-legend=${JSON.stringify(key)}]`, 'aria-pressed')).toBe(
      'false',
    );
    for (const { name } of summary.measurements) {
      await choose(page, name);
      const left = `.bench:not([hidden]) .panel:not([hidden]) svg [data-series=${JSON.stringify(key)}]`;
      expect(await page.locator(left).count(), name).toBe(0);
    }

    await choose(page, withCurves ?? '');
    await page.locator(`[data-legend=${JSON.stringify(key)}]`).focus();
    await page.keyboard.press('Enter');
    await settle(page);
    expect(await page.locator(drawn).count()).toBe(before);
    expect(await visible()).toBe(true);
  });

  it('highlights a series everywhere while the pointer is on its legend entry', async () => {
    const keys = await page.$$eval('[data-legend]', (all) =>
      all.map((b) => b.getAttribute('data-legend')),
    );
    if (keys.length < 2) return;
    const dimmed = (): Promise<Record<string, boolean>> =>
      page.$$eval('.bench:not([hidden]) .panel:not([hidden]) svg .series[data-series]', (all) =>
        Object.fromEntries(
          all.map((g) => [
            g.getAttribute('data-series') ?? '',
            Number(getComputedStyle(g).opacity) < 0.5,
          ]),
        ),
      );
    await page.hover(`[data-legend=${JSON.stringify(keys[0])}]`);
    await page.waitForTimeout(200);
    for (const [key, dim] of Object.entries(await dimmed())) expect(dim, key).toBe(key !== keys[0]);
    await page.mouse.move(2, 2);
    await page.waitForTimeout(200);
    expect(Object.values(await dimmed())).not.toContain(true);
  });

  it('reads all series off under the pointer, in every group at once', async () => {
    const canvas = panel('percentiles');
    await canvas.scrollIntoViewIfNeeded();
    const { x } = await axisOf('percentiles');
    const box = (await canvas.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    const pixel = x.range[0] + (x.range[1] - x.range[0]) * 0.37;
    await page.mouse.move(box.x + pixel, box.y + box.height / 2);
    await settle(page);
    const readouts = await page.$$eval(
      '.bench:not([hidden]) .panel:not([hidden]) [data-readout="percentiles"]',
      (all) =>
        all.map((readout) => ({
          at: Number(readout.querySelector('[data-at]')?.getAttribute('data-at')),
          rows: [...readout.querySelectorAll('li')].map((row) => ({
            cell: row.getAttribute('data-cell') ?? '',
            value: row.getAttribute('data-value') ?? '',
            text: row.textContent ?? '',
          })),
        })),
    );
    expect(readouts.length).toBeGreaterThan(0);
    for (const { at, rows } of readouts) {
      expect(Math.abs(Math.log(at / valueAt(x, pixel)))).toBeLessThan(0.02);
      for (const { cell: id, value, text } of rows) {
        const cell = summary.cells.find((c) => c.id === id) as Cell;
        const expected = interpolate(cell.latency?.curve ?? [], at);
        if (expected === null) expect(value).toBe('');
        else expect(Math.abs(Number(value) / expected - 1)).toBeLessThan(1e-6);
        expect(text).toMatch(expected === null ? /no samples/ : /\d.*[nµm]?s/);
      }
    }
  });

  it('reads off by the arrow keys', async () => {
    const at = (): Promise<number> =>
      page
        .locator('[data-readout="percentiles"] [data-at]')
        .first()
        .getAttribute('data-at')
        .then(Number);
    await panel('percentiles').focus();
    const before = await at();
    await page.keyboard.press('ArrowRight');
    await settle(page);
    expect(await at()).toBeGreaterThan(before);
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    await settle(page);
    expect(await at()).toBeLessThan(before);
  });

  it('zooms into what is dragged over, still with the right numbers, and resets', async () => {
    const canvas = panel('percentiles');
    await canvas.scrollIntoViewIfNeeded();
    const whole = await axisOf('percentiles');
    const box = (await canvas.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    const at = (axis: Axis, t: number): number =>
      axis.range[0] + (axis.range[1] - axis.range[0]) * t;
    const [left, right] = [at(whole.x, 0.3), at(whole.x, 0.6)];
    const [low, high] = [at(whole.y, 0.2), at(whole.y, 0.8)];
    await page.mouse.move(box.x + left, box.y + high);
    await page.mouse.down();
    await page.mouse.move(box.x + right - 5, box.y + low - 5, { steps: 3 });
    await page.mouse.move(box.x + right, box.y + low);
    await page.mouse.up();
    await settle(page);

    const zoomed = await axisOf('percentiles');
    const wanted = [
      valueAt(whole.x, left),
      valueAt(whole.x, right),
      valueAt(whole.y, low),
      valueAt(whole.y, high),
    ];
    [...zoomed.x.domain, ...zoomed.y.domain].forEach((value, i) => {
      expect(Math.abs(Math.log(value / (wanted[i] as number)))).toBeLessThan(0.05);
    });
    for (const series of await drawnSeries(page, 'percentiles')) {
      const curve = summary.cells.find((c) => c.id === series.cell)?.latency?.curve ?? [];
      const first = (series.paths['sound'] ?? series.paths['thin'] ?? [])[0];
      if (!first || !series.x || !series.y || !curve[0]) continue;
      expect(Math.abs(valueAt(series.y, first[1]) / curve[0][1] - 1)).toBeLessThan(1e-3);
    }

    await canvas.dblclick({ position: { x: left, y: low - 20 } });
    await settle(page);
    expect((await axisOf('percentiles')).x.domain).toEqual(whole.x.domain);

    const tools = page.locator('.bench:not([hidden]) .tools').first();
    await tools.locator('[data-zoom="in"]').click();
    await settle(page);
    const inner = (await axisOf('percentiles')).x.domain;
    expect(Math.log(inner[1] / inner[0])).toBeLessThan(
      Math.log(whole.x.domain[1] / whole.x.domain[0]),
    );
    await tools.locator('[data-zoom="reset"]').click();
    await settle(page);
    expect((await axisOf('percentiles')).x.domain).toEqual(whole.x.domain);
  });

  it('zooms with the wheel only when a modifier is held', async () => {
    const canvas = panel('percentiles');
    await canvas.scrollIntoViewIfNeeded();
    const whole = (await axisOf('percentiles')).x.domain;
    const box = (await canvas.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.mouse.wheel(0, -20);
    await settle(page);
    expect((await axisOf('percentiles')).x.domain).toEqual(whole);
    await canvas.evaluate((element) => {
      const bounds = element.getBoundingClientRect();
      element.dispatchEvent(
        new WheelEvent('wheel', {
          deltaY: -200,
          ctrlKey: true,
          bubbles: true,
          cancelable: true,
          clientX: bounds.left + bounds.width / 2,
          clientY: bounds.top + bounds.height / 2,
        }),
      );
    });
    await settle(page);
    const inner = (await axisOf('percentiles')).x.domain;
    expect(Math.log(inner[1] / inner[0])).toBeLessThan(Math.log(whole[1] / whole[0]));
  });

  it('shows the groups of a chosen level only', async () => {
    const choice = page.locator('[data-level]:not([data-level$="="])').first();
    if ((await choice.count()) === 0) return;
    const [factor, level] = ((await choice.getAttribute('data-level')) ?? '').split('=');
    await choice.click();
    await settle(page);
    const shown = await page.$$eval(
      '.bench:not([hidden]) [data-panel="percentiles"]:not([hidden])',
      (all) => all.map((panel) => panel.getAttribute('data-group')),
    );
    const expected = summary.groups.filter(
      (g) => g.measurement === withCurves && g.levels[factor ?? ''] === level,
    );
    expect(shown).toEqual(expected.map((group) => group.id));
  });

  it('sorts within each group, up, down and back', async () => {
    const rows = (): Promise<string[]> =>
      page.$$eval('.bench:not([hidden]) tbody[data-group]:first-of-type tr[data-row]', (all) =>
        all.map((row) => row.getAttribute('data-row') ?? ''),
      );
    const medians = (ids: string[]): number[] =>
      ids.flatMap(
        (id) => summary.cells.find((c) => c.id === id)?.latency?.quantiles[0]?.value_ns ?? [],
      );
    const before = await rows();
    const button = '.bench:not([hidden]) [data-sort="median"]';
    await page.click(button);
    const up = medians(await rows());
    expect(up).toEqual([...up].sort((a, b) => a - b));
    await page.click(button);
    const down = medians(await rows());
    expect(down).toEqual([...down].sort((a, b) => b - a));
    expect(await page.getAttribute(`th:has(> [data-sort="median"])`, 'aria-sort')).toBe(
      'descending',
    );
    await page.click(button);
    expect(await rows()).toEqual(before);
  });

  it('leads from a note to its cell and highlights it', async () => {
    await unfold(page);
    const chip = page.locator('[data-chip]').first();
    if ((await chip.count()) === 0) return;
    const id = (await chip.getAttribute('data-chip')) ?? '';
    await chip.click();
    await settle(page);
    expect(await chip.getAttribute('aria-pressed')).toBe('true');
    const cell = summary.cells.find((c) => c.id === id);
    expect(await page.locator('.bench:not([hidden])').getAttribute('data-measurement')).toBe(
      cell?.measurement,
    );
    await page.waitForTimeout(200);
    const lit = await page.$$eval(
      '.bench:not([hidden]) .panel:not([hidden]) svg .series[data-series]',
      (all) =>
        all
          .filter((g) => Number(getComputedStyle(g).opacity) > 0.5)
          .map((g) => g.getAttribute('data-cell')),
    );
    expect(new Set(lit)).toEqual(new Set([id]));
    await page.keyboard.press('Escape');
    await settle(page);
    expect(await chip.getAttribute('aria-pressed')).toBe('false');
  });

  it('hands out the numbers: CSV and summary.json', async () => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.click('.bench:not([hidden]) [data-action="csv"]');
    await page.waitForFunction(
      () => document.querySelector('.bench:not([hidden]) .tools [role=status]')?.textContent,
    );
    const csv = await page.evaluate(() => navigator.clipboard.readText());
    expect(csv.trim().split(/\r?\n/)).toHaveLength(summary.cells.length + 1);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.click('.bench:not([hidden]) [data-action="json"]'),
    ]);
    expect(download.suggestedFilename()).toBe('summary.json');
    const saved = JSON.parse(readFileSync(await download.path(), 'utf8')) as unknown;
    expect(saved).toEqual(summary);
    // The download is a blob of the page's own: no request left the browser.
    opened.complaints.splice(
      0,
      opened.complaints.length,
      ...opened.complaints.filter((c) => !c.includes('blob:')),
    );
  });
});

describe('on a phone', () => {
  it.each([360, 390])('fits %i pixels, in every measurement', async (width) => {
    const { page, complaints } = await session.open(html, {
      viewport: { width, height: 800 },
      hasTouch: true,
      isMobile: true,
      deviceScaleFactor: 2,
    });
    for (const { name } of summary.measurements) {
      await choose(page, name);
      const over = await page.evaluate(
        () => document.documentElement.scrollWidth - window.innerWidth,
      );
      expect(over, name).toBeLessThanOrEqual(0);
    }
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it('reads off where a finger taps, and keeps it', async () => {
    if (withCurves === undefined) return;
    const { page } = await session.open(html, {
      viewport: { width: 390, height: 800 },
      hasTouch: true,
      isMobile: true,
    });
    await choose(page, withCurves);
    const at = (): Promise<string | null> =>
      page
        .locator('.bench:not([hidden]) [data-readout="percentiles"] [data-at]')
        .first()
        .getAttribute('data-at');
    const before = await at();
    const canvas = page.locator('.bench:not([hidden]) [data-panel="percentiles"] .canvas').first();
    await canvas.evaluate((element) => element.scrollIntoView({ block: 'center' }));
    await canvas.tap({ position: { x: 150, y: 120 } });
    await settle(page);
    expect(await at()).not.toBe(before);
    await page.context().close();
  });
});

describe('light, dark and paper', () => {
  const background = (page: Page): Promise<number> =>
    page.evaluate(() => {
      const channels =
        getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g) ?? [];
      return channels.slice(0, 3).reduce((sum, v) => sum + Number(v), 0) / 3;
    });

  it('follows the system, and the button overrules it', async () => {
    const { page, complaints } = await session.open(html, { colorScheme: 'dark' });
    expect(await background(page)).toBeLessThan(60);
    const color = (): Promise<string> =>
      page.evaluate(() =>
        getComputedStyle(document.documentElement).getPropertyValue('--series-0'),
      );
    const dark = await color();
    await page.click('[data-action="theme"]');
    expect(await background(page)).toBeGreaterThan(200);
    expect(await color()).not.toBe(dark);
    await page.click('[data-action="theme"]');
    expect(await background(page)).toBeLessThan(60);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it('prints light, everything open, without controls', async () => {
    const { page, complaints } = await session.open(html, { colorScheme: 'dark' });
    await page.evaluate(() => window.dispatchEvent(new Event('beforeprint')));
    await page.emulateMedia({ media: 'print' });
    expect(await background(page)).toBeGreaterThan(200);
    expect(await page.locator('.controls').isVisible()).toBe(false);
    for (const { name } of summary.measurements) {
      expect(
        await page.locator(`.bench[data-measurement=${JSON.stringify(name)}]`).isVisible(),
      ).toBe(true);
    }
    expect(await page.locator('details:not([open])').count()).toBe(0);
    const pdf = await page.pdf({ format: 'A4' });
    expect(pdf.subarray(0, 5).toString()).toBe('%PDF-');
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});

describe('layout', () => {
  it('reserves the room of plots before they are drawn: nothing jumps', async () => {
    // The page draws later what is outside the window; here, not before it is told to.
    const { page } = await session.open(html, {}, () => {
      const real = window.setTimeout.bind(window);
      const waiting: (() => void)[] = [];
      const held = (job: () => void): number => waiting.push(job);
      Object.assign(window, {
        setTimeout: held,
        release: () => {
          Object.assign(window, { setTimeout: real });
          for (const job of waiting) job();
        },
      });
    });
    const height = (): Promise<number> =>
      page.evaluate(() => document.documentElement.scrollHeight);
    const drawn = (): Promise<number> => page.locator('.bench:not([hidden]) svg.plot').count();
    const [early, few] = [await height(), await drawn()];
    await page.evaluate(() => (window as unknown as { release: () => void }).release());
    await settle(page);
    expect(await drawn()).toBeGreaterThan(few);
    expect(Math.abs((await height()) - early)).toBeLessThanOrEqual(1);
    await page.context().close();
  });
});
