// Runs the browser tests on the fixture, or on a real report.
//
// usage: npm run test:browser [-- --report FILE]        (or LATLAB_REPORT=FILE)

import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const args = process.argv.slice(2);
const env = { ...process.env };
const at = args.indexOf('--report');
if (at >= 0) {
  const [, file] = args.splice(at, 2);
  if (!file) {
    console.error('--report needs the path of a report.html');
    process.exit(2);
  }
  env.LATLAB_REPORT = file;
}
// Relative to where the command was typed, not to this folder.
if (env.LATLAB_REPORT) env.LATLAB_REPORT = resolve(env.INIT_CWD ?? '.', env.LATLAB_REPORT);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const vitest = here('../node_modules/vitest/vitest.mjs');
const config = here('browser.config.ts');
const { status } = spawnSync(process.execPath, [vitest, 'run', '--config', config, ...args], {
  cwd: here('..'),
  env,
  stdio: 'inherit',
});
process.exit(status ?? 1);
