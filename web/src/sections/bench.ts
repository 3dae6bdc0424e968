// One measurement's plots and table. A bench is built when its measurement is first chosen (or
// printed), so that a study of many measurements opens as fast as one of few.

import { h, widthOf } from '../dom';
import { plural } from '../format';
import type { MeasurementView, Model } from '../model';
import { boxAxis, boxPanel } from '../plots/boxes';
import { cdfAxes, cdfPanel } from '../plots/cdf';
import { LinkedView } from '../plots/linked';
import { metricPanel } from '../plots/metrics';
import type { Context, CurvePanel, Panel } from '../plots/panel';
import { percentileAxes, percentilePanel } from '../plots/percentiles';
import { hopsPanel } from '../plots/hops';
import { slowAxis, slowPanel, SlowView } from '../plots/slow';
import { timeAxis, timePanel } from '../plots/timeseries';
import type { Change, State } from '../state';
import type { Group } from '../summary';
import { DrawQueue } from './queue';
import { ComparisonTable } from './table';

/** Groups drawn at once; the rest waits behind a button. */
const SHOWN = 12;

/** Legends of the plots for first-time readers. */
const ABOUT = {
  percentiles:
    'Each further nine takes the same room. Markers are the table’s percentiles with their 95 % intervals, hollow where a node was emulated. A curve is thin and dotted where fewer than ten samples lie beyond: there it is not reliable.',
  cdf: 'Share of the samples that were at most this slow, up to 99.9 %.',
  boxes:
    'One box a trial: median, middle half, and 5th to 95th percentile. A triangle marks an overloaded trial, a cross a failed one. Hide a slow series in the legend to see the others larger.',
  metrics: 'One value a trial, with the median and its 95 % interval.',
  times:
    'Each segment is one trial: a band from the smallest to the largest sample of each moment, and a line through the medians.',
  hops: 'Packets pass several devices; the time between the taps before and behind each is that device’s alone.',
  slow: 'Each mark is one of the slowest packets, at the time it came, in the colour and shape of the cause with most of its time. Click one, or walk with the arrow keys, to see where its time went. A queue counts to the interruption that let it build up.',
  rates: 'Each segment is one trial: throughput of each interval.',
};

const THROUGHPUT = 'Throughput and its cost';

interface PlotSection {
  element: HTMLElement;
  panels: Panel[];
}

export class Bench {
  readonly element: HTMLElement;
  private readonly sections: PlotSection[] = [];
  private readonly more: HTMLButtonElement[] = [];
  private readonly table: ComparisonTable;
  private readonly queue: DrawQueue;
  private expanded = false;
  private width = 0;
  private round = 0;

  constructor(
    model: Model,
    private readonly state: State,
    readonly view: MeasurementView,
    tools: () => HTMLElement,
  ) {
    this.queue = new DrawQueue(() => this.element.removeAttribute('aria-busy'));
    this.addPlots({ model, state });
    this.table = new ComparisonTable(model, state, view);
    this.element = h(
      'div',
      { class: 'bench', 'data-measurement': view.info.name },
      h('p', { class: 'about' }, h('strong', {}, view.info.name), ` ${view.info.description}`),
      this.sections.map((section) => section.element),
      h(
        'section',
        { class: 'plots' },
        h('header', {}, h('div', {}, h('h3', {}, 'Comparison'), tools())),
        this.table.element,
      ),
    );
    this.showGroups();
  }

  private addPlots(context: Context): void {
    const { view } = this;
    const shown = (): Group[] => this.shownGroups();
    if (view.hasLatency) {
      const [tail, body] = [new LinkedView(), new LinkedView()];
      const tailAxes = this.perRound(() => percentileAxes(context, view, shown()));
      const bodyAxes = this.perRound(() => cdfAxes(context, view, shown()));
      const boxY = this.perRound(() => boxAxis(context, view, shown()));
      this.curves('Percentiles', ABOUT.percentiles, tail, (group) =>
        percentilePanel(context, group, tail, tailAxes),
      );
      this.curves('Distribution', ABOUT.cdf, body, (group) =>
        cdfPanel(context, group, body, bodyAxes),
      );
      this.plain('Replicates', ABOUT.boxes, (group) => boxPanel(context, group, boxY));
    }
    if (view.hasMetrics) {
      const alone =
        view.info.probe === 'workload' ? 'What nodes get, and what it costs' : THROUGHPUT;
      const title = view.hasLatency ? 'Further quantities' : alone;
      this.plain(title, ABOUT.metrics, (group) => metricPanel(context, group, shown));
    }
    this.slow(context);
    // A program has one figure, at its end.
    if (view.info.probe === 'workload') return;
    const timeY = this.perRound(() => timeAxis(context, view, shown()));
    this.plain('Over time', view.info.probe === 'stream' ? ABOUT.rates : ABOUT.times, (group) =>
      timePanel(context, view, group, timeY),
    );
  }

  /** Packets that went through taps, one panel a device and cell. */
  private slow(context: Context): void {
    const { view } = this;
    const tails = context.model.summary.tails;
    const slow = new SlowView();
    const y = this.perRound(() => slowAxis(context, this.shownGroups()));
    const panels = view.groups.flatMap((group) =>
      tails
        .filter((tail) => group.cells.includes(tail.cell))
        .map((tail) => slowPanel(context, group, tail, slow, y)),
    );
    if (panels.length === 0) return;
    const rows = view.groups.flatMap((group) =>
      group.cells
        .map((id) => tails.filter((tail) => tail.cell === id))
        .filter((way) => way.length > 1)
        .map((way) => hopsPanel(context, group, way)),
    );
    if (rows.length > 0) this.add('Device by device', ABOUT.hops, null, rows);
    slow.subscribe(() => panels.forEach((panel) => panel.element.hidden || panel.draw(0)));
    this.add('The slowest packets', ABOUT.slow, null, panels);
    this.sections[this.sections.length - 1]?.element.classList.add('wide');
  }

  /** Data shared by all panels, computed once a round of drawing. */
  private perRound<T>(compute: () => T): () => T {
    let round = -1;
    let value: T;
    return () => {
      if (round !== this.round) [round, value] = [this.round, compute()];
      return value;
    };
  }

  private curves(
    title: string,
    about: string,
    linked: LinkedView,
    make: (group: Group) => CurvePanel,
  ): void {
    const panels = this.view.groups.map(make);
    const first = (): CurvePanel | undefined => panels.find((panel) => !panel.element.hidden);
    const button = (text: string, label: string, name: string, act: () => void): HTMLElement =>
      h(
        'button',
        { type: 'button', class: 'tool', 'aria-label': label, 'data-zoom': name, onclick: act },
        text,
      );
    const tools = h(
      'div',
      { class: 'tools', role: 'group', 'aria-label': `Zoom of ${title}` },
      button('+', 'Zoom in', 'in', () => first()?.magnify(1.8)),
      button('−', 'Zoom out', 'out', () => first()?.magnify(1 / 1.8)),
      button('Reset', 'Reset zoom', 'reset', () => linked.setZoom(null)),
      h('span', { class: 'hint' }, 'drag to zoom, double click to reset'),
    );
    linked.subscribe(
      () => panels.forEach((panel) => panel.element.hidden || panel.draw(this.panelWidth())),
      () => panels.forEach((panel) => panel.element.hidden || panel.drawCursor()),
    );
    this.add(title, about, tools, panels);
  }

  private plain(title: string, about: string, make: (group: Group) => Panel): void {
    this.add(title, about, null, this.view.groups.map(make));
  }

  private add(title: string, about: string, tools: HTMLElement | null, panels: Panel[]): void {
    const more = h('button', { type: 'button', class: 'more', onclick: () => this.expand() });
    this.more.push(more);
    const element = h(
      'section',
      { class: 'plots' },
      h('header', {}, h('div', {}, h('h3', {}, title), tools), h('p', {}, about)),
      h(
        'div',
        { class: 'panels' },
        panels.map((panel) => panel.element),
      ),
      more,
    );
    this.sections.push({ element, panels });
  }

  private shownGroups(): Group[] {
    return this.view.groups.filter((group) => this.state.showsGroup(this.view, group));
  }

  private expand(): void {
    this.expanded = true;
    this.showGroups();
    this.draw();
  }

  /** Hides the panels of groups that the controls leave out, or that wait behind the button. */
  private showGroups(): void {
    const groups = this.shownGroups();
    const limit = this.expanded || groups.length <= SHOWN + 1 ? Infinity : SHOWN;
    const shown = new Set(groups.slice(0, limit));
    for (const { element, panels } of this.sections) {
      for (const panel of panels) panel.element.hidden = !shown.has(panel.group);
      element.querySelector('.panels')?.setAttribute('data-count', String(Math.min(3, shown.size)));
    }
    const rest = groups.length - shown.size;
    for (const more of this.more) {
      more.hidden = rest === 0;
      more.textContent = `Show ${plural(rest, 'more group')}`;
    }
  }

  /** All panels are equally wide; asking each for its width would lay the page out each time. */
  private panelWidth(): number {
    const shown = this.sections[0]?.panels.find((panel) => !panel.element.hidden);
    return shown ? widthOf(shown.canvas) : 640;
  }

  /** Draws all panels that are shown: those in the window at once, the others right after. */
  draw(): void {
    this.round++;
    this.width = this.element.clientWidth;
    const width = this.panelWidth();
    const panels = this.sections.flatMap((section) => section.panels);
    const shown = panels.filter((panel) => !panel.element.hidden);
    for (const panel of shown) {
      panel.prepare?.();
      panel.canvas.style.height = `${panel.height(width)}px`;
    }
    const near = shown.filter((panel) => {
      const { top, bottom } = panel.canvas.getBoundingClientRect();
      return bottom > -200 && top < window.innerHeight + 200;
    });
    for (const panel of near) panel.draw(width);
    const first = new Set(near);
    const later = shown.filter((panel) => !first.has(panel));
    if (later.length > 0) this.element.setAttribute('aria-busy', 'true');
    this.queue.replace(later.map((panel) => () => panel.draw(width)));
  }

  /** Draws again when the page became wider or narrower. */
  resized(): void {
    if (this.element.clientWidth !== this.width) this.draw();
  }

  update(changes: Set<Change>): void {
    if (changes.has('filter')) this.showGroups();
    if (changes.has('filter') || changes.has('visible')) {
      this.table.draw();
      this.draw();
    }
  }

  /** Everything, for print. */
  drawAll(): void {
    this.expand();
    this.queue.flush();
  }
}
