// The computation of one weight, with its numbers put in.
import { num } from '../../parts/digits';
import { keys, nameOf } from '../../store/run';
import type { Site } from '../../api/runs';
import { Bars } from './Bars';
import type { Cell, Stage } from './data';
import { normalizerOf } from './normalizers';

interface Props {
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

export function Sums({ cell: c, site, value, idle, isShown }: Props) {
  const has = (stage: Stage): boolean => isShown(stage) && !idle[stage];
  const products = list(c.products);
  const few =
    products.length <= 6
      ? products.map((x, i) => (i ? plus(x) : num(x))).join('')
      : `${num(products[0])}${products.slice(1, 3).map(plus).join('')} + … (${products.length} products)`;
  const relative = c.relative ?? 0;
  const width = products.length;
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
            <b>q · k</b>{' '}
            <span>
              {products.length > 0 && `${few}${relative ? `${plus(relative)} (relative position)` : ''} = `}
              <output>{num(c.raw)}</output>
            </span>
            {products.length > 0 && (
              <Bars
                of={products}
                what="products by dimension"
                columns={[
                  { name: 'q', values: list(c.query) },
                  { name: 'k', values: list(c.key) },
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
                  e^({exact(c.biased ?? 0)}
                  {minus(c.logsumexp ?? 0)}) = <output data-value={c.weight}>{num(c.weight)}</output>
                  {c.rank !== undefined &&
                    c.num_visible_keys !== undefined &&
                    `, rank ${c.rank} of ${c.num_visible_keys}`}
                  ; {exact(c.logsumexp ?? 0)} is the row’s logsumexp
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
