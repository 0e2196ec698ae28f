// What the two sides of a site are, for the headings over the words.
import type { Site } from '../../api/runs';

export interface Sides {
  query: string;
  key: string;
}

const called: Partial<Record<Site['kind'], readonly [string, string]>> = {
  cross: ['target', 'source'],
  encoder: ['source', 'source'],
  decoder: ['target', 'target'],
};

export function sidesOf(site: Site): Sides {
  const isOneText =
    site.kind === 'self' && typeof site.query_text === 'number' && site.query_text === site.key_text;
  const [query, key] = called[site.kind] ?? (isOneText ? ['text', 'same text'] : []);
  return { query: query ? `query (${query})` : 'query', key: key ? `key (${key})` : 'key' };
}
