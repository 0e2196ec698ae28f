// Many heads at once: pictures alone, layers beside one another where the page is wide. The colour
// beneath a picture says what its head does.
import { useEffect, useRef, useState } from 'preact/hooks';
import { sizeOf } from '../../draw/thumb';
import { Picture, type Props } from './Atlas';
import { colourOf, patternOf, type Group, type Thumb } from './data';
import { useMoves } from './moves';

const GAP = 3;
const LABEL = 26; // px of the numbers of layers and heads
const UNDER = 5; // px of the colour beneath a picture
const ABOVE = 90; // px of the title and the note
const LEAST = 14;
const MOST = 96;
const FLAT = 40; // px of a picture in a group
const WIDE = 600; // px from which the layers are columns

interface Room {
  width: number;
  height: number;
}

// The number of columns and the size of a picture so that all of a group are seen at once.
function fit(group: Group, { width, height }: Room): { across: boolean; size: number } {
  const heads = Math.max(1, ...group.lines.map((l) => l.thumbs.length));
  const layers = group.lines.length;
  if (layers === 1) return { across: false, size: FLAT };
  const across = width >= WIDE && layers > heads;
  const [columns, rows] = across ? [layers, heads] : [heads, layers];
  const wide = Math.floor((width - LABEL) / columns) - GAP;
  const high = Math.floor((height - ABOVE) / rows) - GAP - UNDER;
  return { across, size: Math.max(LEAST, Math.min(MOST, wide, width >= WIDE ? high : wide)) };
}

// The width and the height of the largest picture of a group, whose cells are whole pixels.
function largest(group: Group, size: number): [number, number] {
  const all = group.lines.flatMap((line) => line.thumbs.map((t) => sizeOf(t, size)));
  return [
    Math.max(...all.map(({ width }) => parseFloat(width))),
    Math.max(...all.map(({ height }) => parseFloat(height))),
  ];
}

export function Dense(props: Props & { groups: Group[] }) {
  const { groups, place, measures } = props;
  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState<Room>({ width: 0, height: 0 });
  const { stop, onKeyDown, onFocus, onFocusOut, onPress } = useMoves(box, props, false);
  useEffect(() => {
    const list = box.current?.parentElement;
    if (!list || !box.current) return undefined;
    const watch = new ResizeObserver(() =>
      setRoom({ width: box.current?.clientWidth ?? 0, height: list.clientHeight }),
    );
    watch.observe(box.current);
    watch.observe(list);
    return () => watch.disconnect();
  }, []);

  const tile = (t: Thumb, size: number, wide: number) => {
    const h = measures(t);
    const name = `${place(t)} head ${t.head}`;
    const does = patternOf(h);
    return (
      <div
        key={t.key}
        role="option"
        class="heads-card heads-tile"
        data-key={t.key}
        data-does={h ? colourOf(h.pattern.name) : -1}
        tabIndex={t.key === stop ? 0 : -1}
        aria-selected={t.key === props.selected}
        aria-checked={props.checked.has(t.key)}
        aria-label={does ? `${name}: ${does}` : name}
        title={does ? `${name}: ${does}` : name}
        style={{ width: `${wide}px` }}
        onFocus={() => onFocus(t)}
        onClick={(event) => {
          onPress();
          if (event.shiftKey) props.onCheck(t);
          else props.onSelect(t, true);
        }}
        onDblClick={() => props.onOpen(t)}
      >
        <Picture of={t} size={size} colours={props.colours} />
      </div>
    );
  };

  return (
    <div class="heads-atlas" ref={box} onKeyDown={onKeyDown} onFocusOut={onFocusOut}>
      {groups.map((group) => {
        const { across, size } = fit(group, room);
        const [wide, high] = largest(group, size);
        const isGrid = group.lines.length > 1;
        const heads = group.lines[0]?.thumbs.length ?? 0;
        const ways = across ? 'one column each' : 'one row each';
        return (
          <section key={group.title}>
            <h2>
              {group.title}
              {isGrid && (
                <small>
                  {' '}
                  {group.lines.length} layers of {heads} heads, {ways}
                </small>
              )}
            </h2>
            <div
              role="listbox"
              aria-label={`heads of ${group.title}`}
              class={`heads-dense ${across ? 'across' : ''} ${isGrid ? '' : 'flat'}`}
              style={{
                '--gap': `${GAP}px`,
                '--label': `${LABEL}px`,
                '--wide': `${wide}px`,
                '--high': `${high}px`,
              }}
            >
              {isGrid && (
                <div class="heads-numbers-of" aria-hidden="true">
                  {group.lines[0]?.thumbs.map((t) => (
                    <span key={t.head}>{t.head}</span>
                  ))}
                </div>
              )}
              {group.lines.map((line) => (
                <div
                  key={line.layer}
                  role="group"
                  aria-label={isGrid ? `layer ${line.layer}` : group.title}
                  class="heads-dense-line"
                >
                  {isGrid && <span aria-hidden="true">{line.layer}</span>}
                  {line.thumbs.map((t) => tile(t, size, wide))}
                </div>
              ))}
            </div>
          </section>
        );
      })}
    </div>
  );
}
