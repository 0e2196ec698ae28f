"""Positions: biases by distance, rotations, tables; and POST /v1/positions.

Row i stands at p = i + query_offset, key j at j, unless the request gives query_positions and key_positions
(None: NaN here, not encoded); their distance is that of the key less that of the row. Nothing here is rounded:
T5's logarithm is decided in whole numbers, so that no bucket depends on a library's log().
"""
import numpy as np

from . import rng, tensors
from .masks import offset_of

BASE = 10000.0
BIASES = ("alibi", "t5", "relative")


def alibi_slopes(H):
    """Press, Smith and Lewis (2022), section 3 and its reference code: a geometric sequence that starts at
    its own ratio 2^(-8/n) for n a power of two; else that of the power below, then every other slope of
    the power above."""
    n = 1 << max(0, H.bit_length() - 1)
    if H == 0:
        return np.zeros(0)
    if n == H:
        return np.array([2.0 ** (-8 * (h + 1) / H) for h in range(H)])
    return np.concatenate((alibi_slopes(n), alibi_slopes(2 * n)[0::2][: H - n]))


def t5_bucket(distance, buckets, max_distance, bidirectional):
    """Raffel et al. (2020), section 2.1: half of the buckets for exact distances, the others widen
    logarithmically up to max_distance. floor(log(n / e) / log(m / e) * w) >= t when n^w e^t >= e^w m^t."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if distance > 0 else 0
        n = abs(distance)
    else:
        n = max(-distance, 0)
    exact = buckets // 2
    if n < exact:
        return first + n
    wide = buckets - exact
    t = 0
    while t + 1 < wide and n**wide * exact ** (t + 1) >= exact**wide * max_distance ** (t + 1):
        t += 1
    return first + exact + t


def clipped(table, distance):
    """The column of a [.., 2m + 1] table for each distance."""
    reach = table.shape[-1] // 2
    return np.clip(distance, -reach, reach) + reach


def bias(position, H, distance):
    """What ALiBi, T5 or relative positions add: [.., H, L, S] for distances [.., 1, L, S]; 0 where one has none."""
    known = ~np.isnan(distance)
    return np.where(known, known_bias(position, H, np.where(known, distance, 0).astype(np.int64)), 0.0)


def clipped_known(table, distance):
    """Whether each distance is known, and its column of a [.., 2m + 1] table."""
    known = ~np.isnan(distance)
    return known, clipped(table, np.where(known, distance, 0).astype(np.int64))


def disentangled_row(table, distance, max_distance=None):
    """Whether each distance j - i is known, and its column of a [.., 2m] table: m + i - j, clipped; with a largest
    distance M the bucket of i - j, make_log_bucket_position of DeBERTa. The bucket of n beyond m/2 is the least
    m/2 + t with (n / (m/2))^(m/2 - 1) <= ((M - 1) / (m/2))^t, decided in whole numbers."""
    m = table.shape[-1] // 2
    known = ~np.isnan(distance)
    back = -np.where(known, distance, 0).astype(np.int64)
    if max_distance is not None:
        half, most = m // 2, max_distance - 1
        found = {}
        for n in np.unique(np.abs(back)):
            n, t = int(n), 0
            while n > half and t <= half and n ** (half - 1) * half**t > most**t * half ** (half - 1):
                t += 1
            found[n] = min(n, half) + t
        back = np.sign(back) * np.vectorize(lambda n: found[int(n)], otypes=[np.int64])(np.abs(back))
    return known, np.clip(back, -m, m - 1) + m


def known_bias(position, H, distance):
    kind = position["kind"]
    if kind == "alibi":
        given = position.get("slopes")
        slopes = alibi_slopes(H) if given is None else tensors.read(given)
        return -slopes[:, None, None] * np.abs(distance)
    table = tensors.read(position["table"])
    if kind == "t5":
        options = (table.shape[0], position.get("max_distance", 128), position.get("bidirectional", True))
        seen = {int(d): t5_bucket(int(d), *options) for d in np.unique(distance)}
        place = np.vectorize(lambda d: seen[int(d)], otypes=[int])(distance)
        by_head = table.T
    else:
        place, by_head = clipped(table, distance), table
    return np.moveaxis(by_head[:, place[..., 0, :, :]], 0, -3)


def distances(places, request):
    """For each row and key, [.., 1, L, S] in the batch axes of the weights."""
    return key_places(places, request) - query_places(places, request)


def given(places, request, name):
    """query_positions or key_positions as [.., 1, n], NaN for None; None: not in the request."""
    value = request.get(name)
    if value is None:
        return None
    if isinstance(value, dict):
        x = np.asarray(tensors.read(value), float)
        x = np.where(x == float(-2**63), np.nan, x)
    else:
        x = np.array(value, dtype=float)  # None becomes NaN
    if x.ndim == 2:
        x = np.broadcast_to(x, (int(np.prod(places.batch, dtype=int)), x.shape[1])).reshape(places.batch + x.shape[1:])
    return x[..., None, :]


def key_places(places, request):
    """Where each key stands, [.., 1, 1, S]."""
    x = given(places, request, "key_positions")
    return np.arange(places.S, dtype=float) if x is None else x[..., None, :]


def query_places(places, request):
    """Where each row stands, [.., 1, L, 1]."""
    x = given(places, request, "query_positions")
    if x is not None:
        return x[..., None]
    offset = np.asarray(offset_of(places, request)).astype(np.int64)
    if np.ndim(offset) == 0:
        offset = np.reshape(offset, (1, 1, 1))
    elif places.heads is None:
        offset = offset[..., None, :, :]
    return np.arange(places.L)[:, None] + offset


def angles(length, dims, base=BASE):
    """position * base^(-2t / dims) for pair t; `length` = how many positions, or the positions."""
    p = np.arange(length) if np.ndim(length) == 0 else np.asarray(length)
    return p[..., None] * base ** (-2.0 * np.arange(dims // 2) / dims)


def scaled_frequencies(scaling, base, dims, length):
    """The frequencies of a scaling and its factor of cosines and sines, in float32 as transformers
    computes them (modeling_rope_utils.py, 2025); the sources of the formulas are in attn/forms.h."""
    one, kind, f = np.float32, scaling["kind"], scaling.get("factor", 1.0)
    known = scaling.get("original_max_position_embeddings")
    if kind == "dynamic":
        base *= (f * max(length, known) / known - (f - 1)) ** (dims / (dims - 2))
    power = np.arange(0, dims, 2, dtype=one) / one(dims)
    wave = (np.float64(one(base)) ** power.astype(np.float64)).astype(one)
    theta, attention = one(1) / wave, 1.0
    if kind == "linear":
        theta = theta / one(f)
    elif kind == "longrope":
        divisors = tensors.read(scaling["long_factor" if length > known else "short_factor"]).astype(one)
        theta = one(1) / (divisors * wave)
        attention = np.sqrt(1 + np.log(f) / np.log(known))
    elif kind == "yarn":
        ends = [dims * np.log(known / (scaling.get(name, standard) * 2 * np.pi)) / (2 * np.log(base))
                for name, standard in (("beta_fast", 32), ("beta_slow", 1))]
        if scaling.get("truncate", True):
            ends = [np.floor(ends[0]), np.ceil(ends[1])]
        low, high = max(ends[0], 0), min(ends[1], dims - 1)
        ramp = (np.arange(dims // 2, dtype=one) - one(low)) / one((high if high != low else high + 0.001) - low)
        keep = one(1) - np.clip(ramp, 0, 1).astype(one)
        theta = one(1) / (one(f) * wave) * (one(1) - keep) + one(1) / wave * keep
        gains = [0.1 * m * np.log(f) + 1 for m in (scaling.get("mscale", 1), scaling.get("mscale_all_dim", 0))]
        attention = gains[0] / gains[1]
    elif kind == "llama3":
        low, high = scaling.get("low_freq_factor", 1.0), scaling.get("high_freq_factor", 4.0)
        turns = one(known) / (one(2 * np.pi) / theta)
        part = np.clip((turns - one(low)) / one(high - low), 0, 1).astype(one)
        theta = (one(1) - part) * theta / one(f) + part * theta
    return theta.astype(np.float64), scaling.get("attention_factor", attention)


def frequencies(position, dims, length):
    """(frequency of each pair, whether angles are float32 products, factor of cosines and sines)."""
    factor, own = position.get("factor", 1.0), position.get("frequencies")
    if own is not None:
        return tensors.read(own), tensors.dtype_of(own) != "float64", factor
    base = position.get("base", BASE)
    if "axes" in position:
        theta, attention = scaled_frequencies(position.get("scaling", {"kind": None}), base, dims, length)
        axis = np.array(pair_axes(position["axes"]))
        for i, a in enumerate(position["axes"]):
            if "base" in a:
                theta[axis == i] = scaled_frequencies({"kind": None}, a["base"], 2 * (axis == i).sum(), 0)[0]
        return theta, True, factor * attention
    if "scaling" in position:
        theta, attention = scaled_frequencies(position["scaling"], base, dims, length)
        return theta, True, factor * attention
    return base ** (-2.0 * np.arange(dims // 2) / dims), False, factor


def turns(position, places, dims, length):
    """cos and sin of the angle of each pair, times the factor, for positions [.., n, 1] or [.., n, pairs]."""
    theta, single, factor = frequencies(position, dims, length)
    at = np.asarray(places, np.float64)
    if single:
        angle = (at.astype(np.float32) * theta.astype(np.float32)).astype(np.float64)
    else:
        angle = at * theta
    return factor * np.cos(angle), factor * np.sin(angle)


def pair_axes(axes):
    """The axis of each pair: blocks, or neighbouring interleaved axes in turn, of which the first has the rest."""
    found, first = [], 0
    while first < len(axes):
        last = first + 1
        while axes[first].get("interleaved") and last < len(axes) and axes[last].get("interleaved"):
            last += 1
        counts = [a["num_pairs"] for a in axes[first:last]]
        block = np.full(sum(counts), first)
        for i, n in enumerate(counts[1:], 1):
            block[i : i + n * len(counts) : len(counts)] = first + i
        found += block.tolist()
        first = last
    return found


def axis_places(places, axes, name):
    """Positions on each axis [.., 1, n, axes], NaN for None and -infinity."""
    lists = []
    for a in axes:
        x = given(places, {"at": a.get(name, a.get("positions"))}, "at")
        lists.append(np.where(np.isneginf(x), np.nan, x))
    return np.stack(np.broadcast_arrays(*lists), axis=-1)


def rotary_places(places, request, position):
    """The positions by which queries and keys turn, [.., 1, n], with axes [.., 1, n, axes]."""
    if "axes" in position:
        return tuple(axis_places(places, position["axes"], name) for name in ("query_positions", "key_positions"))
    keys = key_places(places, request)
    return query_places(places, request)[..., 0], keys if keys.ndim == 1 else keys[..., 0, :]


def rotate(x, places, position, length=0):
    """x [.., n, E] turned by its positions [.., n] (or those on axes, [.., n, axes]): Su et al. (2021), equation 34; pair t is the
    coordinates 2t and 2t + 1 (interleaved) or t and t + dims/2 (halves) behind `start`. A row without
    a position (NaN) stays. `length`: the largest position of a key + 1."""
    start, own = position.get("start", 0), position.get("frequencies")
    dims = position.get("dims") or (x.shape[-1] - start if own is None else 2 * tensors.shape_of(own)[0])
    places = np.asarray(places, np.float64)
    if "axes" in position:
        places = places[..., pair_axes(position["axes"])]
        dims = 2 * places.shape[-1]
    else:
        places = places[..., None]
    known = ~np.isnan(places)
    cos, sin = turns(position, np.where(np.isnan(places), 0, places), dims, length)
    if position["layout"] == "interleaved":
        first, second = start + np.arange(0, dims, 2), start + np.arange(1, dims, 2)
    else:
        first, second = start + np.arange(dims // 2), start + np.arange(dims // 2, dims)
    turned = np.broadcast_to(x, np.broadcast_shapes(x.shape, cos.shape[:-1] + x.shape[-1:])).copy()
    a, b = turned[..., first].copy(), turned[..., second].copy()
    turned[..., first] = np.where(known, a * cos - b * sin, a)
    turned[..., second] = np.where(known, a * sin + b * cos, b)
    return turned


def sinusoidal(places, width, layout="interleaved"):
    """Vaswani et al. (2017), section 3.5, for a number of positions or the positions [.., n]."""
    angle = angles(places, width)
    if layout == "halves":
        return np.concatenate((np.sin(angle), np.cos(angle)), axis=-1)
    table = np.empty(angle.shape[:-1] + (width,))
    table[..., 0::2], table[..., 1::2] = np.sin(angle), np.cos(angle)
    return table


def learned(length, width, seed, std=0.02):
    """The initial table of a learned embedding."""
    return std * rng.normal(seed, length * width).reshape(length, width)


def shift(row):
    """M_k of PE(p + k) = M_k PE(p), made from the row PE(k) of an interleaved table: one rotation a pair."""
    matrix = np.zeros((len(row), len(row)))
    for t in range(0, len(row), 2):
        sine, cosine = row[t], row[t + 1]
        matrix[t : t + 2, t : t + 2] = [[cosine, sine], [-sine, cosine]]
    return matrix
