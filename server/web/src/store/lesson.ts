// The lesson that is given, if there is one.
import { signal } from '@preact/signals';
import type { Lesson } from '../api/lessons';

export interface Running {
  lesson: Lesson;
  name: string; // what the address calls it: its id or where it is; '': it was a file
  step: number;
}
export const running = signal<Running | null>(null);
export const presenting = signal(false);

// The numbers of the steps that were answered or passed, by the id of the lesson.
type Progress = Record<string, readonly number[]>;
const KEPT = 'attnd-lessons';
function kept(): Progress {
  try {
    return (JSON.parse(localStorage.getItem(KEPT) ?? '{}') ?? {}) as Progress;
  } catch {
    return {}; // storage is switched off, or another program wrote there
  }
}
export const progress = signal<Progress>(kept());

function keep(next: Progress): void {
  progress.value = next;
  try {
    localStorage.setItem(KEPT, JSON.stringify(next));
  } catch {
    /* progress lasts as long as the page */
  }
}

export const doneOf = (id: string): readonly number[] => {
  const list = progress.value[id];
  return Array.isArray(list) ? list : [];
};

export function tick(id: string, step: number): void {
  if (!doneOf(id).includes(step)) keep({ ...progress.value, [id]: [...doneOf(id), step] });
}

export function forget(id: string): void {
  const { [id]: _, ...rest } = progress.value;
  keep(rest);
}
