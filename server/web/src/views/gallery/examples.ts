// The examples of the service, and the pictures that it draws of their requests. At most two
// requests go out at a time, those of the cards in sight first.
import type { components } from '../../api/schema';
import { ask, askJson, Problem } from '../../api/client';

export type Entry = components['schemas']['ExampleEntry'];
export type Example = components['schemas']['Example'];
export type Case = Example['cases'][number];

const AT_ONCE = 2;
const TRIES = 3; // cases of an example that are tried until one can be drawn

interface Waiting {
  start: () => void;
  wanted: () => boolean;
}
const turns = { waiting: [] as Waiting[], running: 0 };

function next(): void {
  while (turns.running < AT_ONCE && turns.waiting.length) {
    const first = turns.waiting.findIndex((w) => w.wanted());
    const [waiting] = turns.waiting.splice(Math.max(first, 0), 1);
    turns.running++;
    waiting?.start();
  }
}

// Runs `work` when it is its turn. Work that is still wanted goes before all else.
function inTurn<T>(work: () => Promise<T>, wanted: () => boolean): Promise<T> {
  return new Promise((resolve, reject) => {
    turns.waiting.push({
      wanted,
      start: () => {
        work()
          .then(resolve, reject)
          .finally(() => {
            turns.running--;
            next();
          });
      },
    });
    next();
  });
}

const kept = new Map<string, Promise<unknown>>();
function once<T>(name: string, make: () => Promise<T>): Promise<T> {
  let made = kept.get(name) as Promise<T> | undefined;
  if (!made) {
    made = make();
    kept.set(name, made);
    made.catch(() => kept.delete(name));
  }
  return made;
}

export const list = (): Promise<Entry[]> =>
  once('', async () => (await askJson<{ examples: Entry[] }>('v1/examples')).examples);
export const example = (entry: Entry, wanted: () => boolean): Promise<Example> =>
  once(entry.id, () => inTurn(() => askJson<Example>(entry.href), wanted));

const routes = /^\/v1\/(attention|heatmaps|masks|positions|analyses|curves)$/;
export const bodyOf = (of: Case): Record<string, unknown> => (of.request ?? {}) as Record<string, unknown>;
export const isRefused = (of: Case): boolean => (of.status ?? 200) >= 400;
// Whether the entries of the batch have lengths of their own: there is no one map of them.
const isRagged = ({ query, query_lengths, cu_seqlens }: Record<string, unknown>): boolean =>
  query_lengths !== undefined ||
  cu_seqlens !== undefined ||
  (Array.isArray(query) && new Set(query.map((entry) => (entry as unknown[]).length)).size > 1);
export const isDrawable = (of: Case): boolean =>
  of.method === 'POST' &&
  routes.test(of.path) &&
  !isRefused(of) &&
  !isRagged(bodyOf(of)) &&
  bodyOf(of).dry_run !== true;
// Whether it opens as a request that can be edited, with its run.
export const isRun = (of: Case): boolean => of.path === '/v1/attention' && isDrawable(of);

// The cases of an example, that of its data first.
export const casesOf = (of: Example): Case[] => [...(of.data ? [of.data as Case] : []), ...of.cases];

export interface Picture {
  bitmap: ImageBitmap;
  scale: number;
  of: Case;
}

async function draw(of: Case, dark: boolean): Promise<Picture> {
  const scale = devicePixelRatio > 1 ? 2 : 1;
  const body = bodyOf(of);
  const figure = { ...(body.figure as object | undefined), theme: dark ? 'dark' : 'light', scale };
  const reply = await ask(of.path, { json: { ...body, figure }, accept: 'image/png' });
  return { bitmap: await createImageBitmap(await reply.blob()), scale, of };
}

export const pictureOf = (id: string, of: Case, dark: boolean, wanted: () => boolean): Promise<Picture> =>
  once(`${id} ${of.title} ${dark}`, () => inTurn(() => draw(of, dark), wanted));

// The picture of the first case that the service can draw; null: it can draw none.
export async function firstPicture(
  of: Example,
  dark: boolean,
  wanted: () => boolean,
): Promise<Picture | null> {
  for (const one of casesOf(of).filter(isDrawable).slice(0, TRIES)) {
    try {
      return await pictureOf(of.id, one, dark, wanted);
    } catch (error) {
      if (!(error instanceof Problem) || error.status === 0) throw error;
    }
  }
  return null;
}

// The numbers of an answer, each with its path, as far as they are few.
export function numbersOf(value: unknown, path = ''): [string, string][] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return Object.entries(value).flatMap(([name, item]) => numbersOf(item, path ? `${path}.${name}` : name));
  const text = JSON.stringify(value) ?? '';
  return text.length <= 48 ? [[path, text.replace(/,/g, ', ')]] : [];
}
