"""POST /v1/heatmaps: the weights that a caller has, drawn like those of attention, and what is odd about them."""
import base64

import numpy as np
import pytest
from api_client import array, ask, close, normal, qkv, refused
from test_api_index import document, schema  # noqa: F401, a fixture

PATH = "/v1/heatmaps"
TEXT = {"Accept": "text/plain"}


def softmax(*shape, seed=0):
    """Weights that are exact in float32."""
    x = np.exp(2 * np.array(normal(*shape, seed=seed)))
    return (x / x.sum(-1, keepdims=True)).astype(np.float32).astype(float).tolist()


def drawn(daemon, weights, **fields):
    return ask(daemon, {"weights": weights} | fields, PATH)


# --- heatmaps ---

def test_layers_of_length_0_have_batch_entries(daemon):
    """[0, 3, 1, 2, 2]: each layer has three batch entries, with names, lengths and ids of their own."""
    weights, names = {"shape": [0, 3, 1, 2, 2], "data": []}, [{"query": ["a", "b"]}] * 3
    assert drawn(daemon, weights, labels=names)["heads"] == []
    more = {"key_lengths": [1, 2, 2], "query_offset": [0, 1, 2], "ids": {"key": [[1, 2]] * 3}}
    assert ask(daemon, {"weights": weights, "labels": names} | more, "/v1/analyses")["heads"] == []


@pytest.mark.parametrize("options", [
    {}, {"max_cells": 30}, {"max_cells": 40, "pool": "both"}, {"heads": [1]}, {"heads": "mean"}, {"batch": [1]},
    {"rows": [2, 9], "cols": [1, 5], "pool": "mean"}, {"encoding": "u8", "transform": "sqrt"}, {"encoding": "f16"},
    {"top_k": 2}, {"top_p": 0.8},
], ids=str)
def test_the_same_as_of_attention(daemon, document, options):  # noqa: F811
    """Weights that attention answered give its heatmaps again."""
    answer = ask(daemon, qkv(2, 3, 11, 14, 4) | {"return": ["weights", "heatmap"], "heatmap": options})
    body = {"weights": answer["weights"], "heatmap": options}
    schema(document, "HeatmapsRequest").validate(body)
    again = ask(daemon, body, PATH)
    schema(document, "Heatmaps").validate(again)
    for one, other in zip(again["heads"], answer["heatmap"]["heads"], strict=True):
        close(one.pop("row_entropy"), array(other.pop("row_entropy")), 1e-5)  # from weights, not from logits
        assert one == other
    assert again | {"heads": 0} == answer["heatmap"] | {"heads": 0}


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5), (2, 3, 4, 5), (2, 2, 3, 4, 5)])
def test_ranks(daemon, shape):
    weights = softmax(*shape)
    heads = drawn(daemon, weights)["heads"]
    flat = np.array(weights).reshape(-1, 4, 5)
    assert len(heads) == len(flat)
    H = shape[-3] if len(shape) > 2 else 1
    for n, head in enumerate(heads):
        layers = shape[0] if len(shape) > 4 else None
        batch, h = divmod(n, H)
        if layers is not None:  # the first axis of five
            assert head["layer"] == batch // (len(flat) // layers // H)
            batch %= len(flat) // layers // H
        assert (head["batch"], head["head"], "layer" in head) == (batch, h, layers is not None)
        close(head["max"], flat[n])
        close(head["received"], flat[n].sum(0))


def test_dtypes(daemon):
    weights = np.array(softmax(6, 7))
    for dtype, bound in (("float16", 1e-3), ("float64", 1e-7)):
        raw = base64.b64encode(weights.astype(dtype).tobytes()).decode()
        close(drawn(daemon, {"shape": [6, 7], "dtype": dtype, "base64": raw})["heads"][0]["max"], weights, bound)


def test_labels_and_decimals(daemon):
    labels = {"query": ["a", "b"], "key": ["x", "y"]}
    answer = drawn(daemon, [[0.123456, 0.876544], [1, 0]], labels=labels, decimals=2)
    assert answer["labels"] == labels and answer["heads"][0]["max"] == [[0.12, 0.88], [1, 0]]


# --- warnings ---

def warned(answer):
    return [(w["code"], w["pointer"]) for w in answer.get("warnings", [])]


def test_fine_weights_are_not_warned_about(daemon):
    assert warned(drawn(daemon, softmax(2, 3, 4, 5))) == []
    assert warned(drawn(daemon, [[0.33, 0.33, 0.33], [0, 0, 0]])) == []  # rounded; a row that sees nothing


def test_rows_that_do_not_sum_to_one(daemon):
    answer = drawn(daemon, [[[0.5, 0.5], [0.5, 0.6]], [[0.2, 0.2], [0.9, 0.9]]])
    assert warned(answer) == [("row_sums", "/weights")] * 2
    assert "head 0: 1 row of 2 does not sum to 1; row 1 sums to 1.1" in answer["warnings"][0]["detail"]
    assert "head 1: 2 rows of 2 do not sum to 1; row 1 sums to 1.8" in answer["warnings"][1]["detail"]


def test_weights_that_are_none(daemon):
    answer = drawn(daemon, [[1.5, -0.5], [2, -1]])
    assert warned(answer) == [("weight_range", "/weights")]
    assert "4 weights are negative or above 1, such as 2 at [1, 0]" in answer["warnings"][0]["detail"]


LABELS = {"query": ["the", "cat", "<pad>"], "key": ["the", "cat", "[PAD]"]}


def test_weight_on_padding(daemon):
    fine, bad = [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]], [[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0, 0, 1]]
    answer = drawn(daemon, [fine, bad], labels=LABELS)
    assert warned(answer) == [("padding_mass", "/labels/key")]
    text = answer["warnings"][0]["detail"]
    assert "head 1: 15 %" in text and '(0.2) from query 0 to key 2, "[PAD]"' in text
    assert warned(drawn(daemon, fine, labels=LABELS)) == []
    assert warned(drawn(daemon, bad)) == []


def test_many_heads_are_counted(daemon):
    answer = drawn(daemon, [[[0.5, 0.2]]] * 12)
    assert warned(answer) == [("row_sums", "/weights")] * 9
    assert answer["warnings"][8]["detail"] == "so it is in 4 more heads"


# --- text ---

def test_titles_are_answered(daemon):
    body = {"weights": np.full((2, 3, 1, 2), 0.5).tolist(), "titles": ["First", "Second", "Third \"ü\""]}
    heads = ask(daemon, body, "/v1/heatmaps")["heads"]
    assert [(h["batch"], h["head"], h["title"]) for h in heads] == [(b, i, body["titles"][i]) for b in range(2) for i in range(3)]
    assert [h["title"] for h in ask(daemon, body | {"heatmap": {"heads": [2]}}, "/v1/heatmaps")["heads"]] == body["titles"][2:] * 2
    mean = ask(daemon, body | {"heatmap": {"heads": "mean"}}, "/v1/heatmaps")["heads"]
    assert [h["head"] for h in mean] == ["mean"] * 2 and not any("title" in h for h in mean)
    del body["titles"]
    assert not any("title" in h for h in ask(daemon, body, "/v1/heatmaps")["heads"])


def test_text_has_titles(daemon):
    body = {"weights": [[[1, 0]], [[0, 1]], [[0.5, 0.6]]], "titles": ["First", "Second", "Third"],
            "figure": {"title": "All of them", "x_label": "keys", "y_label": "queries"}, "labels": {"key": ["k", "l"]}}
    text = daemon.post(PATH, body, headers=TEXT).text
    assert text.startswith("All of them\n\nheatmap, batch 0, head 0: First\n")
    assert "head 1: Second\n" in text and "head 2: Third\n" in text and "rows: queries, columns: keys\n" in text
    assert "warning (row_sums, /weights): batch entry 0, head 2" in text
    chosen = daemon.post(PATH, body | {"heatmap": {"heads": [2]}}, headers=TEXT).text
    assert "Third" in chosen and "Second" not in chosen
    assert "head mean:\n" in daemon.post(PATH, body | {"heatmap": {"heads": "mean"}}, headers=TEXT).text


# --- what is refused ---

NAN = base64.b64encode(np.array([[0.5, 0.5], [1, np.nan]], np.float32).tobytes()).decode()


@pytest.mark.parametrize("body, code, pointer, words", [
    ({}, "invalid_value", "", ["weights"]),
    ({"weights": [0.5, 0.5]}, "shape_mismatch", "/weights", ["rank 1"]),
    ({"weights": [[0.5, 0.5], [1]]}, "shape_mismatch", "/weights/1", []),
    ({"weights": [[0.5, None]]}, "wrong_type", "/weights/0/1", []),
    ({"weights": {"shape": [2, 2], "base64": NAN}}, "nonfinite_value", "/weights/1/1", []),
    ({"weights": [[1]], "labels": {"key": ["a", "b"]}}, "shape_mismatch", "/labels/key", ["1"]),
    ({"weights": [[1]], "titles": ["a", "b"]}, "shape_mismatch", "/titles", ["1 title", "found 2"]),
    ({"weights": [[1]], "heatmap": {"heads": [1]}}, "invalid_value", "/heatmap/heads/0", []),
    ({"weights": [[1]], "heatmap": {"rows": [0, 2]}}, "invalid_value", "/heatmap/rows", []),
    ({"weights": [[1]], "figure": {"titel": "x"}}, "unknown_field", "/figure/titel", ["title"]),
    ({"weights": [[1]], "query": [[1]]}, "unknown_field", "/query", []),
])
def test_refused(daemon, body, code, pointer, words):
    refused(daemon, body, code, pointer, *words, path=PATH)


def test_limits(start):
    daemon = start("--max-cells", "100")
    assert refused(daemon, {"weights": {"shape": [11, 10], "fill": "zeros"}}, "too_large", "/weights", path=PATH,
                   status=413)["limit"]["setting"] == "max_cells"
    assert drawn(daemon, {"shape": [10, 10], "fill": "eye"})["heads"][0]["shape"] == [10, 10]


def test_large_weights_stay_a_small_answer(daemon):
    reply = daemon.post(PATH, {"weights": {"shape": [1500, 1500], "random": "uniform", "seed": 1}})
    assert reply.status_code == 200 and len(reply.content) < 1 << 20
