// Files of tensors: what they hold is read from their headers, never the numbers.
import { decode, isTaken, npyOf, ofNumpy, types } from './dtypes';
import { sideOf } from './names';

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

export interface Words {
  query?: string[];
  key?: string[];
}

export interface TensorFile {
  kind: 'npy' | 'npz' | 'safetensors';
  name: string;
  file: File;
  parts: Part[];
  request: Record<string, unknown>; // the other fields that the file itself has
  words: Words; // names of queries and keys that the file has beside its numbers
  isCapture: boolean; // its metadata describes sites, so POST /v1/runs takes it
}

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
  const descr = /(['"])descr\1:\s*(['"])([^'"]*)\2/.exec(text)?.[3];
  const shape = /(['"])shape\1:\s*\(([^)]*)\)/.exec(text)?.[2];
  if (descr === undefined || shape === undefined)
    throw new BadFile(
      `The header of ${name} names no plain type and shape; arrays of records cannot be sent.`,
    );
  return {
    descr,
    shape: shape
      .split(',')
      .map((n) => n.trim().replace(/L$/, '')) // as Python 2 on Windows writes lengths
      .filter(Boolean)
      .map(Number),
    begin,
    fortran: /(['"])fortran_order\1:\s*True/.test(text),
  };
}

const CONVERT =
  'Save its arrays in Python: safetensors.torch.save_file({"attention": torch.stack(attentions)}, "attention.safetensors").';
const stem = (name: string): string => name.replace(/\.\w+$/, '');
const HEAD_MOST = 65536;

// Numbers of a type that the service does not read become float32 here.
async function settled(part: Part, big: boolean): Promise<Part> {
  if (isTaken(part.dtype, big) || !types[part.dtype]) return part;
  const whole = part.deflated ? await unfold(part.data) : part.data;
  const numbers = decode(await whole.slice(part.begin).arrayBuffer(), part.dtype, big);
  const head = npyOf('<f4', part.shape, part.fortran);
  const data = new Blob(
    part.form === 'npy' ? [head as BlobPart, numbers as BlobPart] : [numbers as BlobPart],
  );
  return {
    ...part,
    dtype: 'F32',
    data,
    deflated: false,
    begin: part.form === 'npy' ? head.length : 0,
    size: data.size,
    crc: null,
  };
}

// The numbers of a part as float32, the last axis the fastest.
export async function numbersOf(part: Part): Promise<Float32Array> {
  const whole = part.deflated ? await unfold(part.data) : part.data;
  const numbers = decode(await whole.slice(part.begin).arrayBuffer(), part.dtype, false);
  if (!part.fortran) return numbers;
  const made = new Float32Array(numbers.length);
  const at = part.shape.map(() => 0);
  const steps = part.shape.map((_, i) => part.shape.slice(0, i).reduce((a, b) => a * b, 1));
  for (let i = 0; i < made.length; i++) {
    made[i] = numbers[at.reduce((sum, n, axis) => sum + n * (steps[axis] as number), 0)] as number;
    for (let axis = at.length - 1; axis >= 0; axis--) {
      at[axis] = (at[axis] as number) + 1;
      if ((at[axis] as number) < (part.shape[axis] as number)) break;
      at[axis] = 0;
    }
  }
  return made;
}

const isText = (descr: string): boolean => /^[<>|]?[US]\d+$/.test(descr);

// The strings of an array: <U has 4 bytes a character, |S has one. NULs fill them up.
async function stringsOf(blob: Blob, { descr, shape, begin }: NpyHead): Promise<string[]> {
  const bytes = await blob.slice(begin).arrayBuffer();
  const count = shape.reduce((a, b) => a * b, 1);
  const width = bytes.byteLength / (count || 1);
  const view = new DataView(bytes);
  return Array.from({ length: count }, (_, i) => {
    if (descr.includes('S'))
      return new TextDecoder().decode(bytes.slice(i * width, (i + 1) * width)).replace(/\0+$/, '');
    let text = '';
    for (let at = i * width; at + 4 <= (i + 1) * width; at += 4) {
      const code = view.getUint32(at, descr[0] !== '>');
      if (code > 0x10ffff) throw new BadFile('A text of the file has letters that are none.');
      text += String.fromCodePoint(code);
    }
    return text.replace(/\0+$/, '');
  });
}

function addWords(made: TensorFile, name: string, words: string[]): void {
  const side = sideOf(name) ?? 'both';
  for (const one of side === 'both' ? (['query', 'key'] as const) : [side])
    if (side !== 'both' || !made.words[one]) made.words[one] = words;
}

function nothingOf(kind: TensorFile['kind'], file: File): TensorFile {
  return { kind, name: file.name, file, parts: [], request: {}, words: {}, isCapture: false };
}

async function readNpy(file: File): Promise<TensorFile> {
  const head = npyHead(await read(file.slice(0, HEAD_MOST)), file.name);
  const { dtype, big } = ofNumpy(head.descr);
  const bytes = types[dtype]?.bytes;
  const made = nothingOf('npy', file);
  if (isText(head.descr) && head.shape.length === 1) {
    addWords(made, stem(file.name), await stringsOf(file, head));
    return made;
  }
  if (!bytes)
    throw new BadFile(
      `${file.name} holds ${dtype}, which are no real numbers. Expected floats, integers, booleans, or words.`,
    );
  const want = head.begin + head.shape.reduce((a, b) => a * b, 1) * bytes;
  if (file.size !== want)
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
  made.parts.push(await settled(part, big));
  return made;
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
  const made = nothingOf('npz', file);
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
    if (/(^|\/)data\.pkl$/.test(name)) throw new BadFile(`${file.name} is a file of PyTorch. ${CONVERT}`);
    if (!name.endsWith('.npy')) continue; // a folder, or a text beside the arrays
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
      made.request = readRequest((await stringsOf(deflated ? await unfold(data) : data, npy))[0], file.name);
      continue;
    }
    if (isText(npy.descr) && npy.shape.length === 1) {
      if (sideOf(stem(name)))
        addWords(made, stem(name), await stringsOf(deflated ? await unfold(data) : data, npy));
      continue;
    }
    const { dtype, big } = ofNumpy(npy.descr);
    const part: Part = {
      file: file.name,
      name: stem(name),
      dtype,
      shape: npy.shape,
      form: 'npy',
      data,
      deflated,
      begin: npy.begin,
      fortran: npy.fortran,
      size,
      crc,
    };
    made.parts.push(await settled(part, big));
  }
  if (!made.parts.length && !made.words.query && !made.words.key)
    throw new BadFile(`${file.name} has no arrays.`);
  return made;
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
  const bytes = types[part.dtype]?.bytes;
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

const isEntry = (entry: Partial<Entry> | null): entry is Entry =>
  typeof entry?.dtype === 'string' && Array.isArray(entry.shape) && Array.isArray(entry.data_offsets);

function wordsIn(text: string): string[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((word) => typeof word === 'string') ? value : null;
  } catch {
    return null;
  }
}

async function readSafetensors(file: File): Promise<TensorFile> {
  const length = Number((await read(file.slice(0, 8))).getBigUint64(0, true));
  let header: Record<string, Entry>;
  try {
    header = JSON.parse(await file.slice(8, 8 + length).text()) as Record<string, Entry>;
    if (typeof header !== 'object' || Array.isArray(header)) throw new Error('no object');
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
    words: {},
    isCapture: typeof metadata.run === 'string' && /^\s*\{/.test(metadata.run),
  };
  for (const [name, text] of Object.entries(metadata)) {
    const words = sideOf(name) && typeof text === 'string' && text.startsWith('[') ? wordsIn(text) : null;
    if (words) addWords(made, name, words);
  }
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    if (!isEntry(entry))
      throw new BadFile(
        `${file.name} is damaged: the tensor ${name} has no dtype, shape and data_offsets in its header.`,
      );
    const [from, to] = entry.data_offsets;
    if (!(to >= from && 8 + length + to <= file.size))
      throw new BadFile(`${file.name} is damaged: it ends within the tensor ${name}.`);
    const data = file.slice(8 + length + from, 8 + length + to);
    const part: Part = {
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
    };
    made.parts.push(made.isCapture ? part : await settled(part, false));
  }
  if (!made.parts.length) throw new BadFile(`${file.name} has no tensors.`);
  return made;
}

const EXPECTED =
  'Expected a .npy, .npz or .safetensors file, JSON, or a table of numbers (.csv, .tsv, .txt).';

// Files that are known and not read, by their first bytes.
const others: readonly (readonly [string, string])[] = [
  ['\x1f\x8b', 'is compressed by gzip. Unpack it first.'],
  ...['\x80\x02', '\x80\x03', '\x80\x04', '\x80\x05'].map(
    (begin) => [begin, `is a pickle of Python, which could run code. ${CONVERT}`] as const,
  ),
  ['\x89HDF', `is a file of HDF5. ${CONVERT}`],
  ['version https://git-lfs', 'is a pointer of Git LFS. Fetch the file itself: git lfs pull.'],
];

const isPrintable = (text: string): boolean => !/[\p{Cc}]/u.test(text.replace(/[\t\n\v\f\r\x7f-\x9f]/g, ''));

// What a file contains, judged by its first bytes and not by its name. A string is the text of a
// file that may be JSON or a table.
export async function open(file: File): Promise<TensorFile | string> {
  if (file.size === 0) throw new BadFile(`${file.name} is empty. ${EXPECTED}`);
  const view = await read(file.slice(0, 512));
  const first = ascii(view, 0, view.byteLength);
  if (first.startsWith(NPY)) return readNpy(file);
  if (first.startsWith('PK\x03\x04') || first.startsWith('PK\x05\x06')) return readNpz(file);
  const known = others.find(([begin]) => first.startsWith(begin));
  if (known) throw new BadFile(`${file.name} ${known[1]}`);
  // Eight letters would be a length above 10^18, so a text is none of safetensors.
  if (view.byteLength >= 10 && first[8] === '{' && !/^[\t\n\r -~]{8}/.test(first)) {
    const length = view.getBigUint64(0, true);
    if (length + 8n > BigInt(file.size))
      throw new BadFile(
        `${file.name} is damaged: its header is said to have ${length} bytes, ` +
          `and the file has ${file.size}.`,
      );
    return readSafetensors(file);
  }
  if (!isPrintable(first) || !/^(?:\xef\xbb\xbf)?\s*(?:[[{"(]|[-+.,;\t\d#])|[,;\t].*\n/.test(first))
    throw new BadFile(`${file.name} is of no known kind. ${EXPECTED}`);
  if (file.size > TEXT_MOST)
    throw new BadFile(
      `${file.name} has ${Math.round(file.size / 1e6)} MB. Texts of more than 100 MB are not read here: ` +
        'save the numbers as .npy or .safetensors.',
    );
  return file.text();
}
