// The weights of one head as a map that pans and zooms.
import { computed, effect, signal, untracked } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { margins, type Head } from '../api/runs';
import { MatrixMap, type MapState } from '../draw/map';
import type { Labels, Spot } from '../draw/types';
import { paletteOf } from '../shell/palette';
import { colours } from '../shell/theme';
import { change } from '../store/history';
import { type Axis, headInWords, keys as keyAxis, nameOf, queries, site } from '../store/run';
import { announce, head, hover, inSight, lettersAreKeys, look, shown, type Look } from '../store/state';
import { digits } from '../parts/digits';
import { spanOf, type Groups } from '../parts/join';
import { letterOf, pinColour } from '../parts/lines';
import { cellsOf } from '../store/cells';
import { nameAt, shownCell, spoken, words } from '../store/values';
import { Jump, jump } from './matrix/Jump';
import { Choices, Legend } from './matrix/Legend';
import { marginsOfCells, rangeOf, sourceOf, sourceOfWords } from './matrix/source';
import './matrix.css';

const MARGINS_MOST = 1024; // queries and keys up to which entropies and received weights are shown

const state = signal<MapState>({
  rows: 1,
  cols: 1,
  isWhole: true,
  isClosest: false,
  live: 0,
  slow: false,
  trouble: null,
});
const tip = signal<{ x: number; y: number } | null>(null); // CSS pixels in the map
const marginTrouble = signal('');
const bars = signal(''); // what the longest bars of the margins stand for

const painter = (): URL | null => {
  const name = document.querySelector<HTMLMetaElement>('meta[name=painter]')?.content;
  return name ? new URL(name, document.baseURI) : null;
};

const labels = (axis: Axis, groups: Groups | undefined): Labels => ({
  name: (i) => groups?.names[i] ?? nameOf(axis, i),
  hasNames: axis.tokens !== null,
});

// Cells of the map are between words while pieces are joined. All else counts tokens.
const toCell = ({ q, k }: Spot): Spot => ({
  q: words.value ? (words.value.queries.of[q] ?? -1) : q,
  k: words.value ? (words.value.keys.of[k] ?? -1) : k,
});
const toTokens = ({ q, k }: Spot): Spot => ({
  q: words.value ? (words.value.queries.first[q] ?? -1) : q,
  k: words.value ? (words.value.keys.first[k] ?? -1) : k,
});
const tokensOf = (groups: Groups | undefined, [from, to]: [number, number]): [number, number] =>
  groups && to > from ? [spanOf(groups, from)[0], spanOf(groups, to - 1)[1]] : [from, to];

// The chosen cell as a text, so that an effect runs only when the cell is another one.
const chosen = computed(() => `${look.value.q} ${look.value.k}`);

const isChosen = ({ q, k }: Spot): boolean => {
  const at = toCell(look.value);
  return at.q === q && at.k === k;
};

const nameOfHead = (of: Head): string =>
  [of.run, of.site, of.batch, of.head, words.value?.queries.names.length].join();

const map = signal<MatrixMap | null>(null);

function begin(host: HTMLElement): () => void {
  let movedAt = 0; // when a key last moved the selection: moves that follow at once are one step of undo
  const made = new MatrixMap(
    host,
    {
      hover(spot, x, y) {
        const at = spot && { x: x + made.origin.x, y: y + made.origin.y };
        if (tip.value?.x !== at?.x || tip.value?.y !== at?.y) tip.value = at;
        const { q, k } = hover.value;
        const next = spot ? toTokens(spot) : { q: -1, k: -1 };
        if (next.q !== q || next.k !== k) hover.value = next;
      },
      click(spot) {
        const { q, k } = toTokens(spot);
        const frees = isChosen(spot);
        change(frees ? { q: -1, k: -1 } : { q, k });
        announce(frees ? 'freed' : `pinned: query ${nameAt('queries', q)}, key ${nameAt('keys', k)}`);
      },
      move({ q, k }, port) {
        hover.value = { q: -1, k: -1 };
        tip.value = null;
        const now = performance.now();
        change({ ...toTokens({ q, k }), ...(port ? { port: portOf(port) } : {}) }, now - movedAt > 1000);
        movedAt = now;
      },
      rest(port) {
        const next = portOf(port);
        const before = look.value.port;
        if (next?.join() !== before?.join()) change({ port: next }, true);
      },
      changed(next) {
        state.value = next;
      },
    },
    { worker: painter(), wheelZooms: true },
  );
  map.value = made;
  inSight.value = () => {
    const { transform, range } = look.value;
    const { rows, cols } = made.inSight();
    return {
      rows: tokensOf(words.value?.queries, rows),
      cols: tokensOf(words.value?.keys, cols),
      range: transform === 'row' ? null : (range ?? rangeOf.value.range),
    };
  };
  let begun = false;
  let port: Look['port'] = null; // of the look that was shown last
  let shownOf = ''; // the head whose matrix is shown,
  let shownSize = ''; // and how much of it there is
  let marginsOf = '';
  const stops = [
    effect(() => {
      const at = site.value;
      if (!at || !head.value.run) return;
      const { plane, transform, range } = look.value;
      const size = `${at.num_queries} x ${at.num_keys}`;
      const same = shownOf === nameOfHead(head.value);
      const grown = same && shownSize !== size;
      shownOf = nameOfHead(head.value);
      shownSize = size;
      const of = { head: head.value, plane, transform, range };
      const joins = words.value;
      made.show(
        joins ? sourceOfWords(of, joins) : sourceOf(of, at),
        labels(queries.value, joins?.queries),
        labels(keyAxis.value, joins?.keys),
        `weights of ${headInWords.value}, ` +
          (joins
            ? `${joins.queries.names.length} words of queries and ${joins.keys.names.length} of keys`
            : `${at.num_queries} queries and ${at.num_keys} keys`),
        same,
      );
      if (grown && look.value.port) keepPort(made);
    }),
    effect(() => made.look(paletteOf(host))),
    effect(() =>
      made.mark(
        toCell(look.value),
        toCell(shown.value),
        look.value.pins.map((q, i) => ({
          q: toCell({ q, k: -1 }).q,
          letter: letterOf(i),
          colour: pinColour(i),
        })),
      ),
    ),
    effect(() => {
      const [q = -1, k = -1] = chosen.value.split(' ').map(Number);
      // If an address or a step of undo sets the part of the matrix in sight, that part stays, even
      // if the selected cell lies outside of it.
      const isElsewhere = look.peek().port !== port;
      if (!begun || isElsewhere || (q < 0 && k < 0)) {
        begun = true;
        return;
      }
      made.reveal(toCell({ q, k }));
      untracked(() => keepPort(made));
    }),
    effect(() => {
      port = look.value.port;
      made.view(port && { top: port[0], left: port[1], zoom: port[2] });
    }),
    effect(() => {
      const { q, k } = shown.value;
      made.speak({
        spot: toCell({ q, k }),
        query: q < 0 ? 'no query' : nameAt('queries', q),
        key: k < 0 ? 'no key' : nameAt('keys', k),
        text: spoken.value || 'No cell is chosen. Arrow keys choose one.',
        selected: q >= 0 && look.value.q === q && look.value.k === k,
      });
    }),
    effect(() => {
      const at = site.value;
      const of = head.value;
      if (marginsOf !== nameOfHead(of)) {
        made.margins(null, null);
        bars.value = '';
      }
      marginsOf = nameOfHead(of);
      marginTrouble.value = '';
      if (!at || !of.run || at.num_queries > MARGINS_MOST || at.num_keys > MARGINS_MOST) return;
      (words.value
        ? cellsOf(of, words.value).then((cells) => ({ ...marginsOfCells(cells), rowStep: 1, keyStep: 1 }))
        : margins(of)
      ).then(
        (m) => {
          if (head.value !== of || map.peek() !== made) return;
          const keys = words.value?.keys.names.length ?? at.num_keys;
          const longest = Math.log(keys) || 1;
          const most = m.received.reduce((a, b) => Math.max(b, a), 0) || 1;
          made.margins(
            { values: m.entropy, step: m.rowStep, most: longest },
            { values: m.received, step: m.keyStep, most },
          );
          bars.value =
            `A full bar is an entropy of ln ${keys} = ${digits(longest)} beside a row, ` +
            `a received weight of ${digits(most)} under a key.`;
        },
        (error: Error) => {
          if (head.value === of) marginTrouble.value = error.message;
        },
      );
    }),
  ];
  return () => {
    for (const stop of stops) stop();
    made.end();
    map.value = null;
    inSight.value = null;
    bars.value = '';
    jump.value = '';
    tip.value = null;
    hover.value = { q: -1, k: -1 };
  };
}

const portOf = ({
  top,
  left,
  zoom,
}: {
  top: number;
  left: number;
  zoom: number;
}): [number, number, number] | null =>
  zoom <= 1 && top === 0 && left === 0
    ? null
    : ([top, left, zoom].map((x) => Number(x.toPrecision(9))) as [number, number, number]);

// The address names what is in sight, also after a move that no gesture made. Such a move is not a
// step of undo.
function keepPort(of: MatrixMap): void {
  const port = portOf(of.seen);
  if (port?.join() !== look.value.port?.join()) change({ port }, false);
}

const isField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);

// Keys of the map while it has the focus; its letters and signs also from elsewhere on the page, if
// letters are keys.
function onKey(event: KeyboardEvent, host: HTMLElement): void {
  if (event.defaultPrevented || event.altKey || isField(event.target)) return;
  map.peek()?.flush();
  const inside = host.contains(event.target as Node);
  const arrows = event.key.length > 1;
  if (!inside && (arrows || !lettersAreKeys.value || document.querySelector('dialog[open]'))) return;
  if (map.peek()?.key(event)) {
    event.preventDefault();
    return;
  }
  if (event.ctrlKey || event.metaKey) return;
  if (event.key === 'g') jump.value = 'go';
  else if (event.key === '/') jump.value = 'find';
  else if (event.key === 'm') change({ plane: look.value.plane === 'max' ? 'mean' : 'max' });
  else return;
  event.preventDefault();
}

function Tip() {
  const at = tip.value;
  const { q, k } = hover.value;
  if (!at || q < 0 || k < 0) return null;
  const cell = shownCell.value;
  const here = cell && cell.q === q && cell.k === k ? cell : null;
  const right = at.x > innerWidth * 0.45;
  return (
    <div
      class="matrix-tip"
      aria-hidden="true"
      data-side={right ? 'left' : 'right'}
      style={{ transform: `translate(${Math.round(at.x)}px, ${Math.round(at.y)}px)` }}
    >
      <div>
        <span>
          <bdi class="matrix-query-side">{nameAt('queries', q)}</bdi> →{' '}
          <bdi class="matrix-key-side">{nameAt('keys', k)}</bdi>
        </span>
        <b>{!here ? '…' : here.hidden ? 'hidden by the mask' : digits(here.weight)}</b>
      </div>
    </div>
  );
}

export function Component() {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current as HTMLDivElement;
    const end = begin(element);
    const keys = (event: KeyboardEvent): void => onKey(event, element);
    addEventListener('keydown', keys, { capture: true });
    return () => {
      removeEventListener('keydown', keys, { capture: true });
      end();
    };
  }, []);
  const { rows, cols, isWhole, isClosest, slow, trouble } = state.value;
  const { transform, range } = look.value;
  const legend = {
    map: colours.value,
    range: transform === 'row' ? ([0, 1] as const) : (range ?? rangeOf.value.range),
    rows,
    cols,
  };
  const closeJump = (): void => {
    jump.value = '';
    host.current?.focus();
  };
  return (
    <div class="matrix">
      <Legend {...legend} />
      <div class="matrix-tools" role="toolbar" aria-label="view">
        <button
          type="button"
          class="icon"
          aria-label="zoom in"
          title="zoom in (+)"
          disabled={isClosest}
          onClick={() => map.peek()?.zoomBy(1.5)}
        >
          +
        </button>
        <button
          type="button"
          class="icon"
          aria-label="zoom out"
          title="zoom out (-)"
          disabled={isWhole}
          onClick={() => map.peek()?.zoomBy(1 / 1.5)}
        >
          −
        </button>
        <button
          type="button"
          aria-label="show all"
          title="show all (0)"
          disabled={isWhole}
          onClick={() => map.peek()?.all()}
        >
          all
        </button>
        <button
          type="button"
          aria-label="go to a position"
          title="go to a position (g)"
          onClick={() => {
            jump.value = 'go';
          }}
        >
          go to…
        </button>
        <button
          type="button"
          aria-label="find a token"
          title="find a token (/)"
          onClick={() => {
            jump.value = 'find';
          }}
        >
          find…
        </button>
        <Choices {...legend} />
        <Jump key={jump.value} go={(q, k) => map.peek()?.go(toCell({ q, k }), true)} close={closeJump} />
      </div>
      <div class="matrix-map" ref={host} />
      <div class="matrix-slow" role="status">
        {slow && 'computing the overview…'}
      </div>
      <div class="matrix-notes" role="status">
        {trouble && (
          <span class="bad">
            A part of the matrix is missing: {trouble.message}{' '}
            <button type="button" onClick={() => map.peek()?.retry()}>
              try again
            </button>
          </span>
        )}
        {bars.value && <span class="matrix-bars">{bars.value}</span>}
        {marginTrouble.value && (
          <span class="bad">The entropy of the rows is missing: {marginTrouble.value}</span>
        )}
      </div>
      <Tip />
    </div>
  );
}

export const keys = [
  ['arrows, Page Up, Page Down', 'the cell beside; 10 rows up, down'],
  ['Home, End', 'the first, the last key of the row; with Ctrl of the matrix'],
  ['+ - 0', 'zoom in, zoom out, show all'],
  ['g', 'go to a position'],
  ['/', 'find a token'],
  ['m', 'max or mean of the weights that share a cell'],
  ['Shift+drag, double click', 'zoom into a box; zoom in'],
] as const;
