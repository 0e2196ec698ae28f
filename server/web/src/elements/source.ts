// Where an element's numbers come from: typed arrays that a page gives, or a stored run of a service.
import { ofHead, readWeights, type HeadOfSite } from '../api/answers';
import type { components } from '../api/schema';
import { nameOf, tokensOf } from '../api/texts';

// Weights of one head that a page gives: nested arrays, or a flat array of rows.
export interface Weights {
  weights: readonly (readonly number[])[] | Float32Array;
  queries: readonly string[]; // the words of the rows
  keys: readonly string[]; // the words of the columns
  hidden?: readonly (readonly [number, number, number])[]; // [row, from, to) that a mask hides
}

export interface Loaded {
  weights: Float32Array;
  queries: string[];
  keys: string[];
  special: { queries: Set<number>; keys: Set<number> };
  hidden: (readonly [number, number, number])[];
}

export interface Where extends HeadOfSite {
  src: string; // the address of the service, with a final slash
  run: string;
  token: string; // a run's own right to be read; '': none
}

type Run = components['schemas']['Run'];

export async function get(where: Where, path: string, accept: string, signal: AbortSignal): Promise<Response> {
  const token = where.token ? `${path.includes('?') ? '&' : '?'}token=${where.token}` : '';
  const reply = await fetch(`${where.src}v1/runs/${encodeURIComponent(where.run)}${path}${token}`, { headers: { Accept: accept }, signal });
  if (reply.ok) return reply;
  const problem = (await reply.json().catch(() => ({}))) as { detail?: string };
  throw new Error(problem.detail ?? `the service answers with HTTP ${reply.status}`);
}

export const describe = async (where: Where, signal: AbortSignal): Promise<Run> =>
  (await (await get(where, '', 'application/json', signal)).json()) as Run;

// The words along an axis of a site, and which of them are special.
export function wordsOf(run: Run, site: Sized, side: 'query' | 'key', batch: number): { names: string[]; special: Set<number> } {
  const axis = tokensOf(run, site, side, batch);
  return { names: Array.from({ length: side === 'query' ? site.queries : site.keys }, (_, i) => nameOf(axis, i)), special: axis.special };
}

// A site of the run with its shapes.
export type Sized = ReturnType<typeof sized>;
export function sized(run: Run, index: number) {
  const site = run.sites[index];
  if (!site) throw new Error(`the run has no site ${index}`);
  const { queries, keys, tiles } = site;
  if (queries === undefined || keys === undefined || !tiles) throw new Error(site.problem ?? `site ${index} cannot be opened`);
  return { ...site, queries, keys, tiles };
}

export async function load(where: Where, signal: AbortSignal): Promise<Loaded> {
  const run = await describe(where, signal);
  const site = sized(run, where.site);
  const { weights, hidden } = await readWeights(await get(where, `/rows?${ofHead(where)}`, 'application/vnd.safetensors', signal));
  const queries = wordsOf(run, site, 'query', where.batch);
  const keys = wordsOf(run, site, 'key', where.batch);
  return {
    weights, queries: queries.names, keys: keys.names,
    special: { queries: queries.special, keys: keys.special }, hidden,
  };
}

export function take(data: Weights): Loaded {
  const rows = data.queries.length;
  const cols = data.keys.length;
  const flat = data.weights instanceof Float32Array ? data.weights : Float32Array.from(data.weights.flat());
  if (flat.length !== rows * cols) throw new Error(`${rows} queries and ${cols} keys need ${rows * cols} weights, found ${flat.length}`);
  return {
    weights: flat, queries: [...data.queries], keys: [...data.keys],
    special: { queries: new Set(), keys: new Set() }, hidden: [...(data.hidden ?? [])],
  };
}
