// Method and checks: all that is needed to judge the run, and to repeat it. The trials of a cell are
// built when its block is opened; there can be hundreds.

import { h } from '../dom';
import * as format from '../format';
import type { Model } from '../model';
import type { Cell, Check, TrialSummary } from '../summary';
import { fold, onOpen } from './fold';
import { cellName } from './notes';
import { swatch } from './swatch';

/** Cells listed before the rest is folded away. */
const SHOWN = 40;

export function method(model: Model): HTMLElement {
  const { summary } = model;
  return h(
    'section',
    { id: 'method', 'aria-labelledby': 'method-title' },
    h('h2', { id: 'method-title' }, 'Method and checks'),
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

function factors({ summary }: Model): HTMLElement {
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
              summary.baseline[factor.name] === level
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
  const found = new Map<string, Check>();
  for (const trial of trials) {
    for (const check of trial.checks) if (!found.has(check.name)) found.set(check.name, check);
  }
  if (found.size === 0) return null;
  return h(
    'dl',
    { class: 'pairs wide' },
    [...found.values()].map((check) =>
      h(
        'div',
        {},
        h('dt', {}, check.name),
        h('dd', {}, `${check.question} At most ${limit(check)}.`),
      ),
    ),
  );
}

function limit(check: Check): string {
  const { unit } = check;
  if (unit === 'ns' || unit === '1') return format.quantityTick(check.limit, unit);
  return `${format.quantityTick(check.limit, unit)}\u2009${unit}`;
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
  const facts = Object.entries(cell.environment.facts).map(([name, value]) =>
    h('div', {}, h('dt', {}, name), h('dd', {}, value)),
  );
  const details: HTMLElement[] = [];
  if (facts.length > 0) details.push(h('dl', { class: 'pairs wide' }, facts));
  if (trials.length === 0)
    details.push(h('p', { class: 'empty' }, 'No trial of this cell was run.'));
  else
    details.push(
      h(
        'div',
        { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Trials' },
        trialTable(trials),
      ),
    );
  return details;
}

function trialTable(trials: TrialSummary[]): HTMLElement {
  const checks = [...new Set(trials.flatMap((trial) => trial.checks.map((check) => check.name)))];
  const heads = [
    'Trial',
    'Replicate',
    'Started',
    'Outcome',
    'Sent',
    'Received',
    'Lost',
    'Dup.',
    'Reord.',
    'Unmatched',
    'Corrupt',
    'Floor p50',
    'Floor p99',
    'Clock read',
    'Clock error',
    ...checks,
  ];
  const rows = trials.map((trial) => {
    const { counters, floor } = trial;
    const outcome =
      trial.failed !== undefined
        ? `failed: ${trial.failed}`
        : trial.overloaded
          ? 'overloaded'
          : 'measured';
    const numbers = [
      counters.sent,
      counters.received,
      counters.lost,
      counters.duplicated,
      counters.reordered,
      counters.unmatched,
      counters.corrupted,
    ].map(format.count);
    const times = [floor?.median_ns, floor?.p99_ns, floor?.clock_read_ns, trial.clock_error_ns].map(
      (ns) => format.duration(ns),
    );
    return h(
      'tr',
      {},
      h('th', { scope: 'row' }, String(trial.trial)),
      h('td', { class: 'number' }, String(trial.replicate)),
      h('td', { class: 'mono' }, trial.started.replace(/^.*T/, '')),
      h('td', {}, outcome),
      [...numbers, ...times].map((text) => h('td', { class: 'number' }, text)),
      checks.map((name) => checkCell(trial.checks.find((check) => check.name === name))),
    );
  });
  return h(
    'table',
    { class: 'plain' },
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        heads.map((text) => h('th', { scope: 'col' }, text)),
      ),
    ),
    h('tbody', {}, rows),
  );
}

function checkCell(check: Check | undefined): HTMLElement {
  if (!check) return h('td', { class: 'number' }, format.NONE);
  return h(
    'td',
    { class: check.passed ? 'number' : 'number failed' },
    checkValue(check.value, check.unit),
    h('small', {}, check.passed ? 'passed' : `failed, limit ${limit(check)}`),
  );
}
