// The plain-language answers at the top of the page. Pure, so that their wording is tested.

import { duration, quantity, ratio, ratioRange } from './format';
import { cellsOf, type Model } from './model';
import type { Cell, Comparison, Group, Verdict } from './summary';

/** The answer about one cell of a group. */
export interface Answer {
  cell: Cell;
  /** The main figure: `1.02×`; empty where there is none. */
  figure: string;
  /** The figure's reference: `of native`. */
  of: string;
  /** The verdict in a few words; empty where nothing was compared. */
  verdict: string;
  /** The rest of the sentence, clause by clause. */
  clauses: string[];
  /** Caveats: `software emulation`. */
  remarks: string[];
}

/** One sentence a cell: each against the baseline, or its own value when there is none. */
export function answersOf(model: Model, group: Group): Answer[] {
  const cells = cellsOf(model, group);
  const base = group.baseline === undefined ? undefined : model.cells.get(group.baseline);
  const others = cells.filter((cell) => cell.id !== base?.id);
  if (base && others.length > 0) return others.map((cell) => compared(model, cell, base));
  // A study that names none lacks none.
  const lacksBase = !base && Object.keys(model.summary.baseline).length > 0;
  return cells.map((cell) => alone(cell, lacksBase ? ['baseline not measured'] : []));
}

function alone(cell: Cell, clauses: string[]): Answer {
  if (cell.replicates === 0) {
    return {
      cell,
      figure: '',
      of: '',
      verdict: '',
      clauses: ['not measured: no trial succeeded'],
      remarks: [],
    };
  }
  return {
    cell,
    figure: typical(cell),
    of: '',
    verdict: '',
    clauses,
    remarks: remarks(cell),
  };
}

function compared(model: Model, cell: Cell, base: Cell): Answer {
  const comparison = cell.comparison;
  if (!comparison) return alone(cell, ['not compared']);
  const tails = beyond(comparison);
  const clauses = [`${typical(cell)} against ${typical(base)}`, ...tails];
  const baseName = model.seriesOf.get(base.id)?.label ?? base.label;
  const isAlike = comparison.verdict === 'no-difference' && tails.length > 0;
  const verdict = isAlike ? 'median alike' : verdictWords(comparison.verdict, comparison);
  return {
    cell,
    figure: ratio(comparison.ratio),
    of: `of ${baseName}`,
    verdict,
    clauses,
    remarks: remarks(cell),
  };
}

/** Neither the typical value nor any tail differs beyond chance. */
export function isTheSame({ comparison }: Cell): boolean {
  const tails = comparison?.tails ?? [];
  return (
    comparison?.verdict === 'no-difference' && tails.every(({ p_value }) => (p_value ?? 1) > CHANCE)
  );
}

/** The largest p-value of a difference that is claimed. */
const CHANCE = 0.05;

/** The farthest tail that differs beyond chance, which the typical value does not show. */
function beyond({ tails }: Comparison): string[] {
  const differs = tails?.filter(({ of, p_value }) => of !== 'sd' && (p_value ?? 1) <= CHANCE);
  const tail = differs?.at(-1);
  if (!tail?.ratio_ci95) return [];
  return [`${tail.of} ${ratio(tail.ratio)} [${ratioRange(tail.ratio_ci95)}]`];
}

/** Median latency, or the first metric's median. */
export function typical(cell: Cell): string {
  const median = cell.latency?.quantiles[0]?.value_ns;
  if (median !== undefined) return duration(median);
  if (cell.latency) return 'too few samples';
  const metric = cell.metrics[0];
  return metric ? quantity(metric.spread.median, metric.unit) : 'not measured';
}

function remarks(cell: Cell): string[] {
  const list: string[] = [];
  const { emulated, emulation = [] } = cell.environment;
  if (emulation.length > 0) list.push(`emulated: ${emulation.join(', ')}`);
  else if (emulated) list.push('software emulation');
  if (cell.overloaded > 0) list.push(`${cell.overloaded} of ${cell.replicates} trials overloaded`);
  if (cell.repeated) list.push(`${cell.repeated} of ${cell.replicates} trials repeated`);
  return list;
}

export function verdictWords(verdict: Verdict, comparison?: Pick<Comparison, 'quantity'>): string {
  const isLatency = comparison?.quantity.includes('latency') ?? false;
  switch (verdict) {
    case 'better':
      return isLatency ? 'faster' : 'better';
    case 'worse':
      return isLatency ? 'slower' : 'worse';
    case 'not-proven':
      return 'difference not proven';
    case 'no-difference':
      return 'no difference found';
    case 'inconclusive':
      return 'inconclusive';
    case 'too-few-replicates':
      return 'too few replicates to say';
  }
}
