// What is being looked at. `look` is all that a permalink holds and that undo restores; `hover` is
// where the pointer is, and is never kept.
import { computed, signal } from '@preact/signals';
import type { Head, Run, Size } from '../api/runs';
import type { Picture } from '../parts/picture';

export type Plane = 'max' | 'mean';
export type Transform = 'linear' | 'sqrt' | 'log' | 'row';
export type Colours = 'Blues' | 'viridis' | 'cividis' | 'RdBu';
export type Theme = 'system' | 'light' | 'dark' | 'contrast';

// A request that makes a run: what is sent, and where.
export interface Source {
  path: string; // such as "v1/attention"
  body: Record<string, unknown>;
}

export interface Look {
  view: string; // the id of a view in views/index.ts
  run: string; // '': none yet
  site: number;
  batch: number;
  head: number | 'mean';
  q: number; // the selected query; -1: none
  k: number; // the selected key; -1: none
  pins: number[]; // queries whose rows stay in sight
  plane: Plane;
  transform: Transform;
  colours: Colours;
  range: [number, number] | null; // of the colours; null: that of the head
  port: [number, number, number] | null; // of the matrix: first query, first key, zoom; null: all of it
  source: Source | null; // what made the run; null: it was imported or opened by its address
  hand: Record<string, unknown> | null; // the numbers of By hand; null: its first example
  against: string; // what Compare compares with, as views/compare/changes.ts reads it; '': its first choice
  example: string; // the example of the gallery that made the run, and the number of its case; '': none
}

export const start: Look = {
  view: 'words',
  run: '',
  site: 0,
  batch: 0,
  head: 'mean',
  q: -1,
  k: -1,
  pins: [],
  plane: 'max',
  transform: 'sqrt',
  colours: 'Blues',
  range: null,
  port: null,
  source: null,
  hand: null,
  against: '',
  example: '',
};

export const look = signal<Look>(start);

export interface Hover {
  q: number;
  k: number;
} // -1: none
export const hover = signal<Hover>({ q: -1, k: -1 });

export const isFolded = signal(false); // the pane beside the view is hidden
export const fold = (): void => {
  isFolded.value = !isFolded.value;
};
export const theme = signal<Theme>('system');
export const lettersAreKeys = signal(true);

// What is shown: where the pointer is, else what is selected.
export const shown = computed<Hover>(() => ({
  q: hover.value.q >= 0 ? hover.value.q : look.value.q,
  k: hover.value.k >= 0 ? hover.value.k : look.value.k,
}));

// The description of the run that is shown, or of the one before while it is opened.
export const run = signal<Run | null>(null);

const size = computed<Size | undefined>(() => {
  const at = run.value;
  const site = at?.state === 'open' && at.id === look.value.run ? at.sites[look.value.site] : undefined;
  return site?.num_queries && site.num_keys ? { queries: site.num_queries, keys: site.num_keys } : undefined;
});

// The head that is shown. Its `run` is '' while there is no run, and while another run is opened
// whose sites are not known yet. Nothing can be requested then.
export const head = computed<Head>(() => {
  const { run: id, site, batch, head: h } = look.value;
  return { run: run.value?.id === id ? id : '', site, batch, head: h, size: size.value };
});

// The part of the head that the matrix shows, [from, to) of queries and keys, as far as one has looked
// at it, and the range of its colours; null: all of it.
export const inSight = signal<
  (() => { rows: [number, number]; cols: [number, number]; range: [number, number] | null }) | null
>(null);

// The picture of the view, of views that draw their own for files; the others show the map of the head.
export const drawing = signal<(() => Picture | null) | null>(null);

// The request of a view that shows no run.
export const asked = signal<Source | null>(null);

// A sentence for the live region: errors, pins, ends of long work. Not moves of the pointer.
export const announcement = signal('');
export const announce = (text: string): void => {
  announcement.value = text;
};
