// The keys of a set of heads. Tab reaches one of them, arrows move to its neighbours, Space adds a head
// to the mean, and Enter opens the matrix.
import type { RefObject } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { Thumb } from './data';

interface Moving {
  list: readonly Thumb[];
  selected: string; // the key of the selected head
  onSelect: (t: Thumb, lasting: boolean) => void;
  onCheck: (t: Thumb) => void;
  onOpen: (t: Thumb) => void;
}

// The option in a direction, by the places on the screen. Options that stand in lines have the next
// one of all lines to the right.
function neighbour(
  options: readonly HTMLElement[],
  from: HTMLElement,
  key: string,
  inLines: boolean,
): HTMLElement | undefined {
  const at = options.indexOf(from);
  if (key === 'Home') return options[0];
  if (key === 'End') return options.at(-1);
  const across = key === 'ArrowLeft' || key === 'ArrowRight';
  const onwards = key === 'ArrowDown' || key === 'ArrowRight';
  if (across && inLines) return options[onwards ? at + 1 : at - 1];
  const sides = (element: HTMLElement): [number, number, number] => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return across ? [left, right, (top + bottom) / 2] : [top, bottom, (left + right) / 2];
  };
  const [begin, end, middle] = sides(from);
  let best: HTMLElement | undefined;
  let least = Infinity;
  for (const other of options) {
    const [first, last, centre] = sides(other);
    const away = onwards ? first - end : begin - last;
    if (away < -2) continue;
    const distance = 1000 * away + Math.abs(centre - middle);
    if (distance < least) {
      least = distance;
      best = other;
    }
  }
  return best;
}

export function useMoves(box: RefObject<HTMLElement | null>, of: Moving, inLines = true) {
  const [at, setAt] = useState(''); // where the focus is
  const moved = useRef(false);
  const byKey = new Map(of.list.map((t) => [t.key, t]));
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const from = (event.target as HTMLElement).closest<HTMLElement>('[role=option]');
    const t = byKey.get(from?.dataset.key ?? '');
    if (!from || !t) return;
    if (event.key === 'Enter') of.onOpen(t);
    else if (event.key === ' ') of.onCheck(t);
    else if (/^(Arrow|Home|End)/.test(event.key)) {
      const chosen = '[role=option]:not([aria-disabled=true])';
      const options = [...(box.current?.querySelectorAll<HTMLElement>(chosen) ?? [])];
      const to = neighbour(options, from, event.key, inLines);
      const next = byKey.get(to?.dataset.key ?? '');
      if (to && next) {
        setAt(next.key);
        of.onSelect(next, !moved.current);
        moved.current = true;
        to.focus();
      }
    } else return;
    event.preventDefault();
  };
  const end = (): void => {
    moved.current = false;
  };
  return {
    stop: byKey.has(at) ? at : byKey.has(of.selected) ? of.selected : (of.list[0]?.key ?? ''),
    onKeyDown,
    onFocus: (t: Thumb): void => setAt(t.key),
    onFocusOut: end,
    onPress: end,
  };
}
