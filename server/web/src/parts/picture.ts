// A view as a picture: shapes that become SVG or, on a canvas, PNG. (The policy of the page forbids
// to load an SVG that the page has made.)
export type Shape =
  | {
      kind: 'box';
      x: number;
      y: number;
      width: number;
      height: number;
      round: number;
      fill?: string;
      stroke?: string;
    }
  | {
      kind: 'line';
      x: number;
      y: number;
      d: string;
      stroke: string;
      width: number;
      opacity: number;
      dash: string;
      round: boolean;
    }
  | {
      kind: 'text';
      x: number;
      y: number;
      text: string;
      anchor: 'start' | 'middle' | 'end';
      fill: string;
      size: number;
      weight: number;
      mono?: boolean;
    };

export interface Picture {
  width: number;
  height: number;
  title: string;
  ground: string;
  shapes: Shape[];
}

const SANS = 'system-ui, "DejaVu Sans", sans-serif';
const MONO = 'ui-monospace, "DejaVu Sans Mono", monospace';

const fontOf = (shape: { size: number; weight: number; mono?: boolean }): string =>
  `${shape.weight} ${shape.size}px ${shape.mono ? MONO : SANS}`;

let ruler: CanvasRenderingContext2D | null = null;
export function widthOf(text: string, size: number, weight = 400, mono = false): number {
  ruler ??= document.createElement('canvas').getContext('2d') as CanvasRenderingContext2D;
  ruler.font = fontOf({ size, weight, mono });
  return ruler.measureText(text).width;
}

// The text, or as much of it as fits.
export function fitText(text: string, room: number, size: number, weight = 400): string {
  if (widthOf(text, size, weight) <= room) return text;
  const characters = [...text];
  let length = characters.length - 1;
  while (length > 1 && widthOf(`${characters.slice(0, length).join('')}…`, size, weight) > room) length--;
  return `${characters.slice(0, length).join('')}…`;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: XML forbids these, so they are left out.
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;
const escaped = (text: string): string =>
  text
    .replace(FORBIDDEN, '')
    .replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c] as string);

const tidy = (x: number): number => Number(x.toFixed(2));

// Without those that are null.
const attributes = (of: Record<string, string | number | null>): string =>
  Object.entries(of)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => ` ${name}="${value}"`)
    .join('');

function element(shape: Shape): string {
  if (shape.kind === 'box')
    return `<rect${attributes({
      x: tidy(shape.x),
      y: tidy(shape.y),
      width: tidy(shape.width),
      height: tidy(shape.height),
      rx: shape.round,
      fill: shape.fill ?? 'none',
      stroke: shape.stroke || null,
      'stroke-width': shape.stroke ? 2 : null,
    })}/>`;
  if (shape.kind === 'line')
    return `<path${attributes({
      transform: `translate(${tidy(shape.x)} ${tidy(shape.y)})`,
      d: shape.d,
      fill: 'none',
      stroke: shape.stroke,
      'stroke-width': tidy(shape.width),
      'stroke-opacity': tidy(shape.opacity),
      'stroke-dasharray': shape.dash || null,
      'stroke-linecap': shape.round ? 'round' : null,
    })}/>`;
  return `<text${attributes({
    x: tidy(shape.x),
    y: tidy(shape.y),
    'text-anchor': shape.anchor,
    fill: shape.fill,
    'font-size': shape.size,
    'font-weight': shape.weight === 400 ? null : shape.weight,
    'font-family': shape.mono ? escaped(MONO) : null,
  })}>${escaped(shape.text)}</text>`;
}

export function toSvg({ width, height, title, ground, shapes }: Picture): Blob {
  return new Blob(
    [
      `<svg${attributes({
        xmlns: 'http://www.w3.org/2000/svg',
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        'font-family': escaped(SANS),
        role: 'img',
      })}>
<title>${escaped(title)}</title>
<rect width="${width}" height="${height}" fill="${ground}"/>
${shapes.map(element).join('\n')}
</svg>
`,
    ],
    { type: 'image/svg+xml' },
  );
}

function draw(context: CanvasRenderingContext2D, shape: Shape): void {
  if (shape.kind === 'box') {
    context.beginPath();
    context.roundRect(shape.x, shape.y, shape.width, shape.height, shape.round);
    if (shape.fill) {
      context.fillStyle = shape.fill;
      context.fill();
    }
    if (shape.stroke) {
      context.strokeStyle = shape.stroke;
      context.lineWidth = 2;
      context.stroke();
    }
  } else if (shape.kind === 'line') {
    context.save();
    context.translate(shape.x, shape.y);
    context.globalAlpha = shape.opacity;
    context.strokeStyle = shape.stroke;
    context.lineWidth = shape.width;
    context.lineCap = shape.round ? 'round' : 'butt';
    context.setLineDash(shape.dash ? shape.dash.split(' ').map(Number) : []);
    context.stroke(new Path2D(shape.d));
    context.restore();
  } else {
    context.font = fontOf(shape);
    context.fillStyle = shape.fill;
    context.textAlign = shape.anchor === 'start' ? 'left' : shape.anchor === 'end' ? 'right' : 'center';
    context.fillText(shape.text, shape.x, shape.y);
  }
}

const SIDE_MOST = 16384; // pixels of a canvas

export function toPng({ width, height, ground, shapes }: Picture): Promise<Blob> {
  const canvas = document.createElement('canvas');
  const scale = Math.min(2, SIDE_MOST / Math.max(width, height));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  context.scale(scale, scale);
  context.fillStyle = ground;
  context.fillRect(0, 0, width, height);
  for (const shape of shapes) draw(context, shape);
  return new Promise((resolve, reject) => {
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error('the picture is too large for this browser'))),
      'image/png',
    );
  });
}
