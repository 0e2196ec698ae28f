// Curves that a step shows, small and with their names at their ends.
import type { Step } from '../../api/lessons';

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [300, 190, 34, 10, 12, 34];

export function Figure({ of }: { of: NonNullable<Step['figure']> }) {
  const points = of.curves.flatMap((c) => c.points) as [number, number][];
  const most = Math.max(1, ...points.map(([, y]) => y));
  const step = 10 ** Math.floor(Math.log10(most)) * (most / 10 ** Math.floor(Math.log10(most)) > 5 ? 2.5 : 1);
  const top = step * Math.ceil(most / step);
  const xs = points.map(([x]) => x);
  const [from, to] = [Math.min(...xs), Math.max(...xs)];
  const x = (value: number): number => LEFT + ((value - from) / (to - from || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value: number): number => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step);
  return (
    <figure class="lesson-figure">
      <figcaption>{of.title}</figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`${of.title}: ${of.curves.map((c) => `${c.name} ${c.points.map(([at, v]) => `${v} at ${at}`).join(', ')}`).join('; ')}`}
      >
        {ticks.map((t) => (
          <g key={t}>
            <line class="rule" x1={LEFT} x2={WIDTH - RIGHT} y1={y(t)} y2={y(t)} />
            <text x={LEFT - 5} y={y(t) + 4} text-anchor="end">
              {t}
            </text>
          </g>
        ))}
        {[from, to].map((t, i) => (
          <text key={t} x={x(t)} y={HEIGHT - BOTTOM + 14} text-anchor={i ? 'end' : 'start'}>
            {t}
          </text>
        ))}
        <text x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">
          {of.x}
        </text>
        {of.curves.map((c, i) => {
          const line = c.points as [number, number][];
          const [lastX, lastY] = line[line.length - 1] ?? [to, 0];
          return (
            <g key={c.name} class={`curve-${i % 2}`}>
              <polyline points={line.map(([at, v]) => `${x(at)},${y(v)}`).join(' ')} />
              {line.map(([at, v]) => (
                <circle key={at} cx={x(at)} cy={y(v)} r="2.5" />
              ))}
              <text class="name" x={x(lastX)} y={y(lastY) + (lastY > top / 2 ? 16 : -8)} text-anchor="end">
                {c.name}
              </text>
            </g>
          );
        })}
      </svg>
      <small>
        {of.y}. {of.source}
      </small>
    </figure>
  );
}
