// Codes of tiles as values, positions and colours.
import { colour, palette, place, unbend, type Bend, type ColourMap } from './colours';
import type { Codes, Coding } from './types';

const DECADES = 6;

// The position of a code on the colour map, from 0 to 1.
export const placeOfCode = (coding: Coding, code: number): number =>
  coding === 'decades' ? (code - 1) / 254 : code / 255;

// The value that a position stands for, and the other way round.
export function valueAt(coding: Coding, [low, high]: readonly [number, number], t: number): number {
  if (coding === 'decades') return high * 10 ** (DECADES * (t - 1));
  return low + (high - low) * unbend(coding, t);
}

export function placeOf(coding: Coding, range: readonly [number, number], value: number): number {
  if (coding === 'decades')
    return value > 0 && range[1] > 0
      ? Math.min(Math.max(1 + Math.log10(value / range[1]) / DECADES, 0), 1)
      : 0;
  return place({ low: range[0], high: range[1], bend: coding, map: 'Blues', dark: false }, value);
}

// One colour for each code of a tile, as pixels for ImageData. Code 0 is transparent. `scale` is that
// of the legend; null: the tile's own.
export function tableOf(
  tile: Codes,
  map: ColourMap,
  dark: boolean,
  scale: { range: readonly [number, number]; coding: Coding } | null,
): Uint32Array {
  const same =
    !scale ||
    (scale.coding === tile.coding && scale.range[0] === tile.range[0] && scale.range[1] === tile.range[1]);
  const pixels = same && tile.coding !== 'decades' ? palette(map, dark) : new Uint32Array(256);
  if (!same || tile.coding === 'decades')
    for (let code = 1; code < 256; code++) {
      const t = placeOfCode(tile.coding, code);
      const [r, g, b] = colour(
        map,
        dark,
        same ? t : placeOf(scale.coding, scale.range, valueAt(tile.coding, tile.range, t)),
      );
      pixels[code] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    }
  pixels[0] = 0;
  return pixels;
}

// Joins blocks of `x` by `y` cells of a tile: their largest code, or the code of their mean. Hidden
// cells do not count. A block of hidden cells only stays hidden.
export function pooled(
  tile: Codes,
  x: number,
  y: number,
  mean: boolean,
): { codes: Uint8Array; rows: number; cols: number } {
  const rows = Math.ceil(tile.rows / y);
  const cols = Math.ceil(tile.cols / x);
  const source = tile.codes as Uint8Array;
  const codes = new Uint8Array(rows * cols);
  const sums = mean ? new Float64Array(rows * cols) : null;
  const counts = mean ? new Uint32Array(rows * cols) : null;
  const values = Float64Array.from({ length: 256 }, (_, code) =>
    valueAt(tile.coding, tile.range, placeOfCode(tile.coding, code)),
  );
  for (let r = 0; r < tile.rows; r++)
    for (let k = 0; k < tile.cols; k++) {
      const code = source[r * tile.cols + k] as number;
      if (code === 0) continue;
      const i = Math.floor(r / y) * cols + Math.floor(k / x);
      codes[i] = Math.max(codes[i] as number, code);
      if (!sums || !counts) continue;
      sums[i] = (sums[i] as number) + (values[code] as number);
      counts[i] = (counts[i] as number) + 1;
    }
  if (sums && counts)
    for (let i = 0; i < codes.length; i++) {
      if (!codes[i]) continue;
      const t = placeOf(tile.coding, tile.range, (sums[i] as number) / (counts[i] as number));
      codes[i] = Math.max(1, Math.round(tile.coding === 'decades' ? 1 + 254 * t : 255 * t));
    }
  return { codes, rows, cols };
}

const near = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));

// Round numbers for the ticks of a colour bar: both ends, and those between that stand apart by a
// share `apart` of the bar.
export function ticks(
  coding: Coding,
  range: readonly [number, number],
  apart: number,
): { value: number; at: number }[] {
  const [low, high] = range;
  const candidates: number[] = [];
  if (coding === 'decades') {
    for (let n = Math.ceil(Math.log10(high)); n > Math.log10(high) - DECADES; n--)
      candidates.push(Number(`1e${n}`));
  } else {
    const most = Math.max(Math.abs(low), Math.abs(high));
    const top = Math.floor(Math.log10(most || 1));
    for (const step of [10, 5, 2, 1, 2.5])
      for (let power = top; power > top - 4; power--)
        for (const sign of low < 0 ? [1, -1] : [1]) candidates.push((sign * step * 10 ** power) / 1);
    if (low < 0 && high > 0) candidates.unshift(0);
  }
  const first = coding === 'decades' ? high / 10 ** DECADES : low;
  const chosen = [
    { value: first, at: 0 },
    { value: high, at: 1 },
  ];
  for (const value of candidates) {
    if (value <= first || value >= high || near(value, high)) continue;
    const at = placeOf(coding, range, value);
    // The first and the last label lie inside the bar and need more room.
    if (
      chosen.every((tick) => Math.abs(tick.at - at) >= (tick.at === 0 || tick.at === 1 ? 1.6 * apart : apart))
    )
      chosen.push({ value: Number(value.toPrecision(12)), at });
  }
  return chosen.sort((a, b) => a.at - b.at);
}

export type { Bend };
