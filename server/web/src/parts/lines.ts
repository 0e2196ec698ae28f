// Which lines are seen between two columns of words, and how. The lines of each pinned row have a
// colour, a dash and a letter, so that pinned rows can be told apart without colour, too.
import type { Edge } from './edges';

export interface Line extends Edge {
  pin: number;
} // the number of the pinned row; -1: it is that of the shown word

export interface Seen {
  edges: readonly Edge[];
  more: (q: number) => Edge[]; // the edges of a row that is shown
  q: number; // the groups that are shown; -1: none
  k: number;
  pins: readonly number[]; // queries whose rows stay
}

// The lines that stand out.
export function strongOf({ edges, more, q, k, pins }: Seen): Line[] {
  const shown = q >= 0 ? (pins.includes(q) ? [] : more(q)) : k >= 0 ? edges.filter((e) => e.k === k) : [];
  return [
    ...pins.flatMap((row, pin) => more(row).map((e) => ({ ...e, pin }))),
    ...shown.map((e) => ({ ...e, pin: -1 })),
  ];
}

const PIN_COLOURS = 6; // --pin-0 to --pin-5
const DASHES = ['', '14 7', '3 6', '16 6 3 6', '28 8', '8 4 2 4 2 4'];

export const pinProperty = (pin: number): string => `--pin-${pin % PIN_COLOURS}`;
export const pinColour = (pin: number): string => `var(${pinProperty(pin)})`;
export const dashOf = (pin: number): string => DASHES[pin % DASHES.length] as string;
export const letterOf = (pin: number): string => (pin < 26 ? String.fromCharCode(65 + pin) : String(pin + 1));

export const ROW = 28; // units of a word in the height of the lines

export const curve = ({ q, k }: Edge, width: number): string => {
  const from = (q + 0.5) * ROW;
  const to = (k + 0.5) * ROW;
  return `M0 ${from}C${width / 2} ${from} ${width / 2} ${to} ${width} ${to}`;
};

// Widths and opacities of a line that is one of all, and of one that stands out. A weight of nearly
// nothing is nearly nothing to see.
export const faintly = ({ weight }: Edge): { width: number; opacity: number } => ({
  width: 0.75 + 6 * weight,
  opacity: 0.9 * Math.sqrt(weight),
});
export const strongly = ({ weight }: Edge): { width: number; opacity: number } => ({
  width: 0.75 + 7 * weight,
  opacity: Math.sqrt(weight),
});
export const FAINT = 0.22; // opacity of all lines behind those that stand out
