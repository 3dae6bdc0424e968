// The note and the tags of a run. A draft survives a visit to another view. When someone else
// wrote in between, both texts are shown and the reader decides.

import { h } from '../dom';
import { Failure } from './api';
import type { Context } from './context';
import type { Remark, Run } from './documents';
import { failureBox } from './parts';

/** As typed. */
interface Typed {
  note: string;
  tags: string;
}

interface Draft extends Typed {
  /** The text that the writer saw, which the server compares with its own. */
  was: Remark;
}

/** Tags as they are typed: words, with or without commas between them. */
export function parseTags(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter((tag) => tag !== ''))];
}

const joined = (tags: string[]): string => tags.join(' ');

const remarkOf = ({ note, tags }: Typed): Remark => ({ note, tags: parseTags(tags) });

function isSame(one: Remark, other: Remark): boolean {
  return one.note === other.note && joined(one.tags) === joined(other.tags);
}

/** A draft of what was typed while the answer to `sent` was out; null where nothing was. */
export function draftAfter(typed: Typed, sent: Remark, saved: Remark): Draft | null {
  if (isSame(remarkOf(typed), sent)) return null;
  return { was: { note: saved.note, tags: saved.tags }, note: typed.note, tags: typed.tags };
}

export class RemarkEditor {
  readonly element: HTMLFormElement;
  private path = '';
  private was: Remark = { note: '', tags: [] };
  private readonly drafts = new Map<string, Draft>();
  private readonly note = h('textarea', { id: 'note', rows: 4, 'data-edit': 'note' });
  private readonly tags = h('input', {
    id: 'tags',
    'data-edit': 'tags',
    autocomplete: 'off',
    placeholder: 'baseline before-upgrade',
  });
  private readonly save = h('button', { type: 'submit', class: 'tool' }, 'Save');
  private readonly status = h('span', { class: 'hint', role: 'status' });
  private readonly problem = h('div', {});

  constructor(private readonly context: Context) {
    this.element = h(
      'form',
      {
        class: 'editor',
        oninput: () => this.edited(),
        onsubmit: (event: Event) => {
          event.preventDefault();
          void this.write();
        },
      },
      h('label', { for: 'note' }, 'Note'),
      this.note,
      h('label', { for: 'tags' }, 'Tags, one word each'),
      this.tags,
      h('div', { class: 'tools' }, this.save, this.status),
      this.problem,
    );
    this.note.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.element.requestSubmit();
    });
    window.addEventListener('beforeunload', (event) => {
      if (this.drafts.size > 0) event.preventDefault();
    });
  }

  show({ path, note, tags, problem }: Run): void {
    this.path = path;
    const draft = this.drafts.get(path);
    this.was = draft?.was ?? { note, tags };
    this.fill(draft?.note ?? note, draft?.tags ?? joined(tags));
    this.status.textContent = draft ? 'Not saved yet' : '';
    this.problem.replaceChildren();
    // Nothing is written into a directory that is no run.
    for (const control of [this.note, this.tags]) control.disabled = problem !== null;
    this.save.disabled = problem !== null || !draft;
  }

  private fill(note: string, tags: string): void {
    this.note.value = note;
    this.tags.value = tags;
  }

  private edited(): void {
    const typed = this.typed();
    const isSaved = isSame(remarkOf(typed), this.was);
    this.save.disabled = isSaved;
    this.status.textContent = isSaved ? '' : 'Not saved yet';
    if (isSaved) this.drafts.delete(this.path);
    else this.drafts.set(this.path, { was: this.was, ...typed });
  }

  private typed(): Typed {
    return { note: this.note.value, tags: this.tags.value };
  }

  private async write(): Promise<void> {
    if (this.save.disabled) return;
    const { path } = this;
    this.save.disabled = true;
    this.status.textContent = 'Saving …';
    this.problem.replaceChildren();
    try {
      const sent = remarkOf(this.typed());
      const run = await this.context.api.write(path, sent, this.was);
      const typed = this.path === path ? this.typed() : this.drafts.get(path);
      const draft = typed ? draftAfter(typed, sent, run) : null;
      if (draft) this.drafts.set(path, draft);
      else this.drafts.delete(path);
      if (this.path !== path) return;
      this.show(run);
      if (!draft) this.status.textContent = 'Saved';
    } catch (error) {
      const failure = error instanceof Failure ? error : new Failure(String(error), null, 0);
      if (this.path === path) await this.refused(failure);
    }
  }

  private async refused(failure: Failure): Promise<void> {
    this.status.textContent = 'Not saved';
    this.save.disabled = false;
    this.problem.replaceChildren(failureBox(failure));
    if (failure.status !== 409) return;
    const { path } = this;
    const theirs = await this.context.api.run(path).catch(() => null);
    if (theirs && this.path === path) this.problem.append(this.conflict(theirs.data.run));
  }

  /** Their text, and a way out in either direction. */
  private conflict(run: Run): HTMLElement {
    const theirs: Remark = { note: run.note, tags: run.tags };
    const take = (): void => {
      this.drafts.delete(this.path);
      this.show(run);
      this.note.focus();
    };
    const keep = (): void => {
      this.was = theirs;
      this.problem.replaceChildren();
      this.edited();
      void this.write();
    };
    const button = (text: string, action: string, act: () => void): HTMLElement =>
      h('button', { type: 'button', class: 'tool', 'data-action': action, onclick: act }, text);
    return h(
      'div',
      { class: 'conflict' },
      h('h3', {}, 'What is there now'),
      h('blockquote', {}, theirs.note || '(no note)'),
      h(
        'p',
        { class: 'hint' },
        theirs.tags.length > 0 ? `Tags: ${joined(theirs.tags)}` : 'No tags',
      ),
      h(
        'div',
        { class: 'tools' },
        button('Take theirs', 'take', take),
        button('Replace it by mine', 'keep', keep),
      ),
    );
  }
}
