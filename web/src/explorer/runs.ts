// The table of runs.

import { h, hidden, type Child } from '../dom';
import { count, NONE } from '../format';
import type { Context } from './context';
import type { Run, RunList } from './documents';
import { runLink, scrolling, stateMark, when } from './parts';
import { exactTerm } from './query';
import { type ListRoute, type SortKey, sortText } from './route';

interface Acts {
  sort: (key: SortKey, descending: boolean) => void;
  /** Adds a term to the search, or takes it away. */
  toggle: (term: string) => void;
  /** Empties the search. */
  clear: () => void;
}

interface Column {
  title: string;
  sort?: SortKey;
  /** Largest or newest first, when first sorted by. */
  descends?: boolean;
  numeric?: boolean;
  class: string;
  content: (run: Run) => Child;
}

/** Rows that a window shows at once. Layout of a whole page takes longer than the server's answer. */
const FIRST_ROWS = 15;
/** Time until the other rows follow, in milliseconds: while someone types, the next key comes first. */
const REST_DELAY = 150;
/** Levels of one factor that are named before the rest is only counted. */
const LEVELS = 4;

export class RunTable {
  readonly element: HTMLElement;
  private readonly table = h('table', { class: 'comparison runs' });
  private readonly empty = h('div', { class: 'empty-list', hidden: true });
  private readonly scroll = scrolling('Runs', this.table);
  private readonly columns: Column[];
  private drawn = '';
  private timer = 0;

  constructor(
    private readonly context: Context,
    private readonly acts: Acts,
  ) {
    this.columns = this.allColumns();
    this.element = h('div', {}, this.scroll, this.empty);
    context.choice.subscribe(() => this.check());
  }

  /** Whether the table was drawn for this route. */
  shows(route: ListRoute): boolean {
    return this.drawn === keyOf(route);
  }

  draw({ runs, total, matched, indexing }: RunList, route: ListRoute): void {
    this.drawn = keyOf(route);
    const room = runs.length > FIRST_ROWS ? this.element.offsetHeight : 0;
    const isEmpty = runs.length === 0;
    this.scroll.hidden = isEmpty;
    this.empty.hidden = !isEmpty;
    this.empty.replaceChildren(
      isEmpty ? this.nothing(total, matched, indexing !== null, route) : '',
    );
    const focused = (document.activeElement as HTMLElement | null)?.dataset['sort'];
    const body = h('tbody');
    this.table.replaceChildren(
      h('caption', { class: 'visually-hidden' }, 'Runs'),
      h('thead', {}, h('tr', {}, this.headings(route))),
      body,
    );
    this.append(body, runs.slice(0, FIRST_ROWS));
    if (focused) this.table.querySelector<HTMLElement>(`[data-sort="${focused}"]`)?.focus();
    this.drawRest(() => this.append(body, runs.slice(FIRST_ROWS)), room);
  }

  /** The page keeps its height meanwhile, so that it does not scroll. */
  private drawRest(act: () => void, room: number): void {
    this.element.style.minHeight = `${room}px`;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      act();
      this.element.style.minHeight = '';
    }, REST_DELAY);
  }

  private append(body: HTMLElement, runs: Run[]): void {
    body.append(...runs.map((run) => this.row(run)));
    this.check();
  }

  private headings(route: ListRoute): HTMLElement[] {
    const columns = this.columns.map((column) => {
      const { sort, title } = column;
      const isActive = sort !== undefined && route.sort === sort;
      const direction = isActive ? (route.descending ? 'descending' : 'ascending') : 'none';
      const attributes = { scope: 'col', class: column.numeric ? 'number' : '' };
      if (sort === undefined || this.context.made !== null) return h('th', attributes, title);
      const descending = isActive ? !route.descending : (column.descends ?? false);
      const arrow = isActive ? (route.descending ? ' ↓' : ' ↑') : '';
      return h(
        'th',
        { ...attributes, 'aria-sort': direction },
        h(
          'button',
          { type: 'button', 'data-sort': sort, onclick: () => this.acts.sort(sort, descending) },
          title,
          arrow,
        ),
      );
    });
    if (this.context.made !== null) return columns;
    return [h('th', { scope: 'col', class: 'choose' }, hidden('Compare')), ...columns];
  }

  private row(run: Run): HTMLElement {
    const cells = this.columns.map((column, i) =>
      h(
        i === STUDY ? 'th' : 'td',
        {
          scope: i === STUDY ? 'row' : undefined,
          class: `${column.class}${column.numeric ? ' number' : ''}`,
        },
        column.content(run),
      ),
    );
    if (this.context.made === null) cells.unshift(h('td', { class: 'choose' }, this.box(run)));
    return h('tr', { 'data-run': run.path }, cells);
  }

  private box(run: Run): HTMLElement {
    const { choice } = this.context;
    const box = h('input', {
      type: 'checkbox',
      'aria-label': `Choose ${run.study || run.path}, ${run.started}, for a comparison`,
      'data-choose': run.path,
      // Nothing to compare.
      'data-unreadable': run.problem !== null,
      onchange: () => choice.set(run.path, box.checked),
    });
    return h('label', {}, box);
  }

  /** Boxes follow the choice. */
  private check(): void {
    const { choice } = this.context;
    for (const box of this.table.querySelectorAll<HTMLInputElement>('[data-choose]')) {
      box.checked = choice.has(box.dataset['choose'] ?? '');
      box.disabled = box.dataset['unreadable'] !== undefined || (choice.isFull && !box.checked);
      box.closest('tr')?.classList.toggle('is-chosen', box.checked);
    }
  }

  private allColumns(): Column[] {
    const { context } = this;
    return [
      {
        title: 'Started',
        sort: 'started',
        descends: true,
        class: 'started',
        content: (run) => when(run.started),
      },
      {
        title: 'Study',
        sort: 'study',
        class: 'study',
        content: (run) => [
          h('span', { class: 'run-name' }, runLink(context, run), stateMark(run)),
          h('small', { class: 'mono path', title: run.path }, run.path),
          run.problem ? h('small', { class: 'failed' }, run.problem) : null,
          run.description ? h('small', { class: 'about' }, run.description) : null,
        ],
      },
      {
        title: 'Machine',
        sort: 'machine',
        class: 'machine',
        content: (run) => [
          h('span', { class: 'clamped', title: run.machine }, run.machine || NONE),
          h('small', { class: 'clamped' }, run.kernel ? `Linux ${run.kernel}` : ''),
        ],
      },
      {
        title: 'Version',
        sort: 'version',
        class: 'version',
        content: (run) => h('span', { class: 'clamped' }, run.version || NONE),
      },
      { title: 'Factors', class: 'factors', content: (run) => this.factors(run) },
      {
        title: 'Cells',
        sort: 'cells',
        descends: true,
        numeric: true,
        class: 'cells',
        content: (run) => [count(run.cells), h('small', {}, `${count(run.trials)} trials`)],
      },
      { title: 'Faults', class: 'faults', content: (run) => faults(run) },
      { title: 'Tags and note', class: 'tags-of', content: (run) => this.remark(run) },
    ];
  }

  private factors({ factors }: Run): Child {
    return factors.map(({ name, levels }) =>
      h(
        'div',
        { class: 'factor' },
        h('span', { class: 'aside' }, `${name} `),
        levels
          .slice(0, LEVELS)
          .map((level, i) => [i > 0 ? ' ' : '', this.term(level, exactTerm(name, level))]),
        levels.length > LEVELS ? ` +${levels.length - LEVELS}` : null,
      ),
    );
  }

  private remark({ tags, note }: Run): Child {
    return [
      tags.length > 0
        ? h(
            'div',
            { class: 'tags' },
            tags.map((tag) => this.term(tag, exactTerm('tag', tag), 'tag')),
          )
        : null,
      note ? h('small', { class: 'about', title: note }, note) : null,
    ];
  }

  /** Searches for what it says; plain text in a snapshot. */
  private term(text: string, term: string, kind = 'level'): HTMLElement {
    if (this.context.made !== null) return h('span', { class: kind }, text);
    const title = `Search for ${term}`;
    const act = (): void => this.acts.toggle(term);
    return h('button', { type: 'button', class: kind, title, onclick: act }, text);
  }

  private nothing(
    total: number,
    matched: number,
    isIndexing: boolean,
    route: ListRoute,
  ): HTMLElement {
    if (total === 0) {
      return h(
        'div',
        {},
        h('h2', {}, isIndexing ? 'Looking for runs' : 'No runs here yet'),
        h(
          'p',
          {},
          'A run is a directory that ',
          h('code', {}, 'latlab run STUDY'),
          ' writes. Start latlab serve on the directory that has them.',
        ),
      );
    }
    const why =
      matched > 0
        ? `There is no page ${route.page}.`
        : isIndexing
          ? 'Runs are still being read; more may match in a moment.'
          : 'Every word has to occur in a run, as the beginning of a word. Fewer words find more.';
    return h(
      'div',
      {},
      h('h2', {}, 'No run matches'),
      h('p', {}, why),
      h(
        'button',
        { type: 'button', class: 'tool', 'data-action': 'all', onclick: this.acts.clear },
        'Show all runs',
      ),
    );
  }
}

/** The column that names a row. */
const STUDY = 1;

const keyOf = (route: ListRoute): string => `${route.page} ${sortText(route)} ${route.query}`;

/** Failed and overloaded trials, and serious notes. */
function faults({ failed, overloaded, serious }: Run): Child {
  const parts: [number, string, string][] = [
    [failed, 'failed', 'failed'],
    [overloaded, 'overloaded', 'remark'],
    [serious, serious === 1 ? 'serious note' : 'serious notes', 'failed'],
  ];
  const some = parts.filter(([n]) => n > 0);
  if (some.length === 0) return h('span', { class: 'aside' }, 'none');
  return some.map(([n, words, kind]) => h('div', { class: kind }, `${count(n)} ${words}`));
}
