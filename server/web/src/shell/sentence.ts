// The sentence that the shipped model translates: the first visit's, and the one that is typed.
import { make } from '../store/run';
import type { Source } from '../store/state';

export const MODEL = 'en-fr-text';

export const samples: readonly string[] = [
  'My brother bought a big red car.',
  'The cat sat on the mat.',
  'She lives in a small white house near the river.',
  'The big white house is old.',
  "I don't like the red car.",
];

export const translate = (text: string, model = MODEL): Source => ({
  path: `v1/models/${model}/generate`,
  body: { text, return: [], offset_unit: 'utf16' },
});

export const firstSentence = (): Source => translate(samples[0] as string);

// Shows what the first visit shows.
export const beginAnew = (): void => {
  void make(firstSentence(), { view: 'words' });
};

// The text and the model of a source that translates; null: it does something else.
export function sentenceOf(source: Source | null): { text: string; model: string } | null {
  const match = /^v1\/models\/([\w.-]+)\/generate$/.exec(source?.path ?? '');
  const text = source?.body.text;
  return match && typeof text === 'string' ? { text, model: match[1] as string } : null;
}
