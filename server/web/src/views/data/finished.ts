// Finished weights, of which the service draws heatmaps and says what they look at.
import { signal } from '@preact/signals';
import type { components } from '../../api/schema';
import { askJson } from '../../api/client';
import { familyNames, wordNames, weightNames } from './names';
import { shapeOf } from './numbers';
import { bodyOf } from './bodies';
import { BadFile, numbersOf, plane, type Part, type Words } from './tensors';

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
  // [batches, heads, queries, keys] of a layer, and the lengths of these axes.
  numbers: (layer: number) => Promise<{ shape: readonly number[]; numbers: Float32Array }>;
}

export interface Finished {
  id: number;
  what: string;
  sets: Weights[];
  parts: readonly Part[]; // that the weights are; []: they come from a text
  words: Words;
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
  Array.isArray(value) && value.length > 0 && value.every((x) => typeof x === 'string') ? value : undefined;
const firstOf = (of: Record<string, unknown>, names: readonly string[]): unknown =>
  names.map((name) => of[name]).find((value) => value !== undefined);

function depth(value: unknown): number {
  let axes = 0;
  for (let at = value; Array.isArray(at); at = (at as unknown[])[0]) axes++;
  return axes;
}

// Where the weights are no numbers, such as the NaN that JSON writes as null.
function checkNumbers(value: unknown[], file: string): void {
  const check = (at: unknown, place: number[]): void => {
    if (Array.isArray(at)) {
      for (const [i, item] of at.entries()) check(item, [...place, i]);
    } else if (typeof at !== 'number')
      throw new BadFile(
        `The weights of ${file} have ${at === null ? 'NaN or null' : JSON.stringify(at)} at ` +
          `query ${place.at(-2)}, key ${place.at(-1)} of head ${place.at(-3)}. Expected a number.`,
      );
  };
  check(value, []);
}

// Nested lists [rows][cols], with [heads], [layers], and a batch between those two in front. One row
// of weights is a list of numbers.
function nested(name: string, value: unknown, words: Words, file: string): Weights {
  const axes = depth(value);
  if (axes < 1 || axes > 5)
    throw new BadFile(
      `The weights of ${file} have ${axes} ${axes === 1 ? 'axis' : 'axes'}. ` +
        'Expected [rows][keys], with [heads], [layers] or [layers][batch] in front.' +
        (axes === 6 ? ' Of generated text, choose one step.' : ''),
    );
  let all = value as unknown[];
  if (axes === 1) all = [[[all]]];
  else if (axes === 2) all = [[all]];
  else if (axes === 3) all = [all];
  const layers = (axes === 5 ? all : all.map((layer) => [layer])) as unknown[][][];
  checkNumbers(layers, file);
  for (const layer of layers) {
    const shape = shapeOf(layer);
    if (shape?.length !== 4)
      throw new BadFile(`The weights of ${file} have rows or heads of unequal lengths.`);
    if (shape.includes(0)) throw new BadFile(`The weights of ${file} are empty.`);
  }
  const [batches = 1, heads = 1, rows = 0, keys = 0] = shapeOf(layers[0]) ?? [];
  return {
    name,
    layers: layers.length,
    batches,
    heads,
    labels: labelsOf(words, rows, keys),
    of: (layer, batch, head) =>
      Promise.resolve({ json: (layers[layer]?.[batch] as unknown[] | undefined)?.[head] }),
    numbers: (layer) =>
      Promise.resolve({
        shape: shapeOf(layers[layer]) ?? [],
        numbers: Float32Array.from((layers[layer] as unknown[]).flat(3) as number[]),
      }),
  };
}

// Names that fit one side alone name that side.
function labelsOf({ query, key }: Words, rows: number, keys: number): Weights['labels'] {
  const made = {
    ...(query?.length === rows && { query }),
    ...(key?.length === keys && { key }),
  };
  return made.query || made.key ? made : null;
}

// Names that fit neither side, in a sentence; '': all fit.
export function unfit(of: Finished): string {
  const count = of.words.query?.length ?? of.words.key?.length ?? 0;
  return count && of.sets.every((set) => !set.labels)
    ? `The file has ${count} ${count === 1 ? 'name' : 'names'}, as many as neither queries nor keys, so positions are shown.`
    : '';
}

const wordsOf = (from: Record<string, unknown>, of: Record<string, unknown>): Words => {
  const find = (names: readonly string[]): string[] | undefined =>
    texts(firstOf(from, names)) ?? texts(firstOf(of, names));
  const labels = isObject(of.labels) ? of.labels : {};
  const both = find(wordNames.both);
  const query = find(wordNames.query) ?? texts(labels.query) ?? both;
  const key = find(wordNames.key) ?? texts(labels.key) ?? both;
  return { ...(query && { query }), ...(key && { key }) };
};

// The weights of a JSON file in the forms that transformers and bertviz have; null: it holds none.
export function weightsOf(of: Record<string, unknown>, file: string): Finished | null {
  const value = firstOf(of, weightNames);
  const sets: Weights[] = [];
  let words: Words = {};
  const add = (name: string, from: Record<string, unknown>, numbers: unknown): void => {
    words = wordsOf(from, of);
    sets.push(nested(name, numbers, words, file));
  };
  if (Array.isArray(value) && isObject(value[0]))
    value.forEach((part: unknown, i) => {
      if (isObject(part))
        add(typeof part.name === 'string' ? part.name : `weights ${i}`, part, firstOf(part, weightNames));
    });
  else if (Array.isArray(value)) add('weights', of, value);
  else if (isObject(value)) {
    for (const [name, part] of Object.entries(value))
      if (isObject(part) && 'attn' in part) add(name, part, part.attn);
  }
  for (const name of familyNames) if (Array.isArray(of[name])) add(name.replace(/_.*/, ''), {}, of[name]);
  return sets.length ? { id: nextId(), what: file, sets, parts: [], words } : null;
}

// A list without a name, of which only the numbers say that it is weights.
export const weightsOfList = (value: unknown, file: string): Finished => ({
  id: nextId(),
  what: file,
  sets: [nested('weights', value, {}, file)],
  parts: [],
  words: {},
});

// A table with names, as pandas writes it.
export const weightsOfTable = (
  rows: readonly (readonly number[])[],
  words: Words,
  file: string,
): Finished => ({
  id: nextId(),
  what: file,
  sets: [nested('weights', rows, words, file)],
  parts: [],
  words,
});

// [L, S], [H, L, S], [B, H, L, S] or [layers, B, H, L, S] in a file of tensors.
function setOfPart(part: Part, words: Words): Weights {
  const axes = part.shape.length === 1 ? [1, ...part.shape] : part.shape;
  const [rows = 0, keys = 0] = axes.slice(-2);
  const front = axes.slice(0, -2);
  if (axes.includes(0))
    throw new BadFile(`The weights ${part.name} of ${part.file} are empty: ${part.shape.join(' × ')}.`);
  const heads = front.at(-1) ?? 1;
  const layers = front.length > 2 ? (front[0] as number) : 1;
  const batches = front.slice(layers > 1 || front.length > 2 ? 1 : 0, -1).reduce((a, b) => a * b, 1);
  let all: Promise<Float32Array> | null = null;
  return {
    name: part.name,
    layers,
    batches,
    heads,
    labels: labelsOf(words, rows, keys),
    of: async (layer, batch, head) => {
      const entry = layer * batches + batch;
      const place = entry * heads + head;
      const one = await plane({ ...part, shape: axes }, place);
      return one ? { part: one } : { part, place, heatmap: { heads: [head], batch: [entry] } };
    },
    numbers: async (layer) => {
      all ??= numbersOf(part);
      const length = batches * heads * rows * keys;
      return {
        shape: [batches, heads, rows, keys],
        numbers: (await all).subarray(layer * length, (layer + 1) * length),
      };
    },
  };
}

// The tensors of one family, each a layer.
export function weightsOfParts(parts: readonly Part[], words: Words): Finished {
  const sets = parts.map((part) => setOfPart(part, words));
  const [first] = sets as [Weights];
  const [part] = parts as [Part];
  const isOne = sets.length === 1;
  const set: Weights = {
    ...first,
    name: isOne ? part.name : `${parts.length} layers`,
    layers: isOne ? first.layers : sets.length,
    of: (layer, batch, head) =>
      isOne ? first.of(layer, batch, head) : (sets[layer] as Weights).of(0, batch, head),
    numbers: (layer) => (isOne ? first.numbers(layer) : (sets[layer] as Weights).numbers(0)),
  };
  return {
    id: nextId(),
    what: isOne ? `${part.name} of ${part.file}` : part.file,
    sets: [set],
    parts,
    words,
  };
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
  of: readonly [number, number]; // queries and keys
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
  const shape = one.part?.shape ?? shapeOf(one.json) ?? [];
  return {
    cells: floats(first.max),
    rows,
    cols,
    step: first.step,
    of: [shape.at(-2) ?? rows, shape.at(-1) ?? cols],
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
