// Builds the page into `dist`: a folder of static files, and the same as one
// file that opens by a double click.
//
//     npm run transpile   # the component as JavaScript and modules
//     npm run build

import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';

import { build } from 'esbuild';

/** What the folder may weigh, compressed, in all. */
const COMPRESSED_MAX = 500 << 10;

const common = {
  bundle: true,
  write: false,
  format: 'iife',
  target: ['chrome110', 'firefox115', 'safari16.4'],
  minify: true,
  legalComments: 'none',
  loader: { '.wasm': 'binary' },
  logLevel: 'warning',
};

async function bundle(entry) {
  const { outputFiles } = await build({ ...common, entryPoints: [new URL(entry, import.meta.url).pathname] });
  return outputFiles[0].text;
}

/** Everything is forbidden but what is listed. Addresses may be asked for
 * because stores can be opened by theirs; nothing is ever sent but the request. */
function policy({ scripts, styles, workers }) {
  return [
    "default-src 'none'",
    `script-src ${scripts} 'wasm-unsafe-eval'`,
    `style-src ${styles}`,
    `worker-src ${workers}`,
    "connect-src 'self' http: https:",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    'trusted-types zrecord',
  ].join('; ');
}

function page(template, { rules, style, script }) {
  const parts = { POLICY: rules, STYLE: style, SCRIPT: script };
  return template.replace(/\b(POLICY|STYLE|SCRIPT)\b/g, (name) => parts[name]);
}

/** A text inside a `script` element must not end it. */
const inlined = (text) => text.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

const folder = new URL('dist/', import.meta.url);
const source = (name) => readFile(new URL(name, import.meta.url), 'utf8');
const [app, worker, style, template] = [
  await bundle('src/page/app.ts'),
  await bundle('src/worker/main.ts'),
  await bundle('src/page/style.css'),
  await source('index.html'),
];

const files = {
  'index.html': page(template, {
    rules: policy({ scripts: "'self'", styles: "'self'", workers: "'self'" }),
    style: '<link rel="stylesheet" href="app.css">',
    script: '<script src="app.js"></script>',
  }),
  'app.js': app,
  'app.css': style,
  'worker.js': worker,
};
const inlinedApp = inlined(app);
const single = page(template, {
  rules: policy({ scripts: hash(inlinedApp), styles: hash(style), workers: 'blob:' }),
  style: `<style>${style}</style>`,
  script: `<script type="text/plain" id="worker">${inlined(worker)}</script>\n    <script>${inlinedApp}</script>`,
});

await rm(folder, { recursive: true, force: true });
await mkdir(folder);
const compressed = (text) => gzipSync(text, { level: 9 }).length;
const sized = (text) =>
  `${Math.ceil(text.length / 1024)} KiB, ${Math.ceil(compressed(text) / 1024)} KiB compressed`;
for (const [name, text] of Object.entries({ ...files, 'zrecord-view.html': single })) {
  await writeFile(new URL(name, folder), text);
  console.log(`  ${name}: ${sized(text)}`);
}
const all = Object.values(files).reduce((sum, text) => sum + compressed(text), 0);
console.log(`  the folder: ${Math.ceil(all / 1024)} KiB compressed`);
for (const [what, bytes] of [
  ['the folder', all],
  ['zrecord-view.html', compressed(single)],
]) {
  if (bytes > COMPRESSED_MAX)
    throw new Error(`${what} has ${bytes} compressed bytes, the limit is ${COMPRESSED_MAX}`);
}
