// How requests name a head of a stored run, and what answers in the safetensors format contain. The
// page and the elements send and read the same names and formats.
import type { Codes } from '../draw/thumb';
import type { components } from './schema';
import { floats, readTensors } from './safetensors';

type Thumbnail = components['schemas']['RunAtlas']['thumbnails'][number];

// One head of one site. `head` is 'mean' for the mean of all heads.
export interface HeadOfSite {
  site: number;
  batch: number;
  head: number | 'mean';
}

// The head in the query string of /weights and /rows, which name the mean in the plural.
export const ofHead = ({ site, batch, head }: HeadOfSite): string =>
  `site=${site}&batch=${batch}&${head === 'mean' ? 'heads=mean' : `head=${head}`}`;

type RunSite = components['schemas']['RunSite'];

export const isLayered = (site: RunSite | undefined): boolean => site?.axes?.includes('layer') ?? false;

// Entries of a batch in each layer of a site whose first axis is the layer.
export function entriesOf(site: RunSite | undefined): number {
  const axis = site?.axes?.indexOf('layer') ?? -1;
  const layers = axis >= 0 ? (site?.weights_shape?.[axis] ?? 1) : 1;
  return Math.max(1, Math.round((site?.num_batches ?? 1) / layers));
}

// The number of a batch entry in routes that name no layer. This number counts the entries of all
// layers.
export const batchOf = (site: RunSite | undefined, layer: number, entry: number): number =>
  isLayered(site) ? layer * entriesOf(site) + entry : entry;

export const nameOfSite = (site: RunSite | undefined): string =>
  !site ? '' : site.kind === 'self' ? site.name : `${site.kind} ${site.layer}`;

// The place of a head in words, such as "encoder 0".
export function placeOf(
  sites: readonly RunSite[],
  t: { site: number; layer: number; entry: number },
): string {
  const site = sites[t.site];
  const place = isLayered(site) ? `${site?.name ?? ''} layer ${t.layer}` : nameOfSite(site);
  return entriesOf(site) > 1 ? `${place}, batch ${t.entry}` : place;
}

export interface Weights {
  weights: Float32Array; // [queries, keys]
  hidden: [number, number, number][]; // [row, from, to) of keys that the mask hides
}

export async function readWeights(reply: Response): Promise<Weights> {
  const { metadata, tensors } = readTensors(await reply.arrayBuffer());
  const weights = tensors.get('weights');
  if (!weights) throw new Error('the answer has no weights');
  const { hidden = [] } = JSON.parse(metadata.response ?? '{}') as Partial<Pick<Weights, 'hidden'>>;
  return { weights: floats(weights), hidden };
}

export async function readAtlas(reply: Response): Promise<(Thumbnail & Codes)[]> {
  const { metadata, tensors } = readTensors(await reply.arrayBuffer());
  const cells = tensors.get('cells');
  const ranges = tensors.get('ranges');
  if (!cells || !ranges) throw new Error('the answer has no thumbnails');
  const { thumbnails } = JSON.parse(metadata.response ?? '{}') as components['schemas']['RunAtlas'];
  const stride = cells.shape[2] ?? 0;
  const limits = floats(ranges);
  return thumbnails.map((thumbnail, i) => {
    const [rows = 0, cols = 0] = thumbnail.shape;
    return {
      ...thumbnail,
      rows,
      cols,
      stride,
      codes: cells.data.subarray(i * stride * stride, (i + 1) * stride * stride),
      low: limits[2 * i] ?? 0,
      high: limits[2 * i + 1] ?? 0,
    };
  });
}
