"""POST /v1/attention: every field and every item of `return`, against the oracle."""
import base64
import json
import time

import numpy as np
import pytest
from api_client import array, ask, attention, close, like_oracle, normal, qkv, refused, tensors
from conftest import PATIENCE

CAUSAL = {"query": [[1, 0, 0], [0, 1, 0]], "key": [[1, 2, 3], [4, 5, 6]], "value": [[0, 1, 0], [1, 0, 1]],
          "is_causal": True}
ALL = ["output", "weights", "logsumexp", "scores", "present"]


def test_first_request(daemon):
    reply = daemon.post("/v1/attention", CAUSAL)
    assert reply.status_code == 200 and reply.headers["Content-Type"] == "application/json"
    answer = reply.json()
    assert list(answer) == ["output", "weights"]
    close(answer["output"], [[0, 1, 0], [0.8496745531, 0.1503254469, 0.8496745531]], 1.2e-7)
    close(answer["weights"], [[1, 0], [0.1503254469, 0.8496745531]], 1.2e-7)


def test_equal_requests_have_equal_bodies(daemon):
    body = qkv(B=2, H=3, L=7, S=9) | {"return": ALL, "explain": True, "heatmap": {}}
    first = daemon.post("/v1/attention", body).content
    assert all(daemon.post("/v1/attention", body).content == first for _ in range(3))


def test_curl_without_a_content_type_works(daemon):
    reply = daemon.post("/v1/attention", json.dumps(CAUSAL),
                        headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert reply.status_code == 200, reply.text


# --- ranks, layouts, heads ---

@pytest.mark.parametrize("shape", [
    {}, {"B": 2}, {"B": 2, "H": 3}, {"L": 1, "S": 1, "E": 1}, {"B": 1, "H": 1, "L": 17, "S": 33, "E": 5, "Ev": 7},
    {"B": 2, "H": 4, "Hkv": 2, "Ev": 3}, {"B": 2, "H": 6, "Hkv": 1},
])
def test_ranks_and_heads(daemon, shape):
    like_oracle(daemon, qkv(**shape) | {"return": ALL})


def test_more_batch_axes_in_front(daemon):
    body = {"query": normal(2, 3, 2, 4, 5), "key": normal(2, 3, 2, 6, 5, seed=1), "value": normal(2, 3, 2, 6, 5, seed=2)}
    answer = like_oracle(daemon, body)
    assert array(answer["weights"]).shape == (2, 3, 2, 4, 6)


def test_batch_axes_broadcast_from_one(daemon):
    body = qkv(B=3) | {"key": normal(1, 5, 4, seed=8), "value": normal(1, 5, 4, seed=9)}
    like_oracle(daemon, body)


def test_self_attention(daemon):
    like_oracle(daemon, {"query": normal(2, 4, 3)})


def test_no_keys_give_zeros(daemon):
    body = {"query": normal(2, 3), "key": {"shape": [0, 3], "data": []}, "value": {"shape": [0, 2], "data": []}}
    answer = ask(daemon, body)
    assert answer["output"] == [[0, 0], [0, 0]] and answer["weights"] == [[], []]


@pytest.mark.parametrize("layout", ["BHLE", "BLHE", "BLD"])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_layouts_say_the_same(daemon, layout, kv_heads):
    plain = qkv(B=2, H=4, Hkv=kv_heads, L=3, S=5, E=2)
    moved = dict(plain)
    for name in ("query", "key", "value"):
        x = np.swapaxes(np.array(plain[name]), 1, 2)
        if layout == "BLD":
            x = x.reshape(*x.shape[:2], -1)
        moved[name] = plain[name] if layout == "BHLE" else x.tolist()
    moved["layout"] = layout
    if layout == "BLD":
        moved |= {"num_heads": 4, "num_kv_heads": kv_heads}
    answer, reference = like_oracle(daemon, moved), ask(daemon, plain)
    assert answer["weights"] == reference["weights"]
    out = np.swapaxes(np.array(reference["output"]), 1, 2)
    if layout == "BLD":
        out = out.reshape(*out.shape[:2], -1)
    assert answer["output"] == (reference["output"] if layout == "BHLE" else out.tolist())


def test_enable_gqa(daemon):
    body = qkv(B=1, H=4, Hkv=2)
    assert ask(daemon, body | {"enable_gqa": True}) == ask(daemon, body)
    equal = qkv(B=1, H=2)
    assert ask(daemon, equal | {"enable_gqa": False}) == ask(daemon, equal)


# --- masks ---

KEEP = [[1, 0, 1, 1, 0], [1, 1, 0, 0, 1], [0, 0, 1, 0, 0]]
HIDE = [[1 - x for x in row] for row in KEEP]
MASKS = {
    "booleans": {"attn_mask": [[bool(x) for x in row] for row in KEEP]},
    "keep": {"attn_mask": KEEP, "mask_semantics": "keep"},
    "keep, written as reals": {"attn_mask": [[float(x) for x in row] for row in KEEP], "mask_semantics": "keep"},
    "hide": {"attn_mask": HIDE, "mask_semantics": "hide"},
    "null": {"attn_mask": [[0 if x else None for x in row] for row in KEEP], "mask_semantics": "additive"},
}


@pytest.mark.parametrize("name", MASKS)
def test_every_meaning_of_a_mask(daemon, name):
    body = qkv() | {"return": ALL}
    reference = ask(daemon, body | MASKS["booleans"])
    assert like_oracle(daemon, body | MASKS[name]) == reference
    assert (array(reference["weights"]) == 0).tolist() == [[not x for x in row] for row in KEEP]


@pytest.mark.parametrize("extra", [
    {"attn_mask": [[0.5, -1, None, 2, 0]] * 3},
    {"attn_mask": [0, 1, 1, 0, 1], "mask_semantics": "additive"},
    {"attn_mask": normal(2, 1, 1, 5, seed=5)},
    {"attn_bias": [0, 1, 0, 1, 0]},
    {"attn_bias": normal(4, 3, 5, seed=6)},
    {"attn_bias": [[0, None, 1, 2, None]] * 3, "is_causal": True, "query_offset": 2},
    {"key_padding_mask": [[True, True, False, False, False], [True] * 5], "key_padding_semantics": "keep"},
    {"key_padding_mask": [[True, True, False, False, False], [False] * 5], "key_padding_semantics": "hide"},
    {"key_padding_mask": [1, 1, 1, 0, 0], "key_padding_semantics": "keep"},
    {"key_padding_mask": [[0, 0, 1, 1, 1], [0, 0, 0, 0, 1]], "key_padding_semantics": "hide"},
    {"key_lengths": [2, 5]},
    {"key_lengths": [3, 4], "is_causal": True, "query_offset": "end"},
    {"token_ids": [[5, 6, 0, 0, 0], [5, 6, 7, 8, 0]], "pad_id": 0},
    {"token_ids": [7, 8, -1, 9, -1], "pad_id": -1},
    {"is_causal": True},
    {"is_causal": True, "query_offset": 2},
    {"is_causal": True, "query_offset": "end"},
    {"is_causal": True, "query_offset": [0, 2]},
    {"is_causal": True, "query_offset": -1},
    {"window": [1, 0]},
    {"window": [-1, 1]},
    {"window": [0, -1], "query_offset": 1},
    {"window": [-1, -1]},
    {"window": [1, 1], "is_causal": True, "key_lengths": [5, 2], "attn_bias": normal(3, 5, seed=7)},
])
def test_masks_against_the_oracle(daemon, extra):
    like_oracle(daemon, qkv(B=2, H=4, Hkv=2) | extra | {"return": ALL})


@pytest.mark.parametrize("mode", ["add", "replace"])
@pytest.mark.parametrize("value", [-1e9, -10000.0, -3.5])
def test_mask_fill(daemon, mode, value):
    body = qkv(B=1) | {"is_causal": True, "query_offset": -1, "mask_fill": {"value": value, "mode": mode},
                       "return": ALL}
    answer = like_oracle(daemon, body)
    assert all(x is not None for x in answer["scores"][0][0])
    assert "warnings" not in answer or all(w["code"] != "hidden_rows" for w in answer["warnings"])


@pytest.mark.parametrize("value", [-1e9, -3, -0.5, 2, 0])
def test_mask_fill_as_a_number(daemon, value):
    """scores + (1 - mask) * value, which is also what an object without a mode means."""
    mask = np.array([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]])
    body = qkv() | {"attn_mask": mask.tolist(), "mask_semantics": "keep", "return": ALL}
    got = like_oracle(daemon, body | {"mask_fill": value})
    for fill in ({"value": value}, {"value": value, "mode": "add"}):
        assert ask(daemon, body | {"mask_fill": fill}) == got
    q, k = np.array(body["query"]), np.array(body["key"])
    scores = (q @ k.T / 2 + (1 - mask) * value).astype(np.float32).astype(float)
    want = np.exp(scores - scores.max(-1, keepdims=True))
    close(got["weights"], want / want.sum(-1, keepdims=True), 1e-5)


def test_mask_fill_with_the_other_readings(daemon):
    body = qkv(L=2, S=2) | {"attn_mask": [[0, 1], [1, 1]], "return": ["weights", "scores"]}
    hide = ask(daemon, body | {"mask_semantics": "hide", "mask_fill": -1e9})
    assert hide["scores"][1] == [-1e9, -1e9] and hide["weights"] == [[1, 0], [0.5, 0.5]]
    kept = body | {"attn_mask": [[1, 0], [0, 0]]}
    assert ask(daemon, kept | {"mask_semantics": "keep", "mask_fill": -1e9}) == hide
    assert ask(daemon, kept | {"mask_semantics": "nonzero", "mask_fill": -1e9}) == hide


def test_hidden_rows_are_zeros_and_a_warning(daemon):
    body = qkv() | {"attn_mask": [[False] * 5, [True] * 5, [False] * 5], "return": ALL}
    answer = like_oracle(daemon, body)
    assert answer["output"][0] == [0, 0, 0, 0] and answer["weights"][2] == [0] * 5
    assert answer["logsumexp"][0] is None and answer["scores"][0] == [None] * 5
    warning = [w for w in answer["warnings"] if w["code"] == "hidden_rows"]
    assert len(warning) == 1 and warning[0].keys() == {"code", "pointer", "detail"}
    assert "0" in warning[0]["detail"] and "2" in warning[0]["detail"]


def test_the_list_of_hidden_rows_is_bounded(daemon):
    body = {"query": {"shape": [5000, 2], "fill": "ones"}, "key_lengths": [0], "return": "output"}
    text = [w["detail"] for w in ask(daemon, body)["warnings"] if w["code"] == "hidden_rows"]
    assert len(text) == 1 and len(text[0]) < 1000


def test_a_rank_two_mask_that_may_be_padding_is_a_warning(daemon):
    body = qkv(B=3, L=3) | {"attn_mask": [[True, True, True, False, False]] * 3}
    codes = [w["code"] for w in ask(daemon, body)["warnings"]]
    assert "mask_rank" in codes


def test_what_is_hidden_cannot_leak(daemon):
    body = qkv() | {"key_lengths": [3]}
    clean = ask(daemon, body)
    for name in ("key", "value"):
        x = np.array(body[name], np.float32)
        x[3:] = [[np.nan], [np.inf]]
        poisoned = body | {name: {"shape": list(x.shape), "base64": base64.b64encode(x.tobytes()).decode()}}
        assert ask(daemon, poisoned) == clean


# --- scores, scale, softcap ---

@pytest.mark.parametrize("scale", [0.25, -1, 0, 2.5, False])
def test_scale(daemon, scale):
    answer = like_oracle(daemon, qkv() | {"scale": scale})
    if scale is False:
        assert answer == ask(daemon, qkv() | {"scale": 1})


@pytest.mark.parametrize("softcap", [0, 0.5, 30])
def test_softcap(daemon, softcap):
    like_oracle(daemon, qkv() | {"softcap": softcap})


@pytest.mark.parametrize("stage", ["raw", "scaled", "softcapped", "biased", "probs"])
def test_score_stages(daemon, stage):
    body = qkv(B=1, H=2) | {"return": ["scores"], "score_stage": stage, "scale": 0.3, "softcap": 2,
                            "attn_bias": normal(3, 5, seed=4), "is_causal": True,
                            "query_offset": "end"}
    answer = ask(daemon, body)
    assert list(answer) == ["scores"]
    close(answer["scores"], attention(body)[stage])


def test_the_default_stage_is_what_softmax_sees(daemon):
    body = qkv() | {"is_causal": True, "return": "scores"}
    assert ask(daemon, body) == ask(daemon, body | {"score_stage": "biased"})


# --- cache ---

@pytest.mark.parametrize("layout", ["BHLE", "BLD"])
def test_a_cache_grows(daemon, layout):
    whole = qkv(B=1, H=2, L=4, S=4, E=2)
    split = {n: np.array(whole[n])[:, :, 3:] for n in ("query", "key", "value")}
    if layout == "BLD":
        split = {n: np.swapaxes(x, 1, 2).reshape(1, 1, 4) for n, x in split.items()}
    step = {n: x.tolist() for n, x in split.items()} | {
        "past_key": np.array(whole["key"])[:, :, :3].tolist(),
        "past_value": np.array(whole["value"])[:, :, :3].tolist(),
        "is_causal": True, "return": ["output", "weights", "present"], "layout": layout}
    if layout == "BLD":
        step["num_heads"] = 2
    answer = like_oracle(daemon, step)
    assert list(answer) == ["output", "weights", "present_key", "present_value"]
    for name in ("key", "value"):
        assert np.array_equal(np.float32(answer[f"present_{name}"]), np.float32(whole[name]))
    reference = ask(daemon, whole | {"is_causal": True})
    assert [w[0] for w in answer["weights"][0]] == [w[3] for w in reference["weights"][0]]


# --- what comes back ---

def test_return_says_what_comes_back_and_the_order_is_fixed(daemon):
    answer = ask(daemon, qkv() | {"return": ["heatmap", "present", "scores", "logsumexp", "weights", "output"],
                                  "explain": True})
    assert list(answer) == ["output", "weights", "logsumexp", "scores", "present_key", "present_value",
                            "heatmap", "diagnostics"]
    for item in ("output", "weights", "logsumexp", "scores"):
        assert list(ask(daemon, qkv() | {"return": [item]})) == [item]
        assert list(ask(daemon, qkv() | {"return": item})) == [item]
    assert list(ask(daemon, qkv() | {"return": "heatmap"})) == ["heatmap"]


def test_null_counts_as_absent(daemon):
    assert ask(daemon, qkv() | {"return": None, "attn_mask": None, "heatmap": None, "scale": None}) == ask(daemon, qkv())


def test_large_weights_come_only_when_named(daemon):
    body = {"query": {"shape": [1, 257, 2], "random": "normal", "seed": 1}}
    answer = ask(daemon, body)
    assert list(answer) == ["output", "omitted"]
    assert answer["omitted"]["weights"]["num_values"] == 257 * 257
    assert "return" in answer["omitted"]["weights"]["how"]
    assert "weights" in ask(daemon, body | {"query": {"shape": [1, 256, 2], "random": "normal", "seed": 1}})
    named = ask(daemon, body | {"return": ["weights"]})
    assert list(named) == ["weights"] and array(named["weights"]).shape == (1, 257, 257)


@pytest.mark.parametrize("decimals", [0, 3, 7])
def test_decimals(daemon, decimals):
    body = qkv(B=2, H=2) | {"return": ["output", "weights", "logsumexp", "heatmap"]}
    exact, rounded = ask(daemon, body), ask(daemon, body | {"decimals": decimals})
    for name in ("output", "weights", "logsumexp"):
        assert np.abs(array(exact[name]) - array(rounded[name])).max() <= 0.5 * 10.0**-decimals + 3e-7
        assert np.array_equal(array(rounded[name]), np.round(array(rounded[name]), decimals))
    cells = array(rounded["heatmap"]["heads"][0]["max"])
    assert np.array_equal(cells, np.round(cells, decimals))


def test_numbers_read_back_to_the_same_float32(daemon):
    text = daemon.post("/v1/attention", qkv(B=2, H=2, L=9, S=9)).text
    for value in np.array(json.loads(text)["output"]).reshape(-1):
        assert float(repr(float(np.float32(value)))) == float(np.float32(value))
    assert ".0," not in text and "e-0" not in text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_element_types(daemon, dtype):
    body = {n: tensors.write(np.array(x), dtype) for n, x in qkv(B=2, H=2).items()}
    like_oracle(daemon, body, 1e-14 if dtype == "float64" else 1e-6)


def test_literals(daemon):
    like_oracle(daemon, {"query": {"shape": [2, 3, 4], "random": "normal", "seed": 7},
                         "key": {"shape": [2, 5, 4], "random": "uniform", "seed": 9},
                         "value": {"shape": [2, 5, 5], "fill": "eye"}})
    like_oracle(daemon, {"query": {"shape": [3, 4], "fill": "ones"}, "key": {"shape": [5, 4], "fill": "arange"},
                         "value": {"shape": [5, 2], "fill": "arange"}})


def test_nonfinite_goes_through_when_allowed(daemon):
    x = np.array([[1, np.nan], [2, 3]], np.float32)
    body = {"query": {"shape": [2, 2], "base64": base64.b64encode(x.tobytes()).decode()},
            "key": [[1, 2], [3, 4]], "value": [[1, 2], [3, 4]], "allow_nonfinite": True}
    answer = ask(daemon, body)
    assert answer["output"][0] == [None, None] and answer["weights"][0] == [None, None]
    assert None not in answer["output"][1]


def test_explain(daemon):
    body = qkv(B=2, H=4, Hkv=2, L=3, S=5, E=64, Ev=80) | {
        "is_causal": True, "query_offset": [0, 2], "softcap": 5, "explain": True}
    d = ask(daemon, body)["diagnostics"]
    assert d["dims"] == {"B": 2, "Hq": 4, "Hkv": 2, "L": 3, "S": 5, "P": 0, "E": 64, "Ev": 80}
    assert d["offsets"] == [0, 2] and d["scale"] == 0.125 and d["softcap"] == 5
    kernels = ("avx512", "amx") if daemon.kernels == "amx" else daemon.kernels  # three queries fill no tile
    assert d["kernel"].startswith(kernels) and d["dtype"] == "float32"
    assert d["num_cells"] == 2 * 4 * 3 * 5 and d["num_operations"] > 0
    assert d["kept"] == pytest.approx(float(attention(body)["visible"].mean()), abs=1e-12)
    assert "causal" in d["mask"]
    assert d["bytes"]["result"] >= 4 * (2 * 4 * 3 * 80 + 2 * 4 * 3 * 5)
    plain = ask(daemon, qkv() | {"explain": True, "scale": 3})["diagnostics"]
    assert plain["offsets"] == [0] and plain["kept"] == 1 and plain["scale"] == 3


def test_small_operations_are_rounded_once(start):
    """Up to 8,192 multiply-adds, the results are those of a calculation in double, rounded to float32."""
    def results(daemon, L, **fields):
        body = {"query": normal(L, 8, seed=1), "key": normal(L, 8, seed=2), "value": normal(L, 8, seed=3)}
        return body, ask(daemon, body | {"explain": True, "is_causal": True} | fields)
    daemon = start()
    body, small = results(daemon, 22)
    q, k, v = (np.array(np.array(body[name], np.float32), np.float64) for name in ("query", "key", "value"))
    scores = np.where(np.tri(22, dtype=bool), q @ k.T / np.sqrt(8), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert small["diagnostics"]["kernel"] == "ref"
    assert np.array_equal(array(small["weights"]).astype(np.float32), weights.astype(np.float32))
    assert np.array_equal(array(small["output"]).astype(np.float32), (weights @ v).astype(np.float32))
    assert results(daemon, 23)[1]["diagnostics"]["kernel"] != "ref" or daemon.kernels == "ref"
    assert results(daemon, 22, precision="fast")[1]["diagnostics"]["kernel"] != "ref" or daemon.kernels == "ref"
    assert results(daemon, 22, projections={"num_heads": 2})[1]["diagnostics"]["kernel"] == "ref"
    named = start("--isa", daemon.kernels)
    assert results(named, 22)[1]["diagnostics"]["kernel"] in (daemon.kernels, "avx512")


def test_explain_does_not_depend_on_the_workers(start):
    body = qkv(B=2, H=4, L=40, S=50) | {"explain": True, "heatmap": {}}
    one, two = (start("--workers", str(n), "--ops-listen", "").post("/v1/attention", body).content for n in (1, 2))
    assert one == two


def test_explain_alone(daemon):
    assert list(ask(daemon, qkv() | {"return": [], "explain": True})) == ["diagnostics"]


# --- place and time ---

def test_small_and_large_requests_agree(daemon):
    """The same head alone (on the HTTP thread) and among many (on a worker): the same bytes."""
    many = {"query": {"shape": [1, 8, 256, 64], "random": "normal", "seed": 3}, "return": "output"}
    x = tensors.read(many["query"])
    answer = ask(daemon, many)
    one = {"query": tensors.write(x[:, 5:6]), "return": "output"}
    assert ask(daemon, one)["output"][0][0] == answer["output"][0][5]


def test_timings_in_the_headers(daemon):
    timing = daemon.post("/v1/attention", CAUSAL).headers["Server-Timing"]
    assert all(part in timing for part in ("queue", "decode", "compute", "encode"))


def test_timeout(daemon):
    body = {"query": {"shape": [1, 8, 8192, 64], "random": "normal", "seed": 1}, "return": "output", "timeout_ms": 1}
    reply = daemon.post("/v1/attention", body)
    assert (reply.status_code, reply.json()["code"]) == (504, "deadline_exceeded")
    assert ask(daemon, CAUSAL | {"timeout_ms": 60000}) == ask(daemon, CAUSAL)


def numbers(*shape):
    return {"shape": list(shape), "random": "normal", "seed": 1}


FAR = {"query": numbers(2048, 4096), "scale": 1e30}  # rows that are computed in double


@pytest.mark.parametrize("path, accept, body", [
    ("/v1/attention", "*/*", {"query": numbers(100000, 1), "pattern": {"kind": "global", "num_keys": 1, "local": 1},
                              "return": ["output"], "explain": True}),
    ("/v1/attention", "*/*", FAR | {"return": ["output"]}), ("/v1/attention", "*/*", FAR | {"return": [], "heatmap": {}}),
    ("/v1/attention", "*/*", FAR | {"return": ["gradients"], "grad_output": numbers(2048, 4096)}),
    ("/v1/masks", "text/plain", {"shape": [100000, 100000], "masks": [
        {"kind": "pattern", "pattern": {"kind": "strided", "stride": 2, "local": 0}}]}),
    ("/v1/analyses", "*/*", {"weights": {"shape": [400, 1, 1, 512, 512], "random": "uniform", "seed": 1},
                             "analysis": ["rollout"]}),
], ids=["explain", "double", "double heatmap", "double gradients", "masks", "rollout"])
def test_deadlines_are_heard_in_the_middle(daemon, path, accept, body):
    """Each takes 4 to 20 seconds on a fast machine."""
    began = time.monotonic()
    reply = daemon.post(path, body | {"timeout_ms": 500}, headers={"Accept": accept})
    assert reply.status_code == 504 and time.monotonic() - began < 1 + PATIENCE / 30, reply.text[:300]


def test_precision(daemon):
    """bf16 rounds the inputs and nothing that is answered; fast stays within 2e-5 of the value range."""
    body = qkv(L=40, S=50, E=24, H=2) | {"return": ["output", "weights", "scores"], "score_stage": "raw"}
    exact = ask(daemon, body)
    fast, bf16 = (ask(daemon, body | {"precision": p, "explain": True}) for p in ("fast", "bf16"))
    assert [x["diagnostics"]["precision"] for x in (fast, bf16)] == ["fast", "bf16"]
    output, raw = np.array(exact["output"]), np.array(exact["scores"])
    assert np.abs(np.array(fast["output"]) - output).max() < 2e-5 * np.abs(output).max() * 4
    q, k = (tensors.from_bfloat16(tensors.to_bfloat16(np.array(body[name], np.float32))).astype(np.float64)
            for name in ("query", "key"))
    assert np.abs(np.array(bf16["scores"]) - q @ np.swapaxes(k, -1, -2)).max() < 1e-5
    assert 1e-4 < np.abs(np.array(bf16["scores"]) - raw).max() < 0.1
    assert np.abs(np.array(bf16["weights"]).sum(-1) - 1).max() < 1e-6
    plain = ask(daemon, body | {"explain": True})["diagnostics"]
    assert plain["precision"] == "fp32"


def test_precision_is_not_for_doubles(daemon):
    body = {"query": {"shape": [1, 1], "dtype": "float64", "data": [1]}, "precision": "bf16"}
    refused(daemon, body, "invalid_value", "/precision", "float64")


@pytest.mark.parametrize("L", [0, 1, 8, 16, 17, 100])
@pytest.mark.parametrize("kv_heads", [0, 2])
def test_no_heads(daemon, L, kv_heads):
    """Of no query head there is nothing to compute, whatever path would have taken it."""
    key = {"shape": [1, kv_heads, 3, 4], "fill": "ones"}
    body = {"query": {"shape": [1, 0, L, 4], "data": []}, "key": key, "value": key,
            "return": ["output", "weights", "logsumexp", "gradients"],
            "grad_output": {"shape": [1, 0, L, 4], "data": []}, "heatmap": {}, "analysis": ["entropy"]}
    answer = ask(daemon, body)
    assert (answer["output"], answer["weights"], answer["logsumexp"]) == ([[]], [[]], [[]])
    assert answer["gradients"]["key"] == [[[[0] * 4] * 3] * kv_heads]
    assert ask(daemon, {**body, "dry_run": True})["dry_run"]["num_cells"] == 0


def test_projected_outputs_beyond_float32(daemon):
    one = [[1, 0], [0, 1]]
    body = {"query": [[1, 1]],
            "projections": {"num_heads": 1, "w_q": one, "w_k": one, "w_v": [[1, 0], [0, 3e38]], "w_o": [[10, 10]]}}
    refused(daemon, body, "nonfinite_value", "/projections/w_o")
    assert ask(daemon, {**body, "allow_nonfinite": True})["output"] == [[None]]


@pytest.mark.parametrize("column", [1, 15])
def test_the_state_of_a_decoder_is_named_as_it_was_sent(daemon, column):
    """It has no axis of queries, and of a projected input the column is not told."""
    states = np.ones((3, 16), np.float32)
    states[2, column] = np.nan
    query = {"shape": [3, 16], "base64": base64.b64encode(states.tobytes()).decode()}
    body = {"query": query, "key": {"shape": [3, 5, 16], "random": "normal"}, "score": "dot"}
    refused(daemon, body, "nonfinite_value", f"/query/2/{column}")
    refused(daemon, body | {"projections": {"num_heads": 2, "seed": 4}}, "nonfinite_value", "/query/2")


def base64_of(*numbers):
    return base64.b64encode(np.array(numbers, np.float32).tobytes()).decode()


HIDDEN = {"shape": [2, 1], "base64": base64_of(1, np.nan)}


def test_hidden_cells_under_a_softcap_have_no_gradient(daemon):
    """The second query sees nothing, the second key is seen by nobody."""
    answer = ask(daemon, {"query": HIDDEN, "key": HIDDEN, "value": [[1], [2]], "attn_mask": [[True, False], [False, False]],
                          "softcap": 3, "grad_output": [[1], [1]], "return": ["gradients"]})
    gradients = answer["gradients"]
    assert gradients["query"] == gradients["key"] == [[0], [0]]
    assert np.allclose(gradients["value"], [[1], [0]], atol=1e-6)


@pytest.mark.parametrize("mode", ["add", "replace"])
def test_infinity_hides_under_a_fill_too(daemon, mode):
    body = {"query": [[1], [2]], "value": [[1], [2]], "attn_bias": [[0, None], [0, None]],
            "mask_fill": {"value": -5, "mode": mode}, "return": ["weights"]}
    for key in (HIDDEN, [[1], [3]]):
        assert ask(daemon, body | {"key": key}) == {"weights": [[1, 0], [1, 0]]}
    leaks = ask(daemon, body | {"key": [[1], [3]], "attn_mask": [[False, True], [True, True]]})
    assert [w["code"] for w in leaks["warnings"]] == ["fill_leaks"]
    filled = ask(daemon, body | {"key": [[1], [3]], "attn_mask": [[True, False], [True, True]]})["weights"][0]
    assert filled == ([1, 0] if mode == "add" else pytest.approx([1 / (1 + np.exp(-6)), 1 / (1 + np.exp(6))], rel=1e-5))


def test_a_deadline_says_whose_it_was(start):
    body = {"query": numbers(8192, 64), "return": ["output"]}
    own = start("--request-timeout-ms", "60000").post("/v1/attention", body | {"timeout_ms": 1}).json()
    assert own["code"] == "deadline_exceeded" and own["pointer"] == "/timeout_ms" and "limit" not in own
    ours = start("--request-timeout-ms", "1").post("/v1/attention", body).json()
    assert ours["limit"] == {"value": 1, "setting": "request_timeout_ms"} and "pointer" not in ours


def test_fields_in_the_query_string(daemon):
    problem = daemon.post("/v1/attention?precision=bf16", {"query": [[1]]})
    assert problem.status_code == 422 and problem.json()["pointer"] == "/precision"
    assert "in its body" in problem.json()["detail"]
