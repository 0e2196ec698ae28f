// Finished weights as a run of the service, so that all views, links and exports have them. A run is made of
// queries and keys: the rows of weights are its queries, the unit vectors its keys. So each score is a
// weight, and max(0, score) leaves it as it is, to the last bit of float32.
import { safetensors } from './bodies';
import { BadFile, type Part } from './tensors';
import { FINISHED } from '../../store/run';
import type { Finished, Weights } from './finished';

const NUMBERS_MOST = 2 ** 27; // 512 MB

interface Numbers {
  shape: readonly number[];
  numbers: Float32Array;
}

const part = (name: string, shape: readonly number[], numbers: Float32Array): Part => {
  const data = new Blob([numbers as BlobPart]);
  return {
    file: '',
    name,
    dtype: 'F32',
    shape: [...shape],
    form: 'raw',
    data,
    deflated: false,
    begin: 0,
    fortran: false,
    size: data.size,
    crc: null,
  };
};

// The unit vectors [batches, 1, keys, keys].
function units(batches: number, keys: number): Float32Array {
  const made = new Float32Array(batches * keys * keys);
  for (let b = 0; b < batches; b++)
    for (let key = 0; key < keys; key++) made[(b * keys + key) * keys + key] = 1;
  return made;
}

// Whether no query looks at a later key, in more than one row.
export function isCausal({ shape, numbers }: Numbers): boolean {
  const [, , rows = 0, keys = 0] = shape;
  if (rows !== keys || rows < 2) return false;
  for (let from = 0; from < numbers.length; from += keys) {
    const row = (from / keys) % rows;
    for (let key = row + 1; key < keys; key++) if (numbers[from + key]) return false;
  }
  return true;
}

function check({ shape, numbers }: Numbers, set: string, layer: number): void {
  const [, heads = 1, rows = 1, keys = 1] = shape;
  for (let i = 0; i < numbers.length; i++) {
    const value = numbers[i] as number;
    if (value >= 0 && value < Number.POSITIVE_INFINITY) continue;
    const row = Math.floor(i / keys);
    throw new BadFile(
      `The weight of ${set}, layer ${layer}, head ${Math.floor(row / rows) % heads}, query ${row % rows}, ` +
        `key ${i % keys} is ${value}. A run has weights from 0 on; ` +
        (value < 0 ? 'signed numbers are shown here alone.' : 'remove what is no number first.'),
    );
  }
}

const kindOf = (name: string): string =>
  ['encoder', 'decoder', 'cross'].find((kind) => name.toLowerCase().startsWith(kind)) ?? 'self';

// The file of such a run, by lib/runs/FORMAT.md.
export async function captureOf(of: Finished): Promise<Blob> {
  const parts = new Map<string, Part>();
  const sites: Record<string, unknown>[] = [];
  const texts: { tokens: string[] }[] = [];
  let total = 0;
  const textOf = (tokens: string[] | undefined): number | undefined => {
    if (!tokens) return undefined;
    const found = texts.findIndex((text) => text.tokens.join('\0') === tokens.join('\0'));
    return found >= 0 ? found : texts.push({ tokens }) - 1;
  };
  const add = async (set: Weights, layer: number): Promise<void> => {
    const found = await set.numbers(layer);
    check(found, set.name, layer);
    const [batches = 1, , , keys = 1] = found.shape;
    total += found.numbers.length;
    if (total > NUMBERS_MOST)
      throw new BadFile('These are more than 134 million weights. Choose fewer layers or heads.');
    const unit = `keys.${batches}.${keys}`;
    if (!parts.has(unit)) parts.set(unit, part(unit, [batches, 1, keys, keys], units(batches, keys)));
    const query = `sites.${sites.length}.query`;
    parts.set(query, part(query, found.shape, found.numbers));
    const kind = kindOf(set.name);
    sites.push({
      name: of.sets.length > 1 ? `${set.name} layer ${layer}` : `layer ${layer}`,
      kind: of.sets.filter((one) => kindOf(one.name) === kind).length > 1 ? 'self' : kind,
      ...(of.sets.length > 1 && kind === 'self' && { stack: set.name }),
      layer,
      key: unit,
      scale: 1,
      normalizer: { kind: 'relu', divisor: 1 },
      is_causal: isCausal(found),
      query_text: textOf(set.labels?.query),
      key_text: textOf(set.labels?.key),
    });
  };
  for (const set of of.sets) for (let layer = 0; layer < set.layers; layer++) await add(set, layer);
  const run = { version: 2, model: FINISHED + of.what, texts, sites };
  return safetensors(parts, { run: JSON.stringify(run) });
}
