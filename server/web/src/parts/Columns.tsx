// Two columns of words, the queries on the left and the keys on the right, and a line for each
// strong weight between them. All lines are drawn faintly, and those of the shown word strongly.
import { useEffect, useRef, useState } from 'preact/hooks';
import { colour, css, ink, place, type Scale } from '../draw/colours';
import type { Groups } from './join';
import { curve, dashOf, faintly, letterOf, pinColour, ROW, strongly, strongOf, type Seen } from './lines';

interface Props extends Seen {
  queries: Groups;
  keys: Groups;
  weights: Float32Array; // [queries, keys] of the groups
  hides: Uint8Array; // the same: 1 where the mask hides the key
  scale: Scale;
  digits: (weight: number) => string;
  point: (side: Side, group: number) => void; // -1: the pointer left
  choose: (side: Side, group: number) => void;
  pin?: (q: number) => void; // pins a row, or frees it
}

export type Side = 'query' | 'key';

interface Shade {
  style: Record<string, string>;
  says: string;
  masked?: boolean;
}

// A column is a listbox: arrows move, Enter keeps, and P pins a row.
function Column({
  side,
  groups,
  at,
  label,
  ground,
  point,
  choose,
  pin,
  pins,
}: Pick<Props, 'point' | 'choose' | 'pin'> & {
  side: Side;
  groups: Groups;
  at: number;
  label: string;
  ground: (i: number) => Shade | null;
  pins: readonly number[];
}) {
  const list = useRef<HTMLUListElement>(null);
  const [focus, setFocus] = useState(0);
  const onKey = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: 10,
      PageUp: -10,
      Home: -1e9,
      End: 1e9,
    };
    const step = steps[event.key];
    if (step !== undefined) {
      const next = Math.max(0, Math.min(groups.names.length - 1, focus + step));
      setFocus(next);
      point(side, next);
      list.current?.children[next]?.scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter' || event.key === ' ') {
      choose(side, focus);
    } else if (event.key === 'p' && pin && !event.ctrlKey && !event.metaKey && !event.altKey) {
      pin(focus);
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    <ul
      ref={list}
      class={`words-${side}`}
      role="listbox"
      tabIndex={0}
      aria-label={label}
      aria-activedescendant={`${side}-${focus}`}
      onKeyDown={onKey}
      onFocus={() => {
        if (list.current?.matches(':focus-visible')) point(side, focus);
      }}
      onBlur={() => point(side, -1)}
    >
      {groups.names.map((name, i) => {
        const shade = ground(i);
        const pinned = pins.indexOf(i);
        return (
          <li
            key={i}
            id={`${side}-${i}`}
            role="option"
            aria-selected={i === at}
            class={`${i === focus ? 'focus' : ''} ${pinned >= 0 ? 'pinned' : ''}`}
            style={pinned >= 0 ? { '--pin': pinColour(pinned) } : {}}
            title={groups.pieces[i] ? `${name}: ${groups.pieces[i]}` : name}
            onPointerEnter={() => point(side, i)}
            onPointerLeave={() => point(side, -1)}
            onClick={() => {
              setFocus(i);
              choose(side, i);
            }}
          >
            <bdi class={shade?.masked ? 'masked' : undefined} style={shade?.style ?? {}}>
              {name}
            </bdi>
            {pinned >= 0 && (
              <b class="words-letter">
                <span class="hidden">pinned as </span>
                {letterOf(pinned)}
              </b>
            )}
            {shade?.says && <small>{shade.says}</small>}
          </li>
        );
      })}
    </ul>
  );
}

export function Columns({
  queries,
  keys,
  weights,
  hides,
  edges,
  more,
  q,
  k,
  pins,
  scale,
  digits,
  point,
  choose,
  pin,
}: Props) {
  const gap = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(240);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => {
      if (entry) setWidth(Math.max(60, entry.contentRect.width));
    });
    if (gap.current) watch.observe(gap.current);
    return () => watch.disconnect();
  }, []);
  const cols = keys.names.length;
  const byKey = q < 0 && k >= 0;
  const strong = strongOf({ edges, more, q, k, pins });
  const shade = (i: number): Shade => {
    if (hides[i]) return { style: {}, says: 'hidden', masked: true };
    const weight = weights[i] as number;
    const rgb = colour(scale.map, scale.dark, place(scale, weight));
    return { style: { background: css(rgb), color: ink(rgb) }, says: digits(weight) };
  };
  const rows = Math.max(queries.names.length, cols);
  return (
    <div class="words-columns" style={{ '--rows': rows }}>
      <Column
        side="query"
        groups={queries}
        at={q}
        point={point}
        choose={choose}
        pin={pin}
        pins={pins}
        label="queries: the words that look"
        ground={(i) => (byKey ? shade(i * cols + k) : null)}
      />
      <svg
        ref={gap}
        viewBox={`0 0 ${width} ${rows * ROW}`}
        style={{ height: `calc(var(--row) * ${rows})` }}
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        <g class={strong.length ? 'faint' : ''}>
          {edges.map((e) => (
            <path
              key={`${e.q}.${e.k}`}
              d={curve(e, width)}
              stroke-width={faintly(e).width}
              stroke-opacity={faintly(e).opacity}
            />
          ))}
        </g>
        <g>
          {strong.map((e) => (
            <path
              key={`${e.pin}.${e.q}.${e.k}`}
              class={e.pin < 0 ? 'strong' : 'strong pinned'}
              d={curve(e, width)}
              stroke-width={strongly(e).width}
              stroke-opacity={strongly(e).opacity}
              stroke-dasharray={e.pin < 0 ? undefined : dashOf(e.pin)}
              style={e.pin < 0 ? {} : { '--pin': pinColour(e.pin) }}
            />
          ))}
        </g>
      </svg>
      <Column
        side="key"
        groups={keys}
        at={k}
        point={point}
        choose={choose}
        pins={[]}
        label="keys: the words that are looked at"
        ground={(i) => (q >= 0 ? shade(q * cols + i) : null)}
      />
    </div>
  );
}
