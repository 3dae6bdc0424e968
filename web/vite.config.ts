// Builds a page into one file: the script and the style sheet that Vite emits are written into the
// page itself, because a report is mailed, archived and opened from a disk. The output must be the
// same byte for byte wherever it is built (it is committed, and a test rebuilds it), so nothing here
// depends on time, path or host. The mode names the page, as one build of Vite shares chunks between
// pages.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { Script } from 'node:vm';

import { defineConfig, type Plugin } from 'vite';

/** The elements that are filled later, by page; see the README. */
const PLACEHOLDERS: Record<string, string> = {
  report: '<script id="summary" type="application/json">/*latlab-summary*/</script>',
  explorer: '<script id="snapshot" type="application/json">/*latlab-snapshot*/</script>',
};

function singleFile(name: string, placeholder: string): Plugin {
  return {
    name: 'latlab-single-file',
    enforce: 'post',
    generateBundle(_options, bundle) {
      let script = '';
      let style = '';
      for (const [name, item] of Object.entries(bundle)) {
        if (item.type === 'chunk') {
          script += item.code;
          delete bundle[name];
        } else if (name.endsWith('.css')) {
          style += String(item.source);
          delete bundle[name];
        }
      }
      const page = bundle[`${name}.html`];
      if (!page || page.type !== 'asset') throw new Error(`${name}.html was not emitted`);
      // Right within strings alone, so the outcome is compiled: a regular expression `</` would end early.
      script = script.trim().replace(/<\//g, '<\\/');
      new Script(script);
      // Functions as replacements: `$&` in minified code must stay as it is.
      const html = String(page.source)
        .replace(/\s*<script type="module"[^>]*src=[^>]*><\/script>/, '')
        .replace(/\s*<link rel="stylesheet"[^>]*>/, '')
        .replace('</head>', () => `<style>${style.trim()}</style>\n  </head>`)
        .replace('</body>', () => `<script>${script}</script>\n  </body>`);
      if (html.split(placeholder).length !== 2) throw new Error('the placeholder must occur once');
      page.source = allowOnly(script, html);
      // A page that is as it was is not written: all that holds it would be built again.
      const there = `dist/${name}.html`;
      if (existsSync(there) && readFileSync(there, 'utf8') === page.source) {
        delete bundle[`${name}.html`];
      }
    },
  };
}

/** Has the policy name the page's script by its hash: what is injected does not run. */
function allowOnly(script: string, html: string): string {
  const hash = createHash('sha256').update(script).digest('base64');
  const [before, after, ...more] = html.split("script-src 'unsafe-inline'");
  if (after === undefined || more.length > 0) throw new Error('the policy must name scripts once');
  return `${before}script-src 'sha256-${hash}'${after}`;
}

export default defineConfig(({ mode }) => {
  const placeholder = PLACEHOLDERS[mode];
  if (!placeholder) {
    throw new Error(`no page ${mode}: build with --mode ${Object.keys(PLACEHOLDERS).join('|')}`);
  }
  return {
    plugins: [singleFile(mode, placeholder)],
    build: {
      target: 'es2020',
      outDir: 'dist',
      // The other page stays.
      emptyOutDir: false,
      modulePreload: false,
      cssCodeSplit: false,
      assetsInlineLimit: 0,
      reportCompressedSize: false,
      rollupOptions: {
        input: `${mode}.html`,
        output: { format: 'iife', entryFileNames: 'app.js', assetFileNames: 'app[extname]' },
      },
    },
  };
});
