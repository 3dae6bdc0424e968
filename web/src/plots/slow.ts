// The slowest packets of one device in one cell: a scatter over time, one segment a trial; below it
// the timeline of the chosen packet; below that the blame for the tail.
//
// Thousands of marks are few paths: one a trial and kind, so that drawing and hiding stay fast. The
// mark under the pointer is found by distance.

import { symbol } from 'd3-shape';
import {
  drawYAxis,
  logDomain,
  logTicks,
  scaleOf,
  type AxisSpec,
  type Box,
  type Domain,
  type Scale,
} from '../axis';
import { h, s, widthOf } from '../dom';
import { count, durationTick, plural, seconds } from '../format';
import { kindLook, kindOrder } from '../kinds';
import { blameTable } from '../sections/blame';
import { tailFacts } from '../sections/tapped';
import type { Group, SlowPacket, Tail } from '../summary';
import { flameGraph } from './flame';
import { cellData, type Context, type Panel } from './panel';
import { packetTimeline } from './timeline';
import { kindSwatch, seriesKey } from '../sections/swatch';
import { shortTitle } from '../model';

const HEIGHT = 300;
const BOX = { left: 56, top: 26, right: 10, bottom: 26 };
const REACH = 16;
const AREA = 26;

/** Which kinds of causes are hidden, in all panels alike. */
export class SlowView {
  readonly hidden = new Set<string>();
  private readonly listeners: (() => void)[] = [];

  subscribe(listener: () => void): void {
    this.listeners.push(listener);
  }

  toggle(kind: string): void {
    if (!this.hidden.delete(kind)) this.hidden.add(kind);
    for (const listener of this.listeners) listener();
  }
}

/** The latency axis that all panels share. */
export function slowAxis({ model, state }: Context, groups: Group[]): AxisSpec {
  const cells = new Set(groups.flatMap((group) => group.cells).filter((id) => state.visible(id)));
  const all = model.summary.tails;
  const shown = all.filter((tail) => cells.has(tail.cell));
  const latencies = (shown.length > 0 ? shown : all).flatMap((tail) => [
    tail.threshold_ns,
    tail.worst[0]?.[4] ?? 0,
  ]);
  return {
    type: 'log',
    domain: logDomain(latencies, 0.05),
    title: 'time between the taps',
    ticks: (domain, pixels) => logTicks(domain, pixels, durationTick, true),
  };
}

interface Spot {
  x: number;
  y: number;
  index: number;
}

export function slowPanel(
  context: Context,
  group: Group,
  tail: Tail,
  view: SlowView,
  axis: () => AxisSpec,
): Panel {
  return new SlowPanel(context, group, tail, view, axis);
}

class SlowPanel implements Panel {
  readonly element: HTMLElement;
  readonly canvas: HTMLElement;
  private readonly legend = h('div', { class: 'kinds', role: 'group', 'aria-label': 'Causes' });
  private readonly timeline = h('div', { class: 'timeline', 'aria-live': 'polite' });
  private spots: Spot[] = [];
  private chosen: number | null = 0;
  private width = 0;

  constructor(
    private readonly context: Context,
    readonly group: Group,
    private readonly tail: Tail,
    private readonly view: SlowView,
    private readonly axis: () => AxisSpec,
  ) {
    this.canvas = h('div', {
      class: 'canvas scatter',
      tabindex: '0',
      role: 'group',
      'aria-label': `The slowest packets through ${tail.device}. Left and right walk through time, up and down from slower to faster, Escape closes the timeline.`,
    });
    if (tail.worst.length === 0) this.chosen = null;
    this.element = h(
      'figure',
      {
        class: 'panel slow',
        'data-panel': 'slow',
        'data-group': group.id,
        'data-cell': tail.cell,
        'data-device': tail.device,
      },
      this.heading(),
      tailFacts(tail),
      this.legend,
      this.canvas,
      this.timeline,
      blameTable(tail),
      tail.code ? flameGraph(tail.device, tail.code) : null,
    );
    this.canvas.addEventListener('click', (event) => {
      const spot = this.nearest(event);
      if (spot) this.choose(spot.index);
    });
    this.canvas.addEventListener('pointermove', (event) => {
      this.canvas.classList.toggle('at-mark', this.nearest(event) !== null);
    });
    this.canvas.addEventListener('keydown', (event) => {
      if (this.key(event.key)) event.preventDefault();
    });
  }

  private heading(): HTMLElement {
    const { tail, group, context } = this;
    const title = shortTitle(group);
    return h(
      'figcaption',
      {},
      h(
        'h4',
        {},
        seriesKey(context.model, tail.cell),
        title === group.measurement ? null : ` · ${title}`,
        ` · through ${tail.device}`,
        tail.program ? h('span', { class: 'aside' }, ` (${tail.program})`) : null,
      ),
    );
  }

  height(): number {
    return HEIGHT;
  }

  draw(): void {
    const { context, tail } = this;
    const visible = context.state.visible(tail.cell);
    this.element.toggleAttribute('data-off', !visible);
    if (!visible) {
      this.canvas.replaceChildren();
      return;
    }
    this.width = widthOf(this.canvas);
    this.drawLegend();
    this.canvas.style.height = `${HEIGHT}px`;
    this.canvas.replaceChildren(this.scatter());
    this.drawChosen();
  }

  private kindOf(packet: SlowPacket): string {
    return this.tail.causes[packet[5]]?.kind ?? '';
  }

  private drawLegend(): void {
    const counts = new Map<string, number>();
    for (const packet of this.tail.worst) {
      const kind = this.kindOf(packet);
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
    const kinds = [...counts.keys()].sort((a, b) => kindOrder(a) - kindOrder(b));
    const focused = (document.activeElement as HTMLElement | null)?.dataset['kind'];
    const inside = this.legend.contains(document.activeElement);
    this.legend.replaceChildren(
      ...kinds.map((kind) =>
        h(
          'button',
          {
            type: 'button',
            'data-kind': kind,
            'aria-pressed': String(!this.view.hidden.has(kind)),
            title: 'Click to hide or show',
            onclick: () => this.view.toggle(kind),
          },
          kindSwatch(kind),
          h('span', {}, kindLook(kind).label),
          h('span', { class: 'aside' }, ` ${count(counts.get(kind))}`),
        ),
      ),
    );
    if (inside && focused)
      this.legend.querySelector<HTMLElement>(`[data-kind="${CSS.escape(focused)}"]`)?.focus();
  }

  private scatter(): SVGSVGElement {
    const { tail, width } = this;
    const axis = this.axis();
    const box: Box = {
      left: BOX.left,
      top: BOX.top,
      width: Math.max(60, width - BOX.left - BOX.right),
      height: HEIGHT - BOX.top - BOX.bottom,
    };
    const yRange: Domain = [box.top + box.height, box.top];
    const y = scaleOf(axis.type, axis.domain, yRange);
    const svg = s('svg', {
      class: 'plot',
      role: 'img',
      'aria-label': `${plural(tail.worst.length, 'slow packet')} over time, ${tail.device}`,
      width,
      height: HEIGHT,
      viewBox: `0 0 ${width} ${HEIGHT}`,
      'data-plot': 'slow',
      'data-group': this.group.id,
      'data-y-type': axis.type,
      'data-y-domain': axis.domain.join(' '),
      'data-y-range': yRange.join(' '),
    });
    svg.append(drawYAxis(box, y, axis.ticks(axis.domain, box.height), axis.title));
    this.drawRuler(svg, box, y, axis.domain);
    const longest = Math.max(1, ...tail.worst.map((packet) => packet[3] + packet[4]));
    const slot = box.width / Math.max(1, tail.trials.length);
    this.spots = [];
    tail.trials.forEach((trial, i) => {
      const range: Domain = [box.left + i * slot + 5, box.left + (i + 1) * slot - 5];
      svg.append(this.segment(trial, box, y, range, longest));
    });
    svg.append(s('circle', { class: 'chosen', r: 8, hidden: true }));
    return svg;
  }

  /** The taps' own error, over an empty wire. */
  private drawRuler(svg: SVGSVGElement, box: Box, y: Scale, domain: Domain): void {
    const ruler = this.tail.ruler?.p9999_ns;
    if (ruler === undefined || ruler < domain[0] || ruler > domain[1]) return;
    const at = y(ruler);
    svg.append(
      s('line', { class: 'ruler', x1: box.left, x2: box.left + box.width, y1: at, y2: at }),
      s(
        'text',
        { class: 'faint', x: box.left + box.width, y: at - 4, 'text-anchor': 'end' },
        'p99.99 of an empty wire',
      ),
    );
  }

  private segment(trial: number, box: Box, y: Scale, range: Domain, longest: number): SVGGElement {
    const { tail, context, view } = this;
    const x = scaleOf('linear', [0, longest / 1e9], range);
    const cell = context.model.cells.get(tail.cell);
    const bottom = box.top + box.height;
    const g = s('g', {
      class: 'series slow',
      ...(cell ? cellData(context, 'slow', cell, trial) : {}),
      'data-x-type': 'linear',
      'data-x-domain': `0 ${longest / 1e9}`,
      'data-x-range': range.join(' '),
    });
    g.append(
      s('line', { class: 'rule', x1: range[0], x2: range[1], y1: bottom, y2: bottom }),
      s('text', { x: range[0], y: bottom + 16 }, `trial ${trial}`),
      s('text', { x: range[1], y: bottom + 16, 'text-anchor': 'end' }, seconds(longest / 1e9)),
    );
    const marks = new Map<string, string[]>();
    tail.worst.forEach((packet, index) => {
      if (packet[0] !== trial) return;
      const kind = this.kindOf(packet);
      if (view.hidden.has(kind)) return;
      const spot = { x: x(packet[3] / 1e9), y: y(packet[4]), index };
      this.spots.push(spot);
      const list = marks.get(kind) ?? [];
      list.push(`M${spot.x.toFixed(2)} ${spot.y.toFixed(2)}${outline(kind)}`);
      marks.set(kind, list);
    });
    for (const kind of [...marks.keys()].sort((a, b) => kindOrder(a) - kindOrder(b))) {
      g.append(
        s('path', {
          class: 'marks-of',
          'data-kind': kind,
          style: { '--c': kindLook(kind).color },
          d: marks.get(kind)?.join('') ?? '',
        }),
      );
    }
    return g;
  }

  private nearest(event: MouseEvent): Spot | null {
    const svg = this.canvas.querySelector('svg');
    if (!svg) return null;
    const bounds = svg.getBoundingClientRect();
    const scale = bounds.width > 0 ? svg.viewBox.baseVal.width / bounds.width : 1;
    const px = (event.clientX - bounds.left) * scale;
    const py = (event.clientY - bounds.top) * scale;
    let found: Spot | null = null;
    let best = REACH ** 2;
    for (const spot of this.spots) {
      const distance = (spot.x - px) ** 2 + (spot.y - py) ** 2;
      if (distance < best) [found, best] = [spot, distance];
    }
    return found;
  }

  private key(key: string): boolean {
    if (key === 'Escape' && this.chosen !== null) this.choose(null);
    else if (key === 'ArrowRight' || key === 'ArrowLeft') this.walk(key === 'ArrowRight' ? 1 : -1);
    else if (key === 'ArrowUp' || key === 'ArrowDown') this.rank(key === 'ArrowDown' ? 1 : -1);
    else if (key === 'Home') this.choose(Math.min(...this.spots.map((spot) => spot.index)));
    else return false;
    return true;
  }

  /** The next mark in time. */
  private walk(step: number): void {
    const order = [...this.spots].sort((a, b) => a.x - b.x || a.index - b.index);
    const at = order.findIndex((spot) => spot.index === this.chosen);
    const next = order[at < 0 ? 0 : at + step];
    if (next) this.choose(next.index);
  }

  /** The next slower or faster one. */
  private rank(step: number): void {
    const order = this.spots.map((spot) => spot.index).sort((a, b) => a - b);
    const at = order.indexOf(this.chosen ?? -1);
    const next = order[at < 0 ? 0 : at + step];
    if (next !== undefined) this.choose(next);
  }

  private choose(index: number | null): void {
    this.chosen = index !== null && Number.isFinite(index) ? index : null;
    this.drawChosen();
  }

  private drawChosen(): void {
    const ring = this.canvas.querySelector<SVGCircleElement>('circle.chosen');
    const packet = this.chosen === null ? undefined : this.tail.worst[this.chosen];
    const spot = this.spots.find((one) => one.index === this.chosen);
    if (ring) {
      ring.toggleAttribute('hidden', !spot);
      if (spot) {
        ring.setAttribute('cx', spot.x.toFixed(2));
        ring.setAttribute('cy', spot.y.toFixed(2));
      }
    }
    if (!packet || this.chosen === null) {
      this.timeline.replaceChildren(
        h('p', { class: 'hint' }, 'Click a mark to see where the packet’s time went.'),
      );
      return;
    }
    this.timeline.replaceChildren(
      packetTimeline(this.tail, packet, this.chosen, widthOf(this.canvas)),
    );
  }
}

const outlines = new Map<string, string>();

/** A marker relative to the point before it: the outline's own moves become relative ones. */
function outline(kind: string): string {
  let found = outlines.get(kind);
  if (found === undefined) {
    found = relative(symbol(kindLook(kind).marker, AREA)() ?? '');
    outlines.set(kind, found);
  }
  return found;
}

/** The same path in commands relative to where it begins; d3's symbols use M, L, h, v, H, V, A and Z. */
export function relative(d: string): string {
  const parts = d.match(/[A-Za-z]|-?\d*\.?\d+(?:e-?\d+)?/g) ?? [];
  let [x, y, startX, startY] = [0, 0, 0, 0];
  let out = '';
  let i = 0;
  const next = (): number => Number(parts[i++]);
  const short = (value: number): string => String(Number(value.toFixed(2)));
  const to = (nx: number, ny: number, command: string, before = ''): void => {
    out += `${command}${before}${short(nx - x)} ${short(ny - y)}`;
    [x, y] = [nx, ny];
  };
  let command = '';
  while (i < parts.length) {
    if (/[A-Za-z]/.test(parts[i] ?? '')) command = parts[i++] as string;
    if (command === 'M') {
      to(next(), next(), 'm');
      [startX, startY] = [x, y];
      command = 'L';
    } else if (command === 'L') to(next(), next(), 'l');
    else if (command === 'H') to(next(), y, 'l');
    else if (command === 'V') to(x, next(), 'l');
    else if (command === 'h') to(x + next(), y, 'l');
    else if (command === 'v') to(x, y + next(), 'l');
    else if (command === 'A') {
      const flags = [next(), next(), next(), next(), next()].map(short).join(' ');
      to(next(), next(), 'a', `${flags} `);
    } else if (command === 'Z' || command === 'z') {
      out += 'z';
      [x, y] = [startX, startY];
    } else break;
  }
  return out;
}
