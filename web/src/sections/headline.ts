// The top of the page: what was studied, on what, whether the run is whole, and the answers.

import { answersOf } from '../answers';
import { h, s } from '../dom';
import { bytes, count, duration, elapsed, moment, plural, ratio, ratioRange } from '../format';
import { cellsOf, shortTitle, type MeasurementView, type Model } from '../model';
import { markerPath } from '../palette';
import type { Cell, Group, Summary } from '../summary';
import { fold } from './fold';
import { seriesKey } from './swatch';

/** Groups of a measurement that are answered before the rest is folded away. */
const SHOWN = 8;

export function masthead(model: Model, themeButton: HTMLElement): HTMLElement {
  const { summary } = model;
  return h(
    'header',
    { class: 'masthead' },
    h('div', { class: 'brand' }, h('span', {}, 'latlab report'), themeButton),
    h('h1', {}, summary.study),
    summary.description ? h('p', { class: 'lead' }, summary.description) : null,
    banner(summary),
    facts(model),
  );
}

function banner({ state, trials }: Summary): HTMLElement | null {
  if (state.state === 'complete') return null;
  const text =
    state.state === 'incomplete'
      ? `This run is incomplete: ${state.reason}.`.replace(/\.\.$/, '.')
      : 'This run never ended: it was still going on, or was killed, when this was written.';
  return h(
    'p',
    { class: 'banner', role: 'status' },
    h('strong', {}, text),
    ` What was measured is shown (${plural(trials.length, 'trial')}).`,
  );
}

function facts(model: Model): HTMLElement {
  const { summary } = model;
  const { host } = summary;
  const took = summary.finished ? `, ${elapsed(summary.started, summary.finished)}` : '';
  const planned = summary.cells.length * summary.replicates;
  const trials =
    summary.trials.length === planned
      ? plural(planned, 'trial')
      : `${count(summary.trials.length)} of ${plural(planned, 'trial')}`;
  const acceleration = host.acceleration === 'tcg' ? 'software emulation (TCG)' : host.acceleration;
  const rows: [string, string, string?][] = [
    ['When', `${moment(summary.started)}${took}`],
    ['Run', summary.id, 'mono'],
    ['Size', `${plural(summary.cells.length, 'cell')}, ${trials}, seed ${model.seed}`],
    ['Processor', `${host.cpu}, ${plural(host.cores, 'core')}, ${bytes(host.memory_bytes)}`],
    ['System', `${host.distribution}, Linux ${host.kernel}, cgroup ${host.cgroup}`],
    [
      'Underneath',
      host.hypervisor ? `itself a virtual machine (${host.hypervisor})` : 'bare metal',
    ],
    [
      'Virtual machines',
      host.acceleration_reason ? `${acceleration}: ${host.acceleration_reason}` : acceleration,
    ],
  ];
  return h(
    'dl',
    { class: 'facts' },
    rows.map(([name, value, kind]) =>
      h('div', {}, h('dt', {}, name), h('dd', { class: kind }, value)),
    ),
  );
}

export function answers(model: Model): HTMLElement {
  const domain = ratioDomain(model);
  const blocks = model.measurements.map((view) => measurementAnswers(model, view, domain));
  return h(
    'section',
    { id: 'answers', 'aria-labelledby': 'answers-title' },
    h('h2', { id: 'answers-title' }, 'In short'),
    blocks.length > 0 ? blocks : h('p', { class: 'empty' }, 'Nothing was measured.'),
  );
}

function measurementAnswers(
  model: Model,
  view: MeasurementView,
  domain: [number, number],
): HTMLElement {
  const rows = view.groups.map((group) => groupAnswer(model, group, domain));
  return h(
    'div',
    { class: 'answers' },
    h(
      'h3',
      {},
      view.info.name,
      h(
        'span',
        { class: 'aside' },
        ` ${[view.info.latency, view.info.description].filter(Boolean).join(' · ')}`,
      ),
    ),
    rows.length === 0 ? h('p', { class: 'empty' }, 'No cell of it was measured.') : null,
    ...fold(rows, SHOWN, 'group'),
  );
}

function groupAnswer(model: Model, group: Group, domain: [number, number]): HTMLElement {
  const clauses = answersOf(model, group).map((answer) =>
    h(
      'li',
      { 'data-answer': answer.cell.id },
      seriesKey(model, answer.cell.id),
      answer.figure ? h('strong', {}, answer.figure) : null,
      ' ',
      answer.words,
    ),
  );
  const title = shortTitle(group);
  return h(
    'div',
    { class: 'answer' },
    h('h4', {}, title === group.measurement ? 'overall' : title),
    h('ul', {}, clauses),
    forest(model, group, domain),
  );
}

/** From the smallest to the largest ratio or interval end, 1 included. */
function ratioDomain(model: Model): [number, number] {
  let [low, high] = [1, 1];
  for (const { comparison } of model.summary.cells) {
    if (!comparison) continue;
    for (const value of [comparison.ratio, ...(comparison.ratio_ci95 ?? [])]) {
      if (!(value > 0) || !Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return [low / 1.15, high * 1.15];
}

/** Ratios to the baseline as dots with intervals, on one logarithmic axis for the whole page. */
function forest(model: Model, group: Group, [low, high]: [number, number]): SVGSVGElement | null {
  const cells = cellsOf(model, group).filter((cell) => (cell.comparison?.ratio ?? 0) > 0);
  if (cells.length === 0) return null;
  const [width, row] = [260, 22];
  const height = cells.length * row + 16;
  const x = (value: number): number =>
    8 + ((Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low))) * (width - 16);
  const label = cells
    .map((cell) => `${model.seriesOf.get(cell.id)?.label} ${ratio(cell.comparison?.ratio)}`)
    .join(', ');
  const svg = s('svg', {
    class: 'plot forest',
    role: 'img',
    'aria-label': `Ratio to the baseline: ${label}`,
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    'data-plot': 'forest',
  });
  svg.append(
    s('line', { class: 'one', x1: x(1), x2: x(1), y1: 0, y2: height - 14 }),
    s('text', { class: 'fact', x: x(1), y: height - 2, 'text-anchor': 'middle' }, '1×'),
  );
  cells.forEach((cell, i) => svg.append(forestRow(model, cell, i * row + row / 2, x)));
  return svg;
}

function forestRow(model: Model, cell: Cell, y: number, x: (v: number) => number): SVGGElement {
  const series = model.seriesOf.get(cell.id);
  const comparison = cell.comparison;
  const g = s('g', {
    class: 'series',
    'data-plot': 'forest',
    'data-cell': cell.id,
    style: { '--c': series?.look.color ?? 'currentColor' },
  });
  if (!comparison || !series) return g;
  const interval = comparison.ratio_ci95;
  const medians = [cell, model.cells.get(comparison.baseline)]
    .map((c) => duration(c?.latency?.quantiles[0]?.value_ns))
    .join(' / ');
  g.append(
    s(
      'title',
      {},
      `${series.label}: ${ratio(comparison.ratio)} (${ratioRange(interval)}), ${medians}`,
    ),
  );
  if (interval && interval[0] > 0) {
    g.append(
      s('line', { class: 'interval', x1: x(interval[0]), x2: x(interval[1]), y1: y, y2: y }),
    );
  }
  g.append(
    s('path', {
      class: cell.environment.emulated ? 'marker hollow' : 'marker',
      d: markerPath(series.look.marker, 46),
      transform: `translate(${x(comparison.ratio)} ${y})`,
    }),
  );
  return g;
}
