// Is every series drawn, and drawn with the right numbers? Points are mapped back through the axes
// and compared with the summary in the page. Runs on the fixture or on a real report.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import * as format from '../../src/format';
import type { Cell, Summary } from '../../src/summary';
import {
  drawnMetrics,
  drawnSeries,
  valueAt,
  type Axis,
  type DrawnSeries,
  type Point,
} from './drawn';
import { choose, reportUnderTest, Session, unfold, type Opened } from './session';

const { html, summary } = reportUnderTest();
const session = new Session();
let opened: Opened;

beforeAll(async () => {
  await session.start();
  opened = await session.open(html);
});
afterAll(() => session.stop());

const cellsOf = (measurement: string): Cell[] => {
  const listed = new Set(
    summary.groups.filter((g) => g.measurement === measurement).flatMap((g) => g.cells),
  );
  return summary.cells.filter((cell) => listed.has(cell.id));
};

/** Paths are written with three decimals of a pixel; this is what half a digit more amounts to. */
function tolerance(axis: Axis, value: number): number {
  const pixels = Math.abs(axis.range[1] - axis.range[0]);
  const share = 0.002 / pixels;
  const [low, high] = axis.domain;
  if (axis.type === 'log') return value * ((high / low) ** share - 1) + 1e-9;
  return (high - low) * share + 1e-9;
}

function expectPoints(drawn: DrawnSeries, points: Point[], expected: Point[]): void {
  const { x, y } = drawn as { x: Axis; y: Axis };
  expect(points.length, `points of ${drawn.plot} ${drawn.cell}`).toBe(expected.length);
  points.forEach(([px, py], i) => {
    const [ex, ey] = expected[i] as Point;
    expect(Math.abs(valueAt(x, px) - ex), `x of point ${i}`).toBeLessThanOrEqual(tolerance(x, ex));
    expect(Math.abs(valueAt(y, py) - ey), `y of point ${i}`).toBeLessThanOrEqual(tolerance(y, ey));
  });
}

describe.each(summary.measurements.map((m) => m.name))('%s', (measurement) => {
  const cells = cellsOf(measurement);
  beforeAll(() => choose(opened.page, measurement));

  it('draws every percentile curve', async () => {
    const drawn = await drawnSeries(opened.page, 'percentiles');
    const expected = cells.filter((cell) => cell.latency);
    expect(drawn.map((s) => s.cell).sort()).toEqual(expected.map((cell) => cell.id).sort());
    for (const series of drawn) {
      const latency = cells.find((cell) => cell.id === series.cell)?.latency;
      if (!latency) continue;
      const sound = series.paths['sound'] ?? [];
      const thin = series.paths['thin'] ?? [];
      // The two parts meet at `curve_sound_to`, a point that the summary does not list.
      const listed = latency.curve;
      const isListed = listed.some(([x]) => x === latency.curve_sound_to);
      const both = sound.length > 0 && thin.length > 0;
      const joined = both
        ? [...sound.slice(0, isListed ? undefined : -1), ...thin.slice(1)]
        : [...sound, ...thin];
      if (listed.length < 2) continue;
      expectPoints(series, joined, listed);
      if (both && series.x) {
        const meeting = valueAt(series.x, (thin[0] as Point)[0]);
        expect(Math.abs(meeting / latency.curve_sound_to - 1)).toBeLessThan(1e-3);
      }
    }
  });

  it('draws every CDF', async () => {
    const drawn = await drawnSeries(opened.page, 'cdf');
    const expected = cells.filter((cell) => (cell.latency?.cdf.length ?? 0) > 1);
    expect(drawn.map((s) => s.cell).sort()).toEqual(expected.map((cell) => cell.id).sort());
    for (const series of drawn) {
      const cdf = cells.find((cell) => cell.id === series.cell)?.latency?.cdf ?? [];
      expectPoints(series, series.paths['all'] ?? [], cdf);
    }
  });

  it('draws a box for every trial', async () => {
    if (!cells.some((cell) => cell.latency)) return;
    const drawn = await drawnSeries(opened.page, 'boxes');
    const trials = trialsOf(summary, cells);
    expect(drawn.map((s) => s.trial).sort(byNumber)).toEqual(
      trials.map((t) => t.trial).sort(byNumber),
    );
    for (const series of drawn) {
      const trial = trials.find((t) => t.trial === series.trial);
      expect(series.overloaded).toBe(trial?.overloaded);
      expect(series.cell).toBe(trial?.cell);
      if (trial?.failed !== undefined || !trial?.spread_ns) {
        expect(series.failed).toBe(true);
        continue;
      }
      const y = series.y as Axis;
      for (const name of ['median', 'q1', 'q3'] as const) {
        const value = valueAt(y, series.box?.[name] ?? NaN);
        const expected = trial.spread_ns[name];
        // A box is at least a pixel high.
        const slack = tolerance(y, expected) * (name === 'q1' ? 600 : 1);
        expect(Math.abs(value - expected), `${name} of trial ${trial.trial}`).toBeLessThanOrEqual(
          slack,
        );
      }
    }
  });

  it('draws the time series of every trial', async () => {
    const drawn = await drawnSeries(opened.page, 'series');
    const trials = trialsOf(summary, cells);
    expect(drawn.map((s) => s.trial).sort(byNumber)).toEqual(
      trials.map((t) => t.trial).sort(byNumber),
    );
    for (const series of drawn) {
      const trial = trials.find((t) => t.trial === series.trial);
      const expected = (trial?.series ?? []).map(([t, , median]): Point => [t, median]);
      // A single bucket makes a path without a line.
      if (expected.length > 1) expectPoints(series, series.paths['median'] ?? [], expected);
      expect(series.failed).toBe(trial?.failed !== undefined);
    }
  });

  it('draws every value of every metric', async () => {
    const drawn = await drawnMetrics(opened.page);
    const near = (axis: Axis, pixel: number, value: number): void =>
      expect(Math.abs(valueAt(axis, pixel) - value)).toBeLessThanOrEqual(tolerance(axis, value));
    for (const cell of cells) {
      for (const metric of cell.metrics) {
        const row = drawn.find((r) => r.cell === cell.id && r.metric === metric.name);
        expect(row, `${metric.name} of ${cell.id}`).toBeDefined();
        if (!row) continue;
        expect(row.values).toHaveLength(metric.values.length);
        metric.values.forEach((value, i) => near(row.axis, row.values[i] ?? NaN, value));
        if (metric.values.length > 0) near(row.axis, row.median ?? NaN, metric.spread.median);
      }
    }
  });

  it('tabulates every cell, and says where samples are missing', async () => {
    const rows = await opened.page.$$eval('.bench:not([hidden]) tr[data-row]', (elements) =>
      elements.map((row) => ({
        cell: row.getAttribute('data-row'),
        columns: Object.fromEntries(
          [...row.querySelectorAll('td')].map((td) => [
            td.dataset['column'] ?? '',
            td.textContent ?? '',
          ]),
        ),
      })),
    );
    expect(rows.map((row) => row.cell).sort()).toEqual(cells.map((cell) => cell.id).sort());
    for (const { cell: id, columns } of rows) {
      const cell = cells.find((c) => c.id === id) as Cell;
      for (const { p, value_ns, needed } of cell.latency?.quantiles ?? []) {
        const text = columns[p === 0.5 ? 'median' : format.percentileName(p)];
        if (text === undefined)
          expect(value_ns, 'a column is left out only if empty').toBeUndefined();
        else if (value_ns !== undefined) expect(text).toContain(format.duration(value_ns));
        else expect(text).toBe(`not enough samplesneeds ${format.count(needed)}`);
      }
      if (cell.comparison) expect(columns['ratio']).toContain(format.ratio(cell.comparison.ratio));
      for (const { of, ratio } of cell.comparison?.tails ?? []) {
        const text = columns[of];
        if (text !== undefined) expect(text).toContain(format.ratio(ratio));
      }
      if (cell.latency) expect(columns['sd']).toContain(format.duration(cell.latency.sd_ns));
      if (cell.latency) expect(columns['samples']).toContain(format.count(cell.latency.samples));
    }
  });
});

describe('the whole page', () => {
  it('answers for every compared cell', async () => {
    await unfold(opened.page);
    const answers = await opened.page.$$eval('[data-answer]', (items) =>
      items.map((item): [string | null, string] => [
        item.getAttribute('data-answer'),
        item.querySelector('.figure strong')?.textContent ?? '',
      ]),
    );
    const figures = new Map(answers);
    for (const { id, comparison } of summary.cells) {
      if (comparison) expect(figures.get(id)).toBe(format.ratio(comparison.ratio));
    }
  });

  it('draws every node and link of every lab, with its addresses', async () => {
    await unfold(opened.page);
    const labs = await opened.page.$$eval('[data-topology]', (figures) =>
      figures.map((figure) => ({
        nodes: [...figure.querySelectorAll('[data-node]')].map((n) => n.getAttribute('data-node')),
        links: [...figure.querySelectorAll('[data-link]')].map((n) => n.getAttribute('data-link')),
        text: figure.textContent ?? '',
      })),
    );
    expect(labs).toHaveLength(summary.topologies.length);
    summary.topologies.forEach((topology, i) => {
      expect(labs[i]?.nodes.sort()).toEqual(topology.nodes.map((node) => node.name).sort());
      for (const link of topology.links) {
        expect(labs[i]?.links).toContain(link.name);
        for (const address of link.endpoints.flatMap((end) => end.addresses)) {
          expect(labs[i]?.text).toContain(address);
        }
      }
    });
  });

  it('lists every trial in the order of running, and every check', async () => {
    const order = await opened.page.$$eval('[data-plot="order"]', (items) =>
      items.map((item) => Number(item.getAttribute('data-trial'))),
    );
    expect(order).toEqual(summary.trials.map((trial) => trial.trial));
    const text = (await opened.page.textContent('#method')) ?? '';
    for (const check of summary.trials.flatMap((trial) => trial.checks)) {
      expect(text).toContain(check.question);
    }
    expect(text).not.toMatch(/NaN|undefined|Infinity/);
  });

  it('shows every note with its cells', async () => {
    const notes = await opened.page.$$eval('.note', (items) =>
      items.map((item) => ({
        text: item.textContent ?? '',
        cells: [...item.querySelectorAll('[data-chip]')].map((chip) =>
          chip.getAttribute('data-chip'),
        ),
      })),
    );
    for (const note of summary.notes) {
      const shown = notes.find((item) => item.text.includes(note.text));
      expect(shown?.cells).toEqual(note.cells);
    }
  });

  it('offers the test seam', async () => {
    const cell = summary.cells.find((c) => (c.latency?.curve.length ?? 0) > 1);
    const seen = await opened.page.evaluate(
      (id) => ({
        format: window.latlab?.summary.format,
        first: window.latlab?.valueAt(id, 0),
        nowhere: window.latlab?.valueAt('no such cell', 0.5),
        visible: window.latlab?.visible(id),
      }),
      cell?.id ?? '',
    );
    expect(seen.format).toBe('latlab.summary/1');
    expect(seen.nowhere).toBeNull();
    if (cell?.latency?.curve[0]?.[0] === 1) expect(seen.first).toBe(cell.latency.curve[0][1]);
    expect(seen.visible).toBe(cell !== undefined);
  });

  it('is quiet: no error, no request', () => {
    expect(opened.complaints).toEqual([]);
  });
});

function trialsOf(all: Summary, cells: Cell[]): Summary['trials'] {
  const ids = new Set(cells.map((cell) => cell.id));
  return all.trials.filter((trial) => ids.has(trial.cell));
}

function byNumber(a: number | null, b: number | null): number {
  return (a ?? 0) - (b ?? 0);
}
