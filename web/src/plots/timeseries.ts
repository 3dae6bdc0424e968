// Time series of every run: one strip a cell, one segment a trial, in each a band from the smallest
// to the largest sample of every bucket and a line through the medians. Drift, warm-up and bursts
// show here, which no distribution shows.

import { bisectCenter } from 'd3-array';
import { area, line } from 'd3-shape';
import {
  drawYAxis,
  linearTicks,
  logDomain,
  logTicks,
  scaleOf,
  zeroDomain,
  type AxisSpec,
  type Box,
  type Domain,
} from '../axis';
import { h, s } from '../dom';
import { bitRate, duration, durationTick, participle, quantityTick, seconds } from '../format';
import { cellsOf, type MeasurementView } from '../model';
import type { ActionRecord, Cell, Group, TrialSummary } from '../summary';
import { caption, cellData, cellStyle, visibleCells, type Context, type Panel } from './panel';
import { trialName } from './marks';

const STRIP = 84;
const GAP = 26;
const LEFT = 56;
const HINT = 'Each segment is one trial. Point at one to read it.';

type Bucket = [number, number, number, number];

export function timePanel(
  context: Context,
  measurement: MeasurementView,
  group: Group,
  axis: () => AxisSpec,
): Panel {
  const canvas = h('div', { class: 'canvas' });
  const isActed = cellsOf(context.model, group).some((cell) =>
    (context.model.trials.get(cell.id) ?? []).some(({ actions }) => actions !== undefined),
  );
  const hint = isActed ? `${HINT} Grey: something was done to a node; dark: it stood still.` : HINT;
  const readout = h('p', { class: 'readout line', 'data-readout': 'series' }, hint);
  const element = h(
    'figure',
    { class: 'panel', 'data-panel': 'series', 'data-group': group.id },
    caption(group),
    canvas,
    readout,
  );
  const isStream = measurement.info.probe === 'stream';
  const point = (event: MouseEvent): void => {
    const segment = (event.target as Element).closest('[data-trial]');
    const text = segment ? read(context, segment, event, isStream) : null;
    if (text) readout.textContent = text;
  };
  canvas.addEventListener('pointermove', point);
  canvas.addEventListener('click', point);
  return {
    element,
    canvas,
    group,
    height: () => heightOf(visibleCells(context, group).length),
    draw: (width) => canvas.replaceChildren(drawStrips(context, group, axis(), width)),
  };
}

function heightOf(strips: number): number {
  return Math.max(1, strips) * (STRIP + GAP) + 6;
}

/** The axis that all groups share. */
export function timeAxis(
  context: Context,
  measurement: MeasurementView,
  groups: Group[],
): AxisSpec {
  let cells = groups.flatMap((group) => visibleCells(context, group));
  if (cells.length === 0) cells = groups.flatMap((group) => cellsOf(context.model, group));
  const values = cells.flatMap((cell) =>
    (context.model.trials.get(cell.id) ?? []).flatMap(({ series }) =>
      series.flatMap(([, low, , high]) => [low, high]),
    ),
  );
  if (measurement.info.probe === 'stream') {
    return {
      type: 'linear',
      domain: zeroDomain(values),
      title: '',
      ticks: (domain, pixels) => linearTicks(domain, pixels, (v) => quantityTick(v, 'bit/s'), 34),
    };
  }
  return {
    type: 'log',
    domain: logDomain(values, 0.04),
    title: '',
    ticks: (domain, pixels) => logTicks(domain, pixels, durationTick, true),
  };
}

function drawStrips(context: Context, group: Group, axis: AxisSpec, width: number): SVGSVGElement {
  const cells = visibleCells(context, group);
  const height = heightOf(cells.length);
  const svg = s('svg', {
    class: 'plot',
    role: 'img',
    'aria-label': `Time series of every trial, ${group.title}`,
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    'data-plot': 'series',
    'data-group': group.id,
    'data-y-type': axis.type,
    'data-y-domain': axis.domain.join(' '),
  });
  const longest = Math.max(
    1e-9,
    ...cells.flatMap((cell) =>
      (context.model.trials.get(cell.id) ?? []).map(
        ({ series }) => series[series.length - 1]?.[0] ?? 0,
      ),
    ),
  );
  cells.forEach((cell, i) => {
    const box = {
      left: LEFT,
      top: i * (STRIP + GAP) + GAP - 6,
      width: width - LEFT - 8,
      height: STRIP,
    };
    svg.append(drawStrip(context, cell, box, axis, longest));
  });
  return svg;
}

function drawStrip(
  context: Context,
  cell: Cell,
  box: Box,
  axis: AxisSpec,
  longest: number,
): SVGGElement {
  const yRange: Domain = [box.top + box.height, box.top];
  const y = scaleOf(axis.type, axis.domain, yRange);
  const g = s('g', {
    class: 'strip',
    style: cellStyle(context, cell),
    'data-strip': cell.id,
    'data-y-range': yRange.join(' '),
  });
  const label = context.model.seriesOf.get(cell.id)?.label ?? cell.label;
  g.append(
    drawYAxis(box, y, axis.ticks(axis.domain, box.height), ''),
    s('text', { class: 'label strong', x: box.left, y: box.top - 7 }, label),
  );
  const trials = context.model.trials.get(cell.id) ?? [];
  const slot = box.width / Math.max(1, trials.length);
  const gap = Math.min(6, slot * 0.1);
  trials.forEach((trial, i) => {
    const range: Domain = [box.left + i * slot + gap / 2, box.left + (i + 1) * slot - gap / 2];
    g.append(drawSegment(context, cell, trial, box, axis, range, longest));
  });
  return g;
}

function drawSegment(
  context: Context,
  cell: Cell,
  trial: TrialSummary,
  box: Box,
  axis: AxisSpec,
  range: Domain,
  longest: number,
): SVGGElement {
  const x = scaleOf('linear', [0, longest], range);
  const y = scaleOf(axis.type, axis.domain, [box.top + box.height, box.top]);
  const floor = axis.type === 'log' ? axis.domain[0] : 0;
  const at = (v: number): number => y(Math.max(v, floor));
  const g = s('g', {
    class: `series trial${trial.overloaded ? ' overloaded' : ''}`,
    ...cellData(context, 'series', cell, trial.trial),
    'data-x-domain': `0 ${longest}`,
    'data-x-range': range.join(' '),
    'data-failed': trial.failed !== undefined || undefined,
  });
  const room = { x: range[0], y: box.top, width: range[1] - range[0], height: box.height };
  g.append(s('rect', { class: 'target', ...room }));
  for (const action of trial.actions ?? []) {
    const band = (part: string, from: number, to: number): void => {
      const left = x(from / 1e9);
      const width = Math.max(1, x(to / 1e9) - left);
      const place = { ...room, x: left, width };
      g.append(s('rect', { ...place, class: part, 'data-part': part, 'data-node': action.node }));
    };
    band('action', action.asked_ns, action.done_ns);
    const { stopped_ns, running_ns } = action;
    if (stopped_ns !== undefined && running_ns !== undefined) band('stood', stopped_ns, running_ns);
  }
  if (trial.series.length > 0) {
    const buckets = trial.series as Bucket[];
    const band = area<Bucket>()
      .x(([t]) => x(t))
      .y0(([, low]) => at(low))
      .y1(([, , , high]) => at(high));
    const middle = line<Bucket>()
      .x(([t]) => x(t))
      .y(([, , median]) => at(median));
    g.append(
      s('path', { class: 'band', d: band(buckets) }),
      s('path', { class: 'curve sound', 'data-part': 'median', d: middle(buckets) }),
    );
  }
  const centre = (range[0] + range[1]) / 2;
  if (trial.overloaded)
    g.append(s('path', { class: 'warn', d: `M${range[1] - 7} ${box.top + 2}l5 9h-10z` }));
  if (trial.failed !== undefined) {
    const middle = box.top + box.height / 2;
    g.append(s('path', { class: 'cross', d: `M${centre - 4} ${middle - 4}l8 8m0 -8l-8 8` }));
  }
  return g;
}

/** Text for the pointer: the bucket of the trial nearest in time. */
function read(
  { model }: Context,
  segment: Element,
  event: MouseEvent,
  isStream: boolean,
): string | null {
  const number = Number(segment.getAttribute('data-trial'));
  const trial = model.summary.trials.find((t) => t.trial === number);
  const svg = segment.closest('svg');
  if (!trial || !svg) return null;
  const name = trialName(model, trial);
  if (trial.failed !== undefined) return `${name}: failed, ${trial.failed}`;
  const numbers = (attribute: string): Domain =>
    (segment.getAttribute(attribute) ?? '0 1').split(' ').map(Number) as Domain;
  const bounds = svg.getBoundingClientRect();
  const px = ((event.clientX - bounds.left) / bounds.width) * svg.viewBox.baseVal.width;
  const t = scaleOf('linear', numbers('data-x-domain'), numbers('data-x-range')).invert(px);
  const i = bisectCenter(
    trial.series.map((bucket) => bucket[0]),
    t,
  );
  const bucket = trial.series[i];
  if (!bucket) return `${name}: no series`;
  const [time, low, median, high] = bucket;
  const text = isStream
    ? bitRate(median)
    : `median ${duration(median)}, smallest ${duration(low)}, largest ${duration(high)}`;
  const acted = actionsOf(trial, t);
  return `${name} at ${seconds(time)}: ${text}${trial.overloaded ? ', overloaded' : ''}${acted}`;
}

/** Words for the actions of a trial: the one at this time, and what all of them did to the arrivals. */
function actionsOf({ actions, silence_ns }: TrialSummary, time: number): string {
  const ns = time * 1e9;
  const here = (actions ?? []).filter((a) => a.asked_ns <= ns && ns <= a.done_ns);
  const words = here.map((action) => {
    const still = stoodStill(action);
    const stood = still === undefined ? '' : `, stood still for ${duration(still)}`;
    return `; ${action.node} was ${participle(action.act)}${stood}`;
  });
  if (silence_ns !== undefined) words.push(`; longest silence ${duration(silence_ns)}`);
  return words.join('');
}

/** How long a node stood still, in ns, where that is known. */
function stoodStill({ stopped_ns, resumed_ns, running_ns }: ActionRecord): number | undefined {
  const until = resumed_ns ?? running_ns;
  return until === undefined || stopped_ns === undefined ? undefined : until - stopped_ns;
}
