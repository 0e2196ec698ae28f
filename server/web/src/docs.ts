// The reference: Swagger UI over openapi.json. Its requests go where the page came from, below the
// prefix of a proxy, too.
import { address, base } from './api/client';
import { keepPlainTheme } from './plain';
import './docs.css';

type Swagger = (options: Record<string, unknown>) => unknown;
interface OpenApi {
  servers?: { url: string }[];
}

async function open(): Promise<void> {
  keepPlainTheme();
  const reply = await fetch(address('openapi.json'));
  if (!reply.ok) throw new Error(`HTTP ${reply.status}`);
  const spec = (await reply.json()) as OpenApi;
  spec.servers = [{ url: base.href.replace(/\/$/, '') }];
  const ui = (globalThis as unknown as { SwaggerUIBundle: Swagger }).SwaggerUIBundle;
  ui({
    spec,
    dom_id: '#reference',
    deepLinking: true,
    validatorUrl: null,
    docExpansion: 'list',
    defaultModelsExpandDepth: 0,
  });
}

open().catch((error: Error) => {
  const place = document.getElementById('reference') as HTMLElement;
  place.className = 'fault';
  place.setAttribute('role', 'alert');
  place.textContent = `The reference did not load: ${error.message}. Load the page again.`;
});
