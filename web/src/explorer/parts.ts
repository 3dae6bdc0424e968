// Small elements that several views share.

import { h, type Child } from '../dom';
import { clock, day } from '../format';
import type { Failure } from './api';
import type { Context } from './context';
import type { Run } from './documents';
import { runFragment } from './route';

/** A failure with its hint. */
export function failureBox(failure: Failure): HTMLElement {
  return h(
    'div',
    { class: 'banner failure', role: 'alert' },
    h('strong', {}, failure.message),
    failure.hint ? h('p', {}, failure.hint) : null,
  );
}

/** A link within the explorer; plain text in a snapshot, which has no other views. */
export function link(context: Context, fragment: string, ...text: Child[]): HTMLElement {
  return context.made === null ? h('a', { href: fragment }, ...text) : h('span', {}, ...text);
}

/** The study of a run, or its path where the run cannot be read. */
export function runLink(context: Context, run: Run): HTMLElement {
  return link(context, runFragment(run.path), run.study === '' ? run.path : run.study);
}

/** Date, with the time of day below. */
export function when(rfc3339: string): Child {
  return rfc3339 === '' ? null : [day(rfc3339), ' ', h('small', {}, clock(rfc3339))];
}

/** The state of a run that is not complete; null for others. */
export function stateMark({ state, reason }: Pick<Run, 'state' | 'reason'>): HTMLElement | null {
  if (state !== 'incomplete' && state !== 'running') return null;
  return h('span', { class: `state ${state}`, title: reason ?? undefined }, state);
}

/** A heading that takes the focus when its view opens. */
export function viewTitle(...children: Child[]): HTMLHeadingElement {
  return h('h1', { tabindex: '-1' }, ...children);
}

/** A button that is pressed or not. */
export function toggle(
  text: string,
  pressed: boolean,
  data: Record<string, string>,
  act: () => void,
): HTMLButtonElement {
  return h(
    'button',
    { type: 'button', 'aria-pressed': String(pressed), ...data, onclick: act },
    text,
  );
}

/** A table that scrolls within its box. */
export function scrolling(label: string, ...children: Child[]): HTMLElement {
  return h(
    'div',
    { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label },
    children,
  );
}
