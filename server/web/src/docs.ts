// The reference: Swagger UI over openapi.json. Its requests go where the page came from, below the
// prefix of a proxy, too.
import { address, base } from './api/client';

interface Swagger { (options: Record<string, unknown>): unknown }

async function open(): Promise<void> {
  const ui = (globalThis as unknown as { SwaggerUIBundle: Swagger }).SwaggerUIBundle;
  const document_ = (await (await fetch(address('openapi.json'))).json()) as Record<string, unknown>;
  document_['servers'] = [{ url: base.href.replace(/\/$/, '') }];
  ui({ spec: document_, dom_id: '#reference', deepLinking: true, validatorUrl: null, docExpansion: 'list', defaultModelsExpandDepth: 0 });
}

void open();
