"""Heads of cross-attention that go through the keys in order: named "alignment" also where there are few words, and not
by chance."""
import itertools

import numpy as np
import pytest
from analyses import PATH, analysed
from api_client import ask

RNG = np.random.default_rng
MODEL = "/v1/models/en-fr-text/attention"


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def names(daemon, weights, **more):
    """The names of the heads of [H, L, S] weights of cross-attention."""
    H, L, S = weights.shape
    labels = {"query": [f"q{i}" for i in range(L)], "key": [f"k{j}" for j in range(S)]}
    body = {"weights": weights.tolist(), "labels": labels, "analysis": ["patterns"]} | more
    return [head["pattern"]["name"] for head in ask(daemon, body, PATH)["heads"]]


def looks(peaks, S, share=0.93):
    """Rows that give `share` to one key each and spread the rest evenly."""
    p = np.full((len(peaks), S), (1 - share) / (S - 1))
    p[np.arange(len(peaks)), peaks] = share
    return p


def in_order(peaks, S):
    """The number of exchanges if the peaks are in order, else None: tries every set of exchanges of neighbouring rows."""
    n, reach = len(peaks), max(1, S // 8)
    fit = []
    for size in range((n + 3) // 4 + 1):
        for starts in itertools.combinations(range(n - 1), size):
            order, good = list(peaks), all(b - a > 1 for a, b in zip(starts, starts[1:]))
            for i in starts:
                late, early = peaks[i], peaks[i + 1]
                good &= 0 < late - early <= reach
                order[i], order[i + 1] = early, late
            good &= all(max(order[:i], default=-1) < order[i] for i in starts)
            if good and all(a <= b for a, b in zip(order, order[1:])):
                fit.append((size, order))
    near = (S - 1) // 4
    fit = [(size, o) for size, o in fit
           if o[0] <= near and o[-1] >= S - 1 - near and len(set(o)) >= 0.8 * min(n, S) - 1e-9]
    return min(fit)[0] if fit and min(n, S) >= 3 else None


# --- what has the name ---

def test_three_words(daemon):
    answer = ask(daemon, {"text": "I like pizza", "analysis": ["patterns"], "sites": "cross", "return": "weights"}, MODEL)
    patterns = [head["pattern"] for head in answer["analyses"][0]["heads"]]
    for p, said in zip(np.array(answer["sites"][0]["weights"][0]), patterns):
        peaks, ordered = p.argmax(1).tolist(), in_order(p.argmax(1).tolist()[:-1], 3) == 0 and p.max(1).mean() >= 0.8
        assert (said["name"] == "alignment") == ordered, peaks
        if ordered:
            assert said["shape"] == "diagonal"
            assert said["text"].endswith(f"never steps back, and this key holds {100 * p.max(1).mean():.0f} % of a row's weight")
    assert [said["name"] for said in patterns].count("alignment") == 3
    assert "never step back" in answer["analyses"][0]["legend"]["alignment"]["formula"]


# the peaks of each target word among the source words
PAIRS = {
    "I like pizza -> J' aime la pizza <eos>": ([0, 1, 2, 2, 2], 3),
    "the red car -> la voiture rouge": ([0, 2, 1], 3),
    "the red car -> la voiture rouge <eos>": ([0, 2, 1, 2], 3),
    "the red car . -> la voiture rouge .": ([0, 2, 1, 3], 4),
    "red cars are fast -> voitures rouges sont rapides": ([1, 0, 2, 3], 4),
    "I see the red car -> je vois la voiture rouge": ([0, 1, 2, 4, 3], 5),
    "a white house and a red car -> une maison blanche et une voiture rouge": ([0, 2, 1, 3, 4, 6, 5], 7),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_pairs_with_exchanged_words(daemon, pair):
    peaks, S = PAIRS[pair]
    assert names(daemon, looks(peaks, S)[None]) == ["alignment"]
    exchanges = in_order(peaks, S)
    (head,) = analysed(daemon, looks(peaks, S), labels={"query": [f"q{i}" for i in range(len(peaks))],
                                                        "key": [f"k{j}" for j in range(S)]})["heads"]
    text = head["pattern"]["text"]
    assert "line from the first" in text or f"but for {exchanges} exchange" in text or not exchanges


def test_end_tokens_belong_to_no_word(daemon):
    """The row of <eos> may look anywhere; that of a word may not."""
    p = np.stack([looks([0, 2, 1, last], 3) for last in range(3)])
    query = ["la", "voiture", "rouge", "<eos>"]
    labels = {"query": query, "key": ["the", "red", "car"]}
    assert names(daemon, p, labels=labels) == ["alignment"] * 3
    assert names(daemon, p) == ["heterogeneous", "heterogeneous", "alignment"]
    batch = [labels, {"query": query[:3] + ["vite"], "key": labels["key"]}]
    answer = ask(daemon, {"weights": np.stack([p, p]).tolist(), "labels": batch, "analysis": ["patterns"]}, PATH)
    assert [h["pattern"]["name"] for h in answer["heads"]] == ["alignment"] * 3 + ["heterogeneous", "heterogeneous", "alignment"]
    said = ask(daemon, {"text": "The red car", "analysis": ["patterns"], "sites": "cross", "return": []}, MODEL)
    assert [h["pattern"]["name"] for h in said["analyses"][0]["heads"]].count("alignment") == 3


def test_oblong_weights_need_no_labels(daemon):
    (head,) = analysed(daemon, looks([0, 1, 2, 2, 2], 3))["heads"]
    assert head["pattern"]["name"] == "alignment"


# --- what has not ---

def test_heads_that_follow_no_order(daemon):
    S = 6
    heads = {
        "even": np.full((8, S), 1 / S), "one key": looks([2] * 8, S), "first key": looks([0] * 8, S),
        "last key": looks([5] * 8, S), "two keys": looks([0] * 4 + [5] * 4, S), "backwards": looks([5, 5, 4, 3, 2, 1, 0, 0], S),
        "to and fro": looks([0, 1, 0, 1, 0, 1, 0, 1], S),
    }
    got = dict(zip(heads, names(daemon, np.array(list(heads.values())))))
    assert "alignment" not in got.values(), got
    assert got["even"] == "uniform" and got["first key"] == "first token"
    few = {"little weight": looks([0, 1, 2, 2, 2], 3, 0.75), "exchange": looks([0, 2, 1, 2], 3, 0.82),
           "far exchange": looks([0, 3, 1, 2], 4), "two steps": looks([1, 2, 0, 2], 3), "half of the keys": looks([0, 0, 2, 2], 3)}
    for name, p in few.items():
        assert names(daemon, p[None]) != ["alignment"], name
    assert names(daemon, looks([0, 1, 2, 2, 2], 3, 0.82)[None]) == ["alignment"]


KINDS = {
    "normal scores": lambda r, shape: softmax(r.standard_normal(shape)),
    "uniform numbers": lambda r, shape: (lambda u: u / u.sum(-1, keepdims=True))(r.random(shape)),
    "Dirichlet": lambda r, shape: r.dirichlet(np.ones(shape[-1]), shape[:-1]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("L, S", [(5, 3), (6, 4), (5, 5), (8, 7), (7, 12), (12, 5), (20, 20), (40, 40)])
def test_random_heads_have_other_names(daemon, kind, L, S):
    """Fewer than 1 in 100 of at least 500 random heads."""
    H = 2000 if L * S < 100 else 500
    got = names(daemon, KINDS[kind](RNG(L * S), (H, L, S)))
    assert len(got) == H and got.count("alignment") < H / 100


@pytest.mark.parametrize("L, S", [(3, 3), (5, 3), (4, 4), (7, 5), (5, 9), (6, 17), (9, 4)])
def test_the_rule_is_the_definition(daemon, L, S):
    """Sharp heads, which look at one key each: names follow a search of all sets of exchanges. Half of them are made from
    peaks in order, of which some neighbours are exchanged."""
    r = RNG(L + S)
    peaks = [r.integers(0, S, L) for _ in range(60)] + [np.sort(r.integers(0, S, L)) for _ in range(240)]
    for p in peaks[100:]:
        for i in r.integers(0, L - 1, 2):
            p[i], p[i + 1] = p[i + 1], p[i]
    want = [in_order(p.tolist(), S) is not None for p in peaks]
    heads = np.array([looks(p, S, 0.97) for p in peaks])
    got = names(daemon, heads)
    assert 5 < sum(want) < 280
    # the other rule looks at the mass near the line
    reach, line = max(1, S / 8), np.arange(L)[:, None] * (S - 1) / (L - 1)
    close = np.abs(np.arange(S) - line) <= reach + 1e-12
    mass, even = (heads * close).sum(-1).mean(-1), close.mean()
    assert [name == "alignment" for name in got] == [w or (m >= 0.6 and m >= 1.5 * even) for w, m in zip(want, mass)]


# --- masks ---

def test_padding_and_rows_without_keys_do_not_count(daemon):
    p = np.zeros((1, 7, 6))
    p[0, :5, :3] = looks([0, 1, 2, 2, 2], 3)
    keep = np.zeros((7, 6), bool)
    keep[:5, :3] = True
    assert names(daemon, p, attn_mask=keep.tolist()) == ["alignment"]
    assert names(daemon, p[:, :5], key_lengths=[3]) == ["alignment"]
    assert names(daemon, p[:, :5]) != ["alignment"]


def test_many_rows_in_pieces(daemon):
    """Rows are measured in blocks; the order is that of all rows."""
    L, S = 3000, 500
    peaks = np.arange(L) * S // L
    assert names(daemon, looks(peaks, S)[None].astype(np.float32)) == ["alignment"]
    assert names(daemon, looks((peaks + S // 2) % S, S)[None].astype(np.float32)) != ["alignment"]
