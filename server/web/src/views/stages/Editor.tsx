// The numbers of a small request, to be changed. Each change makes a new run at once.
import { Component } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type Axis, keys, nameOf, queries } from '../../store/run';
import { edits } from './edits';
import { NumberInput, short } from './NumberInput';
import {
  editable,
  filled,
  withField,
  withNumber,
  type Body,
  type Editable,
  type Grid,
  type Part,
} from './source';

const BROAD = 10; // columns from which a grid scrolls sideways by itself

interface RowProps {
  row: (number | boolean | null)[];
  index: number;
  name: string;
  colNames: readonly string[];
  what: string;
  stop: number;
  chosen: boolean;
  onEdit: (row: number, col: number, value: number | boolean) => void;
}

// A row is drawn again when its own numbers change, not when those of other rows do. Only the cell
// that Tab reaches is an input, because a thousand inputs would take the browser longer than
// everything else.
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const now = this.props;
    return (
      now.row !== next.row ||
      now.stop !== next.stop ||
      now.name !== next.name ||
      now.chosen !== next.chosen ||
      now.colNames !== next.colNames
    );
  }
  render() {
    const { row, index, name, colNames, what, stop, chosen } = this.props;
    return (
      <tr class={chosen ? 'chosen' : ''}>
        <th scope="row">
          <bdi>{name}</bdi>
        </th>
        {row.map((x, col) => {
          const cell = { 'data-cell': `${index}.${col}`, class: typeof x === 'boolean' ? 'tick' : 'number' };
          if (col !== stop)
            return (
              <td key={col} {...cell}>
                {typeof x === 'boolean' ? (
                  <span>{x ? '✓' : <span class="hidden">no</span>}</span>
                ) : x === null ? (
                  '–'
                ) : (
                  short(x)
                )}
              </td>
            );
          const label = `${what}, ${name}, ${colNames[col] ?? col}`;
          return (
            <td key={col} {...cell}>
              {typeof x === 'boolean' ? (
                <input
                  type="checkbox"
                  checked={x}
                  aria-label={label}
                  onChange={(e) => this.props.onEdit(index, col, e.currentTarget.checked)}
                />
              ) : (
                <NumberInput
                  value={x}
                  label={label}
                  onEdit={(value) => this.props.onEdit(index, col, value as number)}
                />
              )}
            </td>
          );
        })}
      </tr>
    );
  }
}

const steps: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  Enter: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

interface NumbersProps {
  grid: Grid;
  title: string;
  note?: string;
  rowNames: readonly string[];
  colNames: readonly string[];
  chosen: number;
  body: Body;
  onRemove?: () => void;
}

function Numbers({ grid, title, note, rowNames, colNames, chosen, body, onRemove }: NumbersProps) {
  const [at, setAt] = useState<readonly [number, number]>([0, 0]);
  const table = useRef<HTMLTableElement>(null);
  const wantsFocus = useRef(false);
  const [row, col] = [
    Math.min(at[0], grid.rows.length - 1),
    Math.min(at[1], (grid.rows[0]?.length ?? 1) - 1),
  ];
  const width = grid.rows[0]?.length ?? 0;
  const cellOf = (event: Event): [number, number] | null => {
    const cell = (event.target as HTMLElement)
      .closest<HTMLElement>('[data-cell]')
      ?.dataset.cell?.split('.')
      .map(Number);
    return cell ? [cell[0] ?? 0, cell[1] ?? 0] : null;
  };
  const go = (to: readonly [number, number]): void => {
    edits.endStep();
    wantsFocus.current = true;
    setAt(to);
  };
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    const input = table.current?.querySelector('input');
    input?.focus();
    if (input?.type !== 'checkbox') input?.select();
  }, [at]);
  // Rows outlive this drawing, so they ask for the current body when a number is changed.
  const onEdit = (y: number, x: number, value: number | boolean): void =>
    edits.make(
      withNumber(edits.shown?.body ?? body, grid, y, x, value),
      typeof value === 'number' ? `${grid.part} ${y} ${x}` : '',
    );
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = steps[event.key];
    const from = cellOf(event);
    if (event.key === 'Enter') edits.endStep();
    if (!by || !from || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const input = event.target as HTMLInputElement;
    if (by[1] && input.type !== 'checkbox') {
      // within a number the arrows move the caret
      const end = by[1] < 0 ? 0 : input.value.length;
      if (input.selectionStart !== input.selectionEnd || input.selectionStart !== end) return;
    }
    const [y, x] = [from[0] + by[0], from[1] + by[1]];
    if (grid.rows[y]?.[x] === undefined) return;
    event.preventDefault();
    go([y, x]);
  };
  const onClick = (event: MouseEvent): void => {
    const to = cellOf(event);
    if (!to || (event.target as HTMLElement).tagName === 'INPUT') return;
    const value = grid.rows[to[0]]?.[to[1]];
    if (typeof value === 'boolean') onEdit(to[0], to[1], !value);
    go(to);
  };
  return (
    <section class="stages-grid">
      <h3>
        {title}
        {note && <small> {note}</small>}{' '}
        {onRemove && (
          <button type="button" onClick={onRemove}>
            Remove
          </button>
        )}
      </h3>
      <div class={width > BROAD ? 'stages-wide broad' : ''} onKeyDown={onKeyDown} onClick={onClick}>
        <table ref={table} role="grid" aria-label={title}>
          <thead>
            <tr>
              <td />
              {Array.from({ length: width }, (_, i) => (
                <th scope="col" key={i}>
                  <bdi>{colNames[i] ?? i}</bdi>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {grid.rows.map((r, i) => (
              <Row
                key={i}
                row={r}
                index={i}
                name={rowNames[i] ?? String(i)}
                colNames={colNames}
                what={title}
                stop={i === row ? col : -1}
                chosen={i === chosen}
                onEdit={onEdit}
              />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const titles: Record<Part, string> = {
  query: 'Queries',
  key: 'Keys',
  value: 'Values',
  attn_mask: 'Mask',
  attn_bias: 'Bias',
};
const noNames: readonly string[] = [];

interface FieldProps {
  label: string;
  value: unknown;
  hint: string;
  onEdit: (value: number | null) => void;
}

function Field({ label, value, hint, onEdit }: FieldProps) {
  return (
    <label>
      {label}{' '}
      <NumberInput value={typeof value === 'number' ? value : null} hint={hint} mayBeEmpty onEdit={onEdit} />
    </label>
  );
}

// The same list as long as the names are the same, so that rows are not drawn again.
function useNames(axis: Axis, count: number): readonly string[] {
  const names = Array.from({ length: count }, (_, i) => nameOf(axis, i));
  return useMemo(() => names, [names.join('\n')]);
}

const allRows: readonly string[] = ['all'];

function Grids({ of, body, q, k }: { of: Editable; body: Body; q: number; k: number }) {
  const queryNames = useNames(queries.value, of.queries);
  const keyNames = useNames(keys.value, of.keys);
  const { grids } = of;
  const grid = (
    part: Part,
    rows: readonly string[],
    cols: readonly string[],
    chosen: number,
    note?: string,
    canRemove = false,
  ) => {
    const g = grids[part];
    return (
      g && (
        <Numbers
          key={part}
          grid={g}
          title={titles[part]}
          note={note}
          rowNames={rows}
          colNames={cols}
          chosen={chosen}
          body={body}
          onRemove={canRemove ? () => edits.make(withField(body, part, null)) : undefined}
        />
      )
    );
  };
  const width = grids.query?.rows[0]?.length ?? 1;
  return (
    <section class="stages-editor">
      <h2>Change the numbers</h2>
      <div class="stages-fields">
        <label>
          <input
            type="checkbox"
            checked={body.is_causal === true}
            onChange={(e) => edits.make(withField(body, 'is_causal', e.currentTarget.checked || null))}
          />{' '}
          causal
        </label>
        <Field
          label="scale"
          value={body.scale}
          hint={`1/√${width}`}
          onEdit={(value) => edits.make(withField(body, 'scale', value), 'scale')}
        />
        <Field
          label="softcap"
          value={body.softcap}
          hint="none"
          onEdit={(value) => edits.make(withField(body, 'softcap', value), 'softcap')}
        />
        {!grids.attn_mask && (
          <button
            type="button"
            onClick={() => edits.make({ ...body, attn_mask: filled(of.queries, of.keys, true) })}
          >
            Add a mask
          </button>
        )}
        {!grids.attn_bias && (
          <button
            type="button"
            onClick={() => edits.make({ ...body, attn_bias: filled(of.queries, of.keys, 0) })}
          >
            Add a bias
          </button>
        )}
        {of.isSelf && (
          <button type="button" onClick={() => edits.make({ ...body, key: body.query, value: body.query })}>
            Give keys and values their own numbers
          </button>
        )}
      </div>
      <div class="stages-grids">
        {grid('query', queryNames, noNames, q, of.isSelf ? 'they are the keys and values, too' : undefined)}
        {grid('key', keyNames, noNames, k)}
        {grid('value', keyNames, noNames, k)}
        {grid(
          'attn_mask',
          grids.attn_mask?.rows.length === of.queries ? queryNames : allRows,
          keyNames,
          q,
          typeof grids.attn_mask?.rows[0]?.[0] === 'boolean' ? 'a tick: the query sees the key' : undefined,
          true,
        )}
        {grid(
          'attn_bias',
          grids.attn_bias?.rows.length === of.queries ? queryNames : allRows,
          keyNames,
          q,
          'added to the scores',
          true,
        )}
      </div>
    </section>
  );
}

// The editor of the request that is shown or being typed. The editor is drawn again at every key;
// the elements around it wait for the run.
export function Editor({ batch, head, q, k }: { batch: number; head: number; q: number; k: number }) {
  const source = edits.shown;
  const body = source?.body;
  const of = useMemo(() => editable(source, batch, head), [body, batch, head]);
  return of && body ? <Grids of={of} body={body} q={q} k={k} /> : null;
}
