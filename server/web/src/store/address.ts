// The permalink: all of `look` in the fragment of the address, which browsers never send.
//   #1/matrix?r=RUN&s=1&h=3&q=12&k=3&pin=12.40&v=0,0,1&p=mean&t=log&c=viridis&g=0,0.5&w=hide:3&e=causal.2&i=DATA&m=DATA
// Only what differs from the start is written. `i` is the request that made the run and `m` the numbers
// of By hand, as JSON, deflate-raw, base64url; what has more than 8 KB is not written: a request can be
// saved as a file.
import { effect } from '@preact/signals';
import { begin } from './history';
import { look, start, type Colours, type Look, type Plane, type Source, type Transform } from './state';

export const SOURCE_MOST = 8192; // characters of `i` and of `m`

const planes: readonly Plane[] = ['max', 'mean'];
const transforms: readonly Transform[] = ['linear', 'sqrt', 'log', 'row'];
const maps: readonly Colours[] = ['Blues', 'viridis', 'cividis', 'RdBu'];

async function pass(
  bytes: Uint8Array,
  through: CompressionStream | DecompressionStream,
): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart])
    .stream()
    .pipeThrough(through as ReadableWritablePair<Uint8Array, Uint8Array>);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function pack(value: object): Promise<string> {
  const bytes = await pass(
    new TextEncoder().encode(JSON.stringify(value)),
    new CompressionStream('deflate-raw'),
  );
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

async function unpack(text: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
  return JSON.parse(
    new TextDecoder().decode(await pass(bytes, new DecompressionStream('deflate-raw'))),
  ) as unknown;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

// The record in a field of the address; null: there is none, or it cannot be read.
async function recordIn(text: string | null): Promise<Record<string, unknown> | null> {
  const found = text ? await unpack(text).catch(() => null) : null;
  return isRecord(found) ? found : null;
}

function sourceIn(found: Record<string, unknown> | null): Source | null {
  const { path, body } = found ?? {};
  return typeof path === 'string' && /^v1\/[\w/.-]+$/.test(path) && isRecord(body) ? { path, body } : null;
}

export function write(at: Look, source: string, hand: string): string {
  const fields: string[] = [];
  const put = (name: string, value: string | number): void => {
    fields.push(`${name}=${encodeURIComponent(value).replace(/%2C/g, ',')}`);
  };
  if (at.run) put('r', at.run);
  if (at.site !== start.site) put('s', at.site);
  if (at.batch !== start.batch) put('b', at.batch);
  if (at.head !== start.head) put('h', at.head);
  if (at.q !== start.q) put('q', at.q);
  if (at.k !== start.k) put('k', at.k);
  if (at.pins.length) put('pin', at.pins.join('.'));
  if (at.port) put('v', at.port.map((x) => Number(x.toPrecision(8))).join(','));
  if (at.plane !== start.plane) put('p', at.plane);
  if (at.transform !== start.transform) put('t', at.transform);
  if (at.colours !== start.colours) put('c', at.colours);
  if (at.range) put('g', at.range.join(','));
  if (at.against) put('w', at.against);
  if (at.example) put('e', at.example);
  if (source) put('i', source);
  if (hand) put('m', hand);
  return `#1/${at.view}${fields.length ? '?' : ''}${fields.join('&')}`;
}

const whole = (text: string | null, otherwise: number): number =>
  text !== null && /^\d{1,9}$/.test(text) ? Number(text) : otherwise;
const among = <T extends string>(text: string | null, list: readonly T[], otherwise: T): T =>
  list.includes(text as T) ? (text as T) : otherwise;

function numbers(text: string | null, count: number): number[] | null {
  const list = text?.split(',').map(Number) ?? [];
  return list.length === count && list.every(Number.isFinite) ? list : null;
}

// The look of a fragment; null: the fragment is empty or of another version.
export async function read(fragment: string): Promise<Look | null> {
  const match = /^#1\/([a-z]+)(?:\?(.*))?$/s.exec(fragment);
  if (!match) return null;
  const fields = new URLSearchParams(match[2] ?? '');
  const run = fields.get('r') ?? '';
  return {
    view: match[1] ?? start.view,
    run: /^[0-9a-f]{32}$/.test(run) ? run : '',
    site: whole(fields.get('s'), start.site),
    batch: whole(fields.get('b'), start.batch),
    head:
      fields.get('h') === 'mean'
        ? 'mean'
        : whole(fields.get('h'), -1) < 0
          ? start.head
          : whole(fields.get('h'), 0),
    q: whole(fields.get('q'), start.q),
    k: whole(fields.get('k'), start.k),
    pins: (fields.get('pin') ?? '')
      .split('.')
      .filter((x) => /^\d{1,9}$/.test(x))
      .map(Number)
      .slice(0, 64),
    plane: among(fields.get('p'), planes, start.plane),
    transform: among(fields.get('t'), transforms, start.transform),
    colours: among(fields.get('c'), maps, start.colours),
    range: numbers(fields.get('g'), 2) as [number, number] | null,
    port: numbers(fields.get('v'), 3) as [number, number, number] | null,
    source: sourceIn(await recordIn(fields.get('i'))),
    hand: await recordIn(fields.get('m')),
    against: /^[a-z]+(:[\d.]*)?$/.exec(fields.get('w') ?? '')?.[0] ?? '',
    example: /^[a-z0-9-]+\.\d{1,3}$/.exec(fields.get('e') ?? '')?.[0] ?? '',
  };
}

let written = '';

// Packs a part of the look, once while it stays the same. What is too long is left out.
function packer(): (value: object | null) => Promise<string> {
  let of: object | null = null;
  let packed = '';
  return async (value) => {
    if (value === of) return packed;
    const text = value ? await pack(value) : '';
    of = value;
    packed = text.length <= SOURCE_MOST ? text : '';
    return packed;
  };
}
const packedSource = packer();
const packedHand = packer();

// The address of what is shown. A request that is too long is left out.
export const permalink = async (at: Look): Promise<string> =>
  write(at, await packedSource(at.source), await packedHand(at.hand));

// Keeps the address up to date. A new run, view or head is a step of the Back button. Any other
// change replaces the address when a gesture has ended.
export function keepAddress(): void {
  let timer = 0;
  let last: Look | null = null;
  effect(() => {
    const at = look.value;
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      void permalink(at).then((fragment) => {
        if (fragment === written || look.value !== at) return;
        const step =
          last &&
          (last.run !== at.run || last.view !== at.view || last.site !== at.site || last.head !== at.head);
        // A run that takes the place of another while one types is no step.
        const push = step && last?.run !== '' && !(last?.view === at.view && last?.source && at.source);
        written = fragment;
        last = at;
        if (push) history.pushState(null, '', fragment);
        else history.replaceState(null, '', fragment);
      });
    }, 250);
  });
  const follow = (): void => {
    if (location.hash === written) return;
    void read(location.hash).then((at) => {
      if (!at) return;
      written = location.hash;
      last = at;
      begin(at);
    });
  };
  addEventListener('popstate', follow);
  addEventListener('hashchange', follow);
}
