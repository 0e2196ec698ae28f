// The tiles of the head that is shown, as the map wants them.
import { signal } from '@preact/signals';
import { block, tile, type Head, type Site, whole, WHOLE_MOST } from '../../api/runs';
import { levelsOf, localSource, rangeFrom0, type Cells } from '../../draw/local';
import type { Codes, Coding, Source, Values } from '../../draw/types';
import { cellsOf, type Axes } from '../../store/cells';
import type { Plane, Transform } from '../../store/state';

export const codingOf = (transform: Transform): Coding =>
  transform === 'log' ? 'decades' : transform === 'row' ? 'linear' : transform;

// The range of the colours, once a tile has told it. `of` is the name of its source.
export const rangeOf = signal<{ of: string; range: [number, number] }>({ of: '', range: [0, 1] });

const pair = (text: string | null): [number, number] | null => {
  const [a, b] = (text ?? '').split(',').map(Number);
  return Number.isFinite(a) && Number.isFinite(b) ? [a as number, b as number] : null;
};

// Equal texts stand for equal tiles.
export interface Shown {
  head: Head;
  plane: Plane;
  transform: Transform;
  range: [number, number] | null;
}

// Weights, each divided by the largest of its row.
function byRow(cells: Cells): Cells {
  const { keys } = cells;
  const weights = cells.weights.slice();
  for (let at = 0; at < weights.length; at += keys) {
    const row = weights.subarray(at, at + keys);
    const most = row.reduce((a, b) => Math.max(a, b), 0);
    if (most > 0)
      row.forEach((weight, k) => {
        row[k] = weight / most;
      });
  }
  return { ...cells, weights };
}

// Entropies of rows and weights that keys receive, as `margins` has them of tokens.
export function marginsOfCells({ queries, keys, weights }: Cells): {
  entropy: Float32Array;
  received: Float32Array;
} {
  const entropy = new Float32Array(queries);
  const received = new Float32Array(keys);
  weights.forEach((weight, i) => {
    const [q, k] = [Math.floor(i / keys), i % keys];
    if (weight > 0) entropy[q] = (entropy[q] as number) - weight * Math.log(weight);
    received[k] = (received[k] as number) + weight;
  });
  return { entropy, received };
}

// The tiles of words, which the page makes of all weights of a head.
export function sourceOfWords({ head, plane, transform, range }: Shown, words: Axes): Source {
  const cells = cellsOf(head, words);
  cells.catch(() => undefined); // each tile tells it
  const [rows, cols] = [words.queries.names.length, words.keys.names.length];
  const look = { coding: codingOf(transform), mean: plane === 'mean' };
  const name =
    `words ${rows} ${cols} ${transform} ${plane} ${range} ` +
    `${head.run} ${head.site} ${head.batch} ${head.head} ${head.size?.queries}`;
  const source = cells.then((found) => {
    const given = transform === 'row' ? ([0, 1] as [number, number]) : (range ?? rangeFrom0(found));
    if (rangeOf.peek().of !== name) rangeOf.value = { of: name, range: given };
    return localSource(name, transform === 'row' ? byRow(found) : found, { ...look, range: given });
  });
  source.catch(() => undefined);
  return {
    name,
    queries: rows,
    keys: cols,
    levels: levelsOf(rows, cols),
    mean: look.mean,
    grows: head.size !== undefined,
    tile: async (at, stop) => (await source).tile(at, stop),
    values: async () => ({ q: 0, k: 0, rows, cols, values: (await cells).weights }),
  };
}

export function sourceOf({ head, plane, transform, range }: Shown, site: Site): Source {
  const coding = codingOf(transform);
  const byRow = transform === 'row';
  const scale: Record<string, string> = byRow
    ? { normalize: 'row_max', vmin: '0', vmax: '1' }
    : range
      ? { vmin: String(range[0]), vmax: String(range[1]) }
      : { range_of: 'head_from_0' };
  const name = [
    head.run,
    head.site,
    head.batch,
    head.head,
    plane,
    coding,
    byRow,
    scale.vmin,
    scale.vmax,
    head.size?.queries,
    head.size?.keys,
  ].join(' ');
  return {
    name,
    queries: site.num_queries,
    keys: site.num_keys,
    levels: site.tiles.levels.length,
    mean: plane === 'mean',
    grows: head.size !== undefined,
    async tile({ level, y, x }, stop): Promise<Codes> {
      const reply = await tile(
        head,
        { level, y, x, pool: plane, encoding: 'u8', transform: coding, ...scale },
        stop,
      );
      const found = pair(reply.headers.get(plane === 'max' ? 'X-Tile-Max-Range' : 'X-Tile-Mean-Range'));
      const shape = pair(reply.headers.get('X-Tile-Shape')) ?? [0, 0];
      if (found && rangeOf.peek().of !== name) rangeOf.value = { of: name, range: found };
      const codes = reply.status === 204 ? null : new Uint8Array(await reply.arrayBuffer());
      return { rows: shape[0], cols: shape[1], codes, range: found ?? [0, 1], coding };
    },
    async values(q, k, rows, cols): Promise<Values> {
      if (site.num_queries * site.num_keys <= WHOLE_MOST) {
        const { weights } = await whole(head);
        return { q: 0, k: 0, rows: site.num_queries, cols: site.num_keys, values: weights };
      }
      return { q, k, rows, cols, values: await block(head, q, rows, k, cols) };
    },
  };
}
