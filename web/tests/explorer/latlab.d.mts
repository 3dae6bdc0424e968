export function serveRuns(
  latlab: string,
  runs: string,
  folder: string,
): Promise<{ url: string; stop(): Promise<void> }>;
