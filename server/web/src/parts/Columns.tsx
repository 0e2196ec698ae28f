// Two columns of words, the queries on the left and the keys on the right, and a line for each
// strong weight between them. All lines are drawn faintly, and those of the shown word strongly.
import { useEffect, useRef, useState } from 'preact/hooks';
import { colour, css, ink, place, type Scale } from '../draw/colours';
import type { Edge } from './edges';
import type { Groups } from './join';

const ROW = 28; // CSS pixels of a word

interface Props {
  queries: Groups;
  keys: Groups;
  weights: Float32Array; // [queries, keys] of the groups
  edges: Edge[];
  more: (q: number) => Edge[]; // the edges of a row that is shown
  q: number; // the groups that are shown; -1: none
  k: number;
  pins: readonly number[]; // queries whose rows stay
  scale: Scale;
  digits: (weight: number) => string;
  point: (side: Side, group: number) => void; // -1: the pointer left
  choose: (side: Side, group: number) => void;
}

export type Side = 'query' | 'key';

interface Shade { style: Record<string, string>; says: string }

// A column is a listbox: arrows move, Enter keeps.
function Column({ side, groups, at, label, ground, point, choose }: Pick<Props, 'point' | 'choose'> & {
  side: Side; groups: Groups; at: number; label: string; ground: (i: number) => Shade | null;
}) {
  const list = useRef<HTMLUListElement>(null);
  const [focus, setFocus] = useState(0);
  const onKey = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
    const step = steps[event.key];
    if (step !== undefined) {
      const next = Math.max(0, Math.min(groups.names.length - 1, focus + step));
      setFocus(next);
      point(side, next);
      list.current?.children[next]?.scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter' || event.key === ' ') {
      choose(side, focus);
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    <ul ref={list} class={`words-${side}`} role="listbox" tabIndex={0} aria-label={label} aria-activedescendant={`${side}-${focus}`} onKeyDown={onKey}
      onFocus={() => { if (list.current?.matches(':focus-visible')) point(side, focus); }} onBlur={() => point(side, -1)}>
      {groups.names.map((name, i) => {
        const shade = ground(i);
        return (
          <li key={i} id={`${side}-${i}`} role="option" aria-selected={i === at} class={i === focus ? 'focus' : ''} title={name}
            onPointerEnter={() => point(side, i)} onPointerLeave={() => point(side, -1)} onClick={() => { setFocus(i); choose(side, i); }}>
            <bdi style={shade?.style ?? {}}>{name || '␣'}</bdi>
            {shade?.says && <small>{shade.says}</small>}
          </li>
        );
      })}
    </ul>
  );
}

const curve = (edge: Edge, width: number): string => {
  const from = (edge.q + 0.5) * ROW;
  const to = (edge.k + 0.5) * ROW;
  return `M0 ${from}C${width / 2} ${from} ${width / 2} ${to} ${width} ${to}`;
};

export function Columns({ queries, keys, weights, edges, more, q, k, pins, scale, digits, point, choose }: Props) {
  const gap = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(240);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => { if (entry) setWidth(Math.max(60, entry.contentRect.width)); });
    if (gap.current) watch.observe(gap.current);
    return () => watch.disconnect();
  }, []);
  const cols = keys.names.length;
  const byKey = q < 0 && k >= 0;
  const strong = byKey ? edges.filter((e) => e.k === k) : q >= 0 ? more(q) : [];
  const kept = pins.filter((pin) => pin !== q).flatMap(more);
  const shade = (weight: number): Shade => {
    const rgb = colour(scale.map, scale.dark, place(scale, weight));
    return { style: { background: css(rgb), color: ink(rgb) }, says: digits(weight) };
  };
  const height = Math.max(queries.names.length, cols) * ROW;
  const any = strong.length > 0 || kept.length > 0;
  return (
    <div class="words-columns" style={{ '--row': `${ROW}px` }}>
      <Column side="query" groups={queries} at={q} point={point} choose={choose} label="queries: the words that look"
        ground={(i) => (byKey ? shade(weights[i * cols + k] as number) : null)} />
      <svg ref={gap} height={height} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
        <g class={any ? 'faint' : ''}>{edges.map((e) => <path key={`${e.q}.${e.k}`} d={curve(e, width)} stroke-width={1 + 5 * e.weight} stroke-opacity={0.15 + 0.75 * e.weight} />)}</g>
        <g>{[...kept, ...strong].map((e) => <path key={`s${e.q}.${e.k}`} class="strong" d={curve(e, width)} stroke-width={1.5 + 6 * e.weight} stroke-opacity={0.3 + 0.7 * e.weight} />)}</g>
      </svg>
      <Column side="key" groups={keys} at={k} point={point} choose={choose} label="keys: the words that are looked at"
        ground={(i) => (q >= 0 ? shade(weights[q * cols + i] as number) : null)} />
    </div>
  );
}
