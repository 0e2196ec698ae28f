// Which cell a key leads to, from a cell of a matrix.
import type { Extent } from './port';
import type { Spot } from './types';

const PAGE = 10; // rows

// null: the key leads nowhere. With Ctrl, Home and End mean the whole matrix.
export function spotOfKey(
  key: string,
  ctrl: boolean,
  { q, k }: Spot,
  { queries, keys }: Extent,
): Spot | null {
  const to: Record<string, Spot> = {
    ArrowUp: { q: q - 1, k },
    ArrowDown: { q: q + 1, k },
    ArrowLeft: { q, k: k - 1 },
    ArrowRight: { q, k: k + 1 },
    PageUp: { q: q - PAGE, k },
    PageDown: { q: q + PAGE, k },
    Home: { q: ctrl ? 0 : q, k: 0 },
    End: { q: ctrl ? queries - 1 : q, k: keys - 1 },
  };
  const spot = to[key];
  return spot
    ? { q: Math.min(Math.max(spot.q, 0), queries - 1), k: Math.min(Math.max(spot.k, 0), keys - 1) }
    : null;
}
