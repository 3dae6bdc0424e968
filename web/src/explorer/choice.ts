// The runs chosen for a comparison, in the order in which they were chosen; the first is the baseline. Kept
// in memory, over all pages of the list.

/** As many as the server compares. */
export const MAX_RUNS = 20;

export class Choice {
  private readonly chosen: string[] = [];
  private readonly listeners: (() => void)[] = [];

  get runs(): readonly string[] {
    return this.chosen;
  }

  get isFull(): boolean {
    return this.chosen.length >= MAX_RUNS;
  }

  has(run: string): boolean {
    return this.chosen.includes(run);
  }

  /** Adds or removes a run; no further one is added when there are as many as can be compared. */
  set(run: string, isChosen: boolean): void {
    const at = this.chosen.indexOf(run);
    if (isChosen && at < 0 && !this.isFull) this.chosen.push(run);
    else if (!isChosen && at >= 0) this.chosen.splice(at, 1);
    else return;
    this.announce();
  }

  clear(): void {
    this.chosen.length = 0;
    this.announce();
  }

  subscribe(listener: () => void): void {
    this.listeners.push(listener);
  }

  private announce(): void {
    for (const listener of this.listeners) listener();
  }
}
