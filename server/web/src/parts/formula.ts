// Sums with their very numbers, as a course writes them.
import { num } from './digits';

const FEW = 8; // terms of a sum that are written out

export const term = (x: number | null | undefined): string => ((x ?? 0) < 0 ? `(${num(x)})` : num(x));

export const products = (a: readonly number[], b: readonly number[]): string =>
  a.map((x, i) => `${term(x)}·${term(b[i])}`).join(' + ');

export function softmax(score: number, scores: readonly number[]): string {
  const sum =
    scores.length > FEW
      ? `Σ e^s of ${scores.length} scores`
      : `(${scores.map((x) => `e^${term(x)}`).join(' + ')})`;
  return `e^${term(score)} / ${sum}`;
}
