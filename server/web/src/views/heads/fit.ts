// How large the pictures of heads are, so that all of them are seen at once: the largest size at which
// the groups, beside and below one another, are within the room.
import type { Group } from './data';

export interface Room {
  width: number;
  height: number; // Infinity: the page scrolls
}

// What there is around pictures, in CSS pixels.
export interface Frame {
  gap: number; // between pictures
  under: number; // below a picture, what belongs to it
  above: number; // over a group
  label: number; // in front of a layer, if a group has several
  numbers: number; // over the heads of such a group
  least: number; // size of a picture
  most: number;
  readable: number; // size if not all of them can be seen at once
  narrowest: number; // width of a group, which has a title
}

export const BETWEEN = { across: 28, down: 14 }; // CSS pixels between groups

export interface Fit {
  size: number; // of the longer side of a picture
  across: boolean; // the layers of a group are its columns
  width: number; // of all groups
  widths: number[]; // of each group
}

// The longer side of pictures is 1, and the shorter side is a part of it.
interface Shape {
  layers: number;
  heads: number;
  wide: number;
  high: number;
}

function shapeOf(group: Group): Shape {
  const thumbs = group.lines.flatMap((l) => l.thumbs);
  const parts = thumbs.map(({ rows, cols }) => [cols, rows].map((n) => n / Math.max(rows, cols, 1)));
  return {
    layers: group.lines.length,
    heads: Math.max(1, ...group.lines.map((l) => l.thumbs.length)),
    wide: Math.max(0, ...parts.map(([wide = 1]) => wide)),
    high: Math.max(0, ...parts.map(([, high = 1]) => high)),
  };
}

// Puts groups beside one another while there is room, else below. null: a group is too wide.
function pack(shapes: readonly Shape[], size: number, across: boolean, room: Room, frame: Frame) {
  const widths: number[] = [];
  let [left, top, high, width] = [0, 0, 0, 0];
  for (const of of shapes) {
    const each = Math.ceil(size * of.wide) + frame.gap;
    const isGrid = of.layers > 1;
    const label = isGrid ? frame.label + frame.gap : 0;
    const fitting = Math.max(1, Math.floor((room.width + frame.gap) / each));
    const columns = !isGrid ? Math.min(of.heads, fitting) : across ? of.layers : of.heads;
    const rows = !isGrid ? Math.ceil(of.heads / columns) : across ? of.heads : of.layers;
    const wide = Math.max(frame.narrowest, columns * each - frame.gap + label);
    if (wide > room.width) return null;
    if (left > 0 && left + wide > room.width) {
      top += high + BETWEEN.down;
      [left, high] = [0, 0];
    }
    const tall = Math.ceil(size * of.high) + frame.gap + frame.under;
    high = Math.max(high, frame.above + (isGrid ? frame.numbers : 0) + rows * tall);
    width = Math.max(width, left + wide);
    left += wide + BETWEEN.across;
    widths.push(wide);
  }
  return { widths, width, height: top + high };
}

export function fit(groups: readonly Group[], room: Room, frame: Frame, mayTurn: boolean): Fit {
  const shapes = groups.map(shapeOf);
  const ways = mayTurn && shapes.some((s) => s.layers > s.heads) ? [false, true] : [false];
  const largest = (most: number, height: number): Fit | null => {
    for (let size = most; size >= frame.least; size--)
      for (const across of ways) {
        const found = pack(shapes, size, across, room, frame);
        if (found && found.height <= height) return { size, across, ...found };
      }
    return null;
  };
  return (
    largest(frame.most, room.height) ??
    largest(frame.readable, Infinity) ?? {
      size: frame.least,
      across: false,
      width: room.width,
      widths: groups.map(() => room.width),
    }
  );
}
