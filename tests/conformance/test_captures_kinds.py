"""Each kind of position, mask, normalizer, scale, sinks and score as a capture, 50 seeds a kind: its weights are to the bit
those of the request that says the same."""
import io
import json

import numpy as np
import pytest

import tables
from documents import ROOT
from jsonschema import Draft202012Validator

from captured import NPY, TENSORS, store
from oracle import captures, pages, tensors
from oracle.random_captures import Dims, Draw
from safetensors.numpy import load
from serving import Daemon

VALIDATOR = Draft202012Validator(json.loads((ROOT / "lib" / "runs" / "run.schema.json").read_text()))
SEEDS = tables.share(range(50))
L, S, E = 17, 19, 8  # so many cells that the request and the run have the kernels of large operations
ROWS = np.arange(L)[:, None]


class Site(Draw):
    """Draws the members of one site; the tensors that they name go into the file."""

    def __init__(self, seed, n):
        super().__init__(seed)
        self.n = n
        self.d = Dims(self.number(1, 3), self.choice((2, 4)), 2, L, S, E)
        self.values = self.d.Hkv

    def real(self, *shape, size=1.0):
        return self.normal(f"{len(self.tensors)} of {self.n}", *shape, dtype="F32", size=size)

    def integers(self, low, high, *shape):
        return self.whole(self.r.integers(low, high, shape))

    def whole(self, x):
        return self.tensor(f"{len(self.tensors)} of {self.n}", x, "I64")

    def keep(self):
        return self.r.random(self.broadcastable(self.d)) < 0.7

    def bits(self):
        shape = [1, 1, L, S] if self.chance(0.5) else self.d.weights
        return self.tensor(f"bits of {self.n}", tensors.bytes_of_bits(self.r.random(shape) < 0.7), "U8")

    def forest(self):
        return self.whole(np.array([self.number(-1, key) for key in range(S)]))

    def by_row(self):
        d = self.d
        return self.real(*self.choice(((d.H,), (d.H, L), (d.B, d.H, L), (d.B, 1, L))))

    def operands(self):
        self.normal(f"sites.{self.n}.query", self.d.B, self.d.H, L, E, dtype="F32")
        for name, heads in (("key", self.d.Hkv), ("value", self.values)):
            self.normal(f"sites.{self.n}.{name}", self.d.B, heads, S, E, dtype="F32")

    def subtract(self):
        """Value heads divide pairs of heads."""
        pairs = self.d.H // 2
        self.values = self.choice((1, pairs))
        return {"subtract": {"lambda": self.real(self.choice((1, pairs))), "pairs": self.choice(("adjacent", "halves"))}, "is_causal": self.chance(0.5)}

    def mask(self, x, dtype, semantics=None):
        name = self.tensor(f"mask of {self.n}", x, dtype)
        return {"attn_mask": name} | ({"mask_semantics": semantics} if semantics else {})

    def scaling(self, kind):
        known = {} if kind == "linear" else {"original_max_position_embeddings": self.choice((8, 30, 4096))}
        factors = {name: self.tensor(f"{name} of {self.n}", self.r.uniform(1, 8, E // 2)) for name in (
            "short_factor", "long_factor")} if kind == "longrope" else {}
        return position(kind="rotary", layout="halves", scaling={"kind": kind, "factor": self.choice((1, 4, 40))} | known | factors)

    def axes(self):
        """Two axes, for queries of all batch entries and keys of each."""
        first = self.number(1, 3)
        places = {"query_positions": self.r.integers(0, 9, (2, L)) / 2, "key_positions": self.r.integers(0, 9, (2, self.d.B, S)).astype(float)}
        places["key_positions"][self.r.random((2, self.d.B, S)) < 0.1] = -np.inf
        bases = {"bases": self.tensor(f"bases of {self.n}", np.array([0.0, 100.0]))} if self.chance(0.5) else {}
        return position(kind="rotary", layout="halves", axes=bases | {
            "pairs": self.whole(np.array([0] * first + [1] * (4 - first))),
            **{name: self.tensor(f"{name} of {self.n}", x) for name, x in places.items()}})

    def windows(self):
        return [[self.number(-1, 9), self.number(-1, 9)] for _ in range(self.d.H)]

    def patterns(self):
        kinds = [self.choice((*PATTERNS, "full")) for _ in range(self.d.H)]
        return [{"kind": kind} | PATTERNS.get(kind, {}) for kind in kinds]

    def places(self, n, *lead):
        """Positions in order, some rows without."""
        x = np.sort(self.r.integers(-3, 30, (*lead, n)))
        return self.whole(np.where(self.r.random(x.shape) < 0.1, -2**63, x))

    def any_mask(self, depth=1):
        """A mask of a list."""
        one = MASKS[self.choice(list(MASKS))]
        parts = ("any_of", "all_of", "not")
        if depth and self.chance(0.4):
            kind = self.choice(parts)
            return {"kind": kind, "masks": [self.any_mask(depth - 1) for _ in range(1 if kind == "not" else 2)]}
        return one(self)


def position(**fields):
    return {"position": fields}


PATTERNS = {"local": {"radius": 3}, "strided": {"stride": 3, "local": 1}, "block": {"size": 4}, "block_causal": {"size": 4},
            "global": {"num_keys": 2, "local": 3}}

# The masks of a list.
MASKS = {
    "causal": lambda s: {"kind": "causal"},
    "window": lambda s: {"kind": "window", "window": [s.number(-1, 9), s.number(-1, 9)]},
    "windows": lambda s: {"kind": "window", "window": s.windows()},
    "pattern": lambda s: {"kind": "pattern", "pattern": s.pattern()},
    "patterns": lambda s: {"kind": "pattern", "pattern": s.patterns()},
    "values": lambda s: {"kind": "values", "values": s.tensor(f"{len(s.tensors)} of {s.n}", s.keep(), "BOOL")},
    "values that hide": lambda s: {"kind": "values", "semantics": "hide", "values": s.whole(s.keep())},
    "bits": lambda s: {"kind": "bits", "values": s.bits()},
    "lengths": lambda s: {"kind": "lengths", "values": s.integers(0, S + 1, s.d.B)},
    "padding": lambda s: {"kind": "padding", "semantics": s.choice(("keep", "hide")), "values": s.integers(0, 2, s.d.B, S)},
    "tokens": lambda s: {"kind": "tokens", "pad_id": 1, "values": s.integers(0, 3, s.d.B, S)},
    "documents": lambda s: {"kind": "documents", "values": s.integers(0, 3, S)},
    "prefix": lambda s: {"kind": "prefix", "values": s.integers(0, S + 1, 1)},
    "tree": lambda s: {"kind": "tree", "values": s.forest()},
    "top_k": lambda s: {"kind": "top_k", "values": s.integers(-1, S, L, 3)},
}

KINDS = {
    "alibi": lambda s: position(kind="alibi") | {"is_causal": True},
    "alibi slopes": lambda s: position(kind="alibi", slopes=s.real(s.d.H, size=0.3)),
    "t5": lambda s: position(kind="t5", table=s.real(s.choice((8, 32)), s.d.H), max_distance=s.choice((20, 128))),
    "t5 of one side": lambda s: position(kind="t5", table=s.real(16, s.d.H), bidirectional=False),
    "relative": lambda s: position(kind="relative", table=s.real(s.d.H, 2 * s.number(0, 9) + 1)),
    "shaw": lambda s: position(kind="shaw", key_table=s.real(2 * s.number(0, 9) + 1, E)),
    "rotary": lambda s: position(kind="rotary", layout=s.choice(("interleaved", "halves")), base=s.choice((100, 10000)),
                                 dims=2 * s.number(1, 4), start=s.number(0, 3), factor=s.choice((0.5, 1, 1.25))),
    "rotary frequencies": lambda s: position(kind="rotary", layout="halves", frequencies=s.real(s.number(1, 5))),
    **{f"rotary {kind}": lambda s, kind=kind: s.scaling(kind) for kind in ("linear", "dynamic", "yarn", "llama3", "longrope")},
    "rotary axes": lambda s: s.axes(),
    "rotary axes and relative": lambda s: s.axes() | {"score_position": {"kind": "relative", "table": s.real(s.d.H, 5)}},
    "rotary and alibi": lambda s: position(kind="rotary", layout="interleaved", dims=4) | {"score_position": {"kind": "alibi"}},
    "sinusoidal and shaw": lambda s: position(kind="sinusoidal") | {"score_position": {"kind": "shaw", "key_table": s.real(5, E)}},
    "sinusoidal": lambda s: position(kind="sinusoidal"),
    "learned": lambda s: position(kind="learned", table=s.real(S, E)),
    "own positions": lambda s: position(kind=s.choice(("alibi", "sinusoidal"))) | {
        "query_positions": s.integers(-3, 30, L), "key_positions": s.integers(-3, 30, s.d.B, S)},
    "own positions of a rotation": lambda s: position(kind="rotary", layout="halves") | {"key_positions": s.whole(
        np.where(s.r.random(S) < 0.2, -2**63, s.r.integers(0, 99, S)))},
    "is_causal": lambda s: {"is_causal": True},
    "window": lambda s: {"window": [s.number(-1, 9), s.number(-1, 9)]},
    **{kind: lambda s, kind=kind, fields=fields: {"pattern": {"kind": kind} | fields} for kind, fields in PATTERNS.items()},
    "windows by head": lambda s: {"window": s.windows()},
    "patterns by head": lambda s: {"pattern": s.patterns(), "is_causal": s.chance(0.5)},
    "positions of masks": lambda s: {"mask_positions": True, "query_positions": s.places(L), "key_positions": s.places(S, s.d.B),
                                     "is_causal": s.chance(0.5), "window": s.choice((s.windows(), [3, 2])), "any_of": [s.any_mask() for _ in range(2)]},
    "positions of masks and an encoding": lambda s: position(kind="alibi") | {
        "mask_positions": True, "key_positions": s.places(S), "is_causal": True, "prefix_lengths": s.integers(0, 30, 1)},
    "an offset": lambda s: {"is_causal": True, "query_offset": s.choice((3, "end"))},
    "offsets": lambda s: {"is_causal": True, "query_offset": s.r.integers(-3, 6, s.d.B).tolist()},
    "starts": lambda s: {"is_causal": True, "query_start": s.number(0, 9), "key_start": s.number(0, 9)},
    "booleans": lambda s: s.mask(s.keep(), "BOOL"),
    "numbers": lambda s: s.mask(np.where(s.keep(), 0.5, -np.inf), "F32"),
    "bits": lambda s: {"attn_mask": {"values": s.bits(), "encoding": "bits"}},
    "bits that hide": lambda s: {"attn_mask": {"values": s.bits(), "encoding": "bits"}, "mask_semantics": "hide"},
    "bits beside booleans": lambda s: {"attn_mask": [{"values": s.bits(), "encoding": "bits"}, s.tensor("all", np.ones(S, bool), "BOOL")]},
    **{meaning: lambda s, meaning=meaning: s.mask(s.keep(), "U8", meaning) for meaning in ("keep", "hide", "nonzero")},
    "finite_min": lambda s: s.mask(np.where(s.keep(), 0, -65504.0), "F16", "finite_min"),
    "attn_bias": lambda s: {"attn_bias": s.real(*s.broadcastable(s.d))},
    "key_lengths": lambda s: {"key_lengths": s.r.integers(0, S + 1, s.d.B).tolist()},
    "block_table": lambda s: {"is_causal": s.chance(0.5), "query_offset": "end", "window": s.choice(([-1, -1], [6, 3]))},
    "document_ids": lambda s: {"document_ids": s.integers(0, 4, s.d.B, S)},
    "prefix_lengths": lambda s: {"prefix_lengths": s.integers(0, S + 1, s.d.B)},
    "parents": lambda s: {"parents": s.forest()},
    "top_k_indices": lambda s: {"top_k_indices": s.integers(-1, S, 1, s.d.H, L, 4)},
    **{f"{kind} in a list": lambda s, one=one: {"any_of": [one(s)]} for kind, one in MASKS.items()},
    "any_of": lambda s: {"any_of": [s.any_mask() for _ in range(2)]},
    "all_of": lambda s: {"all_of": [s.any_mask() for _ in range(2)]},
    "not": lambda s: {"not": [s.any_mask()]},
    "sigmoid": lambda s: {"normalizer": {"kind": "sigmoid", "bias": s.real(s.choice((1, s.d.H)))}},
    "relu": lambda s: {"normalizer": {"kind": "relu"}, "is_causal": True},
    "relu_squared": lambda s: {"normalizer": {"kind": "relu_squared", "divisor": s.choice((0.5, 30))}},
    "sparsemax": lambda s: {"normalizer": {"kind": "sparsemax"}},
    "entmax": lambda s: {"normalizer": {"kind": "entmax", "alpha": s.choice((1.2, 1.5, 2))}},
    "scale": lambda s: {"scale": s.choice((0.05, 1, 2.5))},
    "scales": lambda s: {"scale": s.by_row()},
    "softcap": lambda s: {"softcap": s.choice((0.5, 3, 30))},
    "sinks": lambda s: {"sinks": s.by_row()},
    "dot": lambda s: {"score": {"kind": "dot"}},
    "mix": lambda s: {"mix": {"logits": s.real(s.d.H, s.d.H)}, "is_causal": s.chance(0.5)},
    "mixed weights": lambda s: {"mix": {"weights": s.real(2 * s.d.Hkv, s.d.H)} | ({"logits": s.real(s.d.H, s.d.H)} if s.chance(0.5) else {})},
    "subtract": lambda s: s.subtract(),
    "general": lambda s: {"score": {"kind": "general", "w": s.real(E, E, size=0.3)}},
    "additive": lambda s: {"score": {"kind": "additive", "w_q": s.real(9, E), "w_k": s.real(9, E), "v": s.real(9), "b": s.real(9)}},
    "concat": lambda s: {"score": {"kind": "concat", "w": s.real(9, 2 * E), "v": s.real(9)}},
}


def capture_of(kind):
    """A file with a site for each seed."""
    file = captures.File({"version": 2, "sites": []}, {})
    for n, seed in enumerate(SEEDS):
        site = Site(seed, n)
        members = KINDS[kind](site)
        file.sites.append(members)
        site.operands()
        if kind == "block_table":
            site.page(members, n)
        file.tensors |= site.tensors
    return file


@pytest.fixture(scope="module")
def daemon():
    one = Daemon("--log", "off")
    yield one
    one.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind(daemon, kind):
    file = capture_of(kind)
    VALIDATOR.validate(file.run)
    run = store(daemon, captures.write(file))["id"]
    for n, seed in enumerate(SEEDS):
        body = pages.gathered(captures.request(file, n, "float32"))
        reply = daemon.post("/v1/attention", json.dumps({**body, "return": ["weights"]}), headers=TENSORS)
        assert reply.status_code == 200, f"seed {seed} {file.sites[n]}: {reply.text[:500]}"
        direct = load(reply.content)["weights"]
        b = seed % len(direct)
        got = daemon.get(f"/v1/runs/{run}/weights?site={n}&batch={b}&heads=all&rows=0:{L}", headers=NPY)
        assert got.status_code == 200, f"seed {seed} {file.sites[n]}: {got.text[:500]}"
        assert (np.load(io.BytesIO(got.content)) == direct[b]).all(), f"seed {seed} {file.sites[n]}"
