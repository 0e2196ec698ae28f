// The colours of a map on the page: those that are chosen, or the system's own.
import { signal } from '@preact/signals';
import type { Palette } from '../draw/types';
import { colours, isDark } from './theme';

const forced = matchMedia('(forced-colors: active)');
const isForced = signal(forced.matches);
forced.addEventListener('change', () => {
  isForced.value = forced.matches;
});

export function paletteOf(element: HTMLElement): Palette {
  const style = getComputedStyle(element);
  const of = (name: string, system: string): string =>
    isForced.value ? system : style.getPropertyValue(name).trim();
  return {
    map: colours.value,
    dark: isDark.value,
    forced: isForced.value,
    ground: of('--ground', 'Canvas'),
    hatch: of('--hatch', 'CanvasText'),
    hatchGround: of('--hatch-ground', 'Canvas'),
    waiting: of('--raised', 'Canvas'),
  };
}
