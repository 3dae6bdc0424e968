// Asks `latlab serve`, or the snapshot in the page. Addresses are made here only, because a snapshot finds
// its answers by them.

import type { Choices, Comparison, Remark, Run, RunDetail, RunList, Trend } from './documents';
import { encoded, sortText, type ListRoute, type TrendRoute } from './route';
import type { Snapshot } from './snapshot';

/** Runs on one page of the list. */
export const PAGE = 50;

/** A question that was not answered. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly hint: string | null,
    /** 0 where there was no answer at all. */
    readonly status: number,
  ) {
    super(message);
  }
}

/** An answer with the address that it came from. */
export interface Answer<T> {
  address: string;
  data: T;
}

export class Api {
  constructor(private readonly snapshot: Snapshot | null) {}

  runs(route: ListRoute, signal?: AbortSignal): Promise<Answer<RunList>> {
    const asked = { q: route.query, sort: sortText(route), offset: (route.page - 1) * PAGE };
    return this.get(address('runs', { ...asked, limit: PAGE }), signal);
  }

  /** The most frequent studies. */
  async studies(): Promise<string[]> {
    const { data } = await this.get<RunList>(address('runs', { q: '', offset: 0, limit: 1 }));
    return data.facets.study.map(([study]) => study).filter((study) => study !== '');
  }

  run(path: string, signal?: AbortSignal): Promise<Answer<RunDetail>> {
    return this.get(address('run', { run: path }), signal);
  }

  /** The first run is the baseline. */
  compare(runs: string[], signal?: AbortSignal): Promise<Answer<Comparison>> {
    return this.get(address('compare', { run: runs }), signal);
  }

  choices(study: string, signal?: AbortSignal): Promise<Answer<Choices>> {
    return this.get(address('choices', { study }), signal);
  }

  trend(route: TrendRoute, signal?: AbortSignal): Promise<Answer<Trend>> {
    const { study, cell, quantity, machine } = route;
    const some: Asked = machine === '' ? {} : { machine };
    return this.get(address('trend', { study, cell, quantity, ...some }), signal);
  }

  /** Writes the note and tags; `was` is what the writer saw. Fails with 409 if they are others now. */
  async write(path: string, remark: Remark, was: Remark): Promise<Run> {
    return ask(address('note', { run: path }), {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...remark, was }),
    });
  }

  /** The page's own source. */
  async source(): Promise<string> {
    const response = await reached('/', {});
    if (!response.ok) throw await failureOf(response);
    return response.text();
  }

  private async get<T>(from: string, signal?: AbortSignal): Promise<Answer<T>> {
    if (this.snapshot) {
      const data = this.snapshot.answers[from] as T | undefined;
      if (data === undefined) throw new Failure('This file has no answer for that.', null, 0);
      return { address: from, data };
    }
    return { address: from, data: await ask<T>(from, { signal: signal ?? null }) };
  }
}

type Asked = Record<string, string | number | string[]>;

function address(name: string, asked: Asked): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(asked)) {
    for (const one of [value].flat()) search.append(key, String(one));
  }
  return `/api/${name}?${encoded(search)}`;
}

async function ask<T>(from: string, options: RequestInit): Promise<T> {
  const response = await reached(from, options);
  if (!response.ok) throw await failureOf(response);
  try {
    return (await response.json()) as T;
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new Failure(`The answer to ${from} is not JSON.`, null, response.status);
  }
}

async function reached(from: string, options: RequestInit): Promise<Response> {
  try {
    return await fetch(from, { cache: 'no-store', ...options });
  } catch (error) {
    if (isAborted(error)) throw error;
    const hint = 'Start `latlab serve` again, and open the address that it prints.';
    throw new Failure('The server does not answer.', hint, 0);
  }
}

async function failureOf(response: Response): Promise<Failure> {
  if (response.status === 401) {
    const hint = 'Open the address that `latlab serve` printed.';
    return new Failure('The server does not know this browser.', hint, 401);
  }
  const said = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  const { error, hint } = said;
  return new Failure(
    typeof error === 'string' ? error : `The server answered ${response.status}.`,
    typeof hint === 'string' ? hint : null,
    response.status,
  );
}

export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}
