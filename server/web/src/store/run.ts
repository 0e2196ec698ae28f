// The run that is shown: its description, its sites and the tokens along their axes. A run that has
// expired is made again from its request, if the address has it.
import { computed, effect, signal } from '@preact/signals';
import { askJson, Problem } from '../api/client';
import { describe, isOpen, type Run, type Site } from '../api/runs';
import { change } from './history';
import { announce, look, type Look, type Source } from './state';

export const run = signal<Run | null>(null);
export const trouble = signal<Problem | null>(null); // why there is no run, or none of what was asked for
export const working = signal(false); // a run is being made or opened

export const site = computed<Site | null>(() => {
  const found = run.value?.sites[look.value.site] ?? run.value?.sites[0];
  return isOpen(found) ? found : null;
});

export interface Axis {
  tokens: string[] | null; // null: positions alone
  offsets: [number, number][] | null; // of `text`, in UTF-16
  text: string | null;
  special: Set<number>;
}

const none: Axis = { tokens: null, offsets: null, text: null, special: new Set() };

type Text = Run['texts'][number];

// Offsets of UTF-8 bytes as indices of a JavaScript string.
export function toUtf16(text: string, offsets: readonly (readonly number[])[]): [number, number][] {
  const at = new Map<number, number>();
  let bytes = 0;
  let units = 0;
  at.set(0, 0);
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    units += character.length;
    at.set(bytes, units);
  }
  return offsets.map(([from = 0, to = 0]) => [at.get(from) ?? 0, at.get(to) ?? units]);
}

function axisOf(text: Text | undefined, begin: number, length: number): Axis {
  if (!text) return none;
  const part = <T>(list: readonly T[]): T[] => list.slice(begin, begin + length);
  const offsets = text.text != null && text.offsets ? toUtf16(text.text, text.offsets) : null;
  return {
    tokens: part(text.tokens ?? []),
    offsets: offsets && part(offsets),
    text: text.text ?? null,
    special: new Set((text.special ?? []).map((i) => i - begin)),
  };
}

// A batch entry may have texts of its own: then the site names one of each entry.
const entry = (which: unknown, batch: number): number =>
  Array.isArray(which) ? Number(which[batch] ?? -1) : typeof which === 'number' ? which : -1;

export const queries = computed<Axis>(() => axis('query'));
export const keys = computed<Axis>(() => axis('key'));

function axis(side: 'query' | 'key'): Axis {
  const s = site.value;
  if (!s || !run.value) return none;
  const which = entry(side === 'query' ? s.query_text : s.key_text, look.value.batch);
  const begin = entry(side === 'query' ? s.query_start : s.key_start, look.value.batch);
  return axisOf(run.value.texts[which], Math.max(begin, 0), side === 'query' ? s.queries : s.keys);
}

export const nameOf = (at: Axis, index: number): string => at.tokens?.[index] ?? String(index);

// Which site and head one sees first: of a model the cross attention of the last layer.
export function first(at: Run): { site: number; head: number | 'mean' } {
  const sites = at.sites;
  let best = sites.length - 1;
  sites.forEach((s, i) => { if (s.kind === 'cross') best = i; });
  const index = best < 0 ? 0 : best;
  return { site: index, head: (sites[index]?.heads ?? 1) > 1 ? 'mean' : 0 };
}

interface Answer { run?: Run }

// Makes a run of a request and shows it, at the place `at` names. A later call wins over one under way.
let latest = 0;
let stop: AbortController | null = null;
export async function make<T extends Answer>(source: Source, patch: { view?: string; keep?: boolean; at?: Partial<Look> } = {}): Promise<T | null> {
  const mine = ++latest;
  stop?.abort();
  stop = new AbortController();
  working.value = true;
  try {
    const answer = await askJson<T>(source.path, { json: { ...source.body, store: true }, signal: stop.signal });
    if (mine !== latest || !answer.run?.id) return null;
    const made = answer.run;
    trouble.value = null;
    run.value = made;
    const same = patch.keep && made.sites.length > look.value.site;
    change({ run: made.id, source, q: -1, k: -1, pins: [], port: null, batch: 0, range: null, ...(same ? {} : first(made)), ...(patch.view ? { view: patch.view } : {}), ...patch.at }, look.value.run !== '');
    return answer;
  } catch (error) {
    if (mine === latest && error instanceof Problem) {
      trouble.value = error;
      announce(error.message);
    }
    return null;
  } finally {
    if (mine === latest) working.value = false;
  }
}

// Opens the run that `look` names, whenever that changes.
export function keepRun(): void {
  effect(() => {
    const { run: id, source } = look.value;
    if (!id || run.peek()?.id === id) return;
    const mine = ++latest;
    working.value = true;
    describe(id).then((found) => {
      if (mine !== latest) return;
      run.value = found;
      trouble.value = null;
      working.value = false;
    }, (error: unknown) => {
      if (mine !== latest) return;
      working.value = false;
      if (!(error instanceof Problem)) throw error;
      if (error.isGone && source) {
        const { site: s, head: h, q, k, pins, port, batch, range, view } = look.value;
        void make(source).then((made) => { if (made) change({ site: s, head: h, q, k, pins, port, batch, range, view }, false); });
      } else {
        trouble.value = error;
      }
    });
  });
}
