// Beside the atlas: the selected head in words and numbers, the mean of the chosen heads, what the
// service diagnoses, and the rollout.
import { useState } from 'preact/hooks';
import { useLook } from '../../api/long';
import { Problem } from '../../api/client';
import { strongest, type RunSite } from '../../api/runs';
import type { components } from '../../api/schema';
import { mean } from '../../draw/thumb';
import { change } from '../../store/history';
import { run } from '../../store/run';
import { announce, look } from '../../store/state';
import { digits } from '../../parts/digits';
import { Ablation } from './Ablation';
import { Picture } from './Atlas';
import { isLayered, placeOf } from '../../api/answers';
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
  checked: readonly Thumb[];
  colours: Uint32Array;
  onClear: () => void;
}

function Chosen({ checked, colours, sites, onClear }: Props) {
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
          <Picture of={of} size={220} colours={colours} label={words} />
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

export function Selected(props: Props) {
  const { head, measures, sites } = props;
  const [all, setAll] = useState(false);
  const list = Object.entries(measures?.measures ?? {}).filter(([, value]) => typeof value === 'number');
  const few = all ? list : list.slice(0, 6);
  return (
    <aside class="heads-side" aria-label="Selected head">
      <section>
        {head ? (
          <>
            <h2>
              {placeOf(sites, head)}, head {head.head}
            </h2>
            {measures && (
              <p>
                <b>{sentence(wordsOf(measures.pattern.name))}</b>{' '}
                {isPattern(measures.pattern.name) && (
                  <>
                    <small>({measures.pattern.name})</small>
                    <br />
                    {sentence(measures.pattern.text)}.
                  </>
                )}
              </p>
            )}
            {few.length > 0 && (
              <table class="heads-numbers">
                <caption class="hidden">measures of this head</caption>
                <tbody>
                  {few.map(([name, value]) => (
                    <tr key={name}>
                      <th scope="row">{measureName(name)}</th>
                      <td data-value={value}>{digits(value as number)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
            <div class="line">
              <button type="button" class="main" onClick={() => change({ view: 'matrix' })}>
                Open matrix
              </button>
              {list.length > 6 && (
                <button type="button" aria-expanded={all} onClick={() => setAll(!all)}>
                  {all ? 'Fewer measures' : 'All measures'}
                </button>
              )}
            </div>
          </>
        ) : (
          <>
            <h2>
              {isLayered(sites[look.value.site]) || sites[look.value.site]?.kind === 'self'
                ? sites[look.value.site]?.name
                : `${sites[look.value.site]?.kind} ${sites[look.value.site]?.layer}`}
              , mean of the heads
            </h2>
            <p class="hint">
              A click or an arrow key selects a head. A double click or Enter opens its matrix, and + or Space
              puts it into a mean.
            </p>
          </>
        )}
      </section>
      <Ablation sites={sites} head={head} />
      <Chosen {...props} />
      <Diagnoses ready={props.ready} />
      <Rollout />
    </aside>
  );
}
