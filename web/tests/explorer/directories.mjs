// Run directories for `latlab serve`, made from the fixture's summary: what a real server reads.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { fixture } from '../report.mjs';

/** A summary without its curves, which the explorer does not draw. */
export function base() {
  const summary = fixture();
  for (const { latency } of summary.cells)
    if (latency) Object.assign(latency, { curve: [], cdf: [] });
  for (const trial of summary.trials) trial.series = [];
  return summary;
}

/** Writes a run directory with this summary, and the manifest that belongs to it. */
export function writeRun(directory, summary) {
  mkdirSync(directory, { recursive: true });
  const manifest = {
    ...summary,
    format: 'latlab.manifest/1',
    order: summary.trials.map(({ trial, cell, replicate }) => ({ trial, cell, replicate })),
  };
  const write = (name, document) => writeFileSync(join(directory, name), JSON.stringify(document));
  write('manifest.json', manifest);
  write('summary.json', summary);
}

/** The same summary with slower round trips. */
export function slower(summary, factor) {
  const copy = structuredClone(summary);
  for (const { latency } of copy.cells) {
    for (const quantile of latency?.quantiles ?? []) {
      if (quantile.value_ns) quantile.value_ns *= factor;
    }
  }
  for (const { spread_ns } of copy.trials) if (spread_ns) spread_ns.median *= factor;
  return copy;
}
