// The run that is shown: its description, its sites and the tokens along their axes. A run that has
// expired is made again from its request, if the address has it. A run that grows is followed.
import { batch, computed, effect, signal } from '@preact/signals';
import { askJson, Problem } from '../api/client';
import { longStore, type Progress } from '../api/long';
import { describe, isOpen, row, type Run, type Site, whole, WHOLE_MOST } from '../api/runs';
import { nameOf, noTokens, tokensOf, type Tokens } from '../api/texts';
import { change } from './history';
import { announce, look, run, shown, type Look, type Source } from './state';

export { run };
export const trouble = signal<Problem | null>(null); // why there is no run, or none of what was asked for
export const working = signal(false); // a run is being made or opened

export const site = computed<Site | null>(() => {
  const found = run.value?.sites[look.value.site] ?? run.value?.sites[0];
  return isOpen(found) ? found : null;
});

// The head that is shown, in words.
export const headInWords = computed(() =>
  look.value.head === 'mean' ? `mean of ${site.value?.num_heads ?? 0} heads` : `head ${look.value.head}`,
);

export type Axis = Tokens;
export { nameOf };

const axis = (side: 'query' | 'key'): Axis =>
  site.value && run.value ? tokensOf(run.value, site.value, side, look.value.batch) : noTokens;

export const queries = computed<Axis>(() => axis('query'));
export const keys = computed<Axis>(() => axis('key'));

// The site and head that are shown first: for a model, the cross attention of the last layer.
export function first(at: Run): { site: number; head: number | 'mean' } {
  const sites = at.sites;
  let best = sites.length - 1;
  sites.forEach((s, i) => {
    if (s.kind === 'cross') best = i;
  });
  const index = Math.max(best, 0);
  return { site: index, head: (sites[index]?.num_heads ?? 1) > 1 ? 'mean' : 0 };
}

interface Answer {
  run?: Run;
}

interface Making<T> {
  view?: string;
  keep?: boolean;
  at?: Partial<Look>;
  lasting?: () => boolean; // whether it is a step of its own for undo; else the state before is not kept
  made?: (answer: T) => void; // called before the run is shown
  tell?: (at: Progress) => void; // the service may make a job of it, whose progress is told
}

// Makes a run of a request and shows it, at the place that `at` names. A later call replaces a call
// that is still under way.
let latest = 0;
let stop: AbortController | null = null;
export async function make<T extends Answer>(source: Source, patch: Making<T> = {}): Promise<T | null> {
  const mine = ++latest;
  stop?.abort();
  stop = new AbortController();
  working.value = true;
  try {
    const json = { ...source.body, store: true };
    const answer = await (patch.tell
      ? longStore<T>(source.path, { json }, stop.signal, patch.tell)
      : askJson<T>(source.path, { json, signal: stop.signal }));
    if (mine !== latest || !answer.run?.id) return null;
    const made = answer.run;
    trouble.value = null;
    patch.made?.(answer);
    const same = patch.keep && made.sites.length > look.value.site;
    batch(() => {
      run.value = made;
      change(
        {
          run: made.id,
          source,
          q: -1,
          k: -1,
          pins: [],
          port: null,
          batch: 0,
          range: null,
          ...(same ? {} : first(made)),
          ...(patch.view ? { view: patch.view } : {}),
          ...patch.at,
        },
        look.value.run !== '' && (patch.lasting?.() ?? true),
      );
    });
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

// Ends the request that is under way.
export const cancel = (): void => stop?.abort();

// What a run was made of in this page, if that is a file: no permalink can hold it.
export const ownFile = signal<{ run: string; name: string; make: () => Promise<Blob> } | null>(null);

// Opens the run that `look` names, whenever that changes.
export function keepRun(): void {
  effect(() => {
    const { run: id, source } = look.value;
    if (!id || run.peek()?.id === id) return;
    const mine = ++latest;
    working.value = true;
    describe(id).then(
      (found) => {
        if (mine !== latest) return;
        run.value = found;
        trouble.value = null;
        working.value = false;
      },
      (error: unknown) => {
        if (mine !== latest) return;
        working.value = false;
        if (!(error instanceof Problem)) throw error;
        if (error.isGone && source) {
          const { site: s, head: h, q, k, pins, port, batch, range, view } = look.value;
          void make(source).then((made) => {
            if (made) change({ site: s, head: h, q, k, pins, port, batch, range, view }, false);
          });
        } else {
          trouble.value = error;
        }
      },
    );
  });
}

const PAUSE = 1000; // ms between two questions about a run that grows

// The number of rows so far of a run that grows; 0: it does not.
export const growing = computed(() =>
  run.value?.state === 'open' && !trouble.value ? (run.value.num_rows ?? 0) : 0,
);

// Asks for what the views will need when a run has grown. Until the answers come, the views show
// the rows from before.
async function prepare(found: Run): Promise<void> {
  const at = found.sites[look.value.site] ?? found.sites[0];
  if (!isOpen(at)) return;
  const { run: id, site: s, batch, head } = look.value;
  const of = {
    run: id,
    site: s,
    batch,
    head,
    size: found.state === 'open' ? { queries: at.num_queries, keys: at.num_keys } : undefined,
  };
  const { q } = shown.value;
  await Promise.allSettled([
    at.num_queries * at.num_keys <= WHOLE_MOST ? whole(of) : null,
    q >= 0 && q < at.num_queries ? row(of, q) : null,
  ]);
}

// Follows a run that grows: once a second, while the page is seen, until the run is closed or gone.
export function keepGrowing(): void {
  let timer = 0;
  let asking = false;
  const follow = async (id: string): Promise<void> => {
    asking = true;
    try {
      const found = await describe(id);
      const isOther = (): boolean => run.value?.id !== id || look.value.run !== id;
      if (found.state === 'open' && found.num_rows === run.value?.num_rows) return;
      await prepare(found);
      if (isOther()) return;
      run.value = found;
      if (found.state === 'closed') announce(`the run is complete: ${found.num_rows ?? 0} rows`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (run.value?.id === id) trouble.value = error;
    } finally {
      asking = false;
      plan();
    }
  };
  const plan = (): void => {
    clearTimeout(timer);
    const { id } = run.peek() ?? {};
    if (id && growing.peek() && !asking && !document.hidden)
      timer = window.setTimeout(() => {
        void follow(id);
      }, PAUSE);
  };
  effect(() => {
    void growing.value;
    plan();
  });
  document.addEventListener('visibilitychange', plan);
}
