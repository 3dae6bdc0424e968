import type { Run } from '../../src/explorer/documents';

export function random(seed: number): () => number;
export function run(part: Partial<Run>): Run;
export function madeUpRuns(count: number): Run[];
export const CELLS: { id: string; label: string; measurement: string }[];
