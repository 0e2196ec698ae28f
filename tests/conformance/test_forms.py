"""Every form of attention over HTTP, on every kernel table: against the oracle, against itself computed
another way, and what it refuses."""
import base64
import json
import pathlib

import numpy as np
import pytest

import random_forms
import tables
from serving import Daemon, FLOAT32, FLOAT64, ask, compare, service
from oracle import normalizers, ragged, relations, tensors
from oracle.attention import served
from oracle.tour import dry_run

SEEDS = tables.share(range(320))
VERIFIED = 3e-6  # in float64 beside float32: of the largest value, resp. of logsumexp


def is_double(body):
    return any(tensors.dtype_of(body[n]) == "float64" for n in ("query", "key", "value") if n in body)


def verification_fault(found, wanted, rows, double):
    finite = np.abs(wanted["logsumexp"][np.isfinite(wanted["logsumexp"])]).max(initial=1.0)
    bound = FLOAT64 if double else VERIFIED
    if found["num_rows"] != (rows if wanted["logsumexp"].size else 0):
        return f"verified {found['num_rows']} rows, not {rows}"
    if not (found["output_error"] <= bound and found["logsumexp_error"] <= bound * finite):
        return f"verification found {found}"
    return None


def slack_of(body):
    """A weight above a threshold is off by what its score is off, and scores may be far above 1."""
    return 4 if normalizers.normalizer_of(body)["kind"] in ("sparsemax", "entmax") else 1


def condition_of(body):
    """How often the bound of float32 results large scores take. Sums of float32 products leave a score s off by up to 4 units
    in its last place, 2^-22 |s|. A softmax weight is then off by at most half of that, and an output by all of it. For
    scores up to 16 this is within FLOAT32."""
    scores = served({**body, "return": ["scores"], "score_stage": "scaled"})["scores"]
    return max(1, np.abs(scores).max(initial=0) / 16)


def judge(answer, body):
    """Compares an answer with the oracle's, and asks for the condition where the bound of small scores does not do."""
    wanted, bound = served(body), FLOAT64 if is_double(body) else FLOAT32 * slack_of(body)
    try:
        compare(answer, wanted, bound)
    except AssertionError:
        if is_double(body):
            raise
        compare(answer, wanted, bound * condition_of(body))
    return wanted


def fault_of(daemon, body, rows):
    answer = ask(daemon, {**body, "verify": rows} if rows else body)
    try:
        wanted = judge(answer, body)
    except AssertionError as fault:
        return str(fault)
    if not rows:
        return None
    return verification_fault(answer["verification"], wanted, rows, is_double(body))


@pytest.mark.parametrize("block", range(0, 60, 20))
def test_random_ragged(table, block):
    """Ragged batches: every entry is what the oracle computes of it alone."""
    for seed in tables.share(range(block, block + 20)):
        body = random_forms.ragged(seed)
        answer = ask(table, body)
        for b, entry in enumerate(ragged.entries(body)):
            wanted = {name: x[0] for name, x in served(entry).items()}
            try:
                compare({name: answer[name][b] for name in wanted}, wanted, FLOAT64 if is_double(entry) else FLOAT32)
            except AssertionError as fault:
                pytest.fail(f"seed {seed}, entry {b}: {fault}", pytrace=False)


@pytest.mark.parametrize("block", range(0, len(SEEDS), 20))
def test_random(table, block):
    """Every third request has some of its rows computed again by the service."""
    for seed in SEEDS[block : block + 20]:
        body = random_forms.request(seed)
        fault = fault_of(table, body, 5 if seed % 3 == 0 else 0)
        if fault:
            fields = {k: v for k, v in body.items() if len(json.dumps(v)) < 200}
            pytest.fail(f"seed {seed} {fields}: {fault}", pytrace=False)


# --- the same computed another way ---

B, H, L, S, E = 2, 4, 45, 150, 16


def normal(seed, *shape):
    return {"shape": list(shape), "random": "normal", "seed": seed}


def scaled(seed, factor, *shape):
    return tensors.write(factor * tensors.read(normal(seed, *shape)))


DEBERTA = json.loads(pathlib.Path(__file__).with_name("disentangled_weights.json").read_text())
QKV = {"query": normal(1, B, H, L, E), "key": normal(2, B, 2, S, E), "value": normal(3, B, 2, S, 7)}
FORMS = {
    "scaled_dot": {},
    "additive": {"score": {"kind": "additive", "w_q": normal(4, 9, E), "w_k": normal(5, 9, E), "b": normal(6, 9),
                           "v": normal(7, 9)}},
    "general": {"score": {"kind": "general", "w": scaled(4, 0.1, E, E)}},
    "concat": {"score": {"kind": "concat", "w": scaled(4, 0.3, 9, 2 * E), "v": normal(5, 9)}},
    "alibi": {"position": {"kind": "alibi"}, "query_offset": "end"},
    "t5": {"position": {"kind": "t5", "table": normal(4, 32, H)}},
    "relative": {"position": {"kind": "relative", "table": normal(4, H, 41)}},
    "shaw": {"position": {"kind": "shaw", "key_table": normal(4, 21, E), "value_table": normal(5, 21, 7)}},
    "shaw of each head": {"position": {"kind": "shaw", "key_table": normal(4, H, 21, E), "value_table": normal(5, H, 21, 7)}},
    "disentangled": {"position": {"kind": "disentangled", "key_table": normal(4, 40, E), "query_table": normal(5, H, 40, E)}},
    "disentangled buckets": {"position": {"kind": "disentangled", "query_table": normal(5, 32, E), "max_distance": 60}},
    "rotary": {"position": {"kind": "rotary", "layout": "halves"}},
    "rotary frequencies": {"position": {"kind": "rotary", "layout": "interleaved", "start": 3, "factor": 1.5,
                                        "frequencies": [1, 0.3, 0, -0.01]}},
    "rotary scaling": {"position": {"kind": "rotary", "layout": "halves", "scaling": {
        "kind": "longrope", "factor": 4, "original_max_position_embeddings": 40,
        "short_factor": [1] * (E // 2), "long_factor": [2] * (E // 2)}}},
    "rotary axes": {"position": {"kind": "rotary", "layout": "halves", "axes": [
        {"num_pairs": 3, "interleaved": True, "query_positions": list(range(L)), "key_positions": [None, *range(S - 1)]},
        {"num_pairs": 2, "interleaved": True, "query_positions": [[1] * L, [2.5] * L], "key_positions": [j / 8 for j in range(S)]},
        {"num_pairs": 2, "base": 100, "query_positions": [i % 7 for i in range(L)], "key_positions": [j % 9 for j in range(S)]}]}},
    "rotary and alibi": {"position": [{"kind": "rotary", "layout": "interleaved", "dims": 8}, "alibi"], "query_offset": "end"},
    "shaw and sinusoidal": {"position": [{"kind": "shaw", "key_table": normal(4, 21, E), "value_table": normal(5, 21, 8)},
                                         "sinusoidal"], "value": normal(3, B, 2, S, 8)},
    "sinusoidal": {"position": "sinusoidal", "value": normal(3, B, 2, S, 8)},
    "learned": {"position": {"kind": "learned", "table": normal(4, S, E)}, "value": normal(3, B, 2, S, E)},
    "sinks": {"sinks": normal(4, H), "softcap": 5},
    "local": {"pattern": {"kind": "local", "radius": 20}, "query_offset": 40},
    "sigmoid": {"normalizer": {"kind": "sigmoid", "bias": normal(4, H)}},
    "sparsemax": {"normalizer": "sparsemax", "softcap": 3},
    "entmax": {"normalizer": {"kind": "entmax", "alpha": 1.25}, "sinks": normal(4, H)},
    "relu_squared": {"normalizer": "relu_squared", "position": {"kind": "alibi"}},
    "relu": {"normalizer": {"kind": "relu", "divisor": "keys"}, "scale": normal(5, H)},
    "scales": {"scale": normal(4, B, H, L), "sinks": normal(5, H, L)},
    "mix": {"mix": {"logits": normal(4, H, H)}, "position": {"kind": "rotary", "layout": "halves"}},
    "mix, sigmoid": {"mix": {"logits": normal(4, H, H)}, "normalizer": "sigmoid"},
    "projections": {"query": normal(1, B, L, 12), "key": normal(2, B, S, 10), "value": normal(3, B, S, 14),
                    "projections": {"num_heads": H, "w_q": scaled(4, 0.3, H * E, 12), "b_q": normal(5, H * E),
                                    "w_k": scaled(6, 0.3, H * E, 10), "w_v": scaled(7, 0.3, H * 7, 14)}},
}


def form(name, **fields):
    return {**QKV, **FORMS[name], **fields}


@pytest.mark.parametrize("name", FORMS)
def test_lazy_cells(table, name):
    """Weights that a heatmap computes cell by cell are those of the matrix to the bit, and so are scores
    asked for alone."""
    body = form(name, is_causal=True, query_offset=60)
    whole = ask(table, {**body, "return": ["weights", "scores", "output"]})
    weights = np.array(whole["weights"], np.float32)
    maps = ask(table, {**body, "return": ["heatmap"],
                       "heatmap": {"encoding": "f32", "max_cells": B * H * L * S}})["heatmap"]["heads"]
    assert len(maps) == B * H
    for m in maps:
        assert m["step"] == [1, 1]
        cells = np.frombuffer(base64.b64decode(m["max"]), np.float32).reshape(m["shape"])
        assert (cells == weights[m["batch"], m["head"]]).all()
    assert ask(table, {**body, "return": ["scores"]})["scores"] == whole["scores"]
    assert ask(table, {**body, "return": ["output"]})["output"] == whole["output"]


def poisoned(body, name, places, poison):
    """The tensor `name` of a request with `poison` in the rows `places` of its last but one axis."""
    x = tensors.read(body[name]).copy()
    x[..., places, :] = poison
    return {**body, name: tensors.write(x)}


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("name", FORMS)
def test_hidden_changes_nothing(table, name, poison):
    """NaN and infinity in hidden keys and values do not leak through maps, turns, tables and projections."""
    hidden = [*range(0, 150, 7), 148, 149]
    keep = [j not in hidden for j in range(S)]
    body = form(name, attn_mask=keep, **{"return": ["output", "weights", "logsumexp", "scores"]})
    dirty = poisoned(poisoned(body, "key", hidden, poison), "value", hidden, poison)
    clean = table.post("/v1/attention", json.dumps(body))
    answer = table.post("/v1/attention", json.dumps(dirty))
    assert (clean.status_code, answer.status_code) == (200, 200), answer.text[:500]
    assert clean.content == answer.content


@pytest.mark.parametrize("side", ["query", "key", "value"])
@pytest.mark.parametrize("name", FORMS)
def test_visible_nan_is_refused(table, name, side):
    problem = ask(table, poisoned(form(name), side, [30], np.nan), 422)
    assert problem["code"] == "nonfinite_value" and problem["pointer"].startswith("/" + side), problem


PATTERNS = [
    ({"kind": "local", "radius": 30}, lambda i, j: abs(i - j) <= 30),
    ({"kind": "strided", "stride": 64, "local": 3}, lambda i, j: ((i - j) % 64 == 0) | (abs(i - j) <= 3)),
    ({"kind": "block", "size": 50}, lambda i, j: i // 50 == j // 50),
    ({"kind": "global", "num_keys": 4, "local": 20}, lambda i, j: (i >= 0) & (i < 4) | (j < 4) | (abs(i - j) <= 20)),
]


@pytest.mark.parametrize("offset", [3, -90])
@pytest.mark.parametrize("pattern, sees", PATTERNS, ids=[p["kind"] for p, _ in PATTERNS])
def test_patterns_are_masks(table, pattern, sees, offset):
    """A pattern, whose hidden tiles are skipped, and the same mask in the full form. Queries may stand before key 0."""
    body = {"query": normal(1, 2, 700, 8), "return": ["output", "weights", "logsumexp"], "query_offset": offset}
    keep = sees(np.arange(700)[:, None] + offset, np.arange(700))
    full = ask(table, {**body, "attn_mask": tensors.write(keep, "bool")})
    part = ask(table, {**body, "pattern": pattern})
    for name in body["return"]:
        a, b = (relations.number_array(x[name]) for x in (part, full))  # rows outside see no block
        assert relations.apart(a, b, 1e-6) <= 1, name


@pytest.mark.parametrize("name", DEBERTA)
def test_weights_of_deberta(table, name):
    """Weights that DisentangledSelfAttention of transformers computes in float64 (check_disentangled.py)."""
    got = ask(table, {**DEBERTA[name]["body"], "return": ["weights"]})["weights"]
    assert np.abs(np.array(got) - np.array(DEBERTA[name]["weights"])).max() <= 1e-6


def steps(body, length, at):
    """What each of two calls of a decoder sends of a whole self-attention request: the first `at` positions,
    then the others."""
    for a, b in ((0, at), (at, length)):
        yield {**body, **{n: tensors.write(tensors.read(body[n])[..., a:b, :]) for n in ("query", "key", "value")}}


DECODED = {
    "plain": {}, "alibi": FORMS["alibi"], "t5": FORMS["t5"], "relative": FORMS["relative"], "rotary": FORMS["rotary"],
    "rotary frequencies": FORMS["rotary frequencies"], "rotary and alibi": {"position": FORMS["rotary and alibi"]["position"]},
    "shaw": {"position": {"kind": "shaw", "key_table": normal(4, 21, E)}},
    "disentangled": FORMS["disentangled"], "disentangled buckets": FORMS["disentangled buckets"],
    "local": {"pattern": {"kind": "local", "radius": 5}},
    "additive": FORMS["additive"],
    "projections": {"projections": {"num_heads": 2, "w_k": scaled(6, 0.3, 8, E), "w_q": scaled(5, 0.3, 8, E)}},
    "projections with positions": {"projections": {"num_heads": 2, "add_positions": True}},
}


@pytest.mark.parametrize("name", DECODED)
def test_decoding(table, name):
    """A causal sequence at once, and in two calls with the cache of the first: the same rows."""
    shape = (1, 40, E) if "projections" in DECODED[name] else (1, H, 40, E)
    body = {"query": normal(1, *shape), "key": normal(2, *shape), "value": normal(3, *shape), "is_causal": True,
            **DECODED[name]}
    body.pop("query_offset", None)
    whole = ask(table, {**body, "return": ["output"]})
    first, second = steps(body, 40, 33)
    answer = ask(table, {**first, "return": ["output", "present"]})
    rest = ask(table, {**second, "past_key": answer["present_key"], "past_value": answer["present_value"],
                       "return": ["output"]})
    joined = np.concatenate((answer["output"], rest["output"]), axis=-2)
    assert np.abs(joined - np.array(whole["output"])).max() <= 2e-6


def test_dropout_is_a_function_of_the_cell(table):
    """The first batch entry alone loses the same cells; another seed loses others."""
    body = {**QKV, "dropout_p": 0.3, "seed": 11, "return": ["weights_dropped", "weights"]}
    whole = ask(table, body)
    one = ask(table, {**body, **{n: normal(QKV[n]["seed"], 1, *QKV[n]["shape"][1:]) for n in QKV}})
    assert one["weights_dropped"] == whole["weights_dropped"][:1]
    other = ask(table, {**body, "seed": 12})
    assert other["weights"] == whole["weights"] and other["weights_dropped"] != whole["weights_dropped"]
    lost = (np.array(whole["weights_dropped"]) == 0).mean()
    assert abs(lost - 0.3) < 0.01


# --- dry runs ---


def without_data(body):
    """A dry run reads no values, so that it may be asked with shapes alone."""
    return {**body, **{n: {"shape": list(tensors.shape_of(body[n])), "fill": "zeros"} for n in
                       ("query", "key", "value", "past_key", "past_value") if n in body and not is_double(body)}}


# Masks whose hidden cells the pass may skip.
SKIPS = ("mask_positions", "pattern", "window", "any_of", "all_of", "not", "document_ids", "prefix_lengths", "parents", "top_k_indices")


def test_dry_runs(table):
    """Shapes, cells, operations, parameters and bytes of the answer of 60 requests, beside what they answer."""
    for seed in range(60):
        body = random_forms.request(seed)
        said = ask(table, {**without_data(body), "dry_run": True})["dry_run"]
        wanted, planned = served(body), dry_run(body)["dry_run"]
        assert {n: said["shapes"][n] for n in wanted} == {n: list(x.shape) for n, x in wanted.items()}, seed
        recurrent = ("rnn", "path_length") if wanted["logsumexp"].size else ()  # no rows, no counterpart
        computed = said.get("num_computed_cells", said["num_cells"])  # a pattern skips cells, but no visible one
        mixes = "subtract" in body or "weights" in body.get("mix", {})  # weights of other heads
        if wanted["weights"].size and not mixes:
            assert np.count_nonzero(wanted["weights"]) <= computed <= said["num_cells"], seed
        for name in ("num_cells", "num_parameters", *recurrent):
            assert said[name] == planned[name], (seed, name)
        assert any(name in body for name in SKIPS) or computed == said["num_cells"], seed
        per_cell = (planned["num_operations"] - said["num_operations"]) / max(said["num_cells"] - computed, 1)
        assert (per_cell == 0 if computed == said["num_cells"] else per_cell > 0 and per_cell == int(per_cell)), seed
        size = 8 if is_double(body) else 4
        said_bytes = {"with_weights": 0, "without_weights": 0, **said["bytes"]}  # an empty answer names neither
        if not any(tensors.dtype_of(x) == "float64" for x in body.get("projections", {}).values() if is_tensor(x)):
            assert said_bytes["with_weights"] == size * sum(x.size for x in wanted.values()), seed
            assert said_bytes["without_weights"] == size * sum(
                x.size for n, x in wanted.items() if n != "weights"), seed
        assert said["predicted_ms"] > 0 and isinstance(said["mask"], str)


def is_tensor(x):
    return isinstance(x, (list, dict))


def test_dry_run_of_what_would_not_fit(table):
    """A million queries and keys: 4 TB of weights, told at once."""
    said = ask(table, {"query": {"shape": [1000000, 4], "fill": "zeros"}, "dry_run": True,
                       "return": ["weights"]})["dry_run"]
    assert said["shapes"]["weights"] == [1000000, 1000000] and said["bytes"]["with_weights"] == 4e12
    assert said["fits"] is False


# --- what is refused ---

X = [[1.0, 2, 3, 4], [5, 6, 7, 8]]
ONES = {"shape": [4, 4], "fill": "ones"}
def disentangled(rows, score="scaled_dot", **fields):
    return {"score": score, "position": {"kind": "disentangled", "query_table": [[1] * 4] * rows, **fields}}


def rotary(**fields):
    return {"query": [[1, 2, 3, 4]], "position": {"kind": "rotary", "layout": "halves", **fields}}


REFUSED = {
    "unknown score": ({"score": "cosine"}, "/score"),
    "unknown kind of score": ({"score": {"kind": "cosine"}}, "/score/kind"),
    "additive without v": ({"score": {"kind": "additive", "w_q": ONES, "w_k": ONES}}, "/score/v"),
    "additive, W_q of another width": ({"score": {"kind": "additive", "w_q": [[1, 2]], "w_k": ONES, "v": [1] * 4}},
                                       "/score/w_q"),
    "additive, W_k of other rows": ({"score": {"kind": "additive", "w_q": ONES, "w_k": [[1] * 4], "v": [1] * 4}},
                                    "/score/w_k"),
    "additive, v too long": ({"score": {"kind": "additive", "w_q": ONES, "w_k": ONES, "v": [1] * 5}}, "/score/v"),
    "general without W": ({"score": {"kind": "general"}}, "/score/w"),
    "general, W transposed": ({"key": [[1, 2]], "value": [[1]], "score": {"kind": "general", "w": [[1, 2]] * 4}},
                              "/score/w"),
    "concat, W of another width": ({"score": {"kind": "concat", "w": ONES, "v": [1] * 4}}, "/score/w"),
    "a parameter of another score": ({"score": {"kind": "dot", "w": ONES}}, "/score/w"),
    "an unknown parameter": ({"score": {"kind": "dot", "temperature": 1}}, "/score/temperature"),
    "dot of unequal widths": ({"key": [[1, 2]], "value": [[1]]}, "/key"),
    "unknown position": ({"position": {"kind": "absolute"}}, "/position/kind"),
    "rotary without a layout": ({"position": {"kind": "rotary"}}, "/position/layout"),
    "rotary over an odd width": ({"query": [[1, 2, 3]], "position": {"kind": "rotary", "layout": "halves"}},
                                 "/position/dims"),
    "rotary beyond the width": ({"position": {"kind": "rotary", "layout": "halves", "dims": 6}}, "/position/dims"),
    "rotary frequencies beyond the width": (rotary(frequencies=[1, 1, 1]), "/position/frequencies"),
    "rotary frequencies of other pairs": (rotary(frequencies=[1], dims=4), "/position/frequencies"),
    "rotary frequencies and base": (rotary(frequencies=[1, 1], base=9), "/position/base"),
    "rotary start beyond the width": (rotary(start=5), "/position/start"),
    "rotary start before one coordinate": (rotary(start=3), "/position/dims"),
    "rotary factor 0": (rotary(factor=0), "/position/factor"),
    "rotary frequencies and scaling": (rotary(frequencies=[1, 1], scaling={"kind": "linear"}), "/position/scaling"),
    "rotary scaling without a kind": (rotary(scaling={"factor": 2}), "/position/scaling"),
    "rotary scaling by another kind's field": (rotary(scaling={"kind": "linear", "beta_fast": 2}), "/position/scaling/beta_fast"),
    "rotary scaling below 1": (rotary(scaling={"kind": "linear", "factor": 0.5}), "/position/scaling/factor"),
    "rotary scaling without a length": (rotary(scaling={"kind": "dynamic", "factor": 2}),
                                        "/position/scaling/original_max_position_embeddings"),
    "dynamic scaling of one pair": (rotary(dims=2, scaling={"kind": "dynamic", "original_max_position_embeddings": 4}),
                                    "/position/scaling/kind"),
    "llama3 bounds in the wrong order": (rotary(scaling={"kind": "llama3", "original_max_position_embeddings": 4,
                                                         "low_freq_factor": 5}), "/position/scaling/high_freq_factor"),
    "longrope without factors": (rotary(scaling={"kind": "longrope", "original_max_position_embeddings": 4}),
                                 "/position/scaling/short_factor"),
    "one mscale": (rotary(scaling={"kind": "yarn", "original_max_position_embeddings": 4, "mscale": 1}), "/position/scaling/mscale"),
    "no axis": (rotary(axes=[]), "/position/axes"),
    "thousands of axes": (rotary(axes=[{"num_pairs": 1, "positions": [0]}] * 3000), "/position/axes"),
    "axes with more pairs than the width": (rotary(axes=[{"num_pairs": 3, "positions": [0]}]), "/position/axes"),
    "axes with other pairs than dims": (rotary(dims=2, axes=[{"num_pairs": 2, "positions": [0]}]), "/position/dims"),
    "axes with other pairs than frequencies": (rotary(frequencies=[1], axes=[{"num_pairs": 2, "positions": [0]}]), "/position/frequencies"),
    "an axis without pairs": (rotary(axes=[{"positions": [0]}]), "/position/axes/0"),
    "an axis of both pairs": (rotary(axes=[{"positions": [0], "num_pairs": 0, "interleaved": True}]), "/position/axes/0/num_pairs"),
    "an axis without positions": (rotary(axes=[{"num_pairs": 1, "query_positions": [0]}]), "/position/axes/0/positions"),
    "an axis of three positions": (rotary(axes=[{"num_pairs": 1, "positions": [0], "key_positions": [0]}]), "/position/axes/0/positions"),
    "axes of other rows": (rotary(axes=[{"num_pairs": 1, "positions": [0, 1]}]), "/position/axes"),
    "axes that differ in rows": (rotary(axes=[{"num_pairs": 1, "positions": [0]}, {"num_pairs": 1, "positions": [0, 1]}]),
                                 "/position/axes/1/positions"),
    "a far position on an axis": (rotary(axes=[{"num_pairs": 1, "positions": [0]}, {"num_pairs": 1, "query_positions": [2e12], "key_positions": [0]}]),
                                  "/position/axes/1/query_positions/0"),
    "a far position of a batch entry": (rotary(axes=[{"num_pairs": 1, "positions": [[0]]}, {"num_pairs": 1, "positions": [[-2e12]]}]),
                                        "/position/axes/1/positions/0/0"),
    "too many interleaved pairs": (rotary(axes=[{"num_pairs": 1, "interleaved": True, "positions": [0]}, {"num_pairs": 2, "interleaved": True, "positions": [0]}]),
                                   "/position/axes/1/num_pairs"),
    "a base of an axis and frequencies": (rotary(frequencies=[1], axes=[{"num_pairs": 1, "positions": [0], "base": 9}]), "/position/axes"),
    "axes and positions": (rotary(axes=[{"num_pairs": 1, "positions": [0]}]) | {"query_positions": [0]}, "/query_positions"),
    "axes of alibi": ({"position": {"kind": "alibi", "axes": [{"num_pairs": 1, "positions": [0]}]}}, "/position/axes"),
    "no kind of position": ({"position": []}, "/position"),
    "three kinds of position": ({"position": ["alibi", "sinusoidal", "alibi"]}, "/position"),
    "two kinds that change scores": ({"position": ["alibi", "alibi"]}, "/position/1/kind"),
    "two kinds that change queries": ({"position": ["sinusoidal", rotary()["position"]]}, "/position/1/kind"),
    "a layout in a list": ({"position": ["alibi", {"kind": "rotary"}]}, "/position/1/layout"),
    "a table in a list": ({"position": [{"kind": "t5", "table": [[1], [2], [3]]}, "sinusoidal"]}, "/position/0/table"),
    "scaling of alibi": ({"position": {"kind": "alibi", "scaling": {"kind": "linear"}}}, "/position/scaling"),
    "t5 without a table": ({"position": {"kind": "t5"}}, "/position/table"),
    "t5 table of other heads": ({"position": {"kind": "t5", "table": [[1, 2]] * 8}}, "/position/table"),
    "relative table of even length": ({"position": {"kind": "relative", "table": [[1, 2]]}}, "/position/table"),
    "alibi slopes of other heads": ({"position": {"kind": "alibi", "slopes": [1, 2]}}, "/position/slopes"),
    "shaw keys of another width": ({"position": {"kind": "shaw", "key_table": [[1, 2]]}}, "/position/key_table"),
    "shaw values of other rows": ({"position": {"kind": "shaw", "key_table": [[1] * 4], "value_table": [[1] * 4] * 3}},
                                  "/position/value_table"),
    "shaw keys of other heads": ({"position": {"kind": "shaw", "key_table": [[[1] * 4]] * 3}}, "/position/key_table"),
    "shaw of an infinite key": ({"position": {"kind": "shaw", "key_table": [[[1, 2, None, 4]]]}}, "/position/key_table/0/0/2"),
    "shaw with a query table": ({"position": {"kind": "shaw", "key_table": [[1] * 4], "query_table": [[1] * 4]}},
                                "/position/query_table"),
    "disentangled without tables": ({"position": "disentangled"}, "/position/key_table"),
    "disentangled of odd rows": (disentangled(3), "/position/query_table"),
    "disentangled of no rows": (disentangled(0), "/position/query_table"),
    "disentangled of other rows": (disentangled(4, key_table=[[1] * 4] * 6), "/position/query_table"),
    "disentangled of another width": ({"position": {"kind": "disentangled", "key_table": [[1] * 3] * 2}}, "/position/key_table"),
    "disentangled buckets of 6 rows": (disentangled(6, max_distance=20), "/position/query_table"),
    "disentangled buckets of no logarithm": (disentangled(16, max_distance=5), "/position/max_distance"),
    "disentangled with a learned score": (disentangled(2, score={"kind": "general", "w": ONES}), "/position/kind"),
    "shaw with a learned score": ({"score": {"kind": "general", "w": ONES},
                                   "position": {"kind": "shaw", "key_table": [[1] * 4]}}, "/position/kind"),
    "sinks of other heads": ({"sinks": [1] * 7}, "/sinks"),
    "unknown normalizer": ({"normalizer": "softmin"}, "/normalizer"),
    "unknown kind of normalizer": ({"normalizer": {"kind": "softmin"}}, "/normalizer/kind"),
    "bias of other heads": ({"normalizer": {"kind": "sigmoid", "bias": [1, 2]}}, "/normalizer/bias"),
    "bias of relu": ({"normalizer": {"kind": "relu", "bias": [1]}}, "/normalizer/bias"),
    "divisor of 0": ({"normalizer": {"kind": "relu", "divisor": 0}}, "/normalizer/divisor"),
    "alpha of 1": ({"normalizer": {"kind": "entmax", "alpha": 1}}, "/normalizer/alpha"),
    "alpha of sparsemax": ({"normalizer": {"kind": "sparsemax", "alpha": 2}}, "/normalizer/alpha"),
    "divisor of another word": ({"normalizer": {"kind": "relu", "divisor": "queries"}}, "/normalizer/divisor"),
    "bias that is a word": ({"normalizer": {"kind": "sigmoid", "bias": "-log(S)"}}, "/normalizer/bias"),
    "bias beyond float32": ({"normalizer": {"kind": "sigmoid", "bias": 1e39}}, "/normalizer/bias"),
    "slopes that are a number": ({"position": {"kind": "alibi", "slopes": 1}}, "/position/slopes"),
    "divisor of sigmoid": ({"normalizer": {"kind": "sigmoid", "divisor": 1}}, "/normalizer/divisor"),
    "the logsumexp of sparsemax": ({"normalizer": "sparsemax", "grad_logsumexp": [1, 1]}, "/grad_logsumexp"),
    "sinks of sigmoid": ({"normalizer": "sigmoid", "sinks": [1]}, "/sinks"),
    "dropout without a seed": ({"dropout_p": 0.5}, "/dropout_p"),
    "dropout of everything": ({"dropout_p": 1, "seed": 1}, "/dropout_p"),
    "unknown pattern": ({"pattern": {"kind": "random"}}, "/pattern/kind"),
    "strided without a stride": ({"pattern": {"kind": "strided", "local": 1}}, "/pattern/kind"),
    "a block of nothing": ({"pattern": {"kind": "block", "size": 0}}, "/pattern/size"),
    "a negative radius": ({"pattern": {"kind": "local", "radius": -1}}, "/pattern/radius"),
    "projections without heads": ({"projections": {"w_q": ONES}}, "/projections"),
    "indivisible projections": ({"projections": {"num_heads": 3, "w_q": ONES}}, "/projections/w_q"),
    "indivisible width": ({"projections": {"num_heads": 3}}, "/query"),
    "W_k of another width": ({"projections": {"num_heads": 1, "w_k": [[1, 2, 3]]}}, "/projections/w_k"),
    "W_o of another width": ({"projections": {"num_heads": 1, "w_o": [[1, 2, 3]]}}, "/projections/w_o"),
    "a bias alone": ({"projections": {"num_heads": 1, "b_v": [1] * 4}}, "/projections/b_v"),
    "a bias of another length": ({"projections": {"num_heads": 1, "w_q": ONES, "b_q": [1]}}, "/projections/b_q"),
    "positions over an odd width": ({"query": [[1, 2, 3]], "projections": {"num_heads": 1, "add_positions": True}},
                                    None),
    "weights_dropped without dropout": ({"return": ["weights_dropped"]}, None),
}


@pytest.fixture(scope="module")
def daemon():
    """Refusals do not depend on the kernel table."""
    one = Daemon("--ops-listen", "", "--log", "off")
    yield one
    one.stop()


@pytest.mark.parametrize("name", REFUSED)
def test_refused(daemon, name):
    fields, pointer = REFUSED[name]
    problem = ask(daemon, {"query": X, **fields}, 422)
    if pointer:
        assert problem["pointer"] == pointer, problem
    assert problem["code"] and problem["detail"]


@pytest.mark.parametrize("pointer, fields", [
    ("/score/w/1/2", {"score": {"kind": "general", "w": [[1] * 4, [1, 1, None, 1], [1] * 4, [1] * 4]}}),
    ("/sinks/0", {"sinks": [None]}),
    ("/scale/0/1", {"scale": [[1, None]]}),
    ("/normalizer/bias/0", {"normalizer": {"kind": "sigmoid", "bias": [None]}}),
    ("/position/slopes/0", {"position": {"kind": "alibi", "slopes": [None]}}),
    ("/projections/w_q/0/0", {"projections": {"num_heads": 1, "w_q": [[1e39, 1, 1, 1]]}})])
def test_parameters_must_be_finite(daemon, pointer, fields):
    assert ask(daemon, {"query": X, **fields}, 422)["pointer"] == pointer
