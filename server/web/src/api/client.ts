// Requests to the service that served the page: relative addresses, the API key, and errors in
// words. Requests that only read are repeated after a restart or while the service is busy.
import { signal } from '@preact/signals';
import { transport } from './transport';

export interface ProblemBody {
  title: string;
  status: number;
  detail?: string;
  code?: string;
  pointer?: string;
  limit?: { value: number; setting?: string };
}

// An answer of the service that is an error. Status 0: there was no answer.
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly body: ProblemBody,
    readonly retryAfter = 0,
  ) {
    super(body.detail ?? body.title);
  }
  get pointer(): string {
    return this.body.pointer ?? '';
  }
  get isGone(): boolean {
    return this.status === 404 || this.status === 410;
  }
}

// What the status line says about the service. `waiting` says why a request is being repeated.
export type Health =
  | { state: 'well' }
  | { state: 'lost' }
  | { state: 'waiting'; why: string; seconds: number };
export const health = signal<Health>({ state: 'well' });

// An API key is wanted: the dialog asks for it and calls `done`.
export const keyWanted = signal<{ why: string; done: (key: string | null) => void } | null>(null);

const KEY = 'attnd-key';
let key: string | null = null;
try {
  key = sessionStorage.getItem(KEY);
} catch {
  /* storage is switched off */
}

export function setKey(value: string | null): void {
  key = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch {
    /* the key lasts as long as the page */
  }
}

// The folder of the page, so that a prefix of a proxy stays in front of every path.
export const base = new URL('.', location.href.replace(/[?#].*/, ''));
export const address = (path: string): URL => new URL(path.replace(/^\//, ''), base);

export interface Options {
  method?: 'GET' | 'POST' | 'DELETE';
  json?: unknown;
  body?: BodyInit;
  type?: string;
  accept?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  progress?: (sent: number, of: number) => void; // of a long body, while it goes out
}

const sleep = (ms: number, stop?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    stop?.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        reject(stop.reason as Error);
      },
      { once: true },
    );
  });

async function problemOf(reply: Response): Promise<Problem> {
  const text = await reply.text().catch(() => '');
  let body: ProblemBody;
  try {
    body = JSON.parse(text) as ProblemBody;
    if (typeof body.title !== 'string') throw new Error('no problem');
  } catch {
    body = {
      title: `HTTP ${reply.status}`,
      status: reply.status,
      detail: `the answer is HTTP ${reply.status} ${reply.statusText}`,
    };
  }
  return new Problem(reply.status, body, Number(reply.headers.get('Retry-After')) || 0);
}

// Does what fetch does, with XMLHttpRequest, because only XMLHttpRequest reports how much of a body
// was sent.
function upload(
  path: string,
  method: string,
  headers: Record<string, string>,
  body: BodyInit | null,
  options: Options,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, address(path));
    request.responseType = 'blob';
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => options.progress?.(event.loaded, event.total);
    request.onload = () => {
      const lines = request
        .getAllResponseHeaders()
        .trim()
        .split(/[\r\n]+/)
        .map((line) => line.split(/:\s*(.*)/).slice(0, 2) as [string, string]);
      resolve(
        new Response(request.response as Blob, {
          status: request.status,
          statusText: request.statusText,
          headers: lines,
        }),
      );
    };
    request.onerror = () => reject(new TypeError('no answer'));
    request.onabort = () => reject(options.signal?.reason as Error);
    options.signal?.addEventListener('abort', () => request.abort(), { once: true });
    request.send(body as XMLHttpRequestBodyInit | null);
  });
}

async function once(path: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  if (options.accept) headers.Accept = options.accept;
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  let body = options.body ?? null;
  if (options.json !== undefined) {
    body = JSON.stringify(options.json);
    headers['Content-Type'] = 'application/json';
  } else if (options.type) {
    headers['Content-Type'] = options.type;
  }
  const method = options.method ?? (body === null ? 'GET' : 'POST');
  if (options.progress && transport.reportsUploads) return upload(path, method, headers, body, options);
  return transport.send(address(path), { method, headers, body, signal: options.signal ?? null });
}

// Sends a request, and repeats it where that may help. A request that only reads is repeated while
// the service does not answer. Any request is repeated up to five times while the service says that
// it is busy, after the time in Retry-After, and once the user has given an API key that was
// missing.
export async function ask(path: string, options: Options = {}): Promise<Response> {
  const reads =
    (options.method ?? 'GET') === 'GET' && options.json === undefined && options.body === undefined;
  for (let tries = 0; ; tries++) {
    let reply: Response;
    try {
      reply = await once(path, options);
    } catch (error) {
      if (options.signal?.aborted) throw error;
      health.value = { state: 'lost' };
      if (!reads)
        throw new Problem(0, {
          title: 'No answer',
          status: 0,
          detail: 'the service does not answer; what you typed is kept',
        });
      await sleep(Math.min(500 * 2 ** tries, 8000), options.signal);
      continue;
    }
    if (health.value.state !== 'well') health.value = { state: 'well' };
    if (reply.ok) return reply;
    const problem = await problemOf(reply);
    if (reply.status === 401 && (await askForKey(problem.message))) continue;
    const busy = reply.status === 429 || reply.status === 503;
    if (!busy || tries >= 5) throw problem;
    const seconds = problem.retryAfter || 1;
    health.value = { state: 'waiting', why: problem.message, seconds };
    await sleep(1000 * seconds, options.signal);
  }
}

// Asks the user for a key, once for all requests that want one at the same time.
let asking: Promise<boolean> | null = null;
function askForKey(why: string): Promise<boolean> {
  asking ??= new Promise<boolean>((resolve) => {
    keyWanted.value = {
      why,
      done: (value) => {
        if (value !== null) setKey(value);
        keyWanted.value = null;
        asking = null;
        resolve(value !== null);
      },
    };
  });
  return asking;
}

export async function askJson<T>(path: string, options: Options = {}): Promise<T> {
  const reply = await ask(path, { accept: 'application/json', ...options });
  return (await reply.json()) as T;
}
