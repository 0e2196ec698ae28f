"""Who may see whom: every mask of a request resolved to `keep` (bool) and `added` (float64).

Both have the shape of the weights, [batch.., H, L, S] (no H axis where the query has none). Yes/no
parts are combined by AND into `keep`, float parts are summed into `added`, where -infinity hides too.
"""
from collections import namedtuple

import numpy as np

from . import tensors

# Rows i (indices of their own keys), their positions p, those of keys j; free: one of the two has none (p and j are 0).
Rows = namedtuple("Rows", "i p j free")


class Places:
    """Where queries and keys stand: batch axes, heads (None: no head axis), L queries, S keys."""

    def __init__(self, batch, heads, L, S, past=0):
        self.batch, self.heads, self.L, self.S, self.past = tuple(batch), heads, L, S, past

    @property
    def shape(self):
        head_axis = () if self.heads is None else (self.heads,)
        return self.batch + head_axis + (self.L, self.S)

    def per_batch(self, x):
        """[B] or [B, S] for the flattened batch -> something that broadcasts to `shape`."""
        x = np.asarray(x)
        tail = x.shape[1:]
        lead = self.batch if x.shape[0] == np.prod(self.batch, dtype=int) else (1,) * len(self.batch)
        ones = (1,) * ((0 if self.heads is None else 1) + (1 if tail else 2))
        return x.reshape(lead + ones + tail)


def without_ones(x, rank):
    """x without further axes of length 1 in front."""
    while x.ndim > rank and x.shape[0] == 1:
        x = x[0]
    return x


def with_heads_of(places, x):
    """A mask [batch.., 1, L, S] of weights without heads, or [batch.., L, S] of weights with one head, with their axes."""
    n = len(places.batch)
    if places.heads is None and x.ndim == n + 3 and x.shape[-3] == 1:
        return x[..., 0, :, :]
    if places.heads == 1 and n > 0 and x.ndim == n + 2 and x.shape[-3] != 1:
        return x[..., None, :, :]
    return x


def read_padding(places, x):
    """A padding tensor aligned to the weights: [S], [B, S] for all batch axes together, or [batch.., S]."""
    whole = places.batch + (places.S,)
    if x.ndim == 2 and len(places.batch) != 1:
        x = np.broadcast_to(x, (np.prod(places.batch, dtype=int), places.S)).reshape(whole)
    x = np.broadcast_to(without_ones(x, len(whole)), whole)
    return x.reshape(places.batch + (1,) * (1 if places.heads is None else 2) + (places.S,))


def lengths_of(places, request):
    lengths = np.asarray(tensors.read(request["key_lengths"])).reshape(-1)
    return places.per_batch(lengths)


def offset_of(places, request):
    """Row i stands at key position i + offset: an integer, or one a batch entry."""
    given = request.get("query_offset")
    if given is None:
        return places.past
    if given == "end":
        end = places.S if request.get("key_lengths") is None else lengths_of(places, request)
        return end - places.L
    return places.per_batch(np.atleast_1d(np.asarray(given, np.int64)))


def read_values(mask, semantics):
    """An attn_mask as (keep, added), in its own shape."""
    x = tensors.read(mask)
    if x.dtype == bool:
        return ~x if semantics == "hide" else x, np.zeros(x.shape)
    zero_or_one = np.isin(x, (0, 1)).all()
    if semantics in ("keep", "hide"):
        if not zero_or_one:
            raise ValueError("keep and hide accept only 0 and 1")
        return (x == 1) if semantics == "keep" else (x == 0), np.zeros(x.shape)
    if semantics == "nonzero":
        return x != 0, np.zeros(x.shape)
    if semantics is None and zero_or_one:
        raise ValueError("a mask of zeros and ones needs mask_semantics")
    return np.ones(x.shape, bool), x


def pattern_keep(pattern, p, j):
    """Does the row at position p see key j? Arrays that broadcast."""
    kind = pattern["kind"]
    if kind == "local":
        return np.abs(j - p) <= pattern["radius"]
    if kind == "strided":  # Child et al. (2019), section 4.2
        return ((p - j) % pattern["stride"] == 0) | (np.abs(j - p) <= pattern["local"])
    if kind == "block":
        return p // pattern["size"] == j // pattern["size"]
    if kind == "global":  # Beltagy, Peters and Cohan (2020)
        return ((j >= 0) & (j < pattern["num_keys"])) | ((p >= 0) & (p < pattern["num_keys"])) | (np.abs(j - p) <= pattern["local"])
    if kind == "block_causal":  # Arriola et al. (2025)
        return j // pattern["size"] <= p // pattern["size"]
    if kind == "full":
        return np.broadcast_to(True, np.broadcast_shapes(np.shape(p), np.shape(j)))
    raise ValueError(f"no pattern {kind}")


def window_keep(window, p, j):
    left, right = window
    return ((left < 0) | (j >= p - left)) & ((right < 0) | (j <= p + right))


def by_head(places, given, keep_of):
    """keep_of(the one of all heads), or of each head its own of a list."""
    if len(given) == 1:
        return keep_of(given[0])
    keep = np.ones(places.shape, bool)
    for h, one in enumerate(given):
        keep[..., h, :, :] = np.broadcast_to(keep_of(one), (*places.shape[:-3], 1, places.L, places.S))[..., 0, :, :]
    return keep


def by_entry(places, numbers, i, sees):
    """keep of a mask by the key at each query's position: sees(numbers [S] of an entry, this key) -> [S] booleans."""
    table = read_padding(places, np.asarray(tensors.read(numbers)))
    table = np.broadcast_to(table, (*places.batch, *table.shape[len(places.batch) :]))
    keep = np.zeros(places.shape, bool)
    i = np.broadcast_to(i, (*places.shape[:-1], 1))
    for at in np.ndindex(places.shape[:-1]):
        row, own = table[at[: len(places.batch)]].reshape(-1), int(i[at][0])
        if 0 <= own < places.S:
            keep[at] = sees(row, own)
    return keep


def branch(parents, key):
    """The key and its ancestors."""
    seen = np.zeros(len(parents), bool)
    while key >= 0:
        seen[key] = True
        key = int(parents[key])
    return seen


def lists(places, indices):
    """keep of [.., L, k] indices of keys, -1 for none."""
    x = np.asarray(tensors.read(indices))
    x = without_ones(with_heads_of(places, x), len(places.shape))
    x = np.broadcast_to(x, (*places.shape[:-1], x.shape[-1]))
    return (x[..., None] == np.arange(places.S)).any(axis=-2)


def resolve_parts(places, parts, rows):
    """keep of each mask of a list."""
    for part in parts if isinstance(parts, list) else [parts]:
        yield resolve_at(places, {**part, "is_causal": part["kind"] == "causal"}, rows)[0]


def resolve(places, request):
    """(keep, added) of all masks of a request."""
    return resolve_at(places, request, rows_of(places, request))


def rows_of(places, request):
    from . import positions  # which needs this module

    i, j = np.arange(places.L).reshape(-1, 1) + offset_of(places, request), np.arange(places.S)
    if not request.get("mask_positions"):
        return Rows(i, i, j, False)
    p, k = positions.query_places(places, request), positions.key_places(places, request)
    p, k = (x[..., 0, :, :] if places.heads is None and x.ndim > 2 else x for x in (p, k))
    free = np.isnan(p) | np.isnan(k)
    return Rows(i, *(np.where(np.isnan(x), 0, x).astype(np.int64) for x in (p, k)), free)


def resolve_at(places, request, rows):
    """(keep, added) of the masks of a request, or of a mask of a list, with these rows and keys."""
    keep = np.ones(places.shape, bool)
    added = np.zeros(places.shape)
    j, i = np.arange(places.S), rows.i

    if request.get("is_causal"):
        keep &= (rows.j <= rows.p) | rows.free
    if request.get("window") is not None:
        windows = request["window"] if isinstance(request["window"][0], list) else [request["window"]]
        keep &= by_head(places, windows, lambda window: window_keep(window, rows.p, rows.j) | rows.free)
    if request.get("pattern") is not None:
        patterns = request["pattern"] if isinstance(request["pattern"], list) else [request["pattern"]]
        keep &= by_head(places, patterns, lambda pattern: pattern_keep(pattern, rows.p, rows.j) | rows.free)
    if request.get("attn_mask") is not None:
        kept, bias = read_values(request["attn_mask"], request.get("mask_semantics"))
        keep &= without_ones(with_heads_of(places, kept), keep.ndim)
        added += without_ones(with_heads_of(places, bias), keep.ndim)
    if request.get("attn_bias") is not None:
        _, bias = read_values(request["attn_bias"], "additive")
        added += without_ones(bias, keep.ndim)
    if request.get("key_padding_mask") is not None:
        mask = tensors.read(request["key_padding_mask"]).astype(bool)
        real = mask if request["key_padding_semantics"] == "keep" else ~mask
        keep &= read_padding(places, real)
    if request.get("key_lengths") is not None:
        keep &= j < lengths_of(places, request)
    if request.get("token_ids") is not None:
        ids = np.asarray(tensors.read(request["token_ids"]))
        keep &= read_padding(places, ids != request.get("pad_id", 0))
    if request.get("document_ids") is not None:
        keep &= by_entry(places, request["document_ids"], i, lambda ids, key: ids == ids[key])
    if request.get("prefix_lengths") is not None:
        lengths = places.per_batch(np.asarray(tensors.read(request["prefix_lengths"])).reshape(-1))
        keep &= (rows.j < lengths) | rows.free
    if request.get("parents") is not None:
        keep &= by_entry(places, request["parents"], i, branch)
    if request.get("top_k_indices") is not None:
        keep &= lists(places, request["top_k_indices"])
    if request.get("any_of") is not None:
        keep &= np.any(list(resolve_parts(places, request["any_of"], rows)), axis=0)
    if request.get("all_of") is not None:
        keep &= np.all(list(resolve_parts(places, request["all_of"], rows)), axis=0)
    if request.get("not") is not None:
        (hidden,) = resolve_parts(places, request["not"], rows)
        keep &= ~hidden
    return keep, added


def runs(keep):
    """[row, from, to] for each run of True in a [R, C] array, rows ascending."""
    found = []
    for row, line in enumerate(keep):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], line.astype(np.int8), [0]))))
        found += [[row, int(a), int(b)] for a, b in zip(edges[::2], edges[1::2])]
    return found
