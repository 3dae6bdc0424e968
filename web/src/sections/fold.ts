// Long lists: the first few at once, the rest behind a line that says how many there are.

import { h } from '../dom';
import { plural } from '../format';

export function fold(items: HTMLElement[], shown: number, what: string): HTMLElement[] {
  // One item more than allowed is shown rather than hidden behind a line of the same height.
  if (items.length <= shown + 1) return items;
  const rest = items.slice(shown);
  return [
    ...items.slice(0, shown),
    h(
      'details',
      { class: 'fold' },
      h('summary', {}, `${plural(rest.length, `more ${what}`)}`),
      rest,
    ),
  ];
}
