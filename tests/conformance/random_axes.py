"""Seeded random requests whose axes are the question: batch axes, heads, queries and keys of length 0, 1 and more; masks,
biases, padding, lengths and labels with fewer, as many and more axes than the weights, and now and then one that does not
fit. Shapes are drawn first and values last. sent() spells a request as JSON, safetensors or npz."""
import io
import json

import numpy as np

from oracle import captures, tensors
from random_forms import ADDED, FormDraw

SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 7)
TENSORS = {"query", "key", "value", "past_key", "past_value", "attn_mask", "attn_bias", "key_padding_mask", "key_lengths", "block_table", "token_ids",
           "sinks", "w", "w_q", "w_k", "v", "b", "table", "key_table", "value_table", "slopes", "frequencies", "short_factor",
           "long_factor", "weights", "other", "values", "x", "document_ids", "parents", "top_k_indices"}
RULES = {"any_of": "any_of", "all_of": "all_of", "not": "not", "prefix_lengths": "prefix", "document_ids": "documents",
         "parents": "tree", "top_k_indices": "top_k"}  # field of /v1/attention -> kind of a mask of /v1/masks
TYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "bool": "BOOL"}


class AxesDraw(FormDraw):
    """Few and small axes in every arrangement."""

    def __init__(self, seed):
        super().__init__(seed)
        r = self.r
        self.batch = tuple(int(n) for n in r.choice((0, 1, 1, 2, 2, 3), r.choice((0, 1, 1, 2, 3))))
        self.heads_axis = self.layout != "BHLE" or len(self.batch) > 1 or (len(self.batch) == 1 and self.chance(0.6))
        self.Hkv = int(r.choice((1, 1, 2, 3)) if self.chance(0.96) or self.layout == "BLD" else 0) if self.heads_axis else 1
        self.Hq = self.Hkv * int(r.choice((1, 1, 2))) if self.heads_axis else 1
        self.L, self.S = (int(n) for n in r.choice(SIZES, 2))
        self.E, self.Ev = int(r.choice(SIZES[1:])), int(r.choice(SIZES))
        if self.position in ADDED:  # their widths are those of the sizes before
            self.position = None
        self.E += self.position == "rotary" and self.E % 2
        self.past = int(r.choice((0, 0, 0, 1, 3)))
        self.Ek = self.E
        self.same = bool(self.same and self.L)
        if self.same:
            self.S, self.Ev, self.Hkv = self.L, self.E, self.Hq
        self.keys = self.S + self.past

    def fewer_or_more(self, shape):
        """A shape that broadcasts to this one: some axes of length 1, some in front left out, or more in front."""
        shape = [n if self.chance(0.75) else 1 for n in shape]
        return ([1] * int(self.r.integers(1, 3)) + shape)[-8:] if self.chance(0.25) else shape[int(self.r.integers(len(shape))):]

    def spoilt(self, shape):
        """The shape, or one of twenty times one with an axis of another length."""
        if self.chance(0.95):
            return shape
        at = int(self.r.integers(len(shape)))
        return [n + 1 if i == at else n for i, n in enumerate(shape)]

    def broadcastable(self):
        whole = list(self.weights_shape())
        n = len(self.batch)
        if self.chance(0.25) and not self.heads_axis:
            whole.insert(n, 1)  # [batch.., 1, L, S] of weights without heads
        elif self.chance(0.25) and self.heads_axis and self.Hq == 1:
            del whole[n]  # [batch.., L, S] of weights with one head
        else:
            whole = self.fewer_or_more(whole)
        return self.spoilt(whole)

    def padding_shape(self):
        if self.chance(0.4):
            return self.spoilt([self.batches if self.chance(0.7) else 1, self.keys])
        return self.spoilt(self.fewer_or_more([*self.batch, self.keys]))

    def padding(self, body):
        kind = self.r.choice(["mask", "lengths", "tokens"])
        if kind == "mask":
            keep = self.r.random(self.padding_shape()) < 0.7
            body["key_padding_mask"] = tensors.write(keep, "bool")
            body["key_padding_semantics"] = str(self.r.choice(["keep", "hide"]))
        elif kind == "lengths":
            n = self.batches if self.chance(0.7) else 1
            body["key_lengths"] = self.r.integers(0, self.keys + 1, n + (self.chance(0.05) and 1)).tolist()
        else:
            body["token_ids"] = tensors.write(self.r.integers(0, 4, self.padding_shape()), "int64")
            body["pad_id"] = int(self.r.integers(0, 4))

    def offset(self, body):
        kind = self.r.choice(["end", "number", "list"])
        if kind == "list" and self.batches:
            body["query_offset"] = self.r.integers(-3, 6, self.batches).tolist()
        else:
            body["query_offset"] = "end" if kind == "end" else int(self.r.integers(-3, 6))

    def names(self):
        return {side: [f"{side[0]}{i}" for i in range(n)] for side, n in (("query", self.L), ("key", self.keys))}

    def labels(self, body):
        body["labels"] = self.names() if self.chance(0.5) or not self.batches else [self.names() for _ in range(self.batches)]

    def request(self):
        body = super().request()
        body["return"] = [name for name in body["return"] if name != "present"]
        if self.chance(0.3):
            self.labels(body)
        return body


    # --- other routes ---

    def weights(self, axes):
        """Rows of weights that sum to 1, [.., L, S]."""
        x = self.r.random((*axes, self.L, self.S))
        return x / np.where(x.sum(-1, keepdims=True) > 0, x.sum(-1, keepdims=True), 1)

    def given(self):
        """Axes of weights that a client sends, [layers, B, H] or the last of them; sets the sizes to them."""
        rank = int(self.r.integers(4))
        axes = [int(n) for n in self.r.choice((0, 1, 1, 2, 3), rank)]
        self.layers = axes[0] if rank > 2 else 1
        self.batch, self.heads_axis = tuple(axes[-2:-1]), rank > 0
        self.Hq, self.past, self.keys = axes[-1] if rank else 1, 0, self.S
        return axes

    def heatmaps(self):
        axes = self.given()
        body = {"weights": self.spell(self.weights(axes), "float32")}
        if self.chance(0.5):
            self.labels(body)
        if axes and self.chance(0.3):
            body["titles"] = [f"head {h}" for h in range(self.Hq)]
        return body

    def analyses(self):
        axes = self.given()
        body = {"weights": self.spell(self.weights(axes), "float32"), "analysis": "all"}
        self.masks(body)
        for name in ("attn_bias", "mask_positions", "query_positions", "key_positions"):
            body.pop(name, None)
        if body.get("mask_semantics") == "additive":
            del body["attn_mask"], body["mask_semantics"]
        n = self.batches if self.chance(0.5) else None
        ids = {side: self.r.integers(0, 4, (size,) if n is None else (n, size)) for side, size in (("key", self.S), ("query", self.L))}
        if self.chance(0.4):
            body["ids"] = {side: tensors.write(x, "int64") for side, x in ids.items()}
            if self.chance(0.4):
                body["ids"].pop("query", None)
        if self.chance(0.3):
            body["segments"] = {"key": self.r.integers(0, 3, self.S).tolist(), "query": self.r.integers(0, 3, self.L).tolist()}
        if self.chance(0.3):
            body["classes"] = [{"name": "a", "keys": self.r.integers(0, self.S, 2).tolist() if self.S else []}]
        if self.chance(0.3):
            self.labels(body)
        if self.chance(0.3):
            body["other"] = self.spell(self.weights(axes), "float32")
        if self.chance(0.3):
            body["grad_output"] = self.spell(self.r.standard_normal((*axes, self.L, 2)), "float32")
            body["value"] = self.spell(self.r.standard_normal((*axes, self.S, 2)), "float32")
        if self.chance(0.2) and self.L == self.S and self.Hq and self.layers != 0 and (self.layers != 1 or not self.batch):
            body["analysis"] = ["rollout", "entropy"]
        return body

    def mask_request(self):
        body = {"shape": list(self.weights_shape())}
        fields = {}
        self.past, self.keys = 0, body["shape"][-1]
        self.mask_heads = body["shape"][-3] if len(body["shape"]) > 3 else 1
        self.masks(fields)
        fields.pop("attn_bias", None)
        fields.pop("mask_positions", None)  # this route compares the positions that it is given
        body |= {name: fields.pop(name) for name in ("query_positions", "key_positions") if name in fields}
        masks = [{"kind": "causal"}] if fields.pop("is_causal", None) else []
        if fields.get("query_offset") == "end" and "key_lengths" in fields:
            del fields["query_offset"]  # the oracle knows the lengths of one mask at a time
        if "query_offset" in fields:
            body["query_offset"] = fields.pop("query_offset")
        if "window" in fields:
            masks.append({"kind": "window", "window": fields.pop("window")})
        if "attn_mask" in fields:
            masks.append({"kind": "values"} | {name: fields.pop(name) for name in ("attn_mask", "mask_semantics") if name in fields})
        masks += [{"kind": kind, name: fields.pop(name)} for name, kind in RULES.items() if name in fields]
        if fields:
            masks.append({"kind": "padding"} | fields)
        if self.chance(0.3):
            masks.append({"kind": "pattern", "pattern": self.pattern()})
        if self.chance(0.3):
            body |= {"against": masks[self.r.integers(0, 2):]} | ({"as": "difference"} if self.chance(0.5) else {})
            body["against"] += [{"kind": "window", "window": [2, -1]}] if self.chance(0.5) else []
        return body | {"masks": masks}

    def positions(self):
        kind = str(self.r.choice(["sinusoidal", "learned", "rotary", "alibi", "t5", "relative", "shaw", "disentangled"]))
        body, columns = {"kind": kind, "length": self.L}, int(self.r.choice((1, 2, 4)))
        if kind in ("sinusoidal", "learned", "rotary"):
            body |= {"width": 2 * columns} | ({"seed": 3} if kind == "learned" else {})
            columns *= 1 if kind == "rotary" else 2
        else:
            body |= {"num_keys": self.S} | ({"query_offset": int(self.r.integers(-3, 6))} if self.chance(0.4) else {})
            reach = int(self.r.choice((0, 1, 3)))
            if kind == "alibi":
                body["num_heads"] = columns
            else:
                name, shape = {"t5": ("table", (8, columns)), "relative": ("table", (columns, 2 * reach + 1)),
                               "shaw": ("key_table", (2 * reach + 1, columns)),
                               "disentangled": (str(self.r.choice(["key_table", "query_table"])), (2 * reach + 2, columns))}[kind]
                if kind in ("shaw", "disentangled") and self.chance(0.4):
                    shape, body["head"] = (3, *shape), int(self.r.integers(3))
                body[name] = tensors.nested(tensors.round_to(self.r.standard_normal(shape), "float32"))
        if self.chance(0.7):
            body["dims"] = [int(n) for n in self.r.integers(0, columns, int(self.r.integers(1, 4)))]
        return body

    def texts(self):
        """Sequences for en-fr, one or a batch, with masks of their tokens; and the mask of each sequence, None if it does
        not fit."""
        B = int(self.r.choice((0, 1, 1, 2, 3)))  # 0: one sequence without an axis of the batch
        draw = lambda words, n: self.r.choice(words, int(self.r.integers(1, n))).tolist()  # noqa: E731
        source = [draw(["the", "red", "car", "cat", "."], 6) for _ in range(B or 1)]
        target = [draw(["la", "voiture", "le", "rouge"], 5) for _ in range(B or 1)]
        body, S = {"tokens": source if B else source[0], "target_tokens": target if B else target[0]}, max(map(len, source))
        keep = [np.ones(len(x), bool) for x in source]
        if self.chance(0.7):
            shape = self.spoilt([S] if not B or self.chance(0.3) else [B, *[1] * int(self.r.integers(3)), S])
            mask = self.r.random(shape) < 0.7
            body["token_mask"] = mask.tolist()
            fits = mask.size == len(source) * S and shape[-1] == S and (len(shape) == 1 or shape[0] == B)
            keep = [row[:len(x)] for row, x in zip(mask.reshape(-1, S), source)] if fits else None
        return body, source, target, keep

    def layers_file(self):
        """A capture of self-attention with an axis of layers, and a mask with as many axes or fewer."""
        r, n, B, H, L = self.r, *(int(x) for x in (self.r.integers(1, 4), self.r.integers(1, 3), self.r.integers(1, 4), self.r.integers(1, 8)))
        found = {f"sites.0.{part}": ("F32", r.standard_normal((n, B, H, L, 4)).astype(np.float32)) for part in ("query", "key")}
        if self.chance(0.6):
            mask = r.random(self.fewer_or_more([n, B, H, L, L])[-5:]) < 0.7
            found["sites.0.attn_mask"] = ("BOOL", mask)
        site = {"axes": ["layer", "batch", "head"]} | ({"is_causal": True} if self.chance(0.3) else {})
        return captures.write(captures.File({"version": 2, "sites": [site]}, found)), (n, B, H, L)

    def curves(self):
        shape = [int(self.r.choice((0, 1, 2, 3))), int(self.r.choice(SIZES))][int(self.r.integers(2)):]
        values = self.r.standard_normal(shape)
        body = {"values": self.spell(np.where(self.r.random(shape) < 0.2, -np.inf, values) if self.chance(0.3) else values, "float32")}
        if self.chance(0.4):
            body["x"] = np.arange(shape[-1], dtype=float).tolist()
        return body


SEED = 2 * 10**6


def request(seed):
    return AxesDraw(seed + SEED).request()


def extracted(body, path=""):
    """(the body without its tensors, {path: (type, array)})."""
    if not isinstance(body, dict):
        return body, {}
    rest, found = {}, {}
    for name, value in body.items():
        at = path + name
        if (name in TENSORS and path not in ("labels.", "segments.") or path == "ids.") and not isinstance(value, str) and value is not None:
            dtype = tensors.dtype_of(value)
            x = tensors.read(value)
            found[at] = ("int64" if name in ("token_ids", "key_lengths", "block_table") or path == "ids." else dtype, x)
        else:
            rest[name], inside = extracted(value, at + ".")
            found |= inside
    return rest, found


def as_safetensors(rest, found):
    header, data = {"__metadata__": {"request": json.dumps(rest)}}, b""
    for name, (dtype, x) in sorted(found.items(), key=lambda item: -captures.width(TYPES[item[1][0]])):
        stored = captures.stored_bytes(TYPES[dtype], x)
        header[name] = {"dtype": TYPES[dtype], "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(stored)]}
        data += stored
    return captures.container(header, data), "application/vnd.safetensors"


def as_npz(rest, found):
    out = io.BytesIO()
    np.savez(out, request=json.dumps(rest), **{name: x.astype(tensors.STORED[dtype] if dtype != "bool" else bool)
                                               for name, (dtype, x) in found.items()})
    return out.getvalue(), "application/x-npz"


def sent(body, form):
    """The request as bytes of a form, and its media type."""
    rest, found = extracted(body)
    if form == "npz" and any(dtype == "bfloat16" for dtype, _ in found.values()):
        form = "safetensors"  # NumPy has no bfloat16
    if form == "json" or not found:
        return json.dumps(body).encode(), "application/json"
    return (as_npz if form == "npz" else as_safetensors)(rest, found)
