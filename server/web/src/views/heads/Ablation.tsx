// What the model says without a head: beside what it says with all of them, and the change of its loss.
import { useLook } from '../../api/long';
import type { RunSite } from '../../api/runs';
import type { components } from '../../api/schema';
import { readingOf, sentenceOf } from '../../shell/sentence';
import { ablate, ablatedOf, isSame, written, type Ablated } from '../../shell/written';
import { look } from '../../store/state';
import { Working } from './Options';
import type { Thumb } from './data';

type Explained = components['schemas']['ModelExplanation'];
type Generated = components['schemas']['ModelGeneration'];

const json = <T,>(reply: Response): Promise<T> => reply.json() as Promise<T>;
const JSON_TYPE = 'application/json';

const nameOf = (h: Ablated): string => `${h.site} ${h.layer}, head ${h.head}`;

const signed = (x: number): string => `${x < 0 ? '−' : '+'}${Math.abs(x).toFixed(3)}`;

// The place in front of a body, so that each body has an answer of its own.
const keyed = (path: string, body: unknown): string => `${path}#${JSON.stringify(body)}`;

function Loss({ model, text, heads }: { model: string; text: string; heads: readonly Ablated[] }) {
  const body = { text, ablate: heads, return: ['change'], top_k: 3 };
  const answer = useLook<Explained>(keyed(`v1/models/${model}/explain`, body), JSON_TYPE, json, true, body);
  const change = answer.value?.change;
  const loss = change?.loss;
  const next = change?.positions.at(-1)?.logits ?? [];
  return (
    <>
      <Working what="The changes" look={answer} />
      {loss && (
        <p>
          Loss of your text: {loss.before.toFixed(3)} → {loss.after.toFixed(3)}{' '}
          <b>({signed(loss.after - loss.before)} nats a token)</b>
        </p>
      )}
      {next.length > 0 && (
        <table class="heads-numbers">
          <caption>the next token after your text</caption>
          <thead>
            <tr>
              <th scope="col">token</th>
              <th scope="col">with</th>
              <th scope="col">without</th>
            </tr>
          </thead>
          <tbody>
            {next.map((t) => (
              <tr key={t.id}>
                <th scope="row">
                  <bdi>{t.token.replace(/^[Ġ▁]/, '')}</bdi>
                </th>
                <td>{percent(t.log_probability_before)}</td>
                <td>{percent(t.log_probability_after)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

const percent = (log: number): string => `${(100 * Math.exp(log)).toFixed(1)} %`;

// What the model says with all heads.
function Before() {
  const { source } = look.value;
  const body: Record<string, unknown> = { ...source?.body };
  delete body.ablate;
  delete body.stream;
  const path = source ? keyed(source.path, body) : null;
  const answer = useLook<Generated>(path, JSON_TYPE, json, true, body);
  return (
    <>
      <Working what="The text" look={answer} />
      <bdi>{answer.value?.sequences?.[0]?.text?.trim()}</bdi>
    </>
  );
}

export function Ablation({ sites, head }: { sites: readonly RunSite[]; head: Thumb | undefined }) {
  const asked = sentenceOf(look.value.source);
  const gone = ablatedOf(look.value.source);
  if (!asked || (!head && gone.length === 0)) return null;
  const site = head && sites[head.site];
  const mine: Ablated | null =
    head && site && site.kind !== 'self'
      ? { site: site.kind as Ablated['site'], layer: site.layer, head: head.head }
      : null;
  const isGone = mine !== null && gone.some((h) => isSame(h, mine));
  const says = written.value;
  return (
    <section class="heads-ablation">
      <h3>Without a head</h3>
      <div class="line">
        {mine && (
          <button
            type="button"
            aria-pressed={isGone}
            onClick={() => ablate(isGone ? gone.filter((h) => !isSame(h, mine)) : [...gone, mine])}
          >
            {isGone ? 'Put this head back' : 'Ablate this head'}
          </button>
        )}
        {gone.length > (isGone ? 1 : 0) && (
          <button type="button" onClick={() => ablate([])}>
            Put all back
          </button>
        )}
      </div>
      {gone.length === 0 && <p class="hint">Its output becomes 0, and the model reads the text anew.</p>}
      {gone.length > 0 && (
        <>
          <p>Without {gone.map(nameOf).join('; ')}.</p>
          {says && (
            <dl class="heads-said">
              <div>
                <dt>with all heads</dt>
                <dd>
                  <Before />
                </dd>
              </div>
              <div>
                <dt>without</dt>
                <dd aria-busy={says.isGoing}>
                  <bdi>{says.added.trim()}</bdi>
                </dd>
              </div>
            </dl>
          )}
          {readingOf(asked.model).writes && <Loss model={asked.model} text={asked.text} heads={gone} />}
        </>
      )}
    </section>
  );
}
