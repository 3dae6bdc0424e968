import { describe, expect, it } from 'vitest';

import * as comparison from '../../../src/explorer/comparison';
import type { Compared, ComparisonRow } from '../../../src/explorer/documents';

const value = (ratio: number | null, verdict: Compared['verdict']): Compared => ({
  value: 1,
  low: null,
  high: null,
  replicates: 3,
  ratio,
  ratio_low: null,
  ratio_high: null,
  verdict,
});
const row = (cell: string, ...values: (Compared | null)[]): ComparisonRow => ({
  cell,
  quantity: cell.startsWith('p') ? 'p99 latency' : 'median latency',
  unit: 'ns',
  higher_is_better: false,
  values: [value(null, null), ...values],
});

const ROWS = [
  row('alike', value(1.5, 'inconclusive')),
  row('slower', value(1.2, 'worse')),
  row('p-faster', value(0.5, 'better'), null),
  row('absent', null),
];
const names = (rows: ComparisonRow[]): string[] => rows.map(({ cell }) => cell);
const ALL = { quantity: '', onlyDifferences: false, byChange: false };

describe('rows of a comparison', () => {
  it('are in the order of the study as long as nothing else is asked for', () => {
    expect(names(comparison.arranged(ROWS, ALL))).toEqual([
      'alike',
      'slower',
      'p-faster',
      'absent',
    ]);
  });

  it('have the largest proven change first, and guesses after all of those', () => {
    const rows = comparison.arranged(ROWS, { ...ALL, byChange: true });
    expect(names(rows)).toEqual(['p-faster', 'slower', 'alike', 'absent']);
  });

  it('are those of a quantity, or those that differ', () => {
    expect(names(comparison.arranged(ROWS, { ...ALL, quantity: 'p99 latency' }))).toEqual([
      'p-faster',
    ]);
    const different = comparison.arranged(ROWS, { ...ALL, onlyDifferences: true });
    expect(names(different)).toEqual(['slower', 'p-faster']);
  });

  it('are counted', () => {
    expect(comparison.summaryOf(ROWS)).toBe('2 of 4 rows differ from the baseline');
    expect(comparison.tally(ROWS, 1)).toBe('1 worse, 1 better');
    expect(comparison.tally(ROWS, 2)).toBe('no difference proven');
    expect(comparison.quantitiesOf(ROWS)).toEqual(['median latency', 'p99 latency']);
  });
});

it('a verdict says in which direction and whether that is good, without colour', () => {
  expect(comparison.verdictText(value(1.2, 'worse'), 'median latency')).toBe('▲ slower');
  expect(comparison.verdictText(value(0.8, 'better'), 'median latency')).toBe('▼ faster');
  expect(comparison.verdictText(value(0.8, 'worse'), 'throughput')).toBe('▼ worse');
  expect(comparison.verdictText(value(1, 'no-difference'), 'throughput')).toBe(
    'no difference found',
  );
  expect(comparison.verdictText(value(null, null), 'throughput')).toBe('');
});

it('a warning is said once, with its runs', () => {
  expect(comparison.sharedWarnings([[], ['a', 'b'], ['a']])).toEqual([
    { text: 'a', runs: [1, 2] },
    { text: 'b', runs: [1] },
  ]);
});

it('the command quotes what a shell would read otherwise', () => {
  expect(comparison.compareCommand('2026/a', '2026/b')).toBe('latlab compare 2026/a 2026/b');
  expect(comparison.compareCommand("it's $(x)", '-rf')).toBe(
    String.raw`latlab compare 'it'\''s $(x)' ./-rf`,
  );
});
