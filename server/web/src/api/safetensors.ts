// Reads the safetensors format: 8 bytes with the length of the header, the header as JSON, the
// tensors.
export interface Tensor {
  dtype: string;
  shape: number[];
  data: Uint8Array;
}

export interface Tensors {
  metadata: Record<string, string>;
  tensors: Map<string, Tensor>;
}

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

export function readTensors(bytes: ArrayBuffer): Tensors {
  const length = Number(new DataView(bytes).getBigUint64(0, true));
  if (!(length <= bytes.byteLength - 8)) throw new Error('this is not a file in the safetensors format');
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length))) as Record<
    string,
    Entry
  >;
  const tensors = new Map<string, Tensor>();
  let metadata: Record<string, string> = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') {
      metadata = entry as unknown as Record<string, string>;
      continue;
    }
    const [from, to] = entry.data_offsets;
    tensors.set(name, {
      dtype: entry.dtype,
      shape: entry.shape,
      data: new Uint8Array(bytes, 8 + length + from, to - from),
    });
  }
  return { metadata, tensors };
}

// The numbers of an F32 tensor. They are copied, since tensors need not be aligned to 4 bytes.
export function floats(tensor: Tensor): Float32Array {
  if (tensor.dtype !== 'F32') throw new Error(`expected F32, found ${tensor.dtype}`);
  return new Float32Array(tensor.data.slice().buffer);
}
