// Colours of numbers, as lib/draw/colour.c has them: its tables come in at build time, and the rules
// between them are the same, so that the page and the pictures of the service agree to the byte.
export type ColourMap = 'Blues' | 'viridis' | 'cividis' | 'RdBu';
export type Bend = 'linear' | 'sqrt' | 'log';
export type Rgb = readonly [number, number, number];

declare const COLOUR_TABLES: Record<'blues' | 'rdbu' | 'viridis' | 'cividis', string>;

// A packed table (build.mjs): its first colour, and the step of each channel as a letter.
function unpack(table: string): string {
  const channels = [0, 2, 4].map((at) => parseInt(table.slice(at, at + 2), 16));
  for (let at = 6; at < table.length; at++)
    channels.push((channels.at(-3) as number) + table.charCodeAt(at) - 99);
  return channels.map((channel) => channel.toString(16).padStart(2, '0')).join('');
}

const tables: Record<ColourMap, string> = {
  Blues: COLOUR_TABLES.blues,
  viridis: unpack(COLOUR_TABLES.viridis),
  cividis: unpack(COLOUR_TABLES.cividis),
  RdBu: COLOUR_TABLES.rdbu,
};

const LOG_STEPS = 255;
const clip = (t: number): number => (t > 0 ? Math.min(t, 1) : 0);

export const bend = (how: Bend, t: number): number =>
  how === 'sqrt' ? Math.sqrt(t) : how === 'log' ? Math.log1p(LOG_STEPS * t) / Math.log1p(LOG_STEPS) : t;

export const unbend = (how: Bend, t: number): number =>
  how === 'sqrt' ? t * t : how === 'log' ? Math.expm1(t * Math.log1p(LOG_STEPS)) / LOG_STEPS : t;

export interface Scale {
  low: number;
  high: number;
  bend: Bend;
  map: ColourMap;
  dark: boolean;
}

const isTwoSided = (s: Scale): boolean => s.map === 'RdBu' && s.low < 0 && s.high > 0;

// The position of a value on the colour map, from 0 to 1.
export function place(s: Scale, value: number): number {
  if (isTwoSided(s)) {
    const side = clip(value < 0 ? value / s.low : value / s.high);
    return 0.5 + (value < 0 ? -0.5 : 0.5) * bend(s.bend, side);
  }
  if (s.high <= s.low) return value > 0 ? 1 : 0;
  return bend(s.bend, clip((value - s.low) / (s.high - s.low)));
}

const entry = (table: string, i: number): Rgb => {
  const value = parseInt(table.slice(6 * i, 6 * i + 6), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
};

// Rounds halves to the even neighbour, as lrint does.
function toEven(x: number): number {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + (low & 1) : Math.round(x);
}

const mix = (a: Rgb, b: Rgb, part: number): Rgb =>
  [0, 1, 2].map((i) =>
    toEven((a[i] as number) + ((b[i] as number) - (a[i] as number)) * part),
  ) as unknown as Rgb;

function lookUp(table: string, t: number): Rgb {
  const last = table.length / 6 - 1;
  const at = clip(t) * last;
  const i = Math.floor(at);
  return i >= last ? entry(table, last) : mix(entry(table, i), entry(table, i + 1), at - i);
}

// RdBu in the dark theme: each half of the table from its pale end, and dark grey at the centre.
function darkDiverging(t: number): Rgb {
  const table = tables.RdBu;
  const last = table.length / 6 - 1;
  const side = Math.abs(2 * clip(t) - 1) * 5;
  const i = Math.floor(Math.min(side, 4));
  let outer = i;
  let inner = i > 0 ? i - 1 : 0;
  if (t > 0.5) {
    outer = last - outer;
    inner = last - inner;
  }
  return mix(i === 0 ? [38, 41, 46] : entry(table, inner), entry(table, outer), side - i);
}

// The colour at a position from 0 to 1. In the dark theme zero of Blues is the ground.
export function colour(map: ColourMap, dark: boolean, t: number): Rgb {
  if (map === 'RdBu' && dark) return darkDiverging(t);
  return lookUp(tables[map], map === 'Blues' && dark ? 1 - t : t);
}

// The colours of `count` positions from 0 to 1 as pixels for ImageData, little-endian.
export function palette(map: ColourMap, dark: boolean, count = 256): Uint32Array {
  const pixels = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    const [r, g, b] = colour(map, dark, i / (count - 1));
    pixels[i] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return pixels;
}

const linear = (c: number): number =>
  c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4;

// The relative luminance of WCAG 2.
export const luminance = ([r, g, b]: Rgb): number =>
  0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);

// Black or white, whichever reads better on the ground: a contrast of at least 4.58.
export const ink = (ground: Rgb): '#000' | '#fff' =>
  (luminance(ground) + 0.05) ** 2 > 1.05 * 0.05 ? '#000' : '#fff';

export const css = ([r, g, b]: Rgb): string => `rgb(${r} ${g} ${b})`;
