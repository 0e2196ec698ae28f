"""The diagnoses of POST /v1/analyses and of `analysis` of /v1/attention: each fires on a crafted case and is silent on
its neighbour; heads get the names that they deserve."""
import re
import subprocess

import numpy as np
import pytest
from analyses import RNG, SENTENCE, analysed, attended, chapter, codes, found, heads, softmax, weights
from api_client import ask
from conftest import BINARY


# --- near-uniform attention and its causes ---

def vectors(n, width, size, seed):
    return size * RNG(seed).standard_normal((n, width))


UNIFORM = ("near_uniform", "near_uniform_scores", "near_uniform_keys", "near_uniform_task")


def uniform_codes(answer):
    return codes(answer) & set(UNIFORM)


def test_scores_without_spread(daemon):
    q, k = vectors(24, 16, 0.1, 1), vectors(24, 16, 0.1, 2)
    said = found(attended(daemon, q, k), "near_uniform_scores")
    assert heads(said) == [0] and "learning rate" in said["text"]
    n = said["numbers"]
    assert n["normalized_entropy"] > 0.98 and n["score_spread"] < 0.1 and n["expected_spread"] < 0.5
    np.testing.assert_allclose(n["query_length"], np.sqrt((q ** 2).sum(1).mean()), rtol=1e-5)
    np.testing.assert_allclose(n["key_length"], np.sqrt((k ** 2).sum(1).mean()), rtol=1e-5)
    apart = np.sqrt(((k - k.mean(0)) ** 2).sum(1).mean())
    np.testing.assert_allclose(n["key_difference"], apart / n["key_length"], rtol=1e-5)
    np.testing.assert_allclose(n["expected_spread"], n["query_length"] * apart / 4 / 4, rtol=1e-5)
    assert uniform_codes(attended(daemon, 20 * q, 20 * k)) == set()
    assert uniform_codes(attended(daemon, 10 * q, 10 * k, scale=0.001)) == {"near_uniform_scores"}


def test_keys_that_are_alike(daemon):
    q, common = vectors(24, 16, 3, 1), vectors(1, 16, 3, 2)
    k = common + vectors(24, 16, 0.02, 3)
    said = found(attended(daemon, q, k), "near_uniform_keys")
    assert "embeddings" in said["text"] and said["numbers"]["key_difference"] < 0.1
    assert uniform_codes(attended(daemon, q, common + vectors(24, 16, 3, 3))) == set()


def test_nothing_to_attend_to(daemon):
    """Long queries and different keys in subspaces that have nothing to do with each other."""
    q, k = vectors(24, 16, 3, 1), vectors(24, 16, 3, 2)
    q[:, 8:], k[:, :8] = 0, 0
    said = found(attended(daemon, q, k), "near_uniform_task")
    assert "task" in said["text"] and said["numbers"]["expected_spread"] > 0.5
    k[:, :8] = vectors(24, 8, 3, 5)
    assert uniform_codes(attended(daemon, q, k)) == set()


def test_each_head_has_its_cause(daemon):
    small, long, other = vectors(24, 8, 0.05, 1), vectors(24, 8, 3, 2), vectors(24, 8, 3, 3)
    alike = vectors(1, 8, 3, 4) + vectors(24, 8, 0.01, 5)
    answer = attended(daemon, [[small, long, long]], [[small, alike, other]])
    assert heads(found(answer, "near_uniform_scores")) == [0] and heads(found(answer, "near_uniform_keys")) == [1]
    assert uniform_codes(answer) == {"near_uniform_scores", "near_uniform_keys"}


def test_hidden_keys_have_no_say(daemon):
    """Keys are alike but for one, which no query sees."""
    q, k = vectors(12, 8, 3, 1), vectors(1, 8, 3, 2) + vectors(12, 8, 0.01, 3)
    k[11] = 1000
    assert uniform_codes(attended(daemon, q, k, key_lengths=[11])) == {"near_uniform_keys"}


def test_weights_alone_cannot_tell_the_cause(daemon):
    even = np.full((8, 8), 1 / 8)
    said = found(analysed(daemon, even), "near_uniform")
    assert "cannot tell" in said["text"] and set(said["numbers"]) == {"normalized_entropy"}
    even[:, 0] += 0.5
    assert uniform_codes(analysed(daemon, even / even.sum(1, keepdims=True))) == set()


def test_a_causal_mask_is_not_uniformity(daemon):
    """Entropies are compared with what each row can see."""
    even = np.tril(np.ones((8, 8))) / np.arange(1, 9)[:, None]
    assert "near_uniform" in codes(analysed(daemon, even, is_causal=True))
    assert "near_uniform" not in codes(analysed(daemon, even))


def test_learned_scores_leave_the_cause_open(daemon):
    zero = np.zeros((4, 8)).tolist()
    answer = attended(daemon, vectors(6, 8, 1, 1), vectors(6, 8, 1, 2),
                      score={"kind": "additive", "w_q": zero, "w_k": zero, "v": [1, 1, 1, 1]})
    said = found(answer, "near_uniform")
    assert said["numbers"]["score_spread"] == 0


# --- saturation, sinks ---

def test_saturated_softmax(daemon):
    """The chapter's: dot products of width 512 that nobody divides by sqrt(512) spread by 22.6."""
    q, k = vectors(40, 512, 1, 1), vectors(40, 512, 1, 2)
    said = found(attended(daemon, q, k, scale=False), "saturated_softmax")
    assert 20 < said["numbers"]["score_spread"] < 25 and "divided" in said["text"]
    answer = attended(daemon, q, k)
    assert "saturated_softmax" not in codes(answer)


def test_saturated_weights(daemon):
    hard = np.full((2, 6, 6), 0.001) + np.eye(6) * 0.994
    assert heads(found(analysed(daemon, hard), "saturated_softmax")) == [0, 1]
    soft = np.full((2, 6, 6), 0.01) + np.eye(6) * 0.94
    assert "saturated_softmax" not in codes(analysed(daemon, soft))


def test_sink_heads(daemon):
    p = weights(3, 12, 12, size=0.5)
    p[1] = 0.3 * p[1]
    p[1, :, 0] += 0.7
    said = found(analysed(daemon, p), "sink_heads")
    assert heads(said) == [1] and said["numbers"]["sink"] > 0.7
    np.testing.assert_allclose(said["numbers"]["sink_rate"], 1 / 3, rtol=1e-6)
    p[1, :, [0, 5]] = p[1, :, [5, 0]]  # a favourite key that is not the first is none
    assert "sink_heads" not in codes(analysed(daemon, p))


def test_short_causal_rows_are_no_sink(daemon):
    """Of 4 rows under a causal mask the first key has half of the weight whatever the head does."""
    even = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    assert even[:, 0].mean() > 0.3
    assert "sink_heads" not in codes(analysed(daemon, even, is_causal=True))
    sink = np.tril(np.full((16, 16), 1e-3))
    sink[:, 0] = 1 - sink[:, 1:].sum(1)
    assert heads(found(analysed(daemon, sink, is_causal=True), "sink_heads")) == [0]


# --- heads that are alike ---

def test_head_collapse(daemon):
    """One pattern, four times, with a little noise; as a causal mask makes all heads alike, without its share."""
    base, noise = 1.5 * RNG(1).standard_normal((16, 16)), RNG(2).standard_normal((4, 16, 16))
    hidden = np.triu(np.full((16, 16), -np.inf), 1)
    said = found(analysed(daemon, softmax(base + 0.1 * noise + hidden), is_causal=True), "head_collapse")
    assert heads(said) == [0, 1, 2, 3] and said["numbers"]["mean_centered_cosine"] > 0.9
    assert said["numbers"]["pairs"] == 6 and "diversity" in said["text"]
    diverse = analysed(daemon, softmax(0.3 * noise + hidden), is_causal=True)
    assert diverse["pairs"][0]["mean_cosine"] > 0.85  # the plain cosine would nearly cry
    assert not codes(diverse) & {"head_collapse", "similar_heads"}


def test_similar_heads(daemon):
    p = weights(4, 10, 10)
    p[3] = 0.97 * p[1] + 0.03 * p[0]
    said = found(analysed(daemon, p), "similar_heads")
    assert heads(said) == [1, 3] and said["numbers"]["pairs"] == 1
    assert "head_collapse" not in codes(analysed(daemon, p))
    assert "similar_heads" not in codes(analysed(daemon, weights(4, 10, 10)))


def test_one_head_cannot_collapse(daemon):
    answer = analysed(daemon, weights(1, 6, 6))
    assert "pairs" not in answer and not codes(answer) & {"head_collapse", "similar_heads"}


# --- masks, memory ---

def test_weights_that_do_not_keep_to_their_mask(daemon):
    p = weights(2, 6, 6)
    p[0] = np.tril(p[0])
    p[0] /= p[0].sum(1, keepdims=True)
    said = found(analysed(daemon, p, is_causal=True), "mask_leak")
    assert heads(said) == [1]
    np.testing.assert_allclose(said["numbers"]["hidden_mass"], np.triu(p[1], 1).sum() / 6, rtol=1e-5)
    assert "mask_leak" not in codes(analysed(daemon, p[:1], is_causal=True))


def test_what_the_mask_linter_says(daemon):
    upper = np.triu(np.ones((5, 5), bool))
    p = softmax(np.where(upper, RNG(1).standard_normal((5, 5)), -np.inf))
    answer = analysed(daemon, p, attn_mask=upper.tolist())
    assert "causal" in found(answer, "mask_not_causal")["text"]
    assert [w["code"] for w in answer["warnings"]] == ["mask_not_causal"]
    assert "mask_not_causal" not in {w["code"] for w in analysed(daemon, p.T, attn_mask=upper.T.tolist())["warnings"]}


def test_weights_that_look_causal(daemon):
    p = np.tril(weights(8, 8)) / np.tril(weights(8, 8)).sum(1, keepdims=True)
    answer = analysed(daemon, p)
    assert [w["code"] for w in answer["warnings"]] == ["looks_causal"]
    assert "warnings" not in analysed(daemon, p, is_causal=True)
    p[0, :2] = 0.9, 0.1
    assert "warnings" not in analysed(daemon, p)


def test_weights_that_are_none(daemon):
    """As /v1/heatmaps says of the same."""
    odd, fine = [[-1, 2], [2, 3]], [[0.5, 0.5], [0.2, 0.8]]
    answer = ask(daemon, {"weights": fine, "other": odd}, "/v1/analyses")
    assert {(w["code"], w["pointer"]) for w in answer["warnings"]} == {("weight_range", "/other"), ("row_sums", "/other")}
    assert [w["code"] for w in analysed(daemon, odd)["warnings"]] == ["row_sums", "weight_range"]


def test_a_triangle_that_should_be_kept(daemon):
    body = {"query": [[1, 0], [0, 1]], "attn_mask": [[1, 0], [1, 1]]}
    (found_in,) = [w for w in ask(daemon, body | {"mask_semantics": "hide"})["warnings"] if w["code"] == "mask_not_causal"]
    assert found_in["detail"].endswith('say mask_semantics "keep"')
    assert "warnings" not in ask(daemon, body | {"mask_semantics": "keep"})


def test_memory_of_the_full_matrix(start):
    """256 MiB are worth a word. This daemon holds none of it."""
    daemon = start("--request-timeout-ms", "600000")  # of the 67 million cells
    body = {"query": {"shape": [8192, 2], "random": "normal", "seed": 1}, "return": [],
            "analysis": ["diagnoses"], "window": [64, 0]}
    said = found(ask(daemon, body)["analysis"], "memory")
    assert said["numbers"] == {"bytes_a_layer": 2 ** 28, "layers": 1}
    assert "256 MiB a layer" in said["text"] and said["heads"] == []
    body["query"]["shape"] = [4096, 2]
    assert "memory" not in codes(ask(daemon, body)["analysis"])


# --- names of patterns ---

def patterns(daemon, p, **fields):
    return [(h["pattern"]["name"], h["pattern"]["shape"]) for h in analysed(daemon, p, **fields)["heads"]]


def test_the_chapters_heads_have_their_names(daemon):
    names = patterns(daemon, chapter(), labels={"key": SENTENCE, "query": SENTENCE},
                     classes=[{"name": "nouns", "keys": [5, 1, 5]}])
    assert names == [("adjacent", "diagonal"), ("nouns", "vertical"), ("structural", "diagonal"),
                     ("punctuation", "vertical")]


def shifted(n, k, share=0.9):
    """Most weight on the token at offset k, where there is one."""
    p = np.full((n, n), (1 - share) / n)
    for i in range(n):
        p[i, min(max(i + k, 0), n - 1)] += share
    return p


NAMES = {
    "previous token": lambda: shifted(20, -1), "current token": lambda: shifted(20, 0),
    "next token": lambda: shifted(20, 1), "offset -3": lambda: shifted(40, -3),
    "uniform": lambda: np.full((8, 8), 1 / 8), "heterogeneous": lambda: weights(12, 12, size=1.5),
    "first token": lambda: 0.3 * weights(12, 12) + 0.7 * np.eye(12)[0], "single key": lambda: 0.3 * weights(
        12, 12) + 0.7 * np.eye(12)[4],
    "local": lambda: softmax(np.where(np.abs(np.subtract.outer(range(24), range(24))) <= 2,
                                      RNG(4).standard_normal((24, 24)), -9)),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(daemon, name):
    assert [n for n, _ in patterns(daemon, NAMES[name]())] == [name]


def test_induction_and_duplicates(daemon):
    """Random tokens twice: an induction head looks behind the first copy, a duplicate head at it."""
    n, ids = 20, list(range(10)) * 2
    induction, duplicate = weights(n, n, size=0.3), weights(n, n, size=0.3)
    for i in range(10, n):
        induction[i] = 0.1 * induction[i] + 0.9 * np.eye(n)[i - 9]
        duplicate[i] = 0.1 * duplicate[i] + 0.9 * np.eye(n)[i - 10]
    answer = analysed(daemon, [induction, duplicate], ids={"key": ids})
    assert [h["pattern"]["name"] for h in answer["heads"]] == ["induction", "duplicate token"]
    assert answer["heads"][0]["measures"]["induction"] > 0.9 > answer["heads"][1]["measures"]["induction"]
    assert [n for n, _ in patterns(daemon, [induction, duplicate], ids={"key": list(range(n))})] == [
        "heterogeneous", "heterogeneous"]


ENGLISH = "the cat sat on the mat .".split()
FRENCH = "le chat s' assit sur le tapis .".split()
LINKS = [(0, 0), (1, 1), (2, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]  # of ENGLISH and FRENCH


def linked(S, L, links, share=0.9):
    """Weights of a target of L words on a source of S words: most of it on the words that belong together."""
    p = np.full((L, S), 1 / S)
    for i in range(L):
        sources = [j for j, at in links if at == i]
        if sources:
            p[i] = (1 - share) / S
            p[i, sources] += share / len(sources)
    return p


def test_a_translation_is_aligned(daemon):
    """8 x 7 weights, whose last query and key are both a full stop: no head of duplicate tokens."""
    p = linked(7, 8, LINKS)
    said = analysed(daemon, p, labels={"query": FRENCH, "key": ENGLISH})["heads"][0]["pattern"]
    assert (said["name"], said["shape"]) == ("alignment", "diagonal") and "evenly spread" in said["text"]
    assert patterns(daemon, p) == [("alignment", "diagonal")]  # oblong weights need no labels
    last = 0.2 / 7 + 0.8 * np.tile(np.eye(7)[6], (8, 1))  # all look at the full stop, its copy in the source
    assert patterns(daemon, last, labels={"query": FRENCH, "key": ENGLISH})[0][0] == "punctuation"
    stop = np.full((8, 7), 1 / 7)
    stop[7] = np.eye(7)[6]
    assert patterns(daemon, stop, labels={"query": FRENCH, "key": ENGLISH})[0][0] != "duplicate token"


def test_the_same_sequence_is_not_aligned(daemon):
    square, words = shifted(20, 0), [f"w{j}" for j in range(20)]
    assert patterns(daemon, square, labels={"query": words, "key": words})[0][0] == "current token"
    assert patterns(daemon, square, labels={"query": words[::-1], "key": words})[0][0] == "alignment"
    part = shifted(20, 0)[14:]  # the last 6 queries of a decoder, at the positions 14 to 19
    assert patterns(daemon, part, labels={"query": words[14:], "key": words}, query_offset=14)[0][0] == "current token"
    causal = np.pad(np.tril(shifted(20, 0)), ((0, 0), (0, 4)))
    assert patterns(daemon, causal, is_causal=True)[0][0] == "current token"


def known_pairs(count):
    """Sentences of the built-in corpus with their links."""
    out = subprocess.run([BINARY, "corpus", "--split", "held-out", "--count", str(count), "--longest", "20"], text=True,
                         capture_output=True, check=True).stdout
    for line in out.splitlines():
        english, french, links = (part.split() for part in line.split("\t"))
        yield english, french, [tuple(map(int, re.split("[-?]", link))) for link in links]


def test_known_pairs_are_aligned(daemon):
    """The known links of 60 sentences have the name, those between shuffled words have not."""
    names, shuffled = [], []
    for english, french, links in known_pairs(60):
        if min(len(english), len(french)) < 6:
            continue
        p, order = linked(len(english), len(french), links), RNG(len(names)).permutation(len(english))
        labels = {"query": french, "key": english}
        names.append(patterns(daemon, p, labels=labels)[0][0])
        shuffled.append(patterns(daemon, p[:, order], labels={**labels, "key": [english[j] for j in order]})[0][0])
    assert len(names) > 30 and names.count("alignment") >= 0.9 * len(names), names
    assert shuffled.count("alignment") <= 0.1 * len(shuffled), shuffled


def test_the_heads_of_the_shipped_model_are_aligned(daemon):
    names = []
    for english, french, _ in known_pairs(12):
        body = {"tokens": english, "target_tokens": french, "sites": "cross", "return": "weights"}
        site = ask(daemon, body, "/v1/models/en-fr/attention")["sites"][-1]
        labels = {"query": [*french, "<eos>"], "key": [*english, "<eos>"]}
        p = np.asarray(site["weights"], float).reshape(-1, *np.shape(site["weights"])[-2:])
        names += [name for name, _ in patterns(daemon, p, labels={k: v[:n] for (k, v), n in zip(labels.items(), p.shape[1:])})]
    assert names.count("alignment") >= 0.75 * len(names), names


def test_blocks(daemon):
    segments = [0] * 6 + [1] * 6
    same = np.equal.outer(segments, segments)
    p = softmax(np.where(same, RNG(2).standard_normal((12, 12)), -4))
    answer = analysed(daemon, p, segments={"key": segments})
    assert (answer["heads"][0]["pattern"]["name"], answer["heads"][0]["pattern"]["shape"]) == ("block", "block")
    assert "block_mass" not in analysed(daemon, p)["heads"][0]["measures"]


# --- grades of uniformity ---

def even_to(share, n=12, heads=1):
    """Rows of n keys with this normalized entropy: a mixture of an even row and one key, found by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        mix = (low + high) / 2
        row = np.full(n, (1 - mix) / n)
        row[0] += mix
        low, high = (mix, high) if -(row * np.log(row)).sum() / np.log(n) > share else (low, mix)
    return np.array([[np.roll(row, 5 * i + 3) for i in range(n)]] * heads)  # no key and no offset stands out


@pytest.mark.parametrize("entropy, name", [(1, "uniform"), (0.985, "uniform"), (0.975, "nearly uniform"), (0.94, "nearly uniform"),
                                           (0.91, "nearly uniform"), (0.89, "heterogeneous"), (0.5, "heterogeneous")])
def test_uniformity_is_graded(daemon, entropy, name):
    answer = analysed(daemon, even_to(entropy))
    head, = answer["heads"]
    np.testing.assert_allclose(head["measures"]["normalized_entropy"], entropy, rtol=1e-5)
    assert head["pattern"]["name"] == name
    broad = [d for d in answer["diagnoses"] if d["code"] == "broad_heads"]
    assert bool(broad) == (name == "nearly uniform") and bool(uniform_codes(answer)) == (name == "uniform")
    if broad:
        assert f"entropy is {100 * entropy:.1f} % of the most" in head["pattern"]["text"]
        assert "Head 0: nearly uniform" in broad[0]["text"] and "90 % to 98 %" in broad[0]["text"]
        row = even_to(entropy)[0][0]
        np.testing.assert_allclose(broad[0]["numbers"]["effective_tokens"], np.exp(-(row * np.log(row)).sum()), rtol=1e-5)
        np.testing.assert_allclose(broad[0]["numbers"]["confidence"], row.max(), rtol=1e-5)


def test_a_rule_that_fits_comes_before_the_grade(daemon):
    """With 55 % of the weight on a quarter of many keys the entropy stays above 0.9: the class is named."""
    n = 200
    row = np.where(np.arange(n) < n // 4, 2.2 / n, 0.6 / n)
    answer = analysed(daemon, np.array([[row] * 8]), classes=[{"name": "nouns", "keys": list(range(n // 4))}])
    head, = answer["heads"]
    assert head["measures"]["normalized_entropy"] > 0.95 and head["pattern"]["name"] == "nouns"
    assert found(answer, "broad_heads")


def test_shares_say_over_which_rows_they_are_means(daemon):
    """Row 0 has no previous key and the last one no next key, so that the three shares add up to more than 1."""
    n = 8
    p = np.eye(n) * 0.1 + np.eye(n, k=1) * 0.45 + np.eye(n, k=-1) * 0.45
    p[0, :2] = p[-1, :-3:-1] = 0.1, 0.9
    answer = analysed(daemon, p)
    m = answer["heads"][0]["measures"]
    assert m["previous_token"] + m["current_token"] + m["next_token"] > 1.1
    text = answer["heads"][0]["pattern"]["text"]
    assert answer["heads"][0]["pattern"]["name"] == "adjacent"
    assert text == ("looks at neighbours: 51 % on the previous token, 10 % on its own, 51 % on the next, "
                    "each a mean over the rows that have such a key")
    assert "need not add to 1" in answer["legend"]["previous_token"]["formula"]
    before = analysed(daemon, np.eye(12, k=-1) + np.diag([1] + [0] * 11))
    assert before["heads"][0]["pattern"]["text"].endswith("rows that have this key give it 100 % of their weight")


@pytest.mark.parametrize("odd", [[[0.5, 0.6, -0.1]], [[1, -0.999]], [[20, 80], [70, 30]], [[0.4, -0.4]]])
def test_measures_need_shares(daemon, odd):
    """Entropy of a negative number and "5500 % of the weight" are left out, with the reason."""
    answer = ask(daemon, {"weights": odd, "heatmap": {}}, "/v1/analyses")
    reason = "shares of attention: weights that are not negative, in rows that sum to at most 1"
    assert set(answer["omitted"].values()) == {reason} and {"entropy", "patterns", "diagnoses"} <= set(answer["omitted"])
    assert [set(h) for h in answer["heads"]] == [{"batch", "head", "num_rows", "measures", "uniform"}]
    assert answer["heads"][0]["measures"] == {} and "diagnoses" not in answer
    assert answer["heatmap"]["heads"][0]["row_entropy"] == [None] * len(odd)
    assert {w["code"] for w in answer["warnings"]} <= {"row_sums", "weight_range"}
    drawn = ask(daemon, {"weights": odd}, "/v1/heatmaps")
    assert drawn["heads"][0]["row_entropy"] == [None] * len(odd)
    named = ask(daemon, {"weights": odd, "analysis": ["entropy"]}, "/v1/analyses")
    assert named["omitted"] == {"entropy": reason}
    text = daemon.post("/v1/analyses", {"weights": odd}, headers={"Accept": "text/plain"}).text
    assert f"entropy is left out: it needs {reason}" in text and "%" not in text.split("weight_range")[0].split("row_sums")[0]


def test_a_sink_leaves_shares(daemon):
    """A row that sums to less than 1 is measured: a sink has the rest."""
    answer = ask(daemon, {"weights": [[0.5, 0.2]], "analysis": ["entropy"]}, "/v1/analyses")
    assert "omitted" not in answer and answer["heads"][0]["measures"]["entropy"] > 0


def test_distances_need_shares(daemon):
    answer = ask(daemon, {"weights": [[0.5, 0.5]], "other": [[-1, 2]]}, "/v1/analyses")
    (head,) = answer["comparison"]["heads"]
    assert head["js"] is None and "nearest" not in head and head["total_variation"] == 1.5
    assert answer["heads"][0]["measures"]["entropy"] > 0
    rolled = {"weights": [[[[[2, -1], [0, 1]]]]], "analysis": ["rollout"]}
    assert ask(daemon, rolled, "/v1/analyses")["omitted"].keys() == {"rollout"}
