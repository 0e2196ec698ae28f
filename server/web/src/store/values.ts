// The row that is shown: one request brings all weights of a query, so that a pointer that moves
// along the row needs no other. Late answers of rows that are no longer wanted show nothing.
import { computed, effect, signal } from '@preact/signals';
import { Problem } from '../api/client';
import { row, type Row } from '../api/runs';
import { digits } from '../parts/digits';
import { keys, nameOf, queries, run, site } from './run';
import { head, shown } from './state';

export interface ShownRow extends Row {
  q: number;
  run: string;
  site: number;
  batch: number;
  head: number | 'mean';
}

export const shownRow = signal<ShownRow | null>(null);
export const rowTrouble = signal('');

const DELAY = 25; // ms without a move before a row is asked for that is not here yet

export function keepRow(): void {
  let timer = 0;
  let wanted = 0;
  effect(() => {
    const at = head.value;
    const q = shown.value.q;
    const mine = ++wanted;
    clearTimeout(timer);
    const have = shownRow.peek();
    const s = run.value?.id === at.run ? site.value : null;
    if (!s || q < 0 || q >= s.queries) {
      if (have) shownRow.value = null;
      return;
    }
    if (have && have.q === q && have.run === at.run && have.site === at.site && have.batch === at.batch && have.head === at.head) return;
    timer = window.setTimeout(() => {
      row(at, q).then((found) => {
        if (mine !== wanted) return;
        rowTrouble.value = '';
        shownRow.value = { ...found, ...at, q };
      }, (error: unknown) => {
        if (mine !== wanted || !(error instanceof Problem)) return;
        shownRow.value = null;
        rowTrouble.value = error.message;
      });
    }, have ? DELAY : 0);
  });
}

export const isHidden = (hidden: readonly (readonly [number, number])[], key: number): boolean =>
  hidden.some(([from, to]) => key >= from && key < to);

export interface Shown { q: number; k: number; weight: number; rank: number; of: number; hidden: boolean }

// The cell that is shown, as far as its row is here. Equal weights have the same rank as in /cells:
// one more than the number of larger weights.
export const shownCell = computed<Shown | null>(() => {
  const row = shownRow.value;
  const { q, k } = shown.value;
  if (!row || row.q !== q || k < 0 || k >= row.weights.length) return null;
  const weight = row.weights[k] as number;
  let rank = 1;
  for (const other of row.weights) if (other > weight) rank++;
  let of = row.weights.length;
  for (const [from, to] of row.hidden) of -= to - from;
  return { q, k, weight, rank, of, hidden: isHidden(row.hidden, k) };
});

// The keys with the largest weights of the shown row, in their order.
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

// The keys of the shown row that are listed, and the largest weight.
export const listed = computed(() => {
  const row = shownRow.value;
  const order = row ? largest(row, LISTED) : [];
  return { order, most: (row && row.weights[order[0] ?? 0]) || 1 };
});

// The sentence about a cell, as a screen reader speaks it.
export const spoken = computed(() => {
  const cell = shownCell.value;
  if (!cell) return '';
  const names = `query ${nameOf(queries.value, cell.q)}, key ${nameOf(keys.value, cell.k)}`;
  return cell.hidden ? `${names}, hidden by the mask` : `${names}, weight ${digits(cell.weight)}, rank ${cell.rank} of ${cell.of}`;
});
