// The view as a picture: the sentence, the columns of words and the lines between them, in the
// colours of the page.
import { colour, css, ink, place, type Scale } from '../../draw/colours';
import type { Groups } from '../../parts/join';
import {
  curve,
  dashOf,
  FAINT,
  faintly,
  letterOf,
  pinProperty,
  ROW,
  strongly,
  strongOf,
  type Seen,
} from '../../parts/lines';
import { fitText, widthOf, type Picture, type Shape } from '../../parts/picture';
import { digits } from '../../parts/digits';

const MARGIN = 28;
const GAP = 280; // between the columns
const COLUMN_MOST = 300;
const COLUMN_LEAST = 120;
const NUMBER = 72; // room for a weight beside its word
const LETTER = 26; // and for the letter of a pinned row
const SIZE = 16;
const TITLE_LINES = 3;

export interface Drawn extends Seen {
  title: string;
  under: string; // which head it is
  heads: { query: string; key: string };
  queries: Groups;
  keys: Groups;
  weights: Float32Array;
  hides: Uint8Array;
  scale: Scale;
}

// The title in lines, which are broken between words if there are any.
function titleLines(title: string, room: number, size: number): string[] {
  const lines = [''];
  for (const part of title.match(/\S+\s*|\s+/gu) ?? []) {
    for (const piece of widthOf(part, size, 650) > room ? part : [part]) {
      const last = lines[lines.length - 1] as string;
      if (last && widthOf(last + piece.trimEnd(), size, 650) > room) lines.push(piece);
      else lines[lines.length - 1] = last + piece;
    }
  }
  return lines.length <= TITLE_LINES
    ? lines
    : [...lines.slice(0, TITLE_LINES - 1), fitText(`${lines[TITLE_LINES - 1]}…`, room, size, 650)];
}

export function pictureOf(view: Element, of: Drawn): Picture {
  const style = getComputedStyle(view);
  const [ground, text, muted, accent, query, key] = [
    '--ground',
    '--text',
    '--muted',
    '--accent',
    '--query',
    '--key',
  ].map((name) => style.getPropertyValue(name).trim()) as [string, string, string, string, string, string];
  const pinColour = (pin: number): string => style.getPropertyValue(pinProperty(pin)).trim();
  const cols = of.keys.names.length;
  const byKey = of.q < 0 && of.k >= 0;
  const column = (names: readonly string[]): number =>
    Math.max(
      COLUMN_LEAST,
      Math.min(
        COLUMN_MOST,
        Math.ceil(names.reduce((most, name) => Math.max(most, widthOf(name, SIZE)), 0)) + 18,
      ),
    );
  const left = MARGIN + (byKey ? NUMBER : 0) + (of.pins.length ? LETTER : 0) + column(of.queries.names);
  const right = column(of.keys.names) + (of.q >= 0 ? NUMBER : 0) + MARGIN;
  const width = left + GAP + right;
  const shapes: Shape[] = [];
  const say = (
    x: number,
    y: number,
    words: string,
    anchor: 'start' | 'middle' | 'end',
    fill: string,
    size = SIZE,
    weight = 400,
    mono = false,
  ): void => {
    shapes.push({ kind: 'text', x, y, text: words, anchor, fill, size, weight, mono });
  };
  let y = MARGIN;
  for (const line of titleLines(of.title, width - 2 * MARGIN, 19)) {
    y += 22;
    say(width / 2, y, line.trimEnd(), 'middle', text, 19, 650);
  }
  y += 24;
  say(width / 2, y, of.under, 'middle', muted, 13);
  y += 34;
  say(left - 8, y, of.heads.query, 'end', query, 14, 600);
  say(left + GAP / 2, y, 'attends to', 'middle', muted, 13);
  say(left + GAP + 8, y, of.heads.key, 'start', key, 14, 600);
  y += 12;
  const strong = strongOf(of);
  for (const e of of.edges) {
    const { width: wide, opacity } = faintly(e);
    shapes.push({
      kind: 'line',
      x: left,
      y,
      d: curve(e, GAP),
      stroke: accent,
      width: wide,
      opacity: opacity * (strong.length ? FAINT : 1),
      dash: '',
      round: true,
    });
  }
  for (const e of strong) {
    const { width: wide, opacity } = strongly(e);
    const isPin = e.pin >= 0;
    shapes.push({
      kind: 'line',
      x: left,
      y,
      d: curve(e, GAP),
      stroke: isPin ? pinColour(e.pin) : accent,
      width: wide,
      opacity,
      dash: isPin ? dashOf(e.pin) : '',
      round: !isPin,
    });
  }
  const word = (
    side: 'query' | 'key',
    name: string,
    i: number,
    weight: number | null | 'hidden',
    isShown: boolean,
    pin: number,
  ): void => {
    const shown = fitText(name, COLUMN_MOST - 18, SIZE);
    const wide = widthOf(shown, SIZE) + 16;
    const x = side === 'query' ? left - wide : left + GAP;
    const middle = y + (i + 0.5) * ROW;
    const rgb =
      typeof weight !== 'number' ? null : colour(of.scale.map, of.scale.dark, place(of.scale, weight));
    const ring = isShown ? accent : pin >= 0 ? pinColour(pin) : undefined;
    if (rgb || ring)
      shapes.push({
        kind: 'box',
        x: x + 1,
        y: middle - 12,
        width: wide - 2,
        height: 24,
        round: 5,
        fill: rgb ? css(rgb) : undefined,
        stroke: ring,
      });
    say(x + wide / 2, middle + 5.5, shown, 'middle', rgb ? ink(rgb) : text);
    let beside = side === 'query' ? x - 8 : x + wide + 8;
    if (pin >= 0) {
      shapes.push({
        kind: 'box',
        x: beside - 18,
        y: middle - 9,
        width: 18,
        height: 18,
        round: 4,
        fill: pinColour(pin),
      });
      say(beside - 9, middle + 4.5, letterOf(pin), 'middle', ground, 12, 700);
      beside -= LETTER;
    }
    if (weight !== null)
      say(
        beside,
        middle + 5,
        weight === 'hidden' ? weight : digits(weight),
        side === 'query' ? 'end' : 'start',
        muted,
        13,
        400,
        true,
      );
  };
  const weightAt = (i: number): number | 'hidden' => (of.hides[i] ? 'hidden' : (of.weights[i] as number));
  of.queries.names.forEach((name, i) => {
    const weight = byKey ? weightAt(i * cols + of.k) : null;
    word('query', name, i, weight, i === of.q, of.pins.indexOf(i));
  });
  of.keys.names.forEach((name, i) => {
    const weight = of.q >= 0 ? weightAt(of.q * cols + i) : null;
    word('key', name, i, weight, i === of.k, -1);
  });
  return {
    width: Math.ceil(width),
    height: Math.ceil(y + Math.max(of.queries.names.length, cols) * ROW + MARGIN),
    title: of.title,
    ground,
    shapes,
  };
}
