// The row that is shown. One request brings all weights of a query, so moving the pointer along the
// row needs no further request. Answers that arrive after another row is wanted are not shown.
import { computed, effect, signal } from '@preact/signals';
import { Problem } from '../api/client';
import type { Weights } from '../api/answers';
import { row, rows, WHOLE_MOST, type Row } from '../api/runs';
import { digits } from '../parts/digits';
import { hasJoined, join, marksOf, single, spanOf, sumGroups, type Groups } from '../parts/join';
import { keys, nameOf, queries, site, type Axis } from './run';
import { change } from './history';
import { head, look, shown, type Hover } from './state';

export const joined = signal(true); // pieces of words are shown as words, where a view can

// What Words and Matrix show along the axes: words, or each token by itself.
const groupsOf = ({ tokens, special }: Axis, length: number): Groups =>
  !tokens
    ? single(Array.from({ length }, (_, i) => String(i)))
    : joined.value
      ? join(tokens, special)
      : single(tokens, special);
export const queryGroups = computed(() => groupsOf(queries.value, site.value?.num_queries ?? 0));
export const keyGroups = computed(() => groupsOf(keys.value, site.value?.num_keys ?? 0));

export const hasPieces = computed(() =>
  [queries.value, keys.value].some(({ tokens }) => tokens !== null && marksOf(tokens) !== 'none'),
);

// What stands for the words of both axes while a view joins pieces to words; null: each token is shown
// by itself. Weights of a word are the sum over its keys and the mean over its queries. Matrix and
// Compare join heads of which they have all weights.
export const words = computed(() => {
  const s = site.value;
  const { view } = look.value;
  const isWhole = s !== null && s.num_queries * s.num_keys <= WHOLE_MOST;
  if (view !== 'words' && !((view === 'matrix' || view === 'compare') && isWhole)) return null;
  const at = { queries: queryGroups.value, keys: keyGroups.value };
  return hasJoined(at.queries) || hasJoined(at.keys) ? at : null;
});

// The name of a token, or of the word that it is shown in.
export function nameAt(side: 'queries' | 'keys', i: number): string {
  const groups = words.value?.[side];
  return groups?.names[groups.of[i] ?? -1] ?? nameOf(side === 'queries' ? queries.value : keys.value, i);
}

// The number of a key among those of a shown row: that of its word, or its own.
export const unitOf = (of: typeof words.value, k: number): number => (of ? (of.keys.of[k] ?? -1) : k);

export interface ShownRow extends Row {
  q: number; // the first token of the word
  words: typeof words.value; // what the weights are of: words of the keys; null: tokens
  run: string;
  site: number;
  batch: number;
  head: number | 'mean';
}

export const shownRow = signal<ShownRow | null>(null);
export const rowTrouble = signal('');

const DELAY = 25; // ms without a move before a row is asked for that is not here yet

// The first token of the word that a query is in, and how many it has.
export function wordOf(q: number): [number, number] {
  const of = words.value?.queries;
  const group = of?.of[q];
  if (!of || group === undefined) return [q, 1];
  const [from, to] = spanOf(of, group);
  return [from, to - from];
}

// Pins the row of a query, or frees it; the views keep pinned rows in sight. A joined word is pinned if
// one of its tokens is.
export function togglePin(q: number): void {
  const [from, tokens] = wordOf(q);
  const { pins } = look.value;
  const others = pins.filter((pin) => pin < from || pin >= from + tokens);
  change({ pins: others.length < pins.length ? others : [...pins, from] });
}

export const isShown = (row: ShownRow | null): row is ShownRow =>
  row !== null && row.words === words.value && row.q === wordOf(shown.value.q)[0];

// The row of a word: the mean of the rows of its tokens, and sums over the tokens of each key. A
// key is hidden if each of its tokens is hidden from each query of the word.
function joinRow({ weights, hidden }: Weights, rows: number, keys: Groups): Row {
  const cols = keys.of.length;
  const mean = new Float64Array(cols);
  weights.forEach((weight, i) => {
    mean[i % cols] = (mean[i % cols] as number) + weight / rows;
  });
  const hides = new Float64Array(cols);
  for (const [, from, to] of hidden) for (let k = from; k < to; k++) hides[k] = (hides[k] as number) + 1;
  const seen = sumGroups(
    hides.map((count) => Number(count < rows)),
    keys,
  );
  const gone: [number, number][] = [];
  seen.forEach((count, group) => {
    if (!count) gone.push([group, group + 1]);
  });
  return { weights: sumGroups(mean, keys), hidden: gone };
}

export function keepRow(): void {
  let timer = 0;
  let wanted = 0;
  effect(() => {
    const at = head.value;
    const of = words.value;
    const [q, tokens] = wordOf(shown.value.q);
    const mine = ++wanted;
    clearTimeout(timer);
    const have = shownRow.peek();
    const s = at.run ? site.value : null;
    if (
      !s ||
      q < 0 ||
      q >= s.num_queries ||
      (of && (of.keys.of.length !== s.num_keys || of.queries.of.length !== s.num_queries))
    ) {
      if (have) shownRow.value = null;
      return;
    }
    if (
      have &&
      have.q === q &&
      have.words === of &&
      have.run === at.run &&
      have.site === at.site &&
      have.batch === at.batch &&
      have.head === at.head &&
      (of !== null || have.weights.length === s.num_keys)
    )
      return;
    timer = window.setTimeout(
      () => {
        const found = of
          ? rows(at, q, q + tokens, s.num_keys).then((all) => joinRow(all, tokens, of.keys))
          : row(at, q);
        found.then(
          (made) => {
            if (mine !== wanted) return;
            rowTrouble.value = '';
            shownRow.value = { ...made, ...at, q, words: of };
          },
          (error: unknown) => {
            if (mine !== wanted || !(error instanceof Problem)) return;
            shownRow.value = null;
            rowTrouble.value = error.message;
          },
        );
      },
      have ? DELAY : 0,
    );
  });
}

export const isHidden = (hidden: readonly (readonly [number, number])[], key: number): boolean =>
  hidden.some(([from, to]) => key >= from && key < to);

export interface Shown {
  q: number;
  k: number;
  weight: number;
  rank: number;
  of: number;
  hidden: boolean;
}

// A cell of the shown row, if the row has arrived. Equal weights have the same rank, as in /cells:
// one more than the number of larger weights.
export function cellAt({ q, k }: Hover): Shown | null {
  const row = shownRow.value;
  if (!isShown(row) || k < 0) return null;
  const unit = unitOf(row.words, k);
  const weight = row.weights[unit];
  if (weight === undefined) return null;
  let rank = 1;
  for (const other of row.weights) if (other > weight) rank++;
  let of = row.weights.length;
  for (const [from, to] of row.hidden) of -= to - from;
  return { q, k, weight, rank, of, hidden: isHidden(row.hidden, unit) };
}

export const shownCell = computed<Shown | null>(() => cellAt(shown.value));

// The keys or words with the largest weights of a row, in their order.
export function largest(row: Row, count: number): number[] {
  const order: number[] = [];
  const { weights } = row;
  for (let k = 0; k < weights.length; k++) {
    const weight = weights[k] as number;
    if (isHidden(row.hidden, k)) continue;
    if (order.length === count && weight <= (weights[order[count - 1] as number] as number)) continue;
    let at = order.length;
    while (at > 0 && (weights[order[at - 1] as number] as number) < weight) at--;
    order.splice(at, 0, k);
    if (order.length > count) order.pop();
  }
  return order;
}

const LISTED = 20; // keys of a row that are listed

// The keys or words of the shown row that are listed, and the largest weight.
export const listed = computed(() => {
  const row = shownRow.value;
  const order = row ? largest(row, LISTED) : [];
  return { order, most: row?.weights[order[0] ?? 0] || 1 };
});

// The sentence about a cell, as a screen reader speaks it.
export const spoken = computed(() => {
  const cell = shownCell.value;
  if (!cell) return '';
  const names = `query ${nameAt('queries', cell.q)}, key ${nameAt('keys', cell.k)}`;
  return cell.hidden
    ? `${names}, hidden by the mask`
    : `${names}, weight ${digits(cell.weight)}, rank ${cell.rank} of ${cell.of}`;
});
