// The labels along an axis: names where they fit, else positions as ticks. Names are text nodes in
// <bdi>, for they may be of any script.
import { fit, type Extent } from './port';
import type { Labels } from './types';

export interface AxisView {
  from: number; // the first position in sight, with its fraction
  scale: number; // CSS pixels a position
  length: number; // CSS pixels
  count: number;
  line: number; // CSS pixels that a line of text takes
  marked: readonly number[]; // positions to make stand out
}

const FAR = 10000; // CSS pixels from which a strip of labels begins anew

const DIGIT = 0.53; // of a line's height, that a digit is wide
const SPARE = 6; // CSS pixels beside the plot where a number may begin or end

export type Turn = 'flat' | 'steep'; // of the labels on top

const round = (least: number): number => {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least) ?? 10 * power;
};

// Which positions get a label, and whether by name.
export function plan(view: AxisView, labels: Labels, apart: number): { at: number[]; names: boolean } {
  const first = Math.max(Math.floor(view.from), 0);
  const last = Math.min(Math.ceil(view.from + view.length / view.scale), view.count);
  const names = labels.hasNames && view.scale >= view.line;
  const step = names ? 1 : round(Math.ceil(apart / view.scale));
  const at: number[] = [];
  for (let i = Math.ceil(first / step) * step; i < last; i += step) at.push(i);
  return { at, names };
}

interface Label {
  element: HTMLElement;
  text: Text;
  said: string;
}

// A label keeps its position while the view moves: then all of them move as one.
export class Axis {
  private labels = new Map<number, Label>();
  private free: Label[] = [];
  private strip: HTMLElement;
  private origin = { at: 0, scale: 0 }; // the position at the strip's beginning, and its pixels a position

  constructor(
    readonly element: HTMLElement,
    private vertical: boolean,
  ) {
    this.strip = document.createElement('div');
    element.append(this.strip);
  }

  draw(view: AxisView, labels: Labels, turn: Turn): void {
    const { at, names } = plan(view, labels, this.vertical ? view.line * 1.6 : 56);
    this.mark('names', String(names));
    this.mark('turn', names ? turn : 'flat');
    if (view.scale !== this.origin.scale || Math.abs(view.from - this.origin.at) * view.scale > FAR)
      this.origin = { at: view.from, scale: view.scale };
    const move = this.translate((this.origin.at - view.from) * view.scale);
    if (this.strip.style.transform !== move) this.strip.style.transform = move;
    const wanted = new Set(at);
    for (const [index, label] of this.labels)
      if (!wanted.has(index)) {
        this.labels.delete(index);
        this.free.push(label);
      }
    for (const index of at) {
      const label = this.labels.get(index) ?? this.free.pop() ?? this.make();
      this.labels.set(index, label);
      this.place(label, index, view, names ? labels.name(index) : String(index), names);
    }
    for (const label of this.free)
      if (label.said !== '') {
        label.said = '';
        label.element.hidden = true;
      }
  }

  private place(label: Label, index: number, view: AxisView, text: string, names: boolean): void {
    if (label.text.data !== text) label.text.data = text;
    const middle = (index + 0.5 - view.from) * view.scale;
    const half = this.vertical || names ? 0 : (text.length * view.line * DIGIT) / 2;
    const beyond =
      middle < Math.max(0, half - SPARE) || middle > view.length || middle + half > view.length + SPARE;
    const marked = view.marked.includes(index);
    const place = this.translate((index + 0.5 - this.origin.at) * this.origin.scale);
    const said = `${place} ${beyond} ${marked}`;
    if (label.said === said) return;
    label.said = said;
    label.element.style.transform = place;
    label.element.classList.toggle('matrix-marked', marked);
    label.element.hidden = beyond;
  }

  private translate(by: number): string {
    const rounded = Math.round(by * 10) / 10;
    return this.vertical ? `translateY(${rounded}px)` : `translateX(${rounded}px)`;
  }

  private mark(name: string, value: string): void {
    if (this.element.dataset[name] !== value) this.element.dataset[name] = value;
  }

  private make(): Label {
    const element = document.createElement('span');
    const name = document.createElement('bdi');
    const text = document.createTextNode('');
    name.append(text);
    element.append(name);
    this.strip.append(element);
    return { element, text, said: '' };
  }
}

const LOOKED_AT = 400; // names whose length is measured
const LEFT_MOST = 150; // CSS pixels
const LEFT_MOST_ON_PHONES = 92;
const TOP_MOST = 108;
const PHONE = 500;

export interface Room {
  left: number;
  top: number;
  line: number;
  turn: Turn;
  flatFrom: number;
}

// How much room the labels beside a map take in this element, and whether the labels on top must be
// turned when all of the matrix is in sight. They need not be turned if a cell has at least
// `flatFrom` CSS pixels.
export function roomFor(host: HTMLElement, queries: Labels, keys: Labels, extent: Extent): Room {
  const style = getComputedStyle(host);
  const c = document.createElement('canvas').getContext('2d') as CanvasRenderingContext2D;
  c.font = `${style.fontSize} ${style.fontFamily}`;
  const line = Math.ceil(parseFloat(style.fontSize) * 1.2);
  const longest = (labels: Labels, count: number): number => {
    let most = c.measureText(String(count - 1)).width;
    if (labels.hasNames)
      for (let i = 0; i < Math.min(count, LOOKED_AT); i++)
        most = Math.max(most, c.measureText(labels.name(i)).width);
    return most;
  };
  const least = Math.max(c.measureText('query ↓').width, c.measureText('received').width);
  const left = Math.ceil(
    Math.min(
      Math.max(longest(queries, extent.queries), least) + 14,
      host.clientWidth < PHONE ? LEFT_MOST_ON_PHONES : LEFT_MOST,
    ),
  );
  const name = longest(keys, extent.keys);
  const { x } = fit(extent, {
    width: Math.max(host.clientWidth - left - 60, 1),
    height: Math.max(host.clientHeight - 90, 1),
  });
  const turn = name + 8 <= x || !keys.hasNames ? 'flat' : 'steep';
  // Turned by 45 degrees a name is as high as sin 45 of its length.
  const top = Math.ceil(turn === 'flat' ? line * 2.5 + 2 : Math.min(name * 0.72 + line * 1.2, TOP_MOST));
  return { left, top, line, turn, flatFrom: name + 8 };
}
