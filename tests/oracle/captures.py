"""Run files of format 2 (lib/runs/FORMAT.md): read and written independently of the service, and the weights of
their sites in float64. random_captures.py draws files by seed.

    >>> from oracle import captures
    >>> file = captures.read(open("capture.safetensors", "rb").read())
    >>> captures.attention(file, 0)["weights"].shape
    (1, 4, 10, 10)
"""
import json
import struct

import numpy as np

from . import tensors
from .attention import attention as attend

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
         "U8": "uint8", "BOOL": "bool"}


class File:
    """run: the text as a dict; tensors: {name: (dtype as in the container, array)}, where real numbers are float64
    that the dtype holds exactly."""

    def __init__(self, run, stored):
        self.run, self.tensors = run, stored

    @property
    def sites(self):
        return self.run["sites"]

    def array(self, name):
        return self.tensors[name][1]

    def has(self, name):
        return name in self.tensors


def stored_bytes(dtype, x):
    if dtype == "BF16":
        return tensors.to_bfloat16(x).astype("<u2").tobytes()
    return np.ascontiguousarray(x, np.dtype(tensors.STORED[NAMES[dtype]]).newbyteorder("<")).tobytes()


def width(dtype):
    return np.dtype(tensors.STORED[NAMES[dtype]]).itemsize


def container(header, data):
    """The bytes of a container; `header` is a dict, or text that need not be JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return struct.pack("<Q", len(text)) + text + data


def header_of(file):
    """(header as a dict, data): tensors by falling element size, so that each is aligned."""
    header, data = {"__metadata__": {"run": json.dumps(file.run)}}, b""
    for name in sorted(file.tensors, key=lambda n: -width(file.tensors[n][0])):
        dtype, x = file.tensors[name]
        new = stored_bytes(dtype, x)
        header[name] = {"dtype": dtype, "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(new)]}
        data += new
    return header, data


def write(file):
    return container(*header_of(file))


def read(data):
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    rest, found = data[8 + length:], {}
    run = json.loads(header.pop("__metadata__")["run"])
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        kind = np.dtype(tensors.STORED[NAMES[entry["dtype"]]]).newbyteorder("<")
        x = np.frombuffer(rest[begin:end], kind).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            x = tensors.from_bfloat16(x)
        found[name] = (entry["dtype"], x.astype(bool if entry["dtype"] == "BOOL" else np.float64))
    return File(run, found)


# --- a site as a request of the oracle ---

SAME = ("softcap", "is_causal", "window", "pattern", "key_lengths", "mask_positions", "block_layout")
TABLES = ("query_positions", "key_positions", "document_ids", "prefix_lengths", "parents", "top_k_indices", "block_table")
RULES = ("any_of", "all_of", "not")


def operand(file, n, name):
    """The array of a site's tensor, given by name or found under the name of its place; else None."""
    place = f"sites.{n}.{name}"
    given = file.sites[n].get(name, place if file.has(place) else None)
    return None if given is None else file.array(given)


def meant(x, semantics):
    """Booleans, true: visible, or numbers that are added, by mask_semantics."""
    if x.dtype == bool:
        return ~x if semantics == "hide" else x
    numbers = {"keep": x == 1, "hide": x != 1, "nonzero": x != 0, "finite_min": np.where(x <= -1e4, -np.inf, x)}
    return numbers.get(semantics, x)


def unpacked(file, n, named):
    """The array of a mask: a name, or {"values": name, "encoding": "bits"}."""
    if isinstance(named, str):
        return file.array(named)
    paged = operand(file, n, "block_table") is not None
    keys = max(file.sites[n]["key_lengths"]) if paged else operand(file, n, "key").shape[-2]
    return np.unpackbits(file.array(named["values"]).astype(np.uint8), axis=-1, count=keys, bitorder="little").astype(bool)


def layers(file, n, name):
    """The arrays of attn_mask or attn_bias, which may be one or several."""
    given = file.sites[n].get(name)
    if given is None:
        x = [operand(file, n, name)]
    else:
        x = [unpacked(file, n, part) for part in (given if isinstance(given, list) else [given])]
    semantics = file.sites[n].get("mask_semantics") if name == "attn_mask" else None
    return [meant(part, semantics) for part in x if part is not None]


def added(file, n, name, real="float64"):
    """What the arrays add to the scores: 0 or -infinity for booleans, sums; None if there are none."""
    parts = [np.where(x, 0.0, -np.inf) if x.dtype == bool else x for x in layers(file, n, name)]
    return tensors.write(sum(parts[1:], parts[0]), real) if parts else None


def axes_of(file, named, real):
    """The list of axes, each with a block of pairs, that the tensors of a file say."""
    x = {name: file.array(named[name]) for name in named}
    return [{"num_pairs": int((x["pairs"] == i).sum())}
            | {side: tensors.write(x[side][i], real) for side in ("query_positions", "key_positions")}
            | ({"base": float(x["bases"][i])} if "bases" in x and x["bases"][i] else {})
            for i in range(len(x["query_positions"]))]


def spelled(file, field, real="float64"):
    """A position or a score with its tensors in place of their names."""
    return {k: axes_of(file, v, real) if k == "axes" else spelled(file, v, real) if isinstance(v, dict) else
            tensors.write(file.array(v), real) if isinstance(v, str) and k not in ("kind", "layout", "pairs") else v
            for k, v in field.items() if not k.startswith("x-")}


# The field of a request for each kind of mask in a list.
FIELDS = {"values": "attn_mask", "bits": "attn_mask", "padding": "key_padding_mask", "tokens": "token_ids", "lengths": "key_lengths",
          "documents": "document_ids", "prefix": "prefix_lengths", "tree": "parents", "top_k": "top_k_indices"}


def rule(file, n, mask):
    """A mask of a list, as requests have it."""
    kind = mask["kind"]
    if kind in RULES:
        return {"kind": kind, kind: [rule(file, n, part) for part in mask["masks"]]}
    fields = {name: mask[name] for name in ("window", "pattern", "pad_id") if name in mask}
    if "values" in mask:
        x = unpacked(file, n, {"values": mask["values"]}) if kind == "bits" else file.array(mask["values"])
        of = tensors.write(x, "bool" if x.dtype == bool else "float64" if kind in ("values", "padding") else "int64")
        fields[FIELDS[kind]] = of
    if "semantics" in mask:
        fields["key_padding_semantics" if kind == "padding" else "mask_semantics"] = mask["semantics"]
    return {"kind": {"bits": "values", "tokens": "padding", "lengths": "padding"}.get(kind, kind)} | fields


def request(file, n, real="float64"):
    """Site n as a request of POST /v1/attention, whose real numbers are of this type."""
    site = file.sites[n]
    body = {name: site[name] for name in SAME if name in site}
    number = isinstance(site.get("scale"), (int, float))
    if number:
        body["scale"] = site["scale"]
    for name in ("query", "key", "value", "sinks", "scale")[:4 if number else 5]:
        x = operand(file, n, name)
        if x is not None:
            body[name] = tensors.write(x, real)
    for name in ("attn_mask", "attn_bias"):
        x = added(file, n, name, real)
        if x is not None:
            body[name] = x
    if "attn_mask" in body:
        body["mask_semantics"] = "additive"
    for name in TABLES:
        x = operand(file, n, name)
        if x is not None:
            body[name] = tensors.write(np.where(np.isneginf(x) | (x < -2.0**62), -2**63, x).astype(np.int64), "int64")
    for name in RULES:
        if name in site:
            body[name] = [rule(file, n, mask) for mask in site[name]]
    for name in ("position", "score", "normalizer", "mix", "subtract"):
        if name in site:
            body[name] = spelled(file, site[name], real)
    if "score_position" in site:
        body["position"] = [body["position"], spelled(file, site["score_position"], real)]
    body["query_offset"] = site.get("query_offset", site.get("query_start", 0) - site.get("key_start", 0))
    return body


def mixes(file, n):
    """Whether the maps of site n are mixed of weights of several heads: they have no one score and no logsumexp."""
    site = file.sites[n]
    return "subtract" in site or "weights" in site.get("mix", {})


def of_maps(visible, site, heads):
    """[B, G, L, S] A map of mixed weights shows a cell that one of the heads it is mixed of sees."""
    pairs = site.get("subtract", {}).get("pairs")
    if pairs:
        first, second = (visible[:, 0::2], visible[:, 1::2]) if pairs == "adjacent" else np.split(visible, 2, 1)
        return first | second
    return np.repeat(visible.any(1, keepdims=True), heads, 1)


def attention(file, n):
    """Weights, visible and scores of site n as [B, H, L, S], logsumexp as [B, H, L]; several axes of sequences are
    one, the last running fastest."""
    whole = attend(request(file, n))
    B = int(np.prod(whole["weights"].shape[:-3]))
    flat = {name: whole[name].reshape(B, *whole[name].shape[-3:])
            for name in ("weights", "visible", "raw", "scaled", "softcapped", "biased")}
    if mixes(file, n):
        return {"weights": flat["weights"], "visible": of_maps(flat["visible"], file.sites[n], flat["weights"].shape[1])}
    return flat | {"logsumexp": whole["logsumexp"].reshape(B, *whole["logsumexp"].shape[-2:])}


def of_keys(file, n):
    """The masks of site n with one value for all heads and queries, as [..., S] of what is hidden."""
    masks = [x for name in ("attn_mask", "attn_bias") for x in layers(file, n, name)]
    masks = [x.reshape((1,) * (3 - x.ndim) + x.shape) for x in masks]
    return [~x[..., 0, 0, :] if x.dtype == bool else np.isneginf(x[..., 0, 0, :])
            for x in masks if x.shape[-3:-1] == (1, 1)]


def padding(file, n, lead, L, S):
    """Queries [B, L] and keys [B, S] of site n that are padding; `lead` are the axes in front of the heads."""
    site, B = file.sites[n], int(np.prod(lead))
    keys = np.arange(S) >= np.reshape(site.get("key_lengths", [S] * B), (B, 1))
    for hidden in of_keys(file, n):
        keys = keys | np.broadcast_to(hidden, (*lead, S)).reshape(B, S)
    if "query_lengths" in site:
        return np.arange(L) >= np.reshape(site["query_lengths"], (B, 1)), keys
    shift = site.get("query_start", 0) - site.get("key_start", 0)
    rows = np.zeros((B, L), bool)
    for b in range(B if site.get("kind") != "cross" else 0):
        query, key = (text[b] if isinstance(text, list) else text
                      for text in (site.get("query_text"), site.get("key_text")))
        if query == key and (query is not None or (L == S and shift == 0)):
            rows[b] = [0 <= i + shift < S and keys[b, i + shift] for i in range(L)]
    return rows, keys


def is_double(file, n):
    """Whether the service computes the site in double precision: query, key or value is F64."""
    site = file.sites[n]
    names = [site.get(name, f"sites.{n}.{name}") for name in ("query", "key", "value")]
    return any(file.has(name) and file.tensors[name][0] == "F64" for name in names)
