// Weights that are here as tiles: the pyramid that the service would answer.
import { placeOf } from './scale';
import { TILE, type Codes, type Coding, type Source } from './types';

export interface Cells {
  queries: number;
  keys: number;
  weights: Float32Array; // row by row
  hides: Uint8Array; // the same: 1 where the mask hides the key
}

export function hiddenCells(
  queries: number,
  keys: number,
  hidden: readonly (readonly [number, number, number])[], // [row, from, to)
): Uint8Array {
  const cells = new Uint8Array(queries * keys);
  for (const [row, from, to] of hidden) cells.fill(1, row * keys + from, row * keys + to);
  return cells;
}

// Colours begin at 0, so that a share of a whole has the same colour in every picture.
export function rangeFrom0({ weights, hides }: Cells): [number, number] {
  let low = 0;
  let high = 0;
  weights.forEach((weight, i) => {
    if (hides[i]) return;
    low = Math.min(low, weight);
    high = Math.max(high, weight);
  });
  return low < high ? [low, high] : [0, 1];
}

interface Look {
  coding: Coding;
  range?: [number, number] | null;
  mean?: boolean; // cells of several weights are their mean, else the largest of them
}

// Tiles of 2^n weights a side, from single weights to one tile for all.
export const levelsOf = (rows: number, cols: number): number =>
  Math.max(1, Math.ceil(Math.log2(Math.max(rows, cols, 1) / TILE)) + 1);

export function localSource(name: string, data: Cells, { coding, range: given, mean = false }: Look): Source {
  const { queries: rows, keys: cols, weights, hides } = data;
  const range = given ?? rangeFrom0(data);
  const code = (weight: number): number => {
    const t = placeOf(coding, range, weight);
    return coding === 'decades' ? 1 + Math.round(254 * t) : Math.max(1, Math.round(255 * t));
  };
  // The code of the weights [q, toQ) x [k, toK); 0: all of them are hidden.
  const codeOf = (q: number, toQ: number, k: number, toK: number): number => {
    let [most, sum, count] = [-Infinity, 0, 0];
    for (let i = q; i < Math.min(rows, toQ); i++)
      for (let j = k; j < Math.min(cols, toK); j++) {
        if (hides[i * cols + j]) continue;
        const weight = weights[i * cols + j] as number;
        most = Math.max(most, weight);
        sum += weight;
        count++;
      }
    return count && code(mean ? sum / count : most);
  };
  return {
    name: `${name} ${coding} ${range} ${mean}`,
    queries: rows,
    keys: cols,
    levels: levelsOf(rows, cols),
    mean,
    tile({ level, y, x }): Promise<Codes> {
      const step = 2 ** level;
      const tall = Math.min(TILE, Math.ceil(rows / step) - y * TILE);
      const wide = Math.min(TILE, Math.ceil(cols / step) - x * TILE);
      const codes = Uint8Array.from({ length: tall * wide }, (_, i) => {
        const q = (y * TILE + Math.floor(i / wide)) * step;
        const k = (x * TILE + (i % wide)) * step;
        return codeOf(q, q + step, k, k + step);
      });
      return Promise.resolve({ rows: tall, cols: wide, codes, range, coding });
    },
    values: () => Promise.resolve({ q: 0, k: 0, rows, cols, values: weights }),
  };
}
