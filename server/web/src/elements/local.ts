// Weights that a page gives, as tiles: the pyramid that the service would answer.
import { bend } from '../draw/colours';
import { TILE, type Codes, type Source } from '../draw/types';
import type { Bend } from '../draw/colours';
import type { Loaded } from './source';

function hiddenCells({ queries, keys, hidden }: Loaded): Uint8Array {
  const cols = keys.length;
  const cells = new Uint8Array(queries.length * cols);
  for (const [row, from, to] of hidden) cells.fill(1, row * cols + from, row * cols + to);
  return cells;
}

export function localSource(name: string, data: Loaded, coding: Bend): Source {
  const rows = data.queries.length;
  const cols = data.keys.length;
  const hides = hiddenCells(data);
  // Colours begin at 0, so that a share of a whole has the same colour in every picture.
  let low = 0;
  let high = 0;
  data.weights.forEach((weight, i) => {
    if (hides[i]) return;
    low = Math.min(low, weight);
    high = Math.max(high, weight);
  });
  const range: [number, number] = low < high ? [low, high] : [0, 1];
  const levels = Math.max(1, Math.ceil(Math.log2(Math.max(rows, cols, 1) / TILE)) + 1);
  const code = (weight: number): number =>
    Math.max(1, Math.round(255 * bend(coding, (weight - range[0]) / (range[1] - range[0]))));
  return {
    name: `${name} ${coding}`,
    queries: rows,
    keys: cols,
    levels,
    mean: false,
    tile({ level, y, x }): Promise<Codes> {
      const step = 2 ** level;
      const tall = Math.min(TILE, Math.ceil(rows / step) - y * TILE);
      const wide = Math.min(TILE, Math.ceil(cols / step) - x * TILE);
      const codes = new Uint8Array(tall * wide);
      for (let r = 0; r < tall; r++)
        for (let c = 0; c < wide; c++) {
          let most = -Infinity;
          for (let q = (y * TILE + r) * step; q < Math.min(rows, (y * TILE + r + 1) * step); q++)
            for (let k = (x * TILE + c) * step; k < Math.min(cols, (x * TILE + c + 1) * step); k++)
              if (!hides[q * cols + k]) most = Math.max(most, data.weights[q * cols + k] as number);
          codes[r * wide + c] = most === -Infinity ? 0 : code(most);
        }
      return Promise.resolve({ rows: tall, cols: wide, codes, range, coding });
    },
    values: () => Promise.resolve({ q: 0, k: 0, rows, cols, values: data.weights }),
  };
}

export const isHidden = (data: Loaded, q: number, k: number): boolean =>
  data.hidden.some(([row, from, to]) => row === q && k >= from && k < to);
