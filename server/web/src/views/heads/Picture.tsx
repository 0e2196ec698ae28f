// The thumbnail of a head, which is painted when it comes near the screen.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { coloursOver, paint, sizeOf, type Codes } from '../../draw/thumb';

// How the weights of all pictures are coloured.
export interface Paint {
  colours: Uint32Array;
  range: readonly [number, number] | null; // null: for each picture from 0 to its own largest weight
}

const near =
  typeof IntersectionObserver === 'undefined'
    ? null
    : new IntersectionObserver(
        (entries) => {
          for (const entry of entries) {
            if (!entry.isIntersecting) continue;
            near?.unobserve(entry.target);
            waiting.get(entry.target)?.();
          }
        },
        { rootMargin: '300px' },
      );
const waiting = new WeakMap<Element, () => void>();

export function Picture({ of, size, by, label }: { of: Codes; size: number; by: Paint; label?: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painted = useRef(false);
  const isHere = of.codes.length > 0;
  const colours = useMemo(
    () => coloursOver(of, by.colours, by.range ?? [Math.min(0, of.low), of.high]),
    [of, by.colours, by.range],
  );
  useEffect(() => {
    const to = canvas.current;
    if (!to || !isHere) return undefined;
    const now = (): void => {
      painted.current = true;
      paint(to, of, colours, size);
    };
    if (painted.current || !near) {
      now();
      return undefined;
    }
    waiting.set(to, now);
    near.observe(to);
    return () => near.unobserve(to);
  }, [of, colours, size]);
  return (
    <canvas
      ref={canvas}
      class={`heads-picture ${isHere ? '' : 'waiting'}`}
      width="1"
      height="1"
      style={sizeOf(of, size)}
      role={label ? 'img' : undefined}
      aria-label={label}
      aria-hidden={label ? undefined : true}
    />
  );
}
