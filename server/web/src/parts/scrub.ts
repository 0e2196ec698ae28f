// Scrubbing: a number is dragged sideways, and grows or shrinks as it is.
import { useRef } from 'preact/hooks';

const BEGINS = 4; // px from which a press is a drag
const TICK = 6; // px of a step

interface Grip<P> {
  at: P;
  value: number;
}

// Steps of 0.1, and of a tenth of its first digit for larger numbers; with Shift ten times as large.
export function scrubbed(value: number, px: number, isQuick: boolean): number {
  const digit = Math.max(0, Math.floor(Math.log10(Math.max(1, Math.abs(value)))));
  const step = 10 ** (digit - 1) * (isQuick ? 10 : 1);
  const places = Math.max(0, 1 - digit);
  const ticks = Math.trunc(px / TICK);
  return ticks ? Number((Math.round(value / step) * step + ticks * step).toFixed(places)) : value;
}

export function useScrub<P>(
  find: (event: PointerEvent) => Grip<P> | null,
  set: (at: P, value: number) => void,
  end: () => void,
) {
  const grip = useRef<(Grip<P> & { x: number; id: number; isDrag: boolean; last: number }) | null>(null);
  const isTyped = (target: EventTarget | null): boolean => target === document.activeElement;
  const leave = (): void => {
    if (grip.current?.isDrag) end();
    grip.current = null;
  };
  return {
    onPointerDown: (event: PointerEvent) => {
      const found = event.button === 0 && !isTyped(event.target) ? find(event) : null;
      grip.current = found && {
        ...found,
        x: event.clientX,
        id: event.pointerId,
        isDrag: false,
        last: found.value,
      };
    },
    // The press of an input would give it the focus, and the drag would mark its text.
    onMouseDown: (event: MouseEvent) => {
      if (grip.current && !isTyped(event.target)) event.preventDefault();
    },
    onPointerMove: (event: PointerEvent) => {
      const now = grip.current;
      if (!now || event.pointerId !== now.id) return;
      const px = event.clientX - now.x;
      if (!now.isDrag) {
        if (Math.abs(px) < BEGINS) return;
        now.isDrag = true;
        end(); // what was changed before is a step of its own
        (event.currentTarget as HTMLElement).setPointerCapture(now.id);
      }
      const next = scrubbed(now.value, px, event.shiftKey);
      if (next === now.last) return;
      now.last = next;
      set(now.at, next);
    },
    onPointerUp: leave,
    onPointerCancel: leave,
  };
}
