// Thumbnails: codes of a byte a cell, 0 for hidden cells, else 1 to 255 over a range, as the square
// root of its share. Hidden cells are left transparent, so that the hatch beneath shows.
export interface Codes {
  codes: Uint8Array; // row i begins at i * stride
  stride: number;
  rows: number;
  cols: number;
  low: number;
  high: number;
}

// Paints on as many pixels as there are cells, or on fewer where the screen has fewer for it. A pixel
// that covers several cells has the largest of them, so that no cell is lost.
export function paint(canvas: HTMLCanvasElement, at: Codes, colours: Uint32Array, most = Infinity): void {
  const share = Math.min(1, Math.round(most * devicePixelRatio) / Math.max(at.rows, at.cols));
  const [width, height] = [
    Math.max(1, Math.round(at.cols * share)),
    Math.max(1, Math.round(at.rows * share)),
  ];
  canvas.width = width;
  canvas.height = height;
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      let code = 0;
      const [bottom, right] = [
        Math.ceil(((y + 1) * at.rows) / height),
        Math.ceil(((x + 1) * at.cols) / width),
      ];
      for (let i = Math.floor((y * at.rows) / height); i < bottom; i++)
        for (let j = Math.floor((x * at.cols) / width); j < right; j++)
          code = Math.max(code, at.codes[i * at.stride + j] as number);
      if (code) pixels[y * width + x] = colours[code] as number;
    }
  canvas.getContext('2d')?.putImageData(image, 0, 0);
}

export const weightOf = (at: Codes, code: number): number => at.low + (at.high - at.low) * (code / 255) ** 2;

// The mean of thumbnails of one shape. A cell that only some hide counts as 0 in those.
export function mean(list: readonly Codes[]): Codes | null {
  const [first] = list;
  if (!first || list.some((t) => t.rows !== first.rows || t.cols !== first.cols)) return null;
  const { rows, cols } = first;
  const sums = new Float64Array(rows * cols);
  const seen = new Uint8Array(rows * cols);
  for (const t of list)
    for (let y = 0; y < rows; y++)
      for (let x = 0; x < cols; x++) {
        const code = t.codes[y * t.stride + x] as number;
        if (!code) continue;
        seen[y * cols + x] = 1;
        sums[y * cols + x] = (sums[y * cols + x] as number) + weightOf(t, code) / list.length;
      }
  let low = Infinity;
  let high = -Infinity;
  sums.forEach((value, i) => {
    if (!seen[i]) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  });
  const codes = new Uint8Array(rows * cols);
  sums.forEach((value, i) => {
    if (seen[i])
      codes[i] = high > low ? Math.max(1, Math.round(255 * Math.sqrt((value - low) / (high - low)))) : 255;
  });
  return {
    codes,
    stride: cols,
    rows,
    cols,
    low: seen.some(Boolean) ? low : 0,
    high: seen.some(Boolean) ? high : 0,
  };
}

// The size of a picture in CSS pixels: the longer side is `most`.
export function sizeOf(at: { rows: number; cols: number }, most: number): { width: string; height: string } {
  const each = most / Math.max(at.rows, at.cols);
  return { width: `${at.cols * each}px`, height: `${at.rows * each}px` };
}

// The colours of the codes of a thumbnail when the colours go over a range that may be larger than its own.
export function coloursOver(
  at: Codes,
  colours: Uint32Array,
  [low, high]: readonly [number, number],
): Uint32Array {
  if (at.low === low && at.high === high) return colours;
  return colours.map((_, code) => {
    const share = high > low ? (weightOf(at, code) - low) / (high - low) : 1;
    return colours[Math.max(1, Math.round(255 * Math.sqrt(Math.min(Math.max(share, 0), 1))))] as number;
  });
}
