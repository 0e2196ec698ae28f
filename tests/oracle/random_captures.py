"""Random run files of format 2 by seed: models of several kinds, with everything that lib/runs/FORMAT.md lets a site
say. Sizes are small, but for some sites that need more than one level of tiles."""
import numpy as np

from . import tensors
from .captures import NAMES, File
from .normalizers import KINDS

REAL = ("F32", "F32", "F32", "F16", "BF16", "F64")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
WIDTHS = (1, 2, 3, 5, 8, 15, 16, 31, 32, 64)
LONG = (257, 300, 520, 700)
WORDS = ("the", "cat", "sat", "Ünïcode", "中文", "", " ", '"', "\\", "\u00e9", "x" * 40, "🙂", "\n", "<pad>")


class Dims:
    def __init__(self, B, H, Hkv, L, S, E, lead=()):
        self.B, self.H, self.Hkv, self.L, self.S, self.E = B, H, Hkv, L, S, E
        self.lead = (*lead, B)  # all axes in front of the heads

    @property
    def sequences(self):
        return int(np.prod(self.lead))

    @property
    def weights(self):
        return (*self.lead, self.H, self.L, self.S)


class Draw:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.tensors, self.sites, self.texts = {}, [], []

    # --- pieces ---

    def chance(self, p):
        return self.r.random() < p

    def choice(self, values):
        return values[int(self.r.integers(len(values)))]

    def number(self, low, high):
        return int(self.r.integers(low, high))

    def tensor(self, name, x, dtype="F32"):
        """Stores x, rounded to its type; returns the name."""
        x = np.asarray(x)
        self.tensors[name] = (dtype, x.astype(bool) if dtype == "BOOL" else tensors.round_to(x, NAMES[dtype]))
        return name

    def normal(self, name, *shape, dtype=None, size=1.0):
        return self.tensor(name, size * self.r.standard_normal(shape), dtype or self.choice(REAL[:-1]))

    def dims(self, long=0.08):
        Hkv = self.number(1, 4)
        L, S = (self.choice(LONG if self.chance(long) else SIZES) for _ in range(2))
        H = Hkv * self.choice((1, 1, 2, 3)) if L * S < 10000 else Hkv
        return Dims(self.number(1, 4) if L * S < 10000 else 1, H, Hkv, L, S, self.choice(WIDTHS))

    def text(self, count):
        """A text of at least `count` tokens; its number."""
        n = count + self.choice((0, 0, 0, 1, 5))
        text = {"tokens": [self.choice(WORDS) for _ in range(n)]}
        if self.chance(0.3):
            text["ids"] = [self.number(0, 2**31) for _ in range(n)]
        if self.chance(0.3):
            ends = np.cumsum([len(token.encode()) for token in text["tokens"]]).tolist()
            text["text"] = "".join(text["tokens"])
            text["offsets"] = [[a, b] for a, b in zip([0, *ends[:-1]], ends)]
        if self.chance(0.2):
            text["special"] = sorted({self.number(0, n) for _ in range(2)}) if n else []
        if self.chance(0.1):
            text["x-language"] = ["any", {"JSON": None}]
        self.texts.append(text)
        return len(self.texts) - 1

    def text_numbers(self, d, counts):
        """One text for all sequences, or one for each."""
        if self.chance(0.4):
            return self.text(max(counts, default=0))
        return [self.text(n) for n in counts]

    # --- masks ---

    def broadcastable(self, d):
        shape = [n if self.chance(0.7) else 1 for n in d.weights[:-1]] + [d.S]
        return shape[self.number(0, len(shape)):]

    def mask(self, name, d):
        """A boolean or additive mask with some hidden cells; its name."""
        shape = self.broadcastable(d)
        keep = self.r.random(shape) < 0.75
        if self.chance(0.5):
            return self.tensor(name, keep, "BOOL")
        dtype = self.choice(REAL[:-1])
        return self.tensor(name, np.where(keep, self.r.standard_normal(shape), -np.inf), dtype)

    def pattern(self):
        n = self.choice((0, 1, 3, 10))
        return self.choice(({"kind": "local", "radius": n}, {"kind": "strided", "stride": n + 1, "local": n // 2},
                            {"kind": "block", "size": n + 1}, {"kind": "global", "num_keys": n, "local": n // 2}))

    def masks(self, site, d, n):
        if self.chance(0.2):
            site["is_causal"] = self.chance(0.9)
        if self.chance(0.15):
            site["window"] = [self.number(-1, 9), self.number(-1, 9)]
        if self.chance(0.15):
            site["pattern"] = self.pattern()
        if self.chance(0.15) and n != "all":
            self.mask(f"sites.{n}.attn_mask", d)  # found by its name
        elif self.chance(0.1):
            site["attn_mask"] = self.mask(f"mask of {n}", d)
        elif self.chance(0.15):
            site["attn_mask"] = [self.mask(f"mask {i} of {n}", d) for i in range(self.number(1, 4))]
        if self.chance(0.1):
            name = self.normal(f"bias of {n}", *self.broadcastable(d))
            site["attn_bias"] = name if self.chance(0.5) else [name, self.normal(f"bias 2 of {n}", d.S)]
        if self.chance(0.2):
            self.lengths(site, d)
        if self.chance(0.2):
            self.offset(site, d)

    def lengths(self, site, d):
        site["key_lengths"] = self.r.integers(0 if self.chance(0.2) else min(1, d.S), d.S + 1, d.sequences).tolist()
        if self.chance(0.5):
            site["query_lengths"] = self.r.integers(0, d.L + 1, d.sequences).tolist()

    def offset(self, site, d):
        if self.chance(0.3):
            site["query_offset"] = "end"
        elif self.chance(0.5):
            site["query_offset"] = self.r.integers(-3, 6, d.sequences).tolist()
        elif self.chance(0.5):
            site["query_offset"] = self.number(-3, 6)
        else:
            site["query_start"], site["key_start"] = self.number(0, 50), self.number(0, 20)

    # --- forms ---

    def position(self, site, d, n):
        reach = self.choice((0, 1, 4, 20))
        kind = self.choice(("alibi", "alibi", "t5", "relative", "shaw", "disentangled"))
        if kind == "alibi":
            site["position"] = {"kind": kind}
            if self.chance(0.5):
                site["position"]["slopes"] = self.normal(f"slopes of {n}", d.H, size=0.1)
        elif kind == "t5":
            site["position"] = {"kind": kind, "table": self.normal(f"table of {n}", self.choice((8, 16, 32)), d.H)}
            if self.chance(0.5):
                site["position"] |= {"bidirectional": self.chance(0.5), "max_distance": self.choice((20, 64, 128))}
        elif kind == "relative":
            site["position"] = {"kind": kind, "table": self.normal(f"table of {n}", d.H, 2 * reach + 1)}
        elif kind == "shaw":
            site["position"] = {"kind": kind, "key_table": self.normal(f"table of {n}", *self.heads(d), 2 * reach + 1, d.E)}
        else:
            site["position"] = {"kind": kind, "query_table": self.normal(f"queries of {n}", *self.heads(d), 16, d.E)}
            if self.chance(0.5):
                site["position"]["key_table"] = self.normal(f"table of {n}", *self.heads(d), 16, d.E)
            if self.chance(0.5):
                site["position"]["max_distance"] = self.choice((6, 20))

    def heads(self, d):
        return (d.H,) if self.chance(0.3) else ()

    def score(self, site, d, n):
        A, size = self.choice((1, 2, 7, 16)), d.E**-0.5
        kind = self.choice(("dot", "scaled_dot", "general", "additive", "concat"))
        site["score"] = {"kind": kind}
        if kind == "general":
            site["score"]["w"] = self.normal(f"w of {n}", d.E, d.E, size=size)
        elif kind == "concat":
            site["score"] |= {"w": self.normal(f"w of {n}", A, 2 * d.E, size=size), "v": self.normal(f"v of {n}", A)}
        elif kind == "additive":
            site["score"] |= {"w_q": self.normal(f"w_q of {n}", A, d.E, size=size), "v": self.normal(f"v of {n}", A),
                              "w_k": self.normal(f"w_k of {n}", A, d.E, size=size)}
            if self.chance(0.5):
                site["score"]["b"] = self.normal(f"b of {n}", A)

    def forms(self, site, d, n):
        if self.chance(0.2):
            self.position(site, d, n)
        elif self.chance(0.1):
            self.score(site, d, n)
        if self.chance(0.15):
            site["scale"] = self.choice((0.5, 0.05, 1, 0.9))
        if self.chance(0.1):
            site["softcap"] = self.choice((0.5, 3, 30.0))
        if self.chance(0.15):
            self.by_row(site, d, n, "sinks")
        elif self.chance(0.2):
            self.normalizer(site, d, n)
        if "scale" not in site and self.chance(0.15):
            self.by_row(site, d, n, "scale")
        dot = site.get("score", {}).get("kind", "dot") in ("dot", "scaled_dot")
        if dot and not {"shaw", "disentangled"} & {site.get(name, {}).get("kind") for name in ("position", "score_position")} and self.chance(0.15):
            site["mix"] = {"logits": self.normal(f"mix of {n}", d.H, d.H, size=d.H**-0.5)}
        if self.chance(0.15):
            self.mixed_weights(site, d, n)

    def mixed_weights(self, site, d, n):
        """Differential attention, or talking heads of any number, with value heads of their own."""
        if d.H % 2 == 0 and self.chance(0.5):
            heads = self.choice([h for h in range(1, d.H // 2 + 1) if d.H // 2 % h == 0])
            site["subtract"] = {"lambda": self.normal(f"lambda of {n}", self.choice((1, d.H // 2))), "pairs": self.choice(("adjacent", "halves"))}
        else:
            heads = self.number(1, 4)
            weights = self.normal(f"mixed weights of {n}", heads * self.number(1, 4), d.H, size=d.H**-0.5)
            site["mix"] = site.get("mix", {}) | {"weights": weights}
        name = site.get("value", f"sites.{n}.value")
        if name not in self.tensors and d.Hkv != heads:  # keys are the values of a site without
            self.normal(name, *d.lead, heads, d.S, self.choice(WIDTHS))
        elif name in self.tensors:
            dtype, x = self.tensors[name]
            self.normal(name, *d.lead, heads, d.S, x.shape[-1], dtype=dtype)

    def normalizer(self, site, d, n):
        kind = self.choice(KINDS)
        site["normalizer"] = {"kind": kind}
        if kind == "sigmoid" and self.chance(0.7):
            site["normalizer"]["bias"] = self.normal(f"bias of the sigmoid of {n}", self.choice((1, d.H)))
        elif kind == "entmax" and self.chance(0.5):
            site["normalizer"]["alpha"] = self.choice((1.2, 2))
        elif kind[:4] == "relu" and self.chance(0.5):
            site["normalizer"]["divisor"] = self.choice((0.5, 30))

    def by_row(self, site, d, n, member):
        name = self.normal(f"sites.{n}.{member}" if self.chance(0.5) else f"{member} of {n}",
                           *((d.H,) if self.chance(0.5) else (d.H, d.L)))
        if not name.startswith("sites."):
            site[member] = name

    # --- sites ---

    def operands(self, site, d, n):
        dtype = self.choice(REAL)
        for name, heads, length, width in (("query", d.H, d.L, d.E), ("key", d.Hkv, d.S, d.E),
                                           ("value", d.Hkv, d.S, self.choice(WIDTHS))):
            if name == "value" and self.chance(0.5):
                continue
            place = f"sites.{n}.{name}"
            if self.chance(0.2):
                site[name] = place = f"{name} of site {n}, ü"
            self.normal(place, *d.lead, heads, length, width, dtype=self.choice(REAL) if self.chance(0.1) else dtype)

    def site(self, d, **members):
        n = len(self.sites)
        site = dict(members)
        self.operands(site, d, n)
        if self.chance(0.1):
            site["x-note"] = {"free": [1, None, "text"]}
        self.sites.append(site)
        return site, n

    def label(self, site, d):
        """Texts as long as the site's starts and lengths need."""
        for side, length in (("query", d.L), ("key", d.S)):
            need = site.get(f"{side}_lengths", [length] * d.sequences)
            site[f"{side}_text"] = self.text_numbers(d, [site.get(f"{side}_start", 0) + n for n in need])

    def page(self, site, n):
        """Puts the keys and values of a site into blocks of a pool, of which sequences share some, if its lengths allow it."""
        names = [site.get(name, f"sites.{n}.{name}") for name in ("key", "value")]
        shapes = [self.tensors[name][1].shape for name in names if name in self.tensors]
        B, Hkv, S, *rest = shapes[0]
        lengths = site.get("key_lengths", self.free_lengths(site, B, S))
        if len(rest) != 1 or max(lengths) != S or not S or {shape[1] for shape in shapes} != {Hkv}:
            return
        rows = self.choice((1, 2, 3, 16))
        most = -(-S // rows) + self.number(0, 2)
        blocks, heads_first = self.number(1, B * most + 1), self.chance(0.5)
        table = self.r.integers(0, blocks, (B, most))
        unread = np.arange(most) * rows >= np.array(lengths)[:, None]
        place = f"sites.{n}.block_table" if self.chance(0.5) else f"blocks of {n}"
        self.tensor(place, np.where(unread, self.choice((-1, 2**31 - 1)), table), self.choice(("I32", "I64")))
        site |= {"key_lengths": lengths} | ({} if place.startswith("sites.") else {"block_table": place})
        if heads_first or self.chance(0.2):
            site["block_layout"] = "HND" if heads_first else "NHD"
        for name, shape in zip(names, shapes):
            axes = (Hkv, rows) if heads_first else (rows, Hkv)
            self.normal(name, blocks, *axes, shape[-1], dtype=self.tensors[name][0])

    def free_lengths(self, site, B, S):
        """Lengths of keys where no text needs them; one sequence has all."""
        if "key_text" in site or self.chance(0.3):
            return [S] * B
        lengths = self.r.integers(0, S + 1, B)
        lengths[self.number(0, B)] = S
        return lengths.tolist()

    # --- models ---

    def plain(self):
        """Sites that have nothing in common."""
        for _ in range(self.number(1, 4)):
            d = self.dims()
            if self.chance(0.05):
                d.L, d.S = self.choice(((0, d.S), (d.L, 0)))
            site, n = self.site(d)
            self.masks(site, d, n)
            self.forms(site, d, n)
            if self.chance(0.3):
                self.label(site, d)

    def layers(self):
        """Layers that share masks, lengths and texts."""
        d = self.dims()
        d.S = d.L
        shared = {}
        self.masks(shared, d, "all")
        if self.chance(0.7):
            self.label(shared, d)
        for n in range(self.number(1, 4)):
            site, n = self.site(d, name=f"h.{n}.attn", layer=n, **shared)
            self.forms(site, d, n)

    def padded(self):
        """Self-attention of padded texts, whose masks of keys name their rows, too, unless lengths do."""
        d = self.dims(0)
        d.S = d.L
        lengths = self.r.integers(1, d.L + 1, d.B)
        keep = np.arange(d.L) < lengths[:, None]
        keep = (keep if self.chance(0.6) else keep[:, ::-1])[:, None, None]
        members = {"kind": self.choice(("self", "encoder", "decoder", "cross"))}
        if self.chance(0.3):
            members["stack"] = self.choice(("text", "vision"))
        if self.chance(0.6):
            text = self.text_numbers(d, [d.L] * d.B)
            members |= {"query_text": text, "key_text": self.text(d.L) if self.chance(0.2) else text}
        if self.chance(0.2):
            members["query_lengths"] = lengths.tolist()
        if self.chance(0.4):
            members["is_causal"] = True
        site, n = self.site(d, **members)
        how = self.choice(("BOOL", "F32", "lengths", "rows", "keep", "hide", "nonzero", "finite_min"))
        if how == "lengths":
            site["key_lengths"] = lengths.tolist()
        elif how in ("keep", "hide", "nonzero", "finite_min"):
            site["mask_semantics"] = how
            self.tensor(f"sites.{n}.attn_mask", {"keep": keep, "hide": ~keep, "nonzero": keep * 7,
                                                 "finite_min": np.where(keep, 0.5, -1e9)}[how] * 1.0,
                        "F32" if how == "finite_min" else self.choice(("F32", "F16", "I64", "U8")))
        elif how == "F32":
            self.tensor(f"sites.{n}.attn_mask", np.where(keep, 0.0, -np.inf))
        else:
            self.tensor(f"sites.{n}.attn_mask", keep if how == "BOOL" else keep.repeat(d.L, 2), "BOOL")

    def translation(self):
        """An encoder and a decoder over padded batches."""
        source, target = self.dims(0.05), self.dims(0.02)
        B, H, Hkv, E = source.B, source.H, source.Hkv, source.E
        S, T = source.S, target.L
        sources, targets = self.r.integers(1, S + 1, B).tolist(), self.r.integers(1, T + 1, B).tolist()
        of_source, of_target = [self.text(n) for n in sources], [self.text(n) for n in targets]
        for layer in range(self.number(1, 3)):
            self.site(Dims(B, H, Hkv, S, S, E), kind="encoder", layer=layer, query_text=of_source, key_text=of_source,
                      query_lengths=sources, key_lengths=sources)
            self.site(Dims(B, H, Hkv, T, T, E), kind="decoder", layer=layer, query_text=of_target, key_text=of_target,
                      query_lengths=targets, key_lengths=targets, is_causal=True)
            d = Dims(B, H, Hkv, T, S, E)
            site, n = self.site(d, kind="cross", layer=layer, query_text=of_target, key_text=of_source,
                                query_lengths=targets, key_lengths=sources)
            self.forms(site, d, n)

    def generation(self):
        """A prompt and steps behind it, whose cache may keep the last keys only."""
        d, kept = self.dims(0), self.choice((None, None, 4))
        prompt = d.L
        steps = [(0, prompt)] + [(prompt + i, 1) for i in range(self.number(1, 4))]
        text = self.text(prompt + len(steps))
        for call, (start, L) in enumerate(steps):
            first = max(0, start - kept) if kept else 0
            step = Dims(d.B, d.H, d.Hkv, L, start + L - first, d.E)
            members = {"is_causal": True, "query_text": text, "key_text": text}
            site, n = self.site(step, name=f"attention, call {call}", layer=0, call=call, query_start=start,
                                key_start=first, **members)
            if self.chance(0.3):
                self.position(site, step, n)
            if self.chance(0.3):
                site["window"] = [3, 0]

    def stacked(self):
        """One site with an axis of layers in front."""
        d = self.dims(0)
        d = Dims(d.B, d.H, d.Hkv, d.L, d.S, d.E, lead=(self.number(1, 4),))
        site, n = self.site(d, axes=["layer", "batch", "head"])
        self.masks(site, d, n)
        self.forms(site, d, n)
        if self.chance(0.3):
            self.label(site, d)

    def file(self):
        self.choice((self.plain, self.plain, self.plain, self.layers, self.layers, self.translation, self.generation,
                     self.stacked, self.padded, self.padded))()
        for n, site in enumerate(self.sites):
            if self.chance(0.15):
                self.page(site, n)
        run = {"version": 2, "sites": self.sites}
        if self.texts or self.chance(0.2):
            run["texts"] = self.texts
        if self.chance(0.5):
            run["model"] = "drawn"
        if self.chance(0.1):
            run["x-made"] = "by a test"
        return File(run, self.tensors)


def capture(seed):
    return Draw(seed).file()
