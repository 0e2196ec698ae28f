"""POST /v1/attention in NumPy float64: softmax(scale * Q K^T + mask) V, Vaswani et al. (2017), eq. 1,
and its other forms.

    >>> from oracle.attention import attention
    >>> attention({"query": [[1, 0, 0], [0, 1, 0]], "key": [[1, 2, 3], [4, 5, 6]],
    ...            "value": [[0, 1, 0], [1, 0, 1]], "is_causal": True})["output"]

Order: projections -> positions that turn -> score, mixed over the heads -> scale -> softcap c*tanh(s/c) -> additive parts ->
hidden cells to -infinity -> softmax, a sink in its denominator, or another normalizer -> dropout -> times value -> last
projection. B batch, Hq query heads, Hkv key/value heads, L queries, S keys (cached ones included), E head
width, Ev value width; query head h uses key/value head h // (Hq // Hkv).
"""
import numpy as np

from . import forms, normalizers, pages, positions, tensors
from .masks import Places, resolve

STAGES = ("raw", "scaled", "softcapped", "biased", "probs")


def split_heads(x, layout, heads):
    """A tensor in its layout -> [batch.., H, L, E] (BHLE of rank 2 and 3: a head axis of 1 is put in)."""
    if layout == "BLD":
        x = x.reshape(x.shape[:-1] + (heads, x.shape[-1] // heads))
    if layout in ("BLD", "BLHE"):
        return np.swapaxes(x, -2, -3)
    return x[..., None, :, :] if x.ndim <= 3 else x


def join_heads(x, layout, rank):
    """The way back, for the output."""
    if layout in ("BLD", "BLHE"):
        x = np.swapaxes(x, -2, -3)
        return x.reshape(x.shape[:-2] + (x.shape[-2] * x.shape[-1],)) if layout == "BLD" else x
    return x[..., 0, :, :] if rank <= 3 else x


def drop_unseen(x, seen, name):
    """Zero what no query may see, so that NaN there changes nothing; complain about NaN that is seen."""
    bad = ~np.isfinite(x)
    if (bad & seen).any():
        at = np.argwhere(bad & seen)[0]
        raise ValueError(f"{name}/{'/'.join(map(str, at))} is not finite")
    return np.where(bad, 0.0, x)


def apply_masks(scores, keep, added, fill):
    """Scores after bias and masks. A finite fill is one float32 addition, as published code does it: a
    fully hidden row is then uniform. What is added is added in any case, -infinity too."""
    biased = scores + added
    if fill is None:
        return np.where(keep, biased, -np.inf)
    if fill["mode"] == "replace":
        return np.where(keep, biased, fill["value"])
    return np.where(keep, biased, (biased.astype(np.float32) + np.float32(fill["value"])).astype(np.float64))


class Operands:
    """The tensors of a request, split into heads: q [.., Hq, L, E], k and v [.., Hkv, S, E | Ev]."""

    def __init__(self, request):
        holder = request
        self.layout = request.get("layout", "BHLE")
        if "projections" in request:
            holder, self.layout = request["projections"], "BLD"
            query, key, value = forms.project(request)
        else:
            query = tensors.read(request["query"])
            key = tensors.read(request["key"]) if request.get("key") is not None else query
            value = tensors.read(request["value"]) if request.get("value") is not None else key
            query, key, value = forms.encoded(request, forms.position_of(request), (query, key, value), self.layout)
        heads = holder.get("num_heads", 1)
        kv_heads = holder.get("num_kv_heads", heads)
        self.rank = query.ndim
        self.has_heads = self.layout != "BHLE" or self.rank >= 4
        self.q = split_heads(query, self.layout, heads)
        self.k = split_heads(key, self.layout, kv_heads)
        self.v = split_heads(value, self.layout, kv_heads // 2 if "subtract" in request else kv_heads)
        self.past = 0
        position = forms.position_of(request)
        rotary = position.get("kind") == "rotary"
        if request.get("past_key") is not None:
            past_key = self.with_head_axis(tensors.read(request["past_key"]))
            past_value = self.with_head_axis(tensors.read(request["past_value"]))
            self.past = past_key.shape[-2]
            self.k = np.concatenate((past_key, self.k), axis=-2)
            self.v = np.concatenate((past_value, self.v), axis=-2)
        batch = np.broadcast_shapes(self.q.shape[:-3], self.k.shape[:-3], self.v.shape[:-3])
        self.present_key = self.k
        self.places = Places(batch, self.q.shape[-3] if self.has_heads else None,
                             self.q.shape[-2], self.k.shape[-2], self.past)
        if rotary:
            of_queries, at = positions.rotary_places(self.places, request, position)
            length = 1 + (-1 if at.size == 0 or np.isnan(at).all() else np.nanmax(at))
            self.q = positions.rotate(self.q, of_queries, position, length)
            turned = positions.rotate(self.k, at, position, length)
            if position.get("past", "encoded") == "encoded":  # cached keys have turned already
                still = np.broadcast_to(self.k, turned.shape)[..., :self.past, :]
                self.present_key = turned = np.concatenate((still, turned[..., self.past:, :]), axis=-2)
            self.k = turned

    def with_head_axis(self, x):
        return x if self.has_heads else x[..., None, :, :]

    def without_head_axis(self, x):
        return x if self.has_heads else x[..., 0, :, :]


def attention(request):
    """All answers of a request, as float64 arrays: output, weights, logsumexp (-infinity = hidden row),
    the five score stages under their names, weights_dropped, present_key, present_value, visible,
    hidden_rows."""
    request = forms.drawn(pages.gathered(request))
    x = Operands(request)
    keep, added = resolve(x.places, request)
    if not x.has_heads:
        keep, added = keep[..., None, :, :], added[..., None, :, :]
    fill = request.get("mask_fill")
    if isinstance(fill, (int, float)):
        fill = {"value": fill, "mode": "add"}
    visible = (keep | (fill is not None)) & ~np.isneginf(added)
    group = x.q.shape[-3] // max(1, x.k.shape[-3])
    k = np.repeat(x.k, group, axis=-3)
    mix = forms.weight_mix(request, x.q.shape[-3])
    v = np.repeat(x.v, (group if mix is None else len(mix) // x.v.shape[-3]), axis=-3)

    looked = visible  # the keys that make the scores of a head
    if (request.get("mix") or {}).get("logits") is not None:
        looked = np.broadcast_to(visible.any(-3, keepdims=True), visible.shape)
    k = drop_unseen(np.broadcast_to(k, visible.shape[:-2] + k.shape[-2:]), looked.any(-2)[..., None], "key")
    if mix is None:
        v = drop_unseen(np.broadcast_to(v, visible.shape[:-2] + v.shape[-2:]), visible.any(-2)[..., None], "value")
    else:
        v = np.broadcast_to(v, visible.shape[:-3] + v.shape[-3:])
        v = drop_unseen(v, np.broadcast_to(visible.any((-3, -2))[..., None, :, None], v.shape[:-1] + (1,)), "value")
    q = drop_unseen(np.broadcast_to(x.q, visible.shape[:-2] + x.q.shape[-2:]), looked.any(-1)[..., None], "query")

    position = forms.position_of(request, scores=True)
    distance = positions.distances(x.places, request)
    kind, parameters = forms.score_of(request)
    scale = request.get("scale")
    if scale is None:
        scale = forms.default_scale(kind, q.shape[-1], position)
    elif scale is False:
        scale = 1.0
    raw = forms.mixed(request, forms.raw_scores(kind, parameters, q, k))
    if position["kind"] in ("shaw", "disentangled"):
        raw = raw + forms.vector_terms(position, q, k, distance)
    if not isinstance(scale, (int, float)):
        scale = normalizers.by_row(scale, raw.shape[:-1], x.has_heads)
    scaled = scale * raw
    softcap = request.get("softcap")
    softcapped = softcap * np.tanh(scaled / softcap) if softcap else scaled
    if position["kind"] in positions.BIASES:
        added = added + positions.bias(position, q.shape[-3], distance)
    biased = apply_masks(softcapped, keep, added, fill)
    sinks = request.get("sinks")
    sinks = None if sinks is None else normalizers.by_row(sinks, biased.shape[:-1], x.has_heads)
    weights, logsumexp = normalizers.normalized(request, biased, sinks)
    dropped = forms.dropped(weights, request.get("dropout_p", 0.0), request.get("seed", 0))
    of_heads = weights
    if mix is not None:
        weights, dropped = (np.einsum("gh,...hls->...gls", mix, w) for w in (weights, dropped))
    output = dropped @ v
    if position.get("value_table") is not None:
        output = output + forms.shaw_values(position, dropped, distance)

    answer = {"raw": raw, "scaled": scaled, "softcapped": softcapped, "biased": biased,
              "probs": of_heads, "weights": weights, "weights_dropped": dropped, "visible": visible}
    answer = {name: x.without_head_axis(a) for name, a in answer.items()}
    answer["logsumexp"] = logsumexp if x.has_heads else logsumexp[..., 0, :]
    answer["output"] = join_heads(output, x.layout, x.rank)
    if "projections" in request:
        w_o, b_o = (request["projections"].get(n) for n in ("w_o", "b_o"))
        answer["output"] = forms.linear(answer["output"], w_o, b_o)
    answer["present_key"] = x.without_head_axis(x.present_key)
    answer["present_value"] = x.without_head_axis(x.v)
    answer["hidden_rows"] = int((~visible.any(-1)).sum())
    return answer


def gradients_of_logsumexp(request):
    """Gradients of a loss whose gradient with respect to the logsumexp of scaled products [.., L, S] is grad_logsumexp."""
    x, whole = Operands(request), attention(request)
    scores = tensors.read(request["grad_logsumexp"])[..., None] * whole["weights"]
    scale = request.get("scale") or 1 / np.sqrt(x.q.shape[-1])
    q, k = (t[..., 0, :, :] if not x.has_heads else t for t in (x.q, x.k))
    return {"query": scale * scores @ k, "key": scale * np.swapaxes(scores, -1, -2) @ q,
            "value": np.zeros(tensors.shape_of(request["value"])), "scores": scores}


def axes_in_front(request):
    """Axes of length 1 that a mask [1, L, S] gives the results of a query [L, E]."""
    if "projections" in request or tensors.shape_of(request["query"])[:-2] or request.get("layout", "BHLE") != "BHLE":
        return ()
    masks = [tensors.shape_of(request[name]) for name in ("attn_mask", "attn_bias") if request.get(name) is not None]
    return (1,) * max([0, *(len(shape) - 2 for shape in masks)])


def served(request):
    """The tensors that the service sends for `request`, by name, in the order of the answer."""
    whole = attention(request)
    wanted = request.get("return")
    if wanted is None:
        wanted = ["output"] + (["weights"] if whole["weights"].size <= 65536 else [])
    answer = {name: whole[name] for name in ("output", "weights", "weights_dropped", "logsumexp")
              if name in wanted}
    if "scores" in wanted:
        answer["scores"] = whole[request.get("score_stage", "biased")]
    if "present" in wanted:
        answer["present_key"] = whole["present_key"]
        answer["present_value"] = whole["present_value"]
    return {name: x.reshape(axes_in_front(request) + x.shape) for name, x in answer.items()}
