#!/usr/bin/env python3
"""Records the attention of a PyTorch model as a run file (lib/runs/FORMAT.md), and shows it with a small model.

    python3 capture_torch.py capture.safetensors
    curl --data-binary @capture.safetensors -H 'Content-Type: application/vnd.safetensors' localhost:8080/v1/runs

It sees what calls torch.nn.functional.scaled_dot_product_attention: torch.nn, and transformers with
attn_implementation="sdpa". Weights are those before dropout. A Capture holds one batch of texts and its generation."""
import hashlib
import json
import re
import sys

import torch
from safetensors.torch import save_file
from torch import nn


def place_of(module):
    """A module's kind of attention and its stack of layers, by its name; change it for names of your own."""
    kinds = {"cross": "cross", "multihead_attn": "cross", "encoder_attn": "cross", "EncDec": "cross",
             "encoder": "encoder", "decoder": "decoder"}
    stack = re.match(r"(\D+)\.\d", module)
    return next((kind for part, kind in kinds.items() if part in module), "self"), stack and stack[1]


def starts(queries, keys, seen, last):
    """query_start and key_start of a call behind a cache. `seen`: how many queries the calls before had, None for the
    first one; last: the last key that the mask shows the last query, None without a mask. A static cache has keys that
    are not written yet, and a sliding one has forgotten the first ones."""
    if queries == keys:
        return 0, 0
    start = seen if seen is not None else (keys if last is None else last + 1) - queries
    return max(0, start), max(0, start + queries - keys)


def last_seen(mask):
    """The last key that a mask shows the last query of any sequence, or None."""
    if mask is None:
        return None
    row = mask[..., -1, :].reshape(-1, mask.shape[-1])
    shown = row if row.dtype == torch.bool else row > torch.finfo(row.dtype).min / 2
    return max(shown.any(0).nonzero().flatten().tolist(), default=None)


def meaning_of(mask):
    """mask_semantics of a mask that hides with the smallest number of its type."""
    numbers = mask is not None and mask.dtype != torch.bool
    low = numbers and ((mask <= torch.finfo(mask.dtype).min / 2) & mask.isfinite()).any()
    return "finite_min" if low else None


class Capture:
    """with Capture(model) as capture: model(x); then capture.save("capture.safetensors")"""
    def __init__(self, model):
        self.model, self.running, self.hooks = model, [], []  # running: the names of the modules under way
        self.sites, self.tensors, self.masks = [], {}, {}
        self.calls, self.seen, self.heads = {}, {}, {}  # by site
        self.again = {}  # by module: its calls in this pass

    def __enter__(self):
        self.attend, self.fast = nn.functional.scaled_dot_product_attention, torch.backends.mha.get_fastpath_enabled()
        nn.functional.scaled_dot_product_attention = self.record
        torch.backends.mha.set_fastpath_enabled(False)  # there nn.TransformerEncoder calls something else
        for name, module in self.model.named_modules():
            self.hooks.append(module.register_forward_pre_hook(lambda *_, name=name: self.enter(name)))
            self.hooks.append(module.register_forward_hook(lambda *_: self.running.__delitem__(-1), always_call=True))
        return self

    def __exit__(self, *_):
        nn.functional.scaled_dot_product_attention = self.attend
        torch.backends.mha.set_fastpath_enabled(self.fast)
        for hook in self.hooks:
            hook.remove()

    def enter(self, name):
        self.running.append(name)
        if not name:  # the model itself: a new pass
            self.again.clear()

    def record(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        output = self.attend(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        module = (self.running or [""])[-1] or type(self.model).__name__
        self.again[module] = again = self.again.get(module, -1) + 1
        name = f"{module}#{again}" if again else module  # a module that is several layers, as in ALBERT
        if query.dim() > 3:  # transformers packs the heads of a single query that share a key as its rows
            heads = self.heads.setdefault(name, query.shape[-3])
            packed = query.shape[-3] < heads == query.shape[-3] * query.shape[-2]
            query = query.reshape(*query.shape[:-3], heads, 1, query.shape[-1]) if packed else query
        for part, x in (("query", query), ("key", key)):  # [B, H, L, E]; 3 axes are without heads
            x = (x if x.dim() > 3 else x.unsqueeze(-3)).detach().to(output.dtype)  # autocast changes the type
            self.tensors[f"sites.{len(self.sites)}.{part}"] = x.reshape(-1, *x.shape[-3:]).cpu().clone().contiguous()
        kind, stack = place_of(module)
        calls = self.calls.setdefault((kind, stack), {})
        calls[name] = call = calls.get(name, -1) + 1
        start, first = (0, 0) if kind == "cross" else starts(query.shape[-2], key.shape[-2], self.seen.get(name),
                                                             last_seen(attn_mask))
        self.seen[name] = start + query.shape[-2]
        site = {"name": f"{name}@{call}" if call else name, "kind": kind, "stack": stack,
                "layer": list(calls).index(name), "call": call, "scale": scale, "is_causal": is_causal,
                "attn_mask": None if attn_mask is None else self.mask(attn_mask, query.dim()),
                "mask_semantics": meaning_of(attn_mask),
                "query_offset": 0 if is_causal else None,  # its queries see the keys j <= i, wherever they stand
                "query_start": start or None, "key_start": first or None}
        self.sites.append({member: x for member, x in site.items() if x is not None})
        return output

    def mask(self, x, axes):
        """The name of a mask's tensor. Equal masks are stored once, and axes along which one repeats as 1."""
        x = (x.unsqueeze(-3) if x.dim() == axes == 3 else x).detach()
        x = x[tuple(slice(0, 1 if step == 0 else None) for step in x.stride())].cpu().clone().contiguous()
        same = (x.dtype, x.shape, hashlib.sha256(x.view(torch.uint8).numpy()).digest())
        name = self.masks.setdefault(same, f"masks.{len(self.masks)}")
        self.tensors[name] = x
        return name

    def save(self, path, source=(), target=()):
        """source, target: the tokens of each sequence of the padded batch. A model of one text has only a source."""
        if not self.sites:
            raise ValueError("nothing called scaled_dot_product_attention: load the model with attn_implementation="
                             "\"sdpa\". A model that refuses it has attention of its own, which FORMAT.md tells how to "
                             "write; transformers.AttentionInterface gives its queries and keys")
        texts = [{"tokens": tokens} for tokens in (*source, *target)]
        first, last = [*range(len(texts))][:len(source)], [*range(len(texts))][len(source):]
        for site in self.sites if texts else ():
            site["query_text"] = last if last and site["kind"] in ("decoder", "cross") else first
            site["key_text"] = last if last and site["kind"] == "decoder" else first
        run = {"version": 2, "model": type(self.model).__name__, "texts": texts, "sites": self.sites}
        save_file(self.tensors, path, metadata={"run": json.dumps(run)})


class Model(nn.Module):
    """An encoder of torch.nn, then causal attention by hand with two key heads for four query heads."""
    def __init__(self):
        super().__init__()
        self.embedding, self.query, self.key = nn.Embedding(10, 32), nn.Linear(32, 32), nn.Linear(32, 16)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)

    def forward(self, ids):
        x = self.encoder(self.embedding(ids), src_key_padding_mask=ids == 0)
        query, key = (part(x).unflatten(-1, (-1, 8)).transpose(1, 2) for part in (self.query, self.key))
        return nn.functional.scaled_dot_product_attention(query, key, key, is_causal=True, enable_gqa=True)


if __name__ == "__main__":
    with Capture(Model().eval()) as capture, torch.no_grad():
        capture.model(torch.tensor([[1, 2, 3, 4], [5, 6, 4, 0]]))
    capture.save(sys.argv[1], [["The", "cat", "sat", "."], ["Dogs", "bark", ".", "<pad>"]])
