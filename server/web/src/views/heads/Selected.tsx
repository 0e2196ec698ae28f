// Beside the atlas: the selected head in words and numbers, the mean of the chosen heads, what the
// service diagnoses, and the rollout.
import { useMemo, useState } from 'preact/hooks';
import { useLook } from '../../api/long';
import { Problem } from '../../api/client';
import { strongest, type RunSite } from '../../api/runs';
import type { components } from '../../api/schema';
import { mean, type Codes } from '../../draw/thumb';
import { change } from '../../store/history';
import { isFinished, run } from '../../store/run';
import { announce, look } from '../../store/state';
import { digits } from '../../parts/digits';
import { Ablation } from './Ablation';
import { Picture, type Paint } from './Picture';
import { entriesOf, isLayered, placeOf } from '../../api/answers';
import { isPattern, measureName, wordsOf, type HeadMeasures, type Thumb } from './data';
import { Rollout } from './Rollout';
import { Working } from './Options';

type Metrics = { diagnoses?: components['schemas']['Diagnosis'][] };
type Diagnosis = components['schemas']['Diagnosis'];

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const NAMED = 6; // heads of a diagnosis that get a button each

interface Props {
  sites: readonly RunSite[];
  ready: boolean; // long looks wait for one another: the measures come before the diagnoses
  head: Thumb | undefined;
  measures: HeadMeasures | undefined;
  all: readonly Thumb[];
  width: number; // px of the pane
  checked: readonly Thumb[];
  by: Paint;
  onClear: () => void;
}

function Chosen({ checked, by, sites, onClear }: Props) {
  if (checked.length === 0) return null;
  const of = mean(checked);
  const side = 2 ** (checked[0]?.level ?? 0); // weights of a cell
  const words =
    checked.length === 1 ? 'thumbnail of 1 head' : `mean of the thumbnails of ${checked.length} heads`;
  return (
    <section class="heads-mean">
      <h3>{sentence(words)}</h3>
      {of ? (
        <>
          <Picture of={of} size={220} by={by} label={words} />
          <p class="hint">
            from {digits(of.low)} to {digits(of.high)}
            {side > 1 && `; each cell is the mean of the largest weights of ${side} × ${side}`}
          </p>
        </>
      ) : (
        <p class="hint">These heads have different shapes, so they have no mean.</p>
      )}
      <p>{checked.map((t) => `${placeOf(sites, t)} head ${t.head}`).join(', ')}</p>
      <button type="button" onClick={onClear}>
        Choose none
      </button>
    </section>
  );
}

// Opens the matrix at the cell that shows a diagnosis: of a sink its largest row, else the largest weight.
async function show(d: Diagnosis, site: number, batch: number, head: number): Promise<void> {
  try {
    const at = { run: look.value.run, site, batch, head };
    const edges = await strongest(
      at,
      d.code.includes('sink') ? { axis: 'key', cols: '0', top_k: 1 } : { top_k: 1 },
    );
    let best = 0;
    edges.weight.forEach((w, i) => {
      if ((w ?? 0) > (edges.weight[best] ?? 0)) best = i;
    });
    change({ site, batch, head, q: edges.row[best] ?? 0, k: edges.col[best] ?? 0, view: 'matrix' });
    announce(`query ${edges.row[best]}, key ${edges.col[best]}, weight ${digits(edges.weight[best] ?? 0)}`);
  } catch (error) {
    if (error instanceof Problem) announce(error.message);
  }
}

function One({
  d,
  site,
  now,
}: {
  d: Diagnosis;
  site: number;
  now: { batch: number; head: number | 'mean' };
}) {
  const own = d.heads.filter((h) => h.head === now.head && h.batch === now.batch);
  const heads = [...own, ...d.heads.filter((h) => !own.includes(h))].slice(0, NAMED);
  const what = d.code.includes('sink') ? 'Show the sink of' : 'Show the largest weight of';
  return (
    <li>
      <p>{d.text}</p>
      {heads.length > 0 && (
        <div class="line" role="group" aria-label={what}>
          {what}
          {heads.map((h) => {
            const name = `${h.batch !== now.batch ? `batch ${h.batch} ` : ''}head ${h.head}`;
            return (
              <button
                type="button"
                key={name}
                onClick={() => {
                  void show(d, site, h.batch, h.head);
                }}
              >
                {name}
              </button>
            );
          })}
        </div>
      )}
    </li>
  );
}

function Diagnoses({ ready }: { ready: boolean }) {
  const { site, batch, head } = look.value;
  const id = run.value?.id ?? '';
  const answer = useLook<Metrics>(
    ready ? `v1/runs/${id}/analyses?site=${site}&analysis=diagnoses` : null,
    'application/json',
    (reply) => reply.json() as Promise<Metrics>,
    run.value?.state === 'closed',
  );
  const all = answer.value?.diagnoses ?? [];
  const mine =
    head === 'mean'
      ? all
      : all.filter((d) => d.heads.length === 0 || d.heads.some((h) => h.head === head && h.batch === batch));
  const others = all.filter((d) => !mine.includes(d));
  return (
    <section class="heads-diagnoses">
      <h3>Diagnoses</h3>
      <Working what="Diagnoses" look={answer} />
      {answer.value && mine.length === 0 && <p class="hint">Nothing stands out in this head.</p>}
      <ul>
        {mine.map((d, i) => (
          <One key={i} d={d} site={site} now={{ batch, head }} />
        ))}
      </ul>
      {others.length > 0 && (
        <details>
          <summary>{others.length} of other heads</summary>
          <ul>
            {others.map((d, i) => (
              <One key={i} d={d} site={site} now={{ batch, head }} />
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

// A share as a bar, with what it means.
function Gauge({ name, share, says }: { name: string; share: number; says: string }) {
  return (
    <div class="heads-gauge">
      <span>{name}</span>
      <span class="heads-track" aria-hidden="true">
        <span class="bar-of" style={{ width: `${100 * Math.min(Math.max(share, 0), 1)}%` }} />
      </span>
      <small>{says}</small>
    </div>
  );
}

const percent = (share: number): string => `${Math.round(100 * share)}\u00a0%`;

// How sharp a head is and how far it looks. The reach is a half if the head looks as far as one that looks
// at all keys alike.
function Gauges({ measures }: { measures: HeadMeasures['measures'] }) {
  const { normalized_entropy: spread, confidence, distance, relative_distance: reach } = measures;
  return (
    <>
      {typeof spread === 'number' && typeof confidence === 'number' && (
        <Gauge name="sharpness" share={1 - spread} says={`${percent(confidence)} on one key`} />
      )}
      {typeof distance === 'number' && typeof reach === 'number' && (
        <Gauge name="reach" share={reach / 2} says={`${distance.toFixed(1)} tokens away`} />
      )}
    </>
  );
}

const MAP_MOST = 340; // px of the map

function Large({ of, width, by, name }: { of: Codes; width: number; by: Paint; name: string }) {
  return (
    <div class="heads-large">
      <Picture of={of} size={Math.max(0, Math.min(MAP_MOST, width))} by={by} label={`map of ${name}`} />
      <p class="hint">
        {of.codes.length > 0
          ? `Rows are queries, columns keys; 0 to ${digits(by.range?.[1] ?? of.high)}.`
          : '…'}
      </p>
    </div>
  );
}

function Ways() {
  return (
    <div class="line">
      <button type="button" class="main" onClick={() => change({ view: 'matrix' })}>
        Matrix
      </button>
      <button type="button" onClick={() => change({ view: 'words' })}>
        Words
      </button>
      {!isFinished.value && (
        <button type="button" onClick={() => change({ view: 'stages' })}>
          Stages
        </button>
      )}
    </div>
  );
}

function OneHead({ head, measures, width, by, name }: Props & { head: Thumb; name: string }) {
  const [isOpen, setOpen] = useState(false);
  const list = Object.entries(measures?.measures ?? {}).filter(([, value]) => typeof value === 'number');
  return (
    <>
      <Large of={head} width={width} by={by} name={name} />
      <p class="heads-does">
        {measures && <b>{sentence(wordsOf(measures.pattern.name))}</b>}{' '}
        {measures && isPattern(measures.pattern.name) && (
          <>
            <small>({measures.pattern.name})</small>
            <br />
            {sentence(measures.pattern.text)}.
          </>
        )}
      </p>
      <div class="heads-gauges">{measures && <Gauges measures={measures.measures} />}</div>
      <Ways />
      {list.length > 0 && (
        <details class="heads-all" open={isOpen} onToggle={(e) => setOpen(e.currentTarget.open)}>
          <summary>All measures</summary>
          <table class="heads-numbers">
            <caption class="hidden">measures of this head</caption>
            <tbody>
              {list.map(([name, value]) => (
                <tr key={name}>
                  <th scope="row">{measureName(name)}</th>
                  <td data-value={value}>{digits(value as number)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      )}
    </>
  );
}

function Mean({ all, width, by, name }: Props & { name: string }) {
  const { site, batch } = look.value;
  const heads = all.filter((t) => t.site === site && t.batch === batch);
  const isHere = heads.every((t) => t.codes.length > 0);
  const of = useMemo(() => (isHere ? mean(heads) : heads[0]), [all, site, batch]);
  return (
    <>
      {of && <Large of={of} width={width} by={{ ...by, range: null }} name={name} />}
      <p class="hint">
        A click or an arrow key selects a head. A double click or Enter opens its matrix, and + or Space puts
        it into a mean.
      </p>
      <Ways />
    </>
  );
}

export function Selected(props: Props) {
  const { sites, head: thumb } = props;
  const { site, batch, head } = look.value;
  const at = sites[site];
  const layer = at?.layer ?? 0;
  const entry = batch % entriesOf(at);
  const place = placeOf(
    sites,
    thumb ?? { site, layer: isLayered(at) ? Math.floor(batch / entriesOf(at)) : layer, entry },
  );
  const name = head === 'mean' ? `${place}, mean of the heads` : `${place}, head ${head}`;
  return (
    <aside class="heads-side" aria-label="Selected head">
      <Chosen {...props} />
      <section>
        <h2>{name}</h2>
        {head === 'mean' ? (
          <Mean {...props} name={name} />
        ) : (
          thumb && <OneHead {...props} head={thumb} name={name} />
        )}
      </section>
      <Ablation sites={sites} head={thumb} />
      <Diagnoses ready={props.ready} />
      <Rollout />
    </aside>
  );
}
