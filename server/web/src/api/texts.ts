// The tokens along the axes of a site: the text of the run to which they belong, and where in this
// text they begin.
import type { components } from './schema';

type Run = components['schemas']['Run'];
type RunSite = components['schemas']['RunSite'];

export interface Tokens {
  tokens: string[] | null; // null: positions alone
  offsets: [number, number][] | null; // of `text`, in UTF-16
  text: string | null;
  special: Set<number>;
}

export const noTokens: Tokens = { tokens: null, offsets: null, text: null, special: new Set() };

// Offsets of UTF-8 bytes as indices of a JavaScript string.
export function toUtf16(text: string, offsets: readonly (readonly number[])[]): [number, number][] {
  const at = new Map<number, number>();
  let bytes = 0;
  let units = 0;
  at.set(0, 0);
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    units += character.length;
    at.set(bytes, units);
  }
  return offsets.map(([from = 0, to = 0]) => [at.get(from) ?? 0, at.get(to) ?? units]);
}

// A site names either one text for all entries of a batch, or a list with a text for each entry.
const entry = (which: unknown, batch: number): number =>
  Array.isArray(which) ? Number(which[batch] ?? -1) : typeof which === 'number' ? which : -1;

export function tokensOf(run: Run, site: RunSite, side: 'query' | 'key', batch: number): Tokens {
  const text = run.texts[entry(side === 'query' ? site.query_text : site.key_text, batch)];
  if (!text) return noTokens;
  const begin = Math.max(0, entry(side === 'query' ? site.query_start : site.key_start, batch));
  const count = (side === 'query' ? site.num_queries : site.num_keys) ?? 0;
  const part = <T>(list: T[]): T[] =>
    begin === 0 && count >= list.length ? list : list.slice(begin, begin + count);
  return {
    tokens: part(text.tokens),
    offsets: text.text != null && text.offsets ? part(toUtf16(text.text, text.offsets)) : null,
    text: text.text ?? null,
    special: new Set((text.special ?? []).map((i) => i - begin)),
  };
}
