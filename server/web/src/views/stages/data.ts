// The stages of one row: from the products of a query and the keys to the weights.
import { ask, askJson } from '../../api/client';
import { cell, type Cell, type Head, type Site } from '../../api/runs';
import { readTensors, type Tensor } from '../../api/safetensors';

export const STAGES = ['raw', 'scaled', 'softcapped', 'biased', 'probs'] as const;
export type Stage = (typeof STAGES)[number];

export type Numbers = Float32Array | Float64Array;

export interface Stages extends Record<Stage, Numbers> {
  head: Head;
  q: number;
  hidden: [number, number][]; // keys [from, to)
}

export function numbersOf(tensor: Tensor): Numbers {
  const bytes = tensor.data.slice().buffer;
  if (tensor.dtype === 'F32') return new Float32Array(bytes);
  if (tensor.dtype === 'F64') return new Float64Array(bytes);
  throw new Error(`expected F32 or F64, found ${tensor.dtype}`);
}

const fields = (head: Head): string => `site=${head.site}&batch=${head.batch}&head=${head.head}`;

interface Part {
  numbers: Numbers;
  hidden: [number, number, number][];
}

// `rows` may be '' for all of them.
export async function stageOf(head: Head, stage: Stage, rows: string, stop?: AbortSignal): Promise<Part> {
  const shown = `${rows && `&rows=${rows}`}&stage=${stage}${stage === 'probs' ? '&hidden=true' : ''}`;
  const path = `v1/runs/${head.run}/weights?${fields(head)}${shown}`;
  const reply = await ask(path, { accept: 'application/vnd.safetensors', signal: stop });
  const { metadata, tensors } = readTensors(await reply.arrayBuffer());
  const tensor =
    tensors.get(stage === 'probs' ? 'weights' : 'scores') ?? tensors.get('weights') ?? tensors.get('scores');
  if (!tensor) throw new Error('the answer has no numbers');
  const response = JSON.parse(metadata.response ?? '{}') as { hidden?: [number, number, number][] };
  return { numbers: numbersOf(tensor), hidden: response.hidden ?? [] };
}

export async function readStages(head: Head, q: number, stop: AbortSignal): Promise<Stages> {
  const parts = await Promise.all(STAGES.map((stage) => stageOf(head, stage, String(q), stop)));
  const all = {} as Record<Stage, Numbers>;
  STAGES.forEach((stage, i) => {
    all[stage] = (parts[i] as Part).numbers;
  });
  return { ...all, head, q, hidden: (parts[4] as Part).hidden.map(([, from, to]) => [from, to]) };
}

export const isHidden = (s: Stages, key: number): boolean =>
  s.hidden.some(([from, to]) => key >= from && key < to);

// Stages that leave every number of the row as it was; the words say why.
export function idle(s: Stages, site: Site): Partial<Record<Stage, string>> {
  const same = (a: Numbers, b: Numbers): boolean => a.every((x, i) => Object.is(x, b[i]) || isHidden(s, i));
  const words: Partial<Record<Stage, string>> = {};
  if (same(s.raw, s.scaled))
    words.scaled =
      site.scale === 1 ? 'the scale is 1, so nothing changes' : 'the scale changes nothing in this row';
  if (!site.softcap) words.softcapped = 'there is no softcap, so nothing changes';
  if (s.hidden.length === 0 && same(s.softcapped, s.biased))
    words.biased = 'no bias and no mask changes this row';
  return words;
}

// The keys with the largest weights among those that the query sees.
export const order = (s: Stages, count: number): number[] => {
  const list = Array.from({ length: s.probs.length }, (_, i) => i).filter((i) => !isHidden(s, i));
  list.sort((a, b) => (s.probs[b] as number) - (s.probs[a] as number) || a - b);
  return list.slice(0, count);
};

export function largest(s: Stages): number {
  let best = 0;
  s.probs.forEach((x, i) => {
    if (x > (s.probs[best] as number)) best = i;
  });
  return best;
}

// What hides keys, by cell. Asked for when such a cell comes into sight.
const causes = new Map<string, Promise<string[]>>();
export function hiddenBy(head: Head, q: number, k: number): Promise<string[]> {
  const path = `v1/runs/${head.run}/cells?${fields(head)}&row=${q}&col=${k}&fields=hidden_by`;
  let answer = causes.get(path);
  if (!answer) {
    answer = askJson<Cell>(path).then((c) => c.hidden_by ?? []);
    causes.set(path, answer);
    answer.catch(() => causes.delete(path));
    if (causes.size > 2000) causes.clear();
  }
  return answer;
}

// The value of a key: the output of the row if the mask left this key alone, divided by the weight
// that it then has: 1 with softmax without sinks. null: the run keeps no values, or the row does not
// see the key.
export const VALUES_MOST = 512; // keys of which all but one are named in such a request

interface WhatIf {
  output?: number[][];
  weights?: (number | null)[][];
  output_before?: number[][];
}

const whatIf = (
  head: Head,
  q: number,
  hide: number[],
  what: (keyof WhatIf)[],
  stop?: AbortSignal,
): Promise<WhatIf> =>
  askJson<WhatIf>(`v1/runs/${head.run}/what-if`, {
    json: {
      site: String(head.site),
      batch: head.batch,
      head: head.head,
      rows: String(q),
      hide,
      return: what,
    },
    signal: stop,
  });

export const outputOf = (head: Head, q: number, stop?: AbortSignal): Promise<number[] | null> =>
  whatIf(head, q, [], ['output_before'], stop).then((answer) => answer.output_before?.[0] ?? null);

export async function valueOfKey(
  head: Head,
  q: number,
  k: number,
  keys: number,
  stop?: AbortSignal,
): Promise<number[] | null> {
  const others = Array.from({ length: keys }, (_, i) => i).filter((i) => i !== k);
  const { output, weights } = await whatIf(head, q, others, ['output', 'weights'], stop);
  const weight = weights?.[0]?.[k] ?? 0;
  return weight > 0 ? (output?.[0]?.map((x) => x / weight) ?? null) : null;
}

export { cell, type Cell };
