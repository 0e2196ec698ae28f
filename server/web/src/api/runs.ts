// Stored runs: their description, and the looks at them that the views share. Answers of a closed
// run never change, so they are kept; the browser's own cache has what is dropped here.
import type { components } from './schema';
import { ask, askJson } from './client';
import { floats, readTensors } from './safetensors';

type Schemas = components['schemas'];
export type Run = Schemas['Run'];
export type RunSite = Schemas['RunSite'];
// A site that the service could open; any other has `problem` in place of its shapes.
type Shapes = 'batches' | 'heads' | 'kv_heads' | 'queries' | 'keys' | 'width' | 'mask' | 'tiles';
export type Site = RunSite & Required<Pick<RunSite, Shapes>>;
export const isOpen = (site: RunSite | undefined): site is Site => site !== undefined && site.queries !== undefined;
export type Cell = Schemas['RunCell'];

// One head of one site, which is what most views show. `head` is 'mean' for the mean of all heads.
export interface Head {
  run: string;
  site: number;
  batch: number;
  head: number | 'mean';
}

const query = (head: Head, more: Record<string, string | number> = {}): string => {
  const fields: Record<string, string | number> = { site: head.site, batch: head.batch, head: head.head, ...more };
  return Object.entries(fields).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
};

// `/weights` and `/rows` name the mean of the heads in the plural.
const ofHeads = (head: Head, more: Record<string, string | number> = {}): string => {
  const text = query(head, more);
  return head.head === 'mean' ? text.replace('head=mean', 'heads=mean') : text;
};

const KEPT = 200;
const kept = new Map<string, Promise<unknown>>();

// The answer of `make`, made once for each name. Failures are not kept.
function once<T>(name: string, make: () => Promise<T>): Promise<T> {
  let answer = kept.get(name) as Promise<T> | undefined;
  if (!answer) {
    answer = make();
    kept.set(name, answer);
    answer.catch(() => kept.delete(name));
    for (const oldest of kept.keys()) {
      if (kept.size <= KEPT) break;
      kept.delete(oldest);
    }
  }
  return answer;
}

export const describe = (run: string, signal?: AbortSignal): Promise<Run> =>
  askJson<Run>(`v1/runs/${encodeURIComponent(run)}`, { signal });

export interface Row {
  weights: Float32Array;
  hidden: [number, number][]; // keys [from, to) that the mask hides
}

async function readRows(path: string): Promise<{ weights: Float32Array; hidden: [number, number, number][] }> {
  const reply = await ask(path, { accept: 'application/vnd.safetensors' });
  const { metadata, tensors } = readTensors(await reply.arrayBuffer());
  const weights = tensors.get('weights');
  if (!weights) throw new Error('the answer has no weights');
  const response = JSON.parse(metadata['response'] ?? '{}') as { hidden?: [number, number, number][] };
  return { weights: floats(weights), hidden: response.hidden ?? [] };
}

export const row = (head: Head, index: number): Promise<Row> => {
  const path = `v1/runs/${head.run}/rows?${ofHeads(head, { rows: index })}`;
  return once(path, async () => {
    const { weights, hidden } = await readRows(path);
    return { weights, hidden: hidden.map(([, from, to]) => [from, to] as [number, number]) };
  });
};

export interface Whole {
  weights: Float32Array; // [queries, keys]
  hidden: [number, number, number][]; // [row, from, to)
}

// All weights of a head of up to 65,536 weights.
export const whole = (head: Head): Promise<Whole> => {
  const path = `v1/runs/${head.run}/rows?${ofHeads(head)}`;
  return once(path, () => readRows(path));
};

export const WHOLE_MOST = 65536;

export const cell = (head: Head, q: number, k: number): Promise<Cell> => {
  const path = `v1/runs/${head.run}/cells?${query(head, { row: q, col: k })}`;
  return once(path, () => askJson<Cell>(path));
};

export interface Edges { row: number[]; key: number[]; weight: number[] }

export const strongest = (head: Head, more: Record<string, string | number>): Promise<Edges> => {
  const path = `v1/runs/${head.run}/top-k?${query(head, more)}`;
  return once(path, () => askJson<Edges>(path));
};
