"""Gradients of ragged batches: those of query, key, value and scores are the bytes of each entry's own request, those of inputs that the entries share
are the sums over the entries."""
import numpy as np
import pytest
from api_client import ask, refused
from safetensors.numpy import load
from test_ragged import E, EV, HKV, HQ, KEY, KEYS, LENGTHS, LISTS, QUERIES, QUERY, RNG, SUMS, VALUE, lists, one_entry, packed, rows, single

GRAD = rows(QUERIES, HQ, EV)
GRAD_LSE = [np.float32(RNG.standard_normal((n, HQ))) for n in QUERIES]
OWN = ("query", "key", "value", "scores")
SINKS = [0.1, 0.2, 0.3, 0.4]
TABLE = np.float32(RNG.standard_normal((HQ, 9))).tolist()
RETURN = ["output", "gradients", "gradients.scores"]


def bodies(names=("grad_output", "grad_logsumexp")):
    """The batch as lists and as packed tensors, each with the layout of its single requests."""
    grads = {"grad_output": (lists(GRAD), packed(GRAD)), "grad_logsumexp": ([x.T.tolist() for x in GRAD_LSE], packed(GRAD_LSE))}
    return [(LISTS | {n: grads[n][0] for n in names}, "BHLE"), (LENGTHS | {n: grads[n][1] for n in names}, "BLHE")]


def alone(b, layout, names=("grad_output", "grad_logsumexp")):
    grads = {"grad_output": GRAD[b] if layout == "BLHE" else np.swapaxes(GRAD[b], 0, 1), "grad_logsumexp": GRAD_LSE[b].T}
    return single(b, layout) | {n: one_entry(grads[n]) for n in names}


def leaves(gradients, path=""):
    for name, x in gradients.items():
        if isinstance(x, dict):
            yield from leaves(x, f"{path}{name}.")
        else:
            yield path + name, x


def summed(arrays):
    """In double, in the order of the entries, rounded once."""
    total = np.zeros(np.shape(arrays[0]))
    for x in arrays:
        total = total + np.float64(np.float32(x))
    return np.float32(total)


@pytest.mark.parametrize("fields", [
    {}, {"is_causal": True, "query_offset": "end"}, {"sinks": SINKS}, {"scale": {"shape": [HQ], "data": [0.3, 0.4, 0.5, 0.6]}},
    {"position": {"kind": "relative", "table": TABLE}, "softcap": 3}, {"score": {"kind": "general", "w": np.eye(E).tolist()}}, {"dropout_p": 0.3, "seed": 1}])
@pytest.mark.parametrize("names", [("grad_output",), ("grad_logsumexp",), ("grad_output", "grad_logsumexp")])
def test_an_entry_has_its_own_gradients(daemon, fields, names):
    for body, layout in bodies(names):
        found = ask(daemon, body | fields | {"return": RETURN})
        wanted = [ask(daemon, alone(b, layout, names) | fields | {"return": RETURN}) for b in range(len(QUERIES))]
        assert found["output"] == [w["output"][0] for w in wanted]
        for name, x in leaves(found["gradients"]):
            each = [dict(leaves(w["gradients"]))[name] for w in wanted]
            if name in OWN:
                assert x == [w[0] for w in each], name
            else:
                assert np.array_equal(np.array(x, np.float32), summed(each)), name
        assert [n for n, _ in leaves(found["gradients"])] == [n for n, _ in leaves(wanted[0]["gradients"])]


def test_sums_of_lengths(daemon):
    """cu_seqlens in place of the lengths, of queries and keys apart or alike."""
    grads = {"grad_output": packed(GRAD), "grad_logsumexp": packed(GRAD_LSE), "sinks": SINKS, "return": RETURN}
    assert ask(daemon, SUMS | grads) == ask(daemon, LENGTHS | grads)
    alike = {"query": packed(KEY), "grad_output": packed(rows(KEYS, HKV, E))}
    assert ask(daemon, alike | {"cu_seqlens": SUMS["cu_seqlens"][1]}) == ask(daemon, alike | {"query_lengths": KEYS})
    refused(daemon, SUMS | {"grad_output": packed(GRAD)[:-1]}, "invalid_value", "/cu_seqlens/0/5", "are 243, found 244")
    refused(daemon, SUMS | {"grad_output": lists(GRAD)}, "shape_mismatch", "/grad_output", "with cu_seqlens expected packed rows")
    refused(daemon, SUMS | {"grad_output": packed(GRAD), "grad_logsumexp": [[0.5]]}, "invalid_value", "/cu_seqlens/0/1", "are 1, found 3")


def test_projections(daemon):
    """Matrices of all entries, heads side by side, with an output that is mapped."""
    maps = {"num_heads": 2} | {n: np.float32(RNG.standard_normal((8, 8))).tolist() for n in ("w_q", "w_k", "w_v", "w_o")}
    tokens, grads = ([np.float32(RNG.standard_normal((n, 8))).tolist() for n in (3, 1, 60)] for _ in range(2))
    found = ask(daemon, {"query": tokens, "grad_output": grads, "projections": maps})
    wanted = [ask(daemon, {"query": [x], "grad_output": [g], "projections": maps}) for x, g in zip(tokens, grads)]
    assert found["gradients"]["query"] == [w["gradients"]["query"][0] for w in wanted]
    for name in ("w_q", "w_k", "w_v", "w_o"):
        each = [w["gradients"]["projections"][name] for w in wanted]
        assert np.array_equal(np.array(found["gradients"]["projections"][name], np.float32), summed(each)), name


def test_binary(daemon):
    """Rows are packed, scores are a tensor for each entry."""
    for body, layout in bodies():
        body = body | {"sinks": SINKS, "return": RETURN}
        reply = daemon.post("/v1/attention", body, headers={"Accept": "application/vnd.safetensors"})
        found, wanted = load(reply.content), ask(daemon, body)["gradients"]
        for name, lengths in (("query", QUERIES), ("key", KEYS), ("value", KEYS)):
            items = [np.array(x, np.float32) for x, n in zip(wanted[name], lengths) if n]
            whole = np.concatenate([x if layout == "BLHE" else np.swapaxes(x, 0, 1) for x in items])
            assert np.array_equal(found[f"gradients.{name}"], whole), name
        assert np.array_equal(found["gradients.sinks"], np.array(wanted["sinks"], np.float32))
        assert [found[f"gradients.scores.{b}"].shape for b in range(5)] == [(HQ, n, m) for n, m in zip(QUERIES, KEYS)]
        assert found["query_lengths"].tolist() == QUERIES and found["key_lengths"].tolist() == KEYS


def test_text_and_dry_run(daemon):
    body = bodies()[1][0] | {"sinks": SINKS, "return": RETURN}
    text = daemon.post("/v1/attention", body, headers={"Accept": "text/plain"}).text
    assert "gradients/query/0 (3, 4, 8):" in text and "gradients/value/4 (200, 2, 6):" in text and text.count("gradients/sinks (4,):") == 1
    dry = ask(daemon, body | {"dry_run": True})["dry_run"]
    assert dry["shapes"]["gradients/key/3"] == [90, HKV, E] and dry["shapes"]["gradients/sinks"] == [HQ]
    assert dry["num_operations"] == sum(ask(daemon, alone(b, "BLHE") | {"sinks": SINKS, "return": RETURN, "dry_run": True})["dry_run"]["num_operations"] for b in range(5))


def test_large_gradients_of_scores_are_left_out(daemon):
    answer = ask(daemon, bodies()[0][0])
    assert "scores" not in answer["gradients"] and set(answer["omitted"]) == {"weights", "gradients.scores"}


@pytest.mark.parametrize("change, code, pointer, text", [
    ({"grad_output": lists(GRAD)[:4]}, "shape_mismatch", "/grad_output", "5; found 4"),
    ({"grad_output": lists(GRAD)[:2] + lists(GRAD)[:1] + lists(GRAD)[3:]}, "shape_mismatch", "/grad_output", "40"),
    ({"grad_logsumexp": [x.T.tolist() for x in GRAD_LSE][:3]}, "shape_mismatch", "/grad_logsumexp", "5; found 3"),
])
def test_lists_that_do_not_fit(daemon, change, code, pointer, text):
    refused(daemon, LISTS | change, code, pointer, text)


@pytest.mark.parametrize("change, code, pointer, text", [
    ({"grad_output": packed(GRAD)[:-1]}, "invalid_value", "/query_lengths/4", "are 243, found 244"),
    ({"grad_output": [[1, 2]] * 244}, "shape_mismatch", "/grad_output", "[1, 3, 4, 6]"),
    ({"grad_logsumexp": packed(GRAD)}, "shape_mismatch", "/grad_logsumexp", "[sum of L, H]"),
])
def test_packed_tensors_that_do_not_fit(daemon, change, code, pointer, text):
    refused(daemon, LENGTHS | change, code, pointer, text)


def test_a_batch_is_ragged_by_its_gradients_alone(daemon):
    """Equal rows of query beside unequal rows of the gradient do not fit each other."""
    refused(daemon, {"query": [[[1, 0]], [[0, 1]]], "grad_output": [[[1, 0]], [[0, 1], [1, 1]]]}, "shape_mismatch", "/grad_output", "[1, 1, 2]")
