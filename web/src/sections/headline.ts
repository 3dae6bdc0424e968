// The top of the page: what was studied, on what, whether the run is whole, and the answers.

import { answersOf, isTheSame, type Answer } from '../answers';
import { logDomain, logTicks, scaleOf, type Domain } from '../axis';
import { h, s } from '../dom';
import {
  bytes,
  count,
  elapsed,
  moment,
  NONE,
  plural,
  ratio,
  ratioRange,
  ratioTick,
} from '../format';
import { cellsOf, shortTitle, type MeasurementView, type Model } from '../model';
import { markerPath } from '../palette';
import { quantileFill } from '../plots/marks';
import type { Cell, Group, Summary } from '../summary';
import { fold, onOpen } from './fold';
import { section } from './section';
import { seriesKey } from './swatch';

/** Groups of a measurement that are answered before the rest is folded away. */
const SHOWN = 8;

export function masthead(model: Model, themeButton: HTMLElement): HTMLElement {
  const { summary } = model;
  return h(
    'header',
    { class: 'masthead' },
    h('div', { class: 'brand' }, h('span', {}, 'latlab report'), themeButton),
    h(
      'div',
      { class: 'opening' },
      h(
        'div',
        {},
        h('h1', {}, summary.study),
        summary.description ? h('p', { class: 'lead' }, summary.description) : null,
      ),
      facts(model),
    ),
    banner(summary),
  );
}

function banner({ state, trials }: Summary): HTMLElement | null {
  if (state.state === 'complete') return null;
  const text =
    state.state === 'incomplete'
      ? `This run is incomplete: ${state.reason}.`.replace(/\.\.$/, '.')
      : 'This run did not end: it was still running, or was killed, when the report was written.';
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
  ];
  if (host.cpu === '') rows.push(['Machine', 'not known: the captures are imported']);
  else
    rows.push(
      ['CPU', `${host.cpu}, ${plural(host.cores, 'core')}, ${bytes(host.memory_bytes)}`],
      ['System', `${host.distribution}, Linux ${host.kernel}, cgroup ${host.cgroup}`],
      ['Underneath', host.hypervisor ? `a hypervisor: ${host.hypervisor}` : 'no hypervisor found'],
    );
  // A study without VMs does not ask for it.
  if (host.acceleration !== 'unknown' || host.acceleration_reason) {
    rows.push([
      'Virtual machines',
      host.acceleration_reason ? `${acceleration}: ${host.acceleration_reason}` : acceleration,
    ]);
  }
  // On a narrow screen the answers come first, and the machine on request.
  const open = window.matchMedia('(min-width: 66.01rem)').matches;
  return h(
    'details',
    { class: 'facts', open },
    h('summary', {}, `${moment(summary.started)}, the machine and the run`),
    h(
      'dl',
      {},
      rows.map(([name, value, kind]) =>
        h('div', {}, h('dt', {}, name), h('dd', { class: kind }, value)),
      ),
    ),
  );
}

export function answers(model: Model): HTMLElement {
  const blocks = model.measurements.map((view) => measurementAnswers(model, view));
  return section(
    'answers',
    'In short',
    blocks.length > 0 ? blocks : h('p', { class: 'empty' }, 'Nothing was measured.'),
  );
}

function measurementAnswers(model: Model, view: MeasurementView): HTMLElement {
  const cells = view.groups.flatMap((group) => cellsOf(model, group));
  const axis = ratioAxis(cells);
  const compared = cells.find((cell) => cell.comparison)?.comparison?.quantity;
  const what = [compared?.toLowerCase(), view.info.latency].filter(Boolean).join(', ');
  return h(
    'div',
    { class: 'answers' },
    h(
      'header',
      {},
      h('h3', {}, view.info.name, what ? h('span', { class: 'aside' }, what) : null),
      axis ? forestAxis(axis) : null,
    ),
    view.groups.length === 0
      ? h('p', { class: 'empty' }, 'No cell of this measurement was run.')
      : null,
    ...fold(view.groups, SHOWN, 'group', (group) => groupAnswer(model, group, axis)),
  );
}

/** A group of more cells folds those that are like the baseline. */
const MANY = 8;

function groupAnswer(model: Model, group: Group, axis: Domain | null): HTMLElement {
  const title = shortTitle(group);
  const all = answersOf(model, group);
  const same = all.length > MANY ? all.filter(({ cell }) => isTheSame(cell)) : [];
  const told = all.filter((answer) => !same.includes(answer));
  const list = (answers: Answer[]): HTMLElement =>
    h(
      'ul',
      {},
      answers.map((answer) => answerRow(model, answer, axis)),
    );
  const rest = h(
    'details',
    { class: 'fold' },
    h('summary', {}, `${plural(same.length, 'other')} without a difference, also in the tails`),
  );
  onOpen(rest, () => [list(same)]);
  const titled = title !== group.measurement;
  return h(
    'div',
    { class: titled ? 'answer' : 'answer untitled' },
    titled ? h('h4', {}, title) : null,
    h('div', {}, told.length > 0 ? list(told) : null, same.length > 0 ? rest : null),
  );
}

function answerRow(model: Model, answer: Answer, axis: Domain | null): HTMLElement {
  return h(
    'li',
    { 'data-answer': answer.cell.id },
    seriesKey(model, answer.cell.id),
    ' ',
    h('span', { class: 'figure' }, h('strong', {}, answer.figure || NONE), ' ', answer.of),
    ' ',
    h(
      'span',
      { class: 'words' },
      answer.verdict
        ? h('span', { class: `verdict ${answer.cell.comparison?.verdict}` }, `${answer.verdict}: `)
        : null,
      answer.clauses.join(', '),
      answer.remarks.map((remark, i) => [
        i > 0 || answer.clauses.length > 0 ? ', ' : '',
        h('span', { class: 'remark' }, remark),
      ]),
    ),
    axis ? forestRow(model, answer.cell, axis) : null,
  );
}

const FOREST = 240;

/** An interval that reaches further beyond all ratios says nothing, and would leave no room for them. */
const REACH = 100;

/** From the smallest to the largest ratio or interval end, 1 included; null without comparisons. */
function ratioAxis(cells: Cell[]): Domain | null {
  const comparisons = cells.flatMap(({ comparison }) => comparison ?? []);
  if (comparisons.length === 0) return null;
  const ratios = [1, ...comparisons.map(({ ratio }) => ratio).filter((ratio) => ratio > 0)];
  const least = Math.min(...ratios) / REACH;
  const most = Math.max(...ratios) * REACH;
  const ends = comparisons.flatMap(({ ratio_ci95 }) => ratio_ci95 ?? []);
  const within = ends.map((end) => Math.min(Math.max(end, least), most));
  const [low, high] = logDomain([...ratios, ...within], 0.08);
  // Never so close that a difference of a percent looks like one of a half.
  return [Math.min(low, 0.8), Math.max(high, 1.25)];
}

function forestSvg(height: number, label: string): SVGSVGElement {
  return s('svg', {
    class: 'plot forest',
    role: 'img',
    'aria-label': label,
    viewBox: `0 0 ${FOREST} ${height}`,
    width: FOREST,
    height,
  });
}

/** Ticks of the ratio axis, written once above the rows of a measurement. */
function forestAxis(axis: Domain): SVGSVGElement {
  const svg = forestSvg(16, 'Ratio to the baseline, logarithmic');
  const x = scaleOf('log', axis, [8, FOREST - 8]);
  const ticks = logTicks(axis, FOREST, ratioTick, false);
  for (const tick of ticks) {
    if (!tick.label) continue;
    svg.append(s('text', { x: x(tick.value), y: 12, 'text-anchor': 'middle' }, tick.label));
  }
  return svg;
}

/** One cell's ratio to the baseline: a dot with its interval beside the line of equality. */
function forestRow(model: Model, cell: Cell, axis: Domain): SVGSVGElement {
  const series = model.seriesOf.get(cell.id);
  const comparison = cell.comparison;
  const text = comparison ? ratio(comparison.ratio) : 'not compared';
  const interval = comparison?.ratio_ci95;
  const label = interval ? `${text}, 95 % interval ${ratioRange(interval)}` : text;
  const svg = forestSvg(22, label);
  const x = scaleOf('log', axis, [8, FOREST - 8]);
  svg.append(
    s('title', {}, label),
    s('line', { class: 'rail', x1: 0, x2: FOREST, y1: 11, y2: 11 }),
    s('line', { class: 'one', x1: x(1), x2: x(1), y1: 0, y2: 22 }),
  );
  if (!comparison || !series || !(comparison.ratio > 0)) return svg;
  const g = s('g', {
    class: 'series',
    'data-plot': 'forest',
    'data-cell': cell.id,
    style: { '--c': series.look.color },
  });
  if (interval && interval[0] > 0) {
    // To the very edge where it goes on behind it.
    const x1 = interval[0] < axis[0] ? 0 : x(interval[0]);
    const x2 = interval[1] > axis[1] ? FOREST : x(interval[1]);
    g.append(s('line', { class: 'interval', x1, x2, y1: 11, y2: 11 }));
  }
  g.append(
    s('path', {
      class: quantileFill(cell),
      'data-ratio': comparison.ratio,
      d: markerPath(series.look.marker, 46),
      transform: `translate(${x(comparison.ratio).toFixed(2)} 11)`,
    }),
  );
  svg.append(g);
  return svg;
}
