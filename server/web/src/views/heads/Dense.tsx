// Many heads at once: pictures alone, layers beside one another where the page is wide. The colour
// beneath a picture says what its head does.
import { useRef } from 'preact/hooks';
import { sizeOf } from '../../draw/thumb';
import type { Props } from './Atlas';
import { colourOf, patternOf, type Group, type Thumb } from './data';
import { BETWEEN, fit, type Frame } from './fit';
import { useMoves } from './moves';
import { Picture } from './Picture';

export const FRAME: Frame = {
  gap: 3,
  under: 5, // px of the colour beneath a picture
  above: 28,
  label: 24, // px of the numbers of layers and heads
  numbers: 20,
  least: 14,
  most: 140,
  readable: 40,
  narrowest: 210,
};

// The width and the height of the largest picture of a group.
function largest(group: Group, size: number): [number, number] {
  const all = group.lines.flatMap((line) => line.thumbs.map((t) => sizeOf(t, size)));
  return [
    Math.ceil(Math.max(...all.map(({ width }) => parseFloat(width)))),
    Math.ceil(Math.max(...all.map(({ height }) => parseFloat(height)))),
  ];
}

export function Dense(props: Props) {
  const { groups, place, measures, list } = props;
  const box = useRef<HTMLDivElement>(null);
  const { stop, onKeyDown, onFocus, onFocusOut, onPress } = useMoves(box, props, false);
  const { size, across, widths } = fit(groups, props.room, FRAME, props.isWide);
  const chosen = new Set(list.map((t) => t.key));

  const tile = (t: Thumb, wide: number) => {
    const h = measures(t);
    const name = `${place(t)} head ${t.head}`;
    const does = patternOf(h);
    const isOther = !chosen.has(t.key);
    return (
      <div
        key={t.key}
        role="option"
        class={`heads-card heads-tile ${isOther ? 'other' : ''}`}
        data-key={t.key}
        data-does={h ? colourOf(h.pattern.name) : -1}
        tabIndex={t.key === stop ? 0 : -1}
        aria-selected={t.key === props.selected}
        aria-checked={props.checked.has(t.key)}
        aria-disabled={isOther}
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
        <Picture of={t} size={size} by={props.by} />
      </div>
    );
  };

  return (
    <div
      class="heads-atlas"
      ref={box}
      style={{ '--across': `${BETWEEN.across}px`, '--down': `${BETWEEN.down}px` }}
      onKeyDown={onKeyDown}
      onFocusOut={onFocusOut}
    >
      {groups.map((group, i) => {
        const [wide, high] = largest(group, size);
        const isGrid = group.lines.length > 1;
        const turned = across && isGrid;
        const heads = group.lines[0]?.thumbs.length ?? 0;
        const ways = turned ? 'one column each' : 'one row each';
        return (
          <section key={group.title} style={{ width: `${widths[i]}px` }}>
            {group.title && (
              <h2 title={group.title}>
                {group.title}
                {isGrid && (
                  <small>
                    {' '}
                    {group.lines.length} layers of {heads} heads, {ways}
                  </small>
                )}
              </h2>
            )}
            <div
              role="listbox"
              aria-label={group.title ? `heads of ${group.title}` : 'heads'}
              class={`heads-dense ${turned ? 'across' : ''} ${isGrid ? '' : 'flat'}`}
              style={{
                '--gap': `${FRAME.gap}px`,
                '--label': `${FRAME.label}px`,
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
                  aria-label={isGrid ? `layer ${line.layer}` : group.title || 'heads'}
                  class="heads-dense-line"
                >
                  {isGrid && <span aria-hidden="true">{line.layer}</span>}
                  {line.thumbs.map((t) => tile(t, wide))}
                </div>
              ))}
            </div>
          </section>
        );
      })}
    </div>
  );
}
