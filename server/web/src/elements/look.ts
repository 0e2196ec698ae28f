// The attributes that say how an element looks.
import type { Bend, ColourMap, Scale } from '../draw/colours';

const maps: readonly ColourMap[] = ['Blues', 'viridis', 'cividis', 'RdBu'];
const bends: readonly Bend[] = ['linear', 'sqrt', 'log'];

export function scaleOf(element: Element, dark: boolean): Scale {
  const map = element.getAttribute('colormap') as ColourMap;
  const bend = element.getAttribute('transform') as Bend;
  return {
    low: 0,
    high: 1,
    bend: bends.includes(bend) ? bend : 'linear',
    map: maps.includes(map) ? map : 'Blues',
    dark,
  };
}
