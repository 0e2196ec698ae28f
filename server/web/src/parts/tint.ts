// A number on a ground that shows its size: red and blue for scores, the map of the page for weights.
import { colour, css, ink } from '../draw/colours';
import { isDark } from '../shell/theme';
import { look } from '../store/state';

export function tint(kind: 'scores' | 'weights', value: number, most: number): Record<string, string> {
  if (!Number.isFinite(value)) return {};
  const { colours } = look.value;
  const ground =
    kind === 'weights'
      ? colour(colours === 'RdBu' ? 'Blues' : colours, isDark.value, Math.sqrt(Math.max(0, value)))
      : colour('RdBu', isDark.value, 0.5 + 0.42 * (value / most));
  return { background: css(ground), color: ink(ground) };
}
