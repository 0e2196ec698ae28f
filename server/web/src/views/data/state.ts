// What the view holds: the fields as they are typed, files, weights. It stays while other views are
// shown, and ends with the page.
import { batch, signal } from '@preact/signals';
import { askJson, Problem } from '../../api/client';
import { longStore, type Progress } from '../../api/long';
import { describe, type Run } from '../../api/runs';
import { change } from '../../store/history';
import { cancel, first, make, ownFile, run, trouble } from '../../store/run';
import { announce, type Source } from '../../store/state';
import { fields, type Field } from './fields';
import { limitOf, refuse } from './limits';
import { captureOf } from './asRun';
import { bodyOf, fileOf } from './bodies';
import { BadFile, open, sizeText, type Part, type TensorFile } from './tensors';
import {
  BadText,
  readJson,
  readTable,
  readValue,
  readWords,
  shapeOf,
  sumsToOne,
  times,
  write,
} from './numbers';
import { finished, weightsOf, weightsOfList, weightsOfParts, weightsOfTable } from './finished';
import { layerOf, usualField } from './names';

// The content of a field: a text, a value that is too long to be edited, or a tensor of a file.
export type Content = { text: string } | { held: unknown; what: string } | { part: Part };

export const PATH = 'v1/attention';
const EDITABLE = 4096; // numbers of a tensor that is shown as text

export const contents = signal<Record<string, Content>>({});
export const faults = signal<Record<string, string>>({}); // by field, found before anything is sent
export const answer = signal<Record<string, unknown> | null>(null);
export const files = signal<TensorFile[]>([]);
export const fileTrouble = signal('');
export const said = signal(''); // how the last request ended, if not with a run

// What is under way. `share` is null until the service tells one.
export interface Computing {
  text: string;
  share: number | null;
  cancel: () => void;
}
export const computing = signal<Computing | null>(null);

// The field of a service's error, such as "window" of "/window/0"; '': it names none.
export function faultyField(): string {
  const pointer = trouble.value?.pointer ?? '';
  return pointer.startsWith('/')
    ? (pointer.slice(1).split('/')[0] as string).replace(/~1/g, '/').replace(/~0/g, '~')
    : '';
}

export function setContent(name: string, content: Content | null): void {
  const { [name]: _, ...others } = contents.value;
  contents.value = content ? { ...others, [name]: content } : others;
  const { [name]: fault, ...rest } = faults.value;
  if (fault !== undefined) faults.value = rest;
  if (faultyField() === name) trouble.value = null;
}

const contentOf = (value: unknown, from: string): Content => {
  const shape = shapeOf(value);
  const long = shape ? shape.reduce((a, b) => a * b, 1) > EDITABLE : JSON.stringify(value).length > 50000;
  if (!long) return { text: write(value) };
  return { held: value, what: `${shape?.length ? `${times(shape)} numbers` : 'a long value'} ${from}` };
};

export function fill(body: Record<string, unknown>, from: string): void {
  const made: Record<string, Content> = {};
  for (const [name, value] of Object.entries(body))
    if (name !== 'store' && value !== null) made[name] = contentOf(value, from);
  contents.value = made;
  faults.value = {};
  trouble.value = null;
}

const sent = signal<Record<string, unknown> | null>(null); // the request of the run that came from here

// Fills the form with the request of the run that is shown, unless it came from here.
export function follow(source: Source | null): void {
  if (!source || source.path.replace(/^\//, '') !== PATH || source.body === sent.peek()) return;
  sent.value = source.body;
  finished.value = null;
  fill(source.body, 'of the run');
}

const matrices = ['query', 'key', 'value', 'past_key', 'past_value'];

interface Reading {
  body: Record<string, unknown>;
  parts: Map<string, Part>;
  bad: Record<string, string>;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return text.trim().startsWith('{');
  }
}

function valueIn(field: Field | undefined, text: string): unknown {
  if (field?.kind === 'flag') return text === 'true';
  if (field?.kind === 'choice') return text;
  if (field?.kind === 'number') {
    const value = Number(text);
    if (!Number.isFinite(value)) throw new BadText('Expected a number.');
    return value;
  }
  if (field?.name === 'labels' && !isJson(text)) return readWords(text);
  return readValue(
    text,
    field?.kind === 'tensor',
    field?.choices ?? [],
    matrices.includes(field?.name ?? ''),
  );
}

export function readForm(): Reading {
  const made: Reading = { body: {}, parts: new Map(), bad: {} };
  for (const [name, content] of Object.entries(contents.value)) {
    if ('part' in content) made.parts.set(name, content.part);
    else if ('held' in content) made.body[name] = content.held;
    else if (content.text.trim() !== '') {
      try {
        made.body[name] = valueIn(
          fields.value.find((f) => f.name === name),
          content.text,
        );
      } catch (error) {
        if (!(error instanceof BadText)) throw error;
        made.bad[name] = error.message;
      }
    }
  }
  if (!('query' in made.body) && !made.parts.has('query') && !made.bad.query)
    made.bad.query = 'A query is needed: paste numbers, choose a file, or begin with a sample.';
  return made;
}

export function show(made: Run): void {
  batch(() => {
    run.value = made;
    trouble.value = null;
    change({
      run: made.id,
      source: null,
      view: 'matrix',
      q: -1,
      k: -1,
      pins: [],
      port: null,
      batch: 0,
      range: null,
      ...first(made),
    });
  });
}

type Answer = Record<string, unknown> & { run?: Run };

// Sends the form and shows the run. Returns the field to mend; '': none.
export async function compute(): Promise<string> {
  const { body, parts, bad } = readForm();
  faults.value = bad;
  const [worst] = Object.keys(bad);
  if (worst) {
    trouble.value = null;
    announce(`${worst}: ${bad[worst]}`);
    return worst;
  }
  answer.value = null;
  said.value = '';
  const stop = new AbortController();
  const end = (): void => {
    stop.abort();
    cancel();
    said.value = 'The request is cancelled. The service keeps nothing of it.';
  };
  const tell = (text: string, share: number | null): void => {
    computing.value = { text, share, cancel: end };
  };
  const follow_ = ({ ahead, share }: Progress): void =>
    tell(
      ahead > 0
        ? `It waits for ${ahead} other ${ahead === 1 ? 'job' : 'jobs'}`
        : `The service computes: ${Math.round(100 * share)} %`,
      share,
    );
  tell('The service computes…', null);
  try {
    if (body.dry_run !== true && !parts.size) {
      const before = sent.peek();
      sent.value = body;
      const made = await make<Answer>({ path: PATH, body }, { view: 'matrix', tell: follow_ });
      if (!made) sent.value = before; // the run that is shown is still that of the request before
      answer.value = withoutRun(made);
      return faultyField();
    }
    const request = { ...body, ...(body.dry_run === true ? {} : { store: true }) };
    const made = await send(parts, request, stop.signal, follow_, (bytes, of) =>
      tell(
        bytes < of ? `${sizeText(bytes)} of ${sizeText(of)} sent` : 'The service computes…',
        bytes < of ? bytes / of : null,
      ),
    );
    trouble.value = null;
    answer.value = withoutRun(made);
    if (!made.run) return '';
    const held = parts.size > 0 && [...parts.values()].every((part) => part.form === 'raw');
    if (parts.size)
      ownFile.value = {
        run: made.run.id,
        name: `attention.${held ? 'safetensors' : 'npz'}`,
        make: () => fileOf(parts, body),
      };
    show(made.run);
  } catch (error) {
    if (!stop.signal.aborted) return told(error);
  } finally {
    computing.value = null;
    if (said.value) announce(said.value);
  }
  return '';
}

const withoutRun = (made: Answer | null): Record<string, unknown> | null => {
  if (!made) return null;
  const { run: _, ...rest } = made;
  return Object.keys(rest).length ? rest : null;
};

async function send(
  parts: Map<string, Part>,
  body: Record<string, unknown>,
  stop: AbortSignal,
  tell: (at: Progress) => void,
  progress: (sent: number, of: number) => void,
): Promise<Answer> {
  if (!parts.size) return longStore<Answer>(PATH, { json: body }, stop, tell);
  const { query, type, body: bytes } = await bodyOf('query', parts, body);
  const most = await limitOf('max_body_bytes');
  if (bytes.size > most)
    throw new BadFile(
      refuse('The tensors of this request have', bytes.size, 'requests', most, 'max_body_bytes'),
    );
  return longStore<Answer>(PATH + query, { method: 'POST', body: bytes, type, progress }, stop, tell);
}

function told(error: unknown): string {
  if (error instanceof Problem) trouble.value = error;
  else if (error instanceof BadFile)
    trouble.value = new Problem(0, { title: 'The file cannot be sent', status: 0, detail: error.message });
  else throw error;
  announce(error.message);
  return faultyField();
}

// Below: files.

// The field that a tensor's name stands for: that of the same name, else a usual short form.
export function fieldFor(part: Part): string {
  if (fields.value.some((f) => f.kind === 'tensor' && f.name === part.name)) return part.name;
  return usualField(part.name);
}

export function assign(part: Part, field: string): void {
  for (const [name, content] of Object.entries(contents.value))
    if ('part' in content && content.part === part) setContent(name, null);
  if (finished.value?.parts.includes(part)) finished.value = null;
  if (field === 'weights') finished.value = weightsOfParts([part], wordsOf(part));
  else if (field) setContent(field, { part });
}

export const assigned = (part: Part): string =>
  finished.value?.parts.includes(part)
    ? 'weights'
    : (Object.entries(contents.value).find(
        ([, content]) => 'part' in content && content.part === part,
      )?.[0] ?? '');

// The words of the file of a part, else of another file, such as tokens.npy beside it.
function wordsOf(part: Part): TensorFile['words'] {
  const has = (file: TensorFile): boolean => Boolean(file.words.query ?? file.words.key);
  const own = files.value.find((file) => file.parts.includes(part) && has(file));
  return (own ?? [...files.value].reverse().find(has))?.words ?? {};
}

function take(opened: TensorFile): void {
  files.value = [...files.value.filter((f) => f.name !== opened.name), opened];
  for (const [name, value] of Object.entries(opened.request))
    if (name !== 'store') setContent(name, contentOf(value, `of ${opened.name}`));
  if (!opened.parts.length) takeWords(opened.words);
  const found = opened.parts.map((part) => [part, fieldFor(part)] as const);
  const layers = found.filter(([part, field]) => field === 'weights' && layerOf(part.name));
  const family = layers[0] && layerOf(layers[0][0].name)?.family;
  const same = layers.map(([part]) => part).filter((part) => layerOf(part.name)?.family === family);
  if (same.length > 1) {
    const number = (part: Part): number => layerOf(part.name)?.layer ?? 0;
    same.sort((a, b) => number(a) - number(b));
    finished.value = weightsOfParts(same, wordsOf(same[0] as Part));
  }
  for (const [part, field] of found)
    if (field && !(field === 'weights' && same.length > 1)) assign(part, field);
  const only = opened.parts.length === 1 ? opened.parts[0] : undefined;
  if (only && !found[0]?.[1] && !contents.value.query) assign(only, 'query');
}

// Words alone name the weights that are shown, or become the labels of the request.
function takeWords(words: TensorFile['words']): void {
  const shown = finished.value;
  if (shown?.parts.length) finished.value = weightsOfParts(shown.parts, words);
  else setContent('labels', { text: JSON.stringify(words.query ?? words.key) });
}

export function forget(opened: TensorFile): void {
  for (const part of opened.parts) assign(part, '');
  files.value = files.value.filter((f) => f !== opened);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const AXES_MOST = 8;

function depthOf(text: string): number {
  let depth = 0;
  let most = 0;
  for (const [found] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]]/g)) {
    if (found === '[') most = Math.max(most, ++depth);
    else if (found === ']') depth--;
  }
  return most;
}

// A text: a request, finished weights, a run, a tensor, or a table.
async function takeText(text: string, name: string): Promise<void> {
  const first = text.replace(/^\ufeff/, '').trimStart()[0] ?? '';
  if (!/[[{"]/.test(first) || /^[\t,;]/.test(text) || /^\s*"[^"\n]*"?[\t,;]/.test(text)) {
    takeTable(text, name);
    return;
  }
  if (depthOf(text) > AXES_MOST + 2)
    throw new BadFile(
      `${name} has lists within lists, ${depthOf(text)} deep. Tensors have at most ${AXES_MOST} axes.`,
    );
  let value: unknown;
  try {
    value = readJson(text.replace(/^\ufeff/, ''));
  } catch (error) {
    throw new BadFile(`${name} is damaged JSON: ${(error as Error).message}.`);
  }
  const of = isObject(value) ? value : {};
  const link =
    typeof value === 'string'
      ? value
      : [of.link, of.run, of.id, isObject(of.run) ? of.run.id : null].find((x) => typeof x === 'string');
  const weights = weightsOf(of, name);
  if (weights) finished.value = weights;
  else if (isObject(of.body)) fill(of.body, `of ${name}`);
  else if ('query' in of) fill(of, `of ${name}`);
  else if (isObject(of.request) && isObject(of.request.body)) fill(of.request.body, `of ${name}`);
  else if (typeof link === 'string') await openRun(link);
  else if (Array.isArray(value)) takeList(value, name);
  else
    throw new BadFile(
      `${name} is JSON, but neither a request with "query", ` +
        'nor weights under "attention" or "attn", nor a link to a run.',
    );
}

function takeList(value: unknown[], name: string): void {
  const axes = shapeOf(value)?.length ?? 0;
  if (value.length > 0 && value.every((word) => typeof word === 'string'))
    takeWords({ query: value as string[], key: value as string[] });
  else if (
    axes === 5 ||
    (axes === 4 && sumsToOne(value)) ||
    (axes > 1 && usualField(name.replace(/\.\w+$/, '')) === 'weights')
  )
    finished.value = weightsOfList(value, name);
  else if (!axes) throw new BadFile(`The lists of ${name} have unequal lengths.`);
  else if (value.flat(axes).some((item) => typeof item === 'object' && item !== null))
    throw new BadFile(`The lists of ${name} hold objects. Expected numbers or words.`);
  else setContent('query', contentOf(value, `of ${name}`));
}

// A table with names, or whose rows add up to 1, is weights; else it is the query.
function takeTable(text: string, name: string): void {
  try {
    const { rows, query, key } = readTable(text);
    if (query || key || sumsToOne(rows) || usualField(name.replace(/\.\w+$/, '')) === 'weights')
      finished.value = weightsOfTable(rows, { ...(query && { query }), ...(key && { key }) }, name);
    else setContent('query', contentOf(rows, `of ${name}`));
  } catch (error) {
    if (!(error instanceof BadText)) throw error;
    throw new BadFile(`${name} is no table of numbers. ${error.message}`);
  }
}

export async function takeFiles(list: Iterable<File>): Promise<void> {
  fileTrouble.value = '';
  for (const file of list) {
    try {
      const opened = await open(file);
      if (typeof opened === 'string') await takeText(opened, file.name);
      else if (opened.isCapture) await importCapture(file);
      else take(opened);
    } catch (error) {
      const message =
        error instanceof BadFile || error instanceof Problem
          ? error.message
          : `${file.name} cannot be read: ${(error as Error).message}`;
      fileTrouble.value = [fileTrouble.value, message].filter(Boolean).join(' ');
      announce(message);
    }
  }
}

export interface Import {
  name: string;
  sent: number;
  of: number;
  cancel: () => void;
}
export const importing = signal<Import | null>(null);

// Makes a run of the finished weights that are shown.
export async function openWeights(): Promise<void> {
  const of = finished.peek();
  if (!of) return;
  fileTrouble.value = '';
  try {
    await importCapture(new File([await captureOf(of)], 'attention.safetensors'));
  } catch (error) {
    if (!(error instanceof BadFile || error instanceof Problem)) throw error;
    fileTrouble.value = error.message;
    announce(error.message);
  }
}

// The file goes to the service as it is, read piece by piece as it goes out.
export async function importCapture(file: File): Promise<void> {
  const most = await limitOf('max_capture_bytes');
  if (file.size > most)
    throw new BadFile(refuse(`${file.name} has`, file.size, 'captures', most, 'max_capture_bytes'));
  const stop = new AbortController();
  const at = (bytes: number): void => {
    importing.value = { name: file.name, sent: bytes, of: file.size, cancel: () => stop.abort() };
  };
  at(0);
  try {
    const made = await askJson<Run>('v1/runs', {
      method: 'POST',
      body: file,
      type: 'application/vnd.safetensors',
      signal: stop.signal,
      progress: at,
    });
    ownFile.value = { run: made.id, name: file.name, make: () => Promise.resolve(file) };
    show(made);
  } catch (error) {
    if (!stop.signal.aborted) {
      const body = await limitOf('max_body_bytes');
      // A service without runs_dir keeps captures in memory, and ends longer ones while they come in.
      if (error instanceof Problem && error.status === 0 && file.size > body)
        throw new BadFile(
          `The service ended the upload of ${file.name}. If it has no runs_dir, ` +
            `it takes captures of up to ${sizeText(body)} (max_body_bytes).`,
        );
      throw error;
    }
    announce('The import is cancelled. The service keeps nothing of it.');
  } finally {
    importing.value = null;
  }
}

// Opens a run by its id, or what a link to this page shows.
export async function openRun(text: string): Promise<void> {
  const fragment = /#1\/\S+/.exec(text)?.[0];
  if (fragment) {
    location.hash = fragment;
    return;
  }
  const id = /(?:^|[^0-9a-f])([0-9a-f]{32})(?![0-9a-f])/.exec(text)?.[1];
  if (!id)
    throw new BadFile(
      'Expected the id of a run, 32 digits of 0-9 and a-f, or a link to this page that ends with #1/….',
    );
  show(await describe(id));
}
