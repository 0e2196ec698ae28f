// Long texts: the text itself, each word on the colour of its weight. A bar above shows all
// positions at once, each pixel the largest weight of the words that it stands for. Only the lines
// in sight are in the document.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { colour, css, ink, palette, place, type Scale } from '../../draw/colours';
import { isDark } from '../../shell/theme';
import { change } from '../../store/history';
import { hover, look } from '../../store/state';
import { directionOf } from '../../parts/direction';
import type { Groups } from '../../parts/join';
import { widthOf } from '../../parts/picture';
import { letterOf, pinColour } from '../../parts/lines';

const TEXT = 15; // CSS pixels of the usual text, of which the two numbers below are
const LINE = 30; // CSS pixels of a line
const WIDEST = 27; // ems of a word, as in words.css

// The first word of each line.
function breakLines(names: readonly string[], width: number, large: number): number[] {
  const lines = [0];
  const known = new Map<string, number>();
  let x = 0;
  names.forEach((name, i) => {
    const wide = known.get(name) ?? Math.min(widthOf(name, TEXT), WIDEST * TEXT);
    known.set(name, wide);
    const size = 13 + Math.ceil(wide * large);
    if (x + size > width && x > 0) {
      lines.push(i);
      x = 0;
    }
    x += size;
  });
  return lines;
}

interface Props {
  side: 'query' | 'key';
  name: string; // of the side
  label: string;
  pins: readonly number[]; // pinned words, as groups
  pin?: (word: number) => void; // pins the row of a word, or frees it
  groups: Groups;
  weights: Float32Array | null; // of each word; null: nothing is shown
  isHidden: (word: number) => boolean; // whether the mask hides it
  at: number; // the word that is shown, as a group; -1: none
}

function Bar({
  weights,
  scale,
  count,
  go,
}: {
  weights: Float32Array;
  scale: Scale;
  count: number;
  go: (i: number) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d');
    if (!element || !context) return;
    const width = Math.min(count, 1024);
    element.width = width;
    element.height = 1;
    const image = context.createImageData(width, 1);
    const pixels = new Uint32Array(image.data.buffer);
    const colours = palette(scale.map, scale.dark);
    for (let x = 0; x < width; x++) {
      let most = 0;
      for (let i = Math.floor((x * count) / width); i < Math.floor(((x + 1) * count) / width); i++)
        most = Math.max(most, weights[i] as number);
      pixels[x] = colours[Math.round(255 * place(scale, most))] as number;
    }
    context.putImageData(image, 0, 0);
  });
  return (
    <canvas
      ref={canvas}
      class="words-all"
      aria-hidden="true"
      onClick={(e) => go(Math.floor((e.offsetX / e.currentTarget.clientWidth) * count))}
    />
  );
}

export function Strip({ side, name, label, groups, weights, isHidden, pins, pin, at }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  const [focus, setFocus] = useState(0);
  const [large, setLarge] = useState(1); // the size of the text, 1 as usual
  const direction = useMemo(() => directionOf(groups.names), [groups]);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => {
      if (!entry) return;
      setWidth(entry.contentRect.width);
      setHeight(entry.contentRect.height);
      setLarge(parseFloat(getComputedStyle(entry.target).fontSize) / TEXT);
    });
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const lines = useMemo(() => breakLines(groups.names, width - 24, large), [groups, width, large]);
  const line = Math.round(LINE * large);
  const lineOf = (word: number): number => {
    let low = 0;
    let high = lines.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((lines[middle] as number) <= word) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const go = (word: number): void => {
    box.current?.scrollTo({ top: Math.max(0, lineOf(word) * line - height / 2) });
  };
  // The word that an address selects is in sight when the text first appears.
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current || width === 0) return;
    begun.current = true;
    if (at >= 0) go(at);
  }, [width]);
  const high = useMemo(() => (weights ? weights.reduce((a, b) => Math.max(a, b), 0) : 1), [weights]);
  const map = look.value.colours === 'RdBu' ? 'Blues' : look.value.colours;
  const scale: Scale = {
    low: 0,
    high: high || 1,
    bend: look.value.transform === 'linear' ? 'linear' : 'sqrt',
    map,
    dark: isDark.value,
  };
  const token = (word: number): number => groups.first[word] as number;
  const pointAt = (word: number): void => {
    hover.value = side === 'query' ? { q: token(word), k: -1 } : { q: -1, k: token(word) };
  };
  const choose = (word: number): void => {
    const now = side === 'query' ? look.value.q : look.value.k;
    const next = now === token(word) ? -1 : token(word);
    change(side === 'query' ? { q: next } : { k: next });
  };
  const onKey = (event: KeyboardEvent): void => {
    const on = lineOf(focus);
    const ahead = direction === 'rtl' ? -1 : 1;
    const steps: Record<string, number> = {
      ArrowRight: focus + ahead,
      ArrowLeft: focus - ahead,
      Home: 0,
      End: groups.names.length - 1,
      ArrowDown: lines[on + 1] ?? focus,
      ArrowUp: lines[on - 1] ?? 0,
      PageDown: lines[on + 10] ?? groups.names.length - 1,
      PageUp: lines[on - 10] ?? 0,
    };
    const next = steps[event.key];
    if (next !== undefined) {
      const word = Math.max(0, Math.min(groups.names.length - 1, next));
      setFocus(word);
      pointAt(word);
      go(word);
    } else if (event.key === 'Enter' || event.key === ' ') {
      choose(focus);
    } else if (event.key === 'p' && pin && !event.ctrlKey && !event.metaKey && !event.altKey) {
      pin(focus);
    } else {
      return;
    }
    event.preventDefault();
  };
  const from = Math.max(0, Math.floor(top / line) - 4);
  const to = Math.min(lines.length, Math.ceil((top + height) / line) + 4);
  const word = (i: number) => {
    const weight = weights?.[i];
    const pinned = pins.indexOf(i);
    const [text, pieces] = [groups.names[i] as string, groups.pieces[i]];
    const hidden = weight !== undefined && isHidden(i);
    const rgb = weight === undefined || hidden ? null : colour(scale.map, scale.dark, place(scale, weight));
    return (
      <span
        key={i}
        id={`${side}-word-${i}`}
        role="option"
        aria-selected={i === at}
        class={`${i === focus ? 'focus' : ''} ${pinned >= 0 ? 'pinned' : ''} ${hidden ? 'masked' : ''}`}
        style={{
          ...(rgb ? { background: css(rgb), color: ink(rgb) } : {}),
          ...(pinned >= 0 ? { '--pin': pinColour(pinned) } : {}),
        }}
        title={
          hidden
            ? `${text}: hidden by the mask`
            : pieces
              ? `${text}: ${pieces}`
              : text.length > 40
                ? text
                : undefined
        }
        onPointerEnter={() => pointAt(i)}
        onPointerLeave={() => {
          hover.value = { q: -1, k: -1 };
        }}
        onClick={() => {
          setFocus(i);
          choose(i);
        }}
      >
        <bdi>{text}</bdi>
        {pinned >= 0 && (
          <b class="words-letter">
            <span class="hidden">pinned as </span>
            {letterOf(pinned)}
          </b>
        )}
      </span>
    );
  };
  return (
    <section class="words-strip">
      <h3>
        <span class={`${side}-side`}>{name}</span>: {label}
      </h3>
      {weights && <Bar weights={weights} scale={scale} count={groups.names.length} go={go} />}
      <div
        ref={box}
        class="words-text"
        role="listbox"
        tabIndex={0}
        aria-label={`${name}: ${label}`}
        aria-activedescendant={`${side}-word-${focus}`}
        onKeyDown={onKey}
        onScroll={(e) => setTop(e.currentTarget.scrollTop)}
        onBlur={() => {
          hover.value = { q: -1, k: -1 };
        }}
      >
        <div
          role="presentation"
          dir={direction}
          style={{ height: `${lines.length * line}px`, '--line': `${line}px` }}
        >
          {Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i).map((at) => (
            <div key={at} role="presentation" class="words-line" style={{ top: `${at * line}px` }}>
              {Array.from(
                { length: (lines[at + 1] ?? groups.names.length) - (lines[at] as number) },
                (_, i) => word((lines[at] as number) + i),
              )}
            </div>
          ))}
        </div>
      </div>
    </section>
  );
}
