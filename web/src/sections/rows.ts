// A table with one row a thing, for sections that have nothing to sort or fold.

import { h } from '../dom';
import { duration } from '../format';
import type { TimeRange } from '../summary';

export function tableOf(heads: string[], rows: HTMLElement[]): HTMLElement {
  const columns = heads.map((head) => h('th', { scope: 'col' }, head));
  return h(
    'div',
    { class: 'scroll' },
    h('table', { class: 'starts' }, h('thead', {}, h('tr', {}, columns)), h('tbody', {}, rows)),
  );
}

/** The median with the range below; an empty cell without them. */
export function rangeCell(range: TimeRange | undefined): HTMLElement {
  if (!range) return h('td', {}, '');
  const ends = `${duration(range.smallest)}–${duration(range.largest)}`;
  return h('td', {}, duration(range.median), h('small', {}, ends));
}

/** A bar to a share of the longest. */
export function barCell(value: number, longest: number): HTMLElement {
  const width = `width:${((100 * value) / longest).toFixed(2)}%`;
  return h('td', { class: 'bar', 'aria-hidden': 'true' }, h('span', { style: width }));
}
