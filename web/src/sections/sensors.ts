// Sensors of machines: temperature and power, read before and after each trial.

import { h } from '../dom';
import { plural, significant } from '../format';
import type { Model } from '../model';
import type { SensorSummary } from '../summary';
import { tableOf } from './rows';
import { section } from './section';

export function sensors({ summary }: Model): HTMLElement | null {
  const rows = summary.sensors ?? [];
  if (rows.length === 0) return null;
  return section(
    'sensors',
    'Sensors of machines',
    h(
      'p',
      {},
      'As the machines\u2019 controllers told before and after each trial, never within a measured window; medians and ranges.',
    ),
    tableOf(['Machine', 'Sensor', 'Reading', 'Unit', 'Remarks'], rows.map(rowOf)),
  );
}

function rowOf(row: SensorSummary): HTMLElement {
  const { readings } = row;
  const reading = readings
    ? [
        significant(readings.median),
        h('small', {}, `${significant(readings.smallest)}\u2013${significant(readings.largest)}`),
      ]
    : [];
  const states = Object.entries(row.states ?? {});
  const remarks = states.map(([state, trials]) => `${state} in ${plural(trials, 'trial')}`);
  return h(
    'tr',
    { 'data-sensor': row.name },
    h('th', { scope: 'row' }, row.host),
    h('td', {}, row.name),
    h('td', {}, ...reading),
    h('td', {}, row.unit),
    h('td', {}, remarks.join(', ')),
  );
}
