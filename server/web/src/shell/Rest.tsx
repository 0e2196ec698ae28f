// Beside the view while nothing is chosen: what stands out in the head that is shown, as sentences whose
// words lead there.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Weights } from '../api/answers';
import { useLook } from '../api/long';
import { whole, WHOLE_MOST, type Head } from '../api/runs';
import type { components } from '../api/schema';
import { joinHidden, joinWeights, type Groups } from '../parts/join';
import { change } from '../store/history';
import { type Axis, growing, headInWords, keys, queries, run, site } from '../store/run';
import { head, look } from '../store/state';
import { keyGroups, queryGroups } from '../store/values';

type Heads = components['schemas']['RunHeads'];

const percent = (share: number): string => `${Math.round(100 * share)}\u00a0%`;

// The weights of the head, if they are few.
function useWeights(): (Weights & { of: Head }) | null {
  const at = head.value;
  const s = site.value;
  const [all, setAll] = useState<(Weights & { of: Head }) | null>(null);
  const isSmall = s !== null && at.run !== '' && s.num_queries * s.num_keys <= WHOLE_MOST;
  useEffect(() => {
    let here = true;
    if (isSmall && !growing.value)
      whole(at).then(
        (found) => {
          if (here) setAll({ ...found, of: at });
        },
        () => undefined, // the view says why
      );
    return () => {
      here = false;
    };
  }, [at, isSmall]);
  return all?.of === at && all.weights.length === (s?.num_queries ?? 0) * (s?.num_keys ?? 0) ? all : null;
}

// Words of a text, and neither special tokens nor signs; all tokens of a text that has no words.
function tells(axis: Axis, groups: Groups): (group: number) => boolean {
  const isWord = (group: number): boolean =>
    !axis.special.has(groups.first[group] as number) && /[\p{L}\p{N}]/u.test(groups.names[group] as string);
  return groups.names.some((_, group) => isWord(group)) ? isWord : () => true;
}

interface Facts {
  queries: Groups;
  keys: Groups;
  best: { q: number; k: number; weight: number } | null;
  most: { k: number; share: number } | null;
}

// The largest weight between two words, of rows that see several keys, and the word that gets most of the
// rows that see it, if at least half of the rows do.
function factsOf({ weights, hidden }: Weights, of: { queries: Groups; keys: Groups }): Facts {
  const rows = of.queries.names.length;
  const cols = of.keys.names.length;
  const data = joinWeights(weights, of.queries, of.keys);
  const hides = joinHidden(hidden, of.queries, of.keys);
  const [isQuery, isKey] = [tells(queries.value, of.queries), tells(keys.value, of.keys)];
  let [best, most]: [Facts['best'], Facts['most']] = [null, null];
  const got = Array.from({ length: cols }, () => ({ sum: 0, count: 0 }));
  for (let q = 0; q < rows; q++) {
    const seen = Array.from({ length: cols }, (_, k) => k).filter((k) => !hides[q * cols + k]);
    for (const k of seen) {
      const weight = data[q * cols + k] as number;
      const column = got[k] as { sum: number; count: number };
      column.sum += weight;
      column.count++;
      if (seen.length > 1 && isQuery(q) && isKey(k) && weight > (best?.weight ?? 0)) best = { q, k, weight };
    }
  }
  got.forEach(({ sum, count }, k) => {
    const share = sum / count;
    if (2 * count >= rows && share > (most?.share ?? 0)) most = { k, share };
  });
  return { ...of, best, most };
}

function Link({ to, children }: { to: Partial<typeof look.value>; children: ComponentChildren }) {
  return (
    <button type="button" class="link" onClick={() => change(to)}>
      {children}
    </button>
  );
}

function Does() {
  const { run: id, site: s, batch, head: h } = look.value;
  const isSmall = (site.value?.num_queries ?? Infinity) * (site.value?.num_keys ?? Infinity) <= WHOLE_MOST;
  const answer = useLook<Heads>(
    h !== 'mean' && isSmall && run.value?.id === id ? `v1/runs/${id}/heads?sites=${s}&heads=${h}` : null,
    'application/json',
    (reply) => reply.json() as Promise<Heads>,
    run.value?.state === 'closed',
  );
  if (h === 'mean')
    return (
      <p>
        This is the {headInWords.value}. <Link to={{ view: 'heads' }}>See each head</Link>.
      </p>
    );
  const entries = answer.value?.heads ?? [];
  const text = (entries[batch] ?? entries[0])?.pattern.text;
  return (
    <p class="rest-does">
      {text && (
        <>
          <Link to={{ view: 'heads' }}>Head {h}</Link> {text}.
        </>
      )}
    </p>
  );
}

export function Component() {
  const all = useWeights();
  const at = site.value;
  const [ofQueries, ofKeys] = [queryGroups.value, keyGroups.value];
  const facts = useMemo(() => {
    const isOf = at?.num_queries === ofQueries.of.length && at.num_keys === ofKeys.of.length;
    return all && isOf ? factsOf(all, { queries: ofQueries, keys: ofKeys }) : null;
  }, [all, ofQueries, ofKeys, at]);
  if (!facts || growing.value) return null;
  const { best, most } = facts;
  const ofQuery = (q: number) => <bdi class="query-side">{facts.queries.names[q]}</bdi>;
  const ofKey = (k: number) => <bdi class="key-side">{facts.keys.names[k]}</bdi>;
  const hasWords = keys.value.tokens !== null;
  return (
    <section class="rest" aria-label="What stands out">
      {best && (
        <p>
          <Link to={{ q: facts.queries.first[best.q] ?? -1, k: -1 }}>
            {!hasWords && 'query '}
            {ofQuery(best.q)}
          </Link>{' '}
          looks at{' '}
          <Link to={{ q: facts.queries.first[best.q] ?? -1, k: facts.keys.first[best.k] ?? -1 }}>
            {!hasWords && 'key '}
            {ofKey(best.k)}
          </Link>
          , {percent(best.weight)}.
        </p>
      )}
      {most && (
        <p>
          Most looked at is{' '}
          <Link to={{ q: -1, k: facts.keys.first[most.k] ?? -1 }}>
            {!hasWords && 'key '}
            {ofKey(most.k)}
          </Link>
          : on average it gets {percent(most.share)} of {hasWords ? 'each word’s' : 'each query’s'} weight.
        </p>
      )}
      <Does />
    </section>
  );
}
