// The bar of chosen runs: stays in view while runs are searched, paged through and looked at.

import { h } from '../dom';
import { plural } from '../format';
import { MAX_RUNS } from './choice';
import type { Context } from './context';
import { compareFragment } from './route';

export class ChosenBar {
  readonly element = h('div', { class: 'chosen', role: 'region', 'aria-label': 'Chosen runs' });
  private readonly said = h('p', { role: 'status' });
  private isWanted = true;

  constructor(private readonly context: Context) {
    context.choice.subscribe(() => this.draw());
    this.draw();
  }

  /** Shows the bar as long as there are chosen runs, or hides it. */
  show(isWanted: boolean): void {
    this.isWanted = isWanted;
    this.draw();
  }

  private draw(): void {
    const { choice } = this.context;
    const runs = [...choice.runs];
    this.element.hidden = runs.length === 0 || !this.isWanted;
    this.said.replaceChildren(h('strong', {}, `${runs.length} chosen`), ...this.advice(runs));
    const compare =
      runs.length < 2
        ? h('button', { type: 'button', class: 'tool primary', disabled: true }, 'Compare')
        : h('a', { class: 'tool primary', href: compareFragment(runs) }, 'Compare');
    const clear = h(
      'button',
      { type: 'button', class: 'tool', 'data-action': 'clear', onclick: () => choice.clear() },
      'Clear',
    );
    this.element.replaceChildren(this.said, h('div', { class: 'tools' }, compare, clear));
  }

  private advice([baseline, ...others]: string[]): (Node | string)[] {
    if (others.length === 0) return [': choose another to compare it with'];
    const full = this.context.choice.isFull ? `; ${plural(MAX_RUNS, 'run')} is the most` : '';
    return [', baseline ', h('span', { class: 'mono path' }, baseline ?? ''), full];
  }
}
