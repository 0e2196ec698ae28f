// What a map of a matrix is made of. Nothing here knows the store or the service: whoever shows a
// map gives it a source of tiles, colours, and functions to call.
import type { Bend, ColourMap } from './colours';

export const TILE = 256; // cells a side
export const MOST_LIVE = 40; // tiles that are kept for one map

// A tile: cell (r, c) of level n covers 2^n x 2^n weights.
export interface At {
  level: number;
  y: number;
  x: number;
}
export const nameOfTile = ({ level, y, x }: At): string => `${level}/${y}/${x}`;

// How codes of tiles stand for values: as `bend` has it, or the last six powers of ten.
export type Coding = Bend | 'decades';

// The cells of a tile. Code 0 is hidden; `codes` null: all of them are.
export interface Codes {
  rows: number;
  cols: number;
  codes: Uint8Array | null;
  range: [number, number];
  coding: Coding;
}

// Exact values of the weights of some rows and columns, row by row.
export interface Values {
  q: number;
  k: number;
  rows: number;
  cols: number;
  values: Float32Array;
}

export interface Source {
  name: string; // tiles of equal names are equal
  queries: number;
  keys: number;
  levels: number;
  mean: boolean; // the cells are means of weights, else the largest of them
  grows?: boolean; // more rows will come
  tile(at: At, stop: AbortSignal): Promise<Codes>;
  values?(q: number, k: number, rows: number, cols: number): Promise<Values>;
}

// How values become colours. `range` null: that of each tile, which a source makes a common one.
export interface Palette {
  map: ColourMap;
  dark: boolean;
  ground: string; // between cells
  hatch: string;
  hatchGround: string;
  waiting: string; // where nothing is known yet
  forced: boolean; // the system has colours of its own: hatches are drawn bolder
}

// What a canvas shows: positions in weights, sizes in device pixels.
export interface Frame {
  width: number; // of the canvas
  height: number;
  left: number;
  top: number;
  x: number; // device pixels a weight
  y: number;
  queries: number;
  keys: number;
  level: number;
  shareX: number; // cells that share a pixel across,
  shareY: number; // and down
  mean: boolean; // they are shown by their mean, else by their largest
  ratio: number; // device pixels a CSS pixel
  font: string; // of values in cells, '' where they do not fit
  decimals: number;
}

export interface Labels {
  name(index: number): string;
  hasNames: boolean;
}

// A row that is kept in sight, and how it is told from others.
export interface Pin {
  q: number;
  letter: string;
  colour: string;
}

export interface Spot {
  q: number;
  k: number;
}
