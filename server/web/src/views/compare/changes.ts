// What a head is compared with: `look.against` as a text, such as "causal" or "hide:3.5", and the weights
// that it stands for.
import { askJson } from '../../api/client';
import { nameOfSite, type Weights } from '../../api/answers';
import { describe, isOpen, whole, type Head, type Run, type RunSite, type Site } from '../../api/runs';
import { proseOf } from '../../parts/join';
import { isCausal } from '../../parts/mask';
import { sentenceOf } from '../../shell/sentence';
import { nameOf, type Axis } from '../../store/run';
import type { Source } from '../../store/state';

export interface Against {
  kind: string;
  ids: number[];
}

export function read(text: string): Against {
  const [kind = '', ids = ''] = text.split(':');
  return { kind, ids: ids.split('.').filter(Boolean).map(Number) };
}

interface Place {
  head: Head;
  site: Site;
  run: Run;
  source: Source | null;
}

const MOST = 200; // heads that are offered to be left out

const PADDING = ['key_padding_mask', 'key_padding_semantics', 'key_lengths', 'token_ids', 'padding_id'];

// The choices for a head, in groups: [text, name].
export function choices({ head, site, run, source }: Place): [string, [string, string][]][] {
  const body = source?.body ?? {};
  const own: [string, string][] = [['hide', 'some words hidden']];
  if (source?.path === 'v1/attention') {
    own.unshift(['causal', isCausal(site.mask) ? 'no causal mask' : 'a causal mask']);
    if (PADDING.some((name) => name in body)) own.push(['padding', 'padding that is seen']);
  }
  const heads = (s: RunSite): number[] => Array.from({ length: s.num_heads ?? 0 }, (_, i) => i);
  const without = !sentenceOf(source)
    ? []
    : run.sites.flatMap((s, at): [string, string][] =>
        s.kind === 'self' || s.layer > site.layer
          ? []
          : heads(s).map((i) => [`without:${at}.${i}`, `without head ${i} of ${nameOfSite(s)}`]),
      );
  const alike = run.sites.flatMap((s, i): [string, string][] =>
    isOpen(s) && i !== head.site && s.num_queries === site.num_queries && s.num_keys === site.num_keys
      ? [[`site:${i}`, nameOfSite(s)]]
      : [],
  );
  const groups: [string, [string, string][]][] = [
    ['the same head with', own],
    ['the same head of the model', without.slice(0, MOST)],
    ['another head', heads(site).flatMap((i) => (i === head.head ? [] : [[`head:${i}`, `head ${i}`]]))],
    ['another layer', alike],
  ];
  return groups.filter(([, of]) => of.length > 0);
}

// The choice in words, as the title of what is compared with.
export function named({ kind, ids }: Against, site: Site, run: Run, keys: Axis): string {
  const list = ids.map((i) => `“${nameOf(keys, i)}”`).join(', ');
  if (kind === 'causal') return isCausal(site.mask) ? 'without the causal mask' : 'with a causal mask';
  if (kind === 'padding') return 'padding is seen';
  if (kind === 'without') return `without head ${ids[1]} of ${nameOfSite(run.sites[ids[0] ?? 0])}`;
  if (kind === 'head') return `head ${ids[0]}`;
  if (kind === 'site') return nameOfSite(run.sites[ids[0] ?? 0]);
  return list ? `without ${list}` : 'no word is hidden';
}

// Weights after keys are hidden from all queries: each row is shared among the keys that are left.
async function hidden(head: Head, site: Site, keys: number[], signal: AbortSignal): Promise<Weights> {
  const before = await whole(head);
  if (!keys.length) return before;
  const json = {
    site: String(head.site),
    batch: head.batch,
    hide: keys,
    return: ['weights'],
    ...(head.head === 'mean' ? { heads: 'all' } : { head: head.head }),
  };
  const answer = await askJson<{ weights: number[][] | number[][][] }>(`v1/runs/${head.run}/what-if`, {
    json,
    signal,
  });
  const all = (head.head === 'mean' ? answer.weights : [answer.weights]) as number[][][];
  const weights = new Float32Array(site.num_queries * site.num_keys);
  for (const one of all)
    one.flat().forEach((weight, i) => {
      weights[i] = (weights[i] as number) + weight / all.length;
    });
  const gone = Array.from({ length: site.num_queries }, (_, q) =>
    keys.map((k): [number, number, number] => [q, k, k + 1]),
  );
  return { weights, hidden: [...before.hidden, ...gone.flat()] };
}

// The request of the other run. A model reads the words that it wrote, so that both runs have the same.
function requestOf({ kind, ids }: Against, { site, run, source }: Place): Source | null {
  if (!source) return null;
  const body: Record<string, unknown> = { ...source.body };
  if (kind === 'causal') body.is_causal = !isCausal(site.mask);
  if (kind === 'padding') for (const name of PADDING) delete body[name];
  if (kind !== 'without') return { ...source, body };
  const asked = sentenceOf(source);
  const [first, second] = run.texts;
  if (!asked || !first) return null;
  const words = (text: typeof first): string[] =>
    text.tokens.filter((_, i) => !(text.special ?? []).includes(i));
  const left = run.sites[ids[0] ?? 0] ?? site;
  const ablate = [
    ...((body.ablate as unknown[]) ?? []),
    { site: left.kind, layer: left.layer, head: ids[1] },
  ];
  return {
    path: `v1/models/${asked.model}/attention`,
    body: {
      text: second ? asked.text : proseOf(first.tokens, new Set(first.special)),
      ...(second ? { target_tokens: words(second) } : {}),
      return: [],
      ablate,
    },
  };
}

// The weights of what is compared with.
export async function weightsOf(of: Against, place: Place, signal: AbortSignal): Promise<Weights> {
  const { head, site } = place;
  const [id = 0] = of.ids;
  if (of.kind === 'hide') return hidden(head, site, of.ids, signal);
  if (of.kind === 'head') return whole({ ...head, head: id });
  if (of.kind === 'site') return whole({ ...head, site: id });
  const request = requestOf(of, place);
  if (!request) throw new Error('The run has no request of which another run can be made.');
  const { path, body } = request;
  const made = await askJson<{ run: Run }>(path, { json: { ...body, store: true }, signal });
  const other = await describe(made.run.id, signal);
  const index = other.sites.findIndex(
    (s) => s.kind === site.kind && s.layer === site.layer && s.name === site.name,
  );
  const found = other.sites[index];
  if (!isOpen(found) || found.num_queries !== site.num_queries || found.num_keys !== site.num_keys)
    throw new Error('The other run has other words, so no weight of one belongs to a weight of the other.');
  return whole({ run: made.run.id, site: index, batch: head.batch, head: head.head });
}
