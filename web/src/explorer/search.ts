// The search box: `/` leads to it, each key asks, Escape empties it.

import { h } from '../dom';

const EXAMPLES: [query: string, meaning: string][] = [
  [
    'rr-udp bridge',
    'both words, as beginnings of words, anywhere: path, study, machine, levels, note, …',
  ],
  ['"two words"', 'the words side by side'],
  ['study:qui', 'in one field only'],
  ['machine="AMD EPYC"', 'a field that is exactly this'],
  ['kind=vm', 'a level of a factor'],
  ['after:2026-11-01 before:2026-12-01', 'started in November; times are RFC 3339'],
  ['-tag:draft', 'all but these; a minus goes before any term'],
];

const KEYS = 'study machine version kernel state tag path measurement'.split(' ');

export class SearchBox {
  readonly element: HTMLElement;
  private readonly input = h('input', {
    type: 'search',
    id: 'search',
    placeholder: 'Study, machine, version, tag, factor=level …',
    autocomplete: 'off',
    autocapitalize: 'off',
    spellcheck: 'false',
    'aria-describedby': 'search-help',
  });
  private readonly onKey = (event: KeyboardEvent): void => this.key(event);

  constructor(private readonly search: (query: string) => void) {
    this.input.addEventListener('input', () => this.search(this.input.value));
    this.element = h(
      'search',
      { class: 'search' },
      h(
        'form',
        { onsubmit: (event: Event) => this.submit(event) },
        h('label', { class: 'visually-hidden', for: 'search' }, 'Search runs'),
        this.input,
        h('kbd', { 'aria-hidden': 'true', title: 'The key / leads here' }, '/'),
      ),
      this.help(),
    );
  }

  /** Shows the query of the address, unless it is what is being typed. */
  show(query: string): void {
    if (this.input.value !== query) this.input.value = query;
  }

  listen(): void {
    document.addEventListener('keydown', this.onKey);
  }

  stop(): void {
    document.removeEventListener('keydown', this.onKey);
  }

  private submit(event: Event): void {
    event.preventDefault();
    this.search(this.input.value);
  }

  private key(event: KeyboardEvent): void {
    const at = event.target as HTMLElement;
    const isTyping = at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.input.focus();
    this.input.select();
  }

  private help(): HTMLElement {
    const rows = EXAMPLES.map(([query, meaning]) =>
      h(
        'div',
        {},
        h('dt', {}, h('button', { type: 'button', onclick: () => this.take(query) }, query)),
        h('dd', {}, meaning),
      ),
    );
    return h(
      'details',
      { class: 'fold help', id: 'search-help' },
      h('summary', {}, 'How to search'),
      h('dl', { class: 'pairs' }, rows),
      h('p', { class: 'hint' }, 'Fields: ', h('span', { class: 'mono' }, KEYS.join(', ')), '.'),
    );
  }

  private take(query: string): void {
    this.input.value = query;
    this.search(query);
    this.input.focus();
  }
}
