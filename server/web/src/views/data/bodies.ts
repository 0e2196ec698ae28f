// Bodies and files that are made of tensors of files. They are pieces of the files, so that a file of any
// length takes no memory.
import { bytesOf, npyOf, toNumpy } from './dtypes';
import { BadFile, type Part } from './tensors';

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});

async function crc32(blob: Blob): Promise<number> {
  let crc = 0xffffffff;
  const reader = (blob.stream() as ReadableStream<Uint8Array>).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return (crc ^ 0xffffffff) >>> 0;
    for (let i = 0; i < value.length; i++)
      crc = (CRC_TABLE[(crc ^ (value[i] as number)) & 255] as number) ^ (crc >>> 8);
  }
}

function zipHead(
  signature: number,
  name: Uint8Array,
  fields: { method: number; crc: number; packed: number; size: number },
  at: number,
): Uint8Array {
  const central = signature === 0x02014b50;
  const view = new DataView(new ArrayBuffer((central ? 46 : 30) + name.length));
  let i = central ? 6 : 4;
  view.setUint32(0, signature, true);
  if (central) view.setUint16(4, 20, true);
  view.setUint16(i, 20, true);
  view.setUint16(i + 4, fields.method, true);
  view.setUint16(i + 8, 0x21, true); // 1 January 1980
  view.setUint32(i + 10, fields.crc, true);
  view.setUint32(i + 14, fields.packed, true);
  view.setUint32(i + 18, fields.size, true);
  view.setUint16(i + 22, name.length, true);
  if (central) view.setUint32(42, at, true);
  i = central ? 46 : 30;
  const bytes = new Uint8Array(view.buffer);
  bytes.set(name, i);
  return bytes;
}

async function npz(fields: ReadonlyMap<string, Part>, request: unknown): Promise<Blob> {
  const pieces: BlobPart[] = [];
  const directory: Uint8Array[] = [];
  let at = 0;
  const add = async (
    field: string,
    blob: Blob,
    more: { method: number; crc: number | null; size: number },
  ): Promise<void> => {
    const name = bytesOf(`${field}.npy`);
    const head = {
      method: more.method,
      crc: more.crc ?? (await crc32(blob)),
      packed: blob.size,
      size: more.size,
    };
    const local = zipHead(0x04034b50, name, head, 0);
    directory.push(zipHead(0x02014b50, name, head, at));
    pieces.push(local as BlobPart, blob);
    at += local.length + blob.size;
  };
  for (const [field, part] of fields) {
    let blob = part.data;
    if (part.form === 'raw') {
      const descr = toNumpy(part.dtype);
      if (!descr)
        throw new BadFile(
          `${part.name} of ${part.file} is ${part.dtype}, which NumPy does not have: ` +
            'put all tensors into one safetensors file.',
        );
      blob = new Blob([npyOf(descr, part.shape) as BlobPart, blob]);
    }
    await add(field, blob, {
      method: part.deflated ? 8 : 0,
      crc: part.crc,
      size: part.deflated ? part.size : blob.size,
    });
  }
  const text = bytesOf(JSON.stringify(request));
  const array = new Blob([npyOf(`|S${text.length}`, []) as BlobPart, text as BlobPart]);
  await add('request', array, { method: 0, crc: null, size: array.size });
  const length = directory.reduce((sum, head) => sum + head.length, 0);
  const end = new DataView(new ArrayBuffer(22));
  end.setUint32(0, 0x06054b50, true);
  end.setUint16(8, directory.length, true);
  end.setUint16(10, directory.length, true);
  end.setUint32(12, length, true);
  end.setUint32(16, at, true);
  return new Blob([...pieces, ...(directory as BlobPart[]), end]);
}

export function safetensors(fields: ReadonlyMap<string, Part>, metadata: Record<string, string>): Blob {
  const header: Record<string, unknown> = { __metadata__: metadata };
  const pieces: Blob[] = [];
  let at = 0;
  for (const [field, { dtype, shape, data }] of fields) {
    header[field] = { dtype, shape, data_offsets: [at, at + data.size] };
    pieces.push(data);
    at += data.size;
  }
  const text = bytesOf(JSON.stringify(header));
  const padded = new Uint8Array(Math.ceil(text.length / 8) * 8).fill(0x20);
  padded.set(text);
  const length = new DataView(new ArrayBuffer(8));
  length.setBigUint64(0, BigInt(padded.length), true);
  return new Blob([length, padded as BlobPart, ...pieces]);
}

export interface Body {
  query: string;
  type: string;
  body: Blob;
}

// The same request as a file that holds all of it, to be kept and dropped here again.
export async function fileOf(
  fields: ReadonlyMap<string, Part>,
  request: Record<string, unknown>,
): Promise<Blob> {
  return [...fields.values()].every((part) => part.form === 'raw')
    ? safetensors(fields, { request: JSON.stringify(request) })
    : npz(fields, request);
}

// A request whose tensors are parts of files. One .npy file goes as it is, its other fields in the
// query string if that can hold them.
export async function bodyOf(
  first: string,
  fields: ReadonlyMap<string, Part>,
  request: Record<string, unknown>,
): Promise<Body> {
  const parts = [...fields.values()];
  const only = fields.get(first);
  const plain = (value: unknown): boolean => typeof value !== 'object' && String(value) !== '';
  if (
    fields.size === 1 &&
    only?.form === 'npy' &&
    !only.deflated &&
    only.crc === null &&
    Object.values(request).every(plain)
  ) {
    const query = new URLSearchParams(Object.entries(request).map(([name, value]) => [name, String(value)]));
    return { query: query.size ? `?${query}` : '', type: 'application/x-npy', body: only.data };
  }
  if (parts.every((part) => part.form === 'raw'))
    return {
      query: '',
      type: 'application/vnd.safetensors',
      body: safetensors(fields, { request: JSON.stringify(request) }),
    };
  return { query: '', type: 'application/x-npz', body: await npz(fields, request) };
}
