// Paints tiles on a canvas, in a worker or on the main thread: any 2D context will do.
import { ink, type Rgb } from './colours';
import { pooled, tableOf } from './scale';
import type { Order } from './surface';
import { nameOfTile, TILE, type At, type Codes, type Frame, type Palette, type Values } from './types';

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;
type Canvas = HTMLCanvasElement | OffscreenCanvas;

const COLOURED_A_FRAME = 4;
const BIG = 10; // device pixels from which cells are filled one by one, with exact edges
const GAP = 16; // CSS pixels from which a line of the ground parts neighbours

interface Painted {
  codes: Codes;
  hides: boolean; // some of its cells are hidden
  canvas: Canvas | null; // a pixel a cell, or a pixel for each `shareX` x `shareY` cells
  shareX: number;
  shareY: number;
  table: Uint32Array | null; // null: the colours have changed since
}

export function newCanvas(width: number, height: number): Canvas {
  if (typeof OffscreenCanvas === 'function') return new OffscreenCanvas(width, height);
  return Object.assign(document.createElement('canvas'), { width, height });
}

const contextOf = (canvas: Canvas, alpha: boolean): Context => {
  const context = canvas.getContext('2d', { alpha }) as Context | null;
  if (!context) throw new Error('this browser has no 2D canvas');
  return context;
};

// Diagonal lines, a device pixel wide or two, on their ground.
function hatchOf(context: Context, palette: Palette, ratio: number): CanvasPattern {
  const side = Math.max(4, Math.round(6 * ratio));
  const canvas = newCanvas(side, side);
  const c = contextOf(canvas, false);
  c.fillStyle = palette.hatchGround;
  c.fillRect(0, 0, side, side);
  c.fillStyle = palette.hatch;
  const wide = Math.max(1, Math.round(palette.forced ? 1.5 * ratio : ratio));
  for (let i = 0; i < side; i++)
    for (let w = 0; w < wide; w++) c.fillRect((i + w) % side, side - 1 - i, 1, 1);
  return context.createPattern(canvas, 'repeat') as CanvasPattern;
}

const SHORT = 2; // decimals for which a power of ten has no room

// A value as short as possible. A value that is not 0 but rounds to 0 is not written as 0.
const inCell = (value: number, decimals: number): string => {
  const text = value.toFixed(decimals);
  return value === 0
    ? '0'
    : Number(text) !== 0
      ? text
      : decimals > SHORT
        ? value.toExponential(1).replace('e-', 'e−')
        : '~0';
};

export class Painter {
  private context: Context;
  private tiles = new Map<string, Painted>();
  private hatch: CanvasPattern | null = null;
  private hatchRatio = 0;
  private values: Values | null = null;
  private palette: Palette | null = null;

  // `opaque`: the ground has no transparency, so that the browser need not blend the canvas.
  constructor(
    private canvas: Canvas,
    private opaque: boolean,
  ) {
    this.context = contextOf(canvas, !opaque);
  }

  // Does what an order says. For an order to draw, returns whether there is more to draw in the
  // next frame; for other orders null.
  obey(order: Exclude<Order, { do: 'begin' }>): boolean | null {
    if (order.do === 'draw') return this.draw(order.frame);
    if (order.do === 'look') this.look(order.palette);
    else if (order.do === 'clear') this.clear();
    else if (order.do === 'put') this.put(order.at, order.codes);
    else if (order.do === 'drop') this.tiles.delete(nameOfTile(order.at));
    else this.values = order.values;
    return null;
  }

  private look(palette: Palette): void {
    const before = this.palette;
    this.palette = palette;
    this.hatch = null;
    if (before?.map !== palette.map || before?.dark !== palette.dark)
      for (const tile of this.tiles.values()) tile.table = null;
  }

  private clear(): void {
    this.tiles.clear();
    this.values = null;
  }

  private put(at: At, codes: Codes): void {
    this.tiles.set(nameOfTile(at), {
      codes,
      hides: codes.codes === null || codes.codes.includes(0),
      canvas: null,
      shareX: 1,
      shareY: 1,
      table: null,
    });
  }

  private draw(frame: Frame): boolean {
    const { context: c, palette } = this;
    if (!palette) return false;
    const { width, height } = frame;
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
    if (!this.hatch || this.hatchRatio !== frame.ratio) {
      this.hatch = hatchOf(c, palette, frame.ratio);
      this.hatchRatio = frame.ratio;
    }
    // The hatch moves with the matrix.
    this.hatch.setTransform(
      new DOMMatrix([1, 0, 0, 1, -Math.round(frame.left * frame.x), -Math.round(frame.top * frame.y)]),
    );
    this.blank(palette, frame);
    c.imageSmoothingEnabled = false;
    let budget = COLOURED_A_FRAME;
    let more = false;
    const side = TILE * 2 ** frame.level;
    const y1 = Math.min(Math.ceil((frame.top + height / frame.y) / side), Math.ceil(frame.queries / side));
    const x1 = Math.min(Math.ceil((frame.left + width / frame.x) / side), Math.ceil(frame.keys / side));
    for (let y = Math.floor(frame.top / side); y < y1; y++)
      for (let x = Math.floor(frame.left / side); x < x1; x++) {
        const found = this.nearest({ level: frame.level, y, x });
        const box = this.boxOf(frame, side, y, x);
        if (!found) {
          c.fillStyle = palette.waiting;
          c.fillRect(box.x, box.y, box.w, box.h);
          continue;
        }
        if (
          found.tile.codes.codes &&
          (!found.tile.table || found.tile.shareX !== frame.shareX || found.tile.shareY !== frame.shareY)
        ) {
          if (budget > 0) {
            budget--;
            this.colour(found.tile, palette, frame);
          } else {
            more = true;
            if (!found.tile.canvas) {
              c.fillStyle = palette.waiting;
              c.fillRect(box.x, box.y, box.w, box.h);
              continue;
            }
          }
        }
        this.paint(frame, found.tile, found.at, { level: frame.level, y, x });
      }
    return more;
  }

  // Clears what the matrix does not cover.
  private blank(palette: Palette, frame: Frame): void {
    const { context: c } = this;
    const { width, height } = this.canvas;
    const covers =
      (frame.keys - frame.left) * frame.x >= width && (frame.queries - frame.top) * frame.y >= height;
    if (covers) return;
    c.fillStyle = palette.ground;
    if (this.opaque) c.fillRect(0, 0, width, height);
    else c.clearRect(0, 0, width, height);
  }

  // The tile itself, or what covers it coarsely.
  private nearest(at: At): { tile: Painted; at: At } | null {
    for (let { level, y, x } = at; level < 32; level++, y >>= 1, x >>= 1) {
      const tile = this.tiles.get(nameOfTile({ level, y, x }));
      if (tile) return { tile, at: { level, y, x } };
    }
    return null;
  }

  private boxOf(
    frame: Frame,
    side: number,
    y: number,
    x: number,
  ): { x: number; y: number; w: number; h: number } {
    const edge = (at: number, from: number, by: number): number => Math.round((at - from) * by);
    const left = edge(x * side, frame.left, frame.x);
    const top = edge(y * side, frame.top, frame.y);
    return {
      x: left,
      y: top,
      w: edge(Math.min((x + 1) * side, frame.keys), frame.left, frame.x) - left,
      h: edge(Math.min((y + 1) * side, frame.queries), frame.top, frame.y) - top,
    };
  }

  private colour(tile: Painted, palette: Palette, frame: Frame): void {
    if (!tile.codes.codes) return;
    const alone = frame.shareX === 1 && frame.shareY === 1;
    const { codes, rows, cols } = alone
      ? { ...tile.codes, codes: tile.codes.codes }
      : pooled(tile.codes, frame.shareX, frame.shareY, frame.mean);
    const table = tableOf(tile.codes, palette.map, palette.dark, null);
    if (tile.canvas?.width !== cols || tile.canvas.height !== rows) tile.canvas = newCanvas(cols, rows);
    const context = contextOf(tile.canvas, true);
    const picture = context.createImageData(cols, rows);
    const pixels = new Uint32Array(picture.data.buffer);
    for (let i = 0; i < codes.length; i++) pixels[i] = table[codes[i] as number] as number;
    context.putImageData(picture, 0, 0);
    tile.table = table;
    tile.shareX = frame.shareX;
    tile.shareY = frame.shareY;
  }

  // Paints the part of the tile `tile` that lies in the place of another tile, `place`: the same
  // tile or one that it covers at a finer level.
  private paint(frame: Frame, tile: Painted, at: At, place: At): void {
    const { context: c } = this;
    const { width, height } = this.canvas;
    // Weights a pixel of the tile's canvas: those of a cell, or of the cells that share it.
    const across = 2 ** at.level * tile.shareX;
    const down = 2 ** at.level * tile.shareY;
    const inside = 2 ** place.level * TILE;
    // Pixels [c0, c1) x [r0, r1) of the canvas: those in its place and in sight.
    const span = (
      from: number,
      to: number,
      origin: number,
      unit: number,
      count: number,
    ): [number, number] => [
      Math.max(Math.floor((from - origin) / unit), 0),
      Math.min(Math.ceil((to - origin) / unit), count),
    ];
    const top = at.y * TILE * 2 ** at.level;
    const left = at.x * TILE * 2 ** at.level;
    const [r0, r1] = span(
      Math.max(place.y * inside, frame.top),
      Math.min((place.y + 1) * inside, frame.top + height / frame.y),
      top,
      down,
      Math.ceil(tile.codes.rows / tile.shareY),
    );
    const [c0, c1] = span(
      Math.max(place.x * inside, frame.left),
      Math.min((place.x + 1) * inside, frame.left + width / frame.x),
      left,
      across,
      Math.ceil(tile.codes.cols / tile.shareX),
    );
    if (r1 <= r0 || c1 <= c0) return;
    const edgeX = (pixel: number): number =>
      Math.round((Math.min(left + pixel * across, frame.keys) - frame.left) * frame.x);
    const edgeY = (pixel: number): number =>
      Math.round((Math.min(top + pixel * down, frame.queries) - frame.top) * frame.y);
    const x0 = edgeX(c0);
    const y0 = edgeY(r0);
    if (tile.hides) {
      c.fillStyle = this.hatch as CanvasPattern;
      c.fillRect(x0, y0, edgeX(c1) - x0, edgeY(r1) - y0);
    }
    if (!tile.canvas || !tile.codes.codes) return;
    if (Math.min(frame.x * across, frame.y * down) < BIG || !tile.table || across !== down) {
      c.drawImage(tile.canvas, c0, r0, c1 - c0, r1 - r0, x0, y0, edgeX(c1) - x0, edgeY(r1) - y0);
      return;
    }
    this.cells(frame, tile, at, { r0, r1, c0, c1 }, edgeX, edgeY);
  }

  // Fills cells one by one, and writes values into those that have room for them.
  private cells(
    frame: Frame,
    tile: Painted,
    at: At,
    part: { r0: number; r1: number; c0: number; c1: number },
    edgeX: (cell: number) => number,
    edgeY: (cell: number) => number,
  ): void {
    const { context: c, values } = this;
    const codes = tile.codes.codes as Uint8Array;
    const table = tile.table as Uint32Array;
    const unit = 2 ** at.level;
    const gap = Math.min(frame.x, frame.y) * unit >= GAP * frame.ratio ? Math.round(frame.ratio) : 0;
    const ground = this.palette?.ground ?? '';
    const styles: string[] = [];
    const inks: string[] = [];
    const writes = frame.font !== '' && values !== null && at.level === 0;
    if (writes) {
      c.font = frame.font;
      c.textAlign = 'center';
      c.textBaseline = 'middle';
    }
    for (let r = part.r0; r < part.r1; r++)
      for (let k = part.c0; k < part.c1; k++) {
        const code = codes[r * tile.codes.cols + k] as number;
        if (code === 0) continue;
        const x = edgeX(k);
        const y = edgeY(r);
        const w = edgeX(k + 1) - x - gap;
        const h = edgeY(r + 1) - y - gap;
        if (!styles[code]) {
          const pixel = table[code] as number;
          const rgb: Rgb = [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
          styles[code] = `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]})`;
          inks[code] = ink(rgb);
        }
        if (gap) {
          c.fillStyle = ground;
          c.fillRect(x, y, w + gap, h + gap);
        }
        c.fillStyle = styles[code] as string;
        c.fillRect(x, y, w, h);
        if (!writes) continue;
        const row = at.y * TILE + r - values.q;
        const col = at.x * TILE + k - values.k;
        if (row < 0 || col < 0 || row >= values.rows || col >= values.cols) continue;
        c.fillStyle = inks[code] as string;
        const value = values.values[row * values.cols + col] as number;
        c.fillText(inCell(value, frame.decimals), x + w / 2, y + h / 2 + frame.ratio / 2);
      }
  }
}
