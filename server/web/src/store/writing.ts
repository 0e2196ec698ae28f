// A text that a model writes: its words arrive by events, and the run grows with them.
import { signal } from '@preact/signals';
import { eventsOf } from '../api/events';
import { describe, type Run } from '../api/runs';
import type { components } from '../api/schema';
import type { Source } from './state';

type Token = components['schemas']['GenerationTokenEvent'];
export type Step = components['schemas']['ModelStep'];

const SOON = 200; // ms: what is written sooner is shown when it is whole

// What is written so far; null: nothing is being written.
export const writing = signal<{ run: string; text: string; steps: number } | null>(null);

// The tokens that a model chose for a run, with their alternatives; null: none is known.
export const chosen = signal<{ run: string; steps: readonly Step[] } | null>(null);

// Whether a request is answered by events.
export const isStreamed = (source: Source): boolean => source.body.stream === true;

// Makes the run of such a request. `begin` is called once with the run while it grows, and `grow`
// when it has another row.
export async function write<T>(
  path: string,
  json: unknown,
  stop: AbortSignal,
  begin: (run: Run) => void,
  grow: () => void,
): Promise<T> {
  const since = performance.now();
  let id = '';
  let begun = false;
  for await (const [event, data] of eventsOf(path, { json, signal: stop })) {
    if (event === 'done') return data as T;
    if (event === 'run') ({ id } = data as { id: string });
    if (event !== 'token') continue;
    const { text, token, id: of, index, log_probability, alternatives = [] } = data as Token;
    const before = index ? (writing.value?.text ?? '') : '';
    const probability = log_probability === null ? 0 : Math.exp(log_probability);
    const steps = index ? (chosen.value?.steps ?? []) : [];
    chosen.value = { run: id, steps: [...steps, { token, id: of, probability, alternatives }] };
    writing.value = { run: id, text: before + (text ?? `${token} `), steps: index + 1 };
    if (begun) grow();
    else if (performance.now() - since > SOON) {
      begun = true;
      begin(await describe(id, stop));
    }
  }
  throw new Error('a stream of events has no end');
}
