// The static site: the page, with the service in a worker in place of a server. build.mjs puts the
// code of the worker and the module into the bundle, because a page of a file address may load
// neither.
import { base } from '../api/client';
import { transport } from '../api/transport';
import type { Answer, Question } from './worker';

declare const SERVICE_WORKER: string; // its code
declare const SERVICE_MODULE: string; // the module, gzipped, as base64

const waiting = new Map<number, (answer: Answer) => void>();
let asked = 0;

function begin(): Worker {
  const code = new Blob([SERVICE_WORKER], { type: 'text/javascript' });
  const worker = new Worker(URL.createObjectURL(code));
  worker.addEventListener('message', ({ data }: MessageEvent<Answer>) => {
    waiting.get(data.id)?.(data);
    waiting.delete(data.id);
  });
  worker.postMessage(Uint8Array.from(atob(SERVICE_MODULE), (c) => c.charCodeAt(0)));
  return worker;
}

let worker: Worker | null = null;

// The PNG of an SVG: the module draws no PNG, but the browser does. The scale stands in the request.
async function pngOf(svg: Response, asked: string): Promise<Response> {
  const { figure } = JSON.parse(asked || '{}') as { figure?: { scale?: number } };
  const scale = figure?.scale ?? 1;
  const image = new Image();
  image.src = URL.createObjectURL(await svg.blob());
  await image.decode();
  URL.revokeObjectURL(image.src);
  const canvas = new OffscreenCanvas(image.naturalWidth * scale, image.naturalHeight * scale);
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Response(await canvas.convertToBlob(), { headers: { 'Content-Type': 'image/png' } });
}

async function send(address: URL | string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (headers.get('Accept') !== 'image/png') return answer(address, init);
  headers.set('Accept', 'image/svg+xml');
  const svg = await answer(address, { ...init, headers });
  return svg.ok ? pngOf(svg, typeof init.body === 'string' ? init.body : '') : svg;
}

async function answer(address: URL | string, init: RequestInit): Promise<Response> {
  const url = new URL(address, base);
  const request = new Request('https://page.invalid/', init); // reads any form of headers and body
  const question: Question = {
    id: ++asked,
    ask: {
      method: request.method,
      path: `/${decodeURIComponent(url.pathname.slice(base.pathname.length))}`,
      query: url.search.slice(1),
      type: (request.headers.get('Content-Type') ?? '').replace(/;.*/, '').toLowerCase(),
      accept: request.headers.get('Accept') ?? '*/*',
      body: new Uint8Array(await request.arrayBuffer()),
    },
  };
  init.signal?.throwIfAborted();
  const { reply, fault } = await new Promise<Answer>((resolve, reject) => {
    waiting.set(question.id, resolve);
    init.signal?.addEventListener('abort', () => reject(init.signal?.reason as Error), { once: true });
    worker ??= begin();
    worker.postMessage(question, [question.ask.body.buffer]);
  });
  if (!reply) throw new TypeError(fault);
  const body = [204, 304].includes(reply.status) ? null : reply.body;
  return new Response(body, { status: reply.status, headers: reply.headers });
}

transport.send = send;
transport.reportsUploads = false;
if (!location.hash) history.replaceState(null, '', '#1/lessons');
void import('../main');
