// The most frequent values of the runs that were found. A click adds the value to the search, or takes it
// away again.

import { h } from '../dom';
import { count } from '../format';
import type { FacetKey, RunList } from './documents';
import { exactTerm, hasTerm } from './query';

const KEYS: [key: FacetKey, title: string][] = [
  ['study', 'Study'],
  ['machine', 'Machine'],
  ['version', 'Version'],
  ['state', 'State'],
  ['tag', 'Tag'],
];
/** More values than this are behind a button. */
const SHOWN = 5;

export class Facets {
  /** On a narrow screen the runs come first, and the filters on request. */
  readonly element = h('details', {
    class: 'facets',
    open: window.matchMedia('(min-width: 40.01rem)').matches,
  });
  private readonly rows = h('div', { class: 'facet-rows' });
  private readonly unfolded = new Set<FacetKey>();
  private drawn: [list: RunList, query: string] | null = null;

  constructor(private readonly toggle: (term: string) => void) {
    this.element.append(h('summary', {}, 'Filters'), this.rows);
  }

  draw(list: RunList, query: string): void {
    this.drawn = [list, query];
    const focused = (document.activeElement as HTMLElement | null)?.dataset['term'];
    this.rows.replaceChildren(
      ...KEYS.flatMap(([key, title]) => {
        const values = list.facets[key].filter(([value]) => value !== '');
        return values.length > 0 ? [this.row(key, title, values, query)] : [];
      }),
    );
    if (focused !== undefined) {
      this.rows.querySelector<HTMLElement>(`[data-term="${CSS.escape(focused)}"]`)?.focus();
    }
  }

  private row(
    key: FacetKey,
    title: string,
    values: [string, number][],
    query: string,
  ): HTMLElement {
    const isOpen = this.unfolded.has(key) || values.length <= SHOWN + 1;
    const shown = values.filter(
      ([value], i) => isOpen || i < SHOWN || hasTerm(query, exactTerm(key, value)),
    );
    const rest = values.length - shown.length;
    return h(
      'div',
      { class: 'facet', role: 'group', 'aria-label': title },
      h('span', { class: 'name' }, title),
      h(
        'div',
        { class: 'chips' },
        shown.map(([value, runs]) => this.chip(key, value, runs, query)),
        rest > 0 || this.unfolded.has(key) ? this.fold(key, rest) : null,
      ),
    );
  }

  private chip(key: FacetKey, value: string, runs: number, query: string): HTMLElement {
    const term = exactTerm(key, value);
    return h(
      'button',
      {
        type: 'button',
        class: 'chip',
        title: value,
        'data-term': term,
        'aria-pressed': String(hasTerm(query, term)),
        onclick: () => this.toggle(term),
      },
      h('span', { class: 'value' }, value),
      h('span', { class: 'runs' }, count(runs)),
    );
  }

  private fold(key: FacetKey, rest: number): HTMLElement {
    const act = (): void => {
      if (!this.unfolded.delete(key)) this.unfolded.add(key);
      if (this.drawn) this.draw(...this.drawn);
    };
    const text = rest > 0 ? `${rest} more` : 'fewer';
    return h('button', { type: 'button', class: 'more-values', onclick: act }, text);
  }
}
