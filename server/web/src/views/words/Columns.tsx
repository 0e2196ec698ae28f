// Two columns of words, the queries on the left and the keys on the right, and a line for each
// strong weight between them. All lines are drawn faintly, and those of the shown word strongly.
import { useEffect, useRef, useState } from 'preact/hooks';
import { colour, css, ink, place, type Scale } from '../../draw/colours';
import { isDark } from '../../shell/theme';
import { change } from '../../store/history';
import { hover, look, shown } from '../../store/state';
import { digits } from '../../store/values';
import type { Edge } from './edges';
import type { Groups } from './join';

const ROW = 28; // CSS pixels of a word

interface Props {
  queries: Groups;
  keys: Groups;
  weights: Float32Array; // [queries, keys] of the groups
  edges: Edge[];
  more: (q: number) => Edge[]; // the edges of a row that is shown
}

// A column is a listbox: arrows move, Enter keeps.
function Column({ side, groups, at, label, ground }: {
  side: 'query' | 'key'; groups: Groups; at: number; label: string; ground: (i: number) => { style: Record<string, string>; says: string } | null;
}) {
  const list = useRef<HTMLUListElement>(null);
  const [focus, setFocus] = useState(0);
  const token = (i: number): number => groups.first[i] as number;
  const pointAt = (i: number): void => { hover.value = side === 'query' ? { q: token(i), k: -1 } : { q: -1, k: token(i) }; };
  const leave = (): void => { hover.value = { q: -1, k: -1 }; };
  const choose = (i: number): void => {
    const now = side === 'query' ? look.value.q : look.value.k;
    const next = now === token(i) ? -1 : token(i);
    change(side === 'query' ? { q: next } : { k: next });
  };
  const onKey = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
    const step = steps[event.key];
    if (step !== undefined) {
      const next = Math.max(0, Math.min(groups.names.length - 1, focus + step));
      setFocus(next);
      pointAt(next);
      list.current?.children[next]?.scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter' || event.key === ' ') {
      choose(focus);
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    <ul ref={list} class={`words-${side}`} role="listbox" tabIndex={0} aria-label={label} aria-activedescendant={`${side}-${focus}`} onKeyDown={onKey}
      onFocus={() => { if (list.current?.matches(':focus-visible')) pointAt(focus); }} onBlur={leave}>
      {groups.names.map((name, i) => {
        const shade = ground(i);
        return (
          <li key={i} id={`${side}-${i}`} role="option" aria-selected={i === at} class={i === focus ? 'focus' : ''} title={name}
            onPointerEnter={() => pointAt(i)} onPointerLeave={leave} onClick={() => { setFocus(i); choose(i); }}>
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

export function Columns({ queries, keys, weights, edges, more }: Props) {
  const gap = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(240);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => { if (entry) setWidth(Math.max(60, entry.contentRect.width)); });
    if (gap.current) watch.observe(gap.current);
    return () => watch.disconnect();
  }, []);
  const cols = keys.names.length;
  const q = shown.value.q >= 0 ? queries.of[shown.value.q] ?? -1 : -1;
  const k = shown.value.k >= 0 ? keys.of[shown.value.k] ?? -1 : -1;
  const pins = new Set(look.value.pins.map((pin) => queries.of[pin] ?? -1));
  const byKey = q < 0 && k >= 0;
  const strong = byKey ? edges.filter((e) => e.k === k) : q >= 0 ? more(q) : [];
  const kept = [...pins].filter((pin) => pin >= 0 && pin !== q).flatMap(more);
  const scale: Scale = { low: 0, high: 1, bend: look.value.transform === 'linear' ? 'linear' : 'sqrt', map: look.value.colours === 'RdBu' ? 'Blues' : look.value.colours, dark: isDark.value };
  const shade = (weight: number) => {
    const rgb = colour(scale.map, scale.dark, place(scale, weight));
    return { style: { background: css(rgb), color: ink(rgb) }, says: digits(weight) };
  };
  const height = Math.max(queries.names.length, cols) * ROW;
  const any = strong.length > 0 || kept.length > 0;
  return (
    <div class="words-columns" style={{ '--row': `${ROW}px` }}>
      <Column side="query" groups={queries} at={q} label="queries: the words that look" ground={(i) => (byKey ? shade(weights[i * cols + k] as number) : null)} />
      <svg ref={gap} height={height} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
        <g class={any ? 'faint' : ''}>{edges.map((e) => <path key={`${e.q}.${e.k}`} d={curve(e, width)} stroke-width={1 + 5 * e.weight} stroke-opacity={0.15 + 0.75 * e.weight} />)}</g>
        <g>{[...kept, ...strong].map((e) => <path key={`s${e.q}.${e.k}`} class="strong" d={curve(e, width)} stroke-width={1.5 + 6 * e.weight} stroke-opacity={0.3 + 0.7 * e.weight} />)}</g>
      </svg>
      <Column side="key" groups={keys} at={k} label="keys: the words that are looked at" ground={(i) => (q >= 0 ? shade(weights[q * cols + i] as number) : null)} />
    </div>
  );
}
