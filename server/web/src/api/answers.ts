// How requests name a head of a stored run, and what answers in the safetensors format hold. The
// page and the elements send and read the same.
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

export interface Weights {
  weights: Float32Array; // [queries, keys]
  hidden: [number, number, number][]; // [row, from, to) of keys that the mask hides
}

export async function readWeights(reply: Response): Promise<Weights> {
  const { metadata, tensors } = readTensors(await reply.arrayBuffer());
  const weights = tensors.get('weights');
  if (!weights) throw new Error('the answer has no weights');
  const { hidden = [] } = JSON.parse(metadata['response'] ?? '{}') as Partial<Pick<Weights, 'hidden'>>;
  return { weights: floats(weights), hidden };
}

export async function readAtlas(reply: Response): Promise<(Thumbnail & Codes)[]> {
  const { metadata, tensors } = readTensors(await reply.arrayBuffer());
  const planes = tensors.get('planes');
  const ranges = tensors.get('ranges');
  if (!planes || !ranges) throw new Error('the answer has no thumbnails');
  const { thumbnails } = JSON.parse(metadata['response'] ?? '{}') as components['schemas']['RunAtlas'];
  const stride = planes.shape[2] ?? 0;
  const limits = floats(ranges);
  return thumbnails.map((thumbnail, i) => {
    const [rows = 0, cols = 0] = thumbnail.shape;
    return {
      ...thumbnail, rows, cols, stride, codes: planes.data.subarray(i * stride * stride, (i + 1) * stride * stride),
      low: limits[2 * i] ?? 0, high: limits[2 * i + 1] ?? 0,
    };
  });
}
