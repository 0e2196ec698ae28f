// Beside the view: the cell under the pointer, both words in their texts, and the largest weights
// of its row as a table. While the view joins pieces to words, so does this.
import { signal } from '@preact/signals';
import { Fragment } from 'preact';
import { digits, position } from '../parts/digits';
import { directionOf } from '../parts/direction';
import { hasJoined, labelsOf, spanOf, type Groups } from '../parts/join';
import { change } from '../store/history';
import { type Axis, keys, nameOf, queries, site } from '../store/run';
import { hover, look, shown, type Hover } from '../store/state';
import {
  cellAt,
  isShown,
  listed,
  rowTrouble,
  shownRow,
  togglePin,
  unitOf,
  wordOf,
  words,
} from '../store/values';
import { later } from './later';
import { remember, remembered } from './theme';

const Rest = later('what stands out', () => import('./Rest'));

const AROUND = 60; // characters of the text on each side of a word
const TOKENS_AROUND = 8;

// A token of an axis, or the word that it is in.
interface Unit {
  name: string;
  from: number;
  to: number;
  pieces: string;
}

function unit(axis: Axis, groups: Groups | undefined, token: number): Unit {
  const group = groups?.of[token];
  if (!groups || group === undefined)
    return {
      name: axis.tokens ? nameOf(axis, token) : position(token),
      from: token,
      to: token + 1,
      pieces: '',
    };
  const [from, to] = spanOf(groups, group);
  return { name: groups.names[group] as string, from, to, pieces: groups.pieces[group] as string };
}

const places = ({ from, to }: Unit): string =>
  to - from > 1 ? `${position(from)}–${position(to - 1)}` : position(from);

// The part of the text that a unit stands for; null: the part is not known. If a character is
// divided into bytes, the first byte has its part, and the parts of the other bytes are empty.
function partOf({ offsets, text, tokens }: Axis, { from, to }: Unit): [number, number] | null {
  if (!offsets || text === null) return null;
  const isEmpty = (i: number): boolean => (offsets[i]?.[1] ?? 0) <= (offsets[i]?.[0] ?? 0);
  while (from > 0 && isEmpty(from) && /^<0x..>$/.test(tokens?.[from] ?? '')) from--;
  const parts = offsets.slice(from, to).filter(([begin, end]) => end > begin);
  const [first] = parts;
  const last = parts.at(-1);
  return first && last ? [first[0], last[1]] : null;
}

// A word in its text.
function InText({ axis, groups, of }: { axis: Axis; groups: Groups | undefined; of: Unit }) {
  const at = partOf(axis, of);
  if (axis.text !== null && at) {
    const { text } = axis;
    const end = at[1];
    const space = /^\s*/.exec(text.slice(at[0], end))?.[0].length ?? 0; // that a token has before its word
    const begin = at[0] + space < end ? at[0] + space : at[0];
    const from = Math.max(0, begin - AROUND);
    const to = Math.min(text.length, end + AROUND);
    return (
      <p class="context" dir="auto">
        {from > 0 && '…'}
        {text.slice(from, begin)}
        <mark>{text.slice(begin, end)}</mark>
        {text.slice(end, to)}
        {to < text.length && '…'}
      </p>
    );
  }
  const names = axis.tokens && (groups?.names ?? labelsOf(axis.tokens, axis.special));
  if (!names) return null;
  const index = groups?.of[of.from] ?? of.from;
  const from = Math.max(0, index - TOKENS_AROUND);
  const near = names.slice(from, index + TOKENS_AROUND + 1);
  return (
    <p class="context" dir={directionOf(near)}>
      {from > 0 && '… '}
      {near.map((name, i) =>
        from + i === index ? (
          <Fragment key={i}>
            <mark>
              <bdi>{name}</bdi>
            </mark>{' '}
          </Fragment>
        ) : (
          <Fragment key={i}>
            <bdi>{name}</bdi>{' '}
          </Fragment>
        ),
      )}
      {index + TOKENS_AROUND + 1 < names.length && '…'}
    </p>
  );
}

function Heading({
  side,
  axis,
  groups,
  of,
}: {
  side: 'query' | 'key';
  axis: Axis;
  groups: Groups | undefined;
  of: Unit;
}) {
  return (
    <>
      <h3>
        <span class={`${side}-side`}>{side}</span> <bdi>{of.name}</bdi>
        {axis.tokens && <small> {places(of)}</small>}
      </h3>
      {groups && of.to - of.from > 1 && (
        <p class="pieces">
          pieces:{' '}
          {Array.from({ length: of.to - of.from }, (_, i) => (
            <Fragment key={i}>
              <bdi>{nameOf(axis, of.from + i)}</bdi>{' '}
            </Fragment>
          ))}
        </p>
      )}
      <InText axis={axis} groups={groups} of={of} />
    </>
  );
}

const touch = matchMedia('(hover: none)');

// On phones the cell shows only its value and its words; the rest is shown on request.
const isBrief = signal(true);

function Ends() {
  const free = (): void => {
    hover.value = { q: -1, k: -1 };
    change({ q: -1, k: -1 });
  };
  return (
    <div class="cell-ends">
      <button
        type="button"
        aria-expanded={!isBrief.value}
        onClick={() => {
          isBrief.value = !isBrief.value;
        }}
      >
        {isBrief.value ? 'more' : 'less'}
      </button>
      <button type="button" class="icon" aria-label="free the cell" onClick={free}>
        ×
      </button>
    </div>
  );
}

const isHintRead = signal(remembered('attnd-hint') === 'read');

function Hint() {
  if (isHintRead.value) return null;
  const done = (): void => {
    isHintRead.value = true;
    remember('attnd-hint', 'read');
    document.querySelector<HTMLElement>('.tabs [aria-current]')?.focus();
  };
  return (
    <div class="hint first">
      <p>
        <span class="about-here">attnd shows which words a model looks at. </span>
        {touch.matches ? 'Tap a word to see its weights.' : 'Point at a word to see its weights.'}
        <span class="about-rest">
          {touch.matches ? ' Tap it again to free it.' : ' A click keeps it, Esc frees it.'}
        </span>
      </p>
      <button type="button" class="icon" aria-label="hide this hint" onClick={done}>
        ×
      </button>
    </div>
  );
}

// Where the pointer is while it is in the table.
let inTable: Hover | null = null;
const pointAt = (spot: Hover): void => {
  inTable = spot;
  hover.value = spot;
};

export function Cell() {
  const row = shownRow.value;
  const { q } = shown.value;
  // While the pointer is in the table, what is above the table does not change, because otherwise a
  // row could move away from the pointer.
  const k = hover.value === inTable ? look.value.k : shown.value.k;
  const cell = cellAt({ q, k });
  const at = site.value;
  if (!at || q < 0 || q >= at.num_queries || k >= at.num_keys)
    return (
      <aside class="cell" aria-label="Cell">
        {at && q < 0 && <Hint />}
        {at && q < 0 && k < 0 && <Rest />}
        {at && q >= at.num_queries && (
          <p class="hint">
            This run has queries 0 to {position(at.num_queries - 1)}, and the address names query{' '}
            {position(q)}.
          </p>
        )}
        {at && q >= 0 && k >= at.num_keys && (
          <p class="hint">
            This run has keys 0 to {position(at.num_keys - 1)}, and the address names key {position(k)}.
          </p>
        )}
      </aside>
    );
  const here = isShown(row); // else the row is on its way, and that before stays until it comes
  const { order, most } = listed.value;
  const ofQuery = unit(queries.value, words.value?.queries, q);
  const isPinned = look.value.pins.some((pinned) => wordOf(pinned)[0] === ofQuery.from);
  const of = row?.words?.keys;
  const keyOf = (i: number): Unit => unit(keys.value, of, of ? (of.first[i] as number) : i);
  return (
    <aside class={`cell ${isBrief.value ? 'brief' : ''}`} aria-label="Cell">
      <Ends />
      {rowTrouble.value && !here && <p class="bad">{rowTrouble.value}</p>}
      {k >= 0 && !cell && (
        <div class="value">
          <output>…</output>
        </div>
      )}
      {cell && (
        <div class="value">
          <output>{cell.hidden ? 'hidden' : digits(cell.weight)}</output>
          <span>
            {cell.hidden ? 'the mask hides this key' : `rank ${position(cell.rank)} of ${position(cell.of)}`}
          </span>
          {!cell.hidden && <code>{String(Math.fround(cell.weight))}</code>}
        </div>
      )}
      <Heading side="query" axis={queries.value} groups={words.value?.queries} of={ofQuery} />
      <button type="button" class="pin" aria-pressed={isPinned} onClick={() => togglePin(q)}>
        {isPinned ? 'row is pinned' : 'pin this row'}
      </button>
      {k < 0 && here && order[0] !== undefined && (
        <p class="most">
          looks most at{' '}
          <b>
            <bdi>{keyOf(order[0]).name}</bdi>
          </b>{' '}
          {digits(row.weights[order[0]] as number)}
        </p>
      )}
      {k >= 0 && (
        <Heading
          side="key"
          axis={keys.value}
          groups={words.value?.keys}
          of={unit(keys.value, words.value?.keys, k)}
        />
      )}
      {row && (
        <table
          class={`row ${here ? '' : 'stale'}`}
          aria-busy={!here}
          tabIndex={0}
          aria-label={`largest weights of query ${ofQuery.name}`}
        >
          <caption>
            largest weights of the row
            {row.words && (hasJoined(row.words.keys) || hasJoined(row.words.queries)) && (
              <small>Joined pieces: weights of keys are summed, of queries averaged.</small>
            )}
          </caption>
          <thead>
            <tr>
              <th scope="col">key</th>
              <th scope="col" class="number">
                weight
              </th>
              <th scope="col">
                <span class="hidden">share</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {order.map((i) => {
              const key = keyOf(i);
              return (
                <tr
                  key={i}
                  aria-selected={k >= 0 && i === unitOf(row.words, k)}
                  onPointerEnter={() => pointAt({ q, k: key.from })}
                  onPointerLeave={() => {
                    hover.value = { q: -1, k: -1 };
                  }}
                  onClick={() =>
                    change({ q, k: look.value.k >= key.from && look.value.k < key.to ? -1 : key.from })
                  }
                >
                  <th scope="row" title={key.pieces || undefined}>
                    <bdi>{key.name}</bdi>
                    {keys.value.tokens && <small> {places(key)}</small>}
                  </th>
                  <td>{digits(row.weights[i] as number)}</td>
                  <td>
                    <span class="bar-of" style={{ width: `${(100 * (row.weights[i] as number)) / most}%` }} />
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </aside>
  );
}
