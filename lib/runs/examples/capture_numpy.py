#!/usr/bin/env python3
"""Writes the attention of a model as a run file (lib/runs/FORMAT.md) with NumPy alone.

    python3 capture_numpy.py --layers 12 --heads 12 --tokens 8192 --width 64 --dtype F16 capture.safetensors
    curl --data-binary @capture.safetensors -H 'Content-Type: application/vnd.safetensors' localhost:8080/v1/runs

The queries and keys here are made up: head h of each layer looks at the token h + 1 places back. Put those of your
model into `queries_and_keys`. One layer is in memory at a time, so the file may be larger than the memory.
"""
import argparse
import json
import math
import struct

import numpy as np

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "BOOL": 1}


def encode(x, dtype):
    """The array as the little-endian bytes of a type of safetensors."""
    if dtype == "BF16":  # NumPy has no such type: the upper half of a float32, rounded to nearest, ties to even
        bits = np.ascontiguousarray(x, "<f4").view("<u4")
        rounded = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
        return np.where(np.isnan(x), 0x7FC0, rounded).astype("<u2").tobytes()
    return np.ascontiguousarray(x, {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "?"}[dtype]).tobytes()


def write_safetensors(path, metadata, shapes, arrays):
    """`shapes` is {name: (dtype, shape)} in the order of `arrays`, which may be a generator. With several types put
    the wider ones first, so that each tensor begins at a multiple of its element size."""
    header, end = {"__metadata__": metadata}, 0
    for name, (dtype, shape) in shapes.items():
        begin, end = end, end + math.prod(shape) * BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for (name, (dtype, shape)), x in zip(shapes.items(), arrays, strict=True):
            if x.shape != tuple(shape):
                raise ValueError(f"{name}: expected the shape {tuple(shape)}, found {x.shape}")
            file.write(encode(x, dtype))


def queries_and_keys(layer, heads, tokens, width):
    """Query and key of a layer, [B, H, L, E] each, after all that your model does to them (rotary positions, norms)
    before their product. Keys of grouped-query attention have fewer heads."""
    r = np.random.default_rng(layer)
    key = r.standard_normal((1, heads, tokens, width), np.float32)
    query = 0.3 * r.standard_normal((1, heads, tokens, width), np.float32)
    for h in range(heads):
        query[:, h] += np.roll(key[:, h], h + 1, axis=1)
    return query, key


def main():
    parser = argparse.ArgumentParser(description="write a run file with made-up attention")
    parser.add_argument("output")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--width", type=int, default=16, help="of a head")
    parser.add_argument("--dtype", choices=["F32", "F16", "BF16", "F64"], default="F32")
    parser.add_argument("--causal", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()

    # All sites refer to one text. Without names of their own, the tensors of site N are sites.N.query and sites.N.key.
    run = {
        "version": 2,
        "model": "made up",
        "texts": [{"tokens": [f"word {i}" for i in range(args.tokens)]}],
        "sites": [
            {"name": f"layers.{n}.attention", "layer": n, "is_causal": args.causal, "query_text": 0, "key_text": 0}
            for n in range(args.layers)
        ],
    }
    shape = (1, args.heads, args.tokens, args.width)
    names = [f"sites.{n}.{part}" for n in range(args.layers) for part in ("query", "key")]
    arrays = (x for n in range(args.layers) for x in queries_and_keys(n, args.heads, args.tokens, args.width))
    write_safetensors(args.output, {"run": json.dumps(run)}, {name: (args.dtype, shape) for name in names}, arrays)


if __name__ == "__main__":
    main()
