// The examples of the service, and the pictures that it draws of their requests. At most two
// requests go out at a time, those of the cards in sight first.
import type { components } from '../../api/schema';
import { ask, askJson, Problem } from '../../api/client';

export type Entry = components['schemas']['ExampleEntry'];
export type Example = components['schemas']['Example'];
export type Case = Example['cases'][number];

const AT_ONCE = 2;
const TRIES = 3; // cases of an example that are drawn

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
  bytes: string; // pictures that are alike have the same
}

// A small picture beside others of its example. Weights are shares of 1 and have one range of colours.
const small = (of: Case): object => ({
  title: '',
  x_label: '',
  y_label: '',
  colorbar: false,
  width: 160, // units of SVG
  ...(of.path === '/v1/attention' && !bodyOf(of).heatmap ? { vmax: 1 } : {}),
});
const SINGLE = 510; // width up to which a picture is one map, and not maps of several heads

async function draw(of: Case, dark: boolean, more: object): Promise<Picture> {
  const scale = devicePixelRatio > 1 ? 2 : 1;
  const body = bodyOf(of);
  const figure = { ...(body.figure as object | undefined), ...more, theme: dark ? 'dark' : 'light', scale };
  const reply = await ask(of.path, { json: { ...body, figure }, accept: 'image/png' });
  const blob = await reply.blob();
  const bytes = new Uint8Array(await blob.arrayBuffer()).join();
  return { bitmap: await createImageBitmap(blob), scale, of, bytes };
}

type Wanted = () => boolean;

export const pictureOf = (
  id: string,
  of: Case,
  dark: boolean,
  wanted: Wanted,
  more: object = {},
): Promise<Picture> =>
  once(`${id} ${of.title} ${dark} ${JSON.stringify(more)}`, () => inTurn(() => draw(of, dark, more), wanted));

// The pictures of the first cases, without those that the service refuses.
async function pictures(
  of: Example,
  cases: Case[],
  dark: boolean,
  wanted: Wanted,
  more?: (of: Case) => object,
): Promise<Picture[]> {
  const made: Picture[] = [];
  for (const one of cases) {
    try {
      made.push(await pictureOf(of.id, one, dark, wanted, more?.(one)));
    } catch (error) {
      if (!(error instanceof Problem) || error.status === 0) throw error;
    }
  }
  return made;
}

// The pictures of a card: up to three small ones of cases that look different, else that of the first
// case that the service can draw; none if it can draw none.
export async function picturesOf(of: Example, dark: boolean, wanted: Wanted): Promise<Picture[]> {
  const drawn = await pictures(of, casesOf(of).filter(isDrawable).slice(0, TRIES), dark, wanted);
  const apart = drawn.filter(
    ({ bitmap, scale, bytes }, i) =>
      bitmap.width <= SINGLE * scale && drawn.findIndex((other) => other.bytes === bytes) === i,
  );
  if (apart.length < 2 || apart[0] !== drawn[0]) return drawn.slice(0, 1);
  const several = await pictures(
    of,
    apart.map((picture) => picture.of),
    dark,
    wanted,
    small,
  );
  return several.length > 1 ? several : drawn.slice(0, 1);
}

// The numbers of an answer, each with its path, as far as they are few.
export function numbersOf(value: unknown, path = ''): [string, string][] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return Object.entries(value).flatMap(([name, item]) => numbersOf(item, path ? `${path}.${name}` : name));
  const text = JSON.stringify(value) ?? '';
  return text.length <= 48 ? [[path, text.replace(/,/g, ', ')]] : [];
}
