// Reads the summary out of the page. latlab replaces the text of `<script id="summary">` with the
// JSON; while the placeholder is still there, or what is there cannot be read, the page says so.

import type { Summary } from './summary';

export type Loaded = { summary: Summary; seed: string } | { problem: string; detail: string };

/** The format that this page was written for. */
const FORMAT = 'latlab.summary/1';

export function load(text: string): Loaded {
  const trimmed = text.trim();
  // Not written as one literal: the placeholder must occur once in the built file.
  if (trimmed === '' || trimmed.startsWith(['/', '*latlab'].join(''))) {
    return {
      problem: 'This is latlab’s report page without a report in it.',
      detail: 'Write one with: latlab report RUN',
    };
  }
  let value: unknown;
  try {
    value = JSON.parse(trimmed);
  } catch (error) {
    return { problem: 'The summary in this page is not valid JSON.', detail: String(error) };
  }
  if (typeof value !== 'object' || value === null) {
    return { problem: 'The summary in this page is not an object.', detail: '' };
  }
  const summary = value as Partial<Summary>;
  if (summary.format !== FORMAT) {
    return {
      problem: `This page reads ${FORMAT}, but the summary is ${String(summary.format)}.`,
      detail: 'Write the report again with the latlab that made the run.',
    };
  }
  return { summary: complete(summary), seed: seedText(trimmed) };
}

/** A seed may exceed 2^53, which JSON.parse would round; its digits are read from the text. */
function seedText(json: string): string {
  return /"seed":\s*(\d+)/.exec(json)?.[1] ?? '';
}

/** Lists that an interrupted run may lack are empty rather than absent. */
function complete(summary: Partial<Summary>): Summary {
  const cells = (summary.cells ?? []).map((cell) => ({ ...cell, metrics: cell.metrics ?? [] }));
  const trials = (summary.trials ?? []).map((trial) => ({
    ...trial,
    series: trial.series ?? [],
    checks: trial.checks ?? [],
  }));
  return {
    ...(summary as Summary),
    versions: summary.versions ?? {},
    factors: summary.factors ?? [],
    measurements: summary.measurements ?? [],
    baseline: summary.baseline ?? {},
    groups: summary.groups ?? [],
    tails: summary.tails ?? [],
    topologies: summary.topologies ?? [],
    notes: summary.notes ?? [],
    cells,
    trials,
  };
}
