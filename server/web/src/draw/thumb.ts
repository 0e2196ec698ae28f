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

export function paint(canvas: HTMLCanvasElement, at: Codes, colours: Uint32Array): void {
  canvas.width = at.cols;
  canvas.height = at.rows;
  const image = new ImageData(at.cols, at.rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let y = 0; y < at.rows; y++)
    for (let x = 0; x < at.cols; x++) {
      const code = at.codes[y * at.stride + x] as number;
      if (code) pixels[y * at.cols + x] = colours[code] as number;
    }
  canvas.getContext('2d')?.putImageData(image, 0, 0);
}

export const valueOf = (at: Codes, code: number): number => at.low + (at.high - at.low) * (code / 255) ** 2;

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
        sums[y * cols + x] = (sums[y * cols + x] as number) + valueOf(t, code) / list.length;
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
    if (seen[i]) codes[i] = high > low ? Math.max(1, Math.round(255 * Math.sqrt((value - low) / (high - low)))) : 255;
  });
  return { codes, stride: cols, rows, cols, low: seen.some(Boolean) ? low : 0, high: seen.some(Boolean) ? high : 0 };
}

// The size of a picture in CSS pixels: a whole number for each cell, at least 1, within `most`.
export function sizeOf(at: { rows: number; cols: number }, most: number): { width: string; height: string } {
  const each = Math.max(1, Math.floor(most / Math.max(at.rows, at.cols)));
  return { width: `${at.cols * each}px`, height: `${at.rows * each}px` };
}
