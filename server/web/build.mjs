// Builds the page into OUT (default ../../build/web/dist): one file each for the code, hashed by
// content, and beside each file its gzip and Brotli forms. watch.mjs builds the same while one works.
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import * as zlib from 'node:zlib';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';

export const here = path.dirname(fileURLToPath(import.meta.url));
export const out = path.resolve(process.argv[2] ?? path.join(here, '../../build/web/dist'));

// A table of many colours as its first one, and then a letter for the step of each channel from one colour
// to the next: "c" for none.
function packed(name, colours) {
  const channels = colours.match(/../g).map((hex) => Number.parseInt(hex, 16));
  const steps = channels.slice(3).map((value, i) => value - channels[i]);
  if (steps.some((step) => step < -2 || step > 20))
    throw new Error(`lib/draw/colour.c: ${name} has large steps`);
  return colours.slice(0, 6) + steps.map((step) => String.fromCharCode(99 + step)).join('');
}

// The tables of lib/draw/colour.c, so that the page and the pictures have the same colours.
function colourTables() {
  const source = fs.readFileSync(path.join(here, '../../lib/draw/colour.c'), 'utf8');
  const tables = {};
  for (const [, name, count, text] of source.matchAll(
    /colour_table (\w+) = \{\s*(\d+),\s*((?:"[0-9a-f]+"\s*)+)\}/g,
  )) {
    tables[name] = text.replace(/["\s]/g, '');
    if (tables[name].length !== 6 * Number(count))
      throw new Error(`lib/draw/colour.c: the table ${name} has not ${count} colours`);
  }
  for (const name of ['blues', 'greys', 'rdbu', 'viridis', 'cividis'])
    if (!tables[name]) throw new Error(`lib/draw/colour.c has no table ${name}`);
  for (const name of ['viridis', 'cividis']) tables[name] = packed(name, tables[name]);
  return tables;
}

// Style sheets that a module takes as a text are as small as those that are files.
const styles = {
  name: 'styles',
  setup(build) {
    build.onLoad({ filter: /\.css$/ }, async ({ path: file, with: { type } }) => {
      if (type !== 'text' && build.initialOptions.loader?.['.css'] !== 'text') return undefined;
      const { code } = await esbuild.transform(fs.readFileSync(file, 'utf8'), {
        loader: 'css',
        minify: true,
        target: common.target,
      });
      return { contents: code.trim(), loader: 'text', watchFiles: [file] };
    });
  },
};

export const common = {
  absWorkingDir: here,
  bundle: true,
  format: 'esm',
  target: ['es2022', 'chrome110', 'firefox110', 'safari16.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  minify: true,
  legalComments: 'none',
  charset: 'utf8',
  define: { COLOUR_TABLES: JSON.stringify(colourTables()) },
  logLevel: 'warning',
  plugins: [styles],
};

export const page = {
  ...common,
  entryPoints: {
    main: 'src/main.tsx',
    docs: 'src/docs.ts',
    problems: 'src/problems.ts',
    worker: 'src/draw/worker.ts',
  },
  splitting: true,
  outdir: out,
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  metafile: true,
};

// The elements are one file with a fixed name, which other pages load.
export const elements = {
  ...common,
  entryPoints: { attn: 'src/elements/attn.ts' },
  outdir: out,
  loader: { '.css': 'text' },
};

// Swagger UI as its package has it, but for the icons of its style sheet, which are data: addresses
// that the policy forbids: they become files.
function referenceFiles() {
  const folder = path.join(here, 'node_modules/swagger-ui-dist');
  let css = fs.readFileSync(path.join(folder, 'swagger-ui.css'), 'utf8').replace(/\/\*#.*?\*\//g, '');
  css = css.replace(/url\((?:"(data:(?:[^"\\]|\\.)*)"|(data:[^)]*))\)/g, (_, quoted, plain) => {
    const address = (quoted ?? plain).replace(/\\(.)/g, '$1');
    const [, type, form, data] = /^data:image\/(svg\+xml|png|jpeg);?([^,]*),(.*)$/s.exec(address);
    const content = form === 'base64' ? Buffer.from(data, 'base64') : decodeURIComponent(data);
    return `url(${write(`icon.${type === 'svg+xml' ? 'svg' : type}`, content)})`;
  });
  const script = fs
    .readFileSync(path.join(folder, 'swagger-ui-bundle.js'), 'utf8')
    .replace(/\/\/# sourceMappingURL.*/, '');
  return { css: write('swagger.css', css), script: write('swagger.js', script) };
}

// Writes a file under a name with the hash of its content. Returns that name.
function write(name, content) {
  const hash = [...createHash('sha256').update(content).digest().subarray(0, 8)]
    .map((byte) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[byte & 31])
    .join('');
  const hashed = name.replace(/(\.\w+)$/, `-${hash}$1`);
  fs.writeFileSync(path.join(out, hashed), content);
  return hashed;
}

// Puts the addresses of the built files in place of {{main.js}} and the like.
function document(name, names) {
  const text = fs.readFileSync(path.join(here, name), 'utf8');
  const filled = text.replace(/\{\{(.*?)\}\}/g, (_, key) => {
    if (!names[key]) throw new Error(`${name} names {{${key}}}, which is not built`);
    return names[key];
  });
  fs.writeFileSync(path.join(out, name), filled);
}

// The files that the first view needs. A browser that is told of them asks for all at once, and not
// for each when another names it.
function firstView(metafile) {
  const files = new Set();
  const visit = (file) => {
    if (files.has(file)) return;
    files.add(file);
    for (const { path: next, kind } of metafile.outputs[file].imports)
      if (kind === 'import-statement') visit(next);
  };
  for (const [file, { entryPoint }] of Object.entries(metafile.outputs))
    if (entryPoint === page.entryPoints.main) visit(file);
  return [...files].map((file) => `<link rel="modulepreload" href="web/${path.basename(file)}">`).join('\n');
}

// Styles of views that are loaded later are in main.css; the files of their own that esbuild writes
// beside it are read by nobody.
function dropStyles(metafile) {
  const entries = Object.values(page.entryPoints);
  const read = Object.values(metafile.outputs)
    .filter(({ entryPoint }) => entries.includes(entryPoint))
    .map(({ cssBundle }) => cssBundle);
  for (const file of Object.keys(metafile.outputs))
    if (file.endsWith('.css') && !read.includes(file)) fs.rmSync(path.resolve(here, file), { force: true });
}

function namesOf(metafile) {
  const names = {};
  for (const [file, { entryPoint, cssBundle }] of Object.entries(metafile.outputs)) {
    if (!entryPoint) continue;
    const key = path.basename(entryPoint).replace(/\.tsx?$/, '');
    names[`${key}.js`] = `web/${path.basename(file)}`;
    if (cssBundle) names[`${key}.css`] = `web/${path.basename(cssBundle)}`;
  }
  return names;
}

function compress() {
  for (const name of fs.readdirSync(out)) {
    if (/\.(gz|br)$/.test(name)) continue;
    const data = fs.readFileSync(path.join(out, name));
    fs.writeFileSync(path.join(out, `${name}.gz`), zlib.gzipSync(data, { level: 9 }));
    const params = {
      [zlib.constants.BROTLI_PARAM_QUALITY]: 11,
      [zlib.constants.BROTLI_PARAM_SIZE_HINT]: data.length,
    };
    fs.writeFileSync(path.join(out, `${name}.br`), zlib.brotliCompressSync(data, { params }));
  }
}

// Types of requests and answers, of the document that make puts beside OUT; without it there are none.
async function apiTypes() {
  const document = path.join(out, '../openapi.json');
  if (!fs.existsSync(document)) return;
  const { default: openapiTS, astToString } = await import('openapi-typescript');
  fs.writeFileSync(
    path.join(out, 'api.d.ts'),
    astToString(await openapiTS(fs.readFileSync(document, 'utf8'))),
  );
}

// Writes what stands beside the code: the reference, the icon, the types of the elements, and the
// documents, which name the files that were built.
export function finish(metafile) {
  const reference = referenceFiles();
  const names = {
    ...namesOf(metafile),
    'swagger.css': `web/${reference.css}`,
    'swagger.js': `web/${reference.script}`,
    'first view': firstView(metafile),
  };
  dropStyles(metafile);
  names['icon.svg'] = `web/${write('icon.svg', fs.readFileSync(path.join(here, 'icon.svg')))}`;
  for (const name of ['index.html', 'docs.html', 'problems.html']) document(name, names);
  for (const types of ['attn.d.ts', 'attn-react.d.ts'])
    fs.copyFileSync(path.join(here, types), path.join(out, types));
}

export function empty() {
  fs.rmSync(out, { recursive: true, force: true });
  fs.mkdirSync(out, { recursive: true });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  empty();
  const { metafile } = await esbuild.build(page);
  await esbuild.build(elements);
  finish(metafile);
  await apiTypes();
  compress();
}
