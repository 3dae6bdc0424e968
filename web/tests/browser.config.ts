import { defineConfig } from 'vitest/config';

export default defineConfig({
  // A minimal root has no /etc/hosts, and so no localhost, which Vite looks up.
  server: { host: '127.0.0.1' },
  test: {
    include: ['tests/browser/**/*.test.ts'],
    // These change the fixture, or are of another page; a real report is taken as it is.
    exclude: process.env.LATLAB_REPORT ? ['**/edges.test.ts', '**/explorer/**'] : [],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
    // A browser on a machine that others share now and then takes longer than any time that is given. `scripts/run-tests`
    // names what passed only when it ran again.
    retry: 1,
  },
});
