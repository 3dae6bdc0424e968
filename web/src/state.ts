// The reader's choices: measurement, levels, hidden series, highlights. One store for
// the whole page, because the point of the legend is that every plot obeys it. Changes are grouped
// into one call of the listeners per animation frame.

import type { Group } from './summary';
import type { MeasurementView, Model } from './model';

export type Theme = 'auto' | 'light' | 'dark';
export type Change = 'measurement' | 'filter' | 'visible' | 'focus' | 'theme';

export class State {
  measurement: string;
  /** Chosen level of each remaining factor; absent means all. */
  readonly levels = new Map<string, string>();
  readonly hiddenSeries = new Set<string>();
  /** Series under the pointer or the keyboard focus, in the legend or in a plot. */
  hoverSeries: string | null = null;
  /** Cell pinned by a chip of a caveat. */
  pinnedCell: string | null = null;
  theme: Theme = 'auto';

  private readonly listeners: ((changes: Set<Change>) => void)[] = [];
  private pending = new Set<Change>();

  constructor(private readonly model: Model) {
    this.measurement = model.measurements[0]?.info.name ?? '';
  }

  subscribe(listener: (changes: Set<Change>) => void): void {
    this.listeners.push(listener);
  }

  /** Announces a change; listeners run at once for the first of a frame's changes, then together. */
  changed(...changes: Change[]): void {
    const idle = this.pending.size === 0;
    for (const change of changes) this.pending.add(change);
    if (idle) {
      queueMicrotask(() => {
        const now = this.pending;
        this.pending = new Set();
        for (const listener of this.listeners) listener(now);
      });
    }
  }

  choose(measurement: string): void {
    if (this.measurement === measurement) return;
    this.measurement = measurement;
    this.changed('measurement', 'filter');
  }

  setLevel(factor: string, level: string | null): void {
    if (level === null) this.levels.delete(factor);
    else this.levels.set(factor, level);
    this.changed('filter');
  }

  toggleSeries(key: string): void {
    if (!this.hiddenSeries.delete(key)) this.hiddenSeries.add(key);
    this.changed('visible');
  }

  /** Shows one series alone, or all again when it already stands alone. */
  isolate(key: string): void {
    const others = this.model.series.filter((series) => series.key !== key);
    const alone = others.every((series) => this.hiddenSeries.has(series.key));
    this.hiddenSeries.clear();
    if (!alone) for (const series of others) this.hiddenSeries.add(series.key);
    this.changed('visible');
  }

  hover(series: string | null): void {
    if (this.hoverSeries === series) return;
    this.hoverSeries = series;
    this.changed('focus');
  }

  /** Highlights one cell everywhere, making sure that it can be seen; again to let go. */
  pin(cellId: string): boolean {
    if (this.pinnedCell === cellId) {
      this.pinnedCell = null;
      this.changed('focus');
      return false;
    }
    this.pinnedCell = cellId;
    const cell = this.model.cells.get(cellId);
    if (cell) {
      this.measurement = cell.measurement;
      for (const [factor, level] of [...this.levels]) {
        if (cell.levels[factor] !== undefined && cell.levels[factor] !== level) {
          this.levels.delete(factor);
        }
      }
      const series = this.model.seriesOf.get(cellId);
      if (series) this.hiddenSeries.delete(series.key);
    }
    this.changed('measurement', 'filter', 'visible', 'focus');
    return true;
  }

  /** Only factors that the measurement offers a choice of can hide one of its groups. */
  showsGroup(view: MeasurementView, group: Group): boolean {
    return view.factors.every(({ name, levels }) => {
      const chosen = this.levels.get(name);
      return chosen === undefined || !levels.includes(chosen) || group.levels[name] === chosen;
    });
  }

  /** The legend shows the cell's series. */
  visible(cellId: string): boolean {
    const series = this.model.seriesOf.get(cellId);
    return series !== undefined && !this.hiddenSeries.has(series.key);
  }
}
