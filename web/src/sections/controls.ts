// The bar above the plots: measurement, levels of the remaining factors, and the one legend that all
// plots obey. It stays in view while the plots scroll by.

import { h } from '../dom';
import type { Model } from '../model';
import type { State } from '../state';
import { swatch } from './swatch';

export function controls(model: Model, state: State): HTMLElement {
  const measurements = h('div', { class: 'choice', role: 'group', 'aria-label': 'Measurement' });
  const filters = h('div', { class: 'filters' });
  const legend = h('div', { class: 'legend', role: 'group', 'aria-label': 'Series' });
  for (const { info } of model.measurements) {
    measurements.append(
      h(
        'button',
        {
          type: 'button',
          'data-measurement-choice': info.name,
          onclick: () => state.choose(info.name),
        },
        info.name,
      ),
    );
  }
  for (const series of model.series) {
    legend.append(
      h(
        'button',
        {
          type: 'button',
          'data-legend': series.key,
          title: 'Click to hide or show, Shift and click to show alone',
          onclick: (event: MouseEvent) =>
            event.shiftKey ? state.isolate(series.key) : state.toggleSeries(series.key),
          onpointerenter: () => state.hover(series.key),
          onpointerleave: () => state.hover(null),
          onfocus: () => state.hover(series.key),
          onblur: () => state.hover(null),
        },
        swatch(series),
        h('span', {}, series.label),
        series.emulated ? h('span', { class: 'aside' }, ' emulated') : null,
      ),
    );
  }
  const press = (): void => {
    for (const button of measurements.querySelectorAll('button')) {
      const chosen = button.dataset['measurementChoice'] === state.measurement;
      button.setAttribute('aria-pressed', String(chosen));
    }
    for (const button of legend.querySelectorAll('button')) {
      const shown = !state.hiddenSeries.has(button.dataset['legend'] ?? '');
      button.setAttribute('aria-pressed', String(shown));
    }
    drawFilters(model, state, filters);
  };
  press();
  state.subscribe((changes) => {
    if (changes.has('measurement') || changes.has('filter') || changes.has('visible')) press();
  });
  return h(
    'div',
    { class: 'controls', role: 'region', 'aria-label': 'Choose what is drawn' },
    measurements,
    filters,
    legend,
  );
}

function drawFilters(model: Model, state: State, target: HTMLElement): void {
  const view = model.measurements.find(({ info }) => info.name === state.measurement);
  const focused = (document.activeElement as HTMLElement | null)?.dataset['level'];
  const groups = (view?.factors ?? []).map(({ name, levels }) => {
    const chosen = state.levels.get(name);
    const button = (level: string | null): HTMLElement =>
      h(
        'button',
        {
          type: 'button',
          'data-level': `${name}=${level ?? ''}`,
          'aria-pressed': String(
            level === null ? !levels.includes(chosen ?? '') : chosen === level,
          ),
          onclick: () => state.setLevel(name, level),
        },
        level ?? 'all',
      );
    return h(
      'div',
      { class: 'choice', role: 'group', 'aria-label': name },
      h('span', { class: 'name' }, name),
      button(null),
      levels.map(button),
    );
  });
  target.replaceChildren(...groups);
  if (focused) target.querySelector<HTMLElement>(`[data-level="${CSS.escape(focused)}"]`)?.focus();
}
