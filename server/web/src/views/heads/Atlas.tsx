// The heads as pictures, with what they do beneath.
import { useEffect, useRef, useState } from 'preact/hooks';
import { paint, sizeOf, type Codes } from '../../draw/thumb';
import { measureName, patternOf, type Group, type HeadMeasures, type Thumb } from './data';
import { Dense } from './Dense';
import { useMoves } from './moves';

const GAP = 10;
const NARROW = 6; // px between many heads
const LABEL = 58; // px in front of each layer
const LARGEST = 172;
const SMALLEST = 48;
const READABLE = 104; // px of a head where a line may break
const ROOMY = 120; // px of a picture from which "+" says what it does
const WORDED = 100; // px from which a head says "head 3" and its pattern in a sentence

const near =
  typeof IntersectionObserver === 'undefined'
    ? null
    : new IntersectionObserver(
        (entries) => {
          for (const entry of entries) {
            if (!entry.isIntersecting) continue;
            near?.unobserve(entry.target);
            waiting.get(entry.target)?.();
          }
        },
        { rootMargin: '300px' },
      );
const waiting = new WeakMap<Element, () => void>();

// A picture that is painted when it comes near the screen.
export function Picture({
  of,
  size,
  colours,
  label,
}: {
  of: Codes;
  size: number;
  colours: Uint32Array;
  label?: string;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painted = useRef(false);
  useEffect(() => {
    const to = canvas.current;
    if (!to) return undefined;
    const now = (): void => {
      painted.current = true;
      paint(to, of, colours, size);
    };
    if (painted.current || !near) {
      now();
      return undefined;
    }
    waiting.set(to, now);
    near.observe(to);
    return () => near.unobserve(to);
  }, [of, colours, size]);
  return (
    <canvas
      ref={canvas}
      class="heads-picture"
      width="1"
      height="1"
      style={sizeOf(of, size)}
      role={label ? 'img' : undefined}
      aria-label={label}
      aria-hidden={label ? undefined : true}
    />
  );
}

export interface Props {
  groups: Group[] | null; // null: the heads of `list`, in their order
  dense: boolean; // pictures alone, so that all are seen at once
  list: readonly Thumb[];
  place: (t: Thumb) => string;
  measures: (t: Thumb) => HeadMeasures | undefined;
  measure: string; // the measure to write beneath each head
  digits: (value: number) => string;
  selected: string; // the key of the selected head
  checked: ReadonlySet<string>;
  colours: Uint32Array;
  onSelect: (t: Thumb, lasting: boolean) => void;
  onCheck: (t: Thumb) => void;
  onOpen: (t: Thumb) => void;
}

function Cards(props: Props) {
  const { groups, list, selected } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const { stop, onKeyDown, onFocus, onFocusOut, onPress } = useMoves(box, props);
  useEffect(() => {
    if (!box.current) return undefined;
    const watch = new ResizeObserver(([entry]) => {
      if (entry) setWidth(entry.contentRect.width);
    });
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const most = groups ? Math.max(1, ...groups.flatMap((g) => g.lines.map((l) => l.thumbs.length))) : 7;
  const lined = groups?.some((g) => g.lines.length > 1) ?? false;
  const abreast = lined ? most : Math.max(1, Math.min(most, Math.floor(width / (READABLE + GAP))));
  const gap = abreast > 8 ? NARROW : GAP;
  const room = Math.floor((width - (lined ? LABEL : 0)) / abreast) - gap;
  const size = Math.max(SMALLEST, Math.min(LARGEST, room));
  const wordy = size >= WORDED;

  const card = (t: Thumb) => {
    const h = props.measures(t);
    const value = h?.measures[props.measure];
    const isChecked = props.checked.has(t.key);
    const isWide = wordy && parseFloat(sizeOf(t, size).width) >= ROOMY;
    return (
      <div
        key={t.key}
        role="option"
        class="heads-card"
        data-key={t.key}
        tabIndex={t.key === stop ? 0 : -1}
        aria-selected={t.key === selected}
        aria-checked={isChecked}
        style={{ width: `${size}px` }}
        onFocus={() => onFocus(t)}
        onClick={(event) => {
          onPress();
          if ((event.target as HTMLElement).closest('.heads-check') || event.shiftKey) props.onCheck(t);
          else props.onSelect(t, true);
        }}
        onDblClick={(event) => {
          if (!(event.target as HTMLElement).closest('.heads-check')) props.onOpen(t);
        }}
      >
        <Picture of={t} size={size} colours={props.colours} />
        {groups === null && (
          <small class="heads-place" title={props.place(t)}>
            {props.place(t)}
          </small>
        )}
        <span class="heads-line-of" style={{ width: wordy ? sizeOf(t, size).width : undefined }}>
          <span class="heads-name">
            {groups && <span class="hidden">{props.place(t)} </span>}
            <span class={wordy ? '' : 'hidden'}>head </span>
            {t.head}
          </span>
          <span
            class={`heads-check ${isWide ? 'wide' : ''}`}
            aria-hidden="true"
            title={isChecked ? 'in the mean' : 'put it into the mean'}
          >
            {isChecked ? '✓' : '+'}
            {isWide && ' mean'}
          </span>
        </span>
        {props.measure !== '' && (
          <span class="heads-measure" data-value={value ?? ''}>
            <span class="hidden">{measureName(props.measure)} </span>
            {typeof value === 'number' ? props.digits(value) : '–'}
          </span>
        )}
        <span class="heads-pattern">{patternOf(h, !wordy)}</span>
      </div>
    );
  };

  return (
    <div
      class={`heads-atlas ${wordy ? 'wordy' : ''}`}
      ref={box}
      style={{ '--gap': `${gap}px` }}
      onKeyDown={onKeyDown}
      onFocusOut={onFocusOut}
    >
      {groups
        ? groups.map((group) => (
            <section key={group.title}>
              <h2>
                {group.title}
                {group.lines.length > 1 && (
                  <small>
                    {' '}
                    {group.lines.length} layers{!wordy && '; the number beneath a picture is its head'}
                  </small>
                )}
              </h2>
              <div role="listbox" aria-label={`heads of ${group.title}`} aria-orientation="horizontal">
                {group.lines.map((line) => (
                  <div
                    key={line.layer}
                    role="group"
                    aria-label={`layer ${line.layer}`}
                    class={`heads-line ${lined ? '' : 'flat'}`}
                  >
                    {group.lines.length > 1 && (
                      <span class="heads-layer" aria-hidden="true">
                        layer {line.layer}
                      </span>
                    )}
                    {line.thumbs.map(card)}
                  </div>
                ))}
              </div>
            </section>
          ))
        : list.length > 0 && (
            <div role="listbox" aria-label="heads" aria-orientation="horizontal" class="heads-line flat">
              {list.map(card)}
            </div>
          )}
    </div>
  );
}

export const DENSE = 64; // more heads than this are pictures alone

export const Atlas = (props: Props) =>
  props.dense && props.groups ? <Dense {...props} groups={props.groups} /> : <Cards {...props} />;
