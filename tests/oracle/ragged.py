"""Ragged batches: each batch entry is a request of its own with a batch of 1."""
import numpy as np

from . import tensors

OPERANDS = ("query", "key", "value")


def is_packed(request):
    return "query_lengths" in request or "cu_seqlens" in request


def is_ragged(request):
    """Whether the entries have lengths of their own: packed tensors, or lists whose items differ in shape."""
    lists = (request[n] for n in OPERANDS if isinstance(request.get(n), list))
    return is_packed(request) or any(len({np.shape(item) for item in x}) > 1 for x in lists)


def bounds_of(request):
    """The first rows of the entries and the end of the last one, of queries and of keys."""
    if "cu_seqlens" in request:
        sums = np.atleast_2d(tensors.read(request["cu_seqlens"])).astype(int)
        return sums[0], sums[-1]
    lengths = request["query_lengths"], request.get("key_lengths", request["query_lengths"])
    return tuple(np.concatenate(([0], np.cumsum(tensors.read(x)))).astype(int) for x in lengths)


def entry(items, b):
    """Item b of a list, with a batch axis. JSON cannot say how wide no rows are: that is the width of the other items."""
    if np.size(items[b]):
        return [items[b]]
    lead = np.shape(items[b])[:-1]
    width = next((np.shape(x)[-1] for x in items if np.size(x)), 0)
    return tensors.write(np.zeros((1, *lead, 0, width)), "float32")


def entries(request):
    """The requests of the entries, in order."""
    common = {n: x for n, x in request.items() if n not in (*OPERANDS, "query_lengths", "cu_seqlens")}
    given = [n for n in OPERANDS if n in request]
    if not is_packed(request):
        return [common | {n: entry(request[n], b) for n in given} for b in range(len(request["query"]))]
    common.pop("key_lengths", None)
    queries, keys = bounds_of(request)
    whole = {n: tensors.read(request[n]) for n in given}
    if whole["query"].ndim == 3:
        common["layout"] = "BLHE"

    def rows(name, b):
        at = queries if name == "query" else keys
        return tensors.write(whole[name][None, at[b]:at[b + 1]], tensors.dtype_of(request[name]))

    return [common | {n: rows(n, b) for n in given} for b in range(len(queries) - 1)]
