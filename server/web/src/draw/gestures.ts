// Pointer and wheel as pans, zooms, boxes and clicks. Positions are CSS pixels in the element.
const CLICK = 5; // pixels of movement below which a press is a click
const NOTCH = 1.2;
const LINE = 40; // pixels that a wheel's line stands for
const IDLE = 180; // ms without a wheel after which its gesture has ended

export interface Box {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

export interface GestureEvents {
  pan(dx: number, dy: number): void;
  zoom(by: number, x: number, y: number): void;
  box(box: Box | null, done: boolean): void; // null: there is no box any more
  click(x: number, y: number, touch: boolean): void;
  twice(x: number, y: number): void;
  hover(x: number, y: number): void; // where the pointer is now, after the move of the view if there was one
  leave(): void;
  held(held: boolean): void; // a drag has begun or ended; while one is held nothing is pointed at anew
  end(): void; // nothing moves any more
}

export interface GestureOptions {
  wheelZooms: boolean;
}

export function gestures(element: HTMLElement, on: GestureEvents, options: GestureOptions): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  const pointers = new Map<number, { x: number; y: number }>();
  let from = { x: 0, y: 0 };
  let moved = false;
  let boxing = false;
  let wheelTimer = 0;
  let frames = 0;
  let zooms: boolean | null = null; // whether the wheel zooms until it rests; null: not decided

  const at = (event: MouseEvent): { x: number; y: number } => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const spread = (): { x: number; y: number; d: number } => {
    const [a, b] = [...pointers.values()] as [{ x: number; y: number }, { x: number; y: number }];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, d: Math.max(Math.hypot(a.x - b.x, a.y - b.y), 1) };
  };

  element.addEventListener(
    'pointerdown',
    (event) => {
      if (event.pointerType === 'mouse' && event.button !== 0) return;
      element.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, at(event));
      if (pointers.size === 1) {
        from = at(event);
        moved = false;
        boxing = event.shiftKey;
      } else {
        moved = true;
        if (boxing) on.box(null, false);
        boxing = false;
      }
    },
    { signal },
  );

  element.addEventListener(
    'pointermove',
    (event) => {
      const here = at(event);
      const before = pointers.get(event.pointerId);
      if (!before) {
        if (event.pointerType !== 'touch') on.hover(here.x, here.y);
        return;
      }
      if (pointers.size === 2) {
        const old = spread();
        pointers.set(event.pointerId, here);
        const now = spread();
        on.pan(now.x - old.x, now.y - old.y);
        on.zoom(now.d / old.d, now.x, now.y);
        return;
      }
      if (!moved && Math.hypot(here.x - from.x, here.y - from.y) < CLICK) return;
      const first = !moved;
      moved = true;
      pointers.set(event.pointerId, here);
      if (boxing) on.box({ x0: from.x, y0: from.y, x1: here.x, y1: here.y }, false);
      else on.pan(here.x - (first ? from.x : before.x), here.y - (first ? from.y : before.y));
      if (first) on.held(true);
    },
    { signal },
  );

  const up = (event: PointerEvent): void => {
    if (!pointers.delete(event.pointerId)) return;
    const here = at(event);
    if (pointers.size > 0) return;
    if (event.type === 'pointercancel') {
      if (boxing) on.box(null, false);
    } else if (!moved) {
      on.click(here.x, here.y, event.pointerType === 'touch');
    } else if (boxing) {
      on.box({ x0: from.x, y0: from.y, x1: here.x, y1: here.y }, true);
    }
    boxing = false;
    if (!moved) return;
    on.held(false);
    if (event.type === 'pointerup' && event.pointerType !== 'touch') on.hover(here.x, here.y);
    on.end();
  };
  element.addEventListener('pointerup', up, { signal });
  element.addEventListener('pointercancel', up, { signal });
  element.addEventListener(
    'pointerleave',
    () => {
      if (pointers.size === 0) on.leave();
    },
    { signal },
  );
  element.addEventListener(
    'dblclick',
    (event) => {
      const here = at(event);
      on.twice(here.x, here.y);
    },
    { signal },
  );

  // Whether the wheel pans or zooms does not change until two frames have passed without a wheel
  // event.
  const rest = (): void => {
    if (frames-- > 0) requestAnimationFrame(rest);
    else zooms = null;
  };
  element.addEventListener(
    'wheel',
    (event) => {
      if (!options.wheelZooms && !event.ctrlKey) return;
      event.preventDefault();
      const unit = event.deltaMode === 1 ? LINE : event.deltaMode === 2 ? element.clientHeight : 1;
      const dx = event.deltaX * unit;
      const dy = event.deltaY * unit;
      const resting = zooms === null;
      zooms ??= event.ctrlKey || (!event.shiftKey && Math.abs(dy) >= Math.abs(dx));
      frames = 2;
      if (resting) requestAnimationFrame(rest);
      const here = at(event);
      // A pinch on a trackpad comes as ctrl+wheel in small steps.
      if (zooms) on.zoom(NOTCH ** (-dy / (event.ctrlKey && Math.abs(dy) < 40 ? 18 : 100)), here.x, here.y);
      else on.pan(event.shiftKey && dx === 0 ? -dy : -dx, event.shiftKey && dx === 0 ? 0 : -dy);
      on.hover(here.x, here.y);
      clearTimeout(wheelTimer);
      wheelTimer = window.setTimeout(() => on.end(), IDLE);
    },
    { passive: false, signal },
  );

  return () => {
    clearTimeout(wheelTimer);
    stop.abort();
  };
}
