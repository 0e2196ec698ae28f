"""Random requests of every kind and of every pair of kinds against the oracle, on every kernel table (make check-faults).
A kind or a pair of which there are few is asked of the draw; what is drawn with it counts for every other that it has."""
import collections
import itertools
import os

import pytest

import random_forms
import tables
from oracle import forms, normalizers, tensors
from serving import Daemon, ask
from test_forms import judge

OF_A_KIND = int(os.environ.get("ATTN_TEST_KIND", "300"))
OF_A_PAIR = int(os.environ.get("ATTN_TEST_PAIR", "30"))
PATIENCE = 3000  # draws without what is wanted, after which it is missed
OF_ROTARY = ("axes", "frequencies", "scaling", "past", "start")
# Fields that are kinds of their own.
PLAIN = ("attn_bias", "block_table", "dropout_p", "is_causal", "key_lengths", "key_padding_mask", "past_key", "projections",
         "query_offset", "softcap", "subtract", "token_ids", "mask_positions", "document_ids", "prefix_lengths", "parents", "top_k_indices")
SCORES = tuple(f"score {name}" for name in forms.FORMS)
NO_DOT = tuple(f"score {name}" for name in forms.FORMS if name not in random_forms.DOT)
SCALED = tuple(f"rotary {name}" for name in random_forms.SCALINGS)
ROTARY = ("rotary", *(f"rotary {name}" for name in OF_ROTARY), *SCALED)
LIST = tuple(f"mask of a list, {name}" for name in ("causal", "window", "pattern", "values", "padding", "prefix", "documents",
                                                    "tree", "top_k", "any_of", "all_of", "not"))
OF_ATTN_MASK = ("bits", *(f"mask, {name}" for name in ("boolean", "keep", "hide", "nonzero", "additive")))
BY_ROW = [(name, f"{name} {rest}") for name, rest in
          (("window", "by head"), ("pattern", "by head"), ("scale", "of rows"), ("sinks", "of rows"))]
# Kinds of which a request has one at most.
ALTERNATIVES = [SCORES, forms.SCORE_KINDS, normalizers.KINDS, SCALED, OF_ATTN_MASK, ("float16", "bfloat16", "float64"),
                ("BLHE", "BLD", "projections"), ("subtract", "mix weights"), *BY_ROW]
KINDS = sorted({*PLAIN, *ROTARY, *LIST, *random_forms.ADDED, "own positions", "mix logits", *itertools.chain(*ALTERNATIVES)})
# Kinds that exclude each other: (some, those with which none of them goes, why).
EXCLUSIONS = [
    (ROTARY, random_forms.ADDED, "one position changes queries and keys"),
    (("sinusoidal",), ("learned",), "one position changes queries and keys"),
    (("rotary frequencies",), ("rotary scaling", *SCALED), "a scaling computes the frequencies"),
    (NO_DOT, ("shaw", "disentangled", *ROTARY), "these positions belong to the dot product"),
    (NO_DOT, ("mix logits",), "scores are mixed before they are dot products"),
    (("mix logits",), ("shaw", "disentangled"), "their vectors belong to the keys of a head"),
    (("sinks", "sinks of rows"), normalizers.POINTWISE, "their weights have no sum to which a sink adds"),
    (("block_table",), ("past_key", "rotary past"), "the blocks hold all keys"),
    (("block_table",), ("projections", "BLD"), "blocks hold the keys of heads"),
    (("projections",), ("subtract",), "w_o has the columns of all query heads"),
]


def alone(kind, other):
    """Why there is no request of both kinds; None: there is."""
    if any(kind in group and other in group for group in ALTERNATIVES):
        return "alternatives"
    return next((why for some, others, why in EXCLUSIONS if kind in some and other in others or other in some and kind in others), None)


def by_head(field):
    return isinstance(field, list) and isinstance(field[0], (list, dict))


def masks_of(part):
    """The kinds of masks below any_of, all_of and not."""
    for word in ("any_of", "all_of", "not"):
        if word in part:
            yield word
            for one in part[word] if isinstance(part[word], list) else [part[word]]:
                yield from masks_of(one)
    if "kind" in part:
        yield part["kind"]


def kinds_of(body):
    """What a request is of."""
    score = body.get("score", "scaled_dot")
    yield "score " + (score if isinstance(score, str) else score["kind"])
    for position in forms.positions_of(body):
        yield position["kind"]
        yield from (f"rotary {name}" for name in OF_ROTARY if name in position)
        if "scaling" in position:
            yield "rotary " + position["scaling"]["kind"]
    normalizer = body.get("normalizer")
    if normalizer:
        yield normalizer if isinstance(normalizer, str) else normalizer["kind"]
    yield from (name for name in PLAIN if name in body)
    yield from (f"mix {name}" for name in body.get("mix", ()))
    for name in ("query_positions", "key_positions"):
        if name in body:
            yield "own positions"
    for name in ("scale", "sinks"):
        if name in body:
            yield name + (" of rows" if isinstance(body[name], list) and isinstance(body[name][0], list) else "")
    for name in ("window", "pattern"):
        if name in body:
            yield name + (" by head" if by_head(body[name]) else "")
    if "attn_mask" in body:
        mask = body["attn_mask"]
        yield "bits" if isinstance(mask, dict) and mask.get("encoding") == "bits" else f"mask, {body.get('mask_semantics', 'boolean')}"
    yield from (f"mask of a list, {kind}" for kind in masks_of({n: body[n] for n in ("any_of", "all_of", "not") if n in body}))
    if "layout" in body:
        yield body["layout"]
    if tensors.dtype_of(body["query"]) != "float32":
        yield tensors.dtype_of(body["query"])


@pytest.fixture(scope="module")
def daemons():
    daemons = {name: Daemon("--ops-listen", "", "--log", "off", env={"ATTN_ISA": name}) for name in tables.available()}
    yield daemons
    for daemon in daemons.values():
        daemon.stop()


def faults_of(daemons, body):
    for name, daemon in daemons.items():
        try:
            judge(ask(daemon, body), body)
        except AssertionError as fault:
            yield f"{name}: {str(fault)[:300]}"


class Walk:
    """Draws seed after seed, and runs what is wanted."""

    def __init__(self, daemons):
        self.daemons, self.counts, self.faults = daemons, collections.Counter(), []
        self.drawn = self.run = 0

    def step(self, goal):
        """Whether a request of the kinds `goal` was drawn."""
        self.drawn += 1
        seed = 10**7 + self.drawn
        of_heads = "projections" in goal or seed % 8 == 0
        body = (random_forms.ProjectedDraw if of_heads else random_forms.FormDraw)(seed, goal).request()
        kinds = sorted(set(kinds_of(body)))
        if not set(goal) <= set(kinds):
            return False
        self.run += 1
        self.counts.update([*((kind,) for kind in kinds), *itertools.combinations(kinds, 2)])
        self.faults += [f"seed {seed} of {goal}: {fault}" for fault in faults_of(self.daemons, body)]
        return True

    def reach(self, goal, wanted):
        tries = 0
        while self.counts[goal] < wanted and tries < PATIENCE:
            tries = 0 if self.step(goal) else tries + 1


def test_pairs(daemons):
    """Pairs that exclude each other are none of the goals, and no request has them."""
    walk, goals = Walk(daemons), list(itertools.combinations(KINDS, 2))
    apart = {goal: why for goal in goals if (why := alone(*goal))}
    pairs = [goal for goal in goals if goal not in apart]
    for goal, wanted in [*((goal, OF_A_PAIR) for goal in pairs), *(((kind,), OF_A_KIND) for kind in KINDS)]:
        walk.reach(goal, wanted)
    print(f"\n{walk.run} requests on each of {', '.join(daemons)}")
    for name, some in (("kind", [(kind,) for kind in KINDS]), ("pair", pairs)):
        least = min(some, key=walk.counts.__getitem__)
        print(f"{len(some)} {name}s, the rarest {walk.counts[least]} times: {' and '.join(least)}")
    for why, n in collections.Counter(apart.values()).items():
        print(f"{n} pair{'s' * (n > 1)} of kinds that exclude each other: {why}")
    few = {goal: walk.counts[goal] for goal in pairs if walk.counts[goal] < OF_A_PAIR}
    few |= {(kind,): walk.counts[(kind,)] for kind in KINDS if walk.counts[(kind,)] < OF_A_KIND}
    unknown = sorted(kind for (kind, *other) in walk.counts if not other and kind not in KINDS)
    assert not walk.faults, "\n".join(walk.faults)
    assert not few, f"too few: {few}"
    assert not unknown, f"kinds without a row: {unknown}"
    assert not [goal for goal in apart if walk.counts[goal]], "kinds of one request were said to exclude each other"
