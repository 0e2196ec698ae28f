// What a cell is made of: its formula with the very numbers, and the cells that these are in.
import { num } from '../../parts/digits';
import { products, softmax, term } from '../../parts/formula';
import type { Answer, Head } from './answer';
import { matrix, sees, sizesOf, type Hand, type Matrix, type Part } from './numbers';

export const RESULTS = ['raw', 'scaled', 'softcapped', 'cooled', 'biased', 'weights', 'mixed'] as const;
export type Result = (typeof RESULTS)[number];
export type Name = Part | Result | 'concat' | 'output';

// A cell: the matrix that it is in, its row and column in that matrix, and the head; -1: of no head.
export interface Spot {
  name: Name;
  head: number;
  row: number;
  col: number;
}

export interface Said {
  title: string;
  formula: string;
  says: string; // in words
}

const column = (of: Matrix, col: number): number[] => of.map((row) => row[col] ?? 0);

function scaledFormula(hand: Hand, score: number, result: number): string {
  const { width } = sizesOf(hand);
  const by = hand.scale === null ? `× 1/√${width}` : `× ${term(hand.scale)}`;
  return `${num(score)} ${by} = ${num(result)}`;
}

function softmaxFormula(hand: Hand, of: Head, row: number, col: number): string {
  const scores = of.biased[row] ?? [];
  const shown = scores.filter((_, k) => sees(hand, row, k));
  if (!shown.length) return 'no key is seen: every weight of the row is 0';
  if (!sees(hand, row, col)) return 'a hidden key has the weight 0';
  const formula = softmax(scores[col] ?? 0, shown as readonly number[]);
  return `${formula} = ${num(of.weights[row]?.[col])}`;
}

function resultOf(hand: Hand, of: Head, { name, row: q, col: k }: Spot): Said {
  const at = `of query ${q} and key ${k}`;
  const [raw, scaled, capped] = [of.raw, of.scaled, of.softcapped].map((m) => m[q]?.[k] ?? 0) as [
    number,
    number,
    number,
  ];
  const { softcap, temperature } = hand;
  switch (name as Result) {
    case 'raw':
      return {
        title: `score ${at}`,
        formula: `${products(of.query[q] ?? [], of.key[k] ?? [])} = ${num(raw)}`,
        says: 'Each number of the query is multiplied by that of the key, and the products are added.',
      };
    case 'scaled':
      return {
        title: `scaled score ${at}`,
        formula: scaledFormula(hand, raw, scaled),
        says: 'The scale keeps scores from growing with the number of products.',
      };
    case 'softcapped':
      return {
        title: `capped score ${at}`,
        formula: `${num(softcap)} × tanh(${num(scaled)} / ${num(softcap)}) = ${num(capped)}`,
        says: `The softcap keeps scores between −${num(softcap)} and ${num(softcap)}.`,
      };
    case 'cooled':
      return {
        title: `score ${at} by the temperature`,
        formula: `${num(capped)} / ${num(temperature)} = ${num(capped / temperature)}`,
        says: 'A low temperature makes the weights sharper, a high one evener.',
      };
    case 'biased': {
      const isSeen = sees(hand, q, k);
      const cause =
        hand.causal && k > q ? 'causal hides keys behind the query' : 'this cell was clicked away';
      return {
        title: `masked score ${at}`,
        formula: isSeen ? `${num(of.biased[q]?.[k])}, as it was` : `−∞: ${cause}`,
        says: isSeen ? 'The query sees the key. A click hides it.' : 'e^−∞ = 0: the key gets no weight.',
      };
    }
    case 'weights':
      return {
        title: `weight ${at}`,
        formula: softmaxFormula(hand, of, q, k),
        says: 'The softmax makes shares of the row: they are positive and add to 1.',
      };
    case 'mixed':
      return {
        title: `output of query ${q}, number ${k}`,
        formula: `${products(of.weights[q] ?? [], column(of.value, k))} = ${num(of.output[q]?.[k])}`,
        says: 'Each value counts as much as its key’s weight.',
      };
  }
}

const PROJECTION = { query: 'w_q', key: 'w_k', value: 'w_v' } as const;
const NAMES: Partial<Record<Name, string>> = { x: 'word', w_q: 'W_q', w_k: 'W_k', w_v: 'W_v', w_o: 'W_o' };

export function say(hand: Hand, of: Answer, spot: Spot): Said {
  const { name, row, col } = spot;
  const head = of.heads[Math.max(0, spot.head)] as Head;
  if ((RESULTS as readonly Name[]).includes(name)) return resultOf(hand, head, spot);
  if (name === 'output' || name === 'concat') {
    const concat = concatOf(of);
    const from = Math.floor(col / sizesOf(hand).valueWidth);
    return name === 'concat'
      ? {
          title: `concatenated output of word ${row}, number ${col}`,
          formula: num(concat[row]?.[col]),
          says: `It comes from head ${from}: the outputs of the heads stand side by side.`,
        }
      : {
          title: `output of word ${row}, number ${col}`,
          formula: `${products(concat[row] ?? [], column(matrix(hand, 'w_o'), col))} = ${num(of.output[row]?.[col])}`,
          says: 'W_o mixes the outputs of the heads.',
        };
  }
  if (hand.heads && (name === 'query' || name === 'key' || name === 'value')) {
    const by = column(matrix(hand, PROJECTION[name]), Math.max(0, spot.head) * sizesOf(hand).width + col);
    return {
      title: `${name} of word ${row} in head ${spot.head}, number ${col}`,
      formula: `${products(matrix(hand, 'x')[row] ?? [], by)} = ${num(head[name][row]?.[col])}`,
      says: 'The word is multiplied by a column of the matrix; each head has columns of its own.',
    };
  }
  return {
    title: `${NAMES[name] ?? name}, row ${row}, column ${col}`,
    formula: num(matrix(hand, name as Part)[row]?.[col]),
    says: 'Type a number, or drag it sideways.',
  };
}

export const concatOf = (of: Answer): Matrix =>
  (of.heads[0]?.output ?? []).map((_, row) => of.heads.flatMap((h) => h.output[row] ?? []));

const SCORES: readonly Name[] = ['raw', 'scaled', 'softcapped', 'cooled', 'biased', 'weights'];

// Whether a cell is one that the pointed cell is made of, or is made of it on the way to the weights.
export function isLit(hand: Hand, at: Spot, { name, head, row, col }: Spot): boolean {
  const isHead = at.head === head;
  if (isHead && SCORES.includes(at.name)) {
    if (name === 'biased' && at.name === 'weights') return row === at.row;
    if (SCORES.includes(name)) return row === at.row && col === at.col;
    return name === 'query' ? row === at.row : name === 'key' && row === at.col;
  }
  if (isHead && at.name === 'mixed')
    return name === 'weights' ? row === at.row : name === 'value' && col === at.col;
  if (hand.heads && (at.name === 'query' || at.name === 'key' || at.name === 'value')) {
    if (name === 'x') return row === at.row;
    return name === PROJECTION[at.name] && col === at.head * sizesOf(hand).width + at.col;
  }
  if (at.name === 'output') return name === 'concat' ? row === at.row : name === 'w_o' && col === at.col;
  const { valueWidth } = sizesOf(hand);
  return at.name === 'concat' && name === 'mixed' && row === at.row && head * valueWidth + col === at.col;
}
