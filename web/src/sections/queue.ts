// Work that can wait a moment: panels outside the window are drawn in slices between frames, so that
// a page with hundreds of plots answers at once. The room they will take is reserved beforehand.

/** A slice may take this long before the browser gets its turn. */
const SLICE_MS = 12;

export class DrawQueue {
  private jobs: (() => void)[] = [];
  private timer: number | null = null;

  constructor(private readonly onIdle: () => void) {}

  /** Replaces what is still waiting. */
  replace(jobs: (() => void)[]): void {
    this.jobs = jobs;
    if (jobs.length === 0) this.onIdle();
    else this.timer ??= window.setTimeout(() => this.slice(), 0);
  }

  /** Does all that waits, now. */
  flush(): void {
    const jobs = this.jobs;
    this.jobs = [];
    for (const job of jobs) job();
    this.onIdle();
  }

  private slice(): void {
    const end = performance.now() + SLICE_MS;
    while (this.jobs.length > 0 && performance.now() < end) this.jobs.shift()?.();
    this.timer = this.jobs.length > 0 ? window.setTimeout(() => this.slice(), 0) : null;
    if (this.timer === null) this.onIdle();
  }
}
