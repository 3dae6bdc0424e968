// Effects of the factors: for each measurement, what a level changes over all other factors, and whether levels
// depend on each other.

import { verdictWords } from '../answers';
import { h } from '../dom';
import { pValue, ratio, ratioRange } from '../format';
import type { Model } from '../model';
import { ratioAxis, ratioMark, type RatioAxis } from '../plots/ratio';
import type { Cell, Change, Effect } from '../summary';
import { section } from './section';

export function effects({ summary }: Model): HTMLElement | null {
  const all = summary.effects ?? [];
  const measured = summary.measurements.filter(({ name }) =>
    all.some(({ measurement }) => measurement === name),
  );
  if (measured.length === 0) return null;
  return section(
    'effects',
    'What each factor does',
    h(
      'p',
      {},
      'A row without × is a level’s ratio to its factor’s reference, the geometric mean over the levels of all other factors, with its 95 % interval. A row with × is the ratio of both together to the product of each alone: 1 says that one does not depend on the other. Verdicts are corrected after Holm for the number of rows.',
    ),
    measured.map(({ name }) =>
      tableOf(
        name,
        all.filter(({ measurement }) => measurement === name),
        emulationOf(summary.cells.filter(({ measurement }) => measurement === name)),
      ),
    ),
  );
}

/** The emulated parts of any of these cells. */
function emulationOf(cells: Cell[]): string[] {
  return [...new Set(cells.flatMap(({ environment }) => environment.emulation ?? []))];
}

function tableOf(measurement: string, found: Effect[], emulated: string[]): HTMLElement {
  const quantities = [...new Set(found.map(({ quantity }) => quantity))];
  const main = found.filter(({ quantity }) => quantity === quantities[0]);
  const axis = ratioAxis(main.flatMap((effect) => [effect.ratio, ...effect.ratio_ci95]));
  // The body of the distribution is told by its median.
  const others = quantities.slice(1).filter((quantity) => quantity !== 'p90');
  const heads = ['Change', capital(quantities[0] ?? ''), 'The line is 1×', 'Verdict', ...others];
  const sameOf = (effect: Effect, quantity: string): Effect | undefined =>
    found.find((other) => other.quantity === quantity && named(other) === named(effect));
  return h(
    'figure',
    { class: 'effects ratios scroll', 'data-effects': measurement },
    h(
      'figcaption',
      {},
      h('strong', {}, measurement),
      emulated.length > 0
        ? h('span', { class: 'aside' }, ` emulated: ${emulated.join(', ')}`)
        : null,
    ),
    h(
      'table',
      {},
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          heads.map((head) => h('th', { scope: 'col' }, head)),
        ),
      ),
      h(
        'tbody',
        {},
        main.map((effect) =>
          rowOf(
            effect,
            others.map((quantity) => sameOf(effect, quantity)),
            axis,
          ),
        ),
      ),
    ),
  );
}

function rowOf(effect: Effect, others: (Effect | undefined)[], axis: RatioAxis): HTMLElement {
  const single = effect.changes.length === 1;
  const cell = (shown: Effect | undefined): HTMLElement =>
    h(
      'td',
      {},
      shown ? [ratio(shown.ratio), h('small', {}, ratioRange(shown.ratio_ci95))] : 'not known',
    );
  return h(
    'tr',
    { 'data-verdict': single ? effect.verdict : 'interaction' },
    h(
      'th',
      { scope: 'row' },
      named(effect),
      single ? h('small', {}, `from ${effect.changes.map(({ from }) => from).join('')}`) : null,
    ),
    cell(effect),
    h(
      'td',
      { class: 'axis', 'aria-hidden': 'true' },
      ratioMark(axis, { value: effect.ratio, interval: effect.ratio_ci95 }),
    ),
    h(
      'td',
      {},
      h('span', { class: `verdict wraps ${single ? effect.verdict : ''}` }, words(effect)),
      h('small', {}, `p ${shownP(effect.p_value)}`),
    ),
    others.map(cell),
  );
}

function named({ changes }: { changes: Change[] }): string {
  return changes.map(({ factor, to }) => `${factor} ${to}`).join(' × ');
}

/** Neither way is better for an interaction: it says what cannot be told from each factor alone. */
function words(effect: Effect): string {
  if (effect.changes.length === 1) return verdictWords(effect.verdict, effect);
  switch (effect.verdict) {
    case 'better':
    case 'worse':
      return effect.ratio > 1 ? 'more together' : 'less together';
    case 'no-difference':
      return 'independent';
    default:
      return verdictWords(effect.verdict);
  }
}

function shownP(p: number): string {
  return `${p < 0.001 ? '' : '= '}${pValue(p)}`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
