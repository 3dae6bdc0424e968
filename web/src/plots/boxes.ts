// Box plots of replicates: one box a trial (5th to 95th percentile, quartiles, median), grouped by cell. Whether replicates agree is what every comparison stands on.
// Overloaded trials carry a triangle, failed ones a cross where their box would stand.

import { logDomain, logTicks, type AxisSpec } from '../axis';
import { h, s } from '../dom';
import { duration, durationRange, durationTick } from '../format';
import { cellsOf, type MeasurementView } from '../model';
import type { Cell, Group, Spread, TrialSummary } from '../summary';
import { frame, type Frame } from './frame';
import { caption, cellData, cellStyle, visibleCells, type Context, type Panel } from './panel';
import { trialName } from './marks';

const HEIGHT = 280;
const HINT = 'Each box is one trial. Point at one to read it.';

export function boxPanel(context: Context, group: Group, axis: () => AxisSpec): Panel {
  const canvas = h('div', { class: 'canvas' });
  const readout = h('p', { class: 'readout line', 'data-readout': 'boxes' }, HINT);
  const element = h(
    'figure',
    { class: 'panel', 'data-panel': 'boxes', 'data-group': group.id },
    caption(group),
    canvas,
    readout,
  );
  const point = (event: Event): void => {
    const box = (event.target as Element).closest('[data-trial]');
    const number = Number(box?.getAttribute('data-trial'));
    const trial = context.model.summary.trials.find((t) => t.trial === number);
    if (box && trial) readout.textContent = describe(context, trial);
  };
  canvas.addEventListener('pointerover', point);
  canvas.addEventListener('click', point);
  return {
    element,
    canvas,
    group,
    height: () => HEIGHT,
    draw(width): void {
      const drawn = frame({
        plot: 'boxes',
        group: group.id,
        label: `Latency of each trial, ${group.title}`,
        width,
        height: HEIGHT,
        x: null,
        y: axis(),
        margin: { bottom: 34 },
      });
      drawCells(context, drawn, visibleCells(context, group));
      canvas.replaceChildren(drawn.svg);
    },
  };
}

function describe({ model }: Context, trial: TrialSummary): string {
  const name = trialName(model, trial);
  if (trial.failed !== undefined) return `${name}: failed, ${trial.failed}`;
  const box = trial.spread_ns;
  if (!box) return `${name}: no samples`;
  const parts = [
    `median ${duration(box.median)}`,
    `middle half ${durationRange([box.q1, box.q3])}`,
    `5–95 % ${durationRange([box.p5, box.p95])}`,
    `range ${duration(box.min)} to ${duration(box.max)}`,
  ];
  if (trial.overloaded) parts.push('overloaded');
  return `${name}: ${parts.join(', ')}`;
}

/** The axis that all groups share. */
export function boxAxis(context: Context, measurement: MeasurementView, groups: Group[]): AxisSpec {
  let cells = groups.flatMap((group) => visibleCells(context, group));
  if (cells.length === 0) cells = groups.flatMap((group) => cellsOf(context.model, group));
  const values = cells.flatMap((cell) =>
    (context.model.trials.get(cell.id) ?? []).flatMap(({ spread_ns: box }) =>
      // Not the extremes: the percentile plot has those, and they would press the boxes flat.
      box ? [box.p5, box.p95] : [],
    ),
  );
  const meaning = measurement.info.latency;
  return {
    type: 'log',
    domain: logDomain(values),
    title: meaning ? `latency, ${meaning}` : 'latency',
    ticks: (domain, pixels) => logTicks(domain, pixels, durationTick, true),
  };
}

function drawCells(context: Context, drawn: Frame, cells: Cell[]): void {
  const { box } = drawn;
  const trialsOf = (cell: Cell): TrialSummary[] => context.model.trials.get(cell.id) ?? [];
  // One slot a trial and one between cells, so that boxes are equally wide everywhere.
  const slots = cells.reduce((sum, cell) => sum + Math.max(1, trialsOf(cell).length) + 1, 0);
  const slot = box.width / Math.max(6, slots);
  let at = box.left + slot / 2;
  for (const cell of cells) {
    const trials = trialsOf(cell);
    const from = at;
    for (const trial of trials) {
      drawn.marks.append(drawTrial(context, drawn, cell, trial, at + slot / 2, slot));
      at += slot;
    }
    if (trials.length === 0) at += slot;
    drawLabel(context, drawn, cell, from, at, slot);
    at += slot;
  }
}

/** The series' name under its boxes, cut to the room it has. */
function drawLabel(
  context: Context,
  drawn: Frame,
  cell: Cell,
  from: number,
  to: number,
  slot: number,
): void {
  const bottom = drawn.box.top + drawn.box.height;
  const label = context.model.seriesOf.get(cell.id)?.label ?? cell.label;
  const letters = Math.floor((to - from + slot) / 6.6);
  const text = label.length <= letters ? label : `${label.slice(0, Math.max(1, letters - 1))}…`;
  drawn.top.append(
    s('line', {
      class: 'bracket',
      style: cellStyle(context, cell),
      x1: from,
      x2: to,
      y1: bottom + 5,
      y2: bottom + 5,
    }),
    s(
      'text',
      { class: 'label', x: (from + to) / 2, y: bottom + 21, 'text-anchor': 'middle' },
      letters >= 2 ? text : '',
      s('title', {}, label),
    ),
  );
}

function drawTrial(
  context: Context,
  drawn: Frame,
  cell: Cell,
  trial: TrialSummary,
  centre: number,
  slot: number,
): SVGGElement {
  const g = s('g', {
    class: `series trial${trial.overloaded ? ' overloaded' : ''}`,
    ...cellData(context, 'boxes', cell, trial.trial),
    'data-overloaded': trial.overloaded || undefined,
    style: cellStyle(context, cell),
  });
  const { top, height } = drawn.box;
  // A column to point at, wider than the box itself.
  g.append(s('rect', { class: 'target', x: centre - slot / 2, y: top, width: slot, height }));
  if (trial.failed !== undefined || !trial.spread_ns) {
    const y = top + height - 9;
    g.setAttribute('data-failed', '');
    g.append(s('path', { class: 'cross', d: `M${centre - 4} ${y - 4}l8 8m0 -8l-8 8` }));
    return g;
  }
  g.append(...boxMarks(drawn, trial.spread_ns, centre, Math.min(26, slot * 0.72)));
  if (trial.overloaded) {
    g.append(
      s(
        'path',
        { class: 'warn', d: `M${centre} ${top + 2}l5 9h-10z` },
        s('title', {}, 'overloaded'),
      ),
    );
  }
  return g;
}

function boxMarks(drawn: Frame, spread: Spread, centre: number, width: number): SVGElement[] {
  const y = (ns: number): number => drawn.y(Math.max(ns, 1e-3));
  const half = width / 2;
  const vertical = (from: number, to: number): SVGElement =>
    s('line', { class: 'whisker', x1: centre, x2: centre, y1: y(from), y2: y(to) });
  return [
    vertical(spread.p5, spread.q1),
    vertical(spread.q3, spread.p95),
    s('rect', {
      class: 'box',
      x: centre - half,
      width,
      y: y(spread.q3),
      height: Math.max(1, y(spread.q1) - y(spread.q3)),
    }),
    s('line', {
      class: 'median',
      'data-median': spread.median,
      x1: centre - half,
      x2: centre + half,
      y1: y(spread.median),
      y2: y(spread.median),
    }),
  ];
}
