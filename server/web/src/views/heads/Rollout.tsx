// Attention rollout: how much of each token reaches a query through all layers of self-attention.
import { useState } from 'preact/hooks';
import { useLook } from '../../api/long';
import { isOpen } from '../../api/runs';
import { run } from '../../store/run';
import { look } from '../../store/state';
import { digits } from '../../parts/digits';
import { entriesOf } from '../../api/answers';
import { namesOf } from './data';
import { Working } from './Options';

const MOST = 20;

interface Answer {
  layers: number[];
  rollout: number[][];
}

export function Rollout() {
  const sites = (run.value?.sites ?? [])
    .filter(isOpen)
    .filter((s) => s.kind !== 'cross' && s.num_queries === s.num_keys);
  const kinds = [...new Set(sites.map((s) => s.kind))];
  const here = run.value?.sites[look.value.site];
  const [picked, setKind] = useState<string>('');
  const kind = kinds.find((k) => k === picked) ?? kinds.find((k) => k === here?.kind) ?? kinds[0];
  const site = sites.find((s) => s.kind === kind);
  const [typed, setQuery] = useState<number | null>(null);
  const [path, setPath] = useState<string | null>(null);
  const own = here?.kind === kind && look.value.q >= 0 ? look.value.q : 0;
  const q = Math.min(typed ?? own, Math.max(0, (site?.num_queries ?? 1) - 1));
  const wanted = site
    ? `v1/runs/${run.value?.id}/rollout?rows=${q}&kind=${kind}&batch=${look.value.batch % entriesOf(site)}`
    : null;
  const answer = useLook<Answer>(
    path !== null && path === wanted ? path : null,
    'application/json',
    (reply) => reply.json() as Promise<Answer>,
    run.value?.state === 'closed',
  );
  if (!site || !run.value) return null;
  const names = namesOf(run.value, site, look.value.batch);
  const row = answer.value?.rollout[0] ?? [];
  const order = row
    .map((_, i) => i)
    .sort((a, b) => (row[b] as number) - (row[a] as number))
    .slice(0, MOST);
  const most = row[order[0] ?? 0] || 1;
  const layers = answer.value?.layers.length ?? 0;
  return (
    <section class="heads-rollout">
      <h3>
        Rollout {(kinds.length > 1 || here?.kind !== kind) && `through the ${kind} `}to query{' '}
        <bdi>{names[q] ?? q}</bdi>
      </h3>
      <div class="line">
        {kinds.length > 1 && (
          <label>
            kind{' '}
            <select value={kind} onChange={(e) => setKind(e.currentTarget.value)}>
              {kinds.map((k) => (
                <option key={k} value={k}>
                  {k}
                </option>
              ))}
            </select>
          </label>
        )}
        <label>
          query{' '}
          <input
            type="number"
            min={0}
            max={site.num_queries - 1}
            value={q}
            onInput={(e) => {
              const n = e.currentTarget.valueAsNumber;
              if (Number.isInteger(n) && n >= 0) setQuery(n);
            }}
          />
        </label>
        <button
          type="button"
          onClick={() => {
            setPath(wanted);
            answer.again();
          }}
          disabled={answer.progress !== null || answer.value !== null}
        >
          Compute
        </button>
      </div>
      <Working what="The shares" look={answer} />
      {answer.value && (
        <table class="heads-bars">
          <caption>
            {kind}, {layers === 1 ? 'one layer' : `${layers} layers`}, mean of the heads; half of each layer
            passes by it{row.length > MOST && `; the ${MOST} largest of ${row.length}`}
          </caption>
          <thead>
            <tr>
              <th scope="col">token</th>
              <th scope="col">share</th>
              <th scope="col">
                <span class="hidden">bar</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {order.map((i) => (
              <tr key={i}>
                <th scope="row">
                  <bdi>{names[i] ?? i}</bdi>
                  {names[i] !== undefined && <small> {i}</small>}
                </th>
                <td data-value={row[i]}>{digits(row[i] as number)}</td>
                <td>
                  <span class="bar-of" style={{ width: `${(100 * (row[i] as number)) / most}%` }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
