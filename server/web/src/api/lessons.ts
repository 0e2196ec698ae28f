// Lessons: those of the service, and those of teachers, which come from an address of the same origin or
// from a file. The policy of the page lets it ask no other origin.
import type { components } from './schema';
import { address, ask, askJson } from './client';

type Schemas = components['schemas'];
export type Entry = Schemas['LessonEntry'];
export type Lesson = Schemas['Lesson'];
export type Step = Schemas['LessonStep'];
export type Question = NonNullable<Step['question']>;

const MOST = 256 << 10; // characters of a lesson
const STEPS_MOST = 32;
const ROUTES = /^v1\/(?:attention|models\/[\w.-]+\/(?:attention|generate))$/; // what a lesson may ask for
const VIEWS = /^(?:words|matrix|heads|stages)$/;

export const list = async (): Promise<Entry[]> => (await askJson<Schemas['Lessons']>('v1/lessons')).lessons;

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
const isRow = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isIndex = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 0;

function faultOfQuestion(q: unknown): string {
  if (!isRow(q)) return 'must be an object';
  for (const name of ['ask', 'hint', 'right']) if (!isText(q[name])) return `needs the text "${name}"`;
  if (q.choices !== undefined) {
    const { choices, answer } = q;
    if (!Array.isArray(choices) || choices.length < 2 || !choices.every(isText))
      return 'needs at least two texts in "choices"';
    return isIndex(answer) && (answer as number) < choices.length
      ? ''
      : 'needs the number of a choice in "answer"';
  }
  if (q.click !== undefined) {
    const { click } = q;
    const fits = isRow(click) && [click.query, click.key].some(isIndex);
    return fits ? '' : 'needs "query" or "key" in "click"';
  }
  return typeof q.number === 'number' ? '' : 'needs "choices", "click" or "number"';
}

function faultOfStep(step: unknown): string {
  if (!isRow(step)) return 'must be an object';
  for (const name of ['title', 'text']) if (!isText(step[name])) return `needs the text "${name}"`;
  const { request, look, question, figure } = step;
  if (request !== undefined && !(isRow(request) && ROUTES.test(String(request.path)) && isRow(request.body)))
    return '"request" needs "path", which is v1/attention or v1/models/ID/attention or /generate, and "body"';
  if (look !== undefined && !(isRow(look) && VIEWS.test(String(look.view))))
    return '"look" needs "view", which is words, matrix, heads or stages';
  if (figure !== undefined && !(isRow(figure) && Array.isArray(figure.curves)))
    return '"figure" needs "curves"';
  const fault = question === undefined ? '' : faultOfQuestion(question);
  return fault && `"question" ${fault}`;
}

// Reads the text of a lesson that somebody wrote. Throws an error that says where it is wrong.
export function parse(text: string): Lesson {
  if (text.length > MOST) throw new Error(`a lesson has at most ${MOST} characters, this one ${text.length}`);
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new Error(`this is no JSON: ${(error as Error).message}`);
  }
  if (!isRow(found)) throw new Error('a lesson is a JSON object with "id", "title", "purpose" and "steps"');
  for (const name of ['id', 'title', 'purpose'])
    if (!isText(found[name])) throw new Error(`the lesson needs the text "${name}"`);
  const { steps } = found;
  if (!Array.isArray(steps) || !steps.length || steps.length > STEPS_MOST)
    throw new Error(`the lesson needs 1 to ${STEPS_MOST} "steps"`);
  steps.forEach((step, i) => {
    const fault = faultOfStep(step);
    if (fault) throw new Error(`step ${i + 1} of ${steps.length}: ${fault}`);
  });
  return found as unknown as Lesson;
}

// A lesson by its id, or by its address, which must be of the origin of the page.
export async function fetchLesson(name: string): Promise<Lesson> {
  if (/^[\w-]+$/.test(name)) return askJson<Lesson>(`v1/lessons/${name}`);
  const at = new URL(name, address(''));
  if (at.origin !== location.origin)
    throw new Error(`lessons come from ${location.origin} alone; open a saved file of ${at.host} instead`);
  const reply = await ask(at.href, { accept: 'application/json' });
  return parse(await reply.text());
}
