// What the colours mean, and how to choose others.
import { useEffect, useRef, useState } from 'preact/hooks';
import { block, WHOLE_MOST } from '../../api/runs';
import { colour } from '../../draw/colours';
import { ticks } from '../../draw/scale';
import { isDark } from '../../shell/theme';
import { change } from '../../store/history';
import { head, inSight, look, type Colours, type Plane, type Transform } from '../../store/state';
import { digits } from '../../parts/digits';
import { seesAll } from '../../parts/mask';
import { site } from '../../store/run';
import { Joined } from '../../shell/Joined';
import { words } from '../../store/values';
import { cellsOf } from '../../store/cells';
import { codingOf } from './source';

const scales: readonly (readonly [Transform, string])[] = [
  ['linear', 'linear'],
  ['sqrt', 'square root'],
  ['log', 'logarithm'],
  ['row', 'by row'],
];
const planes: readonly (readonly [Plane, string])[] = [
  ['max', 'max'],
  ['mean', 'mean'],
];
const maps: readonly Colours[] = ['Blues', 'viridis', 'cividis', 'RdBu'];

const inWords: Record<Transform, string> = {
  linear: 'linear scale',
  sqrt: 'square root scale',
  log: 'logarithmic scale, six powers of ten',
  row: 'each weight divided by the largest of its row',
};

function short(value: number): string {
  if (value === 0) return '0';
  if (value >= 0.001 && value < 1000) return String(Number(value.toPrecision(3)));
  return digits(value).replace('.0e', 'e');
}

function Bar({
  map,
  transform,
  range,
}: {
  map: Colours;
  transform: Transform;
  range: readonly [number, number];
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = isDark.value;
  useEffect(() => {
    const c = canvas.current?.getContext('2d');
    if (!c) return;
    for (let i = 0; i < 256; i++) {
      const [r, g, b] = colour(map, dark, i / 255);
      c.fillStyle = `rgb(${r} ${g} ${b})`;
      c.fillRect(i, 0, 1, 1);
    }
  }, [map, dark]);
  return (
    <div class="matrix-bar">
      <canvas ref={canvas} width={256} height={1} aria-hidden="true" />
      <ul aria-label="values of the colours">
        {ticks(codingOf(transform), range, 0.14).map(({ value, at }) => (
          <li
            key={at}
            style={{ left: `${100 * at}%` }}
            data-end={at === 0 ? 'first' : at === 1 ? 'last' : undefined}
          >
            {short(value)}
          </li>
        ))}
      </ul>
    </div>
  );
}

// Two numbers; both fields empty: the range of the head.
function Range({ found }: { found: readonly [number, number] }) {
  const { range, transform } = look.value;
  const [texts, setTexts] = useState<[string, string]>(['', '']);
  const [wrong, setWrong] = useState('');
  useEffect(() => {
    setTexts(range ? [String(range[0]), String(range[1])] : ['', '']);
    setWrong('');
  }, [range]);
  const take = (low: string, high: string): void => {
    if (!low && !high) {
      setWrong('');
      change({ range: null });
      return;
    }
    const a = low ? Number(low) : 0;
    const b = high ? Number(high) : found[1];
    if (!(Math.fround(a) < Math.fround(b) && b > 0)) {
      setWrong('The end must be above the start and above 0.');
      return;
    }
    setWrong('');
    if (range?.[0] !== a || range[1] !== b) change({ range: [a, b] });
  };
  const field = (i: 0 | 1, name: string) => (
    <input
      type="number"
      step="any"
      aria-label={name}
      placeholder={short(found[i])}
      value={texts[i]}
      disabled={transform === 'row'}
      aria-invalid={wrong !== ''}
      aria-describedby="matrix-wrong"
      onInput={(e) =>
        setTexts(i === 0 ? [e.currentTarget.value, texts[1]] : [texts[0], e.currentTarget.value])
      }
      onChange={(e) =>
        take(i === 0 ? e.currentTarget.value : texts[0], i === 1 ? e.currentTarget.value : texts[1])
      }
    />
  );
  return (
    <span class="matrix-range" role="group" aria-label="range of the colours">
      range {field(0, 'start of the range')} to {field(1, 'end of the range')}
      {transform !== 'row' && (
        <button
          type="button"
          onClick={() => void fit().then(setWrong)}
          title="the range of the weights in sight"
        >
          fit
        </button>
      )}
      {transform !== 'row' && (
        <button
          type="button"
          disabled={!range}
          onClick={() => change({ range: null })}
          title="the range of the head"
        >
          whole
        </button>
      )}
      <span id="matrix-wrong" class="bad" role="status">
        {wrong}
      </span>
    </span>
  );
}

// Makes the range that of the weights in sight. Returns what went wrong.
async function fit(): Promise<string> {
  const part = inSight.value?.();
  if (!part) return '';
  const [rows, cols] = [part.rows[1] - part.rows[0], part.cols[1] - part.cols[0]];
  if (rows * cols > WHOLE_MOST) return 'Too many weights are in sight; zoom in first.';
  try {
    const all = words.value
      ? (await cellsOf(head.value, words.value)).weights
      : await block(head.value, part.rows[0], rows, part.cols[0], cols);
    const seen = all.filter((x) => x > 0);
    if (!seen.length) return 'No weight above 0 is in sight.';
    const high = seen.reduce((a, b) => Math.max(a, b));
    const low = seen.reduce((a, b) => Math.min(a, b));
    change({ range: low < high ? [low, high] : [0, high] });
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

interface Colouring {
  map: Colours;
  range: readonly [number, number];
  rows: number;
  cols: number;
}

export function Legend({ map, range, rows, cols }: Colouring) {
  const { plane, transform, batch } = look.value;
  const hides = site.value !== null && !seesAll(site.value.mask, batch);
  return (
    <div class="matrix-legend">
      <Bar map={map} transform={transform} range={range} />
      <p class="matrix-words">
        <b>
          {rows > 1 || cols > 1
            ? `${plane} of ${rows} × ${cols}`
            : words.value
              ? 'every cell is one weight between words'
              : 'every cell is one weight'}
        </b>
        ; {inWords[transform]}
        {hides && (
          <>
            ; <span class="matrix-swatch" aria-hidden="true" /> hidden
          </>
        )}
      </p>
      <Joined />
    </div>
  );
}

export function Choices({ map, range }: Colouring) {
  const { plane, transform } = look.value;
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="matrix-more" aria-expanded={open} onClick={() => setOpen(!open)}>
        colours…
      </button>
      <div class={`matrix-choices ${open ? 'matrix-open' : ''}`} role="group" aria-label="colours">
        <label>
          scale{' '}
          <select
            value={transform}
            onChange={(e) => change({ transform: e.currentTarget.value as Transform })}
          >
            {scales.map(([id, name]) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label title="what a cell shows that stands for several weights">
          cells{' '}
          <select value={plane} onChange={(e) => change({ plane: e.currentTarget.value as Plane })}>
            {planes.map(([id, name]) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          colours{' '}
          <select value={map} onChange={(e) => change({ colours: e.currentTarget.value as Colours })}>
            {maps.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <Range found={range} />
      </div>
    </>
  );
}
