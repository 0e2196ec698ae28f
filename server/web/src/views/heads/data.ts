// What the view of heads draws: a thumbnail of each head, and later its pattern and its measures.
import { batchOf, entriesOf, isLayered, nameOfSite, readAtlas } from '../../api/answers';
import type { components } from '../../api/schema';
import { isOpen, type Run, type RunSite } from '../../api/runs';
import { tokensOf } from '../../api/texts';
import type { Codes } from '../../draw/thumb';

type Schemas = components['schemas'];
export type Measured = Omit<Schemas['RunHeads'], 'heads'> & { heads: HeadMeasures[] };
// `share`: how much of the weight does what the pattern says, if other texts than that of the run tell it.
export type HeadMeasures = Schemas['RunHeads']['heads'][number] & { share?: number };

export interface Thumb extends Codes {
  key: string;
  site: number;
  layer: number;
  entry: number; // the batch entry within its layer
  batch: number; // the number of that entry in `look`, which counts those of all layers
  head: number;
  level: number; // a cell covers 2^level x 2^level weights
}

export const keyOf = (site: number, batch: number, head: number | 'mean'): string =>
  `${site}.${batch}.${head}`;

export async function readThumbs(reply: Response, sites: readonly RunSite[]): Promise<Thumb[]> {
  return (await readAtlas(reply)).map((thumbnail) => {
    const { site, layer, batch: entry, head } = thumbnail;
    const batch = batchOf(sites[site], layer, entry);
    return { ...thumbnail, key: keyOf(site, batch, head), entry, batch };
  });
}

export interface Line {
  layer: number;
  thumbs: Thumb[];
}
export interface Group {
  title: string;
  name: string;
  lines: Line[];
}

// What the thumbnails of a run will be, before they are here: tiles without codes.
export function expected(sites: readonly RunSite[]): Thumb[] {
  return sites.filter(isOpen).flatMap((s) => {
    const entries = entriesOf(s);
    const layers = isLayered(s) ? s.num_batches / entries : 1;
    const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
    return numbers(layers).flatMap((layer) =>
      numbers(entries).flatMap((entry) =>
        numbers(s.num_heads).map((head): Thumb => {
          const batch = batchOf(s, layer, entry);
          const at = { site: s.site, layer: isLayered(s) ? layer : s.layer, entry, batch, head, level: 0 };
          const shape = { rows: s.num_queries, cols: s.num_keys, stride: 0, low: 0, high: 0 };
          return { ...at, ...shape, key: keyOf(s.site, batch, head), codes: new Uint8Array(0) };
        }),
      ),
    );
  });
}

// Thumbnails by site: the layers of one kind of attention, in one stack, are the lines of one group.
export function groupsOf(thumbs: readonly Thumb[], sites: readonly RunSite[]): Group[] {
  const groups = new Map<string, Group>();
  const lines = new Map<string, Line>();
  const layers = new Map<string, number>(); // of models, whose layers are sites of their own
  const stackOf = (s: RunSite | undefined): string => `${s?.kind}/${s?.stack ?? ''}/${s?.call ?? 0}`;
  for (const s of sites) layers.set(stackOf(s), (layers.get(stackOf(s)) ?? 0) + 1);
  for (const t of thumbs) {
    const site = sites[t.site];
    const several = (layers.get(stackOf(site)) ?? 0) > 1;
    const kind = site?.kind === 'self' ? 'self-attention' : (site?.kind ?? '');
    const name = !several ? nameOfSite(site) : site?.stack ? `${site.stack}, ${kind}` : kind;
    const id = `${several ? stackOf(site) : t.site}/${t.entry}`;
    let group = groups.get(id);
    if (!group) {
      group = { name, title: name, lines: [] };
      if (several && site?.call) group.title += `, call ${site.call}`;
      if (entriesOf(site) > 1) group.title += `, batch entry ${t.entry}`;
      groups.set(id, group);
    }
    const lineId = `${id}/${t.site}/${t.layer}`;
    let line = lines.get(lineId);
    if (!line) {
      line = { layer: t.layer, thumbs: [] };
      lines.set(lineId, line);
      group.lines.push(line);
    }
    line.thumbs.push(t);
  }
  for (const group of groups.values()) group.lines.sort((a, b) => a.layer - b.layer);
  return [...groups.values()];
}

// The measure that tells how well a head follows its pattern, where there is one.
const measureOf: Record<string, string> = {
  'previous token': 'previous_token',
  'current token': 'current_token',
  'next token': 'next_token',
  'first token': 'first_token',
  'single key': 'sink',
  induction: 'induction',
  'duplicate token': 'duplicate_token',
};
// Patterns whose sentence begins with the share of the weight that follows the pattern.
const toldByText = /^(?:stays|connects|looks at(?! the )|goes through the keys as the queries go on: \d)/;

// What a head of a pattern does, in words, and shorter for small pictures. The service names some
// patterns by a distance ("offset -3") or by a class of tokens ("punctuation").
const words: Record<string, readonly [string, string]> = {
  'previous token': ['looks at the token before', 'token before'],
  'current token': ['looks at its own token', 'own token'],
  'next token': ['looks at the token after', 'token after'],
  'first token': ['looks at the first token', 'first token'],
  'single key': ['looks at one key', 'one key'],
  induction: ['looks at what followed the same token', 'what followed'],
  'duplicate token': ['looks at copies of its token', 'copies'],
  alignment: ['goes through the keys in order', 'keys in order'],
  separator: ['looks at separators', 'separators'],
  structural: ['looks at tokens of its kind', 'its kind'],
  adjacent: ['looks at the tokens beside it', 'beside it'],
  block: ['stays in its segment', 'its segment'],
  local: ['stays near its token', 'stays near'],
  uniform: ['looks at all keys alike', 'all keys alike'],
  'nearly uniform': ['looks at all keys nearly alike', 'nearly alike'],
  heterogeneous: ['follows no known pattern', 'no pattern'],
  none: ['sees nothing', 'sees nothing'],
};

// The patterns that have a colour, and its number in heads.css.
const coloured = [
  ['previous token', 'offset -1'],
  ['induction'],
  ['first token', 'single key'],
  ['current token', 'duplicate token'],
  ['local', 'adjacent', 'block', 'next token', 'alignment'],
  ['uniform', 'nearly uniform'],
];

export const isPattern = (name: string): boolean => name !== 'heterogeneous';

// The number of the colour of a pattern; -1: it has none. All that connect pairs of words have one, and
// so have all that look at a class of tokens.
export function colourOf(name: string): number {
  if (name.includes(' to ')) return coloured.length;
  const own = coloured.findIndex((names) => names.includes(name));
  return own >= 0 || !isPattern(name) || name === 'none' ? own : coloured.length + 1;
}

export function wordsOf(name: string, short = false): string {
  const distance = /^offset ([+-])(\d+)$/.exec(name);
  if (distance)
    return `${short ? '' : 'looks '}${distance[2]} tokens ${distance[1] === '-' ? 'back' : 'ahead'}`;
  const connects = name.includes(' to '); // such as "pronoun to its noun"
  return words[name]?.[short ? 1 : 0] ?? (short || connects ? name : `looks at ${name}`);
}

// The share of the weight that follows the pattern, such as "83 %"; '': it has none.
export function shareOf(h: HeadMeasures): string {
  if (h.share !== undefined) return h.share > 0 ? `${Math.round(100 * h.share)}\u00a0%` : '';
  const measure = h.measures[measureOf[h.pattern.name] ?? ''];
  if (typeof measure === 'number') return `${Math.round(100 * measure)}\u00a0%`;
  const told =
    h.pattern.name !== 'adjacent' && toldByText.test(h.pattern.text)
      ? /(\d+) %/.exec(h.pattern.text)?.[1]
      : undefined;
  return told ? `${told}\u00a0%` : '';
}

export function patternOf(h: HeadMeasures | undefined, short = false): string {
  return h ? `${wordsOf(h.pattern.name, short)} ${shareOf(h)}`.trim() : '';
}

// The patterns that heads follow, each with the number of its heads, those of most heads first and
// the heads that follow none last.
export function patternsOf(heads: readonly HeadMeasures[]): [string, number][] {
  const count = new Map<string, number>();
  for (const {
    pattern: { name },
  } of heads)
    count.set(name, (count.get(name) ?? 0) + 1);
  const last = (name: string): number => Number(!isPattern(name) || name === 'none');
  return [...count].sort(
    ([a, m], [b, n]) => last(a) - last(b) || n - m || wordsOf(a).localeCompare(wordsOf(b), 'en'),
  );
}

// The heads of each pattern, those that follow it most first.
export function byPattern(list: readonly Thumb[], of: (t: Thumb) => HeadMeasures | undefined): Group[] {
  const share = (t: Thumb): number => parseFloat(shareOf(of(t) as HeadMeasures)) || 0;
  const known = list.filter((t) => of(t));
  return patternsOf(known.map((t) => of(t) as HeadMeasures)).map(([name, count]) => ({
    name,
    title: `${wordsOf(name)}: ${count} ${count === 1 ? 'head' : 'heads'}`,
    lines: [
      {
        layer: 0,
        thumbs: known.filter((t) => of(t)?.pattern.name === name).sort((a, b) => share(b) - share(a)),
      },
    ],
  }));
}

// Orders of heads in plain words: how each is said, and what is first in it. They are measures, by which
// the smallest or, with a minus sign, the largest comes first.
export interface Order {
  sort: string;
  says: string;
  first: string;
  tells: (value: number) => string;
}
const share = (value: number): string => `${Math.round(100 * value)}\u00a0%`;
const there = (value: number): string => `${share(value)} of its weight is there`;
const away = (value: number): string => `${value.toFixed(1)} tokens away on average`;
export const orders: readonly Order[] = [
  {
    sort: 'normalized_entropy',
    says: 'sharpest first',
    first: 'The sharpest head is',
    tells: (value) => `sharpness ${share(1 - value)}`,
  },
  {
    sort: '-normalized_entropy',
    says: 'most spread first',
    first: 'The head that spreads its weight most is',
    tells: (value) => `sharpness ${share(1 - value)}`,
  },
  {
    sort: '-previous_token',
    says: 'looks back: at the token before',
    first: 'Most looks at the token before it',
    tells: there,
  },
  { sort: '-current_token', says: 'looks at itself', first: 'Most looks at its own token', tells: there },
  {
    sort: '-next_token',
    says: 'looks ahead: at the token after',
    first: 'Most looks at the token after it',
    tells: there,
  },
  {
    sort: '-first_token',
    says: 'looks at the first token',
    first: 'Most looks at the first token',
    tells: there,
  },
  {
    sort: '-duplicate_token',
    says: 'looks at copies of its token',
    first: 'Most looks at copies of its token',
    tells: there,
  },
  {
    sort: '-induction',
    says: 'looks at what followed its token',
    first: 'Most looks at what followed the same token',
    tells: there,
  },
  { sort: '-distance', says: 'looks farthest', first: 'The head that looks farthest is', tells: away },
  { sort: 'distance', says: 'looks nearest', first: 'The head that looks nearest is', tells: away },
];

export const measureOfSort = (sort: string): string => sort.replace(/^-/, '');

export const measureName = (name: string): string => name.replace(/_/g, ' ');

export interface Choice {
  sort: string;
  pattern: string;
  measure: string;
  min: number | null;
  max: number | null;
  text: string;
  oneRange: boolean; // the colours of all heads go over the same range
}
export const everyHead: Choice = {
  sort: 'place',
  pattern: '',
  measure: '',
  min: null,
  max: null,
  text: '',
  oneRange: false,
};
export const isPlain = (c: Choice): boolean => c.sort === 'place' && !isFiltered(c);
export const isFiltered = (c: Choice): boolean =>
  c.text.trim() !== '' || c.pattern !== '' || (c.measure !== '' && (c.min !== null || c.max !== null));

// The heads that are left, in their order. Heads without the measure come last.
export function choose(
  thumbs: readonly Thumb[],
  of: (t: Thumb) => HeadMeasures | undefined,
  place: (t: Thumb) => string,
  c: Choice,
): Thumb[] {
  const sought = c.text.trim().toLowerCase();
  const left = thumbs.filter((t) => {
    const h = of(t);
    if (c.pattern !== '' && h?.pattern.name !== c.pattern) return false;
    if (
      sought &&
      !`${place(t)} head ${t.head} ${patternOf(h)} ${h?.pattern.name ?? ''} ${h?.pattern.shape ?? ''}`
        .toLowerCase()
        .includes(sought)
    )
      return false;
    if (c.measure === '' || (c.min === null && c.max === null)) return true;
    const value = h?.measures[c.measure];
    return typeof value === 'number' && value >= (c.min ?? -Infinity) && value <= (c.max ?? Infinity);
  });
  if (c.sort === 'place') return left;
  if (c.sort === 'pattern')
    return left.sort((a, b) => patternOf(of(a)).localeCompare(patternOf(of(b)), 'en'));
  const direction = c.sort.startsWith('-') ? -1 : 1;
  const name = measureOfSort(c.sort);
  const value = (t: Thumb): number => of(t)?.measures[name] ?? NaN;
  return left.sort((a, b) => {
    const x = value(a);
    const y = value(b);
    return Number.isNaN(x) || Number.isNaN(y)
      ? Number(Number.isNaN(x)) - Number(Number.isNaN(y))
      : direction * (x - y);
  });
}

// The tokens of the queries of a site; none: it has positions alone.
export const namesOf = (run: Run, site: RunSite, batch: number): readonly string[] =>
  tokensOf(run, site, 'query', batch).tokens ?? [];
