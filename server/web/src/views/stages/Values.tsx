// The output of the row: the sum of the values of the keys, each times its weight.
import { num } from '../../parts/digits';
import { keys, nameOf } from '../../store/run';
import { Bars } from './Bars';
import type { Stages } from './data';

const WIDE = 16; // numbers of a value that a table shows

// All values are known: a table whose last line is the sum.
export function Products({
  of,
  values,
  output,
}: {
  of: Stages;
  values: readonly (readonly number[])[];
  output: readonly number[] | null;
}) {
  const width = values[0]?.length ?? 0;
  if (width > WIDE) return output && <Bars of={output} what="output by dimension" />;
  return (
    <div class="stages-wide">
      <table class="stages-table values">
        <thead>
          <tr>
            <th scope="col">key</th>
            <th scope="col">weight</th>
            {Array.from({ length: width }, (_, e) => (
              <th scope="col" key={e}>
                value {e}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {values.map((v, k) => (
            <tr key={k}>
              <th scope="row">
                <bdi>{nameOf(keys.value, k)}</bdi>
              </th>
              <td>{num(of.probs[k])}</td>
              {v.map((x, e) => (
                <td key={e}>
                  <small>
                    {num(of.probs[k])} × {num(x)} =
                  </small>{' '}
                  {num((of.probs[k] as number) * x)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {output && (
          <tfoot>
            <tr>
              <th scope="row">sum: output</th>
              <td />
              {output.map((x, e) => (
                <td key={e} data-output={e} data-value={x}>
                  {num(x)}
                </td>
              ))}
            </tr>
          </tfoot>
        )}
      </table>
    </div>
  );
}

// One value is known at most.
export function Output({
  k,
  weight,
  value,
  output,
}: {
  k: number;
  weight: number;
  value: readonly number[] | null;
  output: readonly number[] | null;
}) {
  return (
    <>
      {value && (
        <>
          <p>
            {num(weight)} × value of <bdi>{nameOf(keys.value, k)}</bdi>
          </p>
          <Bars
            of={value.map((x) => x * weight)}
            what="weight × value by dimension"
            columns={[{ name: 'value', values: value }]}
          />
        </>
      )}
      {output ? (
        <>
          <p>Output of the row: the sum over all keys</p>
          <Bars of={output} what="output by dimension" />
        </>
      ) : (
        <p class="hint">This run keeps no values, so the row has no output here.</p>
      )}
    </>
  );
}
