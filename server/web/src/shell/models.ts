// The models that read a sentence, and the words of those that know whole words alone.
import { computed, signal } from '@preact/signals';
import { askJson } from '../api/client';
import type { components } from '../api/schema';

type Schemas = components['schemas'];
type Model = Schemas['Models']['models'][number];

export const models = signal<Model[]>([]);
export const areLoaded = signal(false);
const vocabularies = signal<Record<string, ReadonlySet<string>>>({});

// Words in the order of a text, in lower case, as models of whole words read them.
const wordsOf = (text: string): string[] =>
  text.toLowerCase().match(/[\p{L}\p{N}]+(?:['’][\p{L}]+)?/gu) ?? [];

// The side whose words a model reads. A decoder alone reads those that it writes.
const sideOf = (m: Model): 'source' | 'target' => (m.source ? 'source' : 'target');

// The list of models is fetched once: for the first visit, or when somebody wants to choose a model.
let asked: Promise<void> | null = null;
export function loadModels(): Promise<void> {
  asked ??= askJson<Schemas['Models']>('v1/models').then(
    (answer) => {
      models.value = answer.models.filter((m) => m[sideOf(m)]?.words);
      areLoaded.value = true;
    },
    () => {
      asked = null;
    },
  );
  return asked;
}

// How a command gets the models that people know, and how it serves them.
export const GET = 'make models';
export const SERVE = 'build/attnd --models-dir build/models';

// Models whose files another program wrote, which the service reads as they are.
export const isKnown = (id: string): boolean => models.value.some((m) => m.id === id && m.family);

// As people write the names of the models that `make models` gets; others have their id.
const names: Record<string, string> = { smollm2: 'SmolLM2', minilm: 'MiniLM' };

function sizeOf(parameters: number): string {
  const [unit, name] =
    parameters >= 1e9 ? [1e9, 'billion'] : parameters >= 1e6 ? [1e6, 'million'] : [1e3, 'thousand'];
  return `${Number((parameters / unit).toPrecision(parameters < 10 * unit ? 2 : 3))} ${name} parameters`;
}

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

function doesOf(m: Model): string {
  if (m.architecture === 'decoder') return 'writes on';
  if (m.architecture === 'encoder') return 'reads';
  const [from, to] = [m.source?.language, m.target?.language];
  return from && to ? `${capital(from)} to ${capital(to)}` : 'translates';
}

export function describe(m: Model): string {
  if (m.origin === 'embedded')
    return `${m.id}, a toy: ${doesOf(m)}, ${m.source?.subwords ? 'pieces of words' : 'whole words'}`;
  return `${names[m.id] ?? m.id}, ${sizeOf(m.num_parameters.total)}, ${doesOf(m)}`;
}

// The models as groups of a list, those that people know first.
export const groups = computed((): [string, Model[]][] => {
  const of = (title: string, belongs: (m: Model) => boolean): [string, Model[]] => [
    title,
    models.value.filter(belongs),
  ];
  return [
    of('Language models', (m) => m.family !== undefined),
    of('Built in', (m) => m.origin === 'embedded'),
    of('Your own', (m) => m.family === undefined && m.origin !== 'embedded'),
  ];
});

export function loadVocabulary(id: string): void {
  const model = models.value.find((m) => m.id === id);
  const side = model && sideOf(model);
  if (vocabularies.value[id] || !side || model[side]?.subwords) return;
  vocabularies.value = { ...vocabularies.value, [id]: new Set() };
  askJson<Schemas['ModelVocabulary']>(`v1/models/${id}/vocabulary?side=${side}`).then(
    (answer) => {
      vocabularies.value = { ...vocabularies.value, [id]: new Set(answer[side]?.words ?? []) };
    },
    () => undefined,
  );
}

export const vocabularyOf = computed(
  () =>
    (id: string): ReadonlySet<string> =>
      vocabularies.value[id] ?? new Set(),
);

// The words of a text that the model reads as unknown.
export function unknownWords(id: string, text: string): string[] {
  const known = vocabularyOf.value(id);
  if (!known.size) return [];
  // The word that is being typed is not judged yet.
  const done = /[\p{L}\p{N}]$/u.test(text) ? wordsOf(text).slice(0, -1) : wordsOf(text);
  const parts = (word: string): string[] => word.split(/(?=['’])/);
  return [...new Set(done)].filter(
    (word) => !known.has(word) && !parts(word).every((part) => known.has(part)),
  );
}

// Texts that go on with a word of the vocabulary.
export function completions(id: string, text: string): string[] {
  const match = /^(.*?)([\p{L}\p{N}]+)$/su.exec(text);
  if (!match) return [];
  const [, before = '', begun = ''] = match;
  return [...vocabularyOf.value(id)]
    .filter((word) => word.startsWith(begun.toLowerCase()) && word !== begun.toLowerCase())
    .slice(0, 8)
    .map((word) => before + word);
}
