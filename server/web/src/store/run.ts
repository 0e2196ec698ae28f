// The run that is shown: its description, its sites and the tokens along their axes. A run that has
// expired is made again from its request, if the address has it. A run that grows is followed.
import { batch, computed, effect, signal } from '@preact/signals';
import { askJson, Problem } from '../api/client';
import { longStore, type Progress } from '../api/long';
import { describe, isOpen, row, type Run, type Site, whole, WHOLE_MOST } from '../api/runs';
import { noTokens, tokensOf, type Tokens } from '../api/texts';
import { labelsOf } from '../parts/join';
import { change } from './history';
import { announce, look, run, shown, type Look, type Source } from './state';
import { chosen, isStreamed, write, writing, type Step } from './writing';

export { run };
export const trouble = signal<Problem | null>(null); // why there is no run, or none of what was asked for
export const working = signal(false); // a run is being made or opened

export const site = computed<Site | null>(() => {
  const found = run.value?.sites[look.value.site] ?? run.value?.sites[0];
  return isOpen(found) ? found : null;
});

// The model of a run that was made of finished weights: it has no queries and keys.
export const FINISHED = 'finished weights of ';
export const isFinished = computed(() => run.value?.model?.startsWith(FINISHED) ?? false);

// The head that is shown, in words.
export const headInWords = computed(() =>
  look.value.head === 'mean' ? `mean of ${site.value?.num_heads ?? 0} heads` : `head ${look.value.head}`,
);

export type Axis = Tokens;
export const nameOf = ({ tokens, special }: Axis, index: number): string =>
  (tokens && labelsOf(tokens, special)[index]) ?? String(index);

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

export interface Answer {
  run?: Run;
  sequences?: readonly { steps?: readonly Step[] }[];
}

interface Making<T> {
  view?: string;
  keep?: boolean;
  at?: Partial<Look>;
  lasting?: () => boolean; // whether it is a step of its own for undo; else the state before is not kept
  made?: (answer: T) => void; // called before the run is shown
  tell?: (at: Progress) => void; // the service may make a job of it, whose progress is told
}

// Shows a run that was made, or that begins to grow.
function show<T>(made: Run, source: Source, patch: Making<T>): void {
  trouble.value = null;
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
        example: '',
        ...(same ? {} : first(made)),
        ...(patch.view ? { view: patch.view } : {}),
        ...patch.at,
      },
      look.value.run !== '' && (patch.lasting?.() ?? true),
    );
  });
}

// Makes a run of a request and shows it, at the place that `at` names. A later call replaces a call
// that is still under way.
let latest = 0;
let stop: AbortController | null = null;
let left = ''; // the run that grew when its request was ended, which the service then discards
function leave(): number {
  if (writing.peek()) left = look.peek().run; // keepRun must not begin anew with each word that is written
  writing.value = null;
  stop?.abort();
  return ++latest;
}

export async function make<T extends Answer>(source: Source, patch: Making<T> = {}): Promise<T | null> {
  const mine = leave();
  stop = new AbortController();
  const end = stop.signal;
  working.value = true;
  try {
    const json = { ...source.body, store: true };
    const begin = (made: Run): void => show(made, source, patch);
    const answer = await (patch.tell
      ? longStore<T>(source.path, { json }, end, patch.tell)
      : isStreamed(source)
        ? write<T>(source.path, json, end, begin, hasten)
        : askJson<T>(source.path, { json, signal: end }));
    if (mine !== latest || !answer.run?.id) return null;
    const made = answer.run;
    const steps = answer.sequences?.[0]?.steps;
    if (steps) chosen.value = { run: made.id, steps };
    patch.made?.(answer);
    if (look.value.run === made.id) {
      await prepare(made);
      if (mine !== latest) return null;
      run.value = made;
      tellEnd(made);
    } else show(made, source, patch);
    return answer;
  } catch (error) {
    if (mine === latest && error instanceof Problem) {
      trouble.value = error;
      announce(error.message);
    }
    return null;
  } finally {
    if (mine === latest) {
      working.value = false;
      writing.value = null;
    }
  }
}

// Ends a text where it is. A run that is left is discarded, so the run of the shorter text is made.
export function endWriting(): void {
  const { source } = look.value;
  const steps = writing.value?.steps;
  if (!source || !steps) return;
  const body: Source['body'] = { ...source.body, max_length: steps };
  delete body.stream;
  void make({ ...source, body }, { keep: true, lasting: () => false });
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
    const mine = leave();
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
          const { site: s, head: h, q, k, pins, port, batch, range, view, example } = look.value;
          void make(source).then((made) => {
            if (made) change({ site: s, head: h, q, k, pins, port, batch, range, view, example }, false);
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

const tellEnd = (of: Run): void => announce(`the run is complete: ${of.num_rows ?? 0} rows`);

// Follows a run that grows, while the page is seen, until the run is closed or gone: once a second,
// and sooner when an event says that there is a new row.
const SOONER = 150; // ms
let timer = 0;
let asking = false;
let sooner = false;

async function follow(id: string): Promise<void> {
  asking = true;
  sooner = false;
  try {
    const found = await describe(id);
    if (found.state === 'open' && found.num_rows === run.value?.num_rows) return;
    await prepare(found);
    if (run.value?.id !== id || look.value.run !== id || left === id) return;
    run.value = found;
    if (found.state === 'closed') tellEnd(found);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (run.value?.id === id && left !== id) trouble.value = error;
  } finally {
    asking = false;
    plan();
  }
}

function plan(): void {
  clearTimeout(timer);
  const { id } = run.peek() ?? {};
  if (id && id !== left && growing.peek() && !asking && !document.hidden)
    timer = window.setTimeout(
      () => {
        void follow(id);
      },
      sooner ? SOONER : PAUSE,
    );
}

function hasten(): void {
  if (sooner) return;
  sooner = true;
  plan();
}

export function keepGrowing(): void {
  effect(() => {
    void growing.value;
    plan();
  });
  document.addEventListener('visibilitychange', plan);
}
