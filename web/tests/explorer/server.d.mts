import type { Run, RunDetail } from '../../src/explorer/documents';

export interface ServerState {
  runs: Run[];
  /** Every address that was asked for, in order. */
  requests: string[];
  indexing: { done: number; of: number } | null;
  /** Milliseconds before an answer. */
  delay: (url: URL) => number;
  /** Refuses every question of the API. */
  refuse: [status: number, error: string, hint?: string] | null;
  /** Cells of every run, in place of made-up ones. */
  cells?: RunDetail['cells'];
  notes?: RunDetail['notes'];
  readOnly?: boolean;
}

export interface Served {
  url: string;
  state: ServerState;
  stop(): Promise<void>;
}

export function serve(runs: Run[], options?: Partial<ServerState>): Promise<Served>;
