// Beside the map: a bar for each row and each column, and a small picture of the whole.
import { newCanvas } from './painter';
import { tableOf } from './scale';
import type { Codes, Palette } from './types';
import type { Extent, Port, Scale, Size } from './port';

// One number for each `step` rows or columns; NaN: none.
export interface Margin {
  values: Float32Array;
  step: number;
  most: number;
}

// CSS pixels of the bars beside and below a map, as in map.css.
const SIDE = 44;
const FOOT = 38;
const LEAST = 6; // CSS pixels of the frame in the small picture

// A cleared canvas of this size in CSS pixels. Whoever draws knows the size: to ask the element for
// it would make the browser lay out the page in every frame.
function sized(
  canvas: HTMLCanvasElement,
  size: Size,
  ratio: number,
): { c: CanvasRenderingContext2D; width: number; height: number } {
  const width = Math.round(size.width * ratio);
  const height = Math.round(size.height * ratio);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const c = canvas.getContext('2d') as CanvasRenderingContext2D;
  c.clearRect(0, 0, width, height);
  return { c, width, height };
}

// Draws bars from the edge that touches the map, at most `length` CSS pixels along this edge. Where
// several bars share a pixel, the longest one is drawn.
export function drawMargin(
  canvas: HTMLCanvasElement,
  margin: Margin,
  from: number,
  scale: number,
  length: number,
  vertical: boolean,
  ratio: number,
  colour: string,
): void {
  const { c, width, height } = sized(
    canvas,
    vertical ? { width: SIDE, height: length } : { width: length, height: FOOT },
    ratio,
  );
  const long = vertical ? width : height;
  const end = from + (vertical ? height : width) / ratio / scale;
  c.fillStyle = colour;
  const gap = scale * margin.step >= 16 ? Math.round(ratio) : 0;
  for (
    let i = Math.max(Math.floor(from / margin.step), 0);
    i < margin.values.length && i * margin.step < end;
    i++
  ) {
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
function shrunk(
  codes: Codes,
  palette: Palette,
  width: number,
  height: number,
): HTMLCanvasElement | OffscreenCanvas {
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
  private of = ''; // what the canvas shows
  private canvas: HTMLCanvasElement;
  private frame: HTMLElement;

  constructor(readonly element: HTMLElement) {
    this.canvas = document.createElement('canvas');
    this.frame = document.createElement('div');
    element.append(this.canvas, this.frame);
  }

  put(codes: Codes | null): void {
    this.codes = codes;
    this.of = '';
  }

  // Calls `to` with the position of a press or drag, in parts of the sides; `over` when the pointer
  // only moves over the picture; `done` at the end.
  watch(to: (x: number, y: number) => void, over: () => void, done: () => void): () => void {
    const stop = new AbortController();
    const { signal } = stop;
    const { element } = this;
    let held = false;
    const tell = (event: PointerEvent): void => {
      const box = element.getBoundingClientRect();
      to((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    };
    element.addEventListener(
      'pointerdown',
      (event) => {
        event.stopPropagation();
        element.setPointerCapture(event.pointerId);
        held = true;
        tell(event);
      },
      { signal },
    );
    element.addEventListener(
      'pointermove',
      (event) => {
        event.stopPropagation();
        if (held) tell(event);
        else over();
      },
      { signal },
    );
    for (const name of ['pointerup', 'pointercancel'] as const)
      element.addEventListener(
        name,
        (event) => {
          event.stopPropagation();
          if (held) done();
          held = false;
        },
        { signal },
      );
    element.addEventListener('dblclick', (event) => event.stopPropagation(), { signal });
    return () => stop.abort();
  }

  // Shows the topmost tile, and a frame around what is in sight. Only the frame moves with the view.
  draw(palette: Palette, extent: Extent, size: Size, port: Port, scale: Scale, ratio: number): void {
    const most = Math.min(132, size.width * 0.3, size.height * 0.3);
    const by = most / Math.max(extent.queries, extent.keys);
    const css = { width: Math.max(extent.keys * by, 12), height: Math.max(extent.queries * by, 12) };
    const of = `${palette.map} ${palette.dark} ${palette.hatchGround} ${css.width} ${css.height} ${ratio}`;
    if (this.of !== of) {
      this.of = of;
      this.element.style.width = `${css.width}px`;
      this.element.style.height = `${css.height}px`;
      this.paint(palette, css, ratio);
    }
    const part = (from: number, length: number, all: number, long: number): [number, number] => {
      const shown = Math.max(Math.min(length / all, 1) * long, LEAST);
      return [Math.min((from / all) * long, long - shown), shown];
    };
    const [x, w] = part(port.left, size.width / scale.x, extent.keys, css.width);
    const [y, h] = part(port.top, size.height / scale.y, extent.queries, css.height);
    const { style } = this.frame;
    style.transform = `translate(${x}px, ${y}px)`;
    style.width = `${w}px`;
    style.height = `${h}px`;
  }

  private paint(palette: Palette, css: Size, ratio: number): void {
    const { c, width, height } = sized(this.canvas, css, ratio);
    c.fillStyle = palette.hatchGround;
    c.fillRect(0, 0, width, height);
    c.imageSmoothingEnabled = false;
    if (this.codes) c.drawImage(shrunk(this.codes, palette, width, height), 0, 0, width, height);
  }
}
