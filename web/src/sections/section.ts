// A section of the page, which a heading names.

import { h, type Child } from '../dom';

export function section(id: string, title: string, ...children: Child[]): HTMLElement {
  const heading = `${id}-title`;
  return h(
    'section',
    { id, 'aria-labelledby': heading },
    h('h2', { id: heading }, title),
    ...children,
  );
}
