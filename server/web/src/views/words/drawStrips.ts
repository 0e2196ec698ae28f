// Long texts as a picture: what is in sight of them, as it stands on the page.
import type { Picture, Shape } from '../../parts/picture';

const MARGIN = 24;
const TITLE = 54; // room for two lines of text above

interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

// An element's text, in its own colour and size.
function textOf(element: Element, { x, y, width, height }: Place, anchor: 'start' | 'middle'): Shape {
  const { color, fontSize, fontWeight } = getComputedStyle(element);
  const size = parseFloat(fontSize);
  const text = [...element.childNodes]
    .filter((node) => !(node instanceof Element && node.matches('.hidden')))
    .map((node) => node.textContent)
    .join('');
  return {
    kind: 'text',
    x: anchor === 'start' ? x : x + width / 2,
    y: y + height / 2 + 0.36 * size,
    text,
    anchor,
    fill: color,
    size,
    weight: Number(fontWeight),
  };
}

// A bar of pixels as boxes, one for each run of equal ones.
function boxesOf(bar: HTMLCanvasElement, { x, y, width, height }: Place): Shape[] {
  const pixels = bar.getContext('2d')?.getImageData(0, 0, bar.width, 1).data ?? [];
  const colour = (i: number): string => `rgb(${pixels[4 * i]}, ${pixels[4 * i + 1]}, ${pixels[4 * i + 2]})`;
  const step = width / bar.width;
  const found: Shape[] = [];
  for (let from = 0, to = 0; from < bar.width; from = to) {
    while (to < bar.width && colour(to) === colour(from)) to++;
    found.push({
      kind: 'box',
      x: x + from * step,
      y,
      width: (to - from) * step,
      height,
      round: 0,
      fill: colour(from),
    });
  }
  return found;
}

export function pictureOfStrips(view: Element, title: string, under: string): Picture | null {
  const strips = view.querySelector('.words-strips');
  if (!strips) return null;
  const style = getComputedStyle(view);
  const property = (name: string): string => style.getPropertyValue(name).trim();
  const frame = strips.getBoundingClientRect();
  const placeOf = (element: Element): Place => {
    const { left, top, width, height } = element.getBoundingClientRect();
    return { x: left - frame.left + MARGIN, y: top - frame.top + MARGIN + TITLE, width, height };
  };
  const shapes: Shape[] = [
    {
      kind: 'text',
      x: MARGIN,
      y: MARGIN + 14,
      text: title,
      anchor: 'start',
      fill: property('--text'),
      size: 18,
      weight: 650,
    },
    {
      kind: 'text',
      x: MARGIN,
      y: MARGIN + 36,
      text: under,
      anchor: 'start',
      fill: property('--muted'),
      size: 14,
      weight: 400,
    },
  ];
  for (const heading of strips.querySelectorAll('h3'))
    shapes.push(textOf(heading, placeOf(heading), 'start'));
  for (const bar of strips.querySelectorAll('canvas')) shapes.push(...boxesOf(bar, placeOf(bar)));
  for (const text of strips.querySelectorAll('.words-text')) {
    const seen = placeOf(text);
    shapes.push({ kind: 'box', ...seen, round: 6, stroke: property('--rule') });
    for (const word of text.querySelectorAll('.words-line > span')) {
      const place = placeOf(word);
      if (place.y < seen.y || place.y + place.height > seen.y + seen.height) continue;
      const stroke = word.matches('[aria-selected=true]')
        ? property('--accent')
        : word.matches('.pinned')
          ? getComputedStyle(word).getPropertyValue('--pin')
          : undefined;
      shapes.push({ kind: 'box', ...place, round: 4, fill: getComputedStyle(word).backgroundColor, stroke });
      for (const letter of word.querySelectorAll('.words-letter'))
        shapes.push({
          kind: 'box',
          ...placeOf(letter),
          round: 4,
          fill: getComputedStyle(letter).backgroundColor,
        });
      for (const part of word.querySelectorAll('bdi, .words-letter'))
        shapes.push(textOf(part, placeOf(part), 'middle'));
    }
  }
  return {
    width: Math.ceil(frame.width + 2 * MARGIN),
    height: Math.ceil(frame.height + 2 * MARGIN + TITLE),
    title: `${title}: ${under}`,
    ground: property('--ground'),
    shapes,
  };
}
