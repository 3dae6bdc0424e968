// Blame for the tail: for each percentile the share of each cause in the time beyond it, the number of packets
// with this first cause, and its remedy.

import { h } from '../dom';
import { count, duration, percentileName, significant } from '../format';
import { kindSwatch } from './swatch';
import type { Blame, CauseInfo, Tail } from '../summary';

const SHOWN = 10;
/** Shares below are no more than rounding. */
const MIN_SHARE = 0.0005;

export function blameTable(tail: Tail): HTMLElement {
  const { blames } = tail;
  if (blames.length === 0 || tail.worst.length === 0) {
    return h('p', { class: 'empty' }, 'No packet could be explained.');
  }
  const last = blames[blames.length - 1] as Blame;
  const order = tail.causes
    .map((_, index) => index)
    .filter((index) => blames.some((blame) => (shareOf(blame, index) ?? 0) >= MIN_SHARE))
    .sort((a, b) => (shareOf(last, b) ?? 0) - (shareOf(last, a) ?? 0));
  const rows = order.map((index, i) => row(tail, index, i >= SHOWN));
  const rest = order.length - SHOWN;
  const body = h('tbody', {}, rows);
  const more =
    rest > 0
      ? h(
          'button',
          {
            type: 'button',
            class: 'more',
            onclick: () => {
              for (const hidden of body.querySelectorAll('tr[hidden]')) {
                hidden.removeAttribute('hidden');
              }
              more?.remove();
            },
          },
          `Show ${count(rest)} more`,
        )
      : null;
  return h(
    'div',
    { class: 'blame' },
    h(
      'div',
      { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Blame, ${tail.device}` },
      h('table', {}, head(tail), body, foot(tail)),
    ),
    more,
  );
}

function shareOf(blame: Blame, cause: number): number | undefined {
  return blame.rows.find((row) => row.cause === cause)?.share;
}

function head({ blames }: Tail): HTMLElement {
  const column = (blame: Blame): HTMLElement =>
    h(
      'th',
      { scope: 'col', class: 'num' },
      blame.quantile > 0 ? `beyond ${percentileName(blame.quantile)}` : 'all explained',
      h(
        'small',
        {},
        `${duration(blame.latency_ns)}, `,
        blame.explained < blame.beyond
          ? `slowest ${count(blame.explained)} of ${count(blame.beyond)}`
          : `${count(blame.explained)} packets`,
      ),
    );
  return h(
    'thead',
    {},
    h(
      'tr',
      {},
      h('th', { scope: 'col' }, 'Cause'),
      blames.map(column),
      h('th', { scope: 'col', class: 'num' }, 'first cause of'),
      h('th', { scope: 'col' }, 'latlab tune'),
    ),
  );
}

function percent(share: number | undefined): string {
  if (share === undefined) return '';
  return share < MIN_SHARE ? '0 %' : `${significant(share * 100, share < 0.1 ? 2 : 3)} %`;
}

function row(tail: Tail, index: number, hidden: boolean): HTMLElement {
  const cause = tail.causes[index] as CauseInfo;
  const last = tail.blames[tail.blames.length - 1] as Blame;
  const first = last.rows.find((one) => one.cause === index)?.first_of ?? 0;
  return h(
    'tr',
    { 'data-cause': cause.name, hidden },
    h('th', { scope: 'row' }, kindSwatch(cause.kind), ` ${cause.name}`),
    tail.blames.map((blame) => {
      const share = shareOf(blame, index);
      return h(
        'td',
        {
          class: 'num share',
          'data-quantile': blame.quantile,
          'data-share': share ?? 0,
          style: { '--share': `${((share ?? 0) * 100).toFixed(2)}%` },
        },
        percent(share),
      );
    }),
    h('td', { class: 'num' }, count(first)),
    h('td', { class: 'remedy' }, remedy(cause)),
  );
}

function remedy(cause: CauseInfo): (Node | string)[] {
  const knobs = cause.knobs ?? [];
  if (!cause.remedy) return [h('span', { class: 'aside' }, '–')];
  return [
    ...knobs.flatMap((knob, i) => [i > 0 ? ' ' : '', h('code', {}, knob)]),
    h('span', { class: 'aside' }, knobs.length > 0 ? ` ${cause.remedy}` : cause.remedy),
  ];
}

function foot({ blames }: Tail): HTMLElement {
  return h(
    'tfoot',
    {},
    h(
      'tr',
      {},
      h('th', { scope: 'row' }, 'unexplained or not recorded'),
      blames.map((blame) =>
        h(
          'td',
          { class: 'num', 'data-unexplained': blame.unexplained },
          percent(blame.unexplained),
        ),
      ),
      h('td', {}),
      h('td', {}),
    ),
  );
}
