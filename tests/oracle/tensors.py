"""Tensors as the requests spell them, read into NumPy, and back.

A tensor is a nested list, or {"shape", "dtype", "data" | "base64"}, or a literal such as {"shape": [2,
3], "random": "normal", "seed": 7}. Real numbers are float32 on the wire unless "dtype" says otherwise:
they are rounded to that type first and then widened to float64, in which the oracle computes.
"""
import base64

import numpy as np

from . import rng

STORED = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "bool": np.uint8,
    "bfloat16": np.uint16,  # its bits: the upper half of a float32
}
REAL = ("float16", "bfloat16", "float32", "float64")


def from_bfloat16(half):
    """bfloat16 bits (uint16) as float32: exact."""
    return (half.astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(x):
    """float32 rounded to nearest even, as uint16 bits."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded).astype(np.uint16)


def round_to(x, dtype):
    """x rounded to a real type of the wire and widened to float64."""
    x = np.asarray(x)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "bfloat16":
            return from_bfloat16(to_bfloat16(x.astype(np.float32))).astype(np.float64)
        return x.astype(STORED[dtype]).astype(np.float64)


def is_object(spec):
    return isinstance(spec, dict)


def dtype_of(spec):
    """The element type of a spelled tensor."""
    if is_object(spec):
        if "encoding" in spec:
            return "bool"
        if "dtype" in spec:
            return spec["dtype"]
        if "data" not in spec:
            return "float32"
        spec = spec["data"]
    flat = _flatten(spec)
    return "bool" if flat and isinstance(flat[0], bool) else "float32"


def _flatten(x):
    out = []
    stack = [x]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        else:
            out.append(item)
    return out


def _shape(x):
    shape = []
    while isinstance(x, (list, tuple)):
        shape.append(len(x))
        if not x:
            break
        x = x[0]
    return tuple(shape)


def shape_of(spec):
    """The shape of a spelled tensor; its elements are not read."""
    return tuple(spec["shape"]) if is_object(spec) else _shape(spec)


def _initial(name, seed, a, shape):
    """torch.nn.init's xavier_ and kaiming_ functions for a weight [fan_out, fan_in]."""
    fan_out, fan_in = shape
    gain = np.sqrt(2 / (1 + a**2))  # torch.nn.init.calculate_gain("leaky_relu", a)
    std = np.sqrt(2 / (fan_in + fan_out)) if name.startswith("xavier") else gain / np.sqrt(fan_in)
    n = fan_out * fan_in
    if name.endswith("normal"):
        return std * rng.normal(seed, n)
    bound = np.sqrt(3) * std
    return -bound + 2 * bound * rng.uniform(seed, n)


def _literal(spec, shape):
    n = int(np.prod(shape, dtype=np.int64))
    seed, std = spec.get("seed", 0), spec.get("std")
    if spec.get("random") == "normal":
        return (1 if std is None else std) * rng.normal(seed, n)
    if spec.get("random") == "uniform":
        u = rng.uniform(seed, n)
        return u if std is None else np.sqrt(12) * std * (u - 0.5)
    if "init" in spec:
        return _initial(spec["init"], seed, spec.get("a", np.sqrt(5)), shape).reshape(n)
    fill = spec["fill"]
    if fill == "zeros":
        return np.zeros(n)
    if fill == "ones":
        return np.ones(n)
    if fill == "arange":
        return np.arange(n)
    if fill == "eye":
        return np.broadcast_to(np.eye(*shape[-2:]), shape).reshape(n)
    raise ValueError(f"unknown literal {spec}")


def read(spec):
    """A spelled tensor as float64 (real numbers), bool or int64; null reads as -infinity."""
    dtype = dtype_of(spec)
    if not is_object(spec):
        shape, flat = _shape(spec), _flatten(spec)
    else:
        shape = tuple(spec["shape"])
        if "encoding" in spec:
            rows = np.frombuffer(base64.b64decode(spec["base64"]), np.uint8).reshape(*shape[:-1], -(-shape[-1] // 8))
            return np.unpackbits(rows, axis=-1, count=shape[-1], bitorder="little").astype(bool)
        if "base64" in spec:
            flat = np.frombuffer(base64.b64decode(spec["base64"]), STORED[dtype])
            if dtype == "bfloat16":
                flat = from_bfloat16(flat)
        elif "data" in spec:
            flat = _flatten(spec["data"])
        else:
            flat = _literal(spec, shape)
            flat = flat if dtype == "float64" else flat.astype(np.float32)
    if isinstance(flat, list):
        flat = [-np.inf if x is None else x for x in flat]
    if dtype in REAL:
        return round_to(np.asarray(flat, np.float64), dtype).reshape(shape)
    return np.asarray(flat, bool if dtype == "bool" else np.int64).reshape(shape)


def write(x, dtype="float32"):
    """An array as {"shape", "dtype", "base64"}."""
    x = np.asarray(x)
    stored = to_bfloat16(x) if dtype == "bfloat16" else x.astype(STORED[dtype])
    data = base64.b64encode(np.ascontiguousarray(stored).tobytes()).decode()
    return {"shape": list(x.shape), "dtype": dtype, "base64": data}


def bytes_of_bits(x):
    """The bytes of booleans that are packed along the last axis."""
    return np.packbits(np.asarray(x, bool), axis=-1, bitorder="little")


def write_bits(x):
    """Booleans, eight in a byte, as {"shape", "encoding", "base64"}."""
    return {"shape": list(x.shape), "encoding": "bits", "base64": base64.b64encode(bytes_of_bits(x).tobytes()).decode()}


def nested(x):
    """An array as nested lists, infinities and NaN as null, as answers spell it."""
    x = np.asarray(x)
    if x.dtype == bool or np.issubdtype(x.dtype, np.integer):
        return x.tolist()
    flat = [float(v) if np.isfinite(v) else None for v in x.reshape(-1)]
    return _nest(flat, x.shape)


def _nest(flat, shape):
    if len(shape) <= 1:
        return flat
    step = int(np.prod(shape[1:], dtype=np.int64))
    return [_nest(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
