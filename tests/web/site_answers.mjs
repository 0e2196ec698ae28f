// Answers requests by the WebAssembly module alone, as the static site does: site_answers.mjs SITE.js MODULE, where
// SITE.js is server/web/src/site/wasm.ts as JavaScript. A line of JSON in, {method, path, body}; a line out, {status, text}.
import * as fs from 'node:fs';
import * as path from 'node:path';
import { pathToFileURL } from 'node:url';

const { Service } = await import(pathToFileURL(path.resolve(process.argv[2])));
const service = new Service(new WebAssembly.Module(fs.readFileSync(process.argv[3])));
for (const line of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  const { method, path, body, accept } = JSON.parse(line);
  const [where, query = ''] = path.split('?');
  const reply = service.ask({
    method,
    path: where,
    query,
    type: 'application/json',
    accept: accept ?? 'application/json',
    body: new TextEncoder().encode(body === undefined ? '' : JSON.stringify(body)),
  });
  console.log(JSON.stringify({ status: reply.status, text: new TextDecoder().decode(reply.body) }));
}
