// A comparison as the page arranges it. Pure, so that order and wording are tested.

import { verdictWords } from '../answers';
import { plural } from '../format';
import type { Compared, ComparisonRow } from './documents';
import type { CompareRoute } from './route';

type Arrangement = Pick<CompareRoute, 'quantity' | 'onlyDifferences' | 'byChange'>;

/** A difference that is claimed, in either direction. */
export function isProven(value: Compared | null): boolean {
  return value?.verdict === 'better' || value?.verdict === 'worse';
}

export function isDifferent(row: ComparisonRow): boolean {
  return row.values.some(isProven);
}

/** The greatest ratio or its inverse, from 1; 1 without any. */
export function greatestChange(values: (Compared | null)[]): number {
  const sizes = values.flatMap((value) => {
    const ratio = value?.ratio ?? null;
    return ratio !== null && ratio > 0 ? [Math.max(ratio, 1 / ratio)] : [];
  });
  return Math.max(1, ...sizes);
}

/** Rows to show, in order. Proven differences come before others, however large those look. */
export function arranged(rows: ComparisonRow[], by: Arrangement): ComparisonRow[] {
  const some = rows.filter(
    (row) =>
      (by.quantity === '' || row.quantity === by.quantity) &&
      (!by.onlyDifferences || isDifferent(row)),
  );
  if (!by.byChange) return some;
  const rank = (row: ComparisonRow): [number, number] =>
    isDifferent(row)
      ? [1, greatestChange(row.values.filter(isProven))]
      : [0, greatestChange(row.values)];
  return some
    .map((row) => ({ row, rank: rank(row) }))
    .sort((a, b) => b.rank[0] - a.rank[0] || b.rank[1] - a.rank[1])
    .map(({ row }) => row);
}

/** The quantities, in the order of their first occurrence. */
export function quantitiesOf(rows: ComparisonRow[]): string[] {
  return [...new Set(rows.map((row) => row.quantity))];
}

/** Each warning once, with the numbers of its runs. */
export function sharedWarnings(warnings: string[][]): { text: string; runs: number[] }[] {
  const found = new Map<string, number[]>();
  warnings.forEach((texts, run) => {
    for (const text of texts) found.set(text, [...(found.get(text) ?? []), run]);
  });
  return [...found].map(([text, runs]) => ({ text, runs }));
}

/** `▲ slower`: the sign says whether the value grew, the word whether that is good. */
export function verdictText({ ratio, verdict }: Compared, quantity: string): string {
  if (verdict === null) return '';
  const words = verdictWords(verdict, { quantity });
  if (verdict !== 'better' && verdict !== 'worse') return words;
  return `${(ratio ?? 1) > 1 ? '▲' : '▼'} ${words}`;
}

/** `3 worse, 1 better`, of one run's rows. */
export function tally(rows: ComparisonRow[], run: number): string {
  const of = (verdict: string): number =>
    rows.filter((row) => row.values[run]?.verdict === verdict).length;
  const [worse, better] = [of('worse'), of('better')];
  if (worse + better === 0) return 'no difference proven';
  return [worse > 0 ? `${worse} worse` : '', better > 0 ? `${better} better` : '']
    .filter(Boolean)
    .join(', ');
}

/** `12 of 72 rows differ`. */
export function summaryOf(rows: ComparisonRow[]): string {
  const different = rows.filter(isDifferent).length;
  return `${different} of ${plural(rows.length, 'row')} ${different === 1 ? 'differs' : 'differ'} from the baseline`;
}

/** The command that compares two runs by their raw samples. */
export function compareCommand(a: string, b: string): string {
  return `latlab compare ${shellWord(a)} ${shellWord(b)}`;
}

/** Quoted for a shell where needed; a path that looks like an option gets a `./`. */
function shellWord(path: string): string {
  const text = path.startsWith('-') ? `./${path}` : path;
  return /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}
