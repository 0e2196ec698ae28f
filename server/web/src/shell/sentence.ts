// The sentence that a model reads: the first visit's, and the one that is typed.
import type { Run } from '../api/runs';
import { make, type Answer } from '../store/run';
import type { Look, Source } from '../store/state';
import { isKnown, loadModels, models } from './models';

export const MODEL = 'en-fr-text';

export const samples: readonly string[] = [
  'My brother bought a big red car.',
  'The cat sat on the mat.',
  'She lives in a small white house near the river.',
  'The big white house is old.',
  "I don't like the red car.",
];

const knownSamples: readonly string[] = [
  "The animal didn't cross the street because it was too tired",
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

const LOOKS_BACK = 'Which words before it does each word look at?';

// The question that the lines of a source answer; '': they answer none of a sentence.
export function questionOf(source: Source | null, kind: string): string {
  const asked = sentenceOf(source);
  if (!source || !asked) return '';
  const reading = readingOf(asked.model);
  if (reading.kind !== kind) return '';
  return kind === 'decoder' && source.path.endsWith('/attention') ? LOOKS_BACK : reading.question;
}

export const readingOf = (model: string): Reading =>
  readings[models.value.find((m) => m.id === model)?.architecture ?? ''] ?? translation;

export const ALTERNATIVES = 5; // of each token that a model chooses

// `ablate`: heads that the model is without.
export function read(text: string, model = MODEL, ablate: readonly unknown[] = []): Source {
  const { route, writes } = readingOf(model);
  const body: Source['body'] = { text, return: [], offset_unit: 'utf16' };
  if (route === 'generate') body.num_alternatives = ALTERNATIVES;
  if (writes) body.stream = true;
  if (ablate.length) body.ablate = ablate;
  return { path: `v1/models/${model}/${route}`, body };
}

const reads = (text: string, model: string): Source => ({
  path: `v1/models/${model}/attention`,
  body: { text, return: [], offset_unit: 'utf16' },
});

// Where the first visit looks in a model that people know.
interface Place {
  layer: number;
  head: number;
  word: string;
}
const places: Record<string, Place> = { smollm2: { layer: 13, head: 8, word: 'it' } };
const ROOM = 100; // tokens that the sentence of the first visit may have

// The model of the first visit: one that people know, and among these one that writes on.
function firstModel(): string {
  const known = models.value.filter((m) => m.family && m.max_length >= ROOM);
  const best = known.find((m) => places[m.id]) ?? known.find((m) => m.architecture === 'decoder') ?? known[0];
  return best?.id ?? MODEL;
}

function spotIn(run: Run, { layer, head, word }: Place): Partial<Look> {
  if ((run.sites[layer]?.num_heads ?? 0) <= head) return {};
  const q = run.texts[0]?.tokens.findIndex((t) => t.replace(/^[Ġ▁]/, '') === word) ?? -1;
  return { site: layer, head, q };
}

// Shows what the first visit shows: a language model if there is one, else the small translation.
export async function beginAnew(view = 'words'): Promise<void> {
  await loadModels();
  const model = firstModel();
  const text = samplesOf(model)[0] as string;
  const at: Partial<Look> = {};
  const made = ({ run }: Answer): void => {
    const place = places[model];
    if (run && place) Object.assign(at, spotIn(run, place));
  };
  // A model that people know reads the sentence, so that each row is of the word beside it.
  await make<Answer>(isKnown(model) ? reads(text, model) : read(text, model), { view, at, made });
}

// The text and the model of a source that is a sentence; null: it is something else.
export function sentenceOf(source: Source | null): { text: string; model: string } | null {
  const match = /^v1\/models\/([\w.-]+)\/(?:generate|attention)$/.exec(source?.path ?? '');
  const text = source?.body.text;
  return match && typeof text === 'string' ? { text, model: match[1] as string } : null;
}
