// The list of runs: search, filters, pages. Each key of a search asks, and only the latest answer is shown.

import { h } from '../dom';
import { count, plural } from '../format';
import { Failure, PAGE, type Answer } from './api';
import { Asking } from './asking';
import type { Context, View } from './context';
import type { RunList } from './documents';
import { Facets } from './facets';
import { failureBox, viewTitle } from './parts';
import { toggled } from './query';
import { LIST, type ListRoute } from './route';
import { RunTable } from './runs';
import { SearchBox } from './search';
import { shareButton } from './share';

/** Interval at which an index that is being built is asked for again, in milliseconds. */
const INDEXING_INTERVAL = 700;

/** All that is drawn of a list beside its progress; an empty one says whether runs are looked for. */
function rowsOf(list: RunList): string {
  const isLookedFor = list.runs.length === 0 && list.indexing !== null;
  return JSON.stringify({ ...list, indexing: isLookedFor });
}

export class ListView implements View<ListRoute> {
  readonly element: HTMLElement;
  private route: ListRoute = LIST;
  /** The answer on show, and the route that asked for it. */
  private shown: { route: ListRoute; answer: Answer<RunList> } | null = null;
  private timer = 0;
  private readonly asking: Asking;
  private readonly search: SearchBox;
  private readonly facets: Facets;
  private readonly table: RunTable;
  private readonly status = h('p', { class: 'found', role: 'status' });
  private readonly progress = h('div', { class: 'indexing' });
  private readonly problem = h('div', {});
  private readonly pages = h('nav', { class: 'pages', 'aria-label': 'Pages' });
  private readonly results: HTMLElement;

  constructor(private readonly context: Context) {
    const toggleTerm = (term: string): void =>
      this.change({ query: toggled(this.route.query, term) });
    this.search = new SearchBox((query) => this.change({ query }, 'replace'));
    this.facets = new Facets(toggleTerm);
    this.table = new RunTable(context, {
      sort: (sort, descending) => this.change({ sort, descending }),
      toggle: toggleTerm,
      clear: () => this.change({ query: '' }),
    });
    this.results = h('div', { class: 'results' }, this.table.element, this.pages);
    const share = shareButton(context, () => this.shown);
    this.element = h(
      'section',
      { class: 'list', 'aria-label': 'Runs' },
      h('div', { class: 'view-head' }, viewTitle('Runs'), share),
      context.made === null ? [this.search.element, this.facets.element] : null,
      this.problem,
      h('div', { class: 'found-line' }, this.status, this.progress),
      this.results,
    );
    this.asking = new Asking(this.results);
  }

  show(route: ListRoute): void {
    this.route = route;
    document.title = route.query === '' ? 'Runs · latlab' : `${route.query} · latlab`;
    this.search.show(route.query);
    this.search.listen();
    this.ask();
  }

  leave(): void {
    this.asking.stop();
    this.search.stop();
    window.clearTimeout(this.timer);
  }

  /** Another search or order begins at its first page. */
  private change(part: Partial<ListRoute>, how?: 'replace'): void {
    this.context.go({ ...this.route, page: 1, ...part }, how);
  }

  private ask(): void {
    window.clearTimeout(this.timer);
    this.asking.ask(
      (signal) => this.context.api.runs(this.route, signal),
      (answer) => this.draw(answer),
      (failure) => this.fail(failure),
    );
  }

  private fail(failure: Failure): void {
    this.problem.replaceChildren(failureBox(failure));
    this.results.classList.add('old');
  }

  private draw(answer: Answer<RunList>): void {
    const list = answer.data;
    const isSame = this.shown !== null && rowsOf(list) === rowsOf(this.shown.answer.data);
    this.shown = { route: this.route, answer };
    this.problem.replaceChildren(
      list.problem ? failureBox(new Failure(list.problem, 'The runs below may be old.', 0)) : '',
    );
    this.results.classList.remove('old');
    this.facets.draw(list, this.route.query);
    this.drawProgress(list);
    if (isSame && this.table.shows(this.route)) return;
    this.status.textContent = this.found(list);
    this.table.draw(list, this.route);
    this.drawPages(list);
  }

  /** `1 204 of 10 000 runs`, and which of them are shown. */
  private found({ total, matched, runs }: RunList): string {
    const first = (this.route.page - 1) * PAGE;
    const shown =
      runs.length < matched && runs.length > 0
        ? `, ${count(first + 1)} to ${count(first + runs.length)} shown`
        : '';
    const all = plural(total, 'run');
    return matched === total ? `${all}${shown}` : `${count(matched)} of ${all}${shown}`;
  }

  private drawProgress({ indexing }: RunList): void {
    this.progress.hidden = indexing === null;
    if (indexing === null || this.context.made !== null) return;
    const { done, of } = indexing;
    // Directories are listed before it is known which of them are to be read.
    const isListing = of === 0;
    this.progress.replaceChildren(
      h('progress', {
        max: Math.max(1, of),
        value: isListing ? null : done,
        'aria-label': 'Indexing',
      }),
      isListing ? 'Looking for runs' : `Reading new runs: ${count(done)} of ${count(of)}`,
    );
    this.timer = window.setTimeout(() => this.ask(), INDEXING_INTERVAL);
  }

  private drawPages({ matched }: RunList): void {
    const last = Math.max(1, Math.ceil(matched / PAGE));
    const { page } = this.route;
    this.pages.hidden = last === 1 || this.context.made !== null;
    const button = (text: string, to: number): HTMLElement =>
      h(
        'button',
        {
          type: 'button',
          class: 'tool',
          disabled: to < 1 || to > last || to === page,
          'data-page': to,
          onclick: () => {
            this.change({ page: to });
            this.status.scrollIntoView({ block: 'nearest' });
          },
        },
        text,
      );
    this.pages.replaceChildren(
      button('First', 1),
      button('‹ Previous', page - 1),
      h('span', {}, `Page ${count(page)} of ${count(last)}`),
      button('Next ›', page + 1),
      button('Last', last),
    );
  }
}
