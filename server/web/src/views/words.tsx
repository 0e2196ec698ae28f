// Words: which words look at which. With up to 200 words on each side, strong weights are lines
// between two columns. With more, the text itself is shaded.
import { computed, effect, signal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { nameOfSite, ofHead } from '../api/answers';
import { Problem, askJson } from '../api/client';
import { whole, WHOLE_MOST, type Head, type Site } from '../api/runs';
import { headInWords, keys as keyAxis, nameOf, queries, site } from '../store/run';
import { change } from '../store/history';
import { drawing, head, hover, look, shown } from '../store/state';
import type { Picture } from '../parts/picture';
import type { Scale } from '../draw/colours';
import { questionOf, sentenceOf } from '../shell/sentence';
import { colours, isDark } from '../shell/theme';
import { digits, position } from '../parts/digits';
import { isHidden, isShown, keyGroups, queryGroups, shownRow, togglePin } from '../store/values';
import { Columns, type Side } from '../parts/Columns';
import { edgesOf, edgesOfRow, strongestOf, type Edge } from '../parts/edges';
import { joinHidden, joinWeights, meanGroups, spanOf } from '../parts/join';
import { pictureOf } from './words/draw';
import { pictureOfStrips } from './words/drawStrips';
import { Pins } from './words/Pins';
import { sidesOf, type Sides } from './words/sides';
import { Alternatives, Slider } from './words/Steps';
import { Strip } from './words/Strip';
import { HowToGet, Written } from './words/Written';
import { Joined } from '../shell/Joined';
import './words.css';

const COLUMNS_MOST = 200; // largest number of words of a side that is a column
const ROW_MOST = 20; // lines of a row that is shown

// Safari has no idle callbacks.
const whenIdle = (work: () => void): void => {
  if ('requestIdleCallback' in globalThis) requestIdleCallback(work);
  else setTimeout(work, 200);
};

const by = signal<'p' | 'least'>('p');
const share = signal(0.7);
const least = signal(0.1);
const towards = signal<'keys' | 'queries'>('keys'); // of long texts: what a word looks at, or who looks at it

const weights = signal<{ of: Head; data: Float32Array; hidden: Hidden } | null>(null);
const trouble = signal('');

type Hidden = [number, number, number][]; // [query, from key, to key)

const isLong = (s: Site): boolean =>
  s.num_queries > COLUMNS_MOST || s.num_keys > COLUMNS_MOST || s.num_queries * s.num_keys > WHOLE_MOST;

// Loads all weights of a small head.
function keepWeights(): () => void {
  let wanted = 0;
  return effect(() => {
    const at = head.value;
    const s = site.value;
    const mine = ++wanted;
    if (!s || !at.run || isLong(s)) {
      weights.value = null;
      return;
    }
    whole(at).then(
      ({ weights: data, hidden }) => {
        if (mine !== wanted) return;
        trouble.value = '';
        weights.value = { of: at, data, hidden };
      },
      (error: unknown) => {
        if (mine === wanted && error instanceof Problem) trouble.value = error.message;
      },
    );
  });
}

const limit = computed(() => (by.value === 'p' ? { p: share.value } : { least: least.value }));

const small = computed(() => {
  const at = weights.value;
  const s = site.value;
  if (!at || !s || at.data.length !== s.num_queries * s.num_keys) return null;
  const data = joinWeights(at.data, queryGroups.value, keyGroups.value);
  const cols = keyGroups.value.names.length;
  const edges = edgesOf(data, cols, limit.value);
  return {
    data,
    cols,
    hides: joinHidden(at.hidden, queryGroups.value, keyGroups.value),
    edges: strongestOf(edges),
    of: edges.length,
  };
});

interface Weights {
  weights: number[][];
  hidden: Hidden;
}

// The words of a row or a column of a long text. `hides`: of each token of the key, the queries that it is
// hidden from.
const column = signal<{ k: number; data: Float32Array; hides: Set<number>[] } | null>(null);
function keepColumn(): () => void {
  let timer = 0;
  let wanted = 0;
  return effect(() => {
    const k = shown.value.k;
    const at = head.value;
    const groups = keyGroups.value;
    const mine = ++wanted;
    clearTimeout(timer);
    if (towards.value === 'keys' || k < 0 || k >= groups.of.length || !at.run) {
      column.value = null;
      return;
    }
    timer = window.setTimeout(() => {
      const [from, to] = spanOf(groups, groups.of[k] ?? 0);
      const columns = Array.from({ length: to - from }, (_, i) =>
        askJson<Weights>(`v1/runs/${at.run}/weights?${ofHead(at)}&cols=${from + i}&hidden=true`),
      );
      Promise.all(columns).then(
        (answers) => {
          if (mine !== wanted) return;
          const [first] = answers;
          column.value = {
            k,
            data: Float32Array.from(first?.weights ?? [], (_, q) =>
              answers.reduce((sum, answer) => sum + (answer.weights[q]?.[0] ?? 0), 0),
            ),
            hides: answers.map((answer) => new Set(answer.hidden.map(([q]) => q))),
          };
        },
        (error: unknown) => {
          if (mine === wanted && error instanceof Problem) trouble.value = error.message;
        },
      );
    }, 40);
  });
}

// Pinned rows as groups, each once.
const pinned = computed(() =>
  [...new Set(look.value.pins.map((pin) => queryGroups.value.of[pin] ?? -1))].filter((group) => group >= 0),
);

const pinRow = (group: number): void => togglePin(queryGroups.value.first[group] as number);

function Long({ sides }: { sides: Sides }) {
  const { q, k } = shown.value;
  const row = shownRow.value;
  const s = site.value;
  const looks = towards.value === 'keys';
  const ofKeys =
    looks && isShown(row) && row.weights.length === keyGroups.value.names.length ? row.weights : null;
  const col = column.value;
  const of = !looks && col && col.k === k && col.data.length === s?.num_queries ? col : null;
  const isHiddenFrom = (word: number): boolean => {
    const [from, to] = spanOf(queryGroups.value, word);
    return (
      of?.hides.every((queries) =>
        Array.from({ length: to - from }, (_, i) => from + i).every((q) => queries.has(q)),
      ) ?? false
    );
  };
  return (
    <div class="words-strips">
      <Strip
        side="query"
        name={sides.query}
        label="the words that look"
        groups={queryGroups.value}
        weights={of && meanGroups(of.data, queryGroups.value)}
        isHidden={isHiddenFrom}
        pins={pinned.value}
        pin={pinRow}
        at={q < 0 ? -1 : (queryGroups.value.of[q] ?? -1)}
      />
      <Strip
        side="key"
        name={sides.key}
        label="the words that are looked at"
        groups={keyGroups.value}
        weights={ofKeys}
        isHidden={(word) => row !== null && isHidden(row.hidden, word)}
        pins={[]}
        at={k < 0 ? -1 : (keyGroups.value.of[k] ?? -1)}
      />
    </div>
  );
}

function Options({ long }: { long: boolean }) {
  return (
    <div class="words-options">
      <Joined />
      {!long && (
        <label>
          <span>lines:</span>
          <select
            value={by.value}
            onChange={(e) => {
              by.value = e.currentTarget.value as 'p' | 'least';
            }}
          >
            <option value="p">the largest, together</option>
            <option value="least">each of at least</option>
          </select>
          <input
            type="range"
            min="0.05"
            max="1"
            step="0.05"
            aria-label={by.value === 'p' ? 'share of the mass of a row' : 'smallest weight'}
            value={by.value === 'p' ? share.value : least.value}
            onInput={(e) => {
              (by.value === 'p' ? share : least).value = Number(e.currentTarget.value);
            }}
          />
          <output>{by.value === 'p' ? `${Math.round(100 * share.value)} %` : least.value.toFixed(2)}</output>
          {by.value === 'p' && <span class="words-of">of each word’s weight</span>}
        </label>
      )}
      {!long && small.value && small.value.of > small.value.edges.length && (
        <span class="words-most" role="status">
          the {small.value.edges.length} strongest of {position(small.value.of)}
        </span>
      )}
      {long && (
        <label>
          show{' '}
          <select
            value={towards.value}
            onChange={(e) => {
              towards.value = e.currentTarget.value as 'keys' | 'queries';
            }}
          >
            <option value="keys">what a word looks at</option>
            <option value="queries">who looks at a word</option>
          </select>
        </label>
      )}
      <Slider />
      <Pins
        names={pinned.value.map((group) => queryGroups.value.names[group] as string)}
        free={(pin) => pinRow(pinned.value[pin] as number)}
      />
    </div>
  );
}

// The hover and the selection of the page, by groups.
function point(side: Side, group: number): void {
  const token = (side === 'query' ? queryGroups : keyGroups).value.first[group] ?? -1;
  hover.value = side === 'query' ? { q: token, k: -1 } : { q: -1, k: token };
}

function choose(side: Side, group: number): void {
  const groups = (side === 'query' ? queryGroups : keyGroups).value;
  const token = groups.first[group] as number;
  if (side === 'query') change({ q: groups.of[look.value.q] === group ? -1 : token });
  else change({ k: groups.of[look.value.k] === group ? -1 : token });
}

const scale = computed<Scale>(() => {
  const map = colours.value;
  return {
    low: 0,
    high: 1,
    bend: look.value.transform === 'linear' ? 'linear' : 'sqrt',
    map: map === 'RdBu' ? 'Blues' : map,
    dark: isDark.value,
  };
});

// What the columns show, and a picture of them.
function seen(at: { q: number; k: number }) {
  const now = small.value;
  if (!now) return null;
  const more = (q: number): Edge[] =>
    edgesOfRow(now.data.subarray(q * now.cols, (q + 1) * now.cols), q, { p: 1 }, ROW_MOST);
  return {
    queries: queryGroups.value,
    keys: keyGroups.value,
    weights: now.data,
    hides: now.hides,
    edges: now.edges,
    more,
    scale: scale.value,
    q: queryGroups.value.of[at.q] ?? -1,
    k: keyGroups.value.of[at.k] ?? -1,
    pins: pinned.value,
  };
}

// What long texts show, as a sentence.
function lookInWords(): string {
  const looks = towards.value === 'keys';
  const axis = looks ? queries.value : keyAxis.value;
  const at = looks ? look.value.q : look.value.k;
  const word = at < 0 ? 'a word' : `“${nameOf(axis, at)}” (${looks ? 'query' : 'key'} ${position(at)})`;
  return looks ? `what ${word} looks at` : `who looks at ${word}`;
}

function picture(view: Element): Picture | null {
  const s = site.value;
  if (!s) return null;
  const place = `${nameOfSite(s)}, ${headInWords.value}`;
  if (isLong(s)) return pictureOfStrips(view, place, lookInWords());
  const of = seen(look.value);
  if (!of) return null;
  const title = keyAxis.value.text ?? (keyAxis.value.tokens ? of.keys.names.join(' ') : s.name);
  return pictureOf(view, { ...of, title, under: place, heads: sidesOf(s) });
}

// The words are shown before their weights arrive. Until then no cell counts as pointed at, so that
// no number is shown.
const unweighted = () => ({
  queries: queryGroups.value,
  keys: keyGroups.value,
  weights: new Float32Array(queryGroups.value.names.length * keyGroups.value.names.length),
  hides: new Uint8Array(queryGroups.value.names.length * keyGroups.value.names.length),
  edges: [],
  more: () => [],
  scale: scale.value,
  q: -1,
  k: -1,
  pins: [],
});

function Short({ sides }: { sides: Sides }) {
  const of = seen(shown.value) ?? unweighted();
  const question = questionOf(look.value.source, site.value?.kind ?? '');
  return (
    <>
      {question && (
        <div class="words-question">
          <p>{question}</p>
          <Alternatives />
        </div>
      )}
      <div class="words-heads">
        <span class="query-side">{sides.query}</span>
        <small>attends to</small>
        <span class="key-side">{sides.key}</span>
      </div>
      <Columns {...of} digits={digits} point={point} choose={choose} pin={pinRow} />
    </>
  );
}

// The examples beside a sentence, once its lines are drawn.
function Beside() {
  const [Shelf, setShelf] = useState<ComponentType | null>(null);
  useEffect(() => {
    let here = true;
    whenIdle(() => {
      if (here)
        import('./gallery').then(
          (found) => {
            if (here) setShelf(() => found.Shelf);
          },
          () => undefined,
        );
    });
    return () => {
      here = false;
    };
  }, []);
  return Shelf && <Shelf />;
}

export function Component() {
  const view = useRef<HTMLDivElement>(null);
  // Before the first paint, so that the weights are asked for at once.
  useLayoutEffect(() => {
    const stops = [keepWeights(), keepColumn()];
    drawing.value = () => (view.current ? picture(view.current) : null);
    return () => {
      for (const stop of stops) stop();
      drawing.value = null;
    };
  }, []);
  const s = site.value;
  if (!s) return null;
  const long = isLong(s);
  const sides = sidesOf(s);
  const isFirst = small.value !== null && sentenceOf(look.value.source) !== null;
  return (
    <div class="words" ref={view}>
      <Options long={long} />
      {trouble.value && (
        <p class="trouble" role="alert">
          {trouble.value}
        </p>
      )}
      <div class="words-scroll">
        <Written />
        {long ? <Long sides={sides} /> : <Short sides={sides} />}
        {isFirst && <Beside />}
        {isFirst && <HowToGet />}
      </div>
    </div>
  );
}

export const keys = [['p', 'pin the row of the query that has the focus, or free it']] as const;
