// The matrices of one head in a row: queries · keys → scale → mask → softmax → · values = output.
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { NumberGrid, type Entry, type Place } from '../../parts/NumberGrid';
import { num } from '../../parts/digits';
import { tint } from '../../parts/tint';
import type { Answer, Head } from './answer';
import { isLit, type Name, type Spot } from './formula';
import { sees, sizesOf, type Hand, type Matrix, type Part } from './numbers';

export interface Editing {
  hand: Hand;
  at: Spot | null; // the pointed cell
  point: (at: Spot | null) => void;
  edit: (part: Part, row: number, col: number, value: number, isDrag: boolean) => void;
  endStep: () => void;
  toggle: (q: number, k: number) => void;
}

// A number that fits a cell: five characters. The formula has more digits.
export function brief(x: number): string {
  const size = Math.abs(x);
  if (!Number.isFinite(x)) return num(x);
  if (size > 0 && (size < 5e-4 || size >= 1e4))
    return x.toExponential(0).replace('e+', 'e').replace(/-/g, '−');
  const digits =
    size < 1 ? x.toFixed(x < 0 ? 2 : 3) : x.toPrecision(Math.max(3, Math.ceil(Math.log10(size))));
  return String(Number(digits)).replace('-', '−');
}

interface GridProps {
  name: Name;
  title: ComponentChildren;
  label: string;
  rows: readonly (readonly Entry[])[];
  head?: number;
  part?: Part; // whose numbers are written; absent: results
  flipped?: boolean; // the matrix is shown with its columns as rows
  kind?: 'scores' | 'weights';
  most?: number; // the largest score, for the colours
  rowName?: string;
  colName?: string;
  mask?: boolean;
  of: Editing;
}

const names = (letter: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${letter}${i}`);

export function Grid(props: GridProps) {
  const { name, title, label, rows, head = -1, part, flipped = false, kind, most = 1, mask, of } = props;
  const { hand, at } = of;
  const spot = ([row, col]: Place): Spot => ({
    name,
    head,
    row: flipped ? col : row,
    col: flipped ? row : col,
  });
  const shown = useMemo(
    () => (flipped ? (rows[0] ?? []).map((_, i) => rows.map((r) => r[i] as Entry)) : rows),
    [rows, flipped],
  );
  const width = shown[0]?.length ?? 0;
  const [rowNames, colNames] = useMemo(
    () => [names(props.rowName ?? '', shown.length), names(props.colName ?? '', width)],
    [props.rowName, props.colName, shown.length, width],
  );
  const paint = useMemo(
    () => kind && ((x: Entry) => (typeof x === 'number' ? tint(kind, x, most) : {})),
    [kind, most],
  );
  const mark = (row: number, col: number): string => {
    const here = spot([row, col]);
    const isAt = at && at.name === name && at.head === head && at.row === here.row && at.col === here.col;
    const hides = (mask || name === 'weights') && !sees(hand, row, col);
    return `${isAt ? 'at' : at && isLit(hand, at, here) ? 'lit' : ''}${hides ? ' unseen' : ''}${isOdd(hand, name, col) ? ' odd' : ''}`;
  };
  return (
    <figure class="hand-matrix" data-name={name} data-head={head < 0 ? undefined : head}>
      <figcaption>{title}</figcaption>
      <NumberGrid
        label={label}
        rows={shown}
        rowNames={rowNames}
        colNames={colNames}
        edit={
          part &&
          ((row, col, value, isDrag) => {
            const to = spot([row, col]);
            of.edit(part, to.row, to.col, value as number, isDrag);
          })
        }
        endStep={of.endStep}
        toggle={mask ? of.toggle : undefined}
        say={(row, col) =>
          sees(hand, row, col) ? `seen, ${brief((shown[row]?.[col] as number | null) ?? NaN)}` : 'hidden, −∞'
        }
        show={(x, row, col) =>
          mask && !sees(hand, row, col) ? <span>−∞</span> : x === null ? '–' : brief(x as number)
        }
        mark={mark}
        paint={paint}
        point={(place) => of.point(place && spot(place))}
      />
    </figure>
  );
}

// Columns of every second head have another ground, where columns of all heads stand side by side.
const SPLIT: readonly Name[] = ['w_q', 'w_k', 'w_v', 'concat'];
const isOdd = (hand: Hand, name: Name, col: number): boolean =>
  SPLIT.includes(name) && Math.floor(col / sizesOf(hand).width) % 2 === 1;

export const Sign = ({ children }: { children: ComponentChildren }) => (
  <span class="hand-sign" aria-hidden="true">
    {children}
  </span>
);

const mostIn = (...all: readonly Matrix[]): number =>
  Math.max(1e-9, ...all.flatMap((m) => m.flatMap((row) => row.map(Math.abs))));

// `of`: the answer; null while the first one is under way.
export function Chain({ of, head, editing }: { of: Answer | null; head: number; editing: Editing }) {
  const { hand } = editing;
  const { heads, softcap, temperature } = hand;
  const results: Head | undefined = of?.heads[head];
  const blank = useMemo(() => blanks(hand), [sizesOf(hand).queries, sizesOf(hand).keys]);
  const cooled = useMemo(
    () => results?.softcapped.map((row) => row.map((x) => x / temperature)),
    [results, temperature],
  );
  const most = results ? mostIn(results.scaled, results.softcapped, cooled ?? []) : 1;
  const which = heads ? ` of head ${head}` : '';
  const written = (part: 'query' | 'key' | 'value') =>
    heads ? { rows: results?.[part] ?? [] } : { rows: hand.parts[part] ?? [], part };
  const shared = { of: editing, head };
  const score = { ...shared, rowName: 'q', colName: 'k' };
  return (
    <div class="hand-chain" role="group" aria-label={heads ? `head ${head}` : 'attention'}>
      <Grid
        {...shared}
        {...written('query')}
        name="query"
        title={<b class="query-side">Q</b>}
        label={`Q${which}`}
        rowName="q"
      />
      <Sign>·</Sign>
      <Grid
        {...shared}
        {...written('key')}
        name="key"
        title={<b class="key-side">Kᵀ</b>}
        label={`K transposed${which}`}
        flipped
        colName="k"
      />
      <Sign>=</Sign>
      <Grid
        {...score}
        name="raw"
        title="scores"
        label={`scores${which}`}
        rows={results?.raw ?? blank}
        kind="scores"
        most={results ? mostIn(results.raw) : 1}
      />
      <Sign>→</Sign>
      <Grid
        {...score}
        name="scaled"
        title="scaled"
        label={`scaled scores${which}`}
        rows={results?.scaled ?? blank}
        kind="scores"
        most={most}
      />
      {softcap !== null && softcap > 0 && (
        <>
          <Sign>→</Sign>
          <Grid
            {...score}
            name="softcapped"
            title="capped"
            label={`capped scores${which}`}
            rows={results?.softcapped ?? blank}
            kind="scores"
            most={most}
          />
        </>
      )}
      {temperature !== 1 && (
        <>
          <Sign>→</Sign>
          <Grid
            {...score}
            name="cooled"
            title={`÷ ${num(temperature)}`}
            label={`scores by temperature${which}`}
            rows={cooled ?? blank}
            kind="scores"
            most={most}
          />
        </>
      )}
      <Sign>→</Sign>
      <Grid
        {...score}
        name="biased"
        title="mask"
        label={`mask${which}`}
        rows={results?.biased ?? blank}
        kind="scores"
        most={most}
        mask
      />
      <Sign>→</Sign>
      <Grid
        {...score}
        name="weights"
        title="softmax"
        label={`weights${which}`}
        rows={results?.weights ?? blank}
        kind="weights"
      />
      <Sign>·</Sign>
      <Grid {...shared} {...written('value')} name="value" title={<b>V</b>} label={`V${which}`} rowName="k" />
      <Sign>=</Sign>
      <Grid
        {...shared}
        name="mixed"
        title={<b>output</b>}
        label={`output${which}`}
        rows={results?.output ?? blank}
        rowName="q"
      />
    </div>
  );
}

const blanks = (hand: Hand): null[][] => {
  const { queries, keys } = sizesOf(hand);
  return Array.from({ length: queries }, () => Array.from({ length: keys }, () => null));
};
