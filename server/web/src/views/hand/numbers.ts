// The numbers of By hand: what is written into its cells, how they become a request, and how their
// number is changed. A matrix has 1 to 8 rows and columns.
import { maskFields, unlessAll } from '../../parts/mask';
import type { Source } from '../../store/state';

export const MOST = 8; // rows and columns of a matrix, and numbers of a word
export type Matrix = readonly (readonly number[])[];

export const DIRECT = ['query', 'key', 'value'] as const;
export const PROJECTED = ['x', 'w_q', 'w_k', 'w_v', 'w_o'] as const;
export type Part = (typeof DIRECT)[number] | (typeof PROJECTED)[number];

export interface Hand {
  heads: number; // 0: queries, keys and values are written; else x is projected and split into heads
  parts: Partial<Record<Part, Matrix>>;
  causal: boolean;
  seen: readonly (readonly boolean[])[] | null; // by query and key; null: all
  scale: number | null; // null: 1/√(numbers of a query)
  softcap: number | null;
  temperature: number;
}

const REST = { causal: false, seen: null, scale: null, softcap: null, temperature: 1 };

export interface Example {
  title: string;
  hand: Hand;
}

export const EXAMPLES: readonly Example[] = [
  {
    title: '3 × 3',
    hand: {
      ...REST,
      heads: 0,
      parts: {
        query: [
          [1, 0, 2],
          [0, 1, 0],
          [1, 1, 1],
        ],
        key: [
          [1, 0, 2],
          [0, 1, 0],
          [1, 1, 1],
        ],
        value: [
          [1, 0, 1],
          [0, 2, 0],
          [1, 1, 3],
        ],
      },
    },
  },
  {
    title: 'arrows',
    hand: {
      ...REST,
      heads: 0,
      parts: {
        query: [
          [1.5, 0.5],
          [-0.5, 1.5],
        ],
        key: [
          [2, 0],
          [0, 2],
          [-1, -1],
        ],
        value: [
          [1, 0],
          [0, 1],
          [-1, -1],
        ],
      },
    },
  },
  {
    title: 'two heads',
    hand: {
      ...REST,
      heads: 2,
      parts: {
        x: [
          [1, 0, 1, 0],
          [0, 2, 0, 1],
          [1, 1, 0, 2],
        ],
        w_q: [
          [1, 0, 0, 1],
          [0, 1, 0, 0],
          [1, 0, 0, 0],
          [0, 1, 1, 0],
        ],
        w_k: [
          [1, 0, 0, 0],
          [0, 1, 0, 1],
          [0, 0, 1, 0],
          [1, 0, 1, 0],
        ],
        w_v: [
          [1, 0, 0, 0],
          [0, 1, 0, 0],
          [0, 0, 1, 0],
          [0, 0, 0, 1],
        ],
        w_o: [
          [1, 0, 0, 0],
          [0, 1, 0, 0],
          [1, 0, 1, 0],
          [0, 0, 0, 1],
        ],
      },
    },
  },
];

const FIRST = (EXAMPLES[0] as Example).hand;

export const partsOf = (hand: Hand): readonly Part[] => (hand.heads ? PROJECTED : DIRECT);
export const matrix = (hand: Hand, part: Part): Matrix => hand.parts[part] ?? [];

export interface Sizes {
  queries: number;
  keys: number;
  width: number; // numbers of a query and of a key; of each head
  valueWidth: number;
}

export function sizesOf(hand: Hand): Sizes {
  const widthOf = (part: Part): number => matrix(hand, part)[0]?.length ?? 0;
  if (!hand.heads)
    return {
      queries: matrix(hand, 'query').length,
      keys: matrix(hand, 'key').length,
      width: widthOf('query'),
      valueWidth: widthOf('value'),
    };
  const { length } = matrix(hand, 'x');
  const width = widthOf('x') / hand.heads;
  return { queries: length, keys: length, width, valueWidth: width };
}

const isMatrix = <T>(of: unknown, rows: number, cols: number, fits: (x: unknown) => x is T): of is T[][] =>
  Array.isArray(of) &&
  of.length === rows &&
  of.every((row) => Array.isArray(row) && row.length === cols && row.every(fits));
const isNumber = (x: unknown): x is number => typeof x === 'number' && Number.isFinite(x);
const isFlag = (x: unknown): x is boolean => typeof x === 'boolean';
const isSize = (x: number): boolean => Number.isInteger(x) && x >= 1 && x <= MOST;

// What an address holds; null: it is not such numbers.
export function read(found: Record<string, unknown>): Hand | null {
  const { heads, parts } = found;
  if (!isNumber(heads) || !(heads === 0 || isSize(heads))) return null;
  if (typeof parts !== 'object' || parts === null) return null;
  const hand = { ...REST, ...found, heads, parts } as Hand;
  for (const part of partsOf(hand)) {
    const first: unknown = hand.parts[part]?.[0];
    if (!Array.isArray(hand.parts[part]) || !Array.isArray(first)) return null;
  }
  const { queries, keys, width, valueWidth } = sizesOf(hand);
  if (![queries, keys, width, valueWidth].every(isSize)) return null;
  const all = width * heads;
  const shapes: Record<Part, readonly [number, number]> = {
    query: [queries, width],
    key: [keys, width],
    value: [keys, valueWidth],
    x: [queries, all],
    w_q: [all, all],
    w_k: [all, all],
    w_v: [all, all],
    w_o: [all, all],
  };
  if (all > MOST || !partsOf(hand).every((part) => isMatrix(hand.parts[part], ...shapes[part], isNumber)))
    return null;
  const optional = [hand.scale, hand.softcap].every((x) => x === null || isNumber(x));
  const seen = hand.seen === null || isMatrix(hand.seen, queries, keys, isFlag);
  return optional && seen && isFlag(hand.causal) && isNumber(hand.temperature) && hand.temperature > 0
    ? hand
    : null;
}

export const handOf = (found: Record<string, unknown> | null): Hand => (found && read(found)) ?? FIRST;

export const scaleOf = (hand: Hand): number => hand.scale ?? 1 / Math.sqrt(sizesOf(hand).width);

// The temperature divides scores behind the softcap: c/T · tanh((s · scale/T) / (c/T)).
const factor = (x: number, hand: Hand): number => x / hand.temperature;

const transposed = (of: Matrix): number[][] => (of[0] ?? []).map((_, col) => of.map((row) => row[col] ?? 0));

export function requestOf(hand: Hand): Source {
  const { query, key, value, x, w_q, w_k, w_v, w_o } = hand.parts;
  const linear = (of: Matrix | undefined): number[][] => transposed(of ?? []); // as torch.nn.Linear has it
  const inputs = hand.heads
    ? {
        query: x,
        projections: {
          num_heads: hand.heads,
          w_q: linear(w_q),
          w_k: linear(w_k),
          w_v: linear(w_v),
          w_o: linear(w_o),
        },
      }
    : { query, key, value };
  return {
    path: 'v1/attention',
    body: {
      ...inputs,
      ...maskFields(hand.causal, hand.seen),
      ...(hand.scale !== null || hand.temperature !== 1 ? { scale: factor(scaleOf(hand), hand) } : {}),
      ...(hand.softcap ? { softcap: factor(hand.softcap, hand) } : {}),
      return: ['scores', 'weights', 'output', 'inputs'],
      score_stage: ['raw', 'scaled', 'softcapped', 'biased'],
    },
  };
}

// Whether the mask shows a key to a query. `is_causal` hides keys behind the query.
export const sees = (hand: Hand, q: number, k: number): boolean =>
  (!hand.causal || k <= q) && (hand.seen?.[q]?.[k] ?? true);

export function withNumber(hand: Hand, part: Part, row: number, col: number, value: number): Hand {
  const rows = matrix(hand, part).map((r, i) => (i === row ? r.map((x, j) => (j === col ? value : x)) : r));
  return { ...hand, parts: { ...hand.parts, [part]: rows } };
}

export function withSeen(hand: Hand, q: number, k: number): Hand {
  const { queries, keys } = sizesOf(hand);
  const seen = Array.from({ length: queries }, (_, i) =>
    Array.from({ length: keys }, (_x, j) => (hand.seen?.[i]?.[j] ?? true) !== (i === q && j === k)),
  );
  return { ...hand, seen: unlessAll(seen) };
}

// A matrix with other numbers of rows and columns; new cells are those of the unit matrix.
const resized = (of: Matrix, rows: number, cols: number): number[][] =>
  Array.from({ length: rows }, (_, i) =>
    Array.from({ length: cols }, (_x, j) => of[i]?.[j] ?? Number(i % cols === j)),
  );

export function withSizes(hand: Hand, to: Sizes & { heads: number }): Hand {
  const { queries, keys, width, valueWidth, heads } = to;
  const all = width * heads;
  const part = (name: Part, rows: number, cols: number): Partial<Record<Part, Matrix>> => ({
    [name]: resized(matrix(hand, name), rows, cols),
  });
  const parts = heads
    ? {
        ...part('x', queries, all),
        ...part('w_q', all, all),
        ...part('w_k', all, all),
        ...part('w_v', all, all),
        ...part('w_o', all, all),
      }
    : { ...part('query', queries, width), ...part('key', keys, width), ...part('value', keys, valueWidth) };
  const seen = hand.seen
    ? Array.from({ length: queries }, (_, i) =>
        Array.from({ length: keys }, (_x, j) => hand.seen?.[i]?.[j] ?? true),
      )
    : null;
  return { ...hand, heads, parts, seen };
}
