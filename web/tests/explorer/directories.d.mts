import type { Summary } from '../../src/summary';

export function base(): Summary;
export function writeRun(directory: string, summary: Summary): void;
export function slower(summary: Summary, factor: number): Summary;
