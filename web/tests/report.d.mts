import type { Browser } from 'playwright-core';
import type { Summary } from '../src/summary';

export const PLACEHOLDER: string;
export function builtPage(): string;
export function fixture(): Summary;
export function fill(summary: unknown): string;
export function summaryOf(html: string): Summary;
export function scratch(): { write(name: string, html: string): string; remove(): void };
export function launch(): Promise<Browser>;
