// Reading a trend off: the nearest point under the pointer or the arrow keys, told beside it. A click or
// Enter leads to its run.

import { h, s } from '../dom';
import { clock, day, quantity, quantityRange } from '../format';
import type { Context } from './context';
import type { Trend } from './documents';
import { stateMark } from './parts';
import { seriesName, type Placed, type TrendDrawing } from './trendPlot';

/** Pixels within which a point is near. */
const NEAR = 40;

export class TrendCursor {
  /** The words about the point. */
  readonly element = h('div', { class: 'tip', hidden: true, role: 'status' });
  private drawing: TrendDrawing | null = null;
  private trend: Trend | null = null;
  private index = -1;

  constructor(
    private readonly context: Context,
    private readonly canvas: HTMLElement,
  ) {
    canvas.setAttribute('tabindex', '0');
    canvas.setAttribute('role', 'group');
    canvas.setAttribute(
      'aria-label',
      'Trend over time. Arrow keys read values off, Enter opens the run.',
    );
    canvas.addEventListener('pointermove', (event) => this.point(this.nearest(event)));
    canvas.addEventListener('pointerleave', () => this.point(-1));
    canvas.addEventListener('blur', () => this.point(-1));
    canvas.addEventListener('click', (event) => this.open(this.nearest(event)));
    canvas.addEventListener('keydown', (event) => {
      if (this.press(event.key)) event.preventDefault();
    });
  }

  /** Reads off this drawing from now on. */
  follow(drawing: TrendDrawing, trend: Trend): void {
    this.drawing = drawing;
    this.trend = trend;
    this.point(-1);
  }

  private press(key: string): boolean {
    const last = (this.drawing?.placed.length ?? 0) - 1;
    if (key === 'ArrowRight') this.point(Math.min(last, this.index + 1));
    else if (key === 'ArrowLeft') this.point(this.index < 0 ? last : Math.max(0, this.index - 1));
    else if (key === 'Home') this.point(0);
    else if (key === 'End') this.point(last);
    else if (key === 'Escape') this.point(-1);
    else if (key === 'Enter') this.open(this.index);
    else return false;
    return true;
  }

  private nearest(event: MouseEvent): number {
    if (!this.drawing) return -1;
    const { svg, placed } = this.drawing;
    const bounds = svg.getBoundingClientRect();
    const [px, py] = [event.clientX - bounds.left, event.clientY - bounds.top];
    let [best, distance] = [-1, NEAR];
    placed.forEach(({ x, y }, i) => {
      const away = Math.hypot(x - px, y - py);
      if (away < distance) [best, distance] = [i, away];
    });
    return best;
  }

  private open(index: number): void {
    const one = this.drawing?.placed[index];
    if (one && this.context.made === null) this.context.go({ view: 'run', run: one.point.path });
  }

  private point(index: number): void {
    this.index = index;
    this.canvas.querySelector('.pointed')?.remove();
    const one = this.drawing?.placed[index];
    this.element.hidden = !one;
    if (!one || !this.drawing) return;
    const { svg } = this.drawing;
    svg.append(
      s('circle', { class: 'pointed', cx: one.x, cy: one.y, r: 7, style: { '--c': one.color } }),
    );
    this.element.replaceChildren(...this.words(one));
    // On the side with more room, so that it never leaves the plot.
    const isRight = one.x > svg.clientWidth / 2;
    const { style } = this.element;
    style.setProperty('left', isRight ? 'auto' : `${one.x + 14}px`);
    style.setProperty('right', isRight ? `${svg.clientWidth - one.x + 14}px` : 'auto');
    style.setProperty('top', `${Math.max(8, one.y - 50)}px`);
  }

  private words({ point, series }: Placed): HTMLElement[] {
    const { trend } = this;
    const unit = trend?.unit ?? '';
    const { low, high } = point;
    const interval =
      low !== null && high !== null ? ` [${quantityRange([low, high], unit)}]` : ', no interval';
    const line = (text: string, kind = ''): HTMLElement => h('div', { class: kind }, text);
    return [
      h(
        'div',
        {},
        h('strong', {}, quantity(point.value, unit)),
        interval,
        stateMark({ ...point, reason: null }),
      ),
      line(`${day(point.started)} ${clock(point.started)}`),
      line(point.path, 'mono path'),
      line(trend ? seriesName(series, trend) : series.machine, 'aside'),
      line(`latlab ${point.version}, Linux ${point.kernel}`, 'aside'),
      ...(point.tags.length > 0 ? [line(point.tags.join(', '))] : []),
      ...(point.note !== '' ? [line(point.note, 'about')] : []),
    ];
  }
}
