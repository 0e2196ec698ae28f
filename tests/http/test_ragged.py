"""Ragged batches: lists of different length and packed tensors. Each entry has the bytes of its own request."""
import io

import numpy as np
import pytest
from api_client import ask, refused

HQ, HKV, E, EV = 4, 2, 8, 6
QUERIES, KEYS = [3, 0, 40, 1, 200], [5, 4, 40, 90, 200]
RNG = np.random.default_rng(11)


def rows(lengths, heads, width):
    return [np.float32(RNG.standard_normal((n, heads, width))) for n in lengths]


QUERY, KEY, VALUE = rows(QUERIES, HQ, E), rows(KEYS, HKV, E), rows(KEYS, HKV, EV)
PARTS = ["output", "weights", "logsumexp", "scores", "inputs", "weighted_values", "row_sums", "present"]


def lists(xs, layout="BHLE"):
    return [(x if layout == "BLHE" else np.swapaxes(x, 0, 1)).tolist() for x in xs]


def packed(xs):
    return np.concatenate(xs).tolist()


LISTS = {"query": lists(QUERY), "key": lists(KEY), "value": lists(VALUE)}
PACKED = {"query": packed(QUERY), "key": packed(KEY), "value": packed(VALUE)}
LENGTHS = PACKED | {"query_lengths": QUERIES, "key_lengths": KEYS}
SUMS = PACKED | {"cu_seqlens": [[0, 3, 3, 43, 44, 244], [0, 5, 9, 49, 139, 339]]}


def one_entry(x):
    """A batch of one entry, which may have no rows."""
    return {"shape": [1, *x.shape], "data": x.ravel().tolist()}


def single(b, layout="BHLE"):
    """The request of entry b alone."""
    turned = [x[b] if layout == "BLHE" else np.swapaxes(x[b], 0, 1) for x in (QUERY, KEY, VALUE)]
    return {name: one_entry(x) for name, x in zip(("query", "key", "value"), turned)} | {"layout": layout}


def by_entry(answer, names):
    return [{name: answer[name][b] for name in names} for b in range(len(QUERIES))]


FIELDS = [
    {}, {"is_causal": True}, {"is_causal": True, "query_offset": "end"}, {"window": [6, 0], "query_offset": "end", "sinks": [0.1, 0.2, 0.3, 0.4]},
    {"position": "alibi", "query_offset": "end"}, {"position": {"kind": "rotary", "layout": "halves"}}, {"normalizer": "sparsemax"},
    {"precision": "bf16"}, {"score": "dot", "softcap": 3}, {"dropout_p": 0.3, "seed": 1}, {"scale": 0.3},
    {"pattern": {"kind": "strided", "stride": 16, "local": 2}}, {"average_attn_weights": True}, {"position": {"kind": "sinusoidal"}},
    {"any_of": [{"kind": "causal"}, {"kind": "window", "window": [3, 3]}]}, {"score_stage": ["raw", "biased"]}]


@pytest.mark.parametrize("fields", FIELDS)
def test_an_entry_is_its_own_request(daemon, fields):
    """Lists and lengths: each entry has the bytes that it has alone, explanation and all."""
    beside = fields | {"return": PARTS, "explain": True}
    for body, layout in ((LISTS, "BHLE"), (LENGTHS, "BLHE")):
        answer = ask(daemon, body | beside)
        for b in range(len(QUERIES)):
            alone = ask(daemon, single(b, layout) | beside)
            assert answer["diagnostics"][b] == alone.pop("diagnostics")
            alone.pop("warnings", None)
            for name, found in alone.items():
                if isinstance(found, dict):
                    assert {stage: found[stage][0] for stage in found} == {stage: answer[name][stage][b] for stage in found}
                else:
                    assert found[0] == answer[name][b], (name, b)


def test_lists_of_every_rank(daemon):
    """Without heads, in layout BLHE, with heads side by side, and in self-attention."""
    one = [x[:, 0] for x in QUERY]
    answer = ask(daemon, {"query": [x.tolist() for x in one], "return": ["output", "weights"]})
    flat = ask(daemon, {"query": packed(one), "query_lengths": QUERIES, "return": ["output", "weights"]})
    assert flat == answer == ask(daemon, {"query": packed(one), "query_lengths": QUERIES, "return": ["output", "weights"]})
    for b, x in enumerate(one):
        alone = ask(daemon, {"query": one_entry(x), "return": ["output", "weights"]})
        assert alone["output"][0] == answer["output"][b] and alone["weights"][0] == answer["weights"][b]
    layout = {name: lists(xs, "BLHE") for name, xs in (("query", QUERY), ("key", KEY), ("value", VALUE))}
    assert ask(daemon, layout | {"layout": "BLHE"})["output"] == ask(daemon, LENGTHS)["output"]
    side = {name: [x.reshape(len(x), x.shape[1] * x.shape[2]).tolist() for x in xs] for name, xs in (("query", QUERY), ("key", KEY), ("value", VALUE))}
    side |= {"layout": "BLD", "num_heads": HQ, "num_kv_heads": HKV, "return": ["weights"]}
    assert ask(daemon, side)["weights"] == ask(daemon, LISTS | {"return": ["weights"]})["weights"]


def test_projections(daemon):
    """Multi-head attention of sequences of different length."""
    maps = {"num_heads": 2, "seed": 3}
    tokens = [np.float32(RNG.standard_normal((n, 8))).tolist() for n in (3, 1, 60)]
    answer = ask(daemon, {"query": tokens, "projections": maps})
    for b, x in enumerate(tokens):
        alone = ask(daemon, {"query": [x], "projections": maps})
        assert alone["output"][0] == answer["output"][b] and alone["weights"][0] == answer["weights"][b]


def test_keys_that_differ_alone(daemon):
    """A batch is ragged, too, if only the keys of its entries differ in number."""
    query = np.float32(RNG.standard_normal((2, HQ, 3, E))).tolist()
    key, value = lists(KEY[:2]), lists(VALUE[:2])
    answer = ask(daemon, {"query": query, "key": key, "value": value})
    for b in range(2):
        alone = ask(daemon, {"query": [query[b]], "key": [key[b]], "value": [value[b]]})
        assert alone["output"][0] == answer["output"][b] and alone["weights"][0] == answer["weights"][b]


def test_lists_of_one_length_stay_a_tensor(daemon):
    """query_lengths with equal lengths answers as the batch of that shape."""
    x = np.float32(RNG.standard_normal((3, 4, HQ, E)))
    packed_answer = ask(daemon, {"query": x.reshape(12, HQ, E).tolist(), "query_lengths": [4, 4, 4]})
    whole = ask(daemon, {"query": x.tolist(), "layout": "BLHE"})
    assert np.allclose(packed_answer["output"], whole["output"], atol=1e-6)


@pytest.mark.parametrize("fields", FIELDS)
def test_sums_say_what_lengths_say(daemon, fields):
    beside = fields | {"return": PARTS, "explain": True, "heatmap": {"heads": "mean"}}
    assert ask(daemon, SUMS | beside) == ask(daemon, LENGTHS | beside)


def test_sums_of_queries_and_keys_alike(daemon):
    body = {"query": packed(KEY), "return": ["output", "weights"]}
    alike = ask(daemon, body | {"cu_seqlens": SUMS["cu_seqlens"][1]})
    assert alike == ask(daemon, body | {"query_lengths": KEYS})
    beside = {"key": packed(KEY), "value": packed(VALUE)}
    assert ask(daemon, body | beside | {"cu_seqlens": SUMS["cu_seqlens"][1]}) == ask(daemon, body | beside | {"query_lengths": KEYS})


def test_sums_in_a_binary_body(daemon):
    tensors = {name: np.concatenate(xs) for name, xs in (("query", QUERY), ("key", KEY), ("value", VALUE))}
    tensors["cu_seqlens"] = np.array(SUMS["cu_seqlens"], np.int32)
    sent = io.BytesIO()
    np.savez(sent, **tensors)
    reply = daemon.post("/v1/attention", sent.getvalue(), headers={"Content-Type": "application/x-npz"})
    assert reply.status_code == 200 and reply.json() == ask(daemon, LENGTHS)


def sums(queries, keys=SUMS["cu_seqlens"][1]):
    return PACKED | {"cu_seqlens": [queries, keys]}


def test_padded_batches_keep_their_lengths(daemon):
    """key_lengths beside a padded batch still hides the keys behind the length."""
    padded = {"query": [[[1, 0]], [[0, 1]]], "key": [[[1, 0], [0, 1]]] * 2, "value": [[[1], [2]]] * 2, "key_lengths": [1, 2]}
    assert ask(daemon, padded)["weights"][0] == [[1, 0]]


def test_heatmaps(daemon):
    answer = ask(daemon, LISTS | {"heatmap": {"heads": "mean"}, "return": []})["heatmap"]
    for b in range(len(QUERIES)):
        alone = ask(daemon, single(b) | {"heatmap": {"heads": "mean"}, "return": []})["heatmap"]
        found = [m for m in answer["heads"] if m["batch"] == b]
        assert found == [m | {"batch": b} for m in alone["heads"]]


def test_verify(daemon):
    found = ask(daemon, LENGTHS | {"verify": 4, "return": ["output"]})["verification"]
    assert found["num_rows"] == 4 * sum(n > 0 for n in QUERIES)
    assert found["output_error"] < 1e-5


def test_text(daemon):
    reply = daemon.post("/v1/attention", LENGTHS | {"return": ["logsumexp"]}, headers={"Accept": "text/plain"})
    assert reply.status_code == 200 and b"logsumexp/0 (4, 3):" in reply.content and b"logsumexp/4 (4, 200):" in reply.content


def test_a_dry_run(daemon):
    dry = ask(daemon, LENGTHS | {"dry_run": True, "return": ["output", "weights"]})["dry_run"]
    for b, (n, m) in enumerate(zip(QUERIES, KEYS)):
        assert dry["shapes"][f"output/{b}"] == [n, HQ, EV] and dry["shapes"][f"weights/{b}"] == [HQ, n, m]
    assert dry["num_cells"] == HQ * sum(n * m for n, m in zip(QUERIES, KEYS))
    assert dry["num_operations"] == sum(ask(daemon, single(b) | {"dry_run": True, "return": ["output"]})["dry_run"]["num_operations"] for b in range(len(QUERIES)))


def test_limits_count_all_entries(start):
    daemon = start("--max-cells", str(HQ * 41000))
    assert ask(daemon, single(4) | {"return": ["output"]})
    refused(daemon, LISTS, "too_large", None, "over 5 entries", status=413)


def test_large_weights_are_left_out(daemon):
    answer = ask(daemon, LISTS)
    assert "weights" not in answer and answer["omitted"]["weights"]["num_values"] == HQ * sum(n * m for n, m in zip(QUERIES, KEYS))


@pytest.mark.parametrize("body, code, pointer, text", [
    (LENGTHS | {"query_lengths": [3, 0, 40, 1, 199]}, "invalid_value", "/query_lengths", "243 rows, and query has 244"),
    (LENGTHS | {"query_lengths": [3, 0, 40, 1, 201]}, "invalid_value", "/query_lengths/4", "244, found"),
    (LENGTHS | {"query_lengths": [3, -1, 41, 1, 200]}, "invalid_value", "/query_lengths/1", "at least 0, found -1"),
    (LENGTHS | {"key_lengths": [5, 4, 40, 290]}, "shape_mismatch", "/key_lengths", "5; found 4"),
    (LENGTHS | {"key_lengths": [5, 4, 40, 89, 200]}, "invalid_value", "/key_lengths", "338 rows, and key has 339"),
    (LENGTHS | {"query_lengths": []}, "invalid_value", "/query_lengths", "1 to 1024 entries, found 0"),
    (LENGTHS | {"query_lengths": [QUERIES]}, "shape_mismatch", "/query_lengths", "[B]"),
    (LENGTHS | {"query_lengths": [0] * 1025}, "invalid_value", "/query_lengths", "found 1025"),
    (LISTS | {"key": LISTS["key"][:4]}, "shape_mismatch", "/key", "5; found 4"),
    (LISTS | {"value": LISTS["value"][:2] + [LISTS["value"][0]] + LISTS["value"][3:]}, "shape_mismatch", "/value/2", "40; found 5"),
    (LISTS | {"query": LISTS["query"][:1] + [LISTS["query"][0][:2]] + LISTS["query"][2:]}, "shape_mismatch", "/query/1", "found [2, 3, 8]"),
    (LISTS | {"query": [[[1, 2]], [[1, 2], [3]]]}, "shape_mismatch", "/query/1/1", "has 1 number, expected 2"),
    (LISTS | {"query": [[[1, 2]], 3]}, "shape_mismatch", "/query/1", "list"),
    (LISTS | {"attn_mask": [[True]]}, "shape_mismatch", "/attn_mask", "each of 5 entries; found 1"),
    (LISTS | {"key_lengths": KEYS}, "invalid_value", "/key_lengths", "ragged batch"),
    (LENGTHS | {"heatmap": {"batch": [0]}}, "invalid_value", "/heatmap/batch", "ragged batch"),
    ({"query": PACKED["query"], "query_lengths": QUERIES, "key_lengths": QUERIES}, "invalid_value", "/key_lengths", "key"),
    (sums([1, 3, 3, 43, 44, 244]), "invalid_value", "/cu_seqlens/0/0", "first sum is 0, found 1"),
    (sums([0, 3, 2, 43, 44, 244]), "invalid_value", "/cu_seqlens/0/2", "at least 3, found 2"),
    (sums([0, 3, 3, 43, 44, 243]), "invalid_value", "/cu_seqlens/0", "243 rows, and query has 244"),
    (sums([0, 3, 3, 43, 44, 245]), "invalid_value", "/cu_seqlens/0/5", "are 244, found 245"),
    (sums([0, 3, 3, 43, 2**62, 2**62]), "invalid_value", "/cu_seqlens/0/4", "are 244, found 4"),
    (sums([0, 3, 3, 43, 44, 244], [0, 5, -9, 49, 139, 339]), "invalid_value", "/cu_seqlens/1/2", "at least 5, found -9"),
    (sums([0, 3, 3, 43, 44, 244], [0, 5, 9, 49, 139, 340]), "invalid_value", "/cu_seqlens/1/5", "are 339, found 340"),
    (PACKED | {"cu_seqlens": SUMS["cu_seqlens"][0]}, "invalid_value", "/cu_seqlens", "244 rows, and key has 339"),
    (PACKED | {"cu_seqlens": [0]}, "shape_mismatch", "/cu_seqlens", "with key, [2, B + 1]"),
    (PACKED | {"cu_seqlens": []}, "shape_mismatch", "/cu_seqlens", "with key, [2, B + 1]"),
    (PACKED | {"cu_seqlens": [[0, 1]] * 3}, "shape_mismatch", "/cu_seqlens", "with key, [2, B + 1]"),
    (PACKED | {"cu_seqlens": [0] * 1026}, "invalid_value", "/cu_seqlens", "found 1025"),
    (PACKED | {"cu_seqlens": [0, 1.5]}, "invalid_value", "/cu_seqlens/1", "integer"),
    ({"query": PACKED["query"]} | {"cu_seqlens": [SUMS["cu_seqlens"][0]] * 2}, "shape_mismatch", "/cu_seqlens", "[B + 1]"),
    (SUMS | {"query_lengths": QUERIES}, "invalid_value", "/query_lengths", "exclude each other"),
    (SUMS | {"key_lengths": KEYS}, "invalid_value", "/key_lengths", "exclude each other"),
    (LISTS | {"cu_seqlens": SUMS["cu_seqlens"]}, "shape_mismatch", "/query", "with cu_seqlens expected packed rows"),
    (LENGTHS | {"value": LISTS["value"]}, "shape_mismatch", "/value", "with query_lengths expected packed rows"),
])
def test_what_is_refused(daemon, body, code, pointer, text):
    refused(daemon, body, code, pointer, text)


def test_numbers_that_are_not_finite_are_named(daemon):
    """The place is that in the request, not in the entry."""
    query = [[list(row) for row in x] for x in PACKED["query"]]
    query[5][2] = [1e39] * E
    assert daemon.post("/v1/attention", LENGTHS | {"query": query}).json()["pointer"].startswith("/query/5/2")
