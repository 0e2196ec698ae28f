// Builds the static site into OUT: the page and the service as a WebAssembly module (MODULE), in a
// folder that any web server or a file address serves.
import * as fs from 'node:fs';
import * as path from 'node:path';
import * as zlib from 'node:zlib';
import * as esbuild from 'esbuild';
import { common, here } from './build.mjs';

const [module, folder] = process.argv.slice(2);
const out = path.resolve(folder);

async function worker() {
  const { outputFiles } = await esbuild.build({
    ...common,
    format: 'iife',
    entryPoints: ['src/site/worker.ts'],
    write: false,
  });
  return outputFiles[0].text;
}

fs.rmSync(out, { recursive: true, force: true });
fs.mkdirSync(out, { recursive: true });
const packed = zlib.gzipSync(fs.readFileSync(module), { level: 9 });
await esbuild.build({
  ...common,
  format: 'iife',
  entryPoints: { attnd: 'src/site/main.ts' },
  outdir: out,
  define: {
    ...common.define,
    SERVICE_WORKER: JSON.stringify(await worker()),
    SERVICE_MODULE: JSON.stringify(packed.toString('base64')),
  },
});
fs.copyFileSync(path.join(here, 'icon.svg'), path.join(out, 'icon.svg'));
const page = fs.readFileSync(path.join(here, 'index.html'), 'utf8');
fs.writeFileSync(
  path.join(out, 'index.html'),
  page
    .replace(/^<meta name="painter".*\n/m, '')
    .replace('{{first view}}\n', '')
    .replace('type="module"', 'defer')
    .replace(/\{\{icon\.svg\}\}/g, 'icon.svg')
    .replace('{{main.css}}', 'attnd.css')
    .replace('{{main.js}}', 'attnd.js'),
);
const size = fs.readdirSync(out).reduce((sum, name) => {
  return sum + zlib.gzipSync(fs.readFileSync(path.join(out, name)), { level: 9 }).length;
}, 0);
console.log(`${folder}: ${Math.round(size / 1000)} KB gzipped; open ${path.join(folder, 'index.html')}`);
