"""Arrays and what NumPy prints of them, as C initialisers for tests/unit/test_text_tensor.c:

    python tests/oracle/text_cases.py > tests/unit/text_tensor_cases.inc

The committed file was made with NumPy 2.4.6. An array is its type, its shape and the bytes of some
elements, which are repeated until the shape is full. It is printed by numpy.array_str, with
suppress_small for ATTN_PRINT_SUPPRESS and an endless threshold for ATTN_PRINT_FULL.
"""
import sys

import numpy as np

TYPES = {"float32": "ATTN_F32", "float16": "ATTN_F16", "float64": "ATTN_F64", "int32": "ATTN_I32",
         "int64": "ATTN_I64", "uint8": "ATTN_U8", "bool": "ATTN_BOOL"}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def chosen():
    f32, f64 = np.float32, np.float64
    yield np.array([[0, 1, 0], [0.84967455, 0.15032545, 0.84967455]], f32), (2, 3)
    yield np.array([[1, 0], [0.15032545, 0.84967455]], f64), (2, 2)
    yield np.array([550, 5.5], f32), (2,)
    yield np.array([1, np.nan, -np.inf], f32), (3,)
    yield np.array([np.nan], f32), (2, 2)
    yield np.array([np.inf, 123456], f64), (5,)
    yield np.array([0.0, -0.0], f32), (4,)
    yield np.array([-1e9, 0, 1], f32), (3, 3)
    yield np.array([999999, 1000000], f32), (1,)
    yield np.array([1000000, 999999], f32), (2,)
    yield np.array([99999999, 1e8], f64), (2,)
    yield np.array([1, 1000], f64), (2,)
    yield np.array([1, 1000.5], f64), (2,)
    yield np.array([0.0001, 0.1], f32), (2,)
    yield np.array([0.00009999, 0.01], f32), (2,)
    yield np.array([1e-300, 1e300], f64), (2,)
    yield np.array([5e-324, 0], f64), (2,)
    yield np.array([1 / 3], f64), (3, 4)
    yield np.array([0.1, 1 / 3, 1e3], np.float16), (3, 5)
    yield np.array([2.0**87, 2.0**90, 2.0**-96], f32), (3,)  # shortest digits are not the nearest
    yield np.array([2.0**-6], np.float16), (2,)
    yield np.array([True, False, True]), (2, 3)
    yield np.array([0, 255, 7], np.uint8), (4, 30)
    yield np.array([-(2**63), 2**63 - 1]), (2,)
    yield np.array([-5, 1234], np.int32), (60,)
    yield np.arange(13), (1001,)
    yield np.arange(13), (1000,)
    yield np.arange(40.0, dtype=f32), (40, 40)
    yield np.arange(7.0, dtype=f64), (7, 300)
    yield np.arange(11) / 7, (11, 5, 30)
    yield np.array([True, False]), (2000,)
    for shape in [(0,), (2, 0), (0, 3), (1, 0, 2)]:
        yield np.zeros(1, f32), shape
    for rank in range(1, 9):
        yield np.arange(6, dtype=f32) / 8, (2,) * rank
    yield np.arange(3), (1,) * 8
    yield np.arange(9, dtype=f32), (3, 1, 2, 1, 2, 3)


def drawn(count):
    rng = np.random.default_rng(20240607)
    for _ in range(count):
        dtype = list(TYPES)[rng.integers(0, 3)]
        shape = tuple(rng.integers(1, 7, rng.integers(1, 4)))
        kind = rng.integers(0, 5)
        x = rng.standard_normal(shape)
        if kind == 1:
            x = softmax(3 * x)
        elif kind == 2:
            x = np.exp(6 * x)
        elif kind == 3:
            x = np.round(x * 10, rng.integers(0, 3))
        elif kind == 4:
            x[rng.random(shape) < 0.3] = rng.choice([np.nan, np.inf, -np.inf, 0.0])
        with np.errstate(over="ignore"):
            yield x.astype(dtype), shape


def small(count):
    """Arrays with small numbers, near the last printed decimal too."""
    f32, f64 = np.float32, np.float64
    yield np.array([8.4e-26, 1, 0.25], f64), (3,)
    yield np.array([-8.4e-26, 1e-9], f32), (2, 2)
    yield np.array([4e-9, 6e-9, 5.1e-9, 1.4e-8, 9.9999999e-5], f64), (5,)
    yield np.array([0.99999999999, 1e-10], f64), (2,)
    yield np.array([1e-5, 3e-3], f32), (2, 3)
    yield np.array([1e-300, 1e9], f64), (2,)
    yield np.array([6e-8, 1], np.float16), (2,)
    yield np.array([0, 5e-324], f64), (2,)
    rng = np.random.default_rng(20261125)
    for _ in range(count):
        shape = tuple(rng.integers(1, 6, rng.integers(1, 4)))
        dtype = [f32, f64][rng.integers(0, 2)]
        x = softmax(30 * rng.standard_normal(shape)) * rng.choice([1, -1, 20])
        yield x.astype(dtype), shape


def literal(text):
    return "".join("\\n" if c == "\n" else c for c in text)


def case(values, shape, flags, text):
    data = "".join("\\x%02x" % b for b in values.tobytes())
    dims = ", ".join(str(n) for n in shape)
    print(f'{{{TYPES[values.dtype.name]}, {len(shape)}, {{{dims}}}, {values.size},\n "{data}",\n'
          f' "{literal(text)}"{flags}}},')


def main():
    print("/* Made by tests/oracle/text_cases.py: {type, rank, shape, elements, bytes, what NumPy prints,\n"
          " * bits of ATTN_PRINT_*}. */")
    for values, shape in [*chosen(), *drawn(120)]:
        case(values, shape, ", 0", np.array_str(np.resize(values, shape)))
    for values, shape in [*small(60), *drawn(40)]:
        case(values, shape, ", ATTN_PRINT_SUPPRESS",
             np.array_str(np.resize(values, shape), suppress_small=True))
    np.set_printoptions(threshold=sys.maxsize)
    for values, shape in chosen():
        if np.prod(shape) > 1000:
            case(values, shape, ", ATTN_PRINT_FULL", np.array_str(np.resize(values, shape)))


if __name__ == "__main__":
    main()
