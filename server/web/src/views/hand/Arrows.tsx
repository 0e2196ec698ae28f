// Queries and keys of two numbers as arrows, whose tips are dragged. The key that the pointed query
// looks at most has the thickest arrow.
import { useRef } from 'preact/hooks';
import { num } from '../../parts/digits';
import type { Head } from './answer';
import type { Editing } from './Chain';
import { matrix } from './numbers';

const HALF = 150; // px from the middle to the edge
const STEP = 0.1;
const round = (x: number): number => Number((Math.round(x / STEP) * STEP).toFixed(1));

const moves: Record<string, readonly [number, number]> = {
  ArrowLeft: [-STEP, 0],
  ArrowRight: [STEP, 0],
  ArrowUp: [0, STEP],
  ArrowDown: [0, -STEP],
};

type Side = 'query' | 'key';

export function Arrows({ of, editing }: { of: Head | undefined; editing: Editing }) {
  const { hand, at } = editing;
  const plane = useRef<SVGSVGElement>(null);
  const grip = useRef<{ side: Side; row: number; reach: number } | null>(null);
  const all = [...matrix(hand, 'query'), ...matrix(hand, 'key')].flat().map(Math.abs);
  const reach = grip.current?.reach ?? Math.max(2, Math.ceil(Math.max(...all)));
  const unit = (HALF - 30) / reach;
  const q = at && at.name !== 'key' && at.name !== 'value' ? at.row : 0;
  const set = (side: Side, row: number, x: number, y: number, isDrag: boolean): void => {
    editing.edit(side, row, 0, round(x), isDrag);
    editing.edit(side, row, 1, round(y), isDrag);
  };
  const drag = (event: PointerEvent): void => {
    const now = grip.current;
    const box = plane.current?.getBoundingClientRect();
    if (!now || !box) return;
    const px = (2 * HALF) / box.width;
    const within = (v: number): number => Math.max(-now.reach, Math.min(now.reach, v));
    const x = ((event.clientX - box.left) * px - HALF) / unit;
    const y = (HALF - (event.clientY - box.top) * px) / unit;
    set(now.side, now.row, within(x), within(y), true);
  };
  const arrow = (side: Side, vector: readonly number[], row: number) => {
    const [x = 0, y = 0] = vector;
    const name = `${side === 'query' ? 'q' : 'k'}${row}`;
    const tip = [HALF + x * unit, HALF - y * unit] as const;
    const weight = side === 'key' ? (of?.weights[q]?.[row] ?? 0) : row === q ? 0.4 : 0;
    const length = Math.hypot(x, y) || 1;
    return (
      <g
        key={name}
        class={`hand-arrow ${side}-side`}
        role="slider"
        tabIndex={0}
        aria-label={`${name}, moved by the arrow keys`}
        aria-valuemin={-reach}
        aria-valuemax={reach}
        aria-valuenow={x}
        aria-valuetext={`${num(x)}, ${num(y)}`}
        onKeyDown={(event) => {
          const by = moves[event.key];
          if (!by) return;
          event.preventDefault();
          set(side, row, x + by[0], y + by[1], false);
        }}
        onFocus={() => editing.point({ name: side, head: 0, row, col: 0 })}
        onPointerDown={(event) => {
          grip.current = { side, row, reach };
          editing.endStep();
          event.currentTarget.setPointerCapture(event.pointerId);
          editing.point({ name: side, head: 0, row, col: 0 });
        }}
        onPointerMove={drag}
        onPointerUp={() => {
          grip.current = null;
          editing.endStep();
        }}
      >
        <line x1={HALF} y1={HALF} x2={tip[0]} y2={tip[1]} stroke-width={1.5 + 6 * weight} />
        <circle class="grip" cx={tip[0]} cy={tip[1]} r={22} />
        <circle cx={tip[0]} cy={tip[1]} r={6} />
        <text x={tip[0] + (16 * x) / length} y={tip[1] - (16 * y) / length + 4}>
          {name}
        </text>
      </g>
    );
  };
  const lines = Array.from({ length: 2 * reach + 1 }, (_, i) => HALF + (i - reach) * unit);
  return (
    <section class="hand-arrows" aria-label="Arrows">
      <svg ref={plane} viewBox={`0 0 ${2 * HALF} ${2 * HALF}`}>
        <g class="hand-plane" aria-hidden="true">
          {reach <= 12 && lines.map((x) => <path key={x} d={`M${x} 0V${2 * HALF}M0 ${x}H${2 * HALF}`} />)}
          <path class="axis" d={`M${HALF} 0V${2 * HALF}M0 ${HALF}H${2 * HALF}`} />
        </g>
        {matrix(hand, 'key').map((v, i) => arrow('key', v, i))}
        {matrix(hand, 'query').map((v, i) => arrow('query', v, i))}
      </svg>
      <p>
        Drag the tips. A score is large where a <span class="query-side">query</span> and a{' '}
        <span class="key-side">key</span> point the same way and are long; it is 0 at a right angle and
        negative where they point apart. The thicker a key’s arrow, the larger its weight for q{q}.
      </p>
    </section>
  );
}
