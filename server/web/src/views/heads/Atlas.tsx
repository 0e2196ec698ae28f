// The heads as pictures, with what they do beneath, or as pictures alone if they are many.
import { useRef } from 'preact/hooks';
import { sizeOf } from '../../draw/thumb';
import { measureName, patternOf, type Group, type HeadMeasures, type Thumb } from './data';
import { Dense } from './Dense';
import { BETWEEN, fit, type Frame, type Room } from './fit';
import { useMoves } from './moves';
import { Picture, type Paint } from './Picture';

const ROOMY = 120; // px of a picture from which "+" says what it does
const WORDED = 100; // px from which a head says "head 3" and its pattern in a sentence

const FRAME: Frame = {
  gap: 10,
  under: 78,
  above: 32,
  label: 48,
  numbers: 0,
  least: 48,
  most: 250,
  readable: 150,
  narrowest: 0,
};
const MEASURE = 22; // px of a number beneath a picture
const PLACE = 22; // px of the place of a head

export interface Props {
  groups: Group[]; // the groups that are shown
  hasPlaces: boolean; // the groups say which layers their heads are of
  room: Room;
  isWide: boolean;
  list: readonly Thumb[]; // the heads that are chosen, in their order
  place: (t: Thumb) => string;
  measures: (t: Thumb) => HeadMeasures | undefined;
  measure: string; // the measure to write beneath each head
  digits: (value: number) => string;
  selected: string; // the key of the selected head
  checked: ReadonlySet<string>;
  by: Paint;
  onSelect: (t: Thumb, lasting: boolean) => void;
  onCheck: (t: Thumb) => void;
  onOpen: (t: Thumb) => void;
}

function Cards(props: Props) {
  const { groups, hasPlaces, selected } = props;
  const box = useRef<HTMLDivElement>(null);
  const { stop, onKeyDown, onFocus, onFocusOut, onPress } = useMoves(box, props);
  const under = FRAME.under + (props.measure ? MEASURE : 0) + (hasPlaces ? 0 : PLACE);
  const { size, widths } = fit(groups, props.room, { ...FRAME, under }, false);
  const wordy = size >= WORDED;
  const lined = groups.some((g) => g.lines.length > 1);

  const card = (t: Thumb) => {
    const h = props.measures(t);
    const value = h?.measures[props.measure];
    const isChecked = props.checked.has(t.key);
    const { width } = sizeOf(t, size);
    const isWide = wordy && parseFloat(width) >= ROOMY;
    return (
      <div
        key={t.key}
        role="option"
        class="heads-card"
        data-key={t.key}
        tabIndex={t.key === stop ? 0 : -1}
        aria-selected={t.key === selected}
        aria-checked={isChecked}
        style={{ width }}
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
        <Picture of={t} size={size} by={props.by} />
        {!hasPlaces && (
          <small class="heads-place" title={props.place(t)}>
            {props.place(t)}
          </small>
        )}
        <span class="heads-line-of">
          <span class="heads-name">
            {hasPlaces && <span class="hidden">{props.place(t)} </span>}
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
      style={{ '--gap': `${FRAME.gap}px`, '--across': `${BETWEEN.across}px`, '--down': `${BETWEEN.down}px` }}
      onKeyDown={onKeyDown}
      onFocusOut={onFocusOut}
    >
      {groups.map((group, i) => (
        <section key={group.title} style={{ width: `${widths[i]}px` }}>
          {group.title && (
            <h2>
              {group.title}
              {group.lines.length > 1 && <small> {group.lines.length} layers</small>}
            </h2>
          )}
          <div
            role="listbox"
            aria-label={group.title ? `heads of ${group.title}` : 'heads'}
            aria-orientation="horizontal"
          >
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
      ))}
    </div>
  );
}

export const DENSE = 32; // more heads than this are pictures alone

export const Atlas = (props: Props & { dense: boolean }) =>
  props.dense ? <Dense {...props} /> : <Cards {...props} />;
