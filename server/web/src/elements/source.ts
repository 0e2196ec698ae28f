// Where an element's numbers come from: typed arrays that a page gives, or a stored run of a service.
import { transport } from '../api/transport';
import { ofHead, readWeights, type HeadOfSite } from '../api/answers';
import type { components } from '../api/schema';
import { tokensOf, type Tokens } from '../api/texts';

// Numbers, all rows one after another.
export type Flat = Float32Array | Float64Array | readonly number[];

// Weights of one head that a page gives: nested arrays, in which null is a hidden key, or a flat array of
// rows.
export interface Weights {
  weights: readonly (readonly (number | null)[])[] | Flat;
  queries?: readonly string[]; // the words of the rows
  keys?: readonly string[]; // the words of the columns
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

export async function get(
  where: Where,
  path: string,
  accept: string,
  signal: AbortSignal,
): Promise<Response> {
  const token = where.token ? `${path.includes('?') ? '&' : '?'}token=${where.token}` : '';
  const reply = await transport.send(`${where.src}v1/runs/${encodeURIComponent(where.run)}${path}${token}`, {
    headers: { Accept: accept },
    signal,
  });
  if (reply.ok) return reply;
  const problem = (await reply.json().catch(() => ({}))) as { detail?: string };
  throw new Error(problem.detail ?? `the service answers with HTTP ${reply.status}`);
}

export const describe = async (where: Where, signal: AbortSignal): Promise<Run> =>
  (await (await get(where, '', 'application/json', signal)).json()) as Run;

// The words along both axes of a site, and which of them are special.
export function wordsOf(run: Run, site: Sized, batch: number): Pick<Loaded, 'queries' | 'keys' | 'special'> {
  const [query, key] = [tokensOf(run, site, 'query', batch), tokensOf(run, site, 'key', batch)];
  const names = ({ tokens }: Tokens, length: number): string[] =>
    Array.from({ length }, (_, i) => tokens?.[i] ?? String(i));
  return {
    queries: names(query, site.num_queries),
    keys: names(key, site.num_keys),
    special: { queries: query.special, keys: key.special },
  };
}

// A site of the run with its shapes.
export type Sized = ReturnType<typeof sized>;
export function sized(run: Run, index: number) {
  const site = run.sites[index];
  if (!site) throw new Error(`the run has no site ${index}`);
  const { num_queries, num_keys, tiles } = site;
  if (num_queries === undefined || num_keys === undefined || !tiles)
    throw new Error(site.problem ?? `site ${index} cannot be opened`);
  return { ...site, num_queries, num_keys, tiles };
}

// Throws an error if the site has no such head or batch entry.
export function checkHead(site: Sized, { head, batch }: Where): void {
  const { num_heads: heads = 0, num_batches: batches = 0 } = site;
  if (head !== 'mean' && head >= heads)
    throw new Error(`the site has ${heads} heads, and head ${head} is asked for: they are counted from 0`);
  if (batch >= batches)
    throw new Error(
      `the site has ${batches} batch entries, and entry ${batch} is asked for: they are counted from 0`,
    );
}

const MOST = 65536; // weights of a head that the service answers whole

export async function load(where: Where, signal: AbortSignal): Promise<Loaded> {
  const run = await describe(where, signal);
  const site = sized(run, where.site);
  checkHead(site, where);
  if (site.num_queries * site.num_keys > MOST)
    throw new Error(
      `this head has ${site.num_queries} x ${site.num_keys} weights, too many for columns of words: ` +
        '<attn-heatmap> shows it',
    );
  const { weights, hidden } = await readWeights(
    await get(where, `/rows?${ofHead(where)}`, 'application/vnd.safetensors', signal),
  );
  return { weights, hidden, ...wordsOf(run, site, where.batch) };
}

const isList = (x: unknown): x is ArrayLike<unknown> =>
  Array.isArray(x) || (ArrayBuffer.isView(x) && !(x instanceof DataView));

// The axes of nested lists, as far as the first items tell.
function axes(x: unknown): number[] {
  const sizes: number[] = [];
  for (; isList(x); x = x[0]) sizes.push(x.length);
  return sizes;
}

function named(names: unknown, what: 'queries' | 'keys', count: number): string[] {
  if (names === undefined) return Array.from({ length: count }, (_, i) => String(i));
  if (!isList(names)) throw new Error(`data.${what} must be a list of words`);
  if (names.length !== count)
    throw new Error(
      `data.${what} has ${names.length} words, ` +
        `and the weights have ${count} ${what === 'keys' ? 'columns' : 'rows'}`,
    );
  return Array.from(names, String);
}

// The rows of nested or flat weights.
function rowsOf(data: Weights): ArrayLike<unknown>[] {
  const given: unknown = data?.weights;
  if (!isList(given))
    throw new Error('data must be {weights, queries, keys}, with weights as rows of numbers');
  const sizes = axes(given);
  if (sizes.length > 2)
    throw new Error(
      `data.weights has ${sizes.length} axes, [${sizes.join(', ')}], expected [queries, keys]: ` +
        'give one head, such as weights[0]',
    );
  if (sizes.length === 2) return Array.from(given as ArrayLike<ArrayLike<unknown>>);
  const [rows, cols] = [data.queries?.length, data.keys?.length];
  if (rows === undefined || cols === undefined)
    throw new Error(
      'weights in one flat list need data.queries and data.keys, ' +
        'which say how many rows and columns there are',
    );
  if (given.length !== rows * cols)
    throw new Error(`${rows} queries and ${cols} keys need ${rows * cols} weights, found ${given.length}`);
  return Array.from(
    { length: rows },
    (_, q) => Array.prototype.slice.call(given, q * cols, (q + 1) * cols) as unknown[],
  );
}

export function take(data: Weights): Loaded {
  const rows = rowsOf(data);
  const cols = rows[0]?.length ?? data.keys?.length ?? 0;
  const weights = new Float32Array(rows.length * cols);
  const hidden = [...(data.hidden ?? [])];
  rows.forEach((row, q) => {
    if (!isList(row) || row.length !== cols)
      throw new Error(
        `data.weights[${q}] has ${isList(row) ? row.length : 'no'} numbers, and the first row ${cols}`,
      );
    for (let k = 0; k < cols; k++) {
      const weight = row[k];
      if (weight === null) hidden.push([q, k, k + 1]);
      else if (typeof weight !== 'number' || !Number.isFinite(weight))
        throw new Error(
          `data.weights[${q}][${k}] is ${String(weight)}, expected a number, or null for a hidden key`,
        );
      else weights[q * cols + k] = weight;
    }
  });
  return {
    weights,
    queries: named(data.queries, 'queries', rows.length),
    keys: named(data.keys, 'keys', cols),
    special: { queries: new Set(), keys: new Set() },
    hidden,
  };
}
