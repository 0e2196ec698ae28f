// Files of tensors: what they hold is read from their headers, never the numbers. The bodies that are
// sent are made of pieces of the files, so that a file of any length takes no memory.
export class BadFile extends Error {}

const TEXT_MOST = 1e8;
const ARCHIVE_MOST = 2 ** 32 - 1; // bytes that the directory of an archive counts without ZIP64

export const sizeText = (bytes: number): string =>
  bytes < 1e6
    ? `${(bytes / 1e3).toFixed(1)} KB`
    : bytes < 1e9
      ? `${(bytes / 1e6).toFixed(1)} MB`
      : `${(bytes / 1e9).toFixed(2)} GB`;

// A tensor of a file: where its bytes lie, and how.
export interface Part {
  file: string;
  name: string;
  dtype: string; // in the words of safetensors
  shape: number[];
  // The .npy file of the tensor, or its pure bytes in the file of safetensors.
  form: 'npy' | 'raw';
  data: Blob; // deflated, if `deflated`
  deflated: boolean;
  begin: number; // bytes of a header in front of the numbers
  fortran: boolean; // the first axis is the fastest
  size: number; // bytes after inflation
  crc: number | null; // CRC-32 after inflation, as an archive says
}

export interface TensorFile {
  kind: 'npy' | 'npz' | 'safetensors';
  name: string;
  file: File;
  parts: Part[];
  request: Record<string, unknown>; // the other fields that the file itself has
  isCapture: boolean; // its metadata describes sites, so POST /v1/runs takes it
}

const dtypes: readonly (readonly [string, string])[] = [
  ['<f4', 'F32'],
  ['<f8', 'F64'],
  ['<f2', 'F16'],
  ['<i4', 'I32'],
  ['<i8', 'I64'],
  ['|u1', 'U8'],
  ['|b1', 'BOOL'],
];
const ofNumpy = (descr: string): string => dtypes.find(([numpy]) => numpy === descr)?.[1] ?? descr;

const read = async (blob: Blob): Promise<DataView> => new DataView(await blob.arrayBuffer());
const ascii = (view: DataView, at: number, length: number): string =>
  String.fromCharCode(...new Uint8Array(view.buffer, view.byteOffset + at, length));

export function unfold(blob: Blob): Blob | Promise<Blob> {
  return new Response(
    blob
      .stream()
      .pipeThrough(new DecompressionStream('deflate-raw') as ReadableWritablePair<Uint8Array, Uint8Array>),
  ).blob();
}

// The first bytes of a deflated member.
async function headOf(blob: Blob, deflated: boolean, length: number): Promise<DataView> {
  if (!deflated) return read(blob.slice(0, length));
  const reader = (blob.stream() as ReadableStream<Uint8Array>)
    .pipeThrough(new DecompressionStream('deflate-raw') as ReadableWritablePair<Uint8Array, Uint8Array>)
    .getReader();
  const bytes = new Uint8Array(length);
  let at = 0;
  while (at < length) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes.set(value.subarray(0, length - at), at);
    at += value.length;
  }
  await reader.cancel().catch(() => undefined);
  return new DataView(bytes.buffer, 0, Math.min(at, length));
}

interface NpyHead {
  descr: string;
  shape: number[];
  begin: number;
  fortran: boolean;
}

const NPY = '\x93NUMPY';

function npyHead(view: DataView, name: string): NpyHead {
  if (view.byteLength < 10 || ascii(view, 0, 6) !== NPY)
    throw new BadFile(`${name} is not a .npy file: it does not begin with \\x93NUMPY.`);
  const long = view.getUint8(6) > 1;
  const begin = (long ? 12 : 10) + (long ? view.getUint32(8, true) : view.getUint16(8, true));
  if (begin > view.byteLength) throw new BadFile(`${name} ends within its header.`);
  const text = ascii(view, long ? 12 : 10, begin - (long ? 12 : 10));
  const descr = /'descr':\s*'([^']*)'/.exec(text)?.[1];
  const shape = /'shape':\s*\(([^)]*)\)/.exec(text)?.[1];
  if (descr === undefined || shape === undefined)
    throw new BadFile(
      `The header of ${name} names no plain type and shape; arrays of records cannot be sent.`,
    );
  return {
    descr,
    shape: shape
      .split(',')
      .map((n) => n.trim())
      .filter(Boolean)
      .map(Number),
    begin,
    fortran: /'fortran_order':\s*True/.test(text),
  };
}

const stem = (name: string): string => name.replace(/\.\w+$/, '');
const HEAD_MOST = 65536;
const sizes: Record<string, number> = { F64: 8, I64: 8, F32: 4, I32: 4, F16: 2, BF16: 2, U8: 1, BOOL: 1 };

async function readNpy(file: File): Promise<TensorFile> {
  const head = npyHead(await read(file.slice(0, HEAD_MOST)), file.name);
  const dtype = ofNumpy(head.descr);
  const want = head.begin + head.shape.reduce((a, b) => a * b, 1) * (sizes[dtype] ?? 0);
  if (sizes[dtype] && file.size !== want)
    throw new BadFile(`${file.name} is damaged: its header asks for ${want} bytes, and it has ${file.size}.`);
  const part: Part = {
    file: file.name,
    name: stem(file.name),
    dtype,
    shape: head.shape,
    form: 'npy',
    data: file,
    deflated: false,
    begin: head.begin,
    fortran: head.fortran,
    size: file.size,
    crc: null,
  };
  return { kind: 'npy', name: file.name, file, parts: [part], request: {}, isCapture: false };
}

// The directory of an archive stands at its end: 46 bytes and the name for each member.
async function readNpz(file: File): Promise<TensorFile> {
  if (file.size > ARCHIVE_MOST)
    throw new BadFile(
      `${file.name} has ${sizeText(file.size)}. Archives of 4.29 GB or more are not read here: ` +
        'save the arrays as .safetensors.',
    );
  const tailAt = Math.max(0, file.size - 65557);
  const tail = await read(file.slice(tailAt));
  let end = tail.byteLength - 22;
  while (end >= 0 && tail.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0)
    throw new BadFile(
      `${file.name} is damaged: an archive of NumPy (.npz) has a directory at its end, ` +
        'and this one has none.',
    );
  const count = tail.getUint16(end + 10, true);
  const directoryAt = tail.getUint32(end + 16, true);
  const directory = await read(file.slice(directoryAt, directoryAt + tail.getUint32(end + 12, true)));
  const made: TensorFile = { kind: 'npz', name: file.name, file, parts: [], request: {}, isCapture: false };
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (at + 46 > directory.byteLength || directory.getUint32(at, true) !== 0x02014b50)
      throw new BadFile(`The directory of ${file.name} is damaged.`);
    const method = directory.getUint16(at + 10, true);
    const crc = directory.getUint32(at + 16, true);
    const nameLength = directory.getUint16(at + 28, true);
    const name = new TextDecoder().decode(new Uint8Array(directory.buffer, at + 46, nameLength));
    const local = directory.getUint32(at + 42, true);
    const packed = directory.getUint32(at + 20, true);
    const size = directory.getUint32(at + 24, true);
    const extraAt = at + 46 + nameLength;
    if (packed === 0xffffffff || size === 0xffffffff || local === 0xffffffff)
      throw new BadFile(`${name} in ${file.name} is longer than 4 GB.`);
    at = extraAt + directory.getUint16(at + 30, true) + directory.getUint16(at + 32, true);
    if (method !== 0 && method !== 8)
      throw new BadFile(`${name} in ${file.name} is packed by method ${method}; NumPy stores or deflates.`);
    const head = await read(file.slice(local, local + 30));
    if (head.byteLength < 30 || head.getUint32(0, true) !== 0x04034b50)
      throw new BadFile(`${name} in ${file.name} is damaged.`);
    const begin = local + 30 + head.getUint16(26, true) + head.getUint16(28, true);
    const data = file.slice(begin, begin + packed);
    if (data.size !== packed) throw new BadFile(`${file.name} ends within ${name}.`);
    const deflated = method === 8;
    const npy = npyHead(await headOf(data, deflated, Math.min(size, HEAD_MOST)), `${name} in ${file.name}`);
    if (stem(name) === 'request' && npy.shape.length === 0) {
      made.request = readRequest(await textOf(deflated ? await unfold(data) : data, npy), file.name);
      continue;
    }
    made.parts.push({
      file: file.name,
      name: stem(name),
      dtype: ofNumpy(npy.descr),
      shape: npy.shape,
      form: 'npy',
      data,
      deflated,
      begin: npy.begin,
      fortran: npy.fortran,
      size,
      crc,
    });
  }
  if (!made.parts.length) throw new BadFile(`${file.name} has no arrays.`);
  return made;
}

// The string of an array without axes: <U has 4 bytes a character, |S has one.
async function textOf(blob: Blob, { descr, begin }: NpyHead): Promise<string> {
  const bytes = (await blob.arrayBuffer()).slice(begin);
  if (descr.startsWith('<U')) return String.fromCodePoint(...new Uint32Array(bytes)).replace(/\0+$/, '');
  return new TextDecoder().decode(bytes).replace(/\0+$/, '');
}

function readRequest(text: string | undefined, name: string): Record<string, unknown> {
  if (!text) return {};
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    throw new BadFile(`The text "request" of ${name} is not JSON.`);
  }
}

// One [rows, keys] of a tensor with more axes, by its number. null: it cannot be cut out.
export async function plane(part: Part, index: number): Promise<Part | null> {
  const bytes = sizes[part.dtype];
  if (!bytes || part.fortran) return null;
  const shape = part.shape.slice(-2);
  const length = shape.reduce((a, b) => a * b, bytes);
  if (part.deflated) {
    part.data = await unfold(part.data);
    part.deflated = false;
  }
  const data = part.data.slice(part.begin + index * length, part.begin + (index + 1) * length);
  return { ...part, shape, form: 'raw', data, begin: 0, size: data.size, crc: null };
}

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

async function readSafetensors(file: File): Promise<TensorFile> {
  const length = Number((await read(file.slice(0, 8))).getBigUint64(0, true));
  let header: Record<string, Entry>;
  try {
    header = JSON.parse(await file.slice(8, 8 + length).text()) as Record<string, Entry>;
  } catch {
    throw new BadFile(
      `${file.name} is damaged: the header of a safetensors file is JSON, and this one is not.`,
    );
  }
  const metadata = (header.__metadata__ ?? {}) as unknown as Record<string, string>;
  const made: TensorFile = {
    kind: 'safetensors',
    name: file.name,
    file,
    parts: [],
    request: readRequest(metadata.request, file.name),
    isCapture: 'run' in metadata,
  };
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    const [from, to] = entry.data_offsets;
    if (!(to >= from && 8 + length + to <= file.size))
      throw new BadFile(`${file.name} is damaged: it ends within the tensor ${name}.`);
    const data = file.slice(8 + length + from, 8 + length + to);
    made.parts.push({
      file: file.name,
      name,
      dtype: entry.dtype,
      shape: entry.shape,
      form: 'raw',
      data,
      deflated: false,
      begin: 0,
      fortran: false,
      size: data.size,
      crc: null,
    });
  }
  return made;
}

const EXPECTED = 'Expected a .npy, .npz or .safetensors file, or JSON.';

// What a file contains, judged by its first bytes and not by its name. A string is the text of a
// file that may be JSON.
export async function open(file: File): Promise<TensorFile | string> {
  if (file.size === 0) throw new BadFile(`${file.name} is empty. ${EXPECTED}`);
  const view = await read(file.slice(0, 16));
  const first = ascii(view, 0, Math.min(view.byteLength, 6));
  if (first === NPY) return readNpy(file);
  if (first.startsWith('PK\x03\x04') || first.startsWith('PK\x05\x06')) return readNpz(file);
  if (view.byteLength >= 10) {
    const length = view.getBigUint64(0, true);
    if (length >= 2n && ascii(view, 8, 1) === '{') {
      if (length + 8n > BigInt(file.size))
        throw new BadFile(
          `${file.name} is damaged: its header is said to have ${length} bytes, ` +
            `and the file has ${file.size}.`,
        );
      return readSafetensors(file);
    }
  }
  if (/^\s*[[{"]/.test(first.replace(/^\xef\xbb\xbf/, ''))) {
    if (file.size > TEXT_MOST)
      throw new BadFile(
        `${file.name} has ${Math.round(file.size / 1e6)} MB. JSON of more than 100 MB is not read here: ` +
          'save the numbers as .npy or .safetensors.',
      );
    return file.text();
  }
  throw new BadFile(`${file.name} is of no known kind. ${EXPECTED}`);
}

// Below, bodies are made of parts.

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

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

// The header of a .npy file, filled up with blanks to a multiple of 64 bytes.
function npyOf(descr: string, shape: readonly number[]): Uint8Array {
  const axes = shape.join(', ') + (shape.length === 1 ? ',' : '');
  const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${axes}), }`;
  const filled = `${text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11)}\n`;
  const bytes = new Uint8Array(10 + filled.length);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, filled.length & 255, filled.length >> 8]);
  bytes.set(bytesOf(filled), 10);
  return bytes;
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
      const descr = dtypes.find(([, name]) => name === part.dtype)?.[0];
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

function safetensors(fields: ReadonlyMap<string, Part>, request: unknown): Blob {
  const header: Record<string, unknown> = { __metadata__: { request: JSON.stringify(request) } };
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
    ? safetensors(fields, request)
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
    return { query: '', type: 'application/vnd.safetensors', body: safetensors(fields, request) };
  return { query: '', type: 'application/x-npz', body: await npz(fields, request) };
}
