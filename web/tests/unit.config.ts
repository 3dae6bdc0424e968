import { defineConfig } from 'vitest/config';

export default defineConfig({
  // A minimal root has no /etc/hosts, and so no localhost, which Vite looks up.
  server: { host: '127.0.0.1' },
  test: { include: ['tests/unit/**/*.test.ts'] },
});
