"""dry_run: shapes and bytes that a run then has, costs that grow as they should, times within a factor."""
import json
import os
import re

import pytest
from api_client import array, ask, qkv, refused
from test_api_index import document, schema  # noqa: F401, a fixture

ROUTES = {
    "/v1/attention": {"query": {"shape": [2, 3, 4], "random": "normal", "seed": 1}},
    "/v1/masks": {"shape": [2, 30, 40], "masks": [{"kind": "causal"}]},
    "/v1/positions": {"kind": "learned", "length": 8, "width": 6, "seed": 1, "dims": [2]},
    "/v1/heatmaps": {"weights": [[[0.5, 0.5]] * 3] * 2},
    "/v1/curves": {"values": [[1, 2, 3], [3, None, 1]], "x": [0, 1, 4]},
    "/v1/analyses": {"weights": [[[0.5, 0.5]] * 3] * 2},
}


def numbers(*shape, seed=1):
    return {"shape": list(shape), "random": "normal", "seed": seed}


def dry(daemon, body, path="/v1/attention"):
    return ask(daemon, body | {"dry_run": True}, path)["dry_run"]


@pytest.mark.parametrize("path", ROUTES)
def test_every_route_has_one(daemon, document, path):  # noqa: F811
    name = document["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    answer = ask(daemon, ROUTES[path] | {"dry_run": True}, path)
    schema(document, name.split("/")[-1]).validate(answer)
    assert list(answer) == ["dry_run"] and answer["dry_run"]["predicted_ms"] > 0 and answer["dry_run"]["fits"] is True
    text = daemon.post(path, ROUTES[path] | {"dry_run": True}, headers={"Accept": "text/plain"}).text
    assert "bytes:" in text and " ms" in text
    run = ask(daemon, ROUTES[path] | {"dry_run": False}, path)
    assert run == ask(daemon, ROUTES[path], path) and "dry_run" not in run


def test_curves_have_shapes(daemon):
    said = dry(daemon, ROUTES["/v1/curves"], "/v1/curves")
    assert said["shapes"] == {"x": [3], "curves": [2, 3]} and said["bytes"]["result"] == 4 * (3 + 6)
    assert list(dry(daemon, {"values": [1, 2]}, "/v1/curves")["shapes"].items()) == [("curves", [1, 2])]
    refused(daemon, {"values": [1, 2], "x": [1], "dry_run": True}, "shape_mismatch", "/x", path="/v1/curves")


@pytest.mark.parametrize("more", [{}, {"heads": "all", "rows": "5:9,2"}, {"return": ["removed", "weights_before"], "head": 1}])
def test_what_if_has_shapes(daemon, document, more):  # noqa: F811
    run = ask(daemon, {"query": numbers(1, 2, 30, 8), "store": True, "return": []})["run"]["id"]
    path, body = f"/v1/runs/{run}/what-if", {"hide": [3, 4]} | more
    said, tensors = ask(daemon, body | {"dry_run": True}, path), {n: array(x) for n, x in ask(daemon, body, path).items()}
    schema(document, "RunWhatIf").validate(said)
    said = said["dry_run"]
    assert said["shapes"] == {n: list(x.shape) for n, x in tensors.items()} and said["fits"] is True
    assert said["bytes"]["result"] == sum((8 if n == "removed" else 4) * x.size for n, x in tensors.items())
    assert said["num_cells"] > 0 and said["num_operations"] > said["num_cells"]
    refused(daemon, body | {"hide": [30], "dry_run": True}, "invalid_value", "/hide/0", path=path)


@pytest.mark.parametrize("accept", ["application/json", "image/png", "image/svg+xml"])
def test_what_fits_fits_on_the_http_thread(daemon, accept):
    """More than is computed in place, and much less than the service allows; the machine has been measured."""
    body = {"query": numbers(1, 2, 256, 16), "heatmap": {}, "return": []}
    assert dry(daemon, body)["fits"] is True
    answer = daemon.post("/v1/attention", body | {"dry_run": True}, headers={"Accept": accept})
    assert answer.json()["dry_run"]["fits"] is True and daemon.post("/v1/attention", body).status_code == 200


ITEMS = ["output", "weights", "logsumexp", "scores", "present"]
BODIES = {
    "plain": qkv(2, 4, 5, 7, 6, Ev=3, Hkv=2), "causal": qkv(2, None, 6, 6, 4) | {"is_causal": True},
    "rank 2": qkv(None, None, 3, 9, 8), "cache": {"query": numbers(1, 2, 3, 4), "past_key": numbers(1, 2, 5, 4),
                                                  "past_value": numbers(1, 2, 5, 4)},
    "float64": {"query": numbers(2, 3, 4) | {"dtype": "float64"}},
    "heads": {"query": numbers(2, 3, 8), "projections": {"num_heads": 4, "num_kv_heads": 2, "w_k": numbers(4, 8),
                                                         "w_v": numbers(4, 8), "w_o": numbers(3, 8)}},
    "additive": {"query": numbers(2, 3, 8), "score": {"kind": "additive", "w_q": numbers(5, 8), "w_k": numbers(5, 8),
                                                      "v": numbers(5)}},
    "nothing": {"query": numbers(2, 0, 8)},
}


GRADIENTS = {name: body for name, body in BODIES.items() if name not in ("nothing", "float64")} | {
    "bias": {"query": numbers(2, 3, 4), "attn_bias": numbers(3, 3), "sinks": numbers(2)} | {"query": numbers(1, 2, 3, 4)},
    "alibi": {"query": numbers(1, 2, 3, 4), "position": {"kind": "alibi", "slopes": numbers(2)}},
    "shaw": {"query": numbers(3, 4), "position": {"kind": "shaw", "key_table": numbers(5, 4), "value_table": numbers(5, 4)}},
    "disentangled": {"query": numbers(1, 2, 3, 4), "position": {"kind": "disentangled", "key_table": numbers(2, 8, 4),
                                                                "query_table": numbers(8, 4), "max_distance": 9}},
    "many heads": {"query": numbers(1, 8, 20, 4)},
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_counted(daemon, name):
    body = GRADIENTS[name] | {"return": ["output"]}
    body["grad_output"] = {"shape": dry(daemon, body)["shapes"]["output"], "random": "normal", "seed": 1}
    said = dry(daemon, body | {"return": ["gradients"]})
    answer = ask(daemon, body | {"return": ["gradients"]})
    tensors = {}
    for key, value in answer["gradients"].items():
        tensors |= {f"gradients/{key}/{k}": array(v) for k, v in value.items()} if isinstance(value, dict) else {
            f"gradients/{key}": array(value)}
    assert {k: v for k, v in said["shapes"].items() if k.startswith("gradients/")} == {
        k: list(v.shape) for k, v in tensors.items()}
    assert said["bytes"]["result"] == 4 * sum(v.size for v in tensors.values())


@pytest.mark.parametrize("name", BODIES)
def test_shapes_and_bytes_are_those_of_the_run(start, name):
    """With one worker explain and dry_run speak of the same threads, so of the same scratch."""
    daemon = start("--workers", "1")
    body = BODIES[name] | {"return": ITEMS, "explain": True}
    said, run = dry(daemon, body), ask(daemon, body)
    size = 8 if run["diagnostics"]["dtype"] == "float64" else 4
    tensors = {n: array(x) for n, x in run.items() if n not in ("diagnostics", "warnings")}
    if name != "nothing":  # an empty axis ends the nesting
        assert said["shapes"] == {n: list(x.shape) for n, x in tensors.items()}
    assert said["bytes"]["result"] == size * sum(x.size for x in tensors.values())
    assert said["bytes"]["result"] == run["diagnostics"]["bytes"]["result"]
    assert said["bytes"]["work"] == run["diagnostics"]["bytes"]["work"]
    for field in ("num_cells", "num_operations", "num_parameters"):
        assert said[field] == run["diagnostics"][field]
    assert said["mask"] == run["diagnostics"]["mask"]
    if "with_weights" in said["bytes"]:
        assert said["bytes"]["with_weights"] - said["bytes"]["without_weights"] == size * tensors["weights"].size


@pytest.mark.parametrize(("more", "expected"), [
    ({}, ["output", "weights"]),
    ({"return": ["output"]}, ["output"]),
    ({"return": "logsumexp"}, ["logsumexp"]),
    ({"return": ["row_sums", "inputs"]}, ["row_sums", "query", "key", "value"]),
    ({"return": [], "explain": True}, []),
    ({"query": numbers(300, 4)}, ["output"]),
])
def test_only_the_tensors_of_the_answer_have_shapes(daemon, more, expected):
    """Weights of more than 65,536 values are left out of the default, and so are their shapes."""
    body = {"query": numbers(2, 3, 4)} | more
    shapes, run = dry(daemon, body)["shapes"], ask(daemon, body)
    assert list(shapes) == expected
    assert shapes == {n: list(array(x).shape) for n, x in run.items() if n not in ("omitted", "warnings", "diagnostics")}


PATTERNS = {  # in 2,048 positions: the visible cells of a row of the middle
    "strided": ({"kind": "strided", "stride": 64, "local": 8}, 32 + 16),
    "block": ({"kind": "block", "size": 128}, 128),
    "global": ({"kind": "global", "num_keys": 16, "local": 64}, 16 + 129),
    "local": ({"kind": "local", "radius": 64}, 129),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_skipped_cells_are_counted(daemon, name):
    """A pattern computes its visible cells and what fills up blocks of queries and tiles of keys; `operations`
    counts these. Without a pattern no member is added."""
    pattern, visible = PATTERNS[name]
    body = {"query": numbers(1, 2, 2048, 16), "return": "output", "explain": True}
    full, said, run = dry(daemon, body), dry(daemon, body | {"pattern": pattern}), ask(daemon, body | {"pattern": pattern})
    assert "num_computed_cells" not in full and full["num_cells"] == said["num_cells"] == 2 * 2048 * 2048
    assert 2 * 2048 * visible * 0.9 < said["num_computed_cells"] < 2 * 2048 * (2 * visible + 128)
    assert full["num_operations"] - said["num_operations"] == (said["num_cells"] - said["num_computed_cells"]) * 2 * (16 + 16)
    for field in ("num_cells", "num_computed_cells", "num_operations"):
        assert said[field] == run["diagnostics"][field]
    text = daemon.post("/v1/attention", body | {"pattern": pattern, "dry_run": True}, headers={"Accept": "text/plain"}).text
    assert re.search(r"cost: 8.38861e\+06 cells, of which [\d.e+]+ are computed", text), text


def test_skipped_cells_of_a_window_are_counted(daemon):
    body = {"query": numbers(1, 2, 2048, 16), "return": "output", "explain": True}
    windowed = body | {"is_causal": True, "window": [127, 0]}
    full, said, run = dry(daemon, body), dry(daemon, windowed), ask(daemon, windowed)
    assert 2 * 2048 * 128 * 0.9 < said["num_computed_cells"] < 2 * 2048 * (2 * 128 + 128)
    assert full["num_operations"] - said["num_operations"] == (said["num_cells"] - said["num_computed_cells"]) * 2 * (16 + 16)
    for field in ("num_cells", "num_computed_cells", "num_operations"):
        assert said[field] == run["diagnostics"][field]


def test_a_mask_beside_a_window_counts_where_the_window_is(daemon):
    """Of a mask of 4,096 x 4,096 cells the window leaves 1 in 30 to read; the rest of its time is that of decoding it,
    which is the larger part where the kernels are quick."""
    body = {"query": {"shape": [1, 4, 4096, 16], "fill": "zeros"}, "return": "output"}
    mask = {"attn_mask": {"shape": [4096, 4096], "dtype": "bool", "fill": "ones"}}

    def time_of_mask(**more):
        with_mask, without = (min(dry(daemon, body | m | more)["predicted_ms"] for _ in range(3)) for m in (mask, {}))
        return with_mask - without

    assert time_of_mask(window=[63, 63]) < 0.85 * time_of_mask()


def test_predicted_times_follow_the_computed_cells(daemon):
    """The more cells a pattern shows, the longer the predicted time; the time for the rows themselves is part of it."""
    body = {"query": {"shape": [1, 8, 4096, 64], "fill": "zeros"}, "return": "logsumexp"}
    full = dry(daemon, body)
    for family in ([{"kind": "block", "size": 64 << 2 * n} for n in range(3)],
                   [{"kind": "local", "radius": 64 << 2 * n} for n in range(3)],
                   [{"kind": "global", "num_keys": 16 << 2 * n, "local": 64 << 2 * n} for n in range(3)],
                   [{"kind": "strided", "stride": 64 >> 2 * n, "local": 16} for n in range(3)]):
        said = [min((dry(daemon, body | {"pattern": p}) for _ in range(3)), key=lambda d: d["predicted_ms"]) for p in family]
        said.append(full | {"num_computed_cells": full["num_cells"]})
        for some, more in zip(said, said[1:]):
            assert some["num_computed_cells"] < more["num_computed_cells"]
            assert some["predicted_ms"] < more["predicted_ms"], (family, [d["predicted_ms"] for d in said])
        assert said[0]["predicted_ms"] < 0.4 * full["predicted_ms"]


def test_heatmaps_have_shapes_too(daemon):
    body = {"query": numbers(2, 3, 300, 8), "return": [], "heatmap": {"heads": [0, 2], "max_cells": 200}}
    said, run = dry(daemon, body), ask(daemon, body)["heatmap"]["heads"]
    assert said["shapes"]["heatmap"] == [len(run), *run[0]["shape"]]
    body = {"weights": numbers(2, 100, 90) | {"random": "uniform"}, "heatmap": {"max_cells": 64}}
    said, run = dry(daemon, body, "/v1/heatmaps"), ask(daemon, body, "/v1/heatmaps")["heads"]
    assert said["shapes"] == {"heatmap": [len(run), *run[0]["shape"]]}


def test_the_recurrent_layer(daemon):
    """n = 1000, d = 512: 262,144,000 multiply-adds in 1000 steps, where the scores take 512,000,000 in one."""
    said = dry(daemon, {"query": {"shape": [1, 1000, 512], "fill": "zeros"}})
    assert said["rnn"] == {"num_operations": 262144000, "num_score_operations": 512000000, "path_length": 1000}
    assert said["path_length"] == 1


def test_score_forms_cost_their_maps_and_tanh(daemon):
    """One decoder state beside 20 encoder states of width 16, A = 8; a multiply-add counts as two, a tanh as one."""
    weights = {"w_q": numbers(8, 16), "w_k": numbers(8, 16), "v": numbers(8)}
    forms = {"dot": {"kind": "dot"}, "general": {"kind": "general", "w": numbers(16, 16)},
             "additive": {"kind": "additive", **weights},
             "concat": {"kind": "concat", "w": numbers(8, 32), "v": numbers(8)}}
    body = {"query": numbers(3, 16), "key": numbers(3, 20, 16), "value": numbers(3, 20, 16)}
    said = {name: dry(daemon, body | {"score": form})["num_operations"] for name, form in forms.items()}
    assert said["dot"] == 3 * 20 * 2 * (16 + 16)
    assert said["general"] == said["dot"] + 2 * 3 * 16 * 16
    # W_q q once a query, W_k k once a key; then for each pair a sum, a tanh and a multiply-add of A elements
    assert said["additive"] == 3 * (20 * (4 * 8 + 2 * 16) + 2 * 8 * 16 + 20 * 2 * 8 * 16)
    assert said["concat"] == said["additive"]


def test_eight_heads_cost_what_one_does(daemon):
    said = [dry(daemon, {"query": numbers(1, 10, 64), "projections": {"num_heads": h, "w_q": numbers(64, 64)}})
            for h in (1, 8)]
    assert said[0]["num_operations"] == said[1]["num_operations"] and said[1]["num_cells"] == 8 * said[0]["num_cells"]


def test_errors_come_all_the_same(daemon):
    x = {"query": [[1, 2], [3, 4]], "dry_run": True}
    refused(daemon, x | {"attn_mask": [[1, 0], [1, 1]]}, "mask_semantics", "/attn_mask")
    refused(daemon, x | {"position": {"kind": "alibi", "slopes": [1, 2]}}, "shape_mismatch", "/position/slopes")
    refused(daemon, x | {"sinks": [1, 2, 3]}, "shape_mismatch", "/sinks")
    refused(daemon, x | {"key": [[1, 2]], "value": [[1], [2]]}, "shape_mismatch", "/value")
    refused(daemon, x | {"score": "general"}, "invalid_value", "/score/w")
    refused(daemon, x | {"heatmap": {"heads": [4]}}, "invalid_value", "/heatmap/heads/0")


def test_what_does_not_fit_is_told_not_refused(start):
    daemon = start("--max-cells", "100")
    body = {"query": numbers(20, 4)}
    assert dry(daemon, body)["fits"] is False and dry(daemon, {"query": numbers(10, 4)})["fits"] is True
    refused(daemon, body, "too_large", None, "400", status=413)


@pytest.mark.parametrize(("options", "body", "path"), [
    (["--max-cells", "100"], {"query": numbers(20, 4)}, "/v1/attention"),
    (["--max-operations", "1e6"], {"query": numbers(400, 4)}, "/v1/attention"),
    (["--max-request-bytes", "4194304"], {"query": numbers(1500, 4), "return": ["weights"]}, "/v1/attention"),
    (["--max-cells", "100"], {"weights": numbers(20, 20)}, "/v1/heatmaps"),
    (["--max-cells", "100"], {"shape": [20, 20], "masks": []}, "/v1/masks"),
    (["--max-request-bytes", "4194304"], {"shape": [100000, 1, 1], "masks": [{"kind": "causal"}]}, "/v1/masks"),
    (["--max-cells", "100"], {"weights": numbers(20, 20)}, "/v1/analyses"),
    (["--max-request-bytes", "4194304"], {"values": numbers(10, 20000)}, "/v1/curves"),
    (["--max-cells", "100"], {"kind": "sinusoidal", "length": 20, "width": 20}, "/v1/positions"),
    (["--max-cells", "20"], {"text": "the cat sleeps .", "target_text": "le chat dort ."}, "/v1/models/en-fr/attention"),
    (["--max-operations", "1e5"], {"text": "the cat sleeps ."}, "/v1/models/en-fr/generate"),
])
def test_a_dry_run_names_the_limit_of_the_request(start, document, options, body, path):  # noqa: F811
    daemon = start(*options)
    problem = daemon.post(path, body).json()
    assert problem["status"] == 413 and problem["code"] == "too_large"
    limit = problem["limit"]
    assert "--" + limit["setting"].replace("_", "-") == options[0]
    said = dry(daemon, body, path)
    assert said["fits"] is False and said["limit"] == limit
    assert "limit" not in dry(start(), body, path)
    schema(document, "DryRun").validate(said)
    text = daemon.post(path, body | {"dry_run": True}, headers={"Accept": "text/plain"}).text
    assert f"the limit is {limit['value']:.17g}, the setting {limit['setting']}\n" in text


def test_what_if_names_the_limit_of_the_request(start):
    daemon = start("--max-cells", "1000")
    run = ask(daemon, {"query": numbers(30, 8), "store": True, "return": []})["run"]["id"]
    path, body = f"/v1/runs/{run}/what-if", {"hide": [3]}
    problem = refused(daemon, body, "too_large", None, path=path, status=413)
    said = dry(daemon, body, path)
    assert said["fits"] is False and said["limit"] == problem["limit"] == {"value": 1000, "setting": "max_cells"}


@pytest.mark.parametrize(("path", "body", "limit"), [
    ("/v1/heatmaps", {"weights": numbers(600, 2, 2)}, 512),
    ("/v1/heatmaps", {"weights": numbers(40, 2000, 20), "heatmap": {"top_k": 20}}, 1 << 20),
    ("/v1/attention", {"query": numbers(600, 2, 4), "heatmap": {}, "return": []}, 512),
    ("/v1/analyses", {"weights": numbers(600, 2, 2), "heatmap": {}}, 512),
])
def test_a_constant_is_a_limit_without_a_setting(daemon, document, path, body, limit):  # noqa: F811
    said = dry(daemon, body, path)
    schema(document, "DryRun").validate(said)
    problem = daemon.post(path, body).json()
    assert problem["status"] == 413 and problem["pointer"].startswith("/heatmap/")
    schema(document, "Problem").validate(problem)
    assert said["fits"] is False and said["limit"] == problem["limit"] == {"value": limit}
    assert all(said["shapes"].values())
    text = daemon.post(path, body | {"dry_run": True}, headers={"Accept": "text/plain"}).text
    assert f"the limit is {limit}\n" in text


@pytest.mark.parametrize("dry_run", [True, False])
def test_random_elements_are_drawn_for_work_that_is_done(start, dry_run):
    """A dry run and a request beyond a limit leave the 410 MB of their query untouched."""
    daemon = start("--max-cells", "100")
    answer = daemon.post("/v1/attention", {"query": numbers(8, 200000, 64), "dry_run": dry_run})
    assert answer.status_code == (200 if dry_run else 413)
    with open(f"/proc/{daemon.process.pid}/status") as status:
        assert next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) < 200_000


SAFETENSORS = "application/vnd.safetensors"


@pytest.mark.parametrize(("accept", "more"), [
    (SAFETENSORS, {"return": ["weights"]}), ("application/x-npy", {"return": ["weights"]}),
    (SAFETENSORS, {"return": ["gradients.scores"], "grad_output": numbers(1000, 4)}),
])
def test_binary_answers_have_no_text(start, accept, more):
    """4 MB of weights are up to 16 MB of JSON, but 4 MB in a file."""
    daemon = start("--max-request-bytes", str(16 << 20))
    body = {"query": numbers(1000, 4)} | more
    assert dry(daemon, body)["fits"] is False
    refused(daemon, body, "too_large", None, status=413)
    said = daemon.post("/v1/attention", body | {"dry_run": True}, headers={"Accept": accept})
    said = said.json() if accept != SAFETENSORS else json.loads(json.loads(said.content[8:])["__metadata__"]["response"])
    assert said["dry_run"]["fits"] is True
    reply = daemon.post("/v1/attention", body, headers={"Accept": accept})
    assert reply.status_code == 200 and len(reply.content) > 4000000


def test_binary_outputs_of_inference_have_no_text(start):
    daemon = start("--max-request-bytes", str(16 << 20))
    query = {"name": "query", "datatype": "FP32", "shape": [1000, 4], "data": [0.5] * 4000}
    wanted = [{"name": "weights", "parameters": {"binary_data": True}}, {"name": "output"}]
    path = "/v2/models/scaled_dot_product_attention/infer"
    reply = daemon.post(path, {"inputs": [query], "outputs": wanted[:1]})
    assert reply.status_code == 200 and len(reply.content) > 4000000
    reply = daemon.post(path, {"inputs": [query], "outputs": wanted})
    assert reply.status_code == 413 and reply.json()["limit"]["setting"] == "max_request_bytes"


@pytest.mark.parametrize("shape", [[1, 1500000000, 0, 1], [2, 700000000, 0, 1]])
def test_rows_without_numbers_are_text(daemon, shape):
    """What is empty has brackets all the same, gigabytes of them."""
    body = {"query": {"shape": shape, "data": []}, "return": ["output"]}
    assert dry(daemon, body)["fits"] is False
    refused(daemon, body, "too_large", None, status=413)


# --- time ---

def score(width, seed=7):
    return {"kind": "additive", "w_q": numbers(width, width, seed=seed), "w_k": numbers(width, width, seed=seed),
            "v": numbers(width, seed=seed)}


VARIED = {
    "four by four": {"query": [[1.0, 0.5]] * 4},
    "64": {"query": numbers(1, 4, 64, 32)},
    "weights": {"query": numbers(256, 64), "return": ["output", "weights"]},
    "heads": {"query": numbers(1, 8, 512, 64)},
    "causal": {"query": numbers(1, 4, 1024, 64), "is_causal": True, "return": ["output"]},
    "statistics": {"query": numbers(1, 4, 1024, 64), "return": ["logsumexp"]},
    "step": {"query": numbers(1, 8, 1, 64), "key": numbers(1, 8, 2048, 64), "value": numbers(1, 8, 2048, 64)},
    "decoder": {"query": numbers(8, 1, 64), "key": numbers(8, 20, 64), "value": numbers(8, 20, 64), "score": score(64)},
    "additive": {"query": numbers(256, 64), "score": score(64)},
    "general": {"query": numbers(8, 1, 256), "key": numbers(8, 20, 256), "value": numbers(8, 20, 256),
                "score": {"kind": "general", "w": numbers(256, 256)}},
    "multi-head": {"query": numbers(2, 128, 256), "projections": {"num_heads": 8, **{
        "w_" + n: numbers(256, 256, seed=3) for n in "qkvo"}}},
    "alibi": {"query": numbers(1, 8, 512, 64), "position": {"kind": "alibi"}, "return": ["output"]},
    "rotary": {"query": numbers(1, 8, 512, 64), "position": {"kind": "rotary", "layout": "halves"}},
    "heatmap": {"query": numbers(1, 8, 512, 64), "return": [], "heatmap": {}},
    "local": {"query": numbers(1, 1, 4096, 64), "pattern": {"kind": "local", "radius": 64}, "return": ["output"]},
    "scores": {"query": numbers(300, 64), "return": ["scores", "weights"]},
    "float64": {"query": numbers(256, 32) | {"dtype": "float64"}, "return": ["output"]},
    "mask": {"query": numbers(256, 32), "attn_mask": numbers(256, 256, seed=3)},
    "dropout": {"query": numbers(1, 2, 256, 32), "dropout_p": 0.1, "seed": 1, "return": ["output", "weights_dropped"]},
    "verify": {"query": numbers(1, 2, 256, 32), "verify": 50, "return": ["output"]},
    "analysis": {"query": numbers(1, 2, 1024, 64), "return": [], "analysis": "all"},
    "stored": {"query": numbers(1, 4, 1024, 64), "return": [], "heatmap": {"max_cells": 64}, "store": True},
    "long": {"query": numbers(1, 4, 2048, 64), "return": ["logsumexp"]},
    "as text": {"query": [[((7 * i + 13 * j) % 97) / 61 for j in range(64)] for i in range(256)]},
}

OTHERS = {
    "mask": ("/v1/masks", {"shape": [1000, 1000], "masks": [{"kind": "causal"}]}),
    "sinusoidal": ("/v1/positions", {"kind": "sinusoidal", "length": 512, "width": 256}),
    "learned": ("/v1/positions", {"kind": "learned", "length": 512, "width": 256, "seed": 1}),
    "alibi": ("/v1/positions", {"kind": "alibi", "length": 128, "num_heads": 8}),
    "heatmaps": ("/v1/heatmaps", {"weights": numbers(4, 512, 512) | {"random": "uniform"}, "heatmap": {}}),
    "analyses": ("/v1/analyses", {"weights": numbers(4, 512, 512) | {"random": "uniform"}}),
}
REQUESTS = {name: ("/v1/attention", body) for name, body in VARIED.items()} | {
    f"{path} {name}": (path, body) for name, (path, body) in OTHERS.items()}


def spent(reply):
    """Milliseconds of decoding, computing and encoding."""
    parts = dict(re.findall(r"(\w+);dur=([\d.]+)", reply.headers["Server-Timing"]))
    return sum(float(parts[n]) for n in ("decode", "compute", "encode"))


def apart(daemon, path, body):
    """By which factor the quickest of some runs and its prediction differ."""
    factor, predicted, real = 99.0, [], []
    for _ in range(6):
        predicted.append(dry(daemon, body, path)["predicted_ms"])
        reply = daemon.post(path, body)
        assert reply.status_code == 200, reply.text
        real.append(spent(reply))
        factor = max(min(predicted) / min(real), min(real) / min(predicted))
        if factor < 2 and len(real) > 2:
            break
    return factor


@pytest.mark.measured
def test_predicted_times(start):
    """Within a factor of two for varied requests, by `make check-faults`; `make test`, beside what else runs on the
    machine, is content with the order of magnitude. A service whose rates were measured in a bad moment is followed by
    another one, at most three."""
    missed, bound = {}, 2 if os.environ.get("ATTND_FAULT_FULL") == "1" else 10
    for _ in range(3):
        daemon = start("--log", "off", "--ops-listen", "")
        missed = {name: f for name in missed or REQUESTS if (f := apart(daemon, *REQUESTS[name])) > bound}
        if not missed:
            return
    assert not missed
