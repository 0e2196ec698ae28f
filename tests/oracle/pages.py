"""Page caches: key j of batch entry b is row j % T of page block_table[b, j // T] (Kwon et al. 2023).
The axes of a pool are pages, rows, heads and elements, or with the block_layout HND pages, heads, rows and elements."""
import numpy as np

from . import tensors


def by_rows(pool, request):
    """The pool, or its gradient, with rows before heads, or back."""
    return np.swapaxes(pool, 1, 2) if request.get("block_layout") == "HND" else pool


def gathered(request):
    """The request with key and value in one piece, zeros behind the keys of each entry."""
    if request.get("block_table") is None:
        return request
    table = np.asarray(tensors.read(request["block_table"])).astype(int)
    lengths = np.asarray(tensors.read(request["key_lengths"])).astype(int)
    made = {name: x for name, x in request.items() if name not in ("block_table", "block_layout")}
    for name in ("key", "value"):
        if request.get(name) is None:
            continue
        pool = by_rows(tensors.read(request[name]), request)
        out = np.zeros((len(lengths), lengths.max(initial=0), *pool.shape[2:]))
        for b, length in enumerate(lengths):
            for j in range(length):
                out[b, j] = pool[table[b, j // pool.shape[1]], j % pool.shape[1]]
        out = out if request.get("layout", "BHLE") == "BLHE" else np.swapaxes(out, 1, 2)
        made[name] = tensors.write(out, tensors.dtype_of(request[name]))
    return made


def scattered(request, gradient, name):
    """The gradient of a pool: that of each row is the sum over the keys, or values, that are gathered from it."""
    table = np.asarray(tensors.read(request["block_table"])).astype(int)
    pool = by_rows(np.zeros(tensors.shape_of(request[name])), request)
    rows = gradient if request.get("layout", "BHLE") == "BLHE" else np.swapaxes(gradient, 1, 2)
    for b, length in enumerate(np.asarray(tensors.read(request["key_lengths"])).astype(int)):
        for j in range(length):
            pool[table[b, j // pool.shape[1]], j % pool.shape[1]] += rows[b, j]
    return by_rows(pool, request)
