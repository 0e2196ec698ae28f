// The reference: Swagger UI over openapi.json. Its requests go where the page came from, below the
// prefix of a proxy, too.
import { effect } from '@preact/signals';
import { address, base } from './api/client';
import { isDark, keepTheme } from './shell/theme';
import './docs.css';

interface Swagger { (options: Record<string, unknown>): unknown }
interface OpenApi { tags?: { name: string }[]; servers?: { url: string }[]; paths: Record<string, Record<string, { tags?: string[] }>> }

const SERVICE = 'service'; // the last part
const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch'];

// The part of the reference that a path belongs to: "runs" for /v1/runs/{id}/tiles.
const partOf = (path: string): string => /^\/v1\/(\w+)/.exec(path)?.[1] ?? (path.startsWith('/v2') ? 'Open Inference Protocol' : SERVICE);

async function open(): Promise<void> {
  keepTheme();
  effect(() => { document.documentElement.classList.toggle('dark-mode', isDark.value); });
  const reply = await fetch(address('openapi.json'));
  if (!reply.ok) throw new Error(`HTTP ${reply.status}`);
  const spec = (await reply.json()) as OpenApi;
  spec.servers = [{ url: base.href.replace(/\/$/, '') }];
  for (const [path, methods] of Object.entries(spec.paths))
    for (const [method, operation] of Object.entries(methods))
      if (METHODS.includes(method)) operation.tags ??= [partOf(path)];
  const parts = new Set(Object.keys(spec.paths).map(partOf));
  spec.tags ??= [...parts].sort((a, b) => Number(a === SERVICE) - Number(b === SERVICE)).map((name) => ({ name }));
  const ui = (globalThis as unknown as { SwaggerUIBundle: Swagger }).SwaggerUIBundle;
  ui({ spec, dom_id: '#reference', deepLinking: true, validatorUrl: null, docExpansion: 'list', defaultModelsExpandDepth: 0 });
}

open().catch((error: Error) => {
  const place = document.getElementById('reference') as HTMLElement;
  place.className = 'fault';
  place.setAttribute('role', 'alert');
  place.textContent = `The reference did not load: ${error.message}. Load the page again.`;
});
