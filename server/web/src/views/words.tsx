// Words: which words look at which. Up to 64 tokens on each side all strong weights are lines
// between two columns; up to 200 only the rows that are shown or pinned; above that the text itself
// is shaded.
import { computed, effect, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ofHead } from '../api/answers';
import { Problem, askJson } from '../api/client';
import { whole, WHOLE_MOST, type Head } from '../api/runs';
import { type Axis, keys, queries, run, site } from '../store/run';
import { change } from '../store/history';
import { head, hover, look, shown } from '../store/state';
import type { Scale } from '../draw/colours';
import { isDark } from '../shell/theme';
import { digits } from '../parts/digits';
import { shownRow } from '../store/values';
import { Columns, type Side } from '../parts/Columns';
import { edgesOf, edgesOfRow, type Edge } from '../parts/edges';
import { join, joinWeights, marksOf, single, type Groups } from '../parts/join';
import { Strip } from './words/Strip';
import './words.css';

const ALL_MOST = 64; // words of a side up to which all rows have their lines
const COLUMNS_MOST = 200; // and up to which there are columns
const LINES_MOST = 400;
const ROW_MOST = 20; // lines of a row that is shown

const joined = signal(true);
const by = signal<'p' | 'least'>('p');
const share = signal(0.7);
const least = signal(0.1);
const towards = signal<'keys' | 'queries'>('keys'); // of long texts: what a word looks at, or who looks at it

const weights = signal<{ of: Head; data: Float32Array } | null>(null);
const trouble = signal('');

// Loads all weights of a small head.
function keepWeights(): () => void {
  let wanted = 0;
  return effect(() => {
    const at = head.value;
    const s = site.value;
    const mine = ++wanted;
    if (!s || run.value?.id !== at.run || s.queries * s.keys > WHOLE_MOST || s.queries > COLUMNS_MOST || s.keys > COLUMNS_MOST) {
      weights.value = null;
      return;
    }
    whole(at).then(({ weights: data }) => {
      if (mine !== wanted) return;
      trouble.value = '';
      weights.value = { of: at, data };
    }, (error: unknown) => { if (mine === wanted && error instanceof Problem) trouble.value = error.message; });
  });
}

const names = (axis: Axis, length: number): string[] => axis.tokens ?? Array.from({ length }, (_, i) => String(i));

const groupsOf = (axis: Axis, length: number): Groups =>
  joined.value && axis.tokens ? join(axis.tokens, axis.special) : single(names(axis, length));

const queryGroups = computed(() => groupsOf(queries.value, site.value?.queries ?? 0));
const keyGroups = computed(() => groupsOf(keys.value, site.value?.keys ?? 0));
const hasPieces = computed(() => [queries.value, keys.value].some((axis) => axis.tokens !== null && marksOf(axis.tokens) !== 'none'));

const limit = computed(() => (by.value === 'p' ? { p: share.value } : { least: least.value }));

const small = computed(() => {
  const at = weights.value;
  const s = site.value;
  if (!at || !s || at.data.length !== s.queries * s.keys) return null;
  const data = joinWeights(at.data, queryGroups.value, keyGroups.value);
  const cols = keyGroups.value.names.length;
  const all = queryGroups.value.names.length <= ALL_MOST && cols <= ALL_MOST;
  return { data, cols, edges: all ? edgesOf(data, cols, limit.value, LINES_MOST) : [] };
});

// The words of a row or a column of a long text.
const column = signal<{ k: number; data: Float32Array } | null>(null);
function keepColumn(): () => void {
  let timer = 0;
  let wanted = 0;
  return effect(() => {
    const k = shown.value.k;
    const at = head.value;
    const mine = ++wanted;
    clearTimeout(timer);
    if (towards.value === 'keys' || k < 0 || !site.value) {
      column.value = null;
      return;
    }
    timer = window.setTimeout(() => {
      askJson<{ weights: number[][] }>(`v1/runs/${at.run}/weights?${ofHead(at)}&cols=${k}`).then((answer) => {
        if (mine === wanted) column.value = { k, data: Float32Array.from(answer.weights, (row) => row[0] ?? 0) };
      }, (error: unknown) => { if (mine === wanted && error instanceof Problem) trouble.value = error.message; });
    }, 40);
  });
}

// Sums or means of the words of groups.
function gather(data: Float32Array, groups: Groups, mean: boolean): Float32Array {
  const sums = new Float32Array(groups.names.length);
  const sizes = new Float32Array(groups.names.length);
  groups.of.forEach((group, i) => {
    sums[group] = (sums[group] as number) + (data[i] as number);
    sizes[group] = (sizes[group] as number) + 1;
  });
  return mean ? sums.map((sum, i) => sum / (sizes[i] as number)) : sums;
}

function Long() {
  const { q, k } = shown.value;
  const row = shownRow.value;
  const s = site.value;
  const looks = towards.value === 'keys';
  const ofKeys = looks && row && row.q === q && row.weights.length === s?.keys ? gather(row.weights, keyGroups.value, false) : null;
  const col = column.value;
  const ofQueries = !looks && col && col.k === k && col.data.length === s?.queries ? gather(col.data, queryGroups.value, true) : null;
  return (
    <div class="words-strips">
      <Strip side="query" label="queries: the words that look" groups={queryGroups.value} weights={ofQueries} at={q < 0 ? -1 : queryGroups.value.of[q] ?? -1} />
      <Strip side="key" label="keys: the words that are looked at" groups={keyGroups.value} weights={ofKeys} at={k < 0 ? -1 : keyGroups.value.of[k] ?? -1} />
    </div>
  );
}

function Options({ long }: { long: boolean }) {
  return (
    <div class="words-options">
      {hasPieces.value && <label><input type="checkbox" checked={joined.value} onChange={(e) => { joined.value = e.currentTarget.checked; }} /> pieces joined to words</label>}
      {!long && (
        <label><span>lines</span>
          <select value={by.value} onChange={(e) => { by.value = e.currentTarget.value as 'p' | 'least'; }}>
            <option value="p">that hold the share</option>
            <option value="least">of at least</option>
          </select>
          <input type="range" min="0.05" max="1" step="0.05" aria-label={by.value === 'p' ? 'share of the mass of a row' : 'smallest weight'} value={by.value === 'p' ? share.value : least.value}
            onInput={(e) => { (by.value === 'p' ? share : least).value = Number(e.currentTarget.value); }} />
          <output>{(by.value === 'p' ? share.value : least.value).toFixed(2)}</output>
        </label>
      )}
      {long && (
        <label>show <select value={towards.value} onChange={(e) => { towards.value = e.currentTarget.value as 'keys' | 'queries'; }}>
          <option value="keys">what a word looks at</option>
          <option value="queries">who looks at a word</option>
        </select></label>
      )}
    </div>
  );
}

// The hover and the selection of the page, by groups.
function point(side: Side, group: number): void {
  const token = (side === 'query' ? queryGroups : keyGroups).value.first[group] ?? -1;
  hover.value = side === 'query' ? { q: token, k: -1 } : { q: -1, k: token };
}

function choose(side: Side, group: number): void {
  const token = (side === 'query' ? queryGroups : keyGroups).value.first[group] as number;
  if (side === 'query') change({ q: look.value.q === token ? -1 : token });
  else change({ k: look.value.k === token ? -1 : token });
}

const scale = computed<Scale>(() => {
  const { colours, transform } = look.value;
  return { low: 0, high: 1, bend: transform === 'linear' ? 'linear' : 'sqrt', map: colours === 'RdBu' ? 'Blues' : colours, dark: isDark.value };
});

function Short() {
  const now = small.value;
  if (!now) return null;
  const groups = { queries: queryGroups.value, keys: keyGroups.value };
  const more = (q: number): Edge[] => edgesOfRow(now.data.subarray(q * now.cols, (q + 1) * now.cols), q, { p: 1 }, ROW_MOST);
  const at = (side: Groups, token: number): number => side.of[token] ?? -1;
  return (
    <Columns {...groups} weights={now.data} edges={now.edges} more={more} scale={scale.value} digits={digits} point={point} choose={choose}
      q={at(groups.queries, shown.value.q)} k={at(groups.keys, shown.value.k)} pins={look.value.pins.map((pin) => at(groups.queries, pin)).filter((pin) => pin >= 0)} />
  );
}

export function Component() {
  useEffect(() => {
    const stops = [keepWeights(), keepColumn()];
    return () => stops.forEach((stop) => stop());
  }, []);
  const s = site.value;
  if (!s) return null;
  const long = s.queries > COLUMNS_MOST || s.keys > COLUMNS_MOST || s.queries * s.keys > WHOLE_MOST;
  return (
    <div class="words">
      <Options long={long} />
      {trouble.value && <p class="trouble" role="alert">{trouble.value}</p>}
      <div class="words-scroll">
        {long ? <Long /> : <Short />}
      </div>
    </div>
  );
}

