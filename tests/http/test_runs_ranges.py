"""`ranges` of GET /v1/runs/{id}: the range of each head, without a request for each topmost tile."""
import json

import numpy as np
import pytest
from api_client import ask
from captured import pooled
from kept_captures import file_of, save
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_runs import Stored, literal

STORE = {"store": True, "return": []}
I, J = np.indices((2100, 2100))
CASES = {  # body, and which weights are visible
    "patterns": ({"query": literal(2, 2, 2100, 8, seed=1), "is_causal": True, "pattern": {"kind": "global", "num_keys": 3, "local": 700}},
                 (J <= I) & ((J < 3) | (I < 3) | (abs(I - J) <= 700))),
    "float64": ({"query": literal(1, 2, 1030, 8, seed=2, dtype="float64")}, np.ones((1030, 1030), bool)),
    "cross": ({"query": literal(2, 3, 40, 8, seed=3), "key": literal(2, 3, 1500, 8, seed=4), "value": literal(2, 3, 1500, 8, seed=5),
               "is_causal": True}, np.indices((40, 1500))[1] <= np.indices((40, 1500))[0]),
    "sinks": ({"query": literal(1, 2, 1100, 8, seed=6), "sinks": [3, -1]}, np.ones((1100, 1100), bool)),
    "no visible key": ({"query": literal(1, 1, 1100, 8, seed=7), "is_causal": True, "query_offset": -1100},
                       np.zeros((1100, 1100), bool)),
}


def site(answer):
    return answer["sites"][0]


@pytest.mark.parametrize("name", CASES)
def test_the_range_of_each_head(daemon, document, name):  # noqa: F811
    body, visible = CASES[name]
    run = Stored(daemon, body, decimals=2)
    answer = run.json()
    schema(document, "Run").validate(answer)
    assert site(run.answer["run"])["ranges"] == site(answer)["ranges"]
    B, H = run.weights.shape[:2]
    got = np.array(site(answer)["ranges"], np.float32)
    assert got.shape == (B * H, 2)
    level = len(site(answer)["tiles"]["levels"]) - 1
    for n, head in enumerate(run.weights.reshape(B * H, *visible.shape)):
        tile = run.get(f"/tiles?batch={n // H}&head={n % H}&level=0&range_of=head")
        assert tile.status_code in (200, 204)
        header = tile.headers["X-Tile-Max-Range"].split(",")
        assert got[n].tolist() == [np.float32(x) for x in header]
        cells = pooled(head.astype(np.float32), visible, level)[0]
        want = (cells[np.isfinite(cells)].min(), head[visible].astype(np.float32).max()) if visible.any() else (0, 0)
        assert got[n].tolist() == list(want)


def test_heads_of_batch_entry_0_come_first(daemon):
    """Logits grow from head to head, so that no two largest weights are equal."""
    scale = np.arange(1, 7).reshape(2, 3, 1, 1)
    q = (scale * np.random.default_rng(8).normal(size=(2, 3, 1, 4))).tolist()
    run = ask(daemon, {"query": q, "key": literal(2, 3, 1200, 4, seed=9), "value": literal(2, 3, 1200, 1, seed=1)} | STORE)["run"]
    highs = [high for _, high in site(run)["ranges"]]
    assert len(set(highs)) == 6
    for n, high in enumerate(highs):
        weights = daemon.get(f"/v1/runs/{run['id']}/weights?batch={n // 3}&head={n % 3}").json()["weights"]
        assert np.float32(np.max(weights)) == np.float32(high)


@pytest.mark.parametrize("heads, known", [(4096, True), (4097, False)])
def test_at_most_so_many_heads(daemon, heads, known):
    run = ask(daemon, {"query": literal(heads, 1, 1, 1, seed=1), "key": literal(heads, 1, 1025, 1, seed=2)} | STORE)["run"]
    assert site(run)["tiles"]["overview_level"] is not None
    ranges = site(run)["ranges"]
    assert len(ranges) == heads and all(0 < low <= high for low, high in ranges) if known else ranges is None


def test_not_known_at_once(start, tmp_path):
    """A small run and a recorded one have no overview. A file of the service has one, wherever it comes from."""
    daemon = start("--runs-dir", str(tmp_path))
    assert site(ask(daemon, {"query": literal(30, 8, seed=1)} | STORE)["run"])["ranges"] is None
    recorded = save(tmp_path, file_of([{"layer": n} for n in range(2)], np.random.default_rng(1), L=1100, B=1, H=1), 1)
    assert [s["ranges"] for s in daemon.get(f"/v1/runs/{recorded}").json()["sites"]] == [None, None]
    run = ask(daemon, {"query": literal(2, 1100, 8, seed=2), "is_causal": True} | STORE)["run"]
    data = (tmp_path / f"{run['id']}.safetensors").read_bytes()
    sent = daemon.post("/v1/runs", data, headers={"Content-Type": "application/vnd.safetensors"})
    assert sent.status_code == 201 and site(sent.json())["ranges"] == site(run)["ranges"]


def test_a_damaged_overview_has_none(start, tmp_path):
    """The description is answered, and the tile says what is wrong."""
    daemon = start("--runs-dir", str(tmp_path))
    run = ask(daemon, {"query": literal(2, 1100, 8, seed=2), "is_causal": True} | STORE)["run"]
    data = bytearray((tmp_path / f"{run['id']}.safetensors").read_bytes())
    size = int.from_bytes(data[:8], "little")
    top = len(site(run)["tiles"]["levels"]) - 1
    begin, end = json.loads(data[8:8 + size])[f"sites.0.overview.{top}.max"]["data_offsets"]
    data[8 + size + (begin + end) // 2] ^= 64
    (tmp_path / ("b" * 32 + ".safetensors")).write_bytes(data)
    damaged = daemon.get("/v1/runs/" + "b" * 32)
    assert damaged.status_code == 200 and site(damaged.json())["ranges"] is None
    assert "damaged" in daemon.get(f"/v1/runs/{'b' * 32}/tiles?level={top}").json()["detail"]
    assert site(daemon.get(f"/v1/runs/{run['id']}").json())["ranges"] == site(run)["ranges"]
