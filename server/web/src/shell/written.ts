// What a model says: the text that it writes on or its translation, and the heads that it is without.
import { computed } from '@preact/signals';
import { proseOf } from '../parts/join';
import { make, run } from '../store/run';
import { look, type Source } from '../store/state';
import { writing } from '../store/writing';
import { readingOf, sentenceOf } from './sentence';

interface Written {
  asked: string;
  added: string; // what the model says
  goesOn: boolean; // `added` continues `asked`
  isGoing: boolean; // the model still writes
}

export const written = computed((): Written | null => {
  const of = sentenceOf(look.value.source);
  const at = run.value;
  const text = at?.texts.at(-1); // of the decoder, if there is one
  if (!of || !at || !text || at.sites.at(-1)?.kind === 'encoder') return null;
  const asked = of.text.trim();
  const goesOn = readingOf(of.model).writes === true;
  const all = proseOf(text.tokens, new Set(text.special));
  const isWhole = all.toLowerCase().startsWith(asked.toLowerCase());
  const now = writing.value?.run === at.id ? writing.value : null;
  const added = goesOn ? (now?.text ?? (isWhole ? all.slice(asked.length) : '')) : all;
  return { asked, added, goesOn, isGoing: now !== null };
});

// A head that is ablated: its output becomes 0.
export interface Ablated {
  site: 'encoder' | 'decoder' | 'cross';
  layer: number;
  head: number;
}

export const ablatedOf = (source: Source | null): readonly Ablated[] =>
  Array.isArray(source?.body.ablate) ? (source.body.ablate as Ablated[]) : [];

export const isSame = (a: Ablated, b: Ablated): boolean =>
  a.site === b.site && a.layer === b.layer && a.head === b.head;

// Makes the run anew without these heads.
export function ablate(heads: readonly Ablated[]): void {
  const { source } = look.value;
  if (!source) return;
  const body = { ...source.body };
  delete body.ablate;
  void make({ ...source, body: heads.length ? { ...body, ablate: heads } : body }, { keep: true });
}
