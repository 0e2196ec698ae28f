"""The forms of attention beyond the scaled dot product, and what goes around it: learned scores, linear
projections, relative terms, dropout. tests/oracle/attention.py puts them in order."""
import numpy as np

from . import positions, rng, tensors
from .normalizers import normalizer_of
from .masks import Places

FORMS = ("scaled_dot", "dot", "additive", "general", "concat")

SCORE_KINDS = ("alibi", "t5", "relative", "shaw", "disentangled")

def score_of(request):
    """(kind, its tensors by name) of the field `score`."""
    score = request.get("score", "scaled_dot")
    if isinstance(score, str):
        return score, {}
    return score["kind"], {n: tensors.read(x) for n, x in score.items() if n != "kind" and x is not None}


def raw_scores(kind, parameters, q, k):
    """q [.., L, Eq] and k [.., S, Ek] -> [.., L, S]."""
    if kind in ("scaled_dot", "dot"):  # Vaswani et al. (2017), eq. 1; Luong et al. (2015), eq. 8
        return q @ np.swapaxes(k, -1, -2)
    if kind == "general":  # k . (W q): Luong et al. (2015), eq. 8
        return (q @ parameters["w"].T) @ np.swapaxes(k, -1, -2)
    if kind == "additive":  # v . tanh(W_q q + W_k k + b): Bahdanau et al. (2015), appendix A.1.2
        query, key = q @ parameters["w_q"].T, k @ parameters["w_k"].T
        key = key + parameters.get("b", 0.0)
    elif kind == "concat":  # v . tanh(W [k ; q]): Luong et al. (2015), eq. 8
        Ek = k.shape[-1]
        query, key = q @ parameters["w"][:, Ek:].T, k @ parameters["w"][:, :Ek].T
    else:
        raise ValueError(f"no score {kind}")
    return np.tanh(query[..., :, None, :] + key[..., None, :, :]) @ np.ravel(parameters["v"])


def mixed(request, raw):
    """Talking heads: raw scores [.., H, L, S] times logits [mixed head, head]: Shazeer et al. (2020), section 4."""
    if (request.get("mix") or {}).get("logits") is None:
        return raw
    return np.einsum("gh,...hls->...gls", tensors.read(request["mix"]["logits"]), raw)


def weight_mix(request, H):
    """The matrix [output head, head] by which weights are mixed, or None: talking heads, or differential attention, Ye et
    al. (2024), equation 1."""
    if request.get("subtract") is not None:
        pairs, G = request["subtract"]["pairs"], H // 2
        mix = np.zeros((G, H))
        for g in range(G):
            first, second = (2 * g, 2 * g + 1) if pairs == "adjacent" else (g, g + G)
            mix[g, first], mix[g, second] = 1, -np.broadcast_to(tensors.read(request["subtract"]["lambda"]), G)[g]
        return mix
    weights = (request.get("mix") or {}).get("weights")
    if weights is not None and not H:
        raise ValueError("no heads to mix")
    return None if weights is None else tensors.read(weights)


def default_scale(kind, E, position=None):
    terms = 1
    if position is not None and position["kind"] == "disentangled":
        terms += sum(position.get(n) is not None for n in ("key_table", "query_table"))
    return 1.0 / np.sqrt(max(E, 1) * terms) if kind == "scaled_dot" else 1.0


def dropped(weights, p, seed):
    """Weights [B.., H, L, S] after inverted dropout: the cell whose row-major index is n falls out when the
    n-th uniform number of the seed is below p."""
    kept = rng.uniform_at(seed, np.arange(weights.size)).reshape(weights.shape) >= p
    return np.where(kept, weights / (1.0 - p), 0.0)


def vector_terms(position, q, k, distance):
    """What tables of vectors by distance add to the raw scores: q . a_ij of Shaw et al. (2018), eq. 4, or
    q . K_r + k . Q_r of He et al. (2021), eq. 4, with r from i - j."""
    disentangled, shape = position["kind"] == "disentangled", q.shape[:-1] + distance.shape[-1:]
    terms = np.zeros(shape)
    for name, rows in (("key_table", q), ("query_table", k)):
        if position.get(name) is None:
            continue
        table = np.swapaxes(tensors.read(position[name]), -1, -2)
        row_of = positions.disentangled_row if disentangled else positions.clipped_known
        known, place = (np.broadcast_to(x, shape) for x in row_of(table, distance, *(
            [position.get("max_distance")] if disentangled else [])))
        products = rows @ table
        if name == "query_table":  # [.., S, rows]: the row of each query
            found = np.swapaxes(np.take_along_axis(products, np.swapaxes(place, -1, -2), axis=-1), -1, -2)
        else:
            found = np.take_along_axis(products, place, axis=-1)
        terms = terms + np.where(known, found, 0.0)
    return terms


def shaw_values(position, weights, distance):
    """sum_j w_ij a_ij, what their eq. 3 adds to the output."""
    table = tensors.read(position["value_table"])
    known, place = (np.broadcast_to(x, weights.shape) for x in positions.clipped_known(np.swapaxes(table, -1, -2), distance))
    if table.ndim == 3:
        vectors = table[np.arange(len(table))[:, None, None], place]
    else:
        vectors = table[place]
    return (np.where(known, weights, 0.0)[..., None] * vectors).sum(-2)


def linear(x, weight, bias):
    """x W^T + b with W [out, in]; without W, x."""
    if weight is None:
        return x
    y = x @ tensors.read(weight).T
    return y if bias is None else y + tensors.read(bias)


def drawn(request):
    """The request with projections of a seed replaced by the matrices with which
    torch.nn.MultiheadAttention begins: in_proj_weight by xavier_uniform_, out_proj as a Linear, biases 0."""
    p = request.get("projections", {})
    if "seed" not in p:
        return request
    q = request["query"]
    k = q if request.get("key") is None else request["key"]
    v = k if request.get("value") is None else request["value"]
    D, Dk, Dv = (tensors.shape_of(x)[-1] for x in (q, k, v))
    kv = D // p["num_heads"] * p.get("num_kv_heads", p["num_heads"])
    shapes = {"q": (D, D), "k": (kv, Dk), "v": (kv, Dv), "o": (D, D)}
    packed = D + 2 * kv if D == Dk == Dv else None
    made, first = {n: x for n, x in p.items() if n != "seed"}, 0
    for n, (fan_out, fan_in) in shapes.items():
        bound = fan_in**-0.5 if n == "o" else (6 / (fan_in + (packed or fan_out))) ** 0.5
        numbers = bound * (2 * rng.uniform(p["seed"], fan_out * fan_in, first) - 1)
        first += fan_out * fan_in
        made["w_" + n] = tensors.write(numbers.reshape(fan_out, fan_in))
        made["b_" + n] = {"shape": [fan_out], "fill": "zeros"}
    return request | {"projections": made}


def positions_of(request):
    """The kinds of position, one or two, as objects."""
    given = request.get("position") or []
    given = given if isinstance(given, list) else [given]
    return [{"kind": p} if isinstance(p, str) else p for p in given]


def position_of(request, scores=False):
    """The kind that changes queries and keys, or the kind that changes scores."""
    return next((p for p in positions_of(request) if (p["kind"] in SCORE_KINDS) == scores), {"kind": None})


def encoded(request, position, qkv, layout):
    """Query, key and value plus the encodings of their rows' positions, if the position is an encoding: new keys
    stand behind the cached ones, queries at query_offset."""
    if position["kind"] not in ("sinusoidal", "learned"):
        return qkv
    heads = {"BHLE": qkv[0].ndim > 3, "BLHE": True, "BLD": False}[layout]
    axis = -3 if layout == "BLHE" else -2
    past = tensors.shape_of(request["past_key"])[-2] if request.get("past_key") is not None else 0
    lead = qkv[0].shape[:qkv[0].ndim - 2 - heads]
    places = Places(lead, None, qkv[0].shape[axis], past + qkv[1].shape[axis], past)
    keys = positions.key_places(places, request)
    keys = (keys if keys.ndim == 1 else keys[..., 0, 0, :])[..., past:]
    sums = []
    for x, at in zip(qkv, (positions.query_places(places, request)[..., 0, :, 0], keys, keys)):
        known, at = ~np.isnan(at), np.where(np.isnan(at), 0, at).astype(np.int64)
        encoding = known[..., None] * (
            tensors.read(position["table"])[at] if position["kind"] == "learned" else
            positions.sinusoidal(at, x.shape[-1], position.get("layout", "interleaved")))
        sums.append(x + (np.expand_dims(encoding, -2 if layout == "BLHE" else -3) if heads else encoding))
    return tuple(sums)


def project(request):
    """(query, key, value) of a request with projections, [.., L, heads * width]: multi-head attention,
    Vaswani et al. (2017), section 3.2.2. Encodings of positions come first."""
    p = request["projections"]
    query = tensors.read(request["query"])
    key = tensors.read(request["key"]) if request.get("key") is not None else query
    value = tensors.read(request["value"]) if request.get("value") is not None else key
    position = {"kind": "sinusoidal"} if p.get("add_positions") else position_of(request)
    query, key, value = encoded(request, position, (query, key, value), "BLD")
    return tuple(linear(x, p.get("w_" + n), p.get("b_" + n)) for n, x in zip("qkv", (query, key, value)))


def count_parameters(request):
    """How many numbers the learned parts of a request hold: score, projections, position tables, sinks and scales by row."""
    holders = [request.get(n) for n in ("score", "projections", "mix", "subtract")] + [normalizer_of(request), *positions_of(request)]
    given = [x for h in holders if isinstance(h, dict) for n, x in h.items() if is_parameter(n) and x is not None]
    by_row = [x for x in (request.get("sinks"), request.get("scale")) if x is not None and not isinstance(x, (int, float))]
    return sum(int(np.prod(tensors.shape_of(x))) for x in given + by_row)


def is_parameter(name):
    return name in ("w", "v", "b", "bias", "table", "key_table", "value_table", "query_table", "slopes", "frequencies", "logits", "weights", "lambda") or name[:2] in ("w_", "b_")
