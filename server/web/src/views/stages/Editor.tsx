// The numbers of a small request, to be changed. Each change makes a new run at once.
import { useMemo } from 'preact/hooks';
import { NumberGrid } from '../../parts/NumberGrid';
import { NumberInput } from '../../parts/NumberInput';
import { type Axis, keys, nameOf, queries } from '../../store/run';
import { edits } from './edits';
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
  const width = grid.rows[0]?.length ?? 0;
  // Rows outlive this drawing, so they ask for the current body when a number is changed.
  const edit = (y: number, x: number, value: number | boolean, isDrag: boolean): void =>
    edits.make(
      withNumber(edits.shown?.body ?? body, grid, y, x, value),
      typeof value === 'number' ? `${grid.part} ${y} ${x}` : '',
      isDrag,
    );
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
      <div class={width > BROAD ? 'stages-wide broad' : ''}>
        <NumberGrid
          label={title}
          rows={grid.rows}
          rowNames={rowNames}
          colNames={colNames}
          chosen={chosen}
          edit={edit}
          endStep={() => edits.endStep()}
        />
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
      <NumberInput
        value={typeof value === 'number' ? value : null}
        hint={hint}
        mayBeEmpty
        onEdit={onEdit}
        onEnd={() => edits.endStep()}
      />
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
