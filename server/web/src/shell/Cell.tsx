// Beside the view: the cell under the pointer, both words in their texts, and the largest weights
// of its row as a table.
import { change } from '../store/history';
import { type Axis, keys, nameOf, queries, site } from '../store/run';
import { hover, look, shown } from '../store/state';
import { digits } from '../parts/digits';
import { listed, rowTrouble, shownCell, shownRow } from '../store/values';

const AROUND = 60; // characters of the text on each side of a word

// A word in its text.
function InText({ axis, index }: { axis: Axis; index: number }) {
  const at = axis.offsets?.[index];
  if (!axis.text || !at || at[1] <= at[0]) {
    const tokens = axis.tokens;
    if (!tokens) return null;
    const from = Math.max(0, index - 8);
    return (
      <p class="context" dir="auto">
        {from > 0 && '… '}
        {tokens.slice(from, index + 9).map((token, i) => from + i === index
          ? <mark key={i}><bdi>{token}</bdi> </mark> : <bdi key={i}>{token} </bdi>)}
        {index + 9 < tokens.length && '…'}
      </p>
    );
  }
  const from = Math.max(0, at[0] - AROUND);
  const to = Math.min(axis.text.length, at[1] + AROUND);
  return (
    <p class="context" dir="auto">
      {from > 0 && '…'}{axis.text.slice(from, at[0])}<mark>{axis.text.slice(at[0], at[1])}</mark>{axis.text.slice(at[1], to)}{to < axis.text.length && '…'}
    </p>
  );
}

// Pins the row of a query, or frees it; the views keep pinned rows in sight.
function pin(q: number): void {
  const { pins } = look.value;
  change({ pins: pins.includes(q) ? pins.filter((other) => other !== q) : [...pins, q] });
}

export function Cell() {
  const row = shownRow.value;
  const cell = shownCell.value;
  const { q, k } = shown.value;
  const at = site.value;
  if (!at || q < 0 || q >= at.queries || k >= at.keys)
    return (
      <aside class="cell" aria-label="Cell">
        {at && q < 0 && <p class="hint">Point at a word or a cell to see its weights. A click keeps it, Esc frees it.</p>}
        {at && q >= at.queries && <p class="hint">This run has queries 0 to {at.queries - 1}, and the address names query {q}.</p>}
        {at && q >= 0 && k >= at.keys && <p class="hint">This run has keys 0 to {at.keys - 1}, and the address names key {k}.</p>}
      </aside>
    );
  const here = row !== null && row.q === q; // else the row is on its way, and that before stays until it comes
  const { order, most } = listed.value;
  return (
    <aside class="cell" aria-label="Cell">
      {rowTrouble.value && !here && <p class="bad">{rowTrouble.value}</p>}
      {k >= 0 && !cell && <div class="value"><output>…</output></div>}
      {cell && (
        <div class="value">
          <output>{cell.hidden ? 'hidden' : digits(cell.weight)}</output>
          <span>{cell.hidden ? 'the mask hides this key' : `rank ${cell.rank} of ${cell.of}`}</span>
          {!cell.hidden && <code>{String(Math.fround(cell.weight))}</code>}
        </div>
      )}
      <h3>query <bdi>{nameOf(queries.value, q)}</bdi>{queries.value.tokens && <small> {q}</small>}</h3>
      <InText axis={queries.value} index={q} />
      <button type="button" class="pin" aria-pressed={look.value.pins.includes(q)} onClick={() => pin(q)}>{look.value.pins.includes(q) ? 'row is pinned' : 'pin this row'}</button>
      {k >= 0 && <h3>key <bdi>{nameOf(keys.value, k)}</bdi>{keys.value.tokens && <small> {k}</small>}</h3>}
      {k >= 0 && <InText axis={keys.value} index={k} />}
      {row && <table class={`row ${here ? '' : 'stale'}`} aria-busy={!here} tabIndex={0} aria-label={`largest weights of query ${nameOf(queries.value, q)}`}>
        <caption>largest weights of the row</caption>
        <thead><tr><th scope="col">key</th><th scope="col">weight</th><th scope="col"><span class="hidden">share</span></th></tr></thead>
        <tbody>
          {order.map((key) => (
            <tr key={key} aria-selected={key === k} onPointerEnter={() => { hover.value = { q, k: key }; }} onPointerLeave={() => { hover.value = { q: -1, k: -1 }; }}
              onClick={() => change({ q, k: look.value.k === key ? -1 : key })}>
              <th scope="row"><bdi>{nameOf(keys.value, key)}</bdi>{keys.value.tokens && <small> {key}</small>}</th>
              <td>{digits(row.weights[key] as number)}</td>
              <td><span class="bar-of" style={{ width: `${(100 * (row.weights[key] as number)) / most}%` }} /></td>
            </tr>
          ))}
        </tbody>
      </table>}
    </aside>
  );
}
