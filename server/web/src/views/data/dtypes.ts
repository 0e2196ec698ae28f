// The types of numbers in files: how long one is, how it is read, and what NumPy calls it.

interface Type {
  bytes: number;
  numpy?: string; // without the mark of the order of bytes
  read: (view: DataView, at: number, little: boolean) => number;
}

// A float of few bits: its sign, exponent and fraction. `finite`: the highest exponent is of numbers, as in E4M3.
function small(bits: number, exponent: number, fraction: number, finite = false): number {
  const sign = bits >> (exponent + fraction) ? -1 : 1;
  const e = (bits >> fraction) & (2 ** exponent - 1);
  const f = bits & (2 ** fraction - 1);
  const bias = 2 ** (exponent - 1) - 1;
  if (e === 2 ** exponent - 1) {
    if (finite ? f === 2 ** fraction - 1 : f > 0) return Number.NaN;
    if (!finite) return sign * Number.POSITIVE_INFINITY;
  }
  return sign * (e ? 2 ** (e - bias) * (1 + f / 2 ** fraction) : 2 ** (1 - bias) * (f / 2 ** fraction));
}

// By the names of safetensors.
export const types: Record<string, Type> = {
  F64: { bytes: 8, numpy: 'f8', read: (v, at, little) => v.getFloat64(at, little) },
  F32: { bytes: 4, numpy: 'f4', read: (v, at, little) => v.getFloat32(at, little) },
  F16: { bytes: 2, numpy: 'f2', read: (v, at, little) => small(v.getUint16(at, little), 5, 10) },
  BF16: { bytes: 2, read: (v, at, little) => small(v.getUint16(at, little), 8, 7) },
  F8_E4M3: { bytes: 1, read: (v, at) => small(v.getUint8(at), 4, 3, true) },
  F8_E5M2: { bytes: 1, read: (v, at) => small(v.getUint8(at), 5, 2) },
  I64: { bytes: 8, numpy: 'i8', read: (v, at, little) => Number(v.getBigInt64(at, little)) },
  U64: { bytes: 8, numpy: 'u8', read: (v, at, little) => Number(v.getBigUint64(at, little)) },
  I32: { bytes: 4, numpy: 'i4', read: (v, at, little) => v.getInt32(at, little) },
  U32: { bytes: 4, numpy: 'u4', read: (v, at, little) => v.getUint32(at, little) },
  I16: { bytes: 2, numpy: 'i2', read: (v, at, little) => v.getInt16(at, little) },
  U16: { bytes: 2, numpy: 'u2', read: (v, at, little) => v.getUint16(at, little) },
  I8: { bytes: 1, numpy: 'i1', read: (v, at) => v.getInt8(at) },
  U8: { bytes: 1, numpy: 'u1', read: (v, at) => v.getUint8(at) },
  BOOL: { bytes: 1, numpy: 'b1', read: (v, at) => v.getUint8(at) },
};

// What the service reads as it is.
const taken = ['F64', 'F32', 'F16', 'BF16', 'I64', 'I32', 'U8', 'BOOL'];
export const isTaken = (dtype: string, big: boolean): boolean => taken.includes(dtype) && !big;

// The type of a .npy file's `descr`. Another type keeps its name.
export function ofNumpy(descr: string): { dtype: string; big: boolean } {
  const [, order = '', kind = ''] = /^([<>=|]?)(\w+)$/.exec(descr) ?? [];
  const dtype = Object.keys(types).find((name) => types[name]?.numpy === kind);
  return dtype
    ? { dtype, big: order === '>' && (types[dtype]?.bytes ?? 1) > 1 }
    : { dtype: descr, big: false };
}

export function toNumpy(dtype: string): string | undefined {
  const type = types[dtype];
  return type?.numpy && (type.bytes > 1 ? '<' : '|') + type.numpy;
}

// The numbers in the order of the file.
export function decode(bytes: ArrayBuffer, dtype: string, big: boolean): Float32Array {
  const type = types[dtype];
  if (!type) throw new Error(`numbers of the type ${dtype} are not read here`);
  const view = new DataView(bytes);
  const made = new Float32Array(Math.floor(bytes.byteLength / type.bytes));
  for (let i = 0; i < made.length; i++) made[i] = type.read(view, i * type.bytes, !big);
  return made;
}

export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

// The header of a .npy file, filled up with blanks to a multiple of 64 bytes.
export function npyOf(descr: string, shape: readonly number[], fortran = false): Uint8Array {
  const axes = shape.join(', ') + (shape.length === 1 ? ',' : '');
  const text = `{'descr': '${descr}', 'fortran_order': ${fortran ? 'True' : 'False'}, 'shape': (${axes}), }`;
  const filled = `${text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11)}\n`;
  const bytes = new Uint8Array(10 + filled.length);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, filled.length & 255, filled.length >> 8]);
  bytes.set(bytesOf(filled), 10);
  return bytes;
}
