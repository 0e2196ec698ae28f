// The answer to the request that was edited last. It has all stages of its run, so that the view asks
// for none of them.
import { signal } from '@preact/signals';
import type { Head, Run, Site } from '../../api/runs';
import { STAGES, type Numbers, type Stage, type Stages } from './data';
import { shapeOf, type Body, type Nested } from './source';

export interface Answer {
  run?: Run;
  scores?: Partial<Record<Stage, Nested>>;
  weights?: Nested;
  output?: Nested;
}

const latest = signal<{ run: string; body: Body; answer: Answer } | null>(null);

export function keep(body: Body, answer: Answer): void {
  latest.value = { run: answer.run?.id ?? '', body, answer };
}

// A row of one head in nested lists [.., rows, numbers].
function rowOf(all: Nested | undefined, batch: number, head: number, q: number): (number | null)[] | null {
  const shape = shapeOf(all);
  if (!all || !shape) return null;
  let at: unknown = all;
  shape.slice(0, -2).forEach((length, i) => {
    at = (at as Nested)[Math.min(i === 0 ? batch : head, length - 1)];
  });
  return ((at as Nested)[q] as (number | null)[] | undefined) ?? null;
}

const hiddenIn = (biased: readonly (number | null)[]): [number, number][] => {
  const hidden: [number, number][] = [];
  biased.forEach((x, k) => {
    const last = hidden.at(-1);
    if (x !== null) return;
    if (last?.[1] === k) last[1] = k + 1;
    else hidden.push([k, k + 1]);
  });
  return hidden;
};

export interface Fresh {
  stages: Stages;
  output: number[] | null;
}

// A row of the shown run as its own answer has it; null: the run came from elsewhere. With mask_fill
// the scores do not tell which keys are hidden.
export function freshRow(head: Head & { head: number }, site: Site, q: number): Fresh | null {
  const found = latest.value;
  if (!found || found.run !== head.run || found.body.mask_fill !== undefined) return null;
  const { scores, weights, output } = found.answer;
  const stages = {} as Stages;
  for (const stage of STAGES) {
    const row = rowOf(stage === 'probs' ? weights : scores?.[stage], head.batch, head.head, q);
    if (!row) return null;
    const list = row.map((x) => x ?? -Infinity);
    const numbers: Numbers = site.dtype === 'float64' ? Float64Array.from(list) : Float32Array.from(list);
    stages[stage] = numbers;
    if (stage === 'biased') stages.hidden = hiddenIn(row);
  }
  return {
    stages: { ...stages, head, q },
    output: rowOf(output, head.batch, head.head, q) as number[] | null,
  };
}
