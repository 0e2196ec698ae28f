"""The field `labels`: one object, one list for self-attention, or names for each batch entry."""
import csv
import io

import numpy as np
import pytest
from api_client import ask, normal, refused
from picture import Picture

HEATMAPS, MASKS, ANALYSES = "/v1/heatmaps", "/v1/masks", "/v1/analyses"
ONE, OTHER = ["the", "cat", "sat", "."], ["a", "dog", "ran", "<pad>"]
BOTH = [{"query": words, "key": words} for words in (ONE, OTHER)]
TEXT, SVG, CSV = ({"Accept": t} for t in ("text/plain", "image/svg+xml", "text/csv"))


def weights(*lead, seed=3):
    w = np.exp(np.array(normal(*lead, 4, 4, seed=seed)))
    return (w / w.sum(-1, keepdims=True)).tolist()


def batch(**more):
    return {"query": normal(2, 4, 8, seed=1), "labels": BOTH, **more}


def alone(entry, body):
    """The same request for one batch entry with its own words."""
    return body | {"query": [body["query"][entry]], "labels": BOTH[entry]}


# --- one list for self-attention ---

@pytest.mark.parametrize("path, body", [
    ("/v1/attention", {"query": normal(4, 8), "heatmap": {}, "analysis": ["all"]}), (HEATMAPS, {"weights": weights()}),
    (ANALYSES, {"weights": weights(), "heatmap": {}}), (MASKS, {"masks": [{"kind": "causal"}], "shape": [4, 4]})])
@pytest.mark.parametrize("accept", [None, TEXT, SVG])
def test_one_list_names_both_axes(daemon, path, body, accept):
    answers = {daemon.post(path, body | {"labels": labels}, headers=accept).content for labels in (ONE, BOTH[0])}
    assert len(answers) == 1 and b"cat" in answers.pop() or accept == TEXT and path == MASKS


def test_one_list_is_for_all_entries(daemon):
    body = batch(heatmap={}) | {"labels": ONE}
    answer = ask(daemon, body)
    assert answer == ask(daemon, body | {"labels": BOTH[0]}) and answer["heatmap"]["labels"] == BOTH[0]


# --- names of each entry ---

def test_heatmaps_repeat_the_names_of_each_entry(daemon):
    assert ask(daemon, batch(heatmap={}))["heatmap"]["labels"] == BOTH
    assert ask(daemon, batch(heatmap={}) | {"labels": [ONE, OTHER]})["heatmap"]["labels"] == BOTH
    assert ask(daemon, {"weights": weights(2, 1), "labels": [ONE, BOTH[1]]}, HEATMAPS)["labels"] == BOTH
    single = {"weights": weights(), "labels": [ONE]}
    assert ask(daemon, single, HEATMAPS) == ask(daemon, single | {"labels": BOTH[0]}, HEATMAPS)
    mask = {"masks": [{"kind": "padding", "key_lengths": [4, 3]}], "shape": [2, 4, 4], "labels": BOTH}
    assert ask(daemon, mask, MASKS)["labels"] == BOTH


def test_text_uses_the_names_of_each_entry(daemon):
    text = daemon.post("/v1/attention", batch(heatmap={}), headers=TEXT).text
    first, second = text.split("heatmap, batch 1")
    assert "cat" in first and "dog" not in first.split("heatmap, batch 0")[1] and "dog" in second and "cat" not in second


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("columns, size", [(1, {}), (2, {}), (2, {"width": 900, "height": 500})])
def test_pictures_name_each_panel(daemon, columns, size, over):
    keys = [["w", "x", "y", "z" * 12], ["p", "q", "r", "s"]]
    labels = [{"query": words, "key": names} for words, names in zip((ONE, OTHER), keys)]
    body = {"weights": weights(2, 2), "labels": labels, "figure": {"columns": columns, "transpose": over, **size}}
    page = Picture(daemon.post(HEATMAPS, body, headers=SVG).content, (4, 4), sized=bool(size))
    assert [p.title.says for p in page.panels] == ["batch 0, head 0", "batch 0, head 1", "batch 1, head 0", "batch 1, head 1"]
    for i, panel in enumerate(page.panels):
        names = labels[i // 2]["key"], labels[i // 2]["query"]
        rows, cols = names if over else names[::-1]
        assert [t.says for t in panel.rows] == rows and [t.says for t in panel.columns] == cols
        x, y, w, h = panel.box
        assert all(x - 160 < t.x < x for t in panel.rows) and all(y + h < t.y < y + h + 20 for t in panel.columns)
        for other in page.panels:
            ox, oy, ow, oh = other.box
            for t in panel.rows + panel.columns:  # no label stands in another panel
                assert not (ox < t.x < ox + ow and oy < t.y < oy + oh)
    boxes = [p.box for p in page.panels]
    assert len({b[0] for b in boxes}) == columns and not page.outside()
    if size:
        assert (page.width, page.height) == (900, 500)
    one = body | {"heatmap": {"batch": [1], "heads": [0]}}
    panel = Picture(daemon.post(HEATMAPS, one, headers=SVG).content, (4, 4), sized=bool(size)).panels[0]
    assert [t.says for t in (panel.columns if over else panel.rows)] == OTHER


def test_masks_that_are_alike_get_panels_by_their_names(daemon):
    body = {"masks": [{"kind": "causal"}], "shape": [2, 4, 4], "labels": BOTH}
    page = Picture(daemon.post(MASKS, body, headers=SVG).content, (4, 4))
    assert [[t.says for t in p.rows] for p in page.panels] == [ONE, OTHER]


def test_layers_share_the_names_of_their_entries(daemon):
    body = {"weights": weights(3, 2, 1), "labels": BOTH}
    page = Picture(daemon.post(HEATMAPS, body, headers=SVG).content, (4, 4))
    assert [[t.says for t in p.rows] for p in page.panels] == [ONE, OTHER] * 3
    heads = ask(daemon, body | {"analysis": ["received"], "top_k": 4}, ANALYSES)["heads"]
    assert [sorted(k["label"] for k in h["top_keys"]) for h in heads] == [sorted(ONE), sorted(OTHER)] * 3


def test_csv_names_queries(daemon):
    rows = list(csv.reader(io.StringIO(daemon.post(HEATMAPS, {"weights": weights(2, 1), "labels": BOTH}, headers=CSV).text)))
    assert rows[0] == ["batch", "head", "query", "0", "1", "2", "3"] and [r[2] for r in rows[1:]] == ONE + OTHER
    one = {"weights": weights(2, 1), "labels": BOTH, "heatmap": {"batch": [1]}}
    assert next(csv.reader(io.StringIO(daemon.post(HEATMAPS, one, headers=CSV).text)))[3:] == OTHER


# --- analyses: an entry is judged by its own words, as if it were sent alone ---

@pytest.mark.parametrize("causal", [False, True])
def test_analyses_use_the_words_of_the_entry(daemon, causal):
    words = [["the", "cat", "the", "mat"], ["[CLS]", "he", "sat", "."], ["he", "and", "he", "he"]]
    labels = [{"key": w} for w in words]
    body = {"weights": weights(3, 2), "labels": labels, "is_causal": causal}
    heads = ask(daemon, body, ANALYSES)["heads"]
    for b, w in enumerate(body["weights"]):
        single = ask(daemon, body | {"weights": [w], "labels": labels[b]}, ANALYSES)["heads"]
        for one, other in zip(heads[2 * b:2 * b + 2], single, strict=True):
            for part in ("measures", "uniform"):
                assert one[part] == other[part], (b, part)
            assert one["top_keys"] == other["top_keys"] and one["pattern"] == other["pattern"]
            classes = {c["name"]: c for c in one["classes"]}
            assert list(classes) == ["punctuation", "special tokens"]  # of all entries, in the same order
            for c in other.get("classes", []):
                assert classes[c["name"]] == c
    assert [h["measures"]["duplicate_token"] is None for h in heads[::2]] == [False, True, False]
    assert heads[0]["classes"][0] | {"name": 0} == {"name": 0, "mass": 0, "uniform": 0, "lift": None}
    once = ask(daemon, body | {"labels": labels[0]}, ANALYSES)["heads"]
    assert once[:2] != heads[:2] and once[0]["measures"] == heads[0]["measures"]  # the others have classes
    assert once[2]["measures"]["duplicate_token"] is not None  # judged by the words of entry 0


def test_duplicates_are_counted_as_numpy_counts_them(daemon):
    words = [["a", "b", "a", "b"], ["a", "b", "c", "c"]]
    w = np.array(weights(2, 1))
    heads = ask(daemon, {"weights": w.tolist(), "labels": [{"key": x} for x in words], "analysis": ["duplicate"]}, ANALYSES)["heads"]
    for b, head in enumerate(heads):
        rows = [sum(w[b, 0, i, j] for j in range(i) if words[b][j] == words[b][i]) for i in range(4) if words[b][i] in words[b][:i]]
        assert abs(head["measures"]["duplicate_token"] - np.mean(rows)) < 1e-6


def test_classes_of_the_caller_stay(daemon):
    body = {"weights": weights(2, 1), "labels": BOTH, "classes": [{"name": "nouns", "keys": [1]}], "analysis": ["classes"]}
    for b, head in enumerate(ask(daemon, body, ANALYSES)["heads"]):
        mass = np.array(body["weights"])[b, 0].mean(0)
        got = {c["name"]: c["mass"] for c in head["classes"]}
        want = {"nouns": mass[1], "punctuation": mass[3] if b == 0 else 0, "special tokens": mass[3] if b else 0}
        assert got.keys() == want.keys() and all(abs(got[k] - want[k]) < 1e-6 for k in want)


def test_padding_is_found_in_its_entry(daemon):
    answer = ask(daemon, batch(heatmap={}))
    assert [(w["code"], w["pointer"]) for w in answer["warnings"]] == [("padding_mass", "/labels/1/key")]
    assert answer["warnings"][0]["detail"].startswith("batch entry 1, head 0: ") and '"<pad>"' in answer["warnings"][0]["detail"]
    answer = ask(daemon, {"weights": weights(2, 1), "labels": BOTH}, HEATMAPS)
    assert [w["pointer"] for w in answer["warnings"]] == ["/labels/1/key"]
    hidden = ask(daemon, batch(heatmap={}, key_lengths=[4, 3]))
    assert not [w for w in hidden.get("warnings", []) if w["code"] == "padding_mass"]


def test_attention_judges_each_entry(daemon):
    body = batch(analysis=["all"])
    both = ask(daemon, body)["analysis"]["heads"]
    for b in range(2):
        single = ask(daemon, alone(b, body))["analysis"]["heads"]
        assert both[b]["measures"] == single[0]["measures"] and both[b]["top_keys"] == single[0]["top_keys"]


# --- stored runs ---

def test_stored_runs_keep_the_names_of_each_entry(daemon):
    run = "/v1/runs/" + ask(daemon, batch(store=True))["run"]["id"]
    texts, (site,) = (daemon.get(run).json()[name] for name in ("texts", "sites"))
    assert [[texts[n]["tokens"] for n in site[side]] for side in ("query_text", "key_text")] == [[ONE, OTHER]] * 2
    assert daemon.get(run + "/heatmaps").json()["labels"] == BOTH
    panels = Picture(daemon.get(run + "/heatmaps", headers=SVG).content, (4, 4)).panels
    assert [[t.says for t in p.columns] for p in panels] == [ONE, OTHER]
    for b, words in enumerate((ONE, OTHER)):
        cell = daemon.get(run + f"/cells?batch={b}&row=1&col=2").json()
        assert (cell["query_label"], cell["key_label"]) == (words[1], words[2])
    direct = ask(daemon, batch(analysis=["all"]))["analysis"]["heads"]
    assert [h["top_keys"] for h in daemon.get(run + "/analyses").json()["heads"]] == [h["top_keys"] for h in direct]
    assert [h["measures"]["same_kind"] for h in ask(daemon, {"run": run.split("/")[-1]}, ANALYSES)["heads"]] == [
        h["measures"]["same_kind"] for h in direct]
    once = "/v1/runs/" + ask(daemon, batch(store=True) | {"labels": ONE})["run"]["id"]
    texts, (site,) = (daemon.get(once).json()[name] for name in ("texts", "sites"))
    assert [text["tokens"] for text in texts] == [ONE] and site["query_text"] == site["key_text"] == 0


# --- refusals name the entry ---

@pytest.mark.parametrize("labels, code, pointer, words", [
    ([BOTH[0], {"query": ONE, "key": ["a", "b"]}], "shape_mismatch", "/labels/1/key", "expected 4 names (one a key), found 2"),
    ([ONE, ["a"]], "shape_mismatch", "/labels/1", "expected 4 names (one a query and key), found 1"),
    (["a"], "shape_mismatch", "/labels", "expected 4 names (one a query and key), found 1"),
    ([BOTH[0]], "shape_mismatch", "/labels", "expected names for each of 2 batch entries, or one object"),
    ([], "shape_mismatch", "/labels", "found a list of 0"), (BOTH * 2, "shape_mismatch", "/labels", "found a list of 4"),
    ([BOTH[0], {"key": OTHER}], "invalid_value", "/labels/1", "labels/0"), ([BOTH[0], None], "wrong_type", "/labels/1", ""),
    ([BOTH[0], {"keys": OTHER}], "unknown_field", "/labels/1/keys", 'here it is called "key"'),
    (["a", 1], "wrong_type", "/labels/1", "a string"), ([ONE, ["a", 2]], "wrong_type", "/labels/1/1", "a string"),
    ("the cat", "wrong_type", "/labels", "a list of strings or an object with \"query\", \"key\"")])
def test_refused(daemon, labels, code, pointer, words):
    refused(daemon, batch() | {"labels": labels}, code, pointer, words)
    refused(daemon, {"weights": weights(2, 1), "labels": labels}, code, pointer, words, path=HEATMAPS)
    refused(daemon, {"weights": weights(2, 1), "labels": labels}, code, pointer, words, path=ANALYSES)
    refused(daemon, {"masks": [{"kind": "causal"}], "shape": [2, 4, 4], "labels": labels}, code, pointer, words, path=MASKS)


def test_a_list_needs_as_many_queries_as_keys(daemon):
    body = {"query": normal(2, 3, 4), "key": normal(2, 4, 4), "value": normal(2, 4, 4)}
    refused(daemon, body | {"labels": ONE}, "shape_mismatch", "/labels", "3 queries and 4 keys", "{\"query\": [..]")
    refused(daemon, body | {"labels": [ONE, ONE]}, "shape_mismatch", "/labels/0", "3 queries and 4 keys")
