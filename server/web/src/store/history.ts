// Undo and redo: the last 100 looks. This is apart from the browser's Back button, which goes
// through runs, views and heads alone (address.ts).
import { computed, signal } from '@preact/signals';
import { look, type Look } from './state';

const MOST = 100;
const past = signal<Look[]>([]);
const future = signal<Look[]>([]);

export const canUndo = computed(() => past.value.length > 0);
export const canRedo = computed(() => future.value.length > 0);

// Changes the look. Undo can restore the state before the change, unless `lasting` is false, as it
// is during a gesture: then the change belongs to the step before.
export function change(patch: Partial<Look>, lasting = true): void {
  const before = look.value;
  const after = { ...before, ...patch };
  if ((Object.keys(patch) as (keyof Look)[]).every((name) => Object.is(before[name], after[name]))) return;
  if (lasting) {
    past.value = [...past.value.slice(1 - MOST), before];
    future.value = [];
  }
  look.value = after;
}

// Replaces the look by one that was read from an address. Undo cannot restore an earlier look.
export function begin(next: Look): void {
  past.value = [];
  future.value = [];
  look.value = next;
}

export function undo(): void {
  const before = past.value.at(-1);
  if (!before) return;
  past.value = past.value.slice(0, -1);
  future.value = [...future.value, look.value];
  look.value = before;
}

export function redo(): void {
  const after = future.value.at(-1);
  if (!after) return;
  future.value = future.value.slice(0, -1);
  past.value = [...past.value, look.value];
  look.value = after;
}
