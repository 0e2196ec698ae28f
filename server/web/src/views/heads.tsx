// The heads of all sites as thumbnails, from one request; what is measured of them comes later.
import { useMemo, useState } from 'preact/hooks';
import { placeOf } from '../api/answers';
import { useLook } from '../api/long';
import { isOpen } from '../api/runs';
import { palette } from '../draw/colours';
import { sentenceOf } from '../shell/sentence';
import { isDark } from '../shell/theme';
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
  groupsOf,
  isPlain,
  keyOf,
  readThumbs,
  type HeadMeasures,
  type Measured,
  type Thumb,
} from './heads/data';
import { Options, Working } from './heads/Options';
import { Selected } from './heads/Selected';
import { useDoings } from './heads/scores';
import './heads.css';

const json = <T,>(reply: Response): Promise<T> => reply.json() as Promise<T>;

export const keys: readonly (readonly [string, string])[] = [
  ['arrows', 'the heads beside, above and below'],
  ['Enter', 'open the matrix of the head'],
  ['Space', 'put the head into the mean, take it out'],
];

export function Component() {
  const [choice, setChoice] = useState(everyHead);
  const [onProbes, setOnProbes] = useState(false);
  const [checked, setChecked] = useState<ReadonlySet<string>>(new Set());
  const at = run.value;
  const sites = at?.sites ?? [];
  const closed = at?.state === 'closed';
  const atlas = useLook<Thumb[]>(
    at ? `v1/runs/${at.id}/atlas?max_side=64&pool=max&transform=sqrt` : null,
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
  const colours = useMemo(
    () => palette(look.value.colours, isDark.value),
    [look.value.colours, isDark.value],
  );
  const thumbs = atlas.value ?? [];
  const byHead = useMemo(() => {
    const map = new Map<string, HeadMeasures>();
    for (const h of measured.value?.heads ?? []) map.set(`${h.site}.${h.layer}.${h.batch}.${h.head}`, h);
    return map;
  }, [measured.value]);
  const of = (t: Thumb): HeadMeasures | undefined => byHead.get(`${t.site}.${t.layer}.${t.entry}.${t.head}`);
  const place = (t: Thumb): string => placeOf(sites, t);
  const plain = isPlain(choice);
  const groups = useMemo(() => groupsOf(thumbs, sites), [atlas.value, at]);
  const list = plain
    ? groups.flatMap((g) => g.lines.flatMap((l) => l.thumbs))
    : choose(thumbs, of, place, choice);
  // Many heads are in the groups of what they do.
  const sorted = choice.sort === 'pattern' && thumbs.length > DENSE && measured.value !== null;
  const shownGroups = plain ? groups : sorted ? byPattern(list, of) : null;
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
      <div class="heads-body">
        <div class="heads-list">
          <Working what="Thumbnails" look={atlas} />
          <Atlas
            groups={shownGroups}
            dense={thumbs.length > DENSE && shownGroups !== null}
            list={list}
            place={place}
            measures={of}
            measure={choice.measure}
            digits={digits}
            selected={selected}
            checked={checked}
            colours={colours}
            onSelect={select}
            onCheck={check}
            onOpen={(t) => {
              select(t, true);
              change({ view: 'matrix' });
            }}
          />
          {atlas.value && list.length === 0 && (
            <p class="empty">No head is like this. Widen the filter, or show all heads.</p>
          )}
          {thumbs.length > 0 && (
            <p class="heads-note">
              Each head has its own range, drawn as square roots.
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
          measures={chosen && of(chosen)}
          checked={thumbs.filter((t) => checked.has(t.key))}
          colours={colours}
          onClear={() => setChecked(new Set())}
        />
      </div>
    </div>
  );
}
