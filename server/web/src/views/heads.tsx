// The heads of all sites as thumbnails, from one request; what is measured of them comes later.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { placeOf } from '../api/answers';
import { useLook } from '../api/long';
import { isOpen } from '../api/runs';
import { palette } from '../draw/colours';
import { sentenceOf } from '../shell/sentence';
import { colours as colourMap, isDark } from '../shell/theme';
import { change } from '../store/history';
import { run } from '../store/run';
import { announce, look } from '../store/state';
import { digits } from '../parts/digits';
import { seesAll } from '../parts/mask';
import { Atlas, DENSE } from './heads/Atlas';
import {
  byPattern,
  choose,
  everyHead,
  expected,
  groupsOf,
  isPlain,
  keyOf,
  measureOfSort,
  orders,
  readThumbs,
  type HeadMeasures,
  type Measured,
  type Thumb,
} from './heads/data';
import { FRAME } from './heads/Dense';
import { fit, type Room } from './heads/fit';
import { Options, Working } from './heads/Options';
import type { Paint } from './heads/Picture';
import { Selected } from './heads/Selected';
import { useDoings } from './heads/scores';
import './heads.css';

const json = <T,>(reply: Response): Promise<T> => reply.json() as Promise<T>;

export const keys: readonly (readonly [string, string])[] = [
  ['arrows', 'the heads beside, above and below'],
  ['Enter', 'open the matrix of the head'],
  ['Space', 'put the head into the mean, take it out'],
];

const NARROW = 820; // px up to which the pane is below the heads, as in heads.css
const SIDE = { least: 320, most: 460, part: 0.28 }; // px of the pane, and its part of the width beside few heads
const AROUND = { wide: 36, high: 58 }; // px of the list around the atlas, with its note
const FEW = 16; // heads of which the thumbnails have twice as many cells

// The size of an element, before it is painted and whenever it changes.
function useSize() {
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState<Room>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const at = box.current;
    if (!at) return undefined;
    const measure = (): void => setSize({ width: at.clientWidth, height: at.clientHeight });
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(at);
    return () => watch.disconnect();
  }, []);
  return { box, size };
}

// The head that an order puts first, as a sentence.
function First({
  sort,
  head,
  value,
  name,
  onSelect,
}: {
  sort: string;
  head: Thumb | undefined;
  value: number | null | undefined;
  name: string;
  onSelect: (t: Thumb, lasting: boolean) => void;
}) {
  const order = orders.find((o) => o.sort === sort);
  if (!order || !head || typeof value !== 'number') return null;
  return (
    <p class="heads-first" role="status">
      {order.first}{' '}
      <button type="button" class="link" onClick={() => onSelect(head, true)}>
        {name}
      </button>
      : {order.tells(value)}.
    </p>
  );
}

export function Component() {
  const [choice, setChoice] = useState(everyHead);
  const [onProbes, setOnProbes] = useState(false);
  const [checked, setChecked] = useState<ReadonlySet<string>>(new Set());
  const at = run.value;
  const sites = at?.sites ?? [];
  const closed = at?.state === 'closed';
  const tiles = useMemo(() => expected(sites), [at]);
  const cells = tiles.length > FEW ? 64 : 128;
  const atlas = useLook<Thumb[]>(
    at ? `v1/runs/${at.id}/atlas?max_side=${cells}&pool=max&transform=sqrt` : null,
    'application/vnd.safetensors',
    (reply) => readThumbs(reply, sites),
    closed,
  );
  const inText = useLook<Measured>(
    at && atlas.value ? `v1/runs/${at.id}/heads` : null,
    'application/json',
    json<Measured>,
    closed,
  );
  const asked = sentenceOf(look.value.source);
  const measured = useDoings(onProbes && asked ? asked.model : null, inText, sites);
  const colours = useMemo(() => palette(colourMap.value, isDark.value), [colourMap.value, isDark.value]);
  const thumbs = atlas.value ?? tiles;
  const by = useMemo((): Paint => {
    const range = [Math.min(0, ...thumbs.map((t) => t.low)), Math.max(...thumbs.map((t) => t.high))] as const;
    return { colours, range: choice.oneRange ? range : null };
  }, [colours, thumbs, choice.oneRange]);
  const byHead = useMemo(() => {
    const map = new Map<string, HeadMeasures>();
    for (const h of measured.value?.heads ?? []) map.set(`${h.site}.${h.layer}.${h.batch}.${h.head}`, h);
    return map;
  }, [measured.value]);
  const of = (t: Thumb): HeadMeasures | undefined => byHead.get(`${t.site}.${t.layer}.${t.entry}.${t.head}`);
  const place = (t: Thumb): string => placeOf(sites, t);
  const plain = isPlain(choice);
  const groups = useMemo(() => groupsOf(thumbs, sites), [thumbs, at]);
  const dense = thumbs.length > DENSE;
  const list = plain
    ? groups.flatMap((g) => g.lines.flatMap((l) => l.thumbs))
    : choose(thumbs, of, place, choice);
  // Many heads are in the groups of what they do, and those that a filter leaves stay in their places.
  const shownGroups =
    plain || (dense && choice.sort === 'place')
      ? groups
      : dense && choice.sort === 'pattern' && measured.value
        ? byPattern(list, of)
        : list.length > 0
          ? [{ title: '', name: '', lines: [{ layer: 0, thumbs: list }] }]
          : [];
  const { box, size } = useSize();
  const isWide = size.width > NARROW;
  const high = isWide ? size.height - AROUND.high : Infinity;
  const widest = size.width - AROUND.wide - (isWide ? SIDE.least : 0);
  const taken = useMemo(
    () => (dense ? fit(groups, { width: widest, height: high }, FRAME, isWide).width : widest),
    [groups, widest, high, dense],
  );
  const spare = dense ? size.width - AROUND.wide - taken : SIDE.part * size.width;
  const side = Math.min(SIDE.most, Math.max(SIDE.least, spare));
  const room: Room = { width: isWide ? size.width - AROUND.wide - side : widest, height: high };
  const { site, batch, head } = look.value;
  const selected = keyOf(site, batch, head);
  const chosen = thumbs.find((t) => t.key === selected);
  const select = (t: Thumb, lasting: boolean): void => {
    const other = t.site !== look.value.site || t.batch !== look.value.batch;
    change(
      {
        site: t.site,
        batch: t.batch,
        head: t.head,
        ...(other ? { q: -1, k: -1, pins: [], port: null } : {}),
        range: null,
      },
      lasting,
    );
  };
  const check = (t: Thumb): void => {
    const next = new Set(checked);
    if (!next.delete(t.key)) next.add(t.key);
    setChecked(next);
    const said = next.has(t.key) ? 'is in the mean' : 'is out of the mean';
    announce(`${place(t)} head ${t.head} ${said}; ${next.size} heads`);
  };
  const level = Math.max(0, ...thumbs.map((t) => t.level));
  const hides = useMemo(
    () =>
      sites.some(
        (s) => isOpen(s) && Array.from({ length: s.num_batches }).some((_, batch) => !seesAll(s.mask, batch)),
      ),
    [at],
  );
  return (
    <div class="heads">
      <Options
        choice={choice}
        onChange={setChoice}
        look={measured}
        left={list.length}
        all={thumbs.length}
        onProbes={asked ? onProbes : null}
        chooseProbes={(on) => {
          setOnProbes(on);
          setChoice({ ...choice, pattern: '', sort: on ? 'pattern' : 'place' });
        }}
      />
      <div class="heads-body" ref={box} style={{ '--side': `${side}px` }}>
        <div class="heads-list">
          <First
            sort={choice.sort}
            head={list[0]}
            value={list[0] && of(list[0])?.measures[measureOfSort(choice.sort)]}
            name={list[0] ? `${place(list[0])}, head ${list[0].head}` : ''}
            onSelect={select}
          />
          {size.width > 0 && (
            <Atlas
              groups={shownGroups}
              hasPlaces={shownGroups === groups}
              dense={dense}
              room={room}
              isWide={isWide}
              list={list}
              place={place}
              measures={of}
              measure={choice.measure}
              digits={digits}
              selected={selected}
              checked={checked}
              by={by}
              onSelect={select}
              onCheck={check}
              onOpen={(t) => {
                select(t, true);
                change({ view: 'matrix' });
              }}
            />
          )}
          {atlas.value && list.length === 0 && (
            <p class="empty">No head is like this. Widen the filter, or show all heads.</p>
          )}
          <Working what="Thumbnails" look={atlas} />
          {atlas.value && (
            <p class="heads-note">
              {by.range
                ? `The colours of all heads go from ${digits(by.range[0])} to ${digits(by.range[1])}, as square roots.`
                : 'The colours of each head go from 0 to its own largest weight, as square roots.'}
              {hides && (
                <>
                  {' '}
                  <span class="heads-hatch" aria-hidden="true" /> Hatched cells are hidden by the mask.
                </>
              )}
              {level > 0 &&
                ` A cell of a large head is its largest weight of up to ${2 ** level} × ${2 ** level}.`}
            </p>
          )}
        </div>
        <Selected
          sites={sites}
          ready={inText.value !== null || inText.why !== ''}
          head={chosen}
          all={thumbs}
          width={(isWide ? side : size.width) - AROUND.wide}
          measures={chosen && of(chosen)}
          checked={thumbs.filter((t) => checked.has(t.key))}
          by={by}
          onClear={() => setChecked(new Set())}
        />
      </div>
    </div>
  );
}
