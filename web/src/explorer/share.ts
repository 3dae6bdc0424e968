// "Share as one HTML file": the page as it is served, with the answers of the view on show.

import { h } from '../dom';
import { Failure, type Answer } from './api';
import type { Context } from './context';
import { fragmentOf, type Route } from './route';
import { fileName, filled } from './snapshot';

/** A button that downloads the view. Absent in a snapshot, which is such a file already. */
export function shareButton(
  context: Context,
  current: () => { route: Route; answer: Answer<unknown> } | null,
): HTMLElement | null {
  if (context.made !== null) return null;
  const status = h('span', { class: 'hint', role: 'status' });
  const share = async (): Promise<void> => {
    const view = current();
    if (!view) return;
    status.textContent = '';
    try {
      const made = new Date().toISOString();
      const page = filled(await context.api.source(), {
        made,
        fragment: fragmentOf(view.route),
        answers: { [view.answer.address]: view.answer.data },
      });
      download(fileName(view.route.view, made), page);
      status.textContent = 'Saved; the file needs no server.';
    } catch (error) {
      const why = error instanceof Failure ? error.message : String(error);
      status.textContent = `Not saved: ${why}`;
    }
  };
  return h(
    'div',
    { class: 'tools' },
    status,
    h(
      'button',
      {
        type: 'button',
        class: 'tool',
        'data-action': 'share',
        title: 'Saves this view as one HTML file, which shows it without a server',
        onclick: () => void share(),
      },
      'Share as one HTML file',
    ),
  );
}

function download(name: string, html: string): void {
  const url = URL.createObjectURL(new Blob([html], { type: 'text/html' }));
  h('a', { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
