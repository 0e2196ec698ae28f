// What the heads of a model do whatever the text: scores on probes, which are random tokens that repeat,
// and the pairs of words that heads connect in sentences of the service.
import { useMemo } from 'preact/hooks';
import { useLook, type Look } from '../../api/long';
import type { RunSite } from '../../api/runs';
import type { components } from '../../api/schema';
import type { HeadMeasures, Measured } from './data';

type Scores = components['schemas']['ModelHeads'];
type Mean = { mean?: number; spread?: number };

// The scores that say what a head does, by the names of patterns.
const does: readonly (readonly [string, string])[] = [
  ['induction', 'induction'],
  ['previous_token', 'previous token'],
  ['duplicate_token', 'duplicate token'],
  ['current_token', 'current token'],
  ['next_token', 'next token'],
  ['separator', 'separator'],
];
const CLEAR = 0.5; // mean of a score from which a head does just this
const SOME = 0.3;
const MOSTLY = 0.6; // share of the sentences in which a head connects the words of a pair

const placeOf = (of: { site: string; layer: number; head: number }): string =>
  `${of.site}.${of.layer}.${of.head}`;

const percent = (share: number): string => `${Math.round(100 * share)}\u00a0%`;

interface Doing {
  name: string;
  text: string;
  share: number;
}

const nothing: Doing = { name: 'heterogeneous', text: 'no score stands out', share: 0 };

function ofScore(name: string, of: Mean | undefined): Doing {
  const { mean = 0, spread } = of ?? {};
  const text = `${percent(mean)}${spread === undefined ? '' : ` ± ${percent(spread)}`} of the weight of random tokens that repeat`;
  return { name, text, share: mean };
}

// What each head does, by its place.
function doings(of: Scores): Map<string, Doing> {
  const found = new Map<string, Doing>();
  for (const h of of.heads ?? []) {
    const scores = (h.probes ?? {}) as Record<string, Mean | undefined>;
    const [best] = does
      .map(([score, name]) => ofScore(name, scores[score]))
      .sort((a, b) => b.share - a.share);
    const first = ofScore('first token', scores.first_token);
    found.set(placeOf(h), best && best.share >= SOME ? best : first.share >= CLEAR ? first : nothing);
  }
  // Of the pairs that a head connects, the one of most sentences comes first and stays.
  for (const c of [...(of.connects ?? [])].sort((a, b) => b.hits / b.of - a.hits / a.of)) {
    const now = found.get(placeOf(c));
    if (c.hits / c.of < MOSTLY || (now && now.name !== 'first token' && now.share >= CLEAR)) continue;
    found.set(placeOf(c), { name: c.does, text: c.text, share: c.hits / c.of });
  }
  return found;
}

// The measures of a run, with what its heads do on probes in place of what they do in its text.
export function useDoings(
  model: string | null,
  measured: Look<Measured>,
  sites: readonly RunSite[],
): Look<Measured> {
  const scores = useLook<Scores>(
    model ? `v1/models/${model}/heads` : null,
    'application/json',
    (reply) => reply.json() as Promise<Scores>,
    true,
    {},
  );
  const value = useMemo(() => {
    if (!scores.value || !measured.value) return null;
    const known = doings(scores.value);
    const heads = measured.value.heads.map((h): HeadMeasures => {
      const { kind = '', layer = 0 } = sites[h.site] ?? {};
      const { name, text, share } = known.get(placeOf({ site: kind, layer, head: h.head })) ?? nothing;
      return { ...h, share, pattern: { ...h.pattern, name, text } };
    });
    return { ...measured.value, heads };
  }, [scores.value, measured.value, sites]);
  return model ? { ...scores, value } : measured;
}
