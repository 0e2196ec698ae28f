// Stored runs: their description, and the looks at them that the views share. Answers of a closed
// run never change, so they are kept; the browser's own cache has what is dropped here.
import type { components } from './schema';
import { ask, askJson, Problem } from './client';
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

const KEPT = 200; // answers
const KEPT_BYTES = 8 << 20; // of their weights
const kept = new Map<string, Promise<unknown>>();
const sizes = new Map<string, number>();

function drop(name: string): void {
  kept.delete(name);
  sizes.delete(name);
}

// Drops the oldest answers until the rest is small enough.
function tidy(): void {
  let bytes = 0;
  for (const size of sizes.values()) bytes += size;
  for (const oldest of kept.keys()) {
    if (kept.size <= KEPT && bytes <= KEPT_BYTES) break;
    bytes -= sizes.get(oldest) ?? 0;
    drop(oldest);
  }
}

const sizeOf = (answer: unknown): number =>
  answer instanceof Float32Array ? answer.byteLength : ((answer as { weights?: Partial<Float32Array> }).weights?.byteLength ?? 0);

// The answer of `make`, made once for each name. Failures are not kept.
function once<T>(name: string, make: () => Promise<T>): Promise<T> {
  let answer = kept.get(name) as Promise<T> | undefined;
  if (!answer) {
    answer = make();
    kept.set(name, answer);
    answer.then((found) => {
      if (kept.has(name)) sizes.set(name, sizeOf(found));
      tidy();
    }, () => drop(name));
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

// The weights of some rows and columns of a head, row by row.
export const block = (head: Head, q: number, rows: number, k: number, cols: number): Promise<Float32Array> => {
  const path = `v1/runs/${head.run}/weights?${ofHeads(head, { rows: `${q}:${q + rows}`, cols: `${k}:${k + cols}` })}`;
  return once(path, async () => {
    const weights = readTensors(await (await ask(path, { accept: 'application/vnd.safetensors' })).arrayBuffer()).tensors.get('weights');
    if (!weights) throw new Error('the answer has no weights');
    return floats(weights);
  });
};

// One number for each `step` rows or keys: the entropy of the rows, the weight that the keys get.
export interface Margins { entropy: Float32Array; received: Float32Array; rowStep: number; keyStep: number }

const MARGIN_CELLS = 262144; // of the heatmap that comes with the margins

export const margins = (head: Head): Promise<Margins> => {
  const place = `site=${head.site}&batch=${head.batch}&heads=${head.head}`;
  const path = `v1/runs/${head.run}/heatmap?${place}&encoding=u8&pool=max&max_cells=${MARGIN_CELLS}`;
  return once(path, async () => {
    const map = (await askJson<Schemas['Heatmap']>(path)).heads[0] as Schemas['HeatmapOfHead'];
    const [rowStep = 1, keyStep = 1] = map.step;
    const numbers = (list: readonly (number | null)[]): Float32Array => Float32Array.from(list, (x) => x ?? NaN);
    return { entropy: numbers(map.row_entropy), received: numbers(map.received).map((x) => x / keyStep), rowStep, keyStep };
  });
};

// Whatever is left of a tile after the time limit goes on with the next request for it.
const TILE_TRIES = 100;

export async function tile(head: Head, fields: Record<string, string | number>, signal: AbortSignal): Promise<Response> {
  const path = `v1/runs/${head.run}/tiles?${query(head, fields)}`;
  for (let tries = 1; ; tries++) {
    try {
      return await ask(path, { accept: 'application/octet-stream', signal });
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 504 || tries >= TILE_TRIES) throw error;
    }
  }
}
