// Facts of one device: packets, counters, the taps' own error, and gaps of the record.

import { h } from '../dom';
import { count, duration, plural } from '../format';
import type { Tail } from '../summary';

export function tailFacts(tail: Tail): HTMLElement {
  return h(
    'div',
    { class: 'tapped' },
    h(
      'p',
      {},
      `${plural(tail.packets, 'packet')} from `,
      h('b', {}, tail.before),
      ' to ',
      h('b', {}, tail.behind),
      tail.worst.length > 0
        ? `; the ${count(tail.worst.length)} slowest, from ${duration(tail.threshold_ns)} on, are explained.`
        : '; none is explained.',
    ),
    h(
      'dl',
      {},
      counts(tail).map(([name, value]) =>
        h(
          'div',
          { class: value > 0 ? 'some' : null },
          h('dt', {}, name),
          h('dd', { 'data-count': name }, count(value)),
        ),
      ),
      h('div', {}, h('dt', {}, 'empty wire'), h('dd', { 'data-ruler': '' }, ruler(tail))),
    ),
    tail.unknown.length > 0
      ? h(
          'div',
          { class: 'unknown' },
          h('p', {}, 'Not known:'),
          h(
            'ul',
            {},
            tail.unknown.map((text) => h('li', {}, text)),
          ),
        )
      : null,
  );
}

function counts({ counters, impossible, no_room, overwritten }: Tail): [string, number][] {
  return [
    ['lost', counters.lost],
    ['duplicated', counters.duplicated],
    ['reordered', counters.reordered],
    ['unmatched', counters.unmatched],
    ['corrupted', counters.corrupted],
    ['impossible times', impossible],
    ['no room in a tap', no_room],
    ['events overwritten', overwritten],
  ];
}

function ruler({ ruler }: Tail): string {
  if (!ruler) return 'not measured';
  const tail = ruler.p9999_ns === undefined ? 'too few packets' : duration(ruler.p9999_ns);
  return `median ${duration(ruler.median_ns)}, p99.99 ${tail}`;
}
