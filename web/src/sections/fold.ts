// Long lists: the first few at once, the rest behind a line that says how many there are. What is
// folded away is built when it is unfolded.

import { h } from '../dom';
import { plural } from '../format';

export function fold<T>(
  items: T[],
  shown: number,
  what: string,
  build: (item: T, index: number) => HTMLElement,
): HTMLElement[] {
  // One item more than allowed is shown rather than hidden behind a line of the same height.
  if (items.length <= shown + 1) return items.map(build);
  const rest = items.slice(shown);
  const details = h(
    'details',
    { class: 'fold' },
    h('summary', {}, plural(rest.length, `more ${what}`)),
  );
  onOpen(details, () => rest.map((item, i) => build(item, shown + i)));
  return [...items.slice(0, shown).map(build), details];
}

/** Fills a `details` element when it is first opened. */
export function onOpen(details: HTMLDetailsElement, content: () => HTMLElement[]): void {
  details.addEventListener('toggle', () => {
    if (details.open && details.childElementCount === 1) details.append(...content());
  });
}

/** Opens everything that is folded, and what appears in it, for print. */
export function unfoldAll(root: ParentNode): void {
  for (;;) {
    const closed = root.querySelectorAll<HTMLDetailsElement>('details:not([open])');
    if (closed.length === 0) return;
    for (const details of closed) {
      details.open = true;
      // The browser's own event comes too late for the print that is about to happen.
      details.dispatchEvent(new Event('toggle'));
    }
  }
}
