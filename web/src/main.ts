// Puts the page together: reads the summary, builds the sections, and keeps the drawn measurement in
// step with the reader's choices.

import './styles/page.css';
import './styles/plots.css';
import './styles/print.css';

import { h } from './dom';
import { load } from './load';
import { buildModel, curveAt, type Model } from './model';
import { paletteCss } from './palette';
import { tableTools } from './sections/actions';
import { Bench } from './sections/bench';
import { controls } from './sections/controls';
import { answers, masthead } from './sections/headline';
import { effects } from './sections/effects';
import { unfoldAll } from './sections/fold';
import { method } from './sections/method';
import { notes } from './sections/notes';
import { paper } from './sections/paper';
import { scaling } from './sections/scaling';
import { lives } from './sections/lives';
import { sensors } from './sections/sensors';
import { starts } from './sections/starts';
import { sweeps } from './sections/sweeps';
import { themeButton } from './sections/theme';
import { topologies } from './sections/topologies';
import { State } from './state';
import type { Summary } from './summary';

declare global {
  interface Window {
    /** The seam for tests: what the page knows, asked without going through pixels. */
    latlab?: {
      summary: Summary;
      /** Latency in ns at percentile `p` (0 to 1) of a cell's drawn curve; null beyond it. */
      valueAt(cell: string, p: number): number | null;
      /** Whether the legend shows the cell's series. */
      visible(cell: string): boolean;
    };
  }
}

function start(): void {
  const page = document.getElementById('page');
  if (!page) return;
  document.head.append(h('style', {}, paletteCss()));
  const json = document.getElementById('summary')?.textContent ?? '';
  const loaded = load(json);
  if ('problem' in loaded) {
    page.replaceChildren(
      h(
        'main',
        { class: 'problem' },
        h('h1', {}, loaded.problem),
        h('p', { class: 'mono' }, loaded.detail),
      ),
    );
    return;
  }
  const { summary, seed } = loaded;
  document.title = `${summary.study} · latlab report`;
  const model = buildModel(summary, seed);
  const state = new State(model);
  page.replaceChildren(...build(model, state, json.trim()));
  window.latlab = {
    summary,
    valueAt(id, p) {
      const cell = model.cells.get(id);
      return cell ? curveAt(cell, p) : null;
    },
    visible: (id) => state.visible(id),
  };
}

function build(model: Model, state: State, json: string): HTMLElement[] {
  const work = h('section', { id: 'plots', class: 'work', 'aria-labelledby': 'plots-title' });
  work.append(h('h2', { id: 'plots-title' }, 'The measurements'));
  const benches = new Map<string, Bench>();
  const place = h('div', {});
  const bench = (name: string): Bench | undefined => {
    const view = model.measurements.find(({ info }) => info.name === name);
    if (!view) return undefined;
    let found = benches.get(name);
    if (!found) {
      found = new Bench(model, state, view, () => tableTools(model, json));
      benches.set(name, found);
      place.append(found.element);
    }
    return found;
  };
  const choose = (): void => {
    const chosen = bench(state.measurement);
    for (const other of benches.values()) other.element.hidden = other !== chosen;
  };

  if (model.measurements.length > 0) work.append(controls(model, state), place);
  else work.append(h('p', { class: 'empty' }, 'Nothing was measured.'));
  choose();
  state.subscribe((changes) => {
    if (changes.has('measurement')) choose();
    bench(state.measurement)?.update(changes);
    if (changes.has('focus')) focus(model, state);
  });
  const reveal = (cell: string): void => {
    // After the plots of the cell's measurement have been put in place.
    requestAnimationFrame(() => scrollTo(work, model.cells.get(cell)?.group ?? ''));
  };

  listenToPage(model, state, work, bench);
  return [
    masthead(model, themeButton()),
    h(
      'main',
      {},
      answers(model),
      paper(model),
      notes(model, state, reveal),
      work,
      effects(model),
      sweeps(model),
      scaling(model),
      starts(model),
      sensors(model),
      lives(model),
      topologies(model),
      method(model),
    ),
    h(
      'footer',
      {},
      `Computed by latlab ${model.summary.versions['latlab'] ?? ''} from raw samples. This file needs no network.`,
    ),
  ];
}

function scrollTo(work: HTMLElement, group: string): void {
  const panels = work.querySelectorAll<HTMLElement>(`.panel[data-group="${CSS.escape(group)}"]`);
  const panel = [...panels].find((element) => element.offsetParent !== null);
  (panel ?? work).scrollIntoView({ block: 'start', behavior: 'smooth' });
}

/** Highlights by one rule of style instead of touching every mark: cheap with hundreds of them. */
function focus(model: Model, state: State): void {
  const sheet =
    document.getElementById('focus') ?? document.head.appendChild(h('style', { id: 'focus' }));
  const quoted = (text: string): string =>
    `"${text.replace(/["\\]/g, '\\$&').replace(/\n/g, '\\a ')}"`;
  const pinned = state.pinnedCell === null ? undefined : model.cells.get(state.pinnedCell);
  let others = '';
  if (state.hoverSeries !== null)
    others = `[data-series]:not([data-series=${quoted(state.hoverSeries)}])`;
  else if (pinned) others = `[data-series]:not([data-cell=${quoted(pinned.id)}])`;
  sheet.textContent = others ? `${others}{opacity:.16}` : '';
}

function listenToPage(
  model: Model,
  state: State,
  work: HTMLElement,
  bench: (name: string) => Bench | undefined,
): void {
  // First drawing and every later change of width come through here, when the width is known.
  new ResizeObserver(() => bench(state.measurement)?.resized()).observe(work);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && state.pinnedCell !== null) state.pin(state.pinnedCell);
  });
  window.addEventListener('beforeprint', () => {
    unfoldAll(document);
    for (const { info } of model.measurements) {
      const one = bench(info.name);
      if (one) one.element.hidden = false;
      one?.drawAll();
    }
  });
  window.addEventListener('afterprint', () => {
    state.changed('measurement', 'filter');
  });
}

start();
