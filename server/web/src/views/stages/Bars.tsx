// Signed numbers as small bars on both sides of a line, and as a table for who wants the digits.
import { num } from '../../parts/digits';
import { colour, css } from '../../draw/colours';
import { isDark } from '../../shell/theme';

const WIDTH = 22; // px of a bar, while there is space

interface Props {
  of: readonly number[];
  what: string; // such as "products by dimension"
  columns?: { name: string; values: readonly number[] }[]; // of the table, in front of the numbers
}

export const Digits = ({ of, what, columns = [] }: Props) => (
  <details class="stages-digits">
    <summary>{what} as numbers</summary>
    <div class="stages-wide">
      <table>
        <thead>
          <tr>
            <th scope="col">dimension</th>
            {columns.map((c) => (
              <th scope="col" key={c.name}>
                {c.name}
              </th>
            ))}
            <th scope="col">{columns.length ? 'product' : 'number'}</th>
          </tr>
        </thead>
        <tbody>
          {of.map((x, i) => (
            <tr key={i}>
              <th scope="row">{i}</th>
              {columns.map((c) => (
                <td key={c.name}>{num(c.values[i])}</td>
              ))}
              <td data-value={x}>{num(x)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  </details>
);

export function Bars({ of, what, columns }: Props) {
  const most = Math.max(1e-300, ...of.map(Math.abs));
  return (
    <div class="stages-bars">
      <div
        class="stages-chart"
        style={{ width: `${of.length * WIDTH + 6}px` }}
        role="img"
        aria-label={`${what}: from ${num(Math.min(...of))} to ${num(Math.max(...of))}`}
      >
        {of.map((x, i) => {
          const share = Math.abs(x) / most;
          const fill = css(colour('RdBu', isDark.value, 0.5 + (x < 0 ? -1 : 1) * (0.25 + 0.22 * share)));
          return (
            <span key={i} class={x < 0 ? 'below' : 'above'} title={`${i}: ${num(x)}`}>
              <i style={{ height: `${50 * share}%`, background: fill }} />
            </span>
          );
        })}
      </div>
      <Digits of={of} what={what} columns={columns} />
    </div>
  );
}
