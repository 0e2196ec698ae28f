// Requests to /v1/attention whose numbers can be edited: nested lists of a small size. Here is where
// their parts lie, how one number is changed, and how such a request is made of a head of any run.
import { cell, type Head, type Site } from '../../api/runs';
import { causalOffset, maskFields, unlessAll } from '../../parts/mask';
import type { Source } from '../../store/state';
import { hiddenBy, stageOf, STAGES, valueOfKey } from './data';

export const ROWS_MOST = 32;
export const WIDTH_MOST = 64;

export type Body = Record<string, unknown>;
export type Nested = (Nested | number | boolean | null)[];

const isList = (x: unknown): x is Nested => Array.isArray(x);

export function shapeOf(x: unknown): number[] | null {
  const shape: number[] = [];
  for (let at = x; isList(at); at = at[0]) {
    if (at.length === 0) return null;
    shape.push(at.length);
  }
  return shape.length > 0 ? shape : null;
}

export type Part = 'query' | 'key' | 'value' | 'attn_mask' | 'attn_bias';

export interface Grid {
  part: Part;
  path: number[]; // from the tensor to its rows
  rows: (number | boolean | null)[][];
}

export interface Editable {
  grids: Partial<Record<Part, Grid>>;
  isSelf: boolean; // the queries are keys and values, too
  queries: number;
  keys: number;
}

const at = (x: unknown, path: readonly number[]): unknown =>
  path.reduce<unknown>((list, i) => (isList(list) ? list[i] : undefined), x);

function gridOf(body: Body, part: Part, batch: number, head: number): Grid | null {
  const tensor = body[part];
  const shape = shapeOf(tensor);
  if (!shape || shape.length > 4) return null;
  const lead = shape.slice(0, -2);
  const path = lead.map((length, i) => Math.min(i === 0 ? batch : head, length - 1));
  const rows = shape.length === 1 ? [tensor] : at(tensor, path);
  if (!isList(rows) || !rows.every((r) => isList(r) && r.every((x) => typeof x !== 'object' || x === null)))
    return null;
  return { part, path: shape.length === 1 ? [-1] : path, rows: rows as (number | boolean | null)[][] };
}

const OTHER = ['projections', 'past_key', 'past_value', 'block_table', 'num_heads', 'layout'];

// The numbers of one head of a request; null: they are too many, or not all there.
export function editable(source: Source | null, batch: number, head: number): Editable | null {
  if (source?.path !== 'v1/attention') return null;
  const { body } = source;
  if (OTHER.some((name) => body[name] !== undefined && !(name === 'layout' && body[name] === 'BHLE')))
    return null;
  const shape = shapeOf(body.query);
  if (!shape || shape.length < 2 || shape.length > 4) return null;
  const heads = shape.length === 4 ? (shape[1] as number) : 1;
  const keyShape = shapeOf(body.key);
  const keyHead = keyShape?.length === 4 ? Math.floor((head * (keyShape[1] as number)) / heads) : 0;
  const grids: Editable['grids'] = {};
  for (const part of ['query', 'key', 'value', 'attn_mask', 'attn_bias'] as const) {
    if (body[part] === undefined || body[part] === null) continue;
    const grid = gridOf(body, part, batch, part === 'key' || part === 'value' ? keyHead : head);
    if (!grid) return null;
    grids[part] = grid;
  }
  const { query, key, value } = grids;
  if (!query) return null;
  const queries = query.rows.length;
  const keys = (key ?? query).rows.length;
  const width = Math.max(...[query, key, value].map((g) => g?.rows[0]?.length ?? 0));
  if (queries > ROWS_MOST || keys > ROWS_MOST || width > WIDTH_MOST) return null;
  return { grids, isSelf: body.key === undefined, queries, keys };
}

function put(list: Nested, path: readonly number[], value: number | boolean): Nested {
  const [first, ...rest] = path;
  return list.map((x, i) => (i !== first ? x : rest.length === 0 ? value : put(x as Nested, rest, value)));
}

// A body with one number changed; all other rows are the same objects.
export function withNumber(body: Body, grid: Grid, row: number, col: number, value: number | boolean): Body {
  const path = grid.path[0] === -1 ? [col] : [...grid.path, row, col];
  return { ...body, [grid.part]: put(body[grid.part] as Nested, path, value) };
}

const without = (body: Body, ...names: string[]): Body =>
  Object.fromEntries(Object.entries(body).filter(([name]) => !names.includes(name)));

// A field that is left out where it is null.
export const withField = (body: Body, name: string, value: unknown): Body =>
  value === null ? without(body, name) : { ...body, [name]: value };

export const filled = (rows: number, cols: number, value: number | boolean): Nested =>
  Array.from({ length: rows }, () => Array.from({ length: cols }, () => value));

// What the view wants to see of such a request beside its run.
export const withAnswers = (body: Body): Body => ({
  ...body,
  return: ['scores', 'weights', 'output'],
  score_stage: [...STAGES],
});

export const canCopy = (site: Site): boolean =>
  (site.score === 'scaled_dot' || site.score === 'dot') &&
  site.position !== 'relative' &&
  site.position !== 'shaw' &&
  site.num_queries <= ROWS_MOST &&
  site.num_keys <= ROWS_MOST &&
  site.width <= WIDTH_MOST;

const float = (x: number | null | undefined): number => Number(x ?? 0);

// The mask of a head as fields of a request. A key behind its query is left out of the written mask
// unless something besides causal hides it, so that it is seen once causal is off.
async function masksOf(head: Head, site: Site, seen: readonly (readonly boolean[])[]): Promise<Body> {
  const offset = causalOffset(site.mask);
  const isBehind = (q: number, k: number): boolean => k > q + (offset ?? 0);
  if (offset === null || seen.some((row, q) => row.some((sees, k) => sees && isBehind(q, k))))
    return maskFields(false, unlessAll(seen));
  const isAlone = !site.mask.includes('; ');
  const rest = await Promise.all(
    seen.map((row, q) =>
      Promise.all(
        row.map(async (sees, k) =>
          isBehind(q, k) ? isAlone || (await hiddenBy(head, q, k)).length === 1 : sees,
        ),
      ),
    ),
  );
  return { ...maskFields(true, unlessAll(rest)), ...(offset ? { query_offset: offset } : {}) };
}

// A request of its own for one head: its queries, keys and values, its scale, and what is added to
// the scores or hidden. The values of keys that no query sees are zeros.
export async function copyOf(
  head: Head & { head: number },
  site: Site,
  labels: { query: string[] | null; key: string[] | null },
): Promise<Source> {
  const { num_queries: queries, num_keys: keys } = site;
  const [softcapped, biased, probs] = await Promise.all([
    stageOf(head, 'softcapped', ''),
    stageOf(head, 'biased', ''),
    stageOf(head, 'probs', ''),
  ]);
  const seen = Array.from({ length: queries }, () => Array.from({ length: keys }, () => true));
  for (const [row, from, to] of probs.hidden) seen[row]?.fill(false, from, to);
  const query: number[][] = [];
  for (let q = 0; q < queries; q++) query.push((await cell(head, q, 0)).query?.map(float) ?? []);
  const key: number[][] = [];
  const value: (number[] | null)[] = [];
  for (let k = 0; k < keys; k++) {
    key.push((await cell(head, 0, k)).key?.map(float) ?? []);
    const row = seen.findIndex((r) => r[k]);
    value.push(row < 0 ? [] : await valueOfKey(head, row, k, keys).catch(() => null));
  }
  const bias = Array.from({ length: queries }, (_, q) =>
    Array.from({ length: keys }, (_k, k) => {
      const i = q * keys + k;
      return seen[q]?.[k]
        ? Math.fround((biased.numbers[i] as number) - (softcapped.numbers[i] as number))
        : 0;
    }),
  );
  const width = Math.max(0, ...value.map((v) => v?.length ?? 0));
  const body: Body = { query, key };
  if (value.every((v) => v !== null))
    body.value = value.map((v) => (v?.length ? v : Array.from({ length: width }, () => 0)));
  Object.assign(body, await masksOf(head, site, seen));
  if (bias.some((r) => r.some((x) => x !== 0))) body.attn_bias = bias;
  body.scale = site.scale;
  if (site.softcap) body.softcap = site.softcap;
  if (labels.query && labels.key) body.labels = { query: labels.query, key: labels.key };
  return { path: 'v1/attention', body: withAnswers(body) };
}
