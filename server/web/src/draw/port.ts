// What part of a matrix is in sight. Positions count weights; zoom 1 shows all of them.
import { TILE, type At } from './types';

export interface Size {
  width: number;
  height: number;
} // CSS pixels
export interface Extent {
  queries: number;
  keys: number;
  square?: boolean;
} // `square`: cells always are
export interface Port {
  top: number;
  left: number;
  zoom: number;
}
export interface Scale {
  x: number;
  y: number;
} // CSS pixels a weight

const SMALL = 64; // queries and keys up to which cells may be wider than high
const WIDEST = 1.6;
const CELL_MOST = 112; // CSS pixels of a cell that fits
const CELL_ZOOMED = 96; // CSS pixels up to which one can zoom
const THIN = 0.25; // share of the view below which the short side is stretched to half of it
const STRETCHED_MOST = 28; // CSS pixels of a cell that is stretched so
const VISIBLE_MOST = 24;

const clamp = (x: number, low: number, high: number): number =>
  Math.min(Math.max(x, low), Math.max(low, high));

// Cells are squares, with two exceptions. Small matrices fill the view. Very long matrices are
// stretched, because their short side could not be seen. The cells of a matrix that grows are
// always squares, so that new rows change no other cell.
export function fit({ queries, keys, square }: Extent, { width, height }: Size): Scale {
  const x = width / keys;
  const y = height / queries;
  const side = Math.min(x, y, CELL_MOST);
  if (square) return { x: side, y: side };
  if (Math.max(queries, keys) <= SMALL)
    return { x: Math.min(Math.max(side, Math.min(x, side * WIDEST)), CELL_MOST), y: side };
  const stretch = (count: number, length: number): number =>
    side * count >= THIN * length ? side : Math.max(side, Math.min(STRETCHED_MOST, length / 2 / count));
  return { x: stretch(keys, width), y: stretch(queries, height) };
}

export function scaleOf(extent: Extent, size: Size, zoom: number): Scale {
  const one = fit(extent, size);
  return { x: one.x * zoom, y: one.y * zoom };
}

export const zoomMost = (extent: Extent, size: Size): number => {
  const one = fit(extent, size);
  return Math.max(1, CELL_ZOOMED / Math.min(one.x, one.y));
};

// Moves and zooms a view so that it shows as little as possible beside the matrix.
export function bound(port: Port, extent: Extent, size: Size): Port {
  if (!size.width || !size.height) return port; // its bounds are not known yet
  const zoom = clamp(port.zoom, 1, zoomMost(extent, size));
  const s = scaleOf(extent, size, zoom);
  return {
    zoom,
    top: clamp(port.top, 0, extent.queries - size.height / s.y),
    left: clamp(port.left, 0, extent.keys - size.width / s.x),
  };
}

// Zooms so that what is at the point (x, y) stays there.
export function zoomAt(port: Port, extent: Extent, size: Size, zoom: number, x: number, y: number): Port {
  const before = scaleOf(extent, size, port.zoom);
  const next = clamp(zoom, 1, zoomMost(extent, size));
  const after = scaleOf(extent, size, next);
  return bound(
    { zoom: next, top: port.top + y / before.y - y / after.y, left: port.left + x / before.x - x / after.x },
    extent,
    size,
  );
}

// Zooms so that a box of weights fills the view.
export function zoomTo(
  box: { top: number; left: number; rows: number; cols: number },
  extent: Extent,
  size: Size,
): Port {
  const one = fit(extent, size);
  const zoom = clamp(
    Math.min(size.width / (box.cols * one.x), size.height / (box.rows * one.y)),
    1,
    zoomMost(extent, size),
  );
  const s = scaleOf(extent, size, zoom);
  return bound(
    {
      zoom,
      top: box.top - (size.height / s.y - box.rows) / 2,
      left: box.left - (size.width / s.x - box.cols) / 2,
    },
    extent,
    size,
  );
}

// Moves the view as little as brings a cell into sight.
export function reveal(port: Port, extent: Extent, size: Size, q: number, k: number): Port {
  const s = scaleOf(extent, size, port.zoom);
  const move = (from: number, length: number, at: number): number => {
    const edge = Math.min(1, length / 4);
    return at < from + edge - 1 ? at + 1 - edge : at + 1 > from + length ? at + 1 - length : from;
  };
  return bound(
    {
      zoom: port.zoom,
      top: q < 0 ? port.top : move(Math.min(port.top, q), size.height / s.y, q),
      left: k < 0 ? port.left : move(Math.min(port.left, k), size.width / s.x, k),
    },
    extent,
    size,
  );
}

export interface Window {
  level: number;
  y0: number;
  y1: number;
  x0: number;
  x1: number;
} // tiles [y0, y1) x [x0, x1)

export function tilesInSight(port: Port, extent: Extent, size: Size, level: number): Window {
  const s = scaleOf(extent, size, port.zoom);
  const side = TILE * 2 ** level;
  const end = (to: number, all: number): number => Math.min(Math.ceil(to / side), Math.ceil(all / side));
  return {
    level,
    y0: Math.floor(port.top / side),
    y1: end(port.top + size.height / s.y, extent.queries),
    x0: Math.floor(port.left / side),
    x1: end(port.left + size.width / s.x, extent.keys),
  };
}

const area = (w: Window): number => (w.y1 - w.y0) * (w.x1 - w.x0);

// The finest level whose cells have at least one CSS pixel and of which not too many tiles are in
// sight.
export function levelOf(port: Port, extent: Extent, size: Size, levels: number): number {
  const s = scaleOf(extent, size, port.zoom);
  let level = clamp(Math.ceil(-Math.log2(Math.max(s.x, s.y)) - 1e-9), 0, levels - 1);
  while (level < levels - 1 && area(tilesInSight(port, extent, size, level)) > VISIBLE_MOST) level++;
  return level;
}

export function listOf(w: Window): At[] {
  const list: At[] = [];
  for (let y = w.y0; y < w.y1; y++) for (let x = w.x0; x < w.x1; x++) list.push({ level: w.level, y, x });
  return list;
}

// The tiles around those in sight.
export function ringOf(w: Window, extent: Extent): At[] {
  const side = TILE * 2 ** w.level;
  const rows = Math.ceil(extent.queries / side);
  const cols = Math.ceil(extent.keys / side);
  const outer: Window = {
    level: w.level,
    y0: Math.max(w.y0 - 1, 0),
    y1: Math.min(w.y1 + 1, rows),
    x0: Math.max(w.x0 - 1, 0),
    x1: Math.min(w.x1 + 1, cols),
  };
  return listOf(outer).filter(({ y, x }) => y < w.y0 || y >= w.y1 || x < w.x0 || x >= w.x1);
}

// The tiles above those of the list, level by level.
export function ancestorsOf(list: readonly At[], levels: number): At[] {
  const seen = new Map<string, At>();
  let below = list;
  while (below.length && (below[0] as At).level < levels - 1) {
    const above = new Map<string, At>();
    for (const { level, y, x } of below) {
      const at = { level: level + 1, y: y >> 1, x: x >> 1 };
      above.set(`${at.y}/${at.x}`, at);
    }
    below = [...above.values()];
    for (const at of below) seen.set(`${at.level}/${at.y}/${at.x}`, at);
  }
  return [...seen.values()];
}

// How many cells of a level share a pixel, across and down, where cells are longer than wide. The
// next coarser level would join rows that can still be told apart.
export function shareOf(port: Port, extent: Extent, size: Size, level: number): Scale {
  const s = scaleOf(extent, size, port.zoom);
  const share = (by: number): number => 2 ** clamp(Math.ceil(-Math.log2(by * 2 ** level) - 1e-9), 0, 8);
  return { x: share(s.x), y: share(s.y) };
}
