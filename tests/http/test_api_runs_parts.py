"""Parts of a stored run: several heads and rows in one request, who looks at a key, hidden cells, chosen members of a
cell, and keys hidden from many rows without the matrix of weights."""
import json

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_runs import FORMS, MASKED, NPY, SAFETENSORS, Stored, literal, npy

ROWS = [5, 9, 40, 41, 42, 43]
LIST = "rows=5,9,40:44"


@pytest.fixture(scope="module")
def run(daemon):
    return Stored(daemon, MASKED | FORMS["causal"])


def tensors(reply):
    assert reply.status_code == 200, reply.text
    return load_tensors(reply.content)


# --- heads and rows ---

@pytest.mark.parametrize("form", ["causal", "booleans", "by head", "fill", "alibi", "float64"])
def test_heads_and_rows_bit_for_bit(daemon, form):
    run = Stored(daemon, MASKED | FORMS[form])
    S = run.weights.shape[-1]
    for heads, chosen in (("0,3", [0, 3]), ("all", [0, 1, 2, 3]), ("2", [2])):
        part = npy(run.get(f"/weights?batch=1&heads={heads}&{LIST}&cols=2:30", headers=NPY))
        assert np.array_equal(part, run.weights[1][chosen][:, ROWS, 2:30])
        rows = tensors(run.get(f"/rows?batch=1&heads={heads}&{LIST}", headers=SAFETENSORS))
        assert np.array_equal(rows["weights"], run.weights[1][chosen][:, ROWS])
        lse = run.tensors["logsumexp"].reshape(2, 4, 60)[1][chosen][:, ROWS]
        assert np.allclose(rows["logsumexp"], lse, rtol=1e-6)
        assert rows["num_visible_keys"].shape == (len(chosen), len(ROWS))
    assert np.array_equal(npy(run.get("/weights?rows=5&head=3", headers=NPY)), run.weights[0, 3, 5:6])
    assert np.array_equal(npy(run.get(f"/weights?{LIST}", headers=NPY)), run.weights[0, 0, ROWS])
    assert np.array_equal(npy(run.get("/weights?rows=9,5,5&cols=7", headers=NPY)), run.weights[0, 0, [9, 5, 5], 7:8])
    assert npy(run.get("/weights?rows=0:60&heads=all", headers=NPY)).shape == (4, 60, S)


def test_heads_as_text_and_json(run):
    text = run.get("/weights?heads=0,3&rows=5&cols=0:3&decimals=3", headers={"Accept": "text/plain"}).text
    assert text.startswith("weights (2, 1, 3):\n[[[") and text.count("[") == 5
    answer = run.json("/rows?heads=1,2&rows=5,9")
    assert [len(head) for head in answer["weights"]] == [2, 2] and len(answer["hidden"]) == 2
    assert answer["hidden"][0] == run.json("/rows?head=1&rows=5,9")["hidden"]


@pytest.mark.parametrize(("what", "pointer", "words"), [
    ("/weights?heads=0,4", "/heads", "4 heads"), ("/weights?heads=all&head=1", "/heads", "exclude"),
    ("/weights?heads=some", "/heads", "\"all\""), ("/weights?rows=5,70", "/rows", "found 5,70"),
    ("/weights?rows=5,9:7", "/rows", "found 5,9:7"), ("/weights?rows=5,", "/rows", "5,9,100:104"),
    ("/weights?rows=5:9:11", "/rows", "5,9,100:104"), ("/weights?rows=a", "/rows", "found \"a\""),
    ("/weights?cols=1,2", "/cols", "\"5:9\""), ("/weights?rows=60", "/rows", "<= 60"),
    ("/top-k?axis=key&top_p=0.5", "/top_p", "axis=key"), ("/top-k?axis=head", "/axis", "\"key\""),
    ("/cells?row=0&col=0&fields=wieght", "/fields", "did you mean \"weight\"?"),
], ids=str)
def test_refusals(run, what, pointer, words):
    reply = run.get(what)
    problem = reply.json()
    assert reply.status_code == 422 and problem["pointer"] == pointer, problem
    assert words in problem["detail"], problem


def test_all_heads_are_counted_before_they_are_sent_unasked(daemon):
    run = Stored(daemon, {"query": literal(1, 8, 100, 4, seed=1)})
    assert run.get("/weights").status_code == 200
    problem = run.get("/weights?heads=all").json()
    assert problem["pointer"] == "/rows" and "80000" in problem["detail"]


# --- hidden cells beside weights ---

def test_hidden_cells(run):
    answer = run.json("/weights?rows=5,9&cols=240:260&hidden=true&heads=0,1")
    # the last of 60 queries is at the last of 300 keys, so query i sees the keys up to 240 + i
    assert answer["hidden"] == [[[5, 246, 260], [9, 250, 260]]] * 2
    one = run.json("/weights?rows=5:7&cols=245:250&hidden=true&stage=biased")
    assert one["hidden"] == [[5, 246, 250], [6, 247, 250]]
    assert [[x is None for x in row] for row in one["scores"]] == [[False, True, True, True, True], [False, False, True, True, True]]
    assert "hidden" not in run.json("/weights?rows=5:7&cols=245:250&hidden=false")


# --- top-k ---

@pytest.mark.parametrize("form", ["causal", "booleans", "fill", "float64", "cache"])
def test_who_looks_at_a_key(daemon, form):
    run = Stored(daemon, MASKED | FORMS[form])
    weights = run.weights[1].astype(np.float32)
    S = weights.shape[-1]
    keep = np.ones((60, S), bool)
    if form in ("causal", "cache", "float64"):
        offset = {"causal": 240, "cache": 11, "float64": 0}[form]
        keep = np.arange(S) <= np.arange(60)[:, None] + offset
    if form == "booleans":
        keep = np.array(FORMS[form]["attn_mask"])
    for query, rows in (("", list(range(60))), ("&" + LIST, ROWS)):
        top = tensors(run.get(f"/top-k?batch=1&heads=3,0&top_k=7&axis=key{query}", headers=SAFETENSORS))
        at = 0
        for head in (3, 0):
            for key in range(S):
                seen = [r for r in rows if keep[r, key]]
                best = sorted(seen, key=lambda r: (-weights[head, r, key], r))[:7]  # noqa: B023
                part = slice(at, at + len(best))
                assert top["row"][part].tolist() == best
                assert top["col"][part].tolist() == [key] * len(best) and set(top["head"][part]) <= {head}
                assert np.array_equal(top["weight"][part], weights[head, best, key])
                at += len(best)
        assert at == len(top["row"]) == len(top["weight"])


def test_strongest_keys_of_several_heads_and_rows(run):
    got = run.json(f"/top-k?heads=2,1&{LIST}&top_k=3")
    parts = [run.json(f"/top-k?head={h}&rows={r}:{r + 1}&top_k=3") for h in (2, 1) for r in ROWS]
    for name in ("row", "col", "weight"):
        assert got[name] == [x for part in parts for x in part[name]]
    assert got["head"] == [2] * 18 + [1] * 18
    assert "head" not in run.json(f"/top-k?{LIST}&top_k=3")
    mass = run.json(f"/top-k?{LIST}&top_p=0.5")
    assert mass["col"] == [k for r in ROWS for k in run.json(f"/top-k?rows={r}:{r + 1}&top_p=0.5")["col"]]


def test_edges_of_a_key_are_bounded(daemon):
    run = Stored(daemon, {"query": literal(1500, 4, seed=1)})
    problem = run.get("/top-k?axis=key&top_k=1000").json()
    assert problem["status"] == 413 and problem["pointer"] == "/top_k" and "1500000" in problem["detail"]
    top = run.json("/top-k?axis=key&top_k=1500&cols=0:3")
    assert sorted(top["row"]) == sorted(list(range(1500)) * 3)


def test_edges_of_a_query_are_bounded(daemon):
    run = Stored(daemon, {"query": literal(1500, 4, seed=1)})
    problem = run.get("/top-k?top_k=1000").json()
    assert (problem["status"], problem["pointer"]) == (413, "/top_k") and "room for 699 edges a row" in problem["detail"]
    equal = Stored(daemon, {"query": {"shape": [1500, 4], "fill": "ones"}})
    problem = equal.get("/top-k?top_p=0.9").json()
    assert (problem["status"], problem["pointer"]) == (413, "/top_p") and "more than the 699 edges" in problem["detail"]
    drawn = run.get("/heatmaps?top_k=1000").json()
    assert (drawn["status"], drawn["pointer"]) == (413, "/top_k")


@pytest.mark.parametrize("axis", ["query", "key"])
def test_the_cells_of_all_ranges_count_together(start, axis):
    run = Stored(start("--max-cells", "3000"), {"query": literal(50, 4, seed=1)})
    assert run.get(f"/top-k?axis={axis}&rows=0:30,30:50").status_code == 200
    problem = run.get(f"/top-k?axis={axis}&rows=0:50,0:50").json()
    assert problem["limit"] == {"value": 3000, "setting": "max_cells"} and "5000" in problem["detail"]


# --- chosen members of a cell ---

def test_fields_of_a_cell(daemon):
    run = Stored(daemon, MASKED | FORMS["causal"] | {"labels": {"key": [f"k{i}" for i in range(300)]}})
    whole = run.json("/cells?row=3&col=1")
    some = run.json("/cells?row=3&col=1&fields=words,weight,key_label")
    assert list(some) == ["key_label", "weight", "words"]  # in the order of the whole answer
    assert some == {name: whole[name] for name in some}
    for name in whole:
        assert run.get(f"/cells?row=3&col=1&fields={name}").text == json.dumps({name: whole[name]}, separators=(",", ":")) + "\n"
    assert run.json("/cells?row=3&col=1&fields=query_label") == {}  # this run has no such label


# --- keys hidden from many rows ---

def test_what_if_of_heads_and_rows(daemon, run):
    ask = {"hide": [0, 5, 17, 5], "batch": 1, "return": ["weights", "output", "removed", "weights_before", "output_before"]}
    got = tensors(daemon.post(run.path + "/what-if", ask | {"heads": [3, 0], "rows": "5,9,40:44"}, headers=SAFETENSORS))
    for i, head in enumerate((3, 0)):
        one = tensors(daemon.post(run.path + "/what-if", ask | {"head": head, "rows": [0, 60]}, headers=SAFETENSORS))
        for name, tensor in got.items():
            assert np.array_equal(tensor[i], one[name][ROWS]), name
    assert daemon.post(run.path + "/what-if", ask | {"rows": 7}).json() == daemon.post(
        run.path + "/what-if", ask | {"rows": "7:8"}).json() == daemon.post(run.path + "/what-if", ask | {"rows": [7, 8]}).json()
    assert len(daemon.post(run.path + "/what-if", ask | {"heads": "all", "rows": 0}).json()["removed"]) == 4


@pytest.mark.parametrize("item", ["weights", "output", "removed", "weights_before", "output_before"])
def test_what_if_of_one_item(daemon, run, item):
    ask = {"hide": [200, 3, 299], "head": 2, "rows": [10, 30]}
    whole = daemon.post(run.path + "/what-if", ask | {"return": [
        "weights", "output", "removed", "weights_before", "output_before"]}).json()
    assert daemon.post(run.path + "/what-if", ask | {"return": item}).json() == {item: whole[item]}


def test_what_if_of_a_long_run_keeps_no_matrix(start, document):  # noqa: F811
    """One key hidden from 16,384 queries, in a service where their weights (1 GiB) cannot fit."""
    daemon = start("--max-request-bytes", "200000000")
    n, key = 16384, 7
    reply = daemon.post("/v1/attention", {"query": literal(n, 8, seed=1), "is_causal": True, "store": True, "return": []})
    path = reply.headers["X-Run-Id"]
    answer = daemon.post(f"/v1/runs/{path}/what-if", {"hide": [key]})
    assert answer.status_code == 200, answer.text
    schema(document, "RunWhatIf").validate(answer.json())
    assert set(answer.json()) == {"output", "removed", "output_before", "omitted"}
    assert answer.json()["omitted"]["weights"]["num_values"] == n * n
    assert np.array(answer.json()["output"]).shape == (n, 8)
    column = daemon.get(f"/v1/runs/{path}/weights?rows=0:{n}&cols={key}").json()["weights"]
    assert np.allclose(answer.json()["removed"], np.array(column)[:, 0], rtol=1e-6, atol=1e-12)
    named = daemon.post(f"/v1/runs/{path}/what-if", {"hide": [key], "return": "removed"})
    assert list(named.json()) == ["removed"] and named.json()["removed"] == answer.json()["removed"]
    asked = daemon.post(f"/v1/runs/{path}/what-if", {"hide": [key], "return": ["weights"]})
    assert asked.status_code == 413 and asked.json()["limit"]["setting"] == "max_request_bytes"
    some = daemon.post(f"/v1/runs/{path}/what-if", {"hide": [key], "rows": "9,16383"}).json()
    assert np.array(some["weights"]).shape == (2, n) and some["weights"][1][key] == 0


# --- ranges in every route, and what openapi.json says ---

def test_ranges_as_text_in_bodies(daemon):
    body = {"query": literal(1, 2, 30, 8, seed=1), "return": [], "heatmap": {"rows": [3, 20], "cols": [0, 9], "pool": "both"}}
    want = daemon.post("/v1/attention", body).text
    assert daemon.post("/v1/attention", body | {"heatmap": {"rows": "3:20", "cols": "0:9", "pool": "both"}}).text == want
    one = daemon.post("/v1/attention", body | {"heatmap": {"rows": "3", "cols": 8}}).json()["heatmap"]["heads"][0]
    assert one["shape"] == [1, 1] and one["origin"] == [3, 8]
    problem = daemon.post("/v1/attention", body | {"heatmap": {"rows": "3,4"}}).json()
    assert problem["pointer"] == "/heatmap/rows" and "from:to" in problem["detail"]
    problem = daemon.post("/v1/attention", body | {"heatmap": {"rows": "20:3"}}).json()
    assert problem["pointer"] == "/heatmap/rows" and "found 20:3" in problem["detail"]


def test_openapi_has_examples_of_ranges(document):  # noqa: F811
    def parameters(what):
        listed = document["paths"]["/v1/runs/{id}/" + what]["get"]["parameters"]
        return {p["name"]: p for p in listed if "name" in p}

    for what in ("weights", "rows", "top-k"):
        assert parameters(what)["rows"]["example"] == "5,9,100:104" and parameters(what)["heads"]["example"] == "all"
    for what in ("weights", "top-k", "heatmaps"):
        assert parameters(what)["cols"]["example"] == "0:256"
    assert parameters("cells")["fields"]["example"] == "weight,logsumexp,words"
    body = document["components"]["schemas"]["RunWhatIfRequest"]["properties"]["rows"]
    assert body["examples"] == ["5,9,100:104"]
    rows = schema(document, "RunWhatIfRequest")
    assert rows.is_valid({"hide": [1], "rows": "5,9,100:104"}) and not rows.is_valid({"hide": [1], "rows": "5:"})


def test_answers_have_their_schemas(run, daemon, document):  # noqa: F811
    for what, name in (("weights?heads=all&rows=0:2&hidden=true", "RunWeights"), ("rows?heads=0,1&rows=1,3", "RunRows"),
                       ("top-k?heads=all&axis=key&top_k=2", "RunEdges"), ("cells?row=1&col=3&fields=rank,num_visible_keys", "RunCell")):
        schema(document, name).validate(run.json("/" + what))
    body = {"hide": [1], "heads": "all", "rows": "0,2"}
    schema(document, "RunWhatIfRequest").validate(body)
    schema(document, "RunWhatIf").validate(daemon.post(run.path + "/what-if", body).json())
