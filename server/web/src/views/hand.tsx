// Attention by hand: small matrices from the queries to the output. Every number can be changed, and each
// result says which numbers it is made of.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { adopt } from '../parts/adopt';
import { change } from '../store/history';
import { make } from '../store/run';
import { asked, look } from '../store/state';
import { Steps } from '../store/steps';
import { answer, ask, fits, refusal, type Answer } from './hand/answer';
import { Arrows } from './hand/Arrows';
import { Chain, Grid, Sign, type Editing } from './hand/Chain';
import { Controls, Sizes } from './hand/Controls';
import { concatOf, RESULTS, say, type Name, type Result, type Spot } from './hand/formula';
import { handOf, matrix, requestOf, sees, sizesOf, withNumber, withSeen, type Hand } from './hand/numbers';
import css from './hand.css' with { type: 'text' };

adopt(css);

export const keys: readonly (readonly [string, string])[] = [
  ['arrows', 'among numbers: the next number; on an arrow: move its tip'],
  ['Space', 'on the mask: hide or show the key'],
];

const steps = new Steps();

function set(hand: Hand, place = '', isDrag = false): void {
  const isNew = steps.begins(steps.at(place, isDrag));
  change({ hand: { ...hand } }, isNew);
}

// The largest weight of the first query: what is explained before one points.
const firstSpot = (of: Answer): Spot => {
  const row = of.heads[0]?.weights[0] ?? [];
  return { name: 'weights', head: 0, row: 0, col: Math.max(0, row.indexOf(Math.max(...row))) };
};

function Formula({ hand, of, at }: { hand: Hand; of: Answer; at: Spot }) {
  const { title, formula, says } = say(hand, of, at);
  return (
    <section class="hand-formula" aria-label="Formula" aria-live="polite">
      <h2>{title}</h2>
      <output>{formula}</output>
      <p>{says}</p>
    </section>
  );
}

// The way of a weight: its formulas from the score to the first number of the output. What changes nothing
// has no line.
function Way({ hand, of, at, point }: { hand: Hand; of: Answer; at: Spot; point: (at: Spot) => void }) {
  const [row, head] = [at.row, Math.max(0, at.head)];
  const weights = of.heads[head]?.weights[row] ?? [];
  const isKey = RESULTS.includes(at.name as Result) && at.name !== 'mixed';
  const col = isKey ? at.col : Math.max(0, weights.indexOf(Math.max(...weights)));
  const idle: readonly Name[] = [
    ...(hand.softcap ? [] : (['softcapped'] as const)),
    ...(hand.temperature === 1 ? (['cooled'] as const) : []),
  ];
  const spots = RESULTS.filter((name) => !idle.includes(name)).map(
    (name): Spot => ({ name, head, row, col: name !== 'mixed' ? col : at.name === 'mixed' ? at.col : 0 }),
  );
  return (
    <ol class="hand-way" aria-label="the way of the weight">
      {spots.map((spot) => {
        const { title, formula } = say(hand, of, spot);
        return (
          <li key={spot.name} aria-current={spot.name === at.name ? 'step' : undefined}>
            <button type="button" onClick={() => point(spot)} onPointerEnter={() => point(spot)}>
              {title}
            </button>
            <output>{formula}</output>
          </li>
        );
      })}
    </ol>
  );
}

const Projections = ({ editing }: { editing: Editing }) => (
  <div class="hand-chain" role="group" aria-label="projections">
    <Grid
      of={editing}
      name="x"
      title={<b>words</b>}
      label="words"
      rows={matrix(editing.hand, 'x')}
      part="x"
      rowName="w"
    />
    <Sign>·</Sign>
    {(['w_q', 'w_k', 'w_v'] as const).map((part) => {
      const letter = part.slice(2);
      return (
        <Grid
          key={part}
          of={editing}
          name={part}
          title={
            <b>
              W<sub>{letter}</sub>
            </b>
          }
          label={`W_${letter}`}
          rows={matrix(editing.hand, part)}
          part={part}
        />
      );
    })}
    <p>
      The columns are split: the first {sizesOf(editing.hand).width} make head 0, the next make head 1, and so
      on.
    </p>
  </div>
);

function Concat({ of, editing }: { of: Answer; editing: Editing }) {
  const rows = useMemo(() => concatOf(of), [of]);
  return (
    <div class="hand-chain" role="group" aria-label="heads together">
      <Grid of={editing} name="concat" title="concat" label="concatenated outputs" rows={rows} rowName="w" />
      <Sign>·</Sign>
      <Grid
        of={editing}
        name="w_o"
        title={
          <b>
            W<sub>o</sub>
          </b>
        }
        label="W_o"
        rows={matrix(editing.hand, 'w_o')}
        part="w_o"
      />
      <Sign>=</Sign>
      <Grid of={editing} name="output" title={<b>output</b>} label="output" rows={of.output} rowName="w" />
    </div>
  );
}

// Cells whose row is that of a query, and so has a way.
const ways: readonly Name[] = [...RESULTS, 'query', 'output'];

const isIn = (hand: Hand, { name, head, row, col }: Spot): boolean => {
  const { queries, keys: count, width, valueWidth } = sizesOf(hand);
  const all = width * Math.max(1, hand.heads);
  const directly: readonly Name[] = ['x', 'w_q', 'w_k', 'w_v', 'w_o', 'concat', 'output'];
  if (directly.includes(name)) return hand.heads > 0 && row < Math.max(queries, all) && col < all;
  if (head >= Math.max(1, hand.heads)) return false;
  if (name === 'query' || name === 'key') return row < (name === 'key' ? count : queries) && col < width;
  if (name === 'value' || name === 'mixed')
    return row < (name === 'value' ? count : queries) && col < valueWidth;
  return row < queries && col < count;
};

export function Component() {
  const hand = useMemo(() => handOf(look.value.hand), [look.value.hand]);
  const [at, point] = useState<Spot | null>(null);
  useEffect(() => ask(hand), [hand]);
  useEffect(() => {
    asked.value = requestOf(hand);
    return () => {
      asked.value = null;
    };
  }, [hand]);
  const of = fits(answer.value, hand) ? answer.value : null;
  const here = of ? (at && isIn(hand, at) ? at : firstSpot(of)) : null;
  // Cells outlive this drawing, so they ask for the numbers of the moment.
  const now = (): Hand => handOf(look.peek().hand);
  const editing: Editing = {
    hand,
    at: here,
    point: (next) => {
      if (next) point(next);
    },
    edit: (part, row, col, value, isDrag) => {
      if (matrix(now(), part)[row]?.[col] !== value)
        set(withNumber(now(), part, row, col, value), `${part} ${row} ${isDrag ? '' : col}`, isDrag);
    },
    endStep: () => steps.end(),
    toggle: (q, k) => {
      if (!hand.causal || k <= q || !sees(hand, q, k)) set(withSeen(now(), q, k));
    },
  };
  const { keys: count, width, valueWidth } = sizesOf(hand);
  const columns =
    2 * width +
    4 * count +
    2 * valueWidth +
    (hand.softcap ? count : 0) +
    (hand.temperature === 1 ? 0 : count);
  const heads = Array.from({ length: Math.max(1, hand.heads) }, (_, h) => h);
  return (
    <div class="hand" style={{ '--columns': columns }} data-heads={hand.heads || undefined}>
      <Controls hand={hand} set={set} endStep={() => steps.end()} />
      {refusal.value && (
        <p class="trouble" role="alert">
          {refusal.value}
        </p>
      )}
      <div class="hand-all">
        {hand.heads > 0 && <Projections editing={editing} />}
        {heads.map((h) => (
          <section key={h} class="hand-head">
            {hand.heads > 0 && <h2>head {h}</h2>}
            <Chain of={of} head={h} editing={editing} />
          </section>
        ))}
        {hand.heads > 0 && of && <Concat of={of} editing={editing} />}
      </div>
      <div class="hand-below">
        {of && here && (
          <div class="hand-said">
            <Formula hand={hand} of={of} at={here} />
            {!hand.heads && ways.includes(here.name) && <Way hand={hand} of={of} at={here} point={point} />}
          </div>
        )}
        {!hand.heads && width === 2 && <Arrows of={of?.heads[0]} editing={editing} />}
      </div>
      <div class="hand-sizes">
        <Sizes hand={hand} set={set} />
        <button
          type="button"
          onClick={() =>
            void make(
              { path: 'v1/attention', body: requestOf(hand).body },
              { view: 'stages', at: { head: 0 } },
            )
          }
        >
          See it in the other views
        </button>
      </div>
    </div>
  );
}
