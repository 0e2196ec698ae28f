// Stored runs: their descriptions, and the looks at them that the views share. Answers about a
// closed run never change, so they are kept here. Answers that are dropped here may still be in the
// cache of the browser.
import type { components } from './schema';
import { ask, askJson, Problem } from './client';
import { ofHead, readWeights, type HeadOfSite, type Weights } from './answers';
import { inTurn } from './turns';

type Schemas = components['schemas'];
export type Run = Schemas['Run'];
export type RunSite = Schemas['RunSite'];
// A site that the service could open; any other has `problem` in place of its shapes.
type Shapes =
  | 'num_batches'
  | 'num_heads'
  | 'num_kv_heads'
  | 'num_queries'
  | 'num_keys'
  | 'width'
  | 'mask'
  | 'tiles';
export type Site = RunSite & Required<Pick<RunSite, Shapes>>;
export const isOpen = (site: RunSite | undefined): site is Site =>
  site !== undefined && site.num_queries !== undefined;
export type Cell = Schemas['RunCell'];

export interface Size {
  queries: number;
  keys: number;
}

// The head that most views show. `size`: the numbers of queries and keys so far, if the run still
// grows. Requests then ask for just this part, so that axes and weights fit together, and the
// numbers of the part never change.
export interface Head extends HeadOfSite {
  run: string;
  size?: Size | undefined;
}

type Fields = Record<string, string | number>;

const fields = (more: Fields): string =>
  Object.entries(more)
    .map(([name, value]) => `&${name}=${encodeURIComponent(value)}`)
    .join('');

// For the routes that name the mean of the heads as a head.
const query = ({ site, batch, head }: Head, more: Fields = {}): string =>
  `site=${site}&batch=${batch}&head=${head}${fields(more)}`;

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
  answer instanceof Float32Array
    ? answer.byteLength
    : ((answer as { weights?: Partial<Float32Array> }).weights?.byteLength ?? 0);

// The answer of `make`, made once for each name. Failures are not kept.
function once<T>(name: string, make: () => Promise<T>): Promise<T> {
  let answer = kept.get(name) as Promise<T> | undefined;
  if (!answer) {
    answer = make();
    kept.set(name, answer);
    answer.then(
      (found) => {
        if (kept.has(name)) sizes.set(name, sizeOf(found));
        tidy();
      },
      () => drop(name),
    );
  }
  return answer;
}

export const describe = (run: string, signal?: AbortSignal): Promise<Run> =>
  askJson<Run>(`v1/runs/${encodeURIComponent(run)}`, { signal });

export interface Row {
  weights: Float32Array;
  hidden: [number, number][]; // keys [from, to) that the mask hides
}

const read = async (path: string): Promise<Weights> =>
  readWeights(await ask(path, { accept: 'application/vnd.safetensors' }));

// The path of some rows, and of what the mask hides in these rows.
const rowsPath = (head: Head, rows: string): string =>
  head.size
    ? `v1/runs/${head.run}/weights?${ofHead(head)}` +
      `&rows=${rows || `0:${head.size.queries}`}&cols=0:${head.size.keys}&hidden=true`
    : `v1/runs/${head.run}/rows?${ofHead(head)}${rows && `&rows=${rows}`}`;

export const row = (head: Head, index: number): Promise<Row> => {
  const path = rowsPath(head, String(index));
  return once(path, async () => {
    const { weights, hidden } = await read(path);
    return { weights, hidden: hidden.map(([, from, to]) => [from, to] as [number, number]) };
  });
};

export const WHOLE_MOST = 65536; // weights that the service answers in one request

// The rows [from, to) of a head with `cols` keys, in as many requests as that takes.
export const rows = (head: Head, from: number, to: number, cols: number): Promise<Weights> =>
  once(`${rowsPath(head, `${from}:${to}`)} joined`, async () => {
    const step = Math.max(1, Math.floor(WHOLE_MOST / Math.max(1, cols)));
    const parts: Weights[] = [];
    for (let at = from; at < to; at += step)
      parts.push(await read(rowsPath(head, `${at}:${Math.min(to, at + step)}`)));
    const weights = new Float32Array((to - from) * cols);
    let filled = 0;
    for (const part of parts) {
      weights.set(part.weights, filled);
      filled += part.weights.length;
    }
    return { weights, hidden: parts.flatMap((part) => part.hidden) };
  });

// All weights of a head of up to WHOLE_MOST weights.
export const whole = (head: Head): Promise<Weights> => {
  const path = rowsPath(head, '');
  return once(path, () => read(path));
};

export const cell = (head: Head, q: number, k: number): Promise<Cell> => {
  const path = `v1/runs/${head.run}/cells?${query(head, { row: q, col: k })}`;
  return once(path, () => askJson<Cell>(path));
};

export interface Edges {
  row: number[];
  col: number[];
  weight: number[];
}

export const strongest = (head: Head, more: Fields): Promise<Edges> => {
  const path = `v1/runs/${head.run}/top-k?${query(head, more)}`;
  return once(path, () => askJson<Edges>(path));
};

// The weights of some rows and columns of a head, row by row.
export const block = (
  head: Head,
  q: number,
  rows: number,
  k: number,
  cols: number,
): Promise<Float32Array> => {
  const part = fields({ rows: `${q}:${q + rows}`, cols: `${k}:${k + cols}` });
  const path = `v1/runs/${head.run}/weights?${ofHead(head)}${part}`;
  return once(path, async () => (await read(path)).weights);
};

// One number for each `step` rows or keys: for rows the entropy, for keys the weight that they
// receive.
export interface Margins {
  entropy: Float32Array;
  received: Float32Array;
  rowStep: number;
  keyStep: number;
}

const MARGIN_CELLS = 262144; // of the heatmap that comes with the margins

export const margins = (head: Head): Promise<Margins> => {
  const part = head.size ? `&rows=0:${head.size.queries}&cols=0:${head.size.keys}` : '';
  const place = `site=${head.site}&batch=${head.batch}&heads=${head.head}${part}`;
  const path = `v1/runs/${head.run}/heatmaps?${place}&encoding=u8&pool=max&max_cells=${MARGIN_CELLS}`;
  return once(path, async () => {
    const map = (await askJson<Schemas['Heatmap']>(path)).heads[0] as Schemas['HeatmapOfHead'];
    const [rowStep = 1, keyStep = 1] = map.step;
    const numbers = (list: readonly (number | null)[]): Float32Array =>
      Float32Array.from(list, (x) => x ?? NaN);
    return {
      entropy: numbers(map.row_entropy),
      received: numbers(map.received).map((x) => x / keyStep),
      rowStep,
      keyStep,
    };
  });
};

// A request for a tile may end at the time limit. The next request for the same tile continues the
// work.
const TILE_TRIES = 100;

export async function tile(head: Head, more: Fields, signal: AbortSignal): Promise<Response> {
  const path = `v1/runs/${head.run}/tiles?${query(head, more)}`;
  for (let tries = 1; ; tries++) {
    try {
      return await inTurn(() => ask(path, { accept: 'application/octet-stream', signal }), signal);
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 504 || tries >= TILE_TRIES) throw error;
    }
  }
}
