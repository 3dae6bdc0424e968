// One question at a time: a newer one calls off the older, whose answer is dropped.

import { Failure, isAborted } from './api';

export class Asking {
  private controller: AbortController | null = null;

  /** `busy` is marked with `aria-busy` as long as the answer is out. */
  constructor(private readonly busy: HTMLElement) {}

  ask<T>(
    question: (signal: AbortSignal) => Promise<T>,
    answered: (answer: T) => void,
    failed: (failure: Failure) => void,
  ): void {
    this.stop();
    const controller = new AbortController();
    this.controller = controller;
    this.busy.setAttribute('aria-busy', 'true');
    const current = (): boolean => this.controller === controller;
    question(controller.signal)
      .then((answer) => current() && answered(answer))
      // Also of an answer that cannot be drawn: the reader is told rather than left with nothing.
      .catch((error: unknown) => {
        if (!current() || isAborted(error)) return;
        failed(error instanceof Failure ? error : new Failure(String(error), null, 0));
      })
      .finally(() => {
        if (current()) this.busy.removeAttribute('aria-busy');
      });
  }

  stop(): void {
    this.controller?.abort();
    this.controller = null;
    this.busy.removeAttribute('aria-busy');
  }
}
