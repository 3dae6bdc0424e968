// Two to twenty runs side by side: cells and quantities in rows, runs in columns, each against the baseline.

import { h, type Child } from '../dom';
import { clock, day, NONE, plural, quantity, quantityRange, ratio, ratioRange } from '../format';
import type { Answer } from './api';
import { Asking } from './asking';
import {
  arranged,
  compareCommand,
  isProven,
  quantitiesOf,
  sharedWarnings,
  summaryOf,
  tally,
  verdictText,
} from './comparison';
import type { Context, View } from './context';
import type { Compared, Comparison, ComparisonRow, Run } from './documents';
import { failureBox, runLink, scrolling, stateMark, toggle, viewTitle } from './parts';
import { fragmentOf, type CompareRoute } from './route';
import { shareButton } from './share';

export class CompareView implements View<CompareRoute> {
  readonly element: HTMLElement;
  private route: CompareRoute | null = null;
  private answer: Answer<Comparison> | null = null;
  private readonly asking: Asking;
  private readonly title = viewTitle('Comparison');
  private readonly body = h('div', {});
  private readonly table = h('table', { class: 'comparison compared' });
  private readonly scroll = scrolling('Comparison', this.table);
  private readonly controls = h('div', { class: 'controls' });
  private readonly status = h('p', { class: 'found', role: 'status' });

  constructor(private readonly context: Context) {
    this.scroll.classList.add('pane');
    const share = shareButton(
      context,
      () => this.route && this.answer && { route: this.route, answer: this.answer },
    );
    this.element = h(
      'section',
      { class: 'compare', 'aria-label': 'Comparison' },
      h('div', { class: 'view-head' }, this.title, share),
      this.body,
    );
    this.asking = new Asking(this.body);
  }

  show(route: CompareRoute): void {
    const sameRuns = this.route?.runs.join('\0') === route.runs.join('\0');
    this.route = route;
    document.title = 'Comparison · latlab';
    this.title.textContent = `${plural(route.runs.length, 'run')} compared`;
    if (route.runs.length < 2) {
      this.answer = null;
      this.body.replaceChildren(tooFew());
    } else if (sameRuns && this.answer) this.drawTable(this.answer.data, route);
    else this.ask(route);
  }

  leave(): void {
    this.asking.stop();
    // A run may end or get a note meanwhile.
    this.answer = null;
  }

  private ask(route: CompareRoute): void {
    this.answer = null;
    this.body.replaceChildren(h('p', { class: 'hint' }, 'Comparing …'));
    this.asking.ask(
      (signal) => this.context.api.compare(route.runs, signal),
      (answer) => {
        this.answer = answer;
        this.draw(answer.data);
      },
      (failure) => this.body.replaceChildren(failureBox(failure)),
    );
  }

  private draw(comparison: Comparison): void {
    const { route } = this;
    if (!route) return;
    const rest = h('div', { class: 'controls-line' }, this.controls, this.status);
    this.body.replaceChildren(
      ...[warningList(comparison), this.command(comparison.runs), rest, this.scroll].filter(
        (part) => part !== null,
      ),
    );
    this.drawTable(comparison, route);
  }

  /** Rows alone are drawn anew when they are chosen otherwise. */
  private drawTable(comparison: Comparison, route: CompareRoute): void {
    const focused = (document.activeElement as HTMLElement | null)?.dataset['control'];
    this.drawControls(comparison, route);
    const ofQuantity = arranged(comparison.rows, {
      quantity: route.quantity,
      onlyDifferences: false,
      byChange: false,
    });
    const rows = arranged(comparison.rows, route);
    this.status.textContent = summaryOf(ofQuantity);
    const { runs } = comparison;
    this.table.replaceChildren(
      h('caption', { class: 'visually-hidden' }, 'Values of each run, with ratios to the baseline'),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, 'Cell'),
          runs.map((run, i) => this.heading(run, i, runs, tally(ofQuantity, i))),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((row) => this.row(row, runs)),
        rows.length === 0 ? emptyRow(runs.length + 1, comparison.rows.length) : null,
      ),
    );
    if (focused) {
      this.controls.querySelector<HTMLElement>(`[data-control="${CSS.escape(focused)}"]`)?.focus();
    }
  }

  private drawControls(comparison: Comparison, route: CompareRoute): void {
    const change = (part: Partial<CompareRoute>): void => {
      // A snapshot has its own fragment, which stays.
      if (this.context.made === null) this.context.go({ ...route, ...part }, 'replace');
      else this.show({ ...route, ...part });
    };
    const quantities = quantitiesOf(comparison.rows);
    const choose = (name: string): HTMLElement =>
      toggle(name || 'all', route.quantity === name, { 'data-control': `quantity ${name}` }, () =>
        change({ quantity: name }),
      );
    const { onlyDifferences, byChange } = route;
    this.controls.replaceChildren(
      quantities.length > 1
        ? h(
            'div',
            { class: 'choice', role: 'group', 'aria-label': 'Quantity' },
            h('span', { class: 'name' }, 'Quantity'),
            ['', ...quantities].map(choose),
          )
        : '',
      h(
        'div',
        { class: 'choice', role: 'group', 'aria-label': 'Rows' },
        h('span', { class: 'name' }, 'Rows'),
        toggle('only differences', onlyDifferences, { 'data-control': 'only' }, () =>
          change({ onlyDifferences: !onlyDifferences }),
        ),
        toggle('largest change first', byChange, { 'data-control': 'sort' }, () =>
          change({ byChange: !byChange }),
        ),
      ),
    );
  }

  private heading(run: Run, index: number, all: Run[], verdicts: string): HTMLElement {
    const isBaseline = index === 0;
    const first = all[0];
    const differs = (key: 'version' | 'machine'): boolean =>
      isBaseline || run[key] !== first?.[key];
    return h(
      'th',
      { scope: 'col', 'data-run': run.path, class: isBaseline ? 'baseline' : '' },
      h('span', { class: 'nth' }, index + 1, isBaseline ? ' baseline' : ''),
      h('span', { class: 'run-name' }, runLink(this.context, run), stateMark(run)),
      h('small', { class: 'whole' }, `${day(run.started)} ${clock(run.started)}`),
      h('small', { class: 'mono path', title: run.path }, run.path),
      differs('version') ? h('small', { class: 'clamped' }, `latlab ${run.version}`) : null,
      differs('machine') ? h('small', { class: 'clamped', title: run.machine }, run.machine) : null,
      isBaseline ? null : h('small', { class: 'tally' }, verdicts),
      this.headingTools(run, isBaseline, all.length),
    );
  }

  private headingTools(run: Run, isBaseline: boolean, runs: number): HTMLElement | null {
    const { route, context } = this;
    if (!route || context.made !== null) return null;
    const others = route.runs.filter((path) => path !== run.path);
    return h(
      'span',
      { class: 'run-tools' },
      isBaseline
        ? null
        : h(
            'button',
            {
              type: 'button',
              'data-action': 'baseline',
              title: 'Compare the others with this run',
              onclick: () => context.go({ ...route, runs: [run.path, ...others] }),
            },
            'as baseline',
          ),
      runs > 2
        ? h(
            'button',
            {
              type: 'button',
              'data-action': 'remove',
              'aria-label': `Remove ${run.path}`,
              title: 'Leave this run out',
              onclick: () => context.go({ ...route, runs: others }),
            },
            'remove',
          )
        : null,
    );
  }

  private row(row: ComparisonRow, runs: Run[]): HTMLElement {
    const study = runs[0]?.study ?? '';
    const isOneStudy = runs.every((run) => run.study === study);
    const trend = fragmentOf({
      view: 'trend',
      study,
      cell: row.cell,
      quantity: row.quantity,
      machine: '',
    });
    return h(
      'tr',
      { 'data-cell': row.cell, 'data-quantity': row.quantity },
      h(
        'th',
        { scope: 'row' },
        h('span', { class: 'cell-name', title: row.cell }, row.cell),
        h(
          'small',
          {},
          isOneStudy && this.context.made === null
            ? h('a', { href: trend, title: 'Over time' }, row.quantity)
            : row.quantity,
        ),
      ),
      row.values.map((value, i) => valueCell(value, row, i === 0)),
    );
  }

  /** With exactly two runs there is a better comparison than this page's. */
  private command(runs: Run[]): HTMLElement | null {
    const [a, b, ...more] = runs;
    if (!a || !b || more.length > 0) return null;
    return h(
      'p',
      { class: 'hint command' },
      'This page compares summaries. From the raw samples: ',
      h('code', {}, compareCommand(a.path, b.path)),
    );
  }
}

function valueCell(value: Compared | null, row: ComparisonRow, isBaseline: boolean): HTMLElement {
  if (!value) return h('td', { class: 'number absent' }, h('span', { class: 'aside' }, NONE));
  const { low, high, verdict } = value;
  const own = low !== null && high !== null ? quantityRange([low, high], row.unit) : '';
  const title = `${own ? `95 % interval ${own}, ` : ''}${plural(value.replicates, 'replicate')}`;
  return h(
    'td',
    {
      class: `number ${isProven(value) ? verdict : ''}`,
      title,
      'data-value': value.value,
      'data-ratio': value.ratio ?? undefined,
    },
    h('span', { class: 'figure-of' }, quantity(value.value, row.unit)),
    isBaseline ? h('small', {}, own) : against(value, row),
  );
}

/** Ratio with its interval, and the verdict in words. */
function against(value: Compared, row: ComparisonRow): Child {
  const { ratio_low: low, ratio_high: high, verdict } = value;
  return [
    value.ratio === null
      ? null
      : h(
          'small',
          {},
          ratio(value.ratio),
          low !== null && high !== null ? ` [${ratioRange([low, high])}]` : null,
        ),
    verdict === null
      ? null
      : h('small', { class: `verdict ${verdict}` }, verdictText(value, row.quantity)),
  ];
}

/** Differences of machines and kernels, before any number. */
function warningList({ warnings, runs }: Comparison): HTMLElement | null {
  const shared = sharedWarnings(warnings);
  if (shared.length === 0) return null;
  return h(
    'ul',
    { class: 'notes warnings', 'aria-label': 'Differences from the baseline' },
    shared.map(({ text, runs: numbers }) =>
      h(
        'li',
        { class: 'note caution' },
        h('span', { class: 'mark', 'aria-hidden': 'true' }, '!'),
        h('p', {}, h('strong', {}, whose(numbers, runs.length)), ' ', text.replace(/\.$/, ''), '.'),
      ),
    ),
  );
}

function whose(numbers: number[], runs: number): string {
  if (runs === 2) return 'Caution:';
  if (numbers.length === runs - 1) return 'In all others';
  const names = numbers.map((index) => index + 1);
  return `In ${names.length === 1 ? 'run' : 'runs'} ${names.join(', ')}`;
}

function emptyRow(columns: number, rows: number): HTMLElement {
  const why =
    rows === 0
      ? 'The runs have no cell in common with the baseline.'
      : 'No row differs beyond chance.';
  return h('tr', {}, h('td', { colspan: columns, class: 'hint' }, why));
}

function tooFew(): HTMLElement {
  return h(
    'div',
    { class: 'empty-list' },
    h('p', {}, 'Choose two to twenty runs in the list; the first is the baseline.'),
    h('a', { class: 'tool', href: '#/' }, 'To the list'),
  );
}
