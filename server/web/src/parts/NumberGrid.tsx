// A matrix of numbers or of yes and no. Arrows move among its cells, of which Tab reaches one. Numbers
// that can be edited are typed, or scrubbed by dragging them sideways.
import { Component, type ComponentChild } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { adopt } from './adopt';
import { NumberInput, short } from './NumberInput';
import { useScrub } from './scrub';
import css from './numbers.css' with { type: 'text' };

adopt(css);

export type Entry = number | boolean | null;
export type Place = readonly [row: number, col: number];

interface Props {
  label: string; // of the grid, and in front of the names of a cell
  rows: readonly (readonly Entry[])[];
  rowNames: readonly string[];
  colNames: readonly string[]; // none: their numbers
  chosen?: number; // the row that is marked
  edit?: (row: number, col: number, value: number | boolean, isDrag: boolean) => void; // absent: results
  endStep?: () => void;
  say?: (row: number, col: number) => string; // what a result is, for those who do not see its mark
  toggle?: (row: number, col: number) => void; // a click on a result
  show?: (value: Entry, row: number, col: number) => ComponentChild; // of a result
  mark?: (row: number, col: number) => string; // classes of a cell
  paint?: (value: Entry) => Record<string, string>; // the ground of a result
  point?: (at: Place | null) => void; // where the pointer or the focus is
}

interface RowProps extends Props {
  index: number;
  stop: number; // the column that Tab reaches; -1: none
  marks: string; // the classes of its cells, to see whether they have changed
}

// A row is drawn again when its own numbers change, not when those of other rows do. Only the cell
// that Tab reaches is an input, because a thousand inputs would take the browser longer than
// everything else.
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const { index } = next;
    const now = this.props;
    return (
      now.rows[index] !== next.rows[index] ||
      now.stop !== next.stop ||
      now.marks !== next.marks ||
      now.paint !== next.paint ||
      now.rowNames[index] !== next.rowNames[index] ||
      (now.chosen === index) !== (next.chosen === index) ||
      now.colNames !== next.colNames
    );
  }

  content(value: Entry, col: number, label: string): ComponentChild {
    const { index, stop, edit, endStep, toggle, show, say } = this.props;
    if (toggle)
      return (
        <button
          type="button"
          tabIndex={col === stop ? 0 : -1}
          aria-label={`${label}: ${say?.(index, col) ?? ''}`}
        >
          {show?.(value, index, col)}
        </button>
      );
    if (!edit) return show?.(value, index, col);
    if (typeof value === 'boolean')
      return col === stop ? (
        <input
          type="checkbox"
          checked={value}
          aria-label={label}
          onChange={(e) => edit(index, col, e.currentTarget.checked, false)}
        />
      ) : (
        <span>{value ? '✓' : <span class="hidden">no</span>}</span>
      );
    if (col !== stop) return value === null ? '–' : short(value);
    return (
      <NumberInput
        value={value}
        label={label}
        onEdit={(number) => edit(index, col, number as number, false)}
        onEnd={() => endStep?.()}
      />
    );
  }

  render() {
    const { rows, index, rowNames, colNames, label, stop, chosen, edit, toggle, mark, paint } = this.props;
    const name = rowNames[index] ?? String(index);
    return (
      <tr class={chosen === index ? 'chosen' : ''}>
        <th scope="row">
          <bdi>{name}</bdi>
        </th>
        {rows[index]?.map((x, col) => {
          const kind = typeof x === 'boolean' ? 'tick' : edit ? 'number' : 'result';
          const full = `${label}, ${name}, ${colNames[col] ?? col}`;
          const isStop = !edit && !toggle ? { tabIndex: col === stop ? 0 : -1 } : {};
          return (
            <td
              key={col}
              data-cell={`${index}.${col}`}
              data-value={edit ? undefined : String(x)}
              class={`${kind} ${mark?.(index, col) ?? ''}`}
              style={paint?.(x)}
              {...isStop}
            >
              {this.content(x, col, full)}
            </td>
          );
        })}
      </tr>
    );
  }
}

const steps: Record<string, Place> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  Enter: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

export function cellOf(event: Event): Place | null {
  const cell = (event.target as HTMLElement).closest<HTMLElement>('[data-cell]')?.dataset.cell;
  const [row, col] = cell?.split('.').map(Number) ?? [];
  return row === undefined || col === undefined ? null : [row, col];
}

// Within a number the arrows move the caret, until it is at the end.
function isInText(target: EventTarget | null, by: number): boolean {
  if (!by || !(target instanceof HTMLInputElement) || target.type === 'checkbox') return false;
  const end = by < 0 ? 0 : target.value.length;
  return target.selectionStart !== target.selectionEnd || target.selectionStart !== end;
}

export function NumberGrid(props: Props) {
  const { rows, colNames, label, edit, endStep, toggle, mark, point } = props;
  const [at, setAt] = useState<Place>([0, 0]);
  const table = useRef<HTMLTableElement>(null);
  const wantsFocus = useRef(false);
  const width = rows[0]?.length ?? 0;
  const [row, col] = [Math.min(at[0], rows.length - 1), Math.min(at[1], Math.max(width, 1) - 1)];
  const go = (to: Place): void => {
    endStep?.();
    wantsFocus.current = true;
    setAt([...to]);
  };
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    const stop = table.current?.querySelector<HTMLElement>('input, [tabindex="0"]');
    stop?.focus();
    if (stop instanceof HTMLInputElement && stop.type !== 'checkbox') stop.select();
  }, [at]);
  const scrub = useScrub(
    (event) => {
      const to = cellOf(event);
      const value = to && rows[to[0]]?.[to[1]];
      return edit && typeof value === 'number' ? { at: to as Place, value } : null;
    },
    ([y, x], value) => edit?.(y, x, value, true),
    () => endStep?.(),
  );
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = steps[event.key];
    const from = cellOf(event);
    if (event.key === 'Enter') endStep?.();
    if (!by || !from || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.key === 'Enter' && !edit) return; // a result is switched, if anything
    if (isInText(event.target, by[1])) return;
    const [y, x] = [from[0] + by[0], from[1] + by[1]];
    if (rows[y]?.[x] === undefined) return;
    event.preventDefault();
    go([y, x]);
  };
  const onClick = (event: MouseEvent): void => {
    const to = cellOf(event);
    if (!to || (event.target === document.activeElement && !toggle)) return;
    const value = rows[to[0]]?.[to[1]];
    if ((event.target as HTMLElement).tagName === 'INPUT' && typeof value === 'boolean') return;
    if (toggle) toggle(to[0], to[1]);
    else if (typeof value === 'boolean') edit?.(to[0], to[1], !value, false);
    go(to);
  };
  return (
    <div
      class="numbers-frame"
      onKeyDown={onKeyDown}
      onClick={onClick}
      onPointerOver={point && ((e) => point(cellOf(e)))}
      onPointerLeave={point && (() => point(null))}
      onFocusIn={point && ((e) => point(cellOf(e)))}
      {...(edit ? scrub : {})}
    >
      <table ref={table} class="numbers" role="grid" aria-label={label}>
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
          {rows.map((_, i) => (
            <Row
              {...props}
              key={i}
              index={i}
              stop={i === row ? col : -1}
              marks={mark ? Array.from({ length: width }, (_x, j) => mark(i, j)).join() : ''}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}
