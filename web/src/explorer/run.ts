// One run: its facts, what was written about it, its serious notes and its values.

import { h, type Child } from '../dom';
import { count, elapsed, moment, NONE, plural, quantity, quantityRange } from '../format';
import { MARKS, NAMES } from '../sections/notes';
import { Asking } from './asking';
import type { Context, View } from './context';
import type { Run, RunDetail, Value } from './documents';
import { RemarkEditor } from './editor';
import { failureBox, link, scrolling, stateMark, viewTitle } from './parts';
import { fragmentOf, reportAddress, type RunRoute } from './route';

export class RunView implements View<RunRoute> {
  readonly element = h('section', { class: 'run', 'aria-label': 'Run' });
  private readonly title = viewTitle('Run');
  private readonly tools = h('div', { class: 'tools' });
  private readonly body = h('div', {});
  private readonly asking = new Asking(this.body);
  private readonly editor: RemarkEditor;

  constructor(private readonly context: Context) {
    this.editor = new RemarkEditor(context);
    this.element.append(h('div', { class: 'view-head' }, this.title, this.tools), this.body);
    context.choice.subscribe(() => this.drawChoice());
  }

  show({ run }: RunRoute): void {
    document.title = `${run} · latlab`;
    this.title.textContent = run;
    this.tools.replaceChildren();
    this.body.replaceChildren();
    this.asking.ask(
      (signal) => this.context.api.run(run, signal),
      ({ data }) => this.draw(data),
      (failure) => this.body.replaceChildren(failureBox(failure)),
    );
  }

  leave(): void {
    this.asking.stop();
  }

  private draw(detail: RunDetail): void {
    const { run } = detail;
    this.title.replaceChildren(run.study === '' ? run.path : run.study);
    document.title = `${run.study || run.path} · latlab`;
    this.drawTools(detail);
    this.editor.show(run);
    this.body.replaceChildren(
      ...[
        run.description ? h('p', { class: 'lead' }, run.description) : null,
        trouble(run),
        h('div', { class: 'run-top' }, facts(run), this.editor.element),
        seriousNotes(detail),
        this.values(detail),
      ].filter((part) => part !== null),
    );
  }

  private drawTools({ run, has_report }: RunDetail): void {
    const report = has_report ? reportAddress(run.path) : null;
    const choose = h('button', {
      type: 'button',
      class: 'tool',
      'data-choose-run': run.path,
      disabled: run.problem !== null,
      onclick: () => this.context.choice.set(run.path, !this.context.choice.has(run.path)),
    });
    this.tools.replaceChildren(
      choose,
      report !== null && run.problem === null
        ? h('a', { class: 'tool primary', href: report }, 'Open report')
        : '',
    );
    this.drawChoice();
  }

  private drawChoice(): void {
    const button = this.tools.querySelector<HTMLButtonElement>('[data-choose-run]');
    if (!button) return;
    const { choice } = this.context;
    const isChosen = choice.has(button.dataset['chooseRun'] ?? '');
    button.setAttribute('aria-pressed', String(isChosen));
    button.textContent = isChosen ? 'Chosen for a comparison ✓' : 'Choose for a comparison';
  }

  private values({ run, cells }: RunDetail): HTMLElement {
    if (cells.length === 0) return h('p', { class: 'hint' }, 'Nothing was measured.');
    const quantities = [
      ...new Set(cells.flatMap((cell) => cell.quantities.map((q) => q.quantity))),
    ];
    const rows = cells.map((cell) =>
      h(
        'tr',
        { 'data-cell': cell.id },
        h(
          'th',
          { scope: 'row' },
          h('span', { class: 'cell-name', title: cell.id }, cell.label || cell.id),
          cell.label ? h('small', {}, cell.measurement) : null,
        ),
        quantities.map((name) => {
          const value = cell.quantities.find((one) => one.quantity === name);
          return h('td', { class: 'number' }, value ? this.value(run, cell.id, value) : NONE);
        }),
      ),
    );
    return h(
      'section',
      { 'aria-labelledby': 'cells-title' },
      h('h2', { id: 'cells-title' }, 'Cells'),
      h('p', { class: 'hint' }, 'A value leads to its trend over all runs of the study.'),
      scrolling(
        'Cells and values',
        h(
          'table',
          { class: 'comparison values' },
          h('caption', { class: 'visually-hidden' }, 'Values of the cells'),
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              h('th', { scope: 'col' }, 'Cell'),
              quantities.map((name) => h('th', { scope: 'col', class: 'number' }, name)),
            ),
          ),
          h('tbody', {}, rows),
        ),
      ),
    );
  }

  private value(run: Run, cell: string, { quantity: name, unit, ...value }: Value): Child {
    const trend = fragmentOf({
      view: 'trend',
      study: run.study,
      cell,
      quantity: name,
      machine: '',
    });
    const { low, high } = value;
    const range = low !== null && high !== null ? quantityRange([low, high], unit) : 'no interval';
    return [
      link(this.context, trend, quantity(value.value, unit)),
      h('small', {}, range),
      h('small', {}, plural(value.replicates, 'replicate')),
    ];
  }
}

function trouble({ state, reason, problem }: Run): HTMLElement | null {
  const text =
    problem !== null
      ? `This run cannot be read: ${problem}`
      : state === 'incomplete'
        ? `This run is incomplete${reason ? `: ${reason}` : ''}`
        : state === 'running'
          ? 'This run did not end yet'
          : null;
  if (text === null) return null;
  return h(
    'p',
    { class: 'banner', role: 'status' },
    h('strong', {}, `${text.replace(/\.$/, '')}.`),
  );
}

function facts(run: Run): HTMLElement {
  const took = run.finished ? `, ${elapsed(run.started, run.finished)}` : '';
  const faults = [
    [run.failed, 'failed'],
    [run.overloaded, 'overloaded'],
  ] as const;
  const some = faults.flatMap(([n, word]) => (n > 0 ? `, ${count(n)} ${word}` : []));
  const rows: [string, Child, string?][] = [
    ['When', run.started === '' ? NONE : `${moment(run.started)}${took}`],
    ['Directory', run.path, 'mono'],
    ['Run', run.id || NONE, 'mono'],
    ['State', stateMark(run) ?? (run.state || NONE)],
    ['Size', `${plural(run.cells, 'cell')}, ${plural(run.trials, 'trial')}${some.join('')}`],
    ['Machine', run.machine || NONE],
    ['Kernel', run.kernel || NONE],
    ['latlab', run.version || NONE],
  ];
  if (run.acceleration) {
    const isEmulated = run.acceleration === 'tcg';
    rows.push(['Virtual machines', isEmulated ? 'software emulation (TCG)' : run.acceleration]);
  }
  if (run.measurements.length > 0) rows.push(['Measurements', run.measurements.join(', ')]);
  for (const { name, levels } of run.factors) rows.push([name, levels.join(', ')]);
  return h(
    'div',
    { class: 'facts' },
    h(
      'dl',
      {},
      rows.map(([name, value, kind]) =>
        h('div', {}, h('dt', {}, name), h('dd', { class: kind }, value)),
      ),
    ),
  );
}

function seriousNotes({ notes }: RunDetail): HTMLElement | null {
  if (notes.length === 0) return null;
  const order = Object.keys(NAMES);
  const sorted = [...notes].sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
  return h(
    'section',
    { 'aria-labelledby': 'run-notes' },
    h('h2', { id: 'run-notes' }, 'Before you trust these numbers'),
    h(
      'ul',
      { class: 'notes' },
      sorted.map(({ severity, text }) =>
        h(
          'li',
          { class: `note ${severity in NAMES ? severity : 'info'}` },
          h('span', { class: 'mark', 'aria-hidden': 'true' }, MARKS[severity] ?? 'i'),
          h('p', {}, h('strong', {}, `${NAMES[severity] ?? severity}. `), text),
        ),
      ),
    ),
  );
}
