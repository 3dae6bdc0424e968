// The slowest packets: is every one drawn where its time and its latency say, in the colour of its
// first cause, and does a click open that packet and no other? Runs on the fixture or on a real report.

import type { Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import type { Tail } from '../../src/summary';
import { valueAt, type Axis, type Point } from './drawn';
import { choose, reportUnderTest, Session, settle, type Opened } from './session';

const { html, summary } = reportUnderTest();
const session = new Session();
const tails = summary.tails ?? [];
const explained = tails.filter((tail) => tail.worst.length > 0);

beforeAll(() => session.start());
afterAll(() => session.stop());

const measurementOf = (tail: Tail): string =>
  summary.cells.find((cell) => cell.id === tail.cell)?.measurement ?? '';

describe.runIf(explained.length > 0)('the slowest packets', () => {
  let opened: Opened;
  let page: Page;
  const first = explained[0] as Tail;
  beforeEach(async () => {
    opened = await session.open(html);
    page = opened.page;
    await choose(page, measurementOf(first));
  });
  afterEach(async () => {
    expect(opened.complaints).toEqual([]);
    await page.context().close();
  });

  const panel = (tail: Tail): Locator =>
    page.locator(
      `.bench:not([hidden]) .panel.slow[data-cell=${JSON.stringify(tail.cell)}][data-device=${JSON.stringify(tail.device)}]`,
    );

  interface Drawn {
    trial: number;
    kind: string;
    points: Point[];
    x: Axis;
    y: Axis;
  }

  const drawn = (tail: Tail): Promise<Drawn[]> =>
    panel(tail).evaluate((element) => {
      const pair = (from: Element, name: string): [number, number] =>
        (from.getAttribute(name) ?? '').split(' ').map(Number) as [number, number];
      const axis = (from: Element, which: string) => ({
        type: from.getAttribute(`data-${which}-type`) ?? '',
        domain: pair(from, `data-${which}-domain`),
        range: pair(from, `data-${which}-range`),
      });
      return [...element.querySelectorAll('.scatter path[data-kind]')].map((path) => {
        const segment = path.closest('[data-trial]') as Element;
        const all = (path.getAttribute('d') ?? '').matchAll(/M(-?[\d.]+) (-?[\d.]+)/g);
        return {
          trial: Number(segment.getAttribute('data-trial')),
          kind: path.getAttribute('data-kind') ?? '',
          points: [...all].map(([, x, y]): [number, number] => [Number(x), Number(y)]),
          x: axis(segment, 'x'),
          y: axis(segment.closest('svg') as Element, 'y'),
        };
      });
    });

  const inOrder = (points: Point[]): Point[] =>
    [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);

  it('draws every packet at its time and latency, in its cause’s colour', async () => {
    for (const tail of explained.filter((one) => measurementOf(one) === measurementOf(first))) {
      let count = 0;
      for (const { trial, kind, points, x, y } of await drawn(tail)) {
        const expected = tail.worst.filter(
          (packet) => packet[0] === trial && tail.causes[packet[5]]?.kind === kind,
        );
        const pixel = (packet: Tail['worst'][number]): Point => [
          packet[3] / 1e9,
          Math.log(packet[4]),
        ];
        const want = inOrder(expected.map(pixel));
        const have = inOrder(
          points.map(([px, py]) => [valueAt(x, px), Math.log(valueAt(y, py))] as Point),
        );
        expect(have.length, `${kind} of trial ${trial}`).toBe(want.length);
        count += have.length;
        // Coordinates have two decimals of a pixel.
        const slackX = ((x.domain[1] - x.domain[0]) * 0.006) / (x.range[1] - x.range[0]);
        const height = Math.abs(y.range[1] - y.range[0]);
        const slackY = (Math.log(y.domain[1] / y.domain[0]) * 0.006) / height;
        // In units of that; the nearest, because marks of a queue stand closer than a pixel.
        const away = (a: Point, b: Point): number =>
          Math.max(Math.abs(a[0] - b[0]) / slackX, Math.abs(a[1] - b[1]) / slackY);
        const left = [...have];
        for (const point of want) {
          let at = 0;
          for (let i = 1; i < left.length; i++) {
            const [one, best] = [left[i] as Point, left[at] as Point];
            if (away(one, point) < away(best, point)) at = i;
          }
          const distance = away(left[at] as Point, point);
          expect(distance, `a mark at ${point.join(', ')}`).toBeLessThanOrEqual(1.5);
          left.splice(at, 1);
        }
      }
      expect(count, tail.device).toBe(tail.worst.length);
    }
  });

  it('opens the packet that is clicked, with every slice to the nanosecond', async () => {
    const tail = first;
    await panel(tail).locator('.scatter').scrollIntoViewIfNeeded();
    const all = await drawn(tail);
    // A mark that stands apart, so that there is no doubt which is meant.
    const spots = all.flatMap(({ trial, kind, points, x, y }) =>
      points.map((point) => ({ trial, kind, point, x, y })),
    );
    const gap = ({ point }: (typeof spots)[number]): number =>
      Math.min(
        ...spots
          .filter((other) => other.point !== point)
          .map((other) => Math.hypot(other.point[0] - point[0], other.point[1] - point[1])),
      );
    const apart = spots.filter((spot) => gap(spot) > 6).slice(0, 12);
    expect(apart.length).toBeGreaterThan(0);
    for (const { trial, kind, point, x, y } of apart) {
      const time = valueAt(x, point[0]);
      const latency = valueAt(y, point[1]);
      const near = (packet: Tail['worst'][number]): number =>
        Math.abs(packet[3] / 1e9 - time) / (x.domain[1] - x.domain[0]) +
        Math.abs(Math.log(packet[4] / latency));
      const packet = tail.worst
        .filter((one) => one[0] === trial && tail.causes[one[5]]?.kind === kind)
        .reduce((a, b) => (near(a) <= near(b) ? a : b));
      const svg = panel(tail).locator('.scatter svg');
      const box = (await svg.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
      await page.mouse.click(box.x + point[0], box.y + point[1]);
      await settle(page);
      const shown = panel(tail).locator('.timeline .packet');
      expect(await shown.getAttribute('data-seq')).toBe(String(packet[2]));
      expect(await shown.getAttribute('data-trial')).toBe(String(trial));
      const slices = await shown
        .locator('.slice')
        .evaluateAll((bars) =>
          bars.map((bar) => [
            bar.getAttribute('data-kind'),
            Number(bar.getAttribute('data-from')),
            Number(bar.getAttribute('data-ns')),
          ]),
        );
      let from = 0;
      const expected = packet[9].map(([cause, ns]) => {
        const slice = [tail.causes[cause]?.kind, from, ns];
        from += ns;
        return slice;
      });
      expect(slices).toEqual(expected);
      // A packet without slices is one that the page had no room for.
      if (expected.length > 0) expect(from, 'the slices are the whole').toBe(packet[4]);
    }
  });

  it('says what a piece is made of that several were joined into', async () => {
    const packet = first.worst[0] as Tail['worst'][number];
    const joined = packet[9].findIndex((piece) => (piece[3] ?? []).length > 0);
    const parts = packet[9][joined]?.[3] ?? [];
    const shown = panel(first).locator('.timeline .packet');
    const title = await shown.locator('.slice').nth(joined).locator('title').textContent();
    const line = await shown.locator('.slices li').nth(joined).textContent();
    expect(parts.length).toBeGreaterThan(1);
    for (const [cause] of parts) {
      expect(title).toContain(first.causes[cause]?.name);
      expect(line).toContain(first.causes[cause]?.name);
    }
  });

  it('draws the slices and CPUs of a packet to scale', async () => {
    const packet = first.worst[0] as Tail['worst'][number];
    const shown = panel(first).locator('.timeline .packet');
    const { x, bars } = await shown
      .locator('svg')
      .first()
      .evaluate((svg) => {
        const plot = svg.closest('.packet')?.querySelector('svg.plot') as Element;
        const pair = (name: string): [number, number] =>
          (plot.getAttribute(name) ?? '').split(' ').map(Number) as [number, number];
        return {
          x: { type: 'linear', domain: pair('data-x-domain'), range: pair('data-x-range') },
          bars: [...plot.querySelectorAll('.slice rect')].map((rect) => [
            Number(rect.getAttribute('x')),
            Number(rect.getAttribute('width')),
          ]),
        };
      });
    expect(x.domain).toEqual([0, packet[4]]);
    let from = 0;
    packet[9].forEach(([, ns], i) => {
      const [left, width] = bars[i] as [number, number];
      const pixel = packet[4] / (x.range[1] - x.range[0]);
      expect(Math.abs(valueAt(x, left) - from)).toBeLessThanOrEqual(pixel * 0.02);
      // A slice is at least a pixel wide.
      if (width > 1) expect(Math.abs(width * pixel - ns)).toBeLessThanOrEqual(pixel * 0.02);
      else expect(ns).toBeLessThanOrEqual(pixel * 1.02);
      from += ns;
    });
    const stretch = packet[8] === null ? undefined : first.stretches[packet[8]];
    const cpus = await shown
      .locator('.lane')
      .evaluateAll((lanes) => lanes.map((lane) => Number(lane.getAttribute('data-cpu'))));
    expect(cpus).toEqual(stretch?.lanes.map((lane) => lane.cpu) ?? []);
  });

  it('draws the latency of every device where several stand in a row', async () => {
    const mine = tails.filter((tail) => measurementOf(tail) === measurementOf(first));
    const chains = mine.filter((tail) => mine.some((o) => o !== tail && o.cell === tail.cell));
    const shown = await page.evaluate(() => {
      const pair = (from: Element, name: string): [number, number] =>
        (from.getAttribute(name) ?? '').split(' ').map(Number) as [number, number];
      return [...document.querySelectorAll('.bench:not([hidden]) .panel.hops .hop')].map((g) => {
        const svg = g.closest('svg') as Element;
        const axis = (which: string) => ({
          type: 'log',
          domain: pair(svg, `data-${which}-domain`),
          range: pair(svg, `data-${which}-range`),
        });
        const d = g.querySelector('path')?.getAttribute('d') ?? '';
        return {
          cell: g.closest('.panel')?.getAttribute('data-cell'),
          device: g.getAttribute('data-device'),
          x: axis('x'),
          y: axis('y'),
          points: (d.match(/-?[\d.]+(?:e-?\d+)?/g) ?? []).map(Number),
        };
      });
    });
    expect(shown.length).toBe(chains.length);
    for (const tail of chains) {
      const one = shown.find((hop) => hop.cell === tail.cell && hop.device === tail.device);
      expect(one?.points.length).toBe(tail.curve.length * 2);
      if (!one) continue;
      tail.curve.forEach(([x, ns], i) => {
        expect(valueAt(one.x, one.points[2 * i] ?? NaN) / x).toBeCloseTo(1, 2);
        expect(valueAt(one.y, one.points[2 * i + 1] ?? NaN) / ns).toBeCloseTo(1, 2);
      });
    }
  });

  it('is walked with the keyboard', async () => {
    const canvas = panel(first).locator('.scatter');
    const rank = (): Promise<string | null> =>
      panel(first).locator('.timeline .packet').getAttribute('data-rank');
    await canvas.focus();
    await page.keyboard.press('Home');
    expect(await rank()).toBe('0');
    await page.keyboard.press('ArrowDown');
    expect(await rank()).toBe('1');
    await page.keyboard.press('ArrowUp');
    expect(await rank()).toBe('0');
    await page.keyboard.press('ArrowRight');
    const later = Number(await rank());
    const place = (index: number): number => {
      const packet = first.worst[index] as Tail['worst'][number];
      return first.trials.indexOf(packet[0]) * 1e12 + packet[3];
    };
    expect(place(later)).toBeGreaterThanOrEqual(place(0));
    await page.keyboard.press('Escape');
    expect(await panel(first).locator('.timeline .packet').count()).toBe(0);
  });

  it('hides a kind of cause by its legend entry in every panel, and shows it again', async () => {
    const before = await drawn(first);
    const kind = before[0]?.kind ?? '';
    const button = panel(first).locator(`.kinds [data-kind=${JSON.stringify(kind)}]`);
    await button.focus();
    await page.keyboard.press('Enter');
    await settle(page);
    for (const tail of explained.filter((one) => measurementOf(one) === measurementOf(first))) {
      expect((await drawn(tail)).map((one) => one.kind)).not.toContain(kind);
    }
    expect(await button.getAttribute('aria-pressed')).toBe('false');
    expect(await button.evaluate((one) => one === document.activeElement)).toBe(true);
    await page.keyboard.press('Enter');
    await settle(page);
    expect((await drawn(first)).length).toBe(before.length);
  });

  it('tabulates the blame, the counters and what the taps themselves show', async () => {
    for (const tail of explained.filter((one) => measurementOf(one) === measurementOf(first))) {
      const rows = await panel(tail)
        .locator('.blame tbody tr')
        .evaluateAll((all) =>
          all.map((tr) => ({
            cause: tr.getAttribute('data-cause'),
            shares: [...tr.querySelectorAll('[data-share]')].map((td) =>
              Number(td.getAttribute('data-share')),
            ),
            knobs: [...tr.querySelectorAll('code')].map((code) => code.textContent),
          })),
        );
      for (const row of rows) {
        const index = tail.causes.findIndex((cause) => cause.name === row.cause);
        const share = (i: number): number =>
          tail.blames[i]?.rows.find((one) => one.cause === index)?.share ?? 0;
        expect(row.shares).toEqual(tail.blames.map((_, i) => share(i)));
        expect(row.knobs).toEqual(tail.causes[index]?.knobs ?? []);
      }
      const shown = tail.blames.map((blame, i) => {
        const total = rows.reduce((sum, row) => sum + (row.shares[i] ?? 0), 0);
        return [blame.quantile, total];
      });
      for (const [quantile, total] of shown) expect(total, `${quantile}`).toBeGreaterThan(0.97);
      const text = (await panel(tail).locator('.tapped').innerText()).replace(/\s+/g, ' ');
      expect(text).toContain(tail.before);
      for (const unknown of tail.unknown) expect(text).toContain(unknown);
      const lost = await panel(tail).locator('[data-count="lost"]').innerText();
      expect(lost.replace(/\D/g, '')).toBe(String(tail.counters.lost));
      const ruler = await panel(tail).locator('[data-ruler]').innerText();
      expect(ruler).toMatch(tail.ruler ? /median .* p99\.99 / : /not measured/);
    }
  });

  it('draws where in its code the device was', async () => {
    const tail = tails.find((one) => one.code && one.worst.length > 0);
    if (!tail?.code) return;
    await choose(page, measurementOf(tail));
    const drawn = await panel(tail)
      .locator('.flame')
      .evaluateAll((all) =>
        all.map((one) => ({
          name: one.getAttribute('data-function'),
          slow: Number(one.getAttribute('data-slow')),
          title: one.querySelector('title')?.textContent,
        })),
      );
    const { code } = tail;
    expect(drawn.map((one) => one.name)).toEqual(code.functions.map(([name]) => name));
    code.functions.forEach(([name, , slow], place) => {
      expect(drawn[place]?.slow).toBeCloseTo(slow / Math.max(1, code.slow), 9);
      expect(drawn[place]?.title).toContain(`${name}: `);
    });
  });
});
