"""GET /v1/runs/{id}/heads: patterns and main measures of many heads, against those of /analyses of each site."""
import numpy as np
import pytest
from api_client import ask
from conftest import Daemon
from kept_captures import file_of, save
from test_api_async import begin, ended
from test_api_index import document, schema  # noqa: F401, a fixture

WORDS = "the cat , saw the dog . and the cat , ran .".split()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    service = Daemon("--runs-dir", str(folder), "--max-cells", "1e6", "--heartbeat-ms", "50")
    yield service, folder
    service.stop()


def get(service, run, query="", status=200, **kwargs):
    reply = service.get(f"/v1/runs/{run}/heads?{query}", **kwargs)
    assert reply.status_code == status, reply.text
    return reply


def places(heads):
    return [(h["site"], h["layer"], h["batch"], h["head"]) for h in heads]


def same_as_metrics(service, run, heads):
    """Each head has the numbers of /analyses of its site, which measures all heads of all entries together."""
    sites = {n: service.get(f"/v1/runs/{run}/analyses?site={n}").json() for n in {h["site"] for h in heads}}
    for head in heads:
        want = next(h for h in sites[head["site"]]["heads"] if (h["head"], h["batch"]) == (head["head"], head["batch"]))
        assert head["num_rows"] == want["num_rows"] and head["pattern"] == want["pattern"], (head, want["pattern"])
        assert set(head["measures"]) <= set(want["measures"]) and len(head["measures"]) >= 13
        for name, value in head["measures"].items():
            assert value == pytest.approx(want["measures"][name], rel=1e-6, nan_ok=True), name


CASES = {
    "plain": [{}, {"is_causal": True}],
    "cross": [{"shape": [1, 3, 12, 20], "kind": "cross"}, {"shape": [2, 2, 13, 13], "is_causal": True, "layer": 1}],
    "offsets": [{"is_causal": True, "query_offset": -3}],
    "labels": [{"is_causal": True, "query_text": 0, "key_text": 0, "layer": n, "shape": [2, 3, len(WORDS), len(WORDS)]} for n in range(2)],
}


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_of_metrics(files, document, name):  # noqa: F811
    service, folder = files
    file = file_of(CASES[name], np.random.default_rng(2), spread=2.0)
    if name == "labels":
        file.run["texts"] = [{"tokens": WORDS}]
    run = save(folder, file, 10 + list(CASES).index(name))
    answer = get(service, run).json()
    schema(document, "RunHeads").validate(answer)
    shapes = [s["shape"][:2] if "shape" in s else [2, 3] for s in CASES[name]]
    assert places(answer["heads"]) == [(n, CASES[name][n].get("layer", n), b, h) for n, (B, H) in enumerate(shapes)
                                       for b in range(B) for h in range(H)]
    same_as_metrics(service, run, answer["heads"])
    for head in answer["heads"]:
        assert ("induction" in head["measures"]) == (name == "labels")
        assert set(head["measures"]) <= set(answer["legend"])


@pytest.mark.parametrize("more", [{"key_lengths": [20, 30]}, {"query_offset": [0, 4], "is_causal": True},
                                  {"labels": [[f"{w}{i % 7}" for i in range(30)] for w in "ab"], "is_causal": True},
                                  {"attn_mask": (np.random.default_rng(1).random((2, 3, 30, 30)) < 0.7).tolist(),
                                   "mask_semantics": "keep"}], ids=["lengths", "offsets", "labels", "tensor"])
def test_entries_of_their_own(files, more):
    """Masks and labels that differ between batch entries."""
    service, _ = files
    body = {"query": {"shape": [2, 3, 30, 8], "random": "normal", "seed": 3}, "store": True, "return": []}
    run = ask(service, body | more)["run"]["id"]
    whole = get(service, run).json()["heads"]
    assert len(whole) == 6
    same_as_metrics(service, run, whole)
    part = get(service, run, "batch=1&heads=2,0").json()["heads"]
    assert part == [whole[5], whole[3]]


def test_selection(files):
    service, folder = files
    sites = [{"layer": 0, "kind": "encoder", "name": "low"}, {"layer": 1, "kind": "encoder"},
             {"layer": 1, "kind": "decoder", "axes": ["layer", "batch", "head"], "shape": [3, 2, 2, 12, 12]}]
    run = save(folder, file_of(sites, np.random.default_rng(7)), 33)
    whole = get(service, run).json()["heads"]
    assert len(whole) == 6 + 6 + 12
    for query, keep in (("kind=encoder", lambda h: h["site"] < 2), ("layer=1", lambda h: h["layer"] == 1),
                        ("layer=3&batch=1", lambda h: h["layer"] == 3 and h["batch"] == 1), ("sites=low", lambda h: h["site"] == 0),
                        ("heads=1", lambda h: h["head"] == 1)):
        assert get(service, run, query).json()["heads"] == [h for h in whole if keep(h)], query
    assert places(get(service, run, "sites=1,0,0&heads=2,0&batch=0").json()["heads"]) == [
        (1, 1, 0, 2), (1, 1, 0, 0), (0, 0, 0, 2), (0, 0, 0, 0), (0, 0, 0, 2), (0, 0, 0, 0)]
    axis = service.get(f"/v1/runs/{run}/analyses?site=2").json()["heads"]
    for head, want in zip(whole[12:], axis, strict=True):
        assert head["pattern"] == want["pattern"] and head["measures"]["entropy"] == want["measures"]["entropy"]
    for query, pointer in (("sites=nine", "/sites"), ("heads=3", "/heads"), ("kind=cross", "/kind"), ("batch=2", "/batch"),
                           ("layer=9", "/layer"), ("decimals=-1", "/decimals")):
        assert get(service, run, query, 422).json()["pointer"] == pointer


def test_text_and_decimals(files):
    service, folder = files
    run = save(folder, file_of([{}], np.random.default_rng(8), B=1, H=2), 34)
    lines = get(service, run, headers={"Accept": "text/plain"}).text.splitlines()
    assert lines[0].startswith("site 0, layer 0, batch 0, head 0: ") and len(lines) == 4
    entropy = get(service, run, "decimals=2").json()["heads"][0]["measures"]["entropy"]
    assert entropy == round(entropy, 2)


def test_empty_lists(files):
    service, folder = files
    run = save(folder, file_of([{}], np.random.default_rng(8), B=1, H=2), 37)
    assert get(service, run, "heads=", 422).json()["pointer"].startswith("/heads")


def test_limits_and_caching(files):
    service, folder = files
    run = save(folder, file_of([{"is_causal": True}], np.random.default_rng(9), L=800, B=1, H=2), 35)
    problem = get(service, run, "", 413).json()
    assert problem["limit"] == {"value": 1e6, "setting": "max_cells"}
    one = get(service, run, "heads=1")
    assert one.headers["Cache-Control"].endswith("immutable")
    assert not get(service, run, "heads=1", 304, headers={"If-None-Match": one.headers["ETag"]}).content


def test_a_long_one_is_a_job(files):
    service, folder = files
    run = save(folder, file_of([{"is_causal": True, "layer": n} for n in range(3)], np.random.default_rng(8), L=300, B=1), 36)
    path = f"/v1/runs/{run}/heads"
    done = ended(service, begin(service, path, {"Prefer": "respond-async, wait=0"}))
    assert (done["state"], done["progress"], done["result"]) == ("done", 1, path)
    kept = service.get(path, headers={"Prefer": "respond-async, wait=0"})
    assert kept.status_code == 200 and len(kept.json()["heads"]) == 9
