// Caveats: what a reader must know before trusting a number, the serious first. Each note
// names its cells as chips; a chip leads to its cell and highlights it everywhere.

import { h } from '../dom';
import { plural } from '../format';
import type { Model } from '../model';
import type { State } from '../state';
import type { Note, Severity } from '../summary';
import { section } from './section';

const ORDER: Severity[] = ['serious', 'caution', 'info'];
export const NAMES: Record<Severity, string> = {
  serious: 'Serious',
  caution: 'Caution',
  info: 'Good to know',
};
export const MARKS: Record<Severity, string> = { serious: '!!', caution: '!', info: 'i' };
/** More chips than this are folded. */
const CHIPS = 6;

export function notes(model: Model, state: State, reveal: (cell: string) => void): HTMLElement {
  const rank = (note: Note): number => ORDER.indexOf(note.severity);
  const sorted = [...model.summary.notes].sort((a, b) => rank(a) - rank(b));
  const chips: HTMLButtonElement[] = [];
  const items = sorted.map((note) => noteItem(model, note, chips));
  for (const chip of chips) {
    chip.addEventListener('click', () => {
      const cell = chip.dataset['chip'] ?? '';
      if (state.pin(cell)) reveal(cell);
    });
  }
  state.subscribe((changes) => {
    if (!changes.has('focus')) return;
    for (const chip of chips) {
      chip.setAttribute('aria-pressed', String(chip.dataset['chip'] === state.pinnedCell));
    }
  });
  return section(
    'notes',
    'Before you trust these numbers',
    items.length > 0
      ? h('ul', { class: 'notes' }, items)
      : h(
          'p',
          { class: 'empty' },
          'Nothing to warn of: no trial failed, none was overloaded, every check passed.',
        ),
  );
}

function noteItem(model: Model, note: Note, chips: HTMLButtonElement[]): HTMLElement {
  const own = note.cells.map((id) => {
    const chip = h(
      'button',
      { class: 'chip', type: 'button', 'data-chip': id, 'aria-pressed': 'false', title: id },
      cellName(model, id),
    );
    chips.push(chip);
    return chip;
  });
  let list: Node | null = null;
  if (own.length > CHIPS) {
    list = h(
      'details',
      { class: 'chips' },
      h('summary', {}, plural(own.length, 'cell')),
      h('div', {}, own),
    );
  } else if (own.length > 0) list = h('div', { class: 'chips' }, own);
  return h(
    'li',
    { class: `note ${note.severity}`, 'data-code': note.code },
    h('span', { class: 'mark', 'aria-hidden': 'true' }, MARKS[note.severity] ?? 'i'),
    h(
      'div',
      {},
      h('p', {}, h('strong', {}, `${NAMES[note.severity] ?? note.severity}. `), note.text),
      list,
    ),
  );
}

/** `rr-udp · vm · bridge`. */
export function cellName(model: Model, id: string): string {
  const cell = model.cells.get(id);
  if (!cell) return id;
  const levels = model.summary.factors.flatMap((factor) => cell.levels[factor.name] ?? []);
  return [cell.measurement, ...levels].join(' · ');
}
