// One cell's quantity over all runs of a study: choose it, read it off the plot, find where it changed.

import { h, widthOf, type Child } from '../dom';
import { clock, count, day, pValue, plural, quantity, quantityRange } from '../format';
import { linesKey } from '../plots/lines';
import { onOpen } from '../sections/fold';
import type { Answer } from './api';
import { Asking } from './asking';
import type { Context, View } from './context';
import type { Choices, ChangePoint, Series, Trend, TrendPoint } from './documents';
import { failureBox, link, scrolling, viewTitle } from './parts';
import { runFragment, type TrendRoute } from './route';
import { shareButton } from './share';
import { TrendCursor } from './trendCursor';
import { TrendForm } from './trendForm';
import { canBeDrawn, changeText, drawTrend, isRedefined, isWorse, seriesName } from './trendPlot';

export class TrendView implements View<TrendRoute> {
  readonly element: HTMLElement;
  private route: TrendRoute = { view: 'trend', study: '', cell: '', quantity: '', machine: '' };
  private choices: { study: string; choices: Choices } | null = null;
  private answer: Answer<Trend> | null = null;
  private readonly asking: Asking;
  private readonly form: TrendForm;
  private readonly title = viewTitle('Trend');
  private readonly body = h('div', {});
  private readonly canvas = h('div', { class: 'canvas trend-canvas' });
  private readonly cursor: TrendCursor;
  private width = 0;

  constructor(private readonly context: Context) {
    this.form = new TrendForm(context, (part) => context.go({ ...this.route, ...part }));
    this.cursor = new TrendCursor(context, this.canvas);
    const share = shareButton(
      context,
      () => this.answer && { route: this.route, answer: this.answer },
    );
    this.element = h(
      'section',
      { class: 'trend', 'aria-label': 'Trend' },
      h('div', { class: 'view-head' }, this.title, share),
      context.made === null ? this.form.element : null,
      this.body,
    );
    this.asking = new Asking(this.body);
    new ResizeObserver(() => this.resized()).observe(this.canvas);
  }

  show(route: TrendRoute): void {
    this.route = route;
    this.answer = null;
    document.title = `${route.cell || 'Trends'} · latlab`;
    this.form.show(route, this.choicesOf(route.study));
    if (route.study === '') {
      this.title.textContent = 'Trends';
      this.body.replaceChildren(
        h('p', { class: 'hint' }, 'Choose a study to see how one of its cells developed.'),
      );
      return;
    }
    this.asking.ask(
      (signal) => this.answerFor(route, signal),
      (answer) => answer && this.draw(answer),
      (failure) => this.body.replaceChildren(failureBox(failure)),
    );
  }

  leave(): void {
    this.asking.stop();
    // Runs may come meanwhile.
    this.choices = null;
    this.answer = null;
    this.form.leave();
  }

  private choicesOf(study: string): Choices | null {
    return this.choices?.study === study ? this.choices.choices : null;
  }

  /** Null where the route lacks a choice: another route, with one, is gone to. */
  private async answerFor(route: TrendRoute, signal: AbortSignal): Promise<Answer<Trend> | null> {
    if (this.context.made === null) {
      let choices = this.choicesOf(route.study);
      if (!choices) {
        choices = (await this.context.api.choices(route.study, signal)).data;
        this.choices = { study: route.study, choices };
        this.form.show(route, choices);
      }
      const whole = completed(route, choices);
      if (whole === null) {
        this.body.replaceChildren(
          h('p', { class: 'hint' }, 'This study has no cell that was measured.'),
        );
        return null;
      }
      if (whole !== route) {
        this.context.go(whole, 'replace');
        return null;
      }
    }
    return this.context.api.trend(route, signal);
  }

  private draw(answer: Answer<Trend>): void {
    this.answer = answer;
    const trend = answer.data;
    const { series } = trend;
    this.title.replaceChildren(trend.cell, ' ', h('span', { class: 'aside' }, trend.quantity));
    const points = series.reduce((sum, one) => sum + one.points.length, 0);
    if (points === 0) {
      this.body.replaceChildren(h('p', { class: 'hint' }, 'No run has a value for this.'));
      return;
    }
    const changes = series.reduce((sum, one) => sum + one.changes.length, 0);
    const better = trend.higher_is_better ? 'Higher is better' : 'Lower is better';
    const machines = new Set(series.map(({ machine }) => machine)).size;
    const aside = `${trend.study}: ${plural(points, 'run')} on ${plural(machines, 'machine')}, ${plural(changes, 'change')}. ${better}.`;
    const name = (one: Series): string =>
      `${seriesName(one, trend)} (${plural(one.points.length, 'run')})`;
    this.body.replaceChildren(
      h('p', { class: 'found', role: 'status' }, aside),
      isRedefined(trend)
        ? h('p', { class: 'hint' }, 'The measurement was defined anew: each definition has a line.')
        : '',
      linesKey(series.map(name)),
      canBeDrawn(trend)
        ? h('div', { class: 'trend-plot' }, this.canvas, this.cursor.element)
        : h('p', { class: 'hint' }, 'No run says when it started, so nothing can be drawn.'),
      this.changeTable(trend),
      this.pointTable(trend, points),
    );
    this.width = 0;
    this.resized();
  }

  private resized(): void {
    const trend = this.answer?.data;
    const width = widthOf(this.canvas, 0);
    if (!trend || width === 0 || width === this.width || !canBeDrawn(trend)) return;
    this.width = width;
    const drawing = drawTrend(trend, width);
    this.canvas.replaceChildren(drawing.svg);
    this.cursor.follow(drawing, trend);
  }

  private changeTable(trend: Trend): HTMLElement {
    const rows = trend.series.flatMap((series) =>
      series.changes.map((change) => this.changeRow(trend, series, change)),
    );
    if (rows.length === 0) return h('p', { class: 'hint' }, 'No change was found.');
    const heads = ['First run', 'Machine', 'Before', 'After', 'Ratio', 'p'];
    return h(
      'div',
      {},
      h('h2', {}, 'Changes'),
      scrolling(
        'Changes',
        h(
          'table',
          { class: 'comparison changes' },
          h('caption', { class: 'visually-hidden' }, 'Where the quantity changed'),
          headings(heads, 2),
          h('tbody', {}, rows),
        ),
      ),
    );
  }

  private changeRow(trend: Trend, series: Series, change: ChangePoint): HTMLElement {
    const point = series.points[change.index];
    const worse = isWorse(change, trend);
    const number = (...content: Child[]): HTMLElement => h('td', { class: 'number' }, ...content);
    return h(
      'tr',
      { 'data-change': change.index },
      h('th', { scope: 'row' }, point ? this.pointName(point) : null),
      h('td', {}, h('span', { class: 'clamped' }, seriesName(series, trend))),
      number(quantity(change.before, trend.unit)),
      number(quantity(change.after, trend.unit)),
      number(
        h(
          'span',
          { class: `verdict ${worse ? 'worse' : 'better'}` },
          `${changeText(change)} ${worse ? 'worse' : 'better'}`,
        ),
      ),
      number(pValue(change.p_value)),
    );
  }

  private pointName(point: TrendPoint): Child {
    return [
      link(this.context, runFragment(point.path), `${day(point.started)} ${clock(point.started)}`),
      h('small', { class: 'mono path', title: point.path }, point.path),
    ];
  }

  /** Built when it is opened: there may be thousands of rows. */
  private pointTable(trend: Trend, points: number): HTMLElement {
    const details = h(
      'details',
      { class: 'fold' },
      h('summary', {}, `All ${count(points)} values as a table`),
    );
    const heads = [
      'Run',
      'Machine',
      trend.quantity,
      '95 % interval',
      'Version, kernel',
      'Tags, note',
    ];
    onOpen(details, () => [
      scrolling(
        'Values',
        h(
          'table',
          { class: 'comparison points' },
          h('caption', { class: 'visually-hidden' }, 'Values over time'),
          headings(heads, 2, 4),
          h(
            'tbody',
            {},
            trend.series.flatMap((series) =>
              series.points.map((point, i) =>
                this.pointRow(
                  trend,
                  series,
                  point,
                  series.changes.some(({ index }) => index === i),
                ),
              ),
            ),
          ),
        ),
      ),
    ]);
    return details;
  }

  private pointRow(
    trend: Trend,
    series: Series,
    point: TrendPoint,
    isChange: boolean,
  ): HTMLElement {
    const { unit } = trend;
    const { low, high } = point;
    const range = low !== null && high !== null ? quantityRange([low, high], unit) : 'no interval';
    return h(
      'tr',
      {},
      h('th', { scope: 'row' }, this.pointName(point)),
      h('td', {}, h('span', { class: 'clamped' }, seriesName(series, trend))),
      h(
        'td',
        { class: 'number' },
        quantity(point.value, unit),
        isChange ? h('small', {}, 'change') : null,
      ),
      h('td', { class: 'number' }, range),
      h('td', {}, h('span', { class: 'clamped' }, `${point.version}, Linux ${point.kernel}`)),
      h(
        'td',
        {},
        h('span', { class: 'clamped' }, [...point.tags, point.note].filter(Boolean).join(' · ')),
      ),
    );
  }
}

/** Headings of a table, of which those from `first` up to `last` are over numbers. */
function headings(titles: string[], first: number, last = titles.length): HTMLElement {
  return h(
    'thead',
    {},
    h(
      'tr',
      {},
      titles.map((title, i) =>
        h('th', { scope: 'col', class: i >= first && i < last ? 'number' : '' }, title),
      ),
    ),
  );
}

/** The route with a cell and quantity that exist; the same route if it has them, null if there are none. */
function completed(route: TrendRoute, choices: Choices): TrendRoute | null {
  const cell =
    choices.cells.find((one) => one.cell === route.cell) ??
    (route.cell === '' ? choices.cells[0] : undefined);
  // A cell that the study no longer has is for the server to refuse.
  if (!cell) return route.cell === '' ? null : route;
  const isKnown = cell.quantities.includes(route.quantity);
  const chosen = isKnown ? route.quantity : (cell.quantities[0] ?? '');
  if (chosen === '') return null;
  return cell.cell === route.cell && isKnown
    ? route
    : { ...route, cell: cell.cell, quantity: chosen };
}
