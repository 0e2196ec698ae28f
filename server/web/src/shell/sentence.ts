// The sentence that a model reads: the first visit's, and the one that is typed.
import { make } from '../store/run';
import type { Source } from '../store/state';
import { isKnown, models } from './models';

export const MODEL = 'en-fr-text';

export const samples: readonly string[] = [
  'My brother bought a big red car.',
  'The cat sat on the mat.',
  'She lives in a small white house near the river.',
  'The big white house is old.',
  "I don't like the red car.",
];

const knownSamples: readonly string[] = [
  "The animal didn't cross the street because it was too tired.",
  'When Mary and John went to the shop, John gave a drink to',
  'The keys to the old cabinet are on the table, and the',
  'one two three four one two three',
];

// Sentences to begin with.
export const samplesOf = (model: string): readonly string[] => (isKnown(model) ? knownSamples : samples);

// What a model does with a sentence, which its architecture says.
interface Reading {
  route: 'generate' | 'attention';
  writes?: boolean; // it goes on with the text, whose words are shown as they come
  ask: string;
  kind: string; // of the sites whose lines answer the question
  question: string;
}

const translation: Reading = {
  route: 'generate',
  ask: 'Type an English sentence to translate',
  kind: 'cross',
  question: 'Which words of the sentence does each word of its translation look at?',
};
const readings: Record<string, Reading> = {
  decoder: {
    route: 'generate',
    writes: true,
    ask: 'Type the beginning of a sentence, which the model continues',
    kind: 'decoder',
    question: 'Which words before it does the model look at when it chooses each word?',
  },
  encoder: {
    route: 'attention',
    ask: 'Type a sentence that the model reads',
    kind: 'encoder',
    question: 'Which words of the sentence does each word look at?',
  },
};

export const readingOf = (model: string): Reading =>
  readings[models.value.find((m) => m.id === model)?.architecture ?? ''] ?? translation;

// `ablate`: heads that the model is without.
export function read(text: string, model = MODEL, ablate: readonly unknown[] = []): Source {
  const { route, writes } = readingOf(model);
  const body: Source['body'] = { text, return: [], offset_unit: 'utf16' };
  if (writes) body.stream = true;
  if (ablate.length) body.ablate = ablate;
  return { path: `v1/models/${model}/${route}`, body };
}

export const firstSentence = (): Source => read(samples[0] as string);

// Shows what the first visit shows.
export const beginAnew = (): void => {
  void make(firstSentence(), { view: 'words' });
};

// The text and the model of a source that is a sentence; null: it is something else.
export function sentenceOf(source: Source | null): { text: string; model: string } | null {
  const match = /^v1\/models\/([\w.-]+)\/(?:generate|attention)$/.exec(source?.path ?? '');
  const text = source?.body.text;
  return match && typeof text === 'string' ? { text, model: match[1] as string } : null;
}
