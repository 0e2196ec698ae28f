// What is seen, as a file: the picture of the view, or the map that the service draws if the view
// draws no picture; the numbers of the service; or one HTML file with the numbers and the element
// that draws them.
import { address, ask } from '../api/client';
import { nameOfSite, ofHead, readWeights } from '../api/answers';
import { WHOLE_MOST, type Head, type Site } from '../api/runs';
import { toPng, toSvg } from '../parts/picture';
import { headInWords, keys, queries, site } from '../store/run';
import { drawing, inSight, look } from '../store/state';
import { isDark } from './theme';

export type Kind = 'png' | 'svg' | 'csv' | 'npy' | 'html';

export interface Part {
  rows: [number, number];
  cols: [number, number];
  range: [number, number] | null;
}

const CELLS_MOST = 65536; // of a picture, which pools more

const types: Record<Kind, string> = {
  png: 'image/png',
  svg: 'image/svg+xml',
  csv: 'text/csv',
  npy: 'application/x-npy',
  html: 'text/html',
};

export const partOf = (of: Site): Part =>
  inSight.value?.() ?? { rows: [0, of.num_queries], cols: [0, of.num_keys], range: look.value.range };

const count = ({ rows, cols }: Part): number => (rows[1] - rows[0]) * (cols[1] - cols[0]);

// Why a kind cannot hold the part; '': it can.
export const refusal = (kind: Kind, part: Part): string =>
  kind !== 'png' && kind !== 'svg' && count(part) > WHOLE_MOST
    ? `more than ${WHOLE_MOST.toLocaleString('en')} weights are in sight: zoom in first`
    : '';

const span = ([from, to]: [number, number]): string => `${from}:${to}`;

const weightsPath = (head: Head, part: Part): string =>
  `v1/runs/${head.run}/weights?${ofHead(head)}&rows=${span(part.rows)}&cols=${span(part.cols)}`;

export function path(kind: Kind, head: Head, part: Part): string {
  if (kind === 'npy' || kind === 'html') return weightsPath(head, part);
  const { transform, colours } = look.value;
  const { range } = part;
  const place =
    `v1/runs/${head.run}/heatmaps?site=${head.site}&batch=${head.batch}&heads=${head.head}` +
    `&rows=${span(part.rows)}&cols=${span(part.cols)}&max_cells=${CELLS_MOST}`;
  if (kind === 'csv') return place;
  const bend = transform === 'row' ? 'linear' : transform;
  const ends = range && (bend !== 'log' || range[0] > 0) ? `&vmin=${range[0]}&vmax=${range[1]}` : '';
  const theme = isDark.value ? 'dark' : 'light';
  const title = encodeURIComponent(`${nameOfSite(site.value ?? undefined)}, ${headInWords.value}`);
  const scale = kind === 'png' ? '&scale=2' : '';
  return `${place}&transform=${bend}&colormap=${colours}&theme=${theme}&title=${title}${ends}${scale}`;
}

// JSON inside a script element: nothing in it may end the element.
const inScript = (value: unknown): string =>
  JSON.stringify(value).replace(
    /[<\u2028\u2029]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

async function html(head: Head, part: Part): Promise<Blob> {
  const [reply, code] = await Promise.all([
    ask(`${weightsPath(head, part)}&hidden=true`, { accept: 'application/vnd.safetensors' }),
    ask('web/attn.js').then((answer) => answer.text()),
  ]);
  const { weights, hidden } = await readWeights(reply);
  const names = (axis: typeof queries.value, [from, to]: [number, number]): string[] =>
    Array.from({ length: to - from }, (_, i) => axis.tokens?.[from + i] ?? String(from + i));
  const data = {
    queries: names(queries.value, part.rows),
    keys: names(keys.value, part.cols),
    weights: Array.from(weights),
    hidden: hidden
      .map(([row, from, to]) => [
        row - part.rows[0],
        Math.max(0, from - part.cols[0]),
        Math.min(part.cols[1], to) - part.cols[0],
      ])
      .filter(([, from, to]) => (to as number) > (from as number)),
  };
  const { transform, colours } = look.value;
  const bend = transform === 'row' ? 'linear' : transform;
  const words =
    data.queries.length <= 64 && data.keys.length <= 64 ? '<attn-words id="words"></attn-words>' : '';
  const heads = head.head === 'mean' ? 'mean of the heads' : `head ${head.head}`;
  const title = `Attention, ${heads}, queries ${span(part.rows)}, keys ${span(part.cols)}`;
  return new Blob(
    [
      `<!doctype html>
<html lang="en"><head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>
body { font: 15px system-ui, sans-serif; margin: 16px; }
attn-heatmap { --attn-height: 70vh; }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e8eaed; } }
</style></head>
<body><h1>${title}</h1>
<p>Made by attnd. Weights show where a head looks;
they do not explain by themselves what a model answers.</p>
<attn-heatmap id="map" zooms colormap="${colours}" transform="${bend}"></attn-heatmap>${words}
<script type="application/json" id="data">${inScript(data)}</script>
<script type="module">${code.replace(/<\/script/gi, '<\\/script')}</script>
<script type="module">
const data = JSON.parse(document.getElementById('data').textContent);
data.weights = new Float32Array(data.weights);
for (const id of ['map', 'words']) {
  const element = document.getElementById(id);
  if (element) element.data = data;
}
</script></body></html>
`,
    ],
    { type: 'text/html' },
  );
}

// Has the browser save a file.
export function download(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// Makes the file and has the browser save it.
export async function save(kind: Kind, head: Head, part: Part): Promise<void> {
  const drawn = kind === 'svg' || kind === 'png' ? drawing.value?.() : null;
  const blob =
    kind === 'html'
      ? await html(head, part)
      : drawn
        ? await (kind === 'svg' ? toSvg(drawn) : toPng(drawn))
        : await (await ask(path(kind, head, part), { accept: types[kind] })).blob();
  download(blob, `attention-${head.site}-${head.head}.${kind}`);
}

export const command = (kind: Kind, head: Head, part: Part): string =>
  `curl -o attention.${kind} -H 'Accept: ${types[kind]}' '${address(path(kind, head, part)).href}'`;
