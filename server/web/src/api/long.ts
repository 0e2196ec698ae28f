// Looks and requests that may take long. The service answers at once what is short or kept. For
// everything else it makes a job, and the page asks for the job once a second. The service ends a
// job for which no client asks any more.
import { useEffect, useState } from 'preact/hooks';
import type { components } from './schema';
import { ask, askJson, Problem, type Options } from './client';
import { describe, type Run } from './runs';

type Job = components['schemas']['Job'];

export interface Progress {
  share: number; // from 0 to 1
  ahead: number; // jobs that come before it
  job: string; // '': the service has not made a job of it
}

const PAUSE = 1000; // ms between two questions about a job

const pause = (ms: number, stop: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    stop.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        reject(stop.reason as Error);
      },
      { once: true },
    );
  });

// Waits until a job ends, and gives its last description.
async function follow(reply: Response, stop: AbortSignal, tell: (at: Progress) => void): Promise<Job> {
  let job = (await reply.json()) as Job;
  while (job.state === 'queued' || job.state === 'running') {
    tell({ share: job.progress, ahead: job.num_ahead ?? 0, job: job.id });
    await pause(PAUSE, stop);
    job = await askJson<Job>(`v1/jobs/${job.id}`, { signal: stop });
  }
  if (job.state === 'failed')
    throw new Problem(500, { title: 'The work failed', status: 500, detail: job.error ?? 'the job failed' });
  return job;
}

const end = (job: string): void => {
  void ask(`v1/jobs/${job}/cancel`, { method: 'POST' }).catch(() => undefined);
};

export async function longLook(
  path: string,
  accept: string,
  stop: AbortSignal,
  tell: (at: Progress) => void,
  json?: unknown,
): Promise<Response> {
  for (;;) {
    const reply = await ask(path, { accept, json, headers: { Prefer: 'respond-async' }, signal: stop });
    if (reply.status !== 202) return reply;
    // If the job is done, the request now gets its answer. If the job was cancelled, the request
    // orders a new one. Another tab may have cancelled it, or the service, because timers stop in a
    // hidden page and no client asked for the job.
    await follow(reply, stop, tell);
  }
}

// A request that stores a run. If the service makes a job of it, the result has the run and no
// other member of the answer.
export async function longStore<T extends { run?: Run }>(
  path: string,
  options: Options,
  stop: AbortSignal,
  tell: (at: Progress) => void,
): Promise<T> {
  const reply = await ask(path, {
    ...options,
    accept: 'application/json',
    headers: { Prefer: 'respond-async' },
    signal: stop,
  });
  if (reply.status !== 202) return (await reply.json()) as T;
  let job = '';
  try {
    const done = await follow(reply, stop, (at) => {
      job = at.job;
      tell(at);
    });
    if (done.state !== 'done')
      throw new Problem(500, {
        title: 'The work ended early',
        status: 500,
        detail: `the job was ${done.state}`,
      });
    return { run: await describe(done.run ?? '', stop) } as T;
  } catch (error) {
    if (stop.aborted && job) end(job);
    throw error;
  }
}

export interface Look<T> {
  value: T | null;
  progress: Progress | null; // null: nothing is under way
  why: string; // what went wrong
  cancel: () => void;
  again: () => void;
}

const KEPT = 60;
const kept = new Map<string, unknown>();

function keep(name: string, value: unknown): void {
  kept.set(name, value);
  for (const oldest of kept.keys()) {
    if (kept.size <= KEPT) break;
    kept.delete(oldest);
  }
}

// A look of a component: it begins when `path` is known and stops when the component goes. The
// answers of closed runs never change and are kept. `json`: the body of the request, if it has one;
// a fragment of `path` then tells apart what is kept.
export function useLook<T>(
  path: string | null,
  accept: string,
  read: (reply: Response) => Promise<T>,
  closed = true,
  json?: unknown,
): Look<T> {
  const [state, set] = useState<{
    path: string | null;
    value: T | null;
    progress: Progress | null;
    why: string;
    stop?: AbortController;
  }>({ path: null, value: null, progress: null, why: '' });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null) {
      set({ path, value: null, progress: null, why: '' });
      return undefined;
    }
    if (kept.has(path)) {
      set({ path, value: kept.get(path) as T, progress: null, why: '' });
      return undefined;
    }
    const stop = new AbortController();
    set({ path, value: null, progress: { share: 0, ahead: 0, job: '' }, why: '', stop });
    const tell = (progress: Progress): void => {
      if (!stop.signal.aborted) set({ path, value: null, progress, why: '', stop });
    };
    longLook(path, accept, stop.signal, tell, json)
      .then(read)
      .then((value) => {
        if (stop.signal.aborted) return;
        if (closed) keep(path, value);
        set({ path, value, progress: null, why: '' });
      })
      .catch((error: unknown) => {
        if (stop.signal.aborted) return;
        set({
          path,
          value: null,
          progress: null,
          why: error instanceof Error ? error.message : String(error),
        });
      });
    return () => stop.abort();
  }, [path, turn, closed]);
  const now = state.path === path ? state : { value: null, progress: null, why: '' };
  return {
    value: now.value,
    progress: now.progress,
    why: now.why,
    cancel: () => {
      const { stop, progress } = state;
      stop?.abort();
      if (progress?.job) end(progress.job);
      set({ path, value: null, progress: null, why: 'It was cancelled.' });
    },
    again: () => setTurn(turn + 1),
  };
}
