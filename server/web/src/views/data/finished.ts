// Finished weights, of which the service draws heatmaps and says what they look at. They cannot
// become a run, because a run is made of queries and keys.
import { signal } from '@preact/signals';
import type { components } from '../../api/schema';
import { askJson } from '../../api/client';
import { BadFile, bodyOf, plane, type Part } from './tensors';

type Schemas = components['schemas'];
export type Heatmaps = Schemas['Heatmaps'];
export type Analyses = Schemas['Analyses'];

// The weights of one head as they are sent: as JSON, or as a part of a file.
interface OneHead {
  json?: unknown;
  part?: Part;
  // Where the part has more heads than this: how a heatmap names it, and its place among all.
  heatmap?: { heads: number[]; batch: number[] };
  place?: number;
}

// One family of weights, such as "encoder" of a model that has three.
export interface Weights {
  name: string;
  layers: number;
  batches: number; // of each layer
  heads: number;
  labels: { query?: string[]; key?: string[] } | null;
  of: (layer: number, batch: number, head: number) => Promise<OneHead>;
}

export interface Finished {
  id: number;
  what: string;
  sets: Weights[];
  part: Part | null;
}
export const finished = signal<Finished | null>(null);
const made = signal(0);

function nextId(): number {
  made.value = made.peek() + 1;
  return made.peek();
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const texts = (value: unknown): string[] | undefined =>
  Array.isArray(value) && value.every((x) => typeof x === 'string') ? value : undefined;

function depth(value: unknown): number {
  let axes = 0;
  for (let at = value; Array.isArray(at); at = (at as unknown[])[0]) axes++;
  return axes;
}

// Nested lists [rows][cols], with [heads], [layers], and a batch between those two in front.
function nested(
  name: string,
  value: unknown,
  query: string[] | undefined,
  key: string[] | undefined,
  file: string,
): Weights {
  const axes = depth(value);
  if (axes < 2 || axes > 5)
    throw new BadFile(
      `The weights of ${file} have ${axes} axes. ` +
        'Expected [rows][keys], with [heads], [layers] or [layers][batch] in front.',
    );
  let all = value as unknown[];
  if (axes === 2) all = [[all]];
  else if (axes === 3) all = [all];
  const five = axes === 5;
  const layers = all as unknown[][][];
  const first = (five ? layers[0]?.[0] : layers[0]) as unknown[] | undefined;
  if (!first?.length) throw new BadFile(`The weights of ${file} are empty.`);
  return {
    name,
    layers: layers.length,
    batches: five ? (layers[0]?.length ?? 1) : 1,
    heads: first.length,
    labels: (query ?? key) ? { ...(query && { query }), ...(key && { key }) } : null,
    of: (layer, batch, head) =>
      Promise.resolve({
        json: five ? (layers[layer]?.[batch] as unknown[] | undefined)?.[head] : layers[layer]?.[head],
      }),
  };
}

// The weights of a JSON file in the forms that bertviz has; null: it holds none.
export function weightsOf(of: Record<string, unknown>, file: string): Finished | null {
  const value = of.attention ?? of.attn ?? of.weights;
  const sets: Weights[] = [];
  const add = (name: string, from: Record<string, unknown>): void => {
    const tokens = texts(from.tokens) ?? texts(of.tokens);
    const query = texts(from.left_text) ?? texts(of.left_text) ?? tokens;
    const key = texts(from.right_text) ?? texts(of.right_text) ?? tokens;
    sets.push(nested(name, from.attn ?? from.attention ?? from.weights, query, key, file));
  };
  if (Array.isArray(value) && isObject(value[0]))
    value.forEach((part: unknown, i) => {
      if (isObject(part)) add(typeof part.name === 'string' ? part.name : `weights ${i}`, part);
    });
  else if (Array.isArray(value)) add('weights', of);
  else if (isObject(value))
    for (const [name, part] of Object.entries(value)) if (isObject(part) && 'attn' in part) add(name, part);
  return sets.length ? { id: nextId(), what: file, sets, part: null } : null;
}

// [L, S], [H, L, S], [B, H, L, S] or [layers, B, H, L, S] in a file of tensors.
export function weightsOfPart(part: Part): Finished {
  const front = part.shape.slice(0, -2);
  const heads = front.at(-1) ?? 1;
  const layers = front.length > 2 ? (front[0] as number) : 1;
  const batches = front.slice(layers > 1 || front.length > 2 ? 1 : 0, -1).reduce((a, b) => a * b, 1);
  const set: Weights = {
    name: part.name,
    layers,
    batches,
    heads,
    labels: null,
    of: async (layer, batch, head) => {
      const entry = layer * batches + batch;
      const place = entry * heads + head;
      const one = await plane(part, place);
      return one ? { part: one } : { part, place, heatmap: { heads: [head], batch: [entry] } };
    },
  };
  return { id: nextId(), what: `${part.name} of ${part.file}`, sets: [set], part };
}

export const CELLS = 65536;

// Sends weights to /v1/heatmaps or /v1/analyses.
async function send<T>(
  path: string,
  { part, json }: OneHead,
  body: Record<string, unknown>,
  signal: AbortSignal,
): Promise<T> {
  if (!part) return askJson<T>(path, { json: { weights: json, ...body }, signal });
  const { query, type, body: bytes } = await bodyOf('weights', new Map([['weights', part]]), body);
  return askJson<T>(path + query, { method: 'POST', body: bytes, type, signal });
}

export interface Drawn {
  cells: Float32Array;
  rows: number;
  cols: number;
  step: readonly number[];
  range: [number, number];
  hidden: number[][];
  top: number[][];
  warnings: string[];
}

function floats(base64: string): Float32Array {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

export async function draw(set: Weights, one: OneHead, signal: AbortSignal): Promise<Drawn> {
  const body = {
    ...(set.labels && { labels: set.labels }),
    heatmap: { ...one.heatmap, encoding: 'f32', max_cells: CELLS, top_k: 5 },
  };
  const answer = await send<Heatmaps>('v1/heatmaps', one, body, signal);
  const first = answer.heads?.[0];
  if (!first || typeof first.max !== 'string') throw new Error('the answer has no cells');
  const [rows = 0, cols = 0] = first.shape;
  return {
    cells: floats(first.max),
    rows,
    cols,
    step: first.step,
    range: [first.range[0] ?? 0, first.range[1] ?? 1],
    hidden: first.hidden,
    top: (first.top ?? []) as number[][],
    warnings: (answer.warnings ?? []).map((w) => w.detail),
  };
}

// What the head looks at, in words; '': the service finds no pattern.
export async function describe(set: Weights, one: OneHead, signal: AbortSignal): Promise<string> {
  const answer = await send<Analyses>(
    'v1/analyses',
    one,
    { ...(set.labels && { labels: set.labels }), analysis: 'patterns' },
    signal,
  );
  return answer.heads?.[one.place ?? 0]?.pattern?.text ?? '';
}
