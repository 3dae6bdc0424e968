// Builds report.html into one file: the script and the style sheet that Vite emits are written into
// the page itself, because a report is mailed, archived and opened from a disk. The output must be
// the same byte for byte wherever it is built (it is committed, and a test rebuilds it), so nothing
// here depends on time, path or host.

import { defineConfig, type Plugin } from 'vite';

/** The placeholder that latlab replaces with the summary; see the README. */
const PLACEHOLDER = '<script id="summary" type="application/json">/*latlab-summary*/</script>';

function singleFile(): Plugin {
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
      const page = bundle['report.html'];
      if (!page || page.type !== 'asset') throw new Error('report.html was not emitted');
      // Functions as replacements: `$&` in minified code must stay as it is.
      const html = String(page.source)
        .replace(/\s*<script type="module"[^>]*src=[^>]*><\/script>/, '')
        .replace(/\s*<link rel="stylesheet"[^>]*>/, '')
        .replace('</head>', () => `<style>${style.trim()}</style>\n  </head>`)
        .replace(
          '</body>',
          () => `<script>${script.trim().replace(/<\//g, '<\\/')}</script>\n  </body>`,
        );
      if (html.split(PLACEHOLDER).length !== 2) throw new Error('the placeholder must occur once');
      page.source = html;
    },
  };
}

export default defineConfig({
  plugins: [singleFile()],
  build: {
    target: 'es2020',
    outDir: 'dist',
    emptyOutDir: true,
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      input: 'report.html',
      output: { format: 'iife', entryFileNames: 'app.js', assetFileNames: 'app[extname]' },
    },
  },
});
