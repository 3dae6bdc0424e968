// The answers of `latlab serve`, as the crate `explorer` writes them.

import type { Severity, Verdict } from '../summary';

/** A run as the index knows it. */
export interface Run {
  /** Below the directory that is served, with `/` between its parts. */
  path: string;
  id: string;
  study: string;
  description: string | null;
  /** Empty where the directory cannot be read. */
  state: 'complete' | 'incomplete' | 'running' | '';
  /** Why the run is incomplete. */
  reason: string | null;
  /** RFC 3339, as all times here. */
  started: string;
  finished: string | null;
  machine: string;
  kernel: string;
  /** The latlab that made the run. */
  version: string;
  acceleration: string;
  cells: number;
  trials: number;
  failed: number;
  overloaded: number;
  factors: Factor[];
  measurements: string[];
  /** A line about each measurement. */
  definitions: Record<string, string>;
  /** Number of serious notes. */
  serious: number;
  tags: string[];
  note: string;
  /** Why the directory cannot be read; the rest of the run may then be empty. */
  problem: string | null;
}

export interface Factor {
  name: string;
  levels: string[];
}

export type FacetKey = 'study' | 'machine' | 'version' | 'state' | 'tag';

export interface RunList {
  total: number;
  matched: number;
  indexing: { done: number; of: number } | null;
  /** Why the directory could not be read again. */
  problem?: string | null;
  runs: Run[];
  /** Values of the matched runs with their numbers, most frequent first. */
  facets: Record<FacetKey, [value: string, runs: number][]>;
}

export interface Value {
  quantity: string;
  unit: string;
  higher_is_better: boolean;
  value: number;
  low: number | null;
  high: number | null;
  replicates: number;
}

export interface RunDetail {
  run: Run;
  /** False of a run that goes on, or whose summary cannot be read. */
  has_report: boolean;
  /** The label has a cell's levels; it is empty without factors. */
  cells: { id: string; label: string; measurement: string; quantities: Value[] }[];
  notes: { severity: Severity; text: string }[];
}

/** A note and tags, which a reader may write. */
export interface Remark {
  note: string;
  tags: string[];
}

export interface Compared {
  value: number;
  low: number | null;
  high: number | null;
  replicates: number;
  /** To the baseline; null for the baseline itself, and where nothing can be compared. */
  ratio: number | null;
  ratio_low: number | null;
  ratio_high: number | null;
  verdict: Verdict | null;
}

export interface ComparisonRow {
  cell: string;
  quantity: string;
  unit: string;
  higher_is_better: boolean;
  /** One a run, null where the run has no such cell. */
  values: (Compared | null)[];
}

export interface Comparison {
  runs: Run[];
  /** Differences of a run's surroundings from the baseline's, one list a run. */
  warnings: string[][];
  rows: ComparisonRow[];
}

export interface Choices {
  cells: { cell: string; quantities: string[]; runs: number }[];
  machines: [machine: string, runs: number][];
}

export interface TrendPoint {
  path: string;
  id: string;
  started: string;
  value: number;
  low: number | null;
  high: number | null;
  replicates: number;
  version: string;
  kernel: string;
  state: Run['state'];
  tags: string[];
  note: string;
}

/** Points from `index` on differ from the segment before. */
export interface ChangePoint {
  index: number;
  before: number;
  after: number;
  /** Null where a level is zero or negative. */
  ratio: number | null;
  p_value: number;
}

/** The points of one machine and definition of the measurement, in order of time. */
export interface Series {
  machine: string;
  /** A line about the measurement. */
  definition: string;
  points: TrendPoint[];
  changes: ChangePoint[];
}

export interface Trend {
  study: string;
  cell: string;
  quantity: string;
  unit: string;
  higher_is_better: boolean;
  series: Series[];
}
