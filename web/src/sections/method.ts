// Method and checks: all that is needed to judge the run, and to repeat it. The trials of a cell are
// built when its block is opened; there can be hundreds.

import { h } from '../dom';
import * as format from '../format';
import type { Model } from '../model';
import type { Cell, Check, TrialSummary } from '../summary';
import { fold, onOpen } from './fold';
import { cellName } from './notes';
import { section } from './section';
import { swatch } from './swatch';

/** Cells listed before the rest is folded away. */
const SHOWN = 40;

export function method(model: Model): HTMLElement {
  const { summary } = model;
  return section(
    'method',
    'Method and checks',
    h('div', { class: 'columns' }, reproduce(model), versions(model), factors(model)),
    order(model),
    h('h3', {}, 'Trials and checks, by cell'),
    checkLegend(summary.trials),
    summary.cells.length === 0 ? h('p', { class: 'empty' }, 'No cells.') : null,
    ...fold(summary.cells, SHOWN, 'cell', (cell) => cellBlock(model, cell)),
  );
}

function reproduce(model: Model): HTMLElement {
  return h(
    'div',
    {},
    h('h3', {}, 'Reproduce'),
    h('pre', { class: 'mono' }, 'latlab run study.yaml\nlatlab report RUN'),
    h(
      'p',
      {},
      'The study lies in the run directory beside the raw samples; its seed ',
      h('span', { class: 'mono' }, model.seed),
      ' fixes the order of trials and every random choice. The second command computes this page again from the raw samples.',
    ),
  );
}

function versions({ summary }: Model): HTMLElement {
  const rows = Object.entries(summary.versions);
  rows.push(['clock source', summary.host.clocksource]);
  return h(
    'div',
    {},
    h('h3', {}, 'Versions'),
    h(
      'dl',
      { class: 'pairs' },
      rows.map(([name, value]) =>
        h('div', {}, h('dt', {}, name), h('dd', { class: 'mono' }, value)),
      ),
    ),
  );
}

function factors({ summary, cells }: Model): HTMLElement {
  const compared = Object.keys(summary.baseline);
  const baselines = new Set(
    summary.groups.flatMap(({ baseline }) =>
      compared.map((name) => `${name}=${cells.get(baseline ?? '')?.levels[name]}`),
    ),
  );
  return h(
    'div',
    {},
    h('h3', {}, 'Factors'),
    summary.factors.length === 0 ? h('p', { class: 'empty' }, 'None.') : null,
    h(
      'dl',
      { class: 'pairs' },
      summary.factors.map((factor) =>
        h(
          'div',
          {},
          h('dt', {}, factor.name, h('small', { class: 'mono' }, factor.path)),
          h(
            'dd',
            {},
            factor.levels.map((level, i) => [
              i > 0 ? ', ' : '',
              baselines.has(`${factor.name}=${level}`)
                ? h('strong', {}, `${level} (baseline)`)
                : level,
            ]),
          ),
        ),
      ),
    ),
  );
}

/** The order of running, as a strip: a drifting machine must not be able to hide behind an order. */
function order(model: Model): HTMLElement {
  const items = model.summary.trials.map((trial) => {
    const series = model.seriesOf.get(trial.cell);
    const state = trial.failed !== undefined ? 'failed' : trial.overloaded ? 'overloaded' : 'good';
    return h('li', {
      class: state,
      style: { '--c': series?.look.color ?? 'currentColor' },
      title: `${trial.trial}: ${cellName(model, trial.cell)}, ${state}`,
      'data-plot': 'order',
      'data-cell': trial.cell,
      'data-series': series?.key,
      'data-trial': trial.trial,
    });
  });
  const label = `The ${format.count(items.length)} trials in the order in which they ran`;
  return h(
    'div',
    {},
    h('h3', {}, 'Order of running'),
    h(
      'p',
      {},
      'Shuffled by the seed, so that a machine that drifts does not favour one environment. Coloured by series; barred: overloaded; hollow: failed.',
    ),
    items.length > 0
      ? h('ol', { class: 'order', 'aria-label': label }, items)
      : h('p', { class: 'empty' }, 'No trials.'),
  );
}

/** Every check that was made, explained once. */
function checkLegend(trials: TrialSummary[]): HTMLElement | null {
  const found = new Map<string, [least: Check, most: Check]>();
  for (const check of trials.flatMap((trial) => trial.checks)) {
    const [least, most] = found.get(check.name) ?? [check, check];
    found.set(check.name, [
      check.limit < least.limit ? check : least,
      check.limit > most.limit ? check : most,
    ]);
  }
  if (found.size === 0) return null;
  return h(
    'dl',
    { class: 'pairs wide' },
    [...found.values()].map(([least, most]) =>
      h(
        'div',
        {},
        h('dt', {}, least.name),
        h('dd', {}, `${least.question} (at most ${limits(least, most)})`),
      ),
    ),
  );
}

/** Some limits grow with the load of a trial. */
function limits(least: Check, most: Check): string {
  const [from, to] = [limit(least), limit(most)];
  return from === to ? from : `${from} to ${to}, depending on the load`;
}

function limit(check: Check): string {
  const { unit } = check;
  const rounded = Number(check.limit.toPrecision(3));
  if (unit === 'ns' || unit === '1') return format.quantityTick(rounded, unit);
  return `${format.quantityTick(rounded, unit)}\u2009${unit}`;
}

function checkValue(value: number, unit: string): string {
  if (unit === 'ns' || unit === '1') return format.quantity(value, unit);
  return `${format.significant(value)}\u2009${unit}`;
}

function cellBlock(model: Model, cell: Cell): HTMLElement {
  const trials = model.trials.get(cell.id) ?? [];
  const failed = trials.filter((trial) => trial.failed !== undefined).length;
  const series = model.seriesOf.get(cell.id);
  const state = [
    format.plural(trials.length, 'trial'),
    failed > 0 ? `${failed} failed` : '',
    cell.overloaded > 0 ? `${cell.overloaded} overloaded` : '',
    cell.repeated ? `${cell.repeated} repeated` : '',
  ];
  const block = h(
    'details',
    { class: 'cell', 'data-trials-of': cell.id },
    h(
      'summary',
      {},
      series ? swatch(series) : null,
      h('span', { class: 'name' }, cellName(model, cell.id)),
      h('span', { class: 'aside' }, state.filter(Boolean).join(', ')),
    ),
  );
  onOpen(block, () => cellDetails(cell, trials));
  return block;
}

function cellDetails(cell: Cell, trials: TrialSummary[]): HTMLElement[] {
  const facts = Object.entries(cell.environment.facts).map(([name, value]) => `${name}: ${value}`);
  const details: HTMLElement[] = [];
  if (facts.length > 0) details.push(h('p', { class: 'aside' }, facts.join(' · ')));
  if (trials.length === 0) {
    details.push(h('p', { class: 'empty' }, 'No trial of this cell was run.'));
    return details;
  }
  const label = `Trials of ${cell.id}`;
  const table = trialTable(trials);
  details.push(
    h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, table),
  );
  return details;
}

function trialTable(trials: TrialSummary[]): HTMLElement {
  const checks = [...new Set(trials.flatMap((trial) => trial.checks.map((check) => check.name)))];
  const heads = [
    'Trial',
    'Started',
    'Outcome',
    'Sent',
    'Received',
    'Missing or odd',
    'Floor',
    'Clock',
    ...checks,
  ];
  const numeric = (i: number): boolean => i === 3 || i === 4 || i > 5;
  return h(
    'table',
    { class: 'plain' },
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        heads.map((text, i) => h('th', { scope: 'col', class: numeric(i) ? 'number' : '' }, text)),
      ),
    ),
    h(
      'tbody',
      {},
      trials.map((trial) => trialRow(trial, checks)),
    ),
  );
}

function trialRow(trial: TrialSummary, checks: string[]): HTMLElement {
  const { counters, floor } = trial;
  const failed = trial.failed !== undefined;
  const outcome = failed ? `failed: ${trial.failed}` : trial.overloaded ? 'overloaded' : 'measured';
  const after = trial.repeats ? `, after ${format.plural(trial.repeats, 'discarded attempt')}` : '';
  const error = trial.clock_error_ns;
  return h(
    'tr',
    {},
    h('th', { scope: 'row' }, String(trial.trial), h('small', {}, `replicate ${trial.replicate}`)),
    h('td', { class: 'mono' }, trial.started.replace(/^.*T/, '').replace(/\.\d+/, '')),
    h('td', { class: failed ? 'failed wrap' : 'wrap' }, outcome + after),
    h('td', { class: 'number' }, format.count(counters.sent)),
    h('td', { class: 'number' }, format.count(counters.received)),
    h('td', {}, odd(trial)),
    h(
      'td',
      { class: 'number' },
      format.duration(floor?.median_ns),
      floor ? h('small', {}, `p99 ${format.duration(floor.p99_ns)}`) : null,
    ),
    h(
      'td',
      { class: 'number' },
      floor ? `read ${format.duration(floor.clock_read_ns)}` : format.NONE,
      error === undefined ? null : h('small', {}, `error ≤ ${format.duration(error)}`),
    ),
    checks.map((name) => checkCell(trial.checks.find((check) => check.name === name))),
  );
}

/** Packets that did not simply arrive, by kind; none is left out silently. */
function odd({ counters }: TrialSummary): string {
  const names = ['lost', 'duplicated', 'reordered', 'unmatched', 'corrupted'] as const;
  const list = names
    .filter((name) => counters[name] > 0)
    .map((name) => `${format.count(counters[name])} ${name}`);
  return list.join(', ') || 'none';
}

function checkCell(check: Check | undefined): HTMLElement {
  if (!check) return h('td', { class: 'number' }, format.NONE);
  const value = checkValue(check.value, check.unit);
  if (check.passed) return h('td', { class: 'number' }, value, h('small', {}, 'passed'));
  return h(
    'td',
    { class: 'number failed' },
    value,
    h('small', {}, `failed, limit ${limit(check)}`),
  );
}
