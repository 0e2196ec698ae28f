// The computation of one weight, with its numbers put in.
import { num } from '../../parts/digits';
import { products as productsOf, softmax } from '../../parts/formula';
import { keys, nameOf } from '../../store/run';
import type { Site } from '../../api/runs';
import { Digits } from './Bars';
import type { Cell, Stage, Stages } from './data';
import { normalizerOf } from './normalizers';
import { Strips } from './Strips';

interface Props {
  of: Stages;
  cell: Cell;
  site: Site;
  value: readonly number[] | null;
  idle: Partial<Record<Stage, string>>; // stages that change nothing in the row have no line
  isShown: (stage: Stage | 'values') => boolean;
}

const list = (x: Cell['query']): number[] => (x ?? []).map((n) => n ?? NaN);
const plus = (x: number): string => (x < 0 ? ` − ${num(-x)}` : ` + ${num(x)}`);
// An exponent needs its digits after the point: an error of 0.01 there is one of 1 % of the weight.
const exact = (x: number): string =>
  Math.abs(x) < 1e5 ? String(Number(x.toFixed(4))).replace('-', '−') : num(x);
const minus = (x: number): string => (x < 0 ? ` + ${exact(-x)}` : ` − ${exact(x)}`);

const FEW = 6; // products that are written out
const MOST = 11; // e^11 still has its digits in front of the point

// The logsumexp has a part of its own where sinks take weight.
function softmaxOf(of: Stages, c: Cell): string {
  const [score, all] = [c.biased ?? 0, c.logsumexp ?? 0];
  const scores = Array.from(of.biased).filter((x) => x > -Infinity);
  const sink = 1 - scores.reduce((sum, x) => sum + Math.exp(x - all), 0);
  const hasSink = sink > 1e-3;
  const divided = Math.abs(all) < MOST ? ` = ${num(Math.exp(score))} / ${num(Math.exp(all))}` : '';
  const terms = hasSink ? [...scores, all + Math.log(sink)] : scores;
  return `${softmax(score, terms)}${hasSink ? ' (the last is the sink’s)' : ''}${divided}`;
}

export function Sums({ of, cell: c, site, value, idle, isShown }: Props) {
  const has = (stage: Stage): boolean => isShown(stage) && !idle[stage];
  const [products, query, known] = [list(c.products), list(c.query), list(c.key)];
  const relative = c.relative ?? 0;
  const width = products.length;
  const few = width <= FEW ? productsOf(query, known) : `the sum of ${width} products`;
  const isRoot = width > 0 && Math.abs((c.scale ?? 0) * Math.sqrt(width) - 1) < 1e-6;
  const hidden = c.visible === false;
  const isOther = site.normalizer !== undefined;
  const weighs = normalizerOf(site);
  const position = c.position_bias ?? 0;
  const mask = c.mask_bias ?? 0;
  const k = c.col ?? 0;
  return (
    <section class="stages-sums">
      <h2>
        The weight of key <bdi>{nameOf(keys.value, k)}</bdi> {keys.value.tokens && <small>{k}</small>}
      </h2>
      <ol>
        {isShown('raw') && (
          <li>
            <b>q · k</b> {products.length > 0 && <Strips query={query} known={known} products={products} />}
            <span>
              {products.length > 0 && `${few}${relative ? `${plus(relative)} (relative position)` : ''} = `}
              <output>{num(c.raw)}</output>
            </span>
            {products.length > 0 && (
              <Digits
                of={products}
                what="products by dimension"
                columns={[
                  { name: 'q', values: query },
                  { name: 'k', values: known },
                ]}
              />
            )}
          </li>
        )}
        {has('scaled') && (
          <li>
            <b>scaled</b>{' '}
            <span>
              {num(c.raw)} × {num(c.scale)}
              {isRoot && ` (1/√${width})`} = <output>{num(c.scaled)}</output>
            </span>
          </li>
        )}
        {has('softcapped') && (
          <li>
            <b>softcapped</b>{' '}
            <span>
              {num(c.softcap)} × tanh({num(c.scaled)} / {num(c.softcap)}) ={' '}
              <output>{num(c.softcapped)}</output>
            </span>
          </li>
        )}
        {has('biased') &&
          (hidden ? (
            <li>
              <b>masked</b>{' '}
              <span>
                hidden by {c.hidden_by?.join(', ') || 'the mask'}:{' '}
                <output>{c.filled ? num(c.biased) : '−∞'}</output>
              </span>
            </li>
          ) : position === 0 && mask === 0 ? (
            <li class="idle">
              <b>biased and masked</b> <span>no bias; the mask lets this key be seen</span>
            </li>
          ) : (
            <li>
              <b>biased</b>{' '}
              <span>
                {num(c.softcapped)}
                {position !== 0 && `${plus(position)} (position)`}
                {mask !== 0 && `${plus(mask)} (bias)`} = <output>{num(c.biased)}</output>
              </span>
            </li>
          ))}
        {isShown('probs') && (
          <li>
            <b>{weighs.name}</b>{' '}
            <span>
              {hidden && !c.filled ? (
                <>
                  a hidden key has the weight <output data-value={c.weight}>0</output>
                </>
              ) : isOther ? (
                <>
                  {weighs.formula} at the score {exact(c.biased ?? 0)}:{' '}
                  <output data-value={c.weight}>{num(c.weight)}</output>
                </>
              ) : (
                <>
                  {softmaxOf(of, c)} = <output data-value={c.weight}>{num(c.weight)}</output>
                  <small>
                    the same as e^({exact(c.biased ?? 0)}
                    {minus(c.logsumexp ?? 0)}), where {exact(c.logsumexp ?? 0)} = ln Σ e^s is the row’s
                    logsumexp
                  </small>
                </>
              )}
            </span>
          </li>
        )}
        {isShown('values') && value && value.length <= 6 && (
          <li>
            <b>times value</b>{' '}
            <span>
              {num(c.weight)} × ({value.map(num).join(', ')}) ={' '}
              <output>({value.map((x) => num(x * (c.weight ?? 0))).join(', ')})</output>
            </span>
          </li>
        )}
      </ol>
      {isShown('probs') && (site.dropout_p ?? 0) > 0 && (
        <p class="hint">Dropout of {site.dropout_p} comes after this.</p>
      )}
    </section>
  );
}
