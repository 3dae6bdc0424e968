// One packet from tap to tap: its time divided by cause without remainder, and below, the timeline of
// every watched CPU. The list under the drawing has the same slices to the nanosecond.

import { linearTicks, scaleOf, type Box, type Domain, type Scale } from '../axis';
import { h, s } from '../dom';
import { count, duration, durationTick, significant } from '../format';
import { kindLook } from '../kinds';
import { fold } from '../sections/fold';
import type { Lane, Slice, SlowPacket, Stretch, Tail } from '../summary';
import { kindSwatch } from '../sections/swatch';

const LEFT = 76;
const ROW = 26;
const LISTED = 12;
/** Pixels that a letter takes. */
const LETTER = 6.2;

export function packetTimeline(
  tail: Tail,
  packet: SlowPacket,
  rank: number,
  width: number,
): HTMLElement {
  const [trial, , seq, , latency, first, firstNs, behind] = packet;
  const cause = tail.causes[first];
  const behindName = behind === null ? undefined : tail.causes[behind]?.name;
  return h(
    'div',
    { class: 'packet', 'data-rank': rank, 'data-trial': trial, 'data-seq': seq },
    h(
      'p',
      { class: 'which' },
      h('strong', {}, `No. ${count(rank + 1)}`),
      `, ${packetName(packet)}. `,
      cause
        ? [
            'First cause: ',
            kindSwatch(cause.kind),
            h('strong', {}, ` ${cause.name}`),
            `, ${duration(firstNs)}`,
            behindName && behindName !== cause.name ? `; in a queue left by ${behindName}` : '',
            behindName === cause.name ? ', including the queue that it left' : '',
            '.',
          ]
        : null,
    ),
    packet[9].length === 0
      ? h(
          'p',
          { class: 'hint' },
          'This page has no room for its slices; latlab explain RUN --format json has them.',
        )
      : null,
    drawing(tail, packet, width),
    slices(tail, packet, latency),
  );
}

function drawing(tail: Tail, packet: SlowPacket, width: number): SVGSVGElement {
  const [, , , at, latency, , , , place, pieces] = packet;
  const stretch = place === null ? undefined : tail.stretches[place];
  const lanes = stretch ? stretch.lanes : [];
  const top = 24;
  const box: Box = {
    left: LEFT,
    top,
    width: Math.max(60, width - LEFT - 12),
    height: ROW + 12 + lanes.length * (ROW + 16),
  };
  const height = box.top + box.height + 44;
  const domain: Domain = [0, Math.max(1, latency)];
  const range: Domain = [box.left, box.left + box.width];
  const x = scaleOf('linear', domain, range);
  const svg = s('svg', {
    class: 'plot',
    role: 'img',
    'aria-label': `Timeline from tap to tap, ${duration(latency)}`,
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    'data-plot': 'packet',
    'data-x-type': 'linear',
    'data-x-domain': domain.join(' '),
    'data-x-range': range.join(' '),
  });
  svg.append(axis(box, x, latency));
  svg.append(s('text', { class: 'label strong', x: 0, y: top + 17 }, 'packet'));
  let from = 0;
  for (const piece of pieces) {
    const [index, ns, cpu] = piece;
    const cause = tail.causes[index];
    const kind = cause?.kind ?? '';
    const where = cpu === null ? '' : `, CPU ${cpu}`;
    const inside = inParts(tail, piece);
    const aside = `${duration(ns)}${where}${inside && `; ${inside}`}`;
    svg.append(
      bar(x, from, from + ns, top, ROW, cause?.name ?? '', aside, {
        class: `slice${kind === 'running' || kind === 'delivery' ? ' quiet' : ''}`,
        'data-kind': kind,
        'data-from': from,
        'data-ns': ns,
        style: { '--c': kindLook(kind).color },
      }),
    );
    from += ns;
  }
  lanes.forEach((lane, i) => {
    const y = top + ROW + 14 + i * (ROW + 16);
    svg.append(drawLane(tail, lane, stretch as Stretch, at, latency, x, y));
  });
  taps(svg, tail, box, x, latency);
  return svg;
}

/** The parts of a joined piece. */
function inParts(tail: Tail, [, ns, , parts]: Slice): string {
  const part = ([index, own]: [number, number]): string =>
    `${significant((own / Math.max(1, ns)) * 100, 2)} % ${tail.causes[index]?.name ?? ''}`;
  return (parts ?? []).map(part).join(', ');
}

function axis(box: Box, x: Scale, latency: number): SVGGElement {
  const bottom = box.top + box.height;
  const g = s('g', { class: 'axis axis-x', 'aria-hidden': 'true' });
  const ticks = linearTicks([0, Math.max(1, latency)], box.width, durationTick, 110);
  for (const tick of ticks) {
    const px = x(tick.value);
    g.append(
      s('line', { class: 'grid', x1: px, x2: px, y1: box.top, y2: bottom }),
      s('text', { x: px, y: bottom + 16, 'text-anchor': 'middle' }, tick.label),
    );
  }
  return g;
}

function taps(svg: SVGSVGElement, tail: Tail, box: Box, x: Scale, latency: number): void {
  const bottom = box.top + box.height;
  const ends: [number, string, string][] = [
    [0, `in: ${tail.before}`, 'start'],
    [latency, `out: ${tail.behind}`, 'end'],
  ];
  for (const [at, text, anchor] of ends) {
    const px = x(at);
    svg.append(
      s('line', { class: 'tap', x1: px, x2: px, y1: box.top - 6, y2: bottom }),
      s('text', { class: 'label', x: px, y: box.top - 10, 'text-anchor': anchor }, text),
    );
  }
}

/** A CPU: its tasks, and above them, thinner, its interrupts. */
function drawLane(
  tail: Tail,
  lane: Lane,
  stretch: Stretch,
  at: number,
  latency: number,
  x: Scale,
  y: number,
): SVGGElement {
  const g = s('g', { class: 'lane', 'data-cpu': lane.cpu });
  const shift = at - stretch.at_ns;
  const cut = (ns: number): number => Math.min(latency, Math.max(0, ns - shift));
  const name = (index: number): string => tail.names[index] ?? '';
  g.append(s('text', { class: 'label strong', x: 0, y: y + 24 }, `CPU ${lane.cpu}`));
  lane.tasks.forEach(([begin, index], i) => {
    const end = lane.tasks[i + 1]?.[0] ?? stretch.ns;
    const [from, to] = [cut(begin), cut(end)];
    if (from >= to) return;
    const idle = name(index) === 'idle';
    const own = index === stretch.own;
    g.append(
      bar(x, from, to, y + 12, ROW - 8, name(index), duration(to - from), {
        class: `task${idle ? ' idle' : ''}${own ? ' own' : ''}`,
      }),
    );
  });
  for (const [begin, end, index] of lane.upon) {
    const [from, to] = [cut(begin), cut(end)];
    if (from >= to) continue;
    g.append(
      bar(x, from, to, y, 11, name(index), duration(to - from), {
        class: 'upon',
        style: { '--c': kindLook(kindOfName(name(index))).color },
      }),
    );
  }
  return g;
}

/** The kind of an interrupt, by the words of its cause. */
function kindOfName(name: string): string {
  const words: [string, string][] = [
    ['hypervisor steal', 'steal'],
    ['softirq', 'soft-irq'],
    ['hardirq', 'hard-irq'],
    ['timer tick', 'tick'],
    ['timer', 'timer'],
    ['inter-processor', 'ipi'],
    ['page fault', 'page-fault'],
    ['non-maskable', 'nmi'],
  ];
  return words.find(([word]) => name.startsWith(word))?.[1] ?? '';
}

/** A bar with its name in it if there is room, and in a tool tip. */
function bar(
  x: Scale,
  from: number,
  to: number,
  y: number,
  height: number,
  name: string,
  aside: string,
  attributes: Record<string, unknown>,
): SVGGElement {
  const left = x(from);
  const width = Math.max(1, x(to) - left);
  const g = s('g', attributes, s('title', {}, `${name}: ${aside}`));
  g.append(s('rect', { x: left.toFixed(2), y, width: width.toFixed(2), height }));
  const text = [`${name}, ${aside}`, name].find((one) => one.length * LETTER + 10 < width);
  if (text && height > 12) {
    g.append(s('text', { x: left + 5, y: y + height / 2 + 4 }, text));
  }
  return g;
}

/** The slices as text. */
function slices(tail: Tail, packet: SlowPacket, latency: number): HTMLElement {
  let from = 0;
  const rows = packet[9].map((piece) => {
    const [index, ns, cpu] = piece;
    const row = { from, ns, cpu, cause: tail.causes[index], inside: inParts(tail, piece) };
    from += ns;
    return row;
  });
  const line = ({ from, ns, cpu, cause, inside }: (typeof rows)[number]): HTMLElement =>
    h(
      'li',
      { 'data-kind': cause?.kind, 'data-ns': ns },
      h('span', { class: 'num' }, `+${count(from)} ns`),
      h('span', { class: 'num' }, `${count(ns)} ns`),
      h('span', { class: 'num' }, `${significant((ns / Math.max(1, latency)) * 100, 2)} %`),
      h('span', {}, kindSwatch(cause?.kind ?? ''), ` ${inside || (cause?.name ?? '')}`),
      h('span', { class: 'aside' }, cpu === null ? '' : `CPU ${cpu}`),
    );
  return h('ol', { class: 'slices', 'aria-label': 'Slices' }, ...fold(rows, LISTED, 'slice', line));
}

/** One line about a packet. */
function packetName(packet: SlowPacket): string {
  const [trial, flow, seq, , latency] = packet;
  return `packet ${seq} of flow ${flow} in trial ${trial}: ${duration(latency)}`;
}
