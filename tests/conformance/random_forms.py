"""Seeded random requests of every form: scores, positions, sinks, dropout, patterns, projections, mixed
with the masks, layouts, caches and types of random_requests.py."""
import json

import numpy as np

from oracle import forms, tensors
from oracle.forms import FORMS, SCORE_KINDS
from oracle.normalizers import KINDS, POINTWISE
from oracle.ragged import is_ragged
from random_requests import Draw

DOT = ("scaled_dot", "dot")
POSITIONS = (None, None, "alibi", "t5", "relative", "shaw", "disentangled", "rotary", "sinusoidal", "learned")
PRODUCTS = ("shaw", "disentangled", "rotary")  # positions of the dot product
ADDED = ("sinusoidal", "learned")  # positions that are added to queries, keys and values
ENCODINGS = ("rotary", *ADDED)  # positions that change queries and keys
SCALINGS = ("linear", "dynamic", "yarn", "llama3", "longrope")
MORE_ROTARY = {f"rotary {name}" for name in ("start", "frequencies", "scaling", *SCALINGS)}
LONGEST = 70  # the oracle holds [.., L, S, A] numbers of the tanh forms


class FormDraw(Draw):
    """Dimensions as before, not too long; then a form and its parameters."""

    def __init__(self, seed, wanted=()):
        super().__init__(seed, wanted)
        r = self.r
        self.rows = self.dice(seed)  # draws what is by row
        self.further = self.dice(seed)  # draws axes and second kinds of positions
        self.L, self.S = min(self.L, LONGEST), min(self.S, LONGEST)
        self.keys = self.S + self.past
        self.score = str(r.choice(FORMS))
        self.position = r.choice(np.array(POSITIONS, object))
        if self.score not in DOT and (self.position in PRODUCTS and self.position in self.words or self.wants("mix logits")) \
                and not self.wants("score "):
            self.score = "dot"
        if self.score not in DOT and self.position in PRODUCTS:
            self.position = None
        if self.position in ENCODINGS or self.words & set(ENCODINGS):
            self.E += self.E % 2
            self.Ev += self.Ev % 2
        self.Ek = self.E
        if self.score not in DOT and not self.same and self.chance(0.5) and self.position not in ADDED:
            self.Ek = int(r.choice((1, 3, 8, 17)))
        if self.position == "learned":
            self.lowest, self.Ev, self.Hkv = 0, self.E, self.Hq
        if self.same:
            self.S, self.Ev, self.keys = self.L, self.E, self.L + self.past

    def parameter(self, *shape, size=1.0):
        dtype = "float32" if self.dtype == "float64" else str(self.r.choice(["float32", self.dtype]))
        return self.spell(size * self.r.standard_normal(shape), dtype)

    def score_field(self):
        A, E, Ek = int(self.r.choice((1, 2, 7, 16, 33))), self.E, self.Ek
        size = 1 / np.sqrt(E)
        if self.score in DOT:
            return self.score if self.chance(0.7) else {"kind": self.score}
        if self.score == "general":
            return {"kind": "general", "w": self.parameter(Ek, E, size=size)}
        if self.score == "concat":
            return {"kind": "concat", "w": self.parameter(A, Ek + E, size=size), "v": self.parameter(A)}
        field = {"kind": "additive", "w_q": self.parameter(A, E, size=size),
                 "w_k": self.parameter(A, Ek, size=size), "v": self.parameter(A)}
        if self.chance(0.5):
            field["b"] = self.parameter(A)
        return field

    def position_field(self):
        reach = int(self.r.choice((0, 1, 4, 20)))
        if self.position == "alibi":
            return {"kind": "alibi", **({"slopes": self.parameter(self.Hq, size=0.3)} if self.chance(0.4) else {})}
        if self.position == "t5":
            field = {"kind": "t5", "table": self.parameter(int(self.r.choice((8, 16, 32))), self.Hq)}
            if self.chance(0.6):
                field["bidirectional"] = bool(self.chance(0.5))
            if self.chance(0.5):
                field["max_distance"] = int(self.r.choice((20, 64, 128)))
            return field
        if self.position == "relative":
            return {"kind": "relative", "table": self.parameter(self.Hq, 2 * reach + 1)}
        if self.position == "shaw":
            field = {"kind": "shaw", "key_table": self.vectors(2 * reach + 1, self.E)}
            if self.chance(0.6):
                field["value_table"] = self.vectors(2 * reach + 1, self.Ev)
            return field
        if self.position == "disentangled":
            return self.disentangled()
        if self.position == "sinusoidal":
            return {"kind": "sinusoidal", "layout": str(self.r.choice(["interleaved", "halves"]))}
        if self.position == "learned":
            return {"kind": "learned", "table": self.parameter(3 * LONGEST, self.width_of_rows())}
        return self.rotary_field()

    def width_of_rows(self):
        return self.E * (self.Hq if self.layout == "BLD" else 1)

    def rotary_field(self):
        field = {"kind": "rotary", "layout": str(self.r.choice(["interleaved", "halves"]))}
        if self.chance(0.4):
            field["base"] = float(self.r.choice((100.0, 500000.0)))
        if self.chance(0.4):
            field["dims"] = 2 * int(self.r.integers(1, self.E // 2 + 1))
        if self.chance(0.5, *(kind for kind in self.wanted if kind in MORE_ROTARY)):
            self.more_rotary(field)
        return field

    def vectors(self, *shape):
        """A table of vectors by distance: of all heads, or one of each."""
        return self.parameter(*((self.Hq,) if self.chance(0.5) else ()), *shape)

    def disentangled(self):
        field, buckets = {"kind": "disentangled"}, self.chance(0.5)
        rows = int(self.r.choice((8, 12, 16, 40))) if buckets else 2 * int(self.r.choice((1, 2, 9, 30)))
        if buckets:
            field["max_distance"] = rows // 4 + int(self.r.choice((2, 3, 10, 60)))
        names = [("key_table",), ("query_table",), ("key_table", "query_table")][int(self.r.integers(3))]
        return field | {name: self.vectors(rows, self.E) for name in names}

    def more_rotary(self, field):
        start = int(self.r.integers(0, self.E - 1)) if self.chance(0.4, "rotary start") else 0
        dims = 2 * int(self.r.integers(1, (self.E - start) // 2 + 1))
        field["dims"], field["start"] = dims, start
        if self.chance(0.3):
            field["factor"] = float(self.r.choice((0.5, 1.25)))
        if self.chance(0.5, "rotary frequencies") and not self.wants("rotary scaling", *(f"rotary {s}" for s in SCALINGS)):
            field.pop("base", None)
            own = self.r.standard_normal(dims // 2) * self.r.choice((0, 0.01, 1), dims // 2)
            field["frequencies"] = self.spell(own, str(self.r.choice(["float32", "float64"])))
            return
        known, factor = int(self.r.choice((8, 30, 4096))), float(self.r.choice((1.0, 4.0, 40.0)))
        kind = str(self.r.choice([s for s in SCALINGS if s != "dynamic" or dims > 2]))
        scaling = {"kind": kind, "factor": factor}
        if kind != "linear":
            scaling["original_max_position_embeddings"] = known
        if kind == "yarn" and self.chance(0.5):
            scaling |= {"beta_fast": 8.0, "beta_slow": 2.0, "truncate": bool(self.chance(0.5)), "mscale": 0.7,
                        "mscale_all_dim": 1.1}
        if kind == "longrope":
            for name in ("short_factor", "long_factor"):
                scaling[name] = self.spell(self.r.uniform(1, 8, dims // 2), "float32")
        if kind in ("yarn", "longrope") and self.chance(0.3):
            scaling["attention_factor"] = 1.125
        if kind == "llama3" and self.chance(0.5):
            scaling |= {"low_freq_factor": 0.5, "high_freq_factor": 2.0}
        field["scaling"] = scaling

    def axes(self, field):
        """Gives rotary positions axes instead of those of the sequence."""
        r, start = self.further, field.get("start", 0)
        pairs = field.get("dims", self.E - start) // 2
        if "frequencies" in field:
            pairs = tensors.shape_of(field["frequencies"])[0]
        cuts = np.sort(r.integers(0, pairs + 1, int(r.integers(0, 4))))
        counts = [int(n) for n in np.diff([0, *cuts, pairs]) if n]
        if r.random() < 0.4:  # the first of interleaved axes has most pairs
            counts.sort(reverse=True)
        fits = all(i + len(counts) * (n - 1) < sum(counts) for i, n in enumerate(counts) if i)
        interleaved = fits and r.random() < 0.7
        axes = []
        for n in counts:
            axis = {"num_pairs": n, **({"interleaved": True} if interleaved else {})}
            if not {"frequencies", "scaling"} & set(field) and r.random() < 0.3:
                axis["base"] = float(r.choice((100.0, 10000.0)))
            names = ["query_positions", "key_positions"]
            if self.L == self.keys and r.random() < 0.5:
                names = ["positions"]
            for name in names:
                axis[name] = self.places(self.L if name == "query_positions" else self.keys)
            axes.append(axis)
        if axes:
            field["axes"] = axes

    def places(self, n):
        """Positions on an axis, some of them none."""
        r = self.further
        shape = (self.batches, n) if self.batches and r.random() < 0.4 else (n,)
        x = np.round(r.integers(-3, 20, shape) * r.choice((1, 0.25)), 2).astype(object)
        return np.where(r.random(shape) < 0.1, None, x).tolist()

    def second_position(self, body):
        """Makes a list of a kind that changes scores, and one that changes queries and keys."""
        even = not (self.E % 2 or self.Ek % 2 or self.Ev % 2)
        added = even and self.further.random() < 0.5 and not self.wants("rotary", "rotary ")
        if self.score not in DOT or self.E % 2 or added or self.wants(*ADDED):
            other = "sinusoidal"
            if self.wants("learned") and self.E == self.Ek == self.Ev and self.width_of_rows() == self.E:
                self.lowest, other = 0, {"kind": "learned", "table": self.parameter(3 * LONGEST, self.E)}
            elif not even or "projections" in body or tensors.shape_of(body.get("key", body["query"]))[:len(self.batch)] != self.batch:
                return
        else:
            other = self.rotary_field()
            if self.further.random() < 0.5 or self.wants("rotary axes"):
                self.axes(other)
        body["position"] = [body["position"], other][:: int(self.further.choice((1, -1)))]

    def normalizer(self, body):
        kind = str(self.r.choice(KINDS))
        field = {"kind": kind}
        if kind == "sigmoid" and self.chance(0.6):
            field["bias"] = -1.25 if self.chance(0.2) else self.parameter(self.Hq if self.chance(0.7) else 1)
        if kind in ("relu", "relu_squared") and self.chance(0.5):
            field["divisor"] = "keys" if self.chance(0.25) else float(self.r.choice((0.5, 1.0, 70.0)))
        if kind == "entmax" and self.chance(0.6):
            field["alpha"] = float(self.r.choice((1.01, 1.25, 1.7, 2.0)))
        if kind in POINTWISE:
            body.pop("sinks", None)
        body["normalizer"] = kind if len(field) == 1 and self.chance(0.5) else field

    def own_positions(self, body):
        """Positions of queries, keys or both: in any order, repeated, some without."""
        for position in body["position"] if isinstance(body["position"], list) else [body["position"]]:
            if isinstance(position, dict) and position["kind"] == "rotary" and self.past and self.chance(0.5, "rotary past"):
                position["past"] = "raw"
        for name, n in (("query_positions", self.L), ("key_positions", self.keys)):
            if self.chance(0.3):
                continue
            shape = (self.batches, n) if self.batches and self.chance(0.5) else (n,)
            x = np.maximum(self.r.integers(-3, 20, shape), self.lowest)
            none = self.r.random(shape) < 0.1
            if self.chance(0.3):
                x[none] = -2**63
                body[name] = tensors.write(x, "int64")
            else:
                body[name] = np.where(none, None, x.astype(object)).tolist()

    def pattern(self):
        kind = str(self.r.choice(["local", "strided", "block", "global"]))
        n = int(self.r.choice((0, 1, 3, 10)))
        return {"kind": kind, **{"local": {"radius": n}, "strided": {"stride": n + 1, "local": n // 2},
                                 "block": {"size": n + 1}, "global": {"num_keys": n, "local": n // 2}}[kind]}

    def operands(self, body):
        body["query"] = self.operand(self.Hq, self.L, self.E)
        if not self.same:
            batch = tuple(1 if self.chance(0.2) else n for n in self.batch) if not self.past and self.position not in ADDED else None
            body["key"] = self.operand(self.Hkv, self.S, self.Ek, batch)
            body["value"] = self.operand(self.Hkv, self.S, self.Ev, batch)
        if self.layout != "BHLE":
            body["layout"] = self.layout
        if self.layout == "BLD":
            body.update(num_heads=self.Hq, num_kv_heads=self.Hkv)
        if self.past:
            body["past_key"], body["past_value"] = self.cache(self.Ek), self.cache(self.Ev)

    def number_list(self, *shape):
        return tensors.nested(tensors.round_to(self.rows.standard_normal(shape), "float32"))

    def by_row(self, kind, of_heads):
        """`of_heads`, a number for each head, or an array that is broadcast to [batch.., H, L]."""
        if self.rows.random() < 0.4 and not self.wants(f"{kind} of rows") or self.wants(kind):
            return of_heads
        rows = (*self.batch, *((self.Hq,) if self.heads_axis else ()), self.L)
        shape = [1 if self.rows.random() < 0.3 else n for n in rows[int(self.rows.integers(len(rows))):]]
        shape = [1, *shape] if len(shape) == 1 else shape
        return self.number_list(*shape)

    def extras(self, body):
        """What goes with every form."""
        if self.position is not None:
            body["position"] = self.position_field()
        if self.position == "rotary" and (self.further.random() < 0.4 or self.wants("rotary axes")):
            self.axes(body["position"])
        if self.position in SCORE_KINDS and (self.further.random() < 0.3 or self.words & set(ENCODINGS)):
            self.second_position(body)
        if self.position is not None and self.chance(0.4, "own positions", "rotary past"):
            self.own_positions(body)
        if isinstance(body.get("position"), dict) and "axes" in body["position"]:
            body.pop("query_positions", None), body.pop("key_positions", None)  # nothing reads them
        if self.chance(0.25, "sinks", "sinks of rows"):
            body["sinks"] = self.by_row("sinks", self.parameter(self.Hq))
        if self.chance(0.2, "dropout_p"):
            body["dropout_p"] = float(self.r.choice((0.1, 0.5)))
            body["seed"] = int(self.r.integers(0, 2**40))
        if self.chance(0.25, "pattern", "pattern by head"):
            body["pattern"] = self.patterns()
        if self.chance(0.2, "scale") and not self.wants("scale of rows"):
            body["scale"] = [False, 0.5, 1.0][int(self.r.integers(3))]
        elif self.rows.random() < 0.25 or self.wants("scale of rows"):
            body["scale"] = self.by_row("scale", self.number_list(self.Hq))
        if self.chance(0.15, "softcap"):
            body["softcap"] = float(self.r.choice([0.5, 3.0, 30.0]))
        self.masks(body)
        offset = body.get("query_offset", 0)
        if any(p["kind"] == "learned" for p in forms.positions_of(body)) and (offset == "end" or np.min(offset) < 0):
            del body["query_offset"]  # queries stay within the table
        body["return"] = ["output", "weights", "logsumexp", "scores"] + (["present"] if self.past else [])
        if "dropout_p" in body:
            body["return"].append("weights_dropped")
        body["score_stage"] = str(self.r.choice(["raw", "scaled", "softcapped", "biased", "probs"]))
        if self.chance(0.3, *KINDS):
            self.normalizer(body)
        own_vectors = {"shaw", "disentangled"} & {p["kind"] for p in forms.positions_of(body)}
        if self.score in DOT and not own_vectors and (self.rows.random() < 0.25 or self.wants("mix logits")):
            body["mix"] = {"logits": self.spell(self.rows.standard_normal((self.Hq, self.Hq)) / np.sqrt(self.Hq), "float32")}

    def mixed_weights(self, body):
        """Talking heads with any number of output heads, or differential attention; value heads of their own."""
        r, one = self.rows, not self.heads_axis
        if self.Hq and self.Hq % 2 == 0 and (r.random() < 0.8 or self.wants("subtract")) and not self.wants("mix weights") \
                and not (self.layout == "BLD" and (self.Hkv % 2 or self.lowest == 0)):  # values of BLD keep the width of a table
            G = self.Hq // 2
            heads = self.Hkv // 2 if self.layout == "BLD" else self.Hkv if "block_table" in body else int(r.choice([n for n in range(1, G + 1) if G % n == 0]))
            of_pairs = self.spell(r.uniform(-1, 1, G), "float32")
            if G % heads == 0:
                body["subtract"] = {"lambda": 0.75 if r.random() < 0.5 else of_pairs, "pairs": str(r.choice(("adjacent", "halves")))}
                self.value_heads(body, heads)
            return
        heads = self.Hkv if self.layout == "BLD" or "block_table" in body else 1 if one else int(r.integers(1, 4))
        G = 1 if one else heads * int(r.integers(1, 4))
        matrix = r.standard_normal((G, self.Hq)) / np.sqrt(self.Hq)
        body["mix"] = body.get("mix", {}) | {"weights": self.spell(matrix, "float32")}
        self.value_heads(body, heads)

    def value_heads(self, body, heads):
        for name in ("value", "past_value"):
            if body.get(name) is None or not self.heads_axis or "block_table" in body:
                continue
            shape, width = list(tensors.shape_of(body[name])), self.Ev
            if name == "value" and self.layout == "BLD":
                shape[-1] = heads * width
            else:
                shape[-2 if name == "value" and self.layout == "BLHE" else -3] = heads
            body[name] = self.spell(self.rows.standard_normal(shape), self.dtype)

    def pages(self, body):
        """Keys and values in pages of a pool: in any order, some of them several times."""
        r, size = self.rows, int(self.rows.choice((1, 2, 3, 16)))
        lengths = r.integers(0, self.S + 1, self.batches)
        lengths[r.integers(self.batches)] = self.S  # S is the largest length
        blocks = -(-self.S // size) + int(r.integers(0, 3))
        count = int(r.integers(1, 3 + 2 * blocks))
        table = r.integers(0, count, (self.batches, blocks))
        table[np.arange(blocks) * size >= lengths[:, None]] = -1
        turned = bool(r.random() < 0.4)
        body |= {"block_layout": "HND"} if turned else {}
        for name, width in (("key", self.Ek), ("value", self.Ev)):
            axes = (self.Hkv, size) if turned else (size, self.Hkv)
            body[name] = tensors.write(r.standard_normal((count, *axes, width)), self.dtype)
        body["block_table"] = tensors.write(table, str(r.choice(["int32", "int64"])))
        body["key_lengths"] = lengths.tolist()

    def request(self):
        body = {"score": self.score_field()}
        self.operands(body)
        self.extras(body)
        fits = self.layout == "BLHE" or self.layout == "BHLE" and self.heads_axis
        if fits and len(self.batch) == 1 and self.batches and self.S and not self.same and not self.past \
                and (self.rows.random() < 0.4 or self.wants("block_table")):
            self.pages(body)
        if not self.same and not any("value_table" in p for p in forms.positions_of(body)) \
                and (self.rows.random() < 0.25 or self.wants("mix weights", "subtract")):
            self.mixed_weights(body)
        return body


class ProjectedDraw(FormDraw):
    """Multi-head attention: [.., L, D] tensors with weights, each optional."""

    def width_of_rows(self):
        return 12

    def __init__(self, seed, wanted=()):
        super().__init__(seed, wanted)
        self.layout, self.heads_axis, self.same, self.Ek = "BLD", True, False, self.E
        self.S = max(1, self.S)
        self.keys = self.S + self.past
        if self.position is None and self.chance(0.5):
            self.position = "alibi"

    def weight(self, name, heads, width, size, into):
        """The input's width; its weight and bias go into `into`."""
        if not self.chance(0.75) and self.position != "learned":
            return heads * width
        D = int(self.r.choice((1, 4, 12, 33) if self.position not in ADDED else (12,)))
        into["w_" + name] = self.parameter(heads * width, D, size=size / np.sqrt(D))
        if self.chance(0.6):
            into["b_" + name] = self.parameter(heads * width)
        return D

    def request(self):
        p = {"num_heads": self.Hq}
        if self.Hkv != self.Hq:
            p["num_kv_heads"] = self.Hkv
        widths = [self.weight(n, heads, width, 1.0, p) for n, heads, width in
                  (("q", self.Hq, self.E), ("k", self.Hkv, self.E), ("v", self.Hkv, self.Ev))]
        if self.chance(0.7):
            Do = int(self.r.choice((1, 5, 24)))
            p["w_o"] = self.parameter(Do, self.Hq * self.Ev, size=1 / np.sqrt(self.Hq * self.Ev))
            if self.chance(0.6):
                p["b_o"] = self.parameter(Do)
        body = {"score": self.score_field(), "projections": p}
        for name, length, width in zip(("query", "key", "value"), (self.L, self.S, self.S), widths):
            body[name] = self.spell(self.r.standard_normal((*self.batch, length, width)), self.dtype)
        if self.past:
            body["past_key"], body["past_value"] = self.cache(self.E), self.cache(self.Ev)
        self.extras(body)
        if not any("value_table" in p for p in forms.positions_of(body)) and (self.rows.random() < 0.2 or self.wants("mix weights")):
            body["mix"] = body.get("mix", {}) | {"weights": self.number_list(self.Hq, self.Hq)}
        if self.position not in ADDED and all(w % 2 == 0 for w in widths) and isinstance(body.get("query_offset", 0), int):
            p["add_positions"] = True
        return body


def request(seed):
    """Every fourth request has projections."""
    return (ProjectedDraw if seed % 4 == 3 else FormDraw)(seed + 10**6).request()


def ragged(seed):
    """A ragged batch in each of its forms. The lengths of its entries differ by up to a hundred times."""
    r = np.random.default_rng(seed + 2 * 10**6)
    heads, group, E, Ev, count = (int(r.integers(1, n)) for n in (4, 4, 20, 20, 7))
    queries, keys = (np.where(r.random(count) < 0.3, r.integers(0, 3, count), r.integers(0, 200, count)) for _ in range(2))
    form, own = str(r.choice(["lists", "packed", "sums"])), bool(r.random() < 0.3)
    queries[r.integers(count)] = 200
    keys[r.integers(count)] += not keys.any()  # lists of no rows at all do not say how many axes they have
    sides = {"query": (queries, heads * group, E), "key": (keys, heads, E), "value": (keys, heads, Ev)}
    dtype = str(r.choice(["float32", "float64"]))
    body = {"return": ["output", "weights", "logsumexp", "scores"]}
    for name, (lengths, H, width) in sides.items():
        if own and name != "query":
            continue
        parts = [r.standard_normal((n, H, width)) for n in lengths]
        body[name] = ([np.float32(np.swapaxes(x, 0, 1)).tolist() for x in parts] if form == "lists"
                      else tensors.write(np.concatenate(parts), dtype))
    if form == "packed":
        body |= {"query_lengths": queries.tolist()} | ({} if own else {"key_lengths": keys.tolist()})
    elif form == "sums":
        sums = [np.append(0, np.cumsum(n)).tolist() for n in (queries, keys)]
        body["cu_seqlens"] = sums[0] if own else sums
    fields = ({"is_causal": True}, {"query_offset": "end"}, {"window": [int(r.integers(0, 50)), -1]}, {"position": "alibi"},
              {"sinks": r.standard_normal(heads * group).tolist()}, {"softcap": 3.0}, {"scale": 0.4}, {"normalizer": "sigmoid"})
    for chosen in fields:
        body |= chosen if r.random() < 0.3 else {}
    if body.get("normalizer"):
        body.pop("sinks", None)
    if count == 1 or is_ragged(body):
        more, keys = np.random.default_rng(seed + 4 * 10**6), queries if own else keys
        if form == "lists" and not own and more.random() < 0.4:
            kept = more.integers(0, 30, count)
            body |= {name: [np.float32(more.standard_normal((heads, n, width))).tolist() for n in kept]
                     for name, width in (("past_key", E), ("past_value", Ev))} if kept.any() else {}
            keys = keys + kept
        body |= items_of(np.random.default_rng(seed + 3 * 10**6), queries, keys, heads * group, form != "lists")
        if more.random() < 0.5:
            body |= combined(more, keys, form != "lists")
    return body


def combined(r, keys, packs):
    """Masks with items by entry, inside others."""
    def of_keys(draw):
        items = [draw(S) for S in keys]
        return np.concatenate(items).tolist() if packs and r.random() < 0.5 else [x.tolist() for x in items]
    documents = {"kind": "documents", "document_ids": of_keys(lambda S: r.integers(0, 3, S))}
    padding = {"kind": "padding", "key_padding_mask": of_keys(lambda S: r.random(S) < 0.7), "key_padding_semantics": "hide"}
    prefix = {"kind": "prefix", "prefix_lengths": [int(r.integers(0, S + 1)) for S in keys]}
    lengths = {"kind": "padding", "key_lengths": [int(r.integers(0, S + 1)) for S in keys]}
    either = [documents, {"kind": "not", "not": padding}, {"kind": "all_of", "all_of": [prefix, {"kind": "any_of", "any_of": [lengths, documents]}]}]
    return {"any_of": [x for x in [{"kind": "causal"}, *either] if r.random() < 0.6] or either}


def items_of(r, queries, keys, heads, packs):
    """Masks, biases, positions and numbers of keys that each entry has of its own; numbers of keys may be packed."""
    lead = [(), (heads,)][int(r.integers(2))]
    cells = {"attn_mask": [r.random((*lead, L, S)) < 0.7 for L, S in zip(queries, keys)],
             "attn_bias": [np.float32(r.standard_normal((*lead, L, S))) for L, S in zip(queries, keys)],
             "top_k_indices": [r.integers(-1, S, (L, 3)) for L, S in zip(queries, keys)] if queries.all() else None}
    rows = {"document_ids": ([r.integers(0, 3, S) for S in keys], {}), "token_ids": ([r.integers(0, 4, S) for S in keys], {"pad_id": 1}),
            "key_padding_mask": ([r.random(S) < 0.8 for S in keys], {"key_padding_semantics": "keep"}),
            "parents": ([np.array([r.integers(-1, j) for j in range(S)], int) for S in keys], {}),
            "key_positions": ([r.integers(0, 50, S) for S in keys], {"position": "alibi"}),
            "query_positions": ([r.integers(0, 50, L) for L in queries], {"position": "alibi"})}
    body = {name: [x.tolist() for x in items] for name, items in cells.items() if items and r.random() < 0.25}
    for name, (items, more) in rows.items():
        if r.random() < 0.2 and not ({"token_ids", "key_padding_mask"} & {name} and {"token_ids", "key_padding_mask"} & set(body)):
            flat = packs and r.random() < 0.5
            body |= more | {name: np.concatenate(items).tolist() if flat else [x.tolist() for x in items]}
    return body
