// Before and after: a head beside itself with another mask, without some words or without a head of the
// model, or beside another head. One scale, one pointer, and the largest changes in words.
import { signal } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { WHOLE_MOST } from '../api/runs';
import { localSource, type Cells } from '../draw/local';
import { MatrixMap } from '../draw/map';
import type { Palette, Spot } from '../draw/types';
import { adopt } from '../parts/adopt';
import { digits } from '../parts/digits';
import { paletteOf } from '../shell/palette';
import { isDark } from '../shell/theme';
import { cellsOf, joinCells, type Axes } from '../store/cells';
import { change } from '../store/history';
import { Joined } from '../shell/Joined';
import { growing, headInWords, keys as keyAxis, run, site } from '../store/run';
import { head, look } from '../store/state';
import { keyGroups, queryGroups } from '../store/values';
import { choices, named, read, weightsOf } from './compare/changes';
import css from './compare.css' with { type: 'text' };

adopt(css);

const LISTED = 10; // changes in words
const NONE: Spot = { q: -1, k: -1 };
const spot = signal<Spot>(NONE); // under the pointer, in all maps

interface MapProps {
  title: string;
  cells: Cells;
  name: string; // cells of equal names are equal
  range: [number, number];
  axes: Axes;
  signed?: boolean;
}

const labels = ({ names }: { names: string[] }) => ({
  name: (i: number): string => names[i] ?? '',
  hasNames: true,
});

function Map_({ title, cells, name, range, axes, signed = false }: MapProps) {
  const host = useRef<HTMLDivElement>(null);
  const [map, setMap] = useState<MatrixMap | null>(null);
  useEffect(() => {
    const choose = (at: Spot): void => {
      change({ q: axes.queries.first[at.q] ?? -1, k: axes.keys.first[at.k] ?? -1 });
    };
    const made = new MatrixMap(
      host.current as HTMLDivElement,
      {
        hover: (at) => {
          spot.value = at ?? NONE;
        },
        click: choose,
        move: (at) => {
          spot.value = at;
        },
        rest: () => undefined,
        changed: () => undefined,
      },
      { worker: null, wheelZooms: false },
    );
    setMap(made);
    return () => made.end();
  }, [axes]);
  useEffect(() => {
    const coding = signed ? 'linear' : look.value.transform === 'linear' ? 'linear' : 'sqrt';
    map?.show(
      localSource(`${title} ${name}`, cells, { coding, range }),
      labels(axes.queries),
      labels(axes.keys),
      title,
    );
  }, [map, cells, range.join()]);
  const dark = isDark.value;
  const { colours } = look.value;
  useEffect(() => {
    const palette: Palette = {
      ...paletteOf(host.current as HTMLElement),
      ...(signed ? { map: 'RdBu' } : {}),
    };
    map?.look(palette);
  }, [map, dark, colours]);
  const { q, k } = spot.value;
  const weight = cells.weights[q * cells.keys + k];
  const says = q < 0 || k < 0 ? '' : cells.hides[q * cells.keys + k] ? 'hidden' : digits(weight ?? 0);
  useEffect(() => {
    map?.mark(spot.value, spot.value, []);
    map?.speak({
      spot: spot.value,
      query: axes.queries.names[q] ?? 'no query',
      key: axes.keys.names[k] ?? 'no key',
      text: says || 'No cell is chosen. Arrow keys choose one.',
      selected: false,
    });
  }, [map, q, k, says]);
  return (
    <figure class="compare-map">
      <figcaption>
        <b>{title}</b> <output>{says}</output>
      </figcaption>
      <div class="matrix-map" ref={host} />
    </figure>
  );
}

const percent = (share: number): string => `${(100 * share).toFixed(Math.abs(share) < 0.1 ? 1 : 0)}\u00a0%`;

// Differences of weights; what is hidden on one side has no weight there, and what is hidden on both is
// hidden.
function differenceOf(before: Cells, after: Cells): Cells {
  const at = (of: Cells, i: number): number => (of.hides[i] ? 0 : (of.weights[i] as number));
  return {
    ...before,
    weights: before.weights.map((_, i) => at(after, i) - at(before, i)),
    hides: before.hides.map((hides, i) => hides & (after.hides[i] as number)),
  };
}

function Changes({
  before,
  after,
  difference,
  axes,
}: Record<'before' | 'after' | 'difference', Cells> & { axes: Axes }) {
  const order = useMemo(
    () =>
      Array.from(difference.weights.keys())
        .filter((i) => !difference.hides[i] && Math.abs(difference.weights[i] as number) >= 5e-4)
        .sort((a, b) => Math.abs(difference.weights[b] as number) - Math.abs(difference.weights[a] as number))
        .slice(0, LISTED),
    [difference],
  );
  const side = (of: Cells, i: number): string => (of.hides[i] ? 'hidden' : percent(of.weights[i] as number));
  if (!order.length) return <p class="compare-same">No weight changes by 0.1 % or more.</p>;
  return (
    <section class="compare-changes">
      <h2>Largest changes</h2>
      <ol>
        {order.map((i) => {
          const at = { q: Math.floor(i / before.keys), k: i % before.keys };
          const by = difference.weights[i] as number;
          return (
            <li key={i}>
              <button
                type="button"
                aria-pressed={spot.value.q === at.q && spot.value.k === at.k}
                onPointerEnter={() => {
                  spot.value = at;
                }}
                onFocus={() => {
                  spot.value = at;
                }}
              >
                <bdi class="query-side">{axes.queries.names[at.q]}</bdi> looks {by > 0 ? 'more' : 'less'} at{' '}
                <bdi class="key-side">{axes.keys.names[at.k]}</bdi>:{' '}
                <span>
                  {side(before, i)} → {side(after, i)}
                </span>
              </button>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

// The words of the keys; each can be hidden.
function Hide({ axes, ids }: { axes: Axes; ids: number[] }) {
  const tokensOf = (group: number): number[] =>
    axes.keys.of.flatMap((of, token) => (of === group ? [token] : []));
  const toggle = (tokens: number[], isGone: boolean): void => {
    const left = ids.filter((id) => !tokens.includes(id));
    change({ against: `hide:${(isGone ? left : [...left, ...tokens]).join('.')}` });
  };
  return (
    <div class="compare-words" role="group" aria-label="words that are hidden">
      {axes.keys.names.map((name, group) => {
        const tokens = tokensOf(group);
        const isGone = tokens.some((token) => ids.includes(token));
        return (
          <button type="button" key={group} aria-pressed={isGone} onClick={() => toggle(tokens, isGone)}>
            <bdi>{name}</bdi>
          </button>
        );
      })}
    </div>
  );
}

// The pair of cells, once both sides are here. Until then the pair before stays.
interface Pair {
  before: Cells;
  after: Cells;
  axes: Axes;
  name: string; // pairs of equal names are equal
  first: string; // what is compared
  title: string; // and what it is compared with
}

function usePair(text: string, axes: Axes) {
  const [pair, setPair] = useState<Pair | null>(null);
  const [fault, setFault] = useState('');
  const at = head.value;
  const [s, r, { source }] = [site.value, run.value, look.value];
  useEffect(() => {
    if (!s || !r || !at.run) return undefined;
    const stop = new AbortController();
    const of = read(text);
    const after = weightsOf(of, { head: at, site: s, run: r, source }, stop.signal);
    Promise.all([cellsOf(at, axes), after]).then(
      ([before, found]) => {
        if (stop.signal.aborted) return;
        setFault('');
        const title = named(of, s, r, keyAxis.value);
        const name = `${Object.values(at).join()} ${text} ${axes.keys.names.length}`;
        const first = `before: ${headInWords.value}`;
        setPair({ first, before, after: joinCells(found, axes), axes, name, title });
      },
      (error: Error) => {
        if (!stop.signal.aborted) setFault(error.message);
      },
    );
    return () => stop.abort();
  }, [text, at, axes, s]);
  return { pair, fault };
}

function View() {
  const [at, of] = [site.value, run.value];
  const axes = useMemo(
    () => ({ queries: queryGroups.value, keys: keyGroups.value }),
    [queryGroups.value, keyGroups.value],
  );
  const groups = at && of ? choices({ head: head.value, site: at, run: of, source: look.value.source }) : [];
  const offered = groups.flatMap(([, list]) => list.map(([id]) => id));
  const first = offered[0] === 'hide' ? `hide:${Math.max(0, look.value.k)}` : (offered[0] ?? '');
  const { against } = look.value;
  const isOffered = offered.includes(against) || against.startsWith('hide');
  const text = isOffered ? against : first;
  const chosen = read(text);
  const { pair, fault } = usePair(text, axes);
  const difference = useMemo(() => pair && differenceOf(pair.before, pair.after), [pair]);
  if (!at || !of) return null;
  const most = pair
    ? Math.max(...[pair.before, pair.after].map((c) => c.weights.reduce((a, b) => Math.max(a, b), 0)))
    : 1;
  const far = difference?.weights.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
  return (
    <div class="compare">
      <div class="compare-tools">
        <label>
          <span>{headInWords.value}, compared with</span>
          <select
            value={chosen.kind === 'hide' ? 'hide' : text}
            onChange={(e) => change({ against: e.currentTarget.value })}
          >
            {groups.map(([name, list]) => (
              <optgroup key={name} label={name}>
                {list.map(([id, says]) => (
                  <option key={id} value={id}>
                    {says}
                  </option>
                ))}
              </optgroup>
            ))}
          </select>
        </label>
        <Joined />
        {chosen.kind === 'hide' && <Hide axes={axes} ids={chosen.ids} />}
      </div>
      {fault && (
        <p class="trouble" role="alert">
          {fault}
        </p>
      )}
      {pair && difference && (
        <div class="compare-all">
          <Map_ title={pair.first} cells={pair.before} name={pair.name} range={[0, most]} axes={pair.axes} />
          <Map_
            title={`after: ${pair.title}`}
            cells={pair.after}
            name={pair.name}
            range={[0, most]}
            axes={pair.axes}
          />
          <Map_
            title="difference: blue is more, red is less"
            cells={difference}
            name={pair.name}
            range={[-far, far]}
            axes={pair.axes}
            signed
          />
          <Changes {...pair} difference={difference} />
        </div>
      )}
    </div>
  );
}

export function Component() {
  const at = site.value;
  if (!at) return null;
  if (growing.value) return <p class="hint">A run is compared once it is complete.</p>;
  if (at.num_queries * at.num_keys > WHOLE_MOST)
    return (
      <p class="hint">
        Heads of up to {WHOLE_MOST.toLocaleString('en')} weights are compared here; this one has{' '}
        {(at.num_queries * at.num_keys).toLocaleString('en')}. The service compares larger ones: “against” of
        /v1/runs/…/tiles.
      </p>
    );
  return <View />;
}
