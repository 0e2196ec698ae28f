// The answer of the service to the numbers, as matrices of each head.
import { signal } from '@preact/signals';
import { askJson, Problem } from '../../api/client';
import { oneAtATime } from '../../store/steps';
import { matrix, requestOf, sizesOf, type Hand, type Matrix } from './numbers';

type Results = readonly (readonly (number | null)[])[]; // null: hidden

export interface Head {
  query: Matrix;
  key: Matrix;
  value: Matrix;
  raw: Matrix;
  scaled: Matrix; // before the temperature divides it
  softcapped: Matrix; // the same
  biased: Results;
  weights: Matrix;
  output: Matrix; // weights · value
}

export interface Answer {
  hand: Hand;
  heads: readonly Head[];
  output: Matrix; // of all heads: their concatenated outputs · W_o
}

type Nested = Results | readonly Results[];
interface Reply {
  query?: Nested;
  key?: Nested;
  value?: Nested;
  scores: Record<'raw' | 'scaled' | 'softcapped' | 'biased', Nested>;
  weights: Nested;
  output: Matrix;
}

export const times = (a: Matrix, b: Matrix): number[][] =>
  a.map((row) => (b[0] ?? []).map((_, col) => row.reduce((sum, x, i) => sum + x * (b[i]?.[col] ?? 0), 0)));

const multiplied = (of: Matrix, by: number): Matrix =>
  by === 1 ? of : of.map((row) => row.map((x) => x * by));

function headsOf(hand: Hand, reply: Reply): Head[] {
  const { scores, weights } = reply;
  const written = (part: 'query' | 'key' | 'value'): Nested => reply[part] ?? matrix(hand, part);
  return Array.from({ length: Math.max(1, hand.heads) }, (_, h) => {
    const of = (all: Nested): Results => (hand.heads ? (all as readonly Results[])[h] : all) as Results;
    const numbers = (all: Nested): Matrix => of(all) as Matrix;
    const value = numbers(written('value'));
    const row = numbers(weights);
    return {
      query: numbers(written('query')),
      key: numbers(written('key')),
      value,
      raw: numbers(scores.raw),
      scaled: multiplied(numbers(scores.scaled), hand.temperature),
      softcapped: multiplied(numbers(scores.softcapped), hand.temperature),
      biased: of(scores.biased),
      weights: row,
      output: hand.heads ? times(row, value) : reply.output,
    };
  });
}

export const answer = signal<Answer | null>(null);
export const refusal = signal(''); // why there is no answer to the numbers

// The answer stays while the next one is under way, unless its matrices have another shape.
export function fits(of: Answer | null, hand: Hand): of is Answer {
  if (!of || of.hand.heads !== hand.heads) return false;
  return JSON.stringify(sizesOf(of.hand)) === JSON.stringify(sizesOf(hand));
}

export const ask = oneAtATime(async (hand: Hand) => {
  const { path, body } = requestOf(hand);
  try {
    const reply = await askJson<Reply>(path, { json: body });
    answer.value = { hand, heads: headsOf(hand, reply), output: reply.output };
    refusal.value = '';
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    refusal.value = error.message;
  }
});
