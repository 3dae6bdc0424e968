// A panel is one group's drawing in one plot: caption, drawing, readout. `Panel` is what the page
// knows of a plot; `CurvePanel` adds what the percentile plot and the CDF share: lines over an x
// axis, a cursor linked over the groups, zoom, and a readout in text.

import { fraction, type AxisSpec } from '../axis';
import { h, s } from '../dom';
import { duration, ratio } from '../format';
import { cellsOf, shortTitle, type Model } from '../model';
import type { State } from '../state';
import type { Cell, Group } from '../summary';
import { seriesKey } from '../sections/swatch';
import { frame, type Frame } from './frame';
import { interact, zoomAtCursor, type Surface } from './interact';
import type { LinkedView } from './linked';

export interface Context {
  model: Model;
  state: State;
}

/** One plot of one group. */
export interface Panel {
  element: HTMLElement;
  /** Holds the drawing; its height is reserved before there is one. */
  canvas: HTMLElement;
  group: Group;
  /** Height of the drawing at this width, with the series that are visible now. */
  height(width: number): number;
  /** Writes what stands under the drawing, so that its room is known before it is drawn. */
  prepare?(): void;
  /** Draws anew: at first, when the width or the visible series changed. */
  draw(width: number): void;
}

/** The cells of a group that the legend shows. */
export function visibleCells({ model, state }: Context, group: Group): Cell[] {
  return cellsOf(model, group).filter((cell) => state.visible(cell.id));
}

/** Attributes by which tests and the highlight find what belongs to a cell. */
export function cellData(
  { model }: Context,
  plot: string,
  cell: Cell,
  trial?: number,
): Record<string, string | number | undefined> {
  return {
    'data-plot': plot,
    'data-cell': cell.id,
    'data-series': model.seriesOf.get(cell.id)?.key,
    'data-trial': trial,
  };
}

/** Colour of a cell's series, as a style. */
export function cellStyle({ model }: Context, cell: Cell): Record<string, string> {
  return { '--c': model.seriesOf.get(cell.id)?.look.color ?? 'currentColor' };
}

export function caption(group: Group): HTMLElement {
  return h('figcaption', {}, h('h4', {}, shortTitle(group)));
}

export interface ReadoutRow {
  cell: Cell;
  /** Value of the cell at the cursor; null where it has none. */
  value: number | null;
  text: string;
  /** Small print behind the value. */
  aside: string;
}

export interface CurveAxes {
  x: AxisSpec;
  y: AxisSpec;
}

/** Differences between the kinds of curve panels. */
export interface CurveKind {
  plot: string;
  label: (group: Group) => string;
  height: (width: number) => number;
  axes: () => CurveAxes;
  draw: (frame: Frame, cells: Cell[]) => void;
  home: () => number;
  step: (from: number, direction: number) => number;
  /** Heading of the readout. */
  at: (x: number) => string;
  rows: (x: number, cells: Cell[]) => ReadoutRow[];
  /** Position of a row's dot on the y axis. */
  y: (row: ReadoutRow) => number | null;
}

export class CurvePanel implements Panel {
  readonly element: HTMLElement;
  readonly canvas: HTMLElement;
  private readonly readout: HTMLElement;
  private surface: Surface | null = null;
  private drawn: Frame | null = null;

  constructor(
    private readonly context: Context,
    readonly group: Group,
    private readonly kind: CurveKind,
    private readonly view: LinkedView,
  ) {
    this.canvas = h('div', {
      class: 'canvas interactive',
      tabindex: '0',
      role: 'group',
      'aria-label': `${kind.label(group)}. Arrow keys read values off, plus and minus zoom, 0 resets.`,
    });
    this.readout = h('div', {
      class: 'readout',
      'data-readout': kind.plot,
      'data-group': group.id,
    });
    this.element = h(
      'figure',
      { class: 'panel', 'data-panel': kind.plot, 'data-group': group.id },
      caption(group),
      this.canvas,
      this.readout,
    );
    this.canvas.addEventListener('focus', () => this.readout.setAttribute('aria-live', 'polite'));
    this.canvas.addEventListener('blur', () => this.readout.removeAttribute('aria-live'));
    interact(this.canvas, () => this.surface);
  }

  height(width: number): number {
    return this.kind.height(width);
  }

  prepare(): void {
    if (!this.drawn) this.drawCursor();
  }

  draw(width: number): void {
    const { kind, view, group } = this;
    const full = kind.axes();
    const shown = { x: view.apply(full.x, 'x'), y: view.apply(full.y, 'y') };
    const cells = visibleCells(this.context, group);
    const drawn = frame({
      plot: kind.plot,
      group: group.id,
      label: kind.label(group),
      width,
      height: kind.height(width),
      ...shown,
    });
    kind.draw(drawn, cells);
    this.drawn = drawn;
    this.surface = { ...drawn, view, full, home: kind.home(), step: kind.step };
    this.canvas.replaceChildren(drawn.svg);
    this.drawCursor();
  }

  /** Zooms about the cursor, for the buttons. */
  magnify(factor: number): void {
    if (this.surface) zoomAtCursor(this.surface, factor);
  }

  drawCursor(): void {
    const { drawn, kind, view } = this;
    const cells = visibleCells(this.context, this.group);
    const x = view.cursor ?? kind.home();
    const rows = kind.rows(x, cells);
    this.readout.replaceChildren(this.readoutText(x, rows));
    if (!drawn) return;
    drawn.svg.querySelector('.cursor')?.remove();
    const px = drawn.x(x);
    if (px >= drawn.box.left - 0.5 && px <= drawn.box.left + drawn.box.width + 0.5) {
      const g = s('g', { class: view.cursor === null ? 'cursor home' : 'cursor' });
      g.append(
        s('line', {
          x1: px,
          x2: px,
          y1: drawn.box.top,
          y2: drawn.box.top + drawn.box.height,
        }),
      );
      for (const row of rows) {
        const y = kind.y(row);
        if (y === null) continue;
        const py = drawn.y(y);
        if (py < drawn.box.top - 1 || py > drawn.box.top + drawn.box.height + 1) continue;
        g.append(s('circle', { cx: px, cy: py, r: 3.5, style: cellStyle(this.context, row.cell) }));
      }
      drawn.svg.append(g);
    }
  }

  private readoutText(x: number, rows: ReadoutRow[]): Node {
    const { context, kind } = this;
    const list = h('ul', {});
    for (const row of rows) {
      list.append(
        h(
          'li',
          {
            ...cellData(context, kind.plot, row.cell),
            'data-value': row.value ?? '',
            style: cellStyle(context, row.cell),
          },
          seriesKey(context.model, row.cell.id),
          h('span', { class: 'value' }, row.text),
          h('span', { class: 'aside' }, row.aside),
        ),
      );
    }
    if (rows.length === 0) list.append(h('li', { class: 'aside' }, 'No series shown'));
    return h('div', { 'data-at': x }, h('p', { class: 'at' }, kind.at(x)), list);
  }
}

/** A cell's latency beside the baseline's, for a readout. */
export function against(value: number | null, base: number | null, isBase: boolean): string {
  if (value === null || base === null || base <= 0 || isBase) return isBase ? 'baseline' : '';
  return ratio(value / base);
}

/** A readout's latency. */
export function latencyText(value: number | null): string {
  return duration(value);
}

/** Height of a curve panel: wide ones are flatter, narrow ones stay readable. */
export function curveHeight(width: number): number {
  return Math.round(width > 760 ? 420 : width > 480 ? 340 : 300);
}

/** The point of a line at `x`, by linear interpolation on the axes as drawn. */
export function between(
  axis: AxisSpec,
  a: [number, number],
  b: [number, number],
  x: number,
): number {
  const [fa, fb, fx] = [a[0], b[0], x].map((v) => fraction(axis.type, axis.domain, v)) as [
    number,
    number,
    number,
  ];
  return fa === fb
    ? b[1]
    : Math.exp(Math.log(a[1]) + ((fx - fa) / (fb - fa)) * (Math.log(b[1]) - Math.log(a[1])));
}
