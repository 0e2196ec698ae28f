"""Seeded random requests of POST /v1/attention: shapes, layouts, masks, offsets, caches, types."""
import numpy as np

from oracle import tensors

REAL = ("float32", "float32", "float32", "float16", "bfloat16", "float64")
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65)
LONG = (130, 257, 300)
PADDINGS = ("key_padding_mask", "key_lengths", "token_ids")
TABLES = {"prefix": "prefix_lengths", "documents": "document_ids", "tree": "parents", "top_k": "top_k_indices"}
# A mask has at most 16 layers. Those that rules do not draw are attn_mask, attn_bias, causal, window, pattern and two paddings.
RULES = 16 - 7


class Dice:
    """A generator whose choice falls on a wanted word wherever it is offered."""

    def __init__(self, seed, words):
        self.generator, self.words = np.random.default_rng(seed), words

    def __getattr__(self, name):
        return getattr(self.generator, name)

    def choice(self, options, *args, **more):
        offered = [x for x in options if isinstance(x, str) and x in self.words] if self.words and np.ndim(options) == 1 else []
        return self.generator.choice(offered) if offered else self.generator.choice(options, *args, **more)


class Draw:
    """One request being drawn: dimensions first, then the fields that fit them. `wanted` are kinds, as check_pairs.py names
    them, that the request has wherever they fit."""

    def __init__(self, seed, wanted=()):
        self.wanted = frozenset(wanted)
        self.words = {word for kind in self.wanted for word in kind.replace(",", "").split()}
        self.words |= {kind for kind, field in TABLES.items() if field in self.wanted}
        self.r = r = self.dice(seed)
        self.layout = str(r.choice(["BHLE", "BHLE", "BHLE", "BLHE", "BLD"]))
        self.batch = [(), (int(r.integers(1, 4)),), (2, int(r.integers(1, 3)))][r.choice(3, p=[0.3, 0.6, 0.1])]
        self.heads_axis = self.layout != "BHLE" or len(self.batch) == 2 or (self.batch and r.random() < 0.6)
        if self.layout == "BHLE" and not self.heads_axis:
            self.batch = self.batch[:1]
        self.Hkv = int(r.integers(1, 4)) if self.heads_axis else 1
        self.Hq = self.Hkv * int(r.choice([1, 1, 2, 3])) if self.heads_axis else 1
        self.L, self.S, self.E, self.Ev = (int(r.choice(SIZES)) for _ in range(4))
        if r.random() < 0.1:
            self.S = int(r.choice(LONG))
        if r.random() < 0.1:
            self.L = int(r.choice(LONG))
        if r.random() < 0.05:
            self.S = 0
        if r.random() < 0.04:
            self.L = 0
        self.same = self.S and self.L and r.random() < 0.08  # self-attention: key and value left out
        if self.same:
            self.S, self.Ev, self.Hkv = self.L, self.E, self.Hq
        self.past = int(r.choice([0, 0, 0, 0, 1, 5, 40])) or 5 * self.wants("past_key", "rotary past")
        self.dtype = str(r.choice(REAL))
        self.keys = self.S + self.past
        self.mask_heads = None  # heads of the masks, if they are not those of the queries
        self.apart = self.dice(seed)  # draws masks by head and of positions
        self.rules_left = RULES
        self.lowest = -4  # the first position that is drawn

    def dice(self, seed):
        return Dice(seed, self.words)

    def wants(self, *kinds):
        """Whether one of these kinds is wanted; "mask, " stands for all whose names begin with it."""
        return any(one.startswith(kind) if kind.endswith(" ") else one == kind for one in self.wanted for kind in kinds)

    @property
    def batches(self):
        return int(np.prod(self.batch, dtype=int))

    def chance(self, p, *kinds):
        """Decides by chance, or because one of the kinds is wanted."""
        return self.r.random() < p or self.wants(*kinds)

    def spell(self, x, dtype):
        if dtype == "float32" and x.size and self.chance(0.5):
            return tensors.nested(tensors.round_to(x, "float32"))
        if dtype in ("float32", "float64") and self.chance(0.3):
            x = tensors.round_to(x, dtype)
            return {"shape": list(x.shape), "dtype": dtype, "data": x.reshape(-1).tolist()}
        return tensors.write(x, dtype)

    def operand(self, heads, length, width, batch=None):
        batch = self.batch if batch is None else batch
        if self.layout == "BLD":
            shape = (*batch, length, heads * width)
        elif self.layout == "BLHE":
            shape = (*batch, length, heads, width)
        else:
            shape = (*batch, heads, length, width) if self.heads_axis else (*batch, length, width)
        return self.spell(self.r.standard_normal(shape), self.dtype)

    def cache(self, width):
        head = (self.Hkv,) if self.heads_axis else ()
        return self.spell(self.r.standard_normal((*self.batch, *head, self.past, width)), self.dtype)

    def weights_shape(self):
        return (*self.batch, *((self.Hq,) if self.heads_axis else ()), self.L, self.keys)

    def broadcastable(self):
        """A shape that broadcasts to the weights', aligned to the right."""
        shape = [n if self.chance(0.7) else 1 for n in self.weights_shape()[:-1]] + [self.keys]
        return shape[int(self.r.integers(0, len(shape))) :]

    def mask(self, body):
        shape = self.broadcastable()
        keep = self.r.random(shape) < 0.7
        kind = self.r.choice(["boolean", "base64 boolean", "bits", "hide by bits", "keep", "hide", "nonzero", "additive",
                              "additive with hidden"])
        if keep.size == 0 or kind.endswith("bits") and keep.shape[-1] != self.keys:  # a row of bits has one for each key
            kind = "base64 boolean"
        if kind == "boolean":
            body["attn_mask"] = keep.tolist()
        elif kind == "base64 boolean":
            body["attn_mask"] = tensors.write(keep, "bool")
        elif kind == "bits":
            body["attn_mask"] = tensors.write_bits(keep)
        elif kind == "hide by bits":
            body |= {"attn_mask": tensors.write_bits(~keep), "mask_semantics": "hide"}
        elif kind in ("keep", "hide"):
            body["attn_mask"] = (keep if kind == "keep" else ~keep).astype(int).tolist()
            body["mask_semantics"] = str(kind)
        elif kind == "nonzero":
            values = self.r.choice([-1e9, -0.5, 1, 7], shape)
            body["attn_mask"] = np.where(keep, values, 0).tolist()
            body["mask_semantics"] = "nonzero"
        else:
            values = self.r.standard_normal(shape)
            if kind != "additive":
                values = np.where(keep, values, -np.inf)
            body["attn_mask"] = tensors.nested(tensors.round_to(values, "float32"))
            body["mask_semantics"] = "additive"

    def padding(self, body):
        kind = self.r.choice(PADDINGS)
        if not self.keys or len(self.batch) > 1:
            return
        for one in (p for p in PADDINGS if p == kind or p in self.wanted):
            self.padding_by(body, one, (self.batches,) if self.batch else (1,))

    def padding_by(self, body, kind, rows):
        if kind == "key_padding_mask":
            meaning = str(self.r.choice(["keep", "hide"]))
            mask = self.r.random((*rows, self.keys)) < 0.7
            ways = [mask.tolist, mask.astype(int).tolist, lambda: tensors.write_bits(mask)]
            body["key_padding_mask"] = ways[int(self.r.integers(3))]()
            body["key_padding_semantics"] = meaning
        elif kind == "key_lengths":
            body["key_lengths"] = self.r.integers(0, self.keys + 1, rows).tolist()
        else:
            body["token_ids"] = self.r.integers(0, 4, (*rows, self.keys)).tolist()
            body["pad_id"] = int(self.r.integers(0, 4))

    def entries(self):
        """The leading axes of numbers of keys: none, or the batch axis."""
        return (self.batches,) if self.batch and self.chance(0.5) else ()

    def boolean(self, depth):
        """A mask of a list: its kind, and the fields of this kind."""
        kinds = ["causal", "window", "pattern", "values", "padding", "prefix", "documents", "tree", "top_k"]
        kind = str(self.r.choice(kinds + (["any_of", "all_of", "not"] if depth and self.rules_left > 0 else [])))
        part = {"kind": kind}
        if kind == "window":
            part["window"] = self.window()
        elif kind == "pattern":
            part["pattern"] = self.patterns()
        elif kind == "values":
            keep = self.r.random(self.broadcastable()) < 0.6
            part["attn_mask"] = tensors.write_bits(keep) if self.chance(0.5) and keep.shape[-1] == self.keys else tensors.write(keep, "bool")
        elif kind in ("any_of", "all_of"):
            count = min(int(self.r.integers(1, 4)), self.rules_left)
            self.rules_left -= count
            part[kind] = [self.boolean(depth - 1) for _ in range(count)]
        elif kind == "not":
            self.rules_left -= 1
            part["not"] = self.boolean(depth - 1)
        elif kind == "padding":
            part["token_ids"], part["pad_id"] = self.r.integers(0, 4, self.keys).tolist(), int(self.r.integers(0, 4))
        elif kind != "causal":
            self.table(part, kind)
        return part

    def by_head(self, kind, one, each):
        """`one` for all heads, or a list of what `each` draws for every head."""
        heads = self.Hq if self.mask_heads is None else self.mask_heads
        if self.apart.random() < 0.6 and not self.wants(f"{kind} by head") or not heads or self.wants(kind):
            return one
        return [each(self.apart) for _ in range(heads)]

    def window(self):
        return self.by_head("window", self.r.integers(-1, 9, 2).tolist(), lambda r: r.integers(-1, 9, 2).tolist())

    def patterns(self):
        one = self.pattern()
        return self.by_head("pattern", one, lambda r: one if r.random() < 0.4 else {"kind": "full"} if r.random() < 0.5 else {"kind": "local", "radius": int(r.integers(0, 7))})

    def mask_positions(self, body):
        """Positions of queries, keys or both that the masks compare: ascending or in any order, some without."""
        r = self.apart
        names = [name for name in ("query_positions", "key_positions") if name in body]
        for name, n in (("query_positions", self.L), ("key_positions", self.keys)):
            if name in names or r.random() < 0.3 or not n:
                continue
            x = np.maximum(r.integers(-4, 16, (self.batches, n) if self.batches and r.random() < 0.5 else (n,)), self.lowest)
            x = np.sort(x) if r.random() < 0.6 else x
            none = (r.random(x.shape) < 0.1) if r.random() < 0.5 else np.zeros(x.shape, bool)
            body[name] = np.where(none, None, x.astype(object)).tolist()
            names.append(name)
        if names:
            body["mask_positions"] = True

    def pattern(self):
        kind = str(self.r.choice(["local", "strided", "block", "block_causal", "global"]))
        near, size = int(self.r.integers(0, 5)), int(self.r.integers(1, 6))
        return {"kind": kind, **{"local": {"radius": near}, "strided": {"stride": size, "local": near}, "block": {"size": size},
                                 "block_causal": {"size": size}, "global": {"num_keys": near, "local": size}}[kind]}

    def table(self, part, kind):
        """A mask that tells by numbers which keys a query sees."""
        S = self.keys
        if kind == "prefix":
            part["prefix_lengths"] = self.r.integers(0, S + 1, (self.batches,) if self.chance(0.5) else (1,)).tolist()
        elif kind == "documents":
            ids = self.r.integers(0, 4, (*self.entries(), S))
            part["document_ids"] = tensors.write(np.sort(ids) if self.chance(0.6) else ids, "int64")
        elif kind == "tree":
            order = self.r.permutation(S)  # a parent stands before its children in this order
            rows = np.empty((*self.entries(), S), np.int64)
            for row in rows.reshape(-1, S):
                for n, key in enumerate(order):
                    row[key] = -1 if n == 0 or self.chance(0.1) else order[int(self.r.integers(0, n))]
            part["parents"] = tensors.write(rows, "int64")
        else:
            k = int(self.r.integers(1, 6))
            part["top_k_indices"] = tensors.write(self.r.integers(-1, S, (*self.broadcastable()[:-1], k)), "int64")

    def rules(self, body):
        for _ in range(max(int(self.r.integers(1, 3)), min(2, len(self.wanted)))):
            if self.rules_left < 2:
                return
            self.rules_left -= 2
            part = self.boolean(2)
            fields = {name: value for name, value in part.items() if name != "kind"}
            inner = part["kind"] in ("causal", "values", "padding", "window", "pattern")
            if inner or self.wants(f"mask of a list, {part['kind']}") and self.chance(0.5):
                fields = {"all_of" if "any_of" in body else "any_of": [part]}
            body.update({name: value for name, value in fields.items() if name not in body})

    def offset(self, body):
        kind = self.r.choice(["end", "number", "list"])
        if kind == "end":
            body["query_offset"] = "end"
        elif kind == "number":
            body["query_offset"] = int(self.r.integers(-3, 6))
        elif len(self.batch) == 1:
            body["query_offset"] = self.r.integers(-3, 6, self.batches).tolist()

    def masks(self, body):
        if self.chance(0.35, "bits", "mask, "):
            self.mask(body)
        if self.chance(0.15, "attn_bias"):
            bias = self.r.standard_normal(self.broadcastable())
            body["attn_bias"] = self.spell(bias, "float32")
        if self.chance(0.3, *PADDINGS):
            self.padding(body)
        if self.chance(0.3, "is_causal"):
            body["is_causal"] = True
        if self.chance(0.2, "window", "window by head"):
            body["window"] = self.window()
        if self.chance(0.3, "mask of a list, ", *TABLES.values()) and self.keys and self.batches and len(self.batch) < 2:
            self.rules(body)
        if self.chance(0.25, "query_offset"):
            self.offset(body)
        if self.apart.random() < 0.25 or self.wants("mask_positions", "own positions"):
            self.mask_positions(body)

    def request(self):
        body = {"query": self.operand(self.Hq, self.L, self.E)}
        if not self.same:
            batch = tuple(1 if self.chance(0.2) else n for n in self.batch) if not self.past else None
            body["key"] = self.operand(self.Hkv, self.S, self.E, batch)
            body["value"] = self.operand(self.Hkv, self.S, self.Ev, batch)
        if self.layout != "BHLE":
            body["layout"] = self.layout
        if self.layout == "BLD":
            body["num_heads"] = self.Hq
            if self.Hkv != self.Hq or self.chance(0.3):
                body["num_kv_heads"] = self.Hkv
        if self.past:
            body["past_key"], body["past_value"] = self.cache(self.E), self.cache(self.Ev)
        if self.chance(0.25):
            body["scale"] = [False, 0.5, 0.05, 1.0][int(self.r.integers(4))]
        if self.chance(0.2):
            body["softcap"] = float(self.r.choice([0.5, 3.0, 30.0]))
        self.masks(body)
        body["return"] = ["output", "weights", "logsumexp", "scores"] + (["present"] if self.past else [])
        body["score_stage"] = str(self.r.choice(["raw", "scaled", "softcapped", "biased", "probs"]))
        return body


def request(seed):
    return Draw(seed).request()
