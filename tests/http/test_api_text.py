"""Accept: text/plain: answers for a terminal."""
import re

import numpy as np
import pytest
from api_client import array, ask, attention, normal, qkv

TEXT = {"Accept": "text/plain"}
CAUSAL = {"query": [[1, 0, 0], [0, 1, 0]], "key": [[1, 2, 3], [4, 5, 6]], "value": [[0, 1, 0], [1, 0, 1]],
          "is_causal": True}


def text_of(daemon, body, path="/v1/attention"):
    reply = daemon.post(path, body, headers=TEXT)
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    return reply.content.decode()


def test_as_numpy_prints(daemon):
    answer = ask(daemon, CAUSAL)
    output, weights = (np.array_str(np.float32(answer[n])) for n in ("output", "weights"))
    assert text_of(daemon, CAUSAL) == f"output (2, 3):\n{output}\nweights (2, 2):\n{weights}\n"
    assert output.startswith("[[0.         1.         0.        ]\n [0.849674")


@pytest.mark.parametrize("item", ["output", "weights", "logsumexp", "scores", "present"])
def test_every_item(daemon, item):
    body = qkv(B=2, H=2, L=5) | {"return": item, "is_causal": True}
    answer, text = ask(daemon, body), text_of(daemon, body)
    for name, value in answer.items():
        shown = array(value).astype(np.float32)
        shown[np.isnan(shown)] = -np.inf
        assert f"{name} {shown.shape}:\n{np.array_str(shown, suppress_small=True)}\n" in text


def test_decimals(daemon):
    body = {"query": normal(3, 4), "decimals": 2, "return": "output"}
    want = np.round(attention(body)["output"], 2).astype(np.float32)
    assert text_of(daemon, body) == f"output (3, 4):\n{np.array_str(want)}\n"


def test_small_numbers_are_0_without_decimals(daemon):
    body = {"query": [[6, 0], [0, 1]], "scale": True, "return": "weights"}
    shown = np.float32(ask(daemon, body)["weights"])
    assert 0 < shown[0, 1] < 1e-8
    assert text_of(daemon, body) == f"weights (2, 2):\n{np.array_str(shown, suppress_small=True)}\n"
    assert "e-" not in text_of(daemon, body)
    rounded = np.float32([[1, 0], [0.33024, 0.66976]])
    assert text_of(daemon, body | {"decimals": 5}) == f"weights (2, 2):\n{np.array_str(rounded)}\n"


def test_a_long_tensor_is_printed_in_full(daemon):
    body = {"query": {"shape": [40, 4], "random": "normal", "seed": 1}, "return": "weights"}
    shown = np.float32(ask(daemon, body)["weights"])
    assert text_of(daemon, body) == f"weights (40, 40):\n{np.array_str(shown, suppress_small=True)}\n"
    assert "..." in text_of(daemon, body)
    with np.printoptions(threshold=2000):
        full = np.array_str(shown, suppress_small=True)
    assert text_of(daemon, body | {"full": True}) == f"weights (40, 40):\n{full}\n"
    table = daemon.post("/v1/positions", {"kind": "sinusoidal", "length": 60, "width": 20, "full": True},
                        headers=TEXT).text
    assert "..." not in table and table.startswith("table (60, 20):")


def test_what_was_left_out_and_what_was_noticed(daemon):
    text = text_of(daemon, {"query": {"shape": [300, 2], "fill": "ones"}, "key_lengths": [0]})
    assert re.search(r"omitted: weights \(90000 values\)", text)
    assert re.search(r"^warning \(hidden_rows.*\): ", text, re.M)


def test_every_tensor_that_is_left_out_is_named(daemon):
    """As text an answer names the same tensors, sizes and ways to get them as in JSON."""
    body = {"query": {"shape": [2, 200, 2], "random": "normal"}}
    loss = {"grad_output": {"shape": [2, 200, 2], "fill": "ones"}}
    for asked, names in ((body, ["weights"]), (body | loss, ["weights", "gradients.scores"])):
        said = ask(daemon, asked)["omitted"]
        assert list(said) == names
        lines = [line for line in text_of(daemon, asked).splitlines() if line.startswith("omitted")]
        assert lines == [f"omitted: {name} ({said[name]['num_values']} values); {said[name]['how']}" for name in names]
        assert all(said[name]["num_values"] == 2 * 200 * 200 and f'"{name}" in return' in said[name]["how"] for name in names)
    text = text_of(daemon, body | loss | {"return": ["gradients.scores"]})
    assert "omitted" not in text and "gradients/scores (2, 200, 200):\n" in text


def test_explain(daemon):
    text = text_of(daemon, CAUSAL | {"explain": True})
    assert re.search(r"^mask: .*causal", text, re.M) and re.search(r"^kernel: ", text, re.M)
    assert "kept: 75 % of 4 cells" in text


def test_heatmaps_are_drawn(daemon):
    body = qkv(H=2, B=1) | {"labels": {"query": ["the", "cat", "sat"], "key": list("abcde")}, "return": "heatmap"}
    text = text_of(daemon, body)
    assert "heatmap, batch 0, head 0:" in text and "heatmap, batch 0, head 1:" in text
    assert "cat" in text and "sat" in text
    assert "heatmap, batch 0, head mean:" in text_of(daemon, body | {"heatmap": {"heads": "mean"}})


def test_masks_are_drawn(daemon):
    text = text_of(daemon, {"masks": [{"kind": "causal"}], "shape": [3, 3]}, "/v1/masks")
    assert text.startswith("✓ ✗ ✗\n✓ ✓ ✗\n✓ ✓ ✓\n")
    assert "shape: [3, 3]" in text and "causal" in text and "kept: 66.67 % of 9 cells" in text


def test_masks_of_batch_entries(daemon):
    body = {"masks": [{"kind": "padding", "key_lengths": [2, 1]}], "shape": [2, 1, 1, 2]}
    text = text_of(daemon, body, "/v1/masks")
    assert "batch 0" in text and "batch 1" in text and "head" not in text


def test_a_large_mask_in_words_only(daemon):
    text = text_of(daemon, {"masks": [{"kind": "causal"}], "shape": [300, 300]}, "/v1/masks")
    assert "✓" not in text and "causal" in text
    assert text.startswith("the picture is left out: 300 x 300 cells; at most 65536 are drawn\nshape: [300, 300]")
    drawn = text_of(daemon, {"masks": [{"kind": "causal"}], "shape": [256, 256]}, "/v1/masks")
    assert "✓" in drawn and "left out" not in drawn


def test_errors_stay_json(daemon):
    reply = daemon.post("/v1/attention", {"qery": 1}, headers=TEXT)
    assert reply.status_code == 422 and reply.headers["Content-Type"] == "application/problem+json"


def test_json_wins_when_both_are_fine(daemon):
    for accept in ("*/*", "application/json, text/plain;q=0.5"):
        reply = daemon.post("/v1/attention", CAUSAL, headers={"Accept": accept})
        assert reply.headers["Content-Type"] == "application/json"
