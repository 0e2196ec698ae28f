// The run that is shown: its description, its sites and the tokens along their axes. A run that has
// expired is made again from its request, if the address has it.
import { computed, effect, signal } from '@preact/signals';
import { askJson, Problem } from '../api/client';
import { describe, isOpen, type Run, type Site } from '../api/runs';
import { nameOf, noTokens, tokensOf, type Tokens } from '../api/texts';
import { change } from './history';
import { announce, look, type Look, type Source } from './state';

export const run = signal<Run | null>(null);
export const trouble = signal<Problem | null>(null); // why there is no run, or none of what was asked for
export const working = signal(false); // a run is being made or opened

export const site = computed<Site | null>(() => {
  const found = run.value?.sites[look.value.site] ?? run.value?.sites[0];
  return isOpen(found) ? found : null;
});

export type Axis = Tokens;
export { nameOf };

const axis = (side: 'query' | 'key'): Axis =>
  (site.value && run.value ? tokensOf(run.value, site.value, side, look.value.batch) : noTokens);

export const queries = computed<Axis>(() => axis('query'));
export const keys = computed<Axis>(() => axis('key'));

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
