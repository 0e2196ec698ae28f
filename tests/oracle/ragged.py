"""Ragged batches: each batch entry is a request of its own with a batch of 1."""
import numpy as np

from . import tensors

OPERANDS = ("query", "key", "value")
OF_CELLS = ("attn_mask", "attn_bias", "top_k_indices")
OF_KEYS = ("key_positions", "key_padding_mask", "token_ids", "document_ids", "parents")
CACHES = ("past_key", "past_value")
ITEMS = (*CACHES, *OF_CELLS, *OF_KEYS, "query_positions")  # fields with an item for each entry
LENGTHS = ("prefix_lengths", "key_lengths")  # of masks that others combine: a number for each entry
KINDS = {"attn_mask": "bool", "key_padding_mask": "bool", "attn_bias": "float32", "past_key": "float32", "past_value": "float32"}


def is_packed(request):
    return "query_lengths" in request or "cu_seqlens" in request


def is_ragged(request):
    """Whether the entries have lengths of their own: packed tensors, or lists whose items differ in shape."""
    lists = (request[n] for n in (*OPERANDS, *CACHES) if isinstance(request.get(n), list))
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


def lengths_of(request):
    """The numbers of queries and of keys of each entry, those of caches included."""
    if is_packed(request):
        return [np.diff(x) for x in bounds_of(request)]
    rows = [np.array([np.shape(x)[-2] if np.size(x) else 0 for x in request.get(n, request["query"])]) for n in ("query", "key")]
    return [rows[0], rows[1] + [np.shape(x)[-2] if np.size(x) else 0 for x in request.get("past_key", [[]] * len(rows[1]))]]


def item(request, name, x, b):
    """The item of entry b of the field's value, with a batch axis; of no rows, in the shape that JSON cannot say."""
    queries, keys = lengths_of(request)
    lengths = queries if name == "query_positions" else keys
    if name in CACHES:
        return entry(x, b)
    if name not in OF_CELLS and np.ndim(x[0]) == 0:
        first = lengths[:b].sum()
        found = np.array(x[first:first + lengths[b]])
    else:
        found = np.array(x[b])
    if not found.size:
        found = found.reshape((queries[b], keys[b]) if name in OF_CELLS else (0,))
    return tensors.write(found[None], KINDS.get(name, "int64"))


def masks(request, x, b):
    """A mask that others combine, or a list of these, with the items of entry b."""
    if isinstance(x, list):
        return [masks(request, mask, b) for mask in x]
    return {name: masks(request, value, b) if name in ("any_of", "all_of", "not") else item(request, name, value, b) if name in ITEMS
            else [value[b]] if name in LENGTHS else value for name, value in x.items()}


def entries(request):
    """The requests of the entries, in order."""
    own = {n: request[n] for n in (*ITEMS, "any_of", "all_of", "not") if n in request}
    return [entry | masks(request, own, b) for b, entry in enumerate(operands(request))]


def operands(request):
    """The requests of the entries without their items."""
    common = {n: x for n, x in request.items() if n not in (*OPERANDS, *ITEMS, "query_lengths", "cu_seqlens")}
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
