// A query, a key and their products as strips of cells, one beneath the other.
import { num } from '../../parts/digits';
import { tint } from '../../parts/tint';

const FEW = 6; // cells of a strip that have room for their numbers

interface Props {
  query: readonly number[];
  known: readonly number[]; // the key
  products: readonly number[];
}

export function Strips({ query, known, products }: Props) {
  const size = (...of: readonly number[]): number => Math.max(1e-300, ...of.map(Math.abs));
  const inputs = size(...query, ...known);
  const strips = [
    { name: 'q', values: query, most: inputs },
    { name: 'k', values: known, most: inputs },
    { name: 'q × k', values: products, most: size(...products) },
  ];
  return (
    <div class="stages-strips" role="img" aria-label={`query, key and their ${products.length} products`}>
      {strips.map(({ name, values, most }) => (
        <div key={name} data-strip={name}>
          <b>{name}</b>
          {values.map((x, i) => (
            <span key={i} data-value={x} title={`${name} ${i}: ${num(x)}`} style={tint('scores', x, most)}>
              {values.length <= FEW && num(x)}
            </span>
          ))}
        </div>
      ))}
    </div>
  );
}
