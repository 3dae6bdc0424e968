// The real server: `latlab serve` over a directory.

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** Starts it, with an index of its own; `url` has the token in it. */
export async function serveRuns(latlab, runs, folder) {
  const server = spawn(latlab, ['serve', runs, '--listen', '127.0.0.1:0'], {
    env: { ...process.env, LATLAB_CACHE_DIR: join(folder, 'cache') },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((done) => server.on('exit', done));
  const lines = createInterface({ input: server.stdout });
  const { value: url } = await lines[Symbol.asyncIterator]().next();
  return {
    url,
    stop: async () => {
      server.kill('SIGINT');
      await ended;
    },
  };
}
