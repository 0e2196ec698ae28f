"""Random requests of every kind and of every pair of kinds against the oracle, on every kernel table (make check-faults).
A kind or a pair that is still wanted loads the dice; what is drawn with it counts for every other that it has."""
import collections
import itertools
import os

import numpy as np
import pytest

import random_forms
import tables
from oracle import forms, tensors
from oracle.attention import served
from serving import FLOAT32, FLOAT64, Daemon, ask, compare
from test_forms import is_double, slack_of

OF_A_KIND = int(os.environ.get("ATTN_TEST_KIND", "300"))
OF_A_PAIR = int(os.environ.get("ATTN_TEST_PAIR", "30"))
FIRST = 1500  # requests of fair dice, which find the kinds
PATIENCE = 60  # draws without what is wanted, after which it is called rare
# Fields that are kinds of their own.
PLAIN = ("attn_bias", "block_table", "dropout_p", "is_causal", "key_lengths", "key_padding_mask", "past_key", "projections",
         "query_offset", "softcap", "subtract", "token_ids", "mask_positions", "document_ids", "prefix_lengths", "parents", "top_k_indices")
OF_ROTARY = ("axes", "frequencies", "scaling", "past", "start")


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
    wanted = served(body)
    bound = FLOAT64 if is_double(body) else FLOAT32 * slack_of(body)
    for name, daemon in daemons.items():
        try:
            compare(ask(daemon, body), wanted, bound)
        except AssertionError as fault:
            yield f"{name}: {str(fault)[:300]}"


class Loaded:
    """A generator whose choice falls on a wanted word wherever it is offered."""

    def __init__(self, generator, words):
        self.generator, self.words = generator, words

    def __getattr__(self, name):
        return getattr(self.generator, name)

    def choice(self, options, *args, **more):
        offered = [x for x in options if isinstance(x, str) and x in self.words] if np.ndim(options) == 1 else []
        return self.generator.choice(offered or options, *(() if offered else args), **({} if offered else more))


class Walk:
    """Draws seed after seed, and runs what is wanted."""

    def __init__(self, daemons):
        self.daemons, self.counts, self.faults = daemons, collections.Counter(), []
        self.drawn = self.run = 0

    def draw(self, words, projected):
        self.drawn += 1
        one = (random_forms.ProjectedDraw if projected else random_forms.FormDraw)(10**7 + self.drawn, lambda r: Loaded(r, words))
        return one.request()

    def step(self, goal=()):
        """Whether a request of the kinds `goal` was drawn."""
        words = {word for kind in goal for word in kind.replace(",", "").split()}
        body = self.draw(words, "projections" in goal or not goal and self.drawn % 4 == 0)
        kinds = sorted(set(kinds_of(body)))
        if not set(goal) <= set(kinds):
            return False
        self.run += 1
        self.counts.update([*((kind,) for kind in kinds), *itertools.combinations(kinds, 2)])
        self.faults += [f"seed {10**7 + self.drawn} {kinds} {words}: {fault}" for fault in faults_of(self.daemons, body)]
        return True

    def reach(self, goal, wanted):
        tries = 0
        while self.counts[goal] < wanted and tries < PATIENCE:
            tries = 0 if self.step(goal) else tries + 1


def test_pairs(daemons):
    """Pairs of which there are few, or none because one excludes the other, are said."""
    walk = Walk(daemons)
    for _ in range(FIRST):
        walk.step()
    kinds = sorted(goal for goal in walk.counts if len(goal) == 1)
    pairs = [(a, b) for (a,), (b,) in itertools.combinations(kinds, 2)]
    for goals, wanted in ((kinds, OF_A_KIND), (pairs, OF_A_PAIR)):
        for goal in goals:
            walk.reach(goal, wanted)
        few = {goal: walk.counts[goal] for goal in goals if walk.counts[goal] < wanted}
        print(f"{walk.run} requests on each of {', '.join(daemons)}: {len(goals) - len(few)} of {len(goals)} have {wanted} or more")
        print("\n".join(f"  {n} of {' and '.join(goal)}" for goal, n in few.items()))
    assert not walk.faults, "\n".join(walk.faults)
