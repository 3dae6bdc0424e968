// Taking the numbers away: the table as CSV on the clipboard, the summary as a file.

import { csv } from '../csv';
import { h } from '../dom';
import type { Model } from '../model';

export function tableTools(model: Model, json: string): HTMLElement {
  const status = h('span', { class: 'hint', role: 'status' });
  const copyButton = h(
    'button',
    { type: 'button', class: 'tool', 'data-action': 'csv' },
    'Copy as CSV',
  );
  copyButton.addEventListener('click', () => {
    void copy(csv(model)).then((done) => {
      status.textContent = done ? 'Copied, all measurements' : 'The browser refused the clipboard';
    });
  });
  const save = h(
    'button',
    { type: 'button', class: 'tool', 'data-action': 'json' },
    'Download summary.json',
  );
  save.addEventListener('click', () => download('summary.json', json));
  return h('div', { class: 'tools' }, copyButton, save, status);
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // No clipboard API, or not allowed: the older way still works on pages opened from a disk.
    const area = h('textarea', { class: 'visually-hidden', 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = h('a', { href: url, download: name });
  link.click();
  URL.revokeObjectURL(url);
}
