// Beside the map: a bar for each row and each column, and a small picture of the whole.
import { newCanvas } from './painter';
import { tableOf } from './scale';
import type { Codes, Palette } from './types';
import type { Extent, Port, Scale, Size } from './port';

// One number for each `step` rows or columns; NaN: none.
export interface Margin { values: Float32Array; step: number; most: number }

function sized(canvas: HTMLCanvasElement, ratio: number): { c: CanvasRenderingContext2D; width: number; height: number } {
  const width = Math.round(canvas.clientWidth * ratio);
  const height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const c = canvas.getContext('2d') as CanvasRenderingContext2D;
  c.clearRect(0, 0, width, height);
  return { c, width, height };
}

// Draws bars from the edge that touches the map. Where several share a pixel the longest is seen.
export function drawMargin(canvas: HTMLCanvasElement, margin: Margin, from: number, scale: number, vertical: boolean, ratio: number, colour: string): void {
  const { c, width, height } = sized(canvas, ratio);
  const long = vertical ? width : height;
  const end = from + (vertical ? height : width) / ratio / scale;
  c.fillStyle = colour;
  const gap = scale * margin.step >= 16 ? Math.round(ratio) : 0;
  for (let i = Math.max(Math.floor(from / margin.step), 0); i < margin.values.length && i * margin.step < end; i++) {
    const value = margin.values[i] as number;
    if (!(value > 0)) continue;
    const a = Math.round((i * margin.step - from) * scale * ratio);
    const b = Math.max(Math.round(((i + 1) * margin.step - from) * scale * ratio) - gap, a + 1);
    const size = Math.max(Math.round((long * value) / margin.most), 1);
    if (vertical) c.fillRect(0, a, size, b - a);
    else c.fillRect(a, 0, b - a, size);
  }
}

// Draws the cells of a tile on a canvas of at most this size: of the cells that share a pixel the
// largest code, so that no lone cell is lost.
function shrunk(codes: Codes, palette: Palette, width: number, height: number): HTMLCanvasElement | OffscreenCanvas {
  const w = Math.min(width, codes.cols);
  const h = Math.min(height, codes.rows);
  const most = new Uint8Array(w * h);
  if (codes.codes)
    for (let r = 0; r < codes.rows; r++)
      for (let k = 0; k < codes.cols; k++) {
        const i = Math.floor((r * h) / codes.rows) * w + Math.floor((k * w) / codes.cols);
        most[i] = Math.max(most[i] as number, codes.codes[r * codes.cols + k] as number);
      }
  const table = tableOf(codes, palette.map, palette.dark, null);
  const canvas = newCanvas(w, h);
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  const picture = context.createImageData(w, h);
  const pixels = new Uint32Array(picture.data.buffer);
  for (let i = 0; i < most.length; i++) pixels[i] = table[most[i] as number] as number;
  context.putImageData(picture, 0, 0);
  return canvas;
}

export class MiniMap {
  private codes: Codes | null = null;
  private picture: HTMLCanvasElement | OffscreenCanvas | null = null;
  private of = '';

  constructor(readonly canvas: HTMLCanvasElement) {}

  put(codes: Codes | null): void {
    this.codes = codes;
    this.picture = null;
  }

  // Tells where one presses or drags, in parts of its sides; that one only points at it; the end.
  watch(to: (x: number, y: number) => void, over: () => void, done: () => void): () => void {
    const stop = new AbortController();
    const { signal } = stop;
    const { canvas } = this;
    let held = false;
    const tell = (event: PointerEvent): void => {
      const box = canvas.getBoundingClientRect();
      to((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    };
    canvas.addEventListener('pointerdown', (event) => {
      event.stopPropagation();
      canvas.setPointerCapture(event.pointerId);
      held = true;
      tell(event);
    }, { signal });
    canvas.addEventListener('pointermove', (event) => {
      event.stopPropagation();
      if (held) tell(event);
      else over();
    }, { signal });
    for (const name of ['pointerup', 'pointercancel'] as const)
      canvas.addEventListener(name, (event) => {
        event.stopPropagation();
        if (held) done();
        held = false;
      }, { signal });
    canvas.addEventListener('dblclick', (event) => event.stopPropagation(), { signal });
    return () => stop.abort();
  }

  // Draws the topmost tile, and a frame around what is in sight.
  draw(palette: Palette, extent: Extent, size: Size, port: Port, scale: Scale, ratio: number): void {
    const { c, width, height } = sized(this.canvas, ratio);
    const of = `${palette.map} ${palette.dark} ${width} ${height}`;
    if (this.codes && (!this.picture || this.of !== of)) {
      this.picture = shrunk(this.codes, palette, width, height);
      this.of = of;
    }
    c.fillStyle = palette.hatchGround;
    c.fillRect(0, 0, width, height);
    c.imageSmoothingEnabled = false;
    if (this.picture) c.drawImage(this.picture, 0, 0, width, height);
    const x = (port.left / extent.keys) * width;
    const y = (port.top / extent.queries) * height;
    const least = 6 * ratio;
    const w = Math.max(Math.min(size.width / scale.x / extent.keys, 1) * width, least);
    const h = Math.max(Math.min(size.height / scale.y / extent.queries, 1) * height, least);
    for (const [colour, line] of [['#000', 3], ['#fff', 1]] as const) {
      c.strokeStyle = colour;
      c.lineWidth = line * ratio;
      c.strokeRect(Math.min(x, width - w) + 1.5 * ratio, Math.min(y, height - h) + 1.5 * ratio, w - 3 * ratio, h - 3 * ratio);
    }
  }
}
