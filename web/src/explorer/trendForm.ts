// The choice of a trend: study, cell, quantity, machine.

import { h } from '../dom';
import { count } from '../format';
import type { Context } from './context';
import type { Choices } from './documents';
import type { TrendRoute } from './route';

type Part = Partial<Omit<TrendRoute, 'view'>>;

export class TrendForm {
  readonly element: HTMLFormElement;
  private readonly study = h('input', {
    list: 'studies',
    'data-choice': 'study',
    placeholder: 'Name of a study',
    autocomplete: 'off',
    spellcheck: 'false',
  });
  private readonly studies = h('datalist', { id: 'studies' });
  private readonly cell: HTMLSelectElement;
  private readonly quantity: HTMLSelectElement;
  private readonly machine: HTMLSelectElement;
  private hasStudies = false;

  constructor(
    private readonly context: Context,
    private readonly choose: (part: Part) => void,
  ) {
    const take = (): void =>
      choose({ study: this.study.value.trim(), cell: '', quantity: '', machine: '' });
    this.study.addEventListener('change', take);
    this.cell = select('cell', (cell) => choose({ cell, quantity: '' }));
    this.quantity = select('quantity', (quantity) => choose({ quantity }));
    this.machine = select('machine', (machine) => choose({ machine }));
    this.element = h(
      'form',
      { class: 'trend-form', onsubmit: (event: Event) => event.preventDefault() },
      field('Study', this.study),
      this.studies,
      field('Cell', this.cell),
      field('Quantity', this.quantity),
      field('Machine', this.machine),
    );
  }

  /** Shows what a route chose, and what else there is; nothing to choose from before a study is. */
  show(route: TrendRoute, choices: Choices | null): void {
    if (!this.hasStudies && this.context.made === null) void this.fillStudies();
    this.study.value = route.study;
    const cells = choices?.cells ?? [];
    const quantities = cells.find(({ cell }) => cell === route.cell)?.quantities ?? [];
    const options = cells.map(({ cell, runs }) => [cell, `${cell} (${count(runs)})`] as const);
    fill(this.cell, options, route.cell);
    fill(
      this.quantity,
      quantities.map((one) => [one, one]),
      route.quantity,
    );
    const machines = (choices?.machines ?? []).map(
      ([machine, runs]) => [machine, `${machine} (${count(runs)})`] as const,
    );
    fill(this.machine, [['', 'all, each on its own'], ...machines], route.machine);
  }

  /** The names of studies are asked for again. */
  leave(): void {
    this.hasStudies = false;
  }

  /** Suggestions only: without them, a name can still be typed. */
  private async fillStudies(): Promise<void> {
    this.hasStudies = true;
    const names = await this.context.api.studies().catch(() => {
      this.hasStudies = false;
      return [];
    });
    this.studies.replaceChildren(...names.map((value) => h('option', { value })));
    const [only] = names;
    if (names.length === 1 && only !== undefined && this.study.value === '') {
      this.choose({ study: only });
    }
  }
}

function select(name: string, choose: (value: string) => void): HTMLSelectElement {
  const element = h('select', { 'data-choice': name, onchange: () => choose(element.value) });
  return element;
}

function field(label: string, control: HTMLElement): HTMLElement {
  return h('label', {}, h('span', {}, label), control);
}

function fill(
  element: HTMLSelectElement,
  options: (readonly [value: string, text: string])[],
  chosen: string,
): void {
  const all = options.some(([value]) => value === chosen)
    ? options
    : [[chosen, chosen] as const, ...options];
  element.replaceChildren(
    ...all.map(([value, text]) => h('option', { value, selected: value === chosen }, text)),
  );
  element.disabled = options.length === 0;
}
