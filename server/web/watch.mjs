// Serves the page from its sources while one works on it: node watch.mjs ATTND (`make web-watch`).
// Each change is built at once, into build/web/watch; everything but the page goes on to an attnd
// that this starts. PORT (8000) is the port of the page.
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';

const here = path.dirname(fileURLToPath(import.meta.url));
const attnd = process.argv[2];
process.argv[2] = path.join(here, '../../build/web/watch'); // where build.mjs writes to
const { elements, empty, finish, out, page } = await import('./build.mjs');
const port = Number(process.env.PORT ?? 8000);
const types = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ts': 'text/plain',
};

const told = {
  name: 'told',
  setup(build) {
    build.onEnd((result) => {
      if (result.metafile) finish(result.metafile);
      console.log(
        result.errors.length ? `${result.errors.length} errors` : `built: http://localhost:${port}/`,
      );
    });
  },
};

empty();
await (await esbuild.context({ ...page, minify: false, sourcemap: true, plugins: [told] })).watch();
await (await esbuild.context({ ...elements, minify: false })).watch();

const service = spawn(attnd, ['--port', '0', '--ops-listen', ''], { stdio: ['ignore', 'pipe', 'inherit'] });
service.on('exit', (code) => process.exit(code ?? 1));
const target = await new Promise((resolve) => {
  service.stdout.once('data', (line) => resolve(new URL(/http:\/\/\S+/.exec(String(line))[0])));
});

function file(request) {
  const { pathname } = new URL(request.url, 'http://localhost');
  if (pathname === '/' && (request.headers.accept ?? '').includes('text/html')) return 'index.html';
  if (pathname === '/docs') return 'docs.html';
  return pathname.startsWith('/web/') ? path.basename(pathname) : null;
}

http
  .createServer((request, reply) => {
    const name = file(request);
    if (name !== null) {
      fs.readFile(path.join(out, name), (error, data) => {
        reply.writeHead(error ? 404 : 200, {
          'Content-Type': types[path.extname(name)] ?? 'text/plain',
          'Cache-Control': 'no-store',
        });
        reply.end(data);
      });
      return;
    }
    const options = {
      host: target.hostname,
      port: target.port,
      method: request.method,
      path: request.url,
      headers: request.headers,
    };
    const onward = http.request(options, (answer) => {
      reply.writeHead(answer.statusCode, answer.headers);
      answer.pipe(reply);
    });
    onward.on('error', () => reply.destroy());
    request.pipe(onward);
  })
  .listen(port, '127.0.0.1');
