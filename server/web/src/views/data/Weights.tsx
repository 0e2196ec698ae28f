// Finished weights: one head of them as a heatmap that the service makes, the strongest keys of its
// queries as a table, and its pattern in words.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Problem } from '../../api/client';
import { colour, ink, palette, place, type Scale } from '../../draw/colours';
import { isContrast, isDark } from '../../shell/theme';
import { digits } from '../../parts/digits';
import { labelsOf } from '../../parts/join';
import { importing, openWeights } from './state';
import {
  describe,
  draw,
  finished,
  unfit,
  type Drawn,
  type Finished,
  type Weights as WeightSet,
} from './finished';

const SIDE = 560; // CSS pixels of the longer side, without names
const ROOM = 92; // for names, at most
const BESIDE = 304; // for the table
const NAMED = 48; // most rows or columns with a name each

const nothing: ReadonlySet<number> = new Set();
const nameOf = (names: string[] | undefined, i: number): string =>
  (names && labelsOf(names, nothing)[i]) ?? String(i);

// A name that fits, else its beginning and "…".
function cut(context: CanvasRenderingContext2D, name: string, room: number): string {
  const letters = [...name.slice(0, 200)];
  if (name.length <= 200 && context.measureText(name).width <= room) return name;
  while (letters.length && context.measureText(`${letters.join('')}…`).width > room) letters.pop();
  return `${letters.join('')}…`;
}

interface Frame {
  left: number;
  top: number;
  right: number; // beside the map, where the name of the last key ends
  cell: number;
}

const roomFor = (names: string[] | undefined): number =>
  Math.min(ROOM, 18 + 8 * Math.max(3, ...(names ?? []).map((name) => name.length)));

const TURN = Math.PI / 3; // of the names of keys

function frameOf(drawn: Drawn, labels: WeightSet['labels'], width: number): Frame {
  const top = roomFor(labels?.key);
  const right = labels?.key ? top / Math.tan(TURN) : 0;
  const room = Math.max(160, Math.min(SIDE, width - ROOM - 2 - right));
  return {
    left: roomFor(labels?.query),
    top,
    right,
    cell: Math.min(44, Math.max(0.25, room / Math.max(drawn.rows, drawn.cols))),
  };
}

function paint(
  canvas: HTMLCanvasElement,
  drawn: Drawn,
  labels: WeightSet['labels'],
  scale: Scale,
  frame: Frame,
): void {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [
    frame.left + drawn.cols * frame.cell + frame.right,
    frame.top + drawn.rows * frame.cell,
  ];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  const style = getComputedStyle(canvas);
  const colours = palette(scale.map, scale.dark);
  const picture = new ImageData(drawn.cols, drawn.rows);
  const pixels = new Uint32Array(picture.data.buffer);
  drawn.cells.forEach((value, i) => {
    pixels[i] = colours[Math.round(255 * place(scale, value))] as number;
  });
  for (const [row = 0, from = 0, to = 0] of drawn.hidden)
    pixels.fill(0, row * drawn.cols + from, row * drawn.cols + to);
  const small = new OffscreenCanvas(drawn.cols, drawn.rows);
  (small.getContext('2d') as OffscreenCanvasRenderingContext2D).putImageData(picture, 0, 0);
  context.scale(ratio, ratio);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, frame.left, frame.top, drawn.cols * frame.cell, drawn.rows * frame.cell);
  context.strokeStyle = style.borderTopColor;
  context.strokeRect(
    frame.left - 0.5,
    frame.top - 0.5,
    drawn.cols * frame.cell + 1,
    drawn.rows * frame.cell + 1,
  );
  context.font = `13px ${style.fontFamily}`;
  context.fillStyle = style.color;
  context.textBaseline = 'middle';
  const every = (count: number): number => Math.ceil((18 / frame.cell) * (count > NAMED ? 2 : 1));
  context.textAlign = 'right';
  for (let r = 0; r < drawn.rows; r += every(drawn.rows))
    context.fillText(
      cut(context, nameOf(labels?.query, r * (drawn.step[0] ?? 1)), frame.left - 12),
      frame.left - 8,
      frame.top + (r + 0.5) * frame.cell,
    );
  context.textAlign = 'left';
  for (let c = 0; c < drawn.cols; c += every(drawn.cols)) {
    context.save();
    context.translate(frame.left + (c + 0.5) * frame.cell, frame.top - 8);
    context.rotate(-TURN);
    const name = nameOf(labels?.key, c * (drawn.step[1] ?? 1));
    context.fillText(cut(context, name, (frame.top - 14) / Math.sin(TURN)), 0, 0);
    context.restore();
  }
  if (frame.cell < 34) return;
  context.textAlign = 'center';
  context.font = `11px ${style.fontFamily}`;
  drawn.cells.forEach((value, i) => {
    context.fillStyle = ink(colour(scale.map, scale.dark, place(scale, value)));
    context.fillText(
      value.toFixed(2),
      frame.left + ((i % drawn.cols) + 0.5) * frame.cell,
      frame.top + (Math.floor(i / drawn.cols) + 0.5) * frame.cell,
    );
  });
}

// The queries or keys of a cell, by their names or, if there are several, by their numbers too.
function Span({
  side,
  names,
  at,
  step,
  count,
}: {
  side: 'query' | 'key';
  names: string[] | undefined;
  at: number;
  step: number;
  count: number;
}) {
  const from = at * step;
  const to = Math.min(from + step, count) - 1;
  if (to === from)
    return (
      <>
        {side} <bdi>{nameOf(names, from)}</bdi>
      </>
    );
  return (
    <>
      {side === 'query' ? 'queries' : 'keys'} {from}–{to}
      {names && (
        <>
          {' '}
          (<bdi>{nameOf(names, from)}</bdi> to <bdi>{nameOf(names, to)}</bdi>)
        </>
      )}
    </>
  );
}

function Picture({
  drawn,
  labels,
  select,
}: {
  drawn: Drawn;
  labels: WeightSet['labels'];
  select: (row: number) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [at, setAt] = useState<[number, number] | null>(null);
  const [width, setWidth] = useState(SIDE + ROOM);
  const dark = isDark.value;
  const signed = drawn.range[0] < 0;
  const most = Math.max(Math.abs(drawn.range[0]), Math.abs(drawn.range[1]));
  const scale: Scale = signed
    ? { low: -most, high: most, bend: 'linear', map: 'RdBu', dark }
    : {
        low: 0,
        high: drawn.range[1],
        bend: 'sqrt',
        map: isContrast.value ? 'cividis' : 'Blues',
        dark,
      };
  const frame = frameOf(drawn, labels, width);
  useEffect(() => {
    const box = canvas.current?.closest('.data-drawn');
    if (!box) return undefined;
    const watch = new ResizeObserver(() => setWidth(box.clientWidth - (box.clientWidth > 700 ? BESIDE : 0)));
    watch.observe(box);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current) paint(canvas.current, drawn, labels, scale, frame);
  }, [drawn, labels, dark, isContrast.value, frame.cell]);
  const cellAt = (event: PointerEvent | MouseEvent): [number, number] | null => {
    const r = Math.floor((event.offsetY - frame.top) / frame.cell);
    const c = Math.floor((event.offsetX - frame.left) / frame.cell);
    return r >= 0 && c >= 0 && r < drawn.rows && c < drawn.cols ? [r, c] : null;
  };
  const [stepRow = 1, stepCol = 1] = drawn.step;
  return (
    <figure class="data-picture">
      <canvas
        ref={canvas}
        role="img"
        aria-label={
          `heatmap of ${drawn.rows} rows and ${drawn.cols} keys, ` +
          `weights from ${digits(drawn.range[0])} to ${digits(drawn.range[1])}`
        }
        onPointerMove={(e) => setAt(cellAt(e))}
        onPointerLeave={() => setAt(null)}
        onClick={(e) => {
          const cell = cellAt(e);
          if (cell) select(cell[0] * stepRow);
        }}
      />
      <figcaption>
        {at ? (
          <>
            {stepRow * stepCol > 1 ? 'largest of ' : ''}
            <Span side="query" names={labels?.query} at={at[0]} step={stepRow} count={drawn.of[0]} />,{' '}
            <Span side="key" names={labels?.key} at={at[1]} step={stepCol} count={drawn.of[1]} />:{' '}
            <output>{digits(drawn.cells[at[0] * drawn.cols + at[1]] as number)}</output>
          </>
        ) : (
          <>
            A row is a query, a column a key; {digits(drawn.range[0])} to {digits(drawn.range[1])},{' '}
            {signed ? 'zero is neutral' : 'colours by square root'}
            {stepRow * stepCol > 1 &&
              `; a cell is the largest of ${stepRow} × ${stepCol} weights${signed ? ', and negative ones behind it are not seen' : ''}`}
            .
          </>
        )}
      </figcaption>
    </figure>
  );
}

function Strongest({
  drawn,
  labels,
  row,
  select,
}: {
  drawn: Drawn;
  labels: WeightSet['labels'];
  row: number;
  select: (row: number) => void;
}) {
  const rows = useMemo(() => [...new Set(drawn.top.map(([r]) => r as number))], [drawn]);
  const mine = drawn.top.filter(([r]) => r === row);
  const most = Math.max(...mine.map(([, , weight = 0]) => Math.abs(weight))) || 1;
  if (!rows.length) return null;
  return (
    <section class="data-strongest" aria-label="Strongest keys">
      <label>
        Query{' '}
        <select value={row} onChange={(e) => select(Number(e.currentTarget.value))}>
          {rows.map((r) => (
            <option key={r} value={r}>
              {labels?.query ? `${r} ${nameOf(labels.query, r)}` : r}
            </option>
          ))}
        </select>
      </label>
      <table class="row">
        <caption>strongest keys of this query</caption>
        <thead>
          <tr>
            <th scope="col">key</th>
            <th scope="col">weight</th>
            <th scope="col">
              <span class="hidden">share</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {mine.map(([, key = 0, weight = 0]) => (
            <tr key={key}>
              <th scope="row">
                <bdi>{nameOf(labels?.key, key)}</bdi>
                {labels?.key && <small> {key}</small>}
              </th>
              <td>{digits(weight)}</td>
              <td>
                <span class="bar-of" style={{ width: `${(100 * Math.abs(weight)) / most}%` }} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Pick({
  name,
  count,
  value,
  set,
}: {
  name: string;
  count: number;
  value: number;
  set: (n: number) => void;
}) {
  if (count < 2) return null;
  return (
    <label>
      {name}{' '}
      <select value={value} onChange={(e) => set(Number(e.currentTarget.value))}>
        {Array.from({ length: count }, (_, i) => (
          <option key={i} value={i}>
            {i}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Weights({ of }: { of: Finished }) {
  const [which, setWhich] = useState({ set: 0, layer: 0, batch: 0, head: 0 });
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  const [pattern, setPattern] = useState('');
  const [fault, setFault] = useState('');
  const [row, setRow] = useState(0);
  const set = of.sets[which.set] as WeightSet;
  useEffect(() => {
    const stop = new AbortController();
    const failed = (error: unknown): void => {
      if (!stop.signal.aborted) setFault(error instanceof Problem ? error.message : (error as Error).message);
    };
    void set
      .of(which.layer, which.batch, which.head)
      .then(async (one) => {
        const made = await draw(set, one, stop.signal);
        setDrawn(made);
        setFault('');
        setPattern(await describe(set, one, stop.signal));
      })
      .catch(failed);
    return () => stop.abort();
  }, [of, which]);
  return (
    <section class="data-weights" aria-label="Finished weights">
      <div class="data-head">
        <h2>
          Weights of <bdi>{of.what}</bdi>
        </h2>
        <button
          type="button"
          onClick={() => {
            finished.value = null;
          }}
        >
          Back to the request
        </button>
      </div>
      <p>
        One head as a map, with its strongest keys.{' '}
        <button
          type="button"
          class="main"
          disabled={importing.value !== null}
          onClick={() => void openWeights()}
        >
          Open in all views
        </button>{' '}
        makes a run of all layers and heads, with the same weights to the last bit: Words, Matrix, Heads,
        Share and export work on it. There are no queries and keys, so its scores are the weights.
      </p>
      {unfit(of) && <p class="bad">{unfit(of)}</p>}
      <div class="data-picks">
        {of.sets.length > 1 && (
          <label>
            weights{' '}
            <select
              value={which.set}
              onChange={(e) => setWhich({ set: Number(e.currentTarget.value), layer: 0, batch: 0, head: 0 })}
            >
              {of.sets.map((s, i) => (
                <option key={i} value={i}>
                  {s.name}
                </option>
              ))}
            </select>
          </label>
        )}
        <Pick
          name="layer"
          count={set.layers}
          value={which.layer}
          set={(layer) => setWhich({ ...which, layer })}
        />
        <Pick
          name="batch"
          count={set.batches}
          value={which.batch}
          set={(batch) => setWhich({ ...which, batch })}
        />
        <Pick name="head" count={set.heads} value={which.head} set={(head) => setWhich({ ...which, head })} />
      </div>
      {fault && (
        <p class="trouble bad" role="alert">
          {fault}
        </p>
      )}
      {drawn && !fault && (
        <>
          <p class="data-pattern" aria-live="polite">
            {pattern && `This head ${pattern}.`}
          </p>
          {drawn.warnings.map((text) => (
            <p key={text} class="bad">
              Warning: {text}.
            </p>
          ))}
          <div class="data-drawn">
            <Picture drawn={drawn} labels={set.labels} select={setRow} />
            <Strongest drawn={drawn} labels={set.labels} row={row} select={setRow} />
          </div>
        </>
      )}
    </section>
  );
}
