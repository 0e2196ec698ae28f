"""GET /v1/runs/{id}/atlas: thumbnails of many heads at once, against NumPy from the full weights."""
import base64
import json

import numpy as np
import pytest
from api_client import ask
from conftest import Daemon
from kept_captures import file_of, save
from oracle import captures
from safetensors.numpy import load
from test_api_async import begin, ended
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_runs import Stored, literal, pyramid

SAFETENSORS = {"Accept": "application/vnd.safetensors"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    service = Daemon("--runs-dir", str(folder), "--max-cells", "1e7")
    yield service, folder
    service.stop()


def get(service, run, query="", status=200, **kwargs):
    reply = service.get(f"/v1/runs/{run}/atlas?{query}", **kwargs)
    assert reply.status_code == status, reply.text
    return reply


class Atlas:
    """A binary answer."""

    def __init__(self, service, run, query=""):
        self.reply = get(service, run, query, headers=SAFETENSORS)
        data = self.reply.content
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        tensors = load(data)
        self.about = json.loads(header["__metadata__"]["response"])
        self.cells, self.ranges, self.heads = tensors["cells"], tensors["ranges"], self.about["thumbnails"]
        assert len(self.cells) == len(self.ranges) == len(self.heads)

    def places(self):
        return [(h["site"], h["layer"], h["batch"], h["head"]) for h in self.heads]


def level_of(shape, cells):
    level = 0
    while -(-max(shape) // (1 << level)) > cells:
        level += 1
    return level


F = {"linear": lambda t: t, "sqrt": np.sqrt, "log": lambda t: np.log1p(255 * t) / np.log(256)}


def octets(cells, transform):
    """Octets of cells and their range, as server/wire describes them."""
    seen = np.isfinite(cells)
    lo, hi = (cells[seen].min(), cells[seen].max()) if seen.any() else (0, 0)
    t = np.where(seen, (cells - lo) / (hi - lo) if hi > lo else cells > 0, 0)
    return np.where(seen, np.maximum(np.rint(255 * F[transform](t.clip(0, 1))), 1), 0), (lo, hi)


def same(got, limits, shape, cells, transform):
    """Sums of float32 and float64 may fall on different sides of a half; all other octets are equal."""
    want, (lo, hi) = octets(cells, transform)
    assert list(cells.shape) == shape
    assert np.allclose(limits, (lo, hi), rtol=1e-5, atol=1e-7)
    part = got[:shape[0], :shape[1]].astype(int)
    assert np.array_equal(part == 0, want == 0) and np.abs(part - want).max() <= 1
    assert (part != want).mean() < 0.02
    rest = got.copy()
    rest[:shape[0], :shape[1]] = 0
    assert not rest.any()


SITES = {
    "small": [{"shape": [2, 3, 20, 40]}],
    "causal": [{"is_causal": True, "layer": n, "shape": [1, 2, 300, 300]} for n in range(2)],
    "pools above the topmost tile": [{"is_causal": True, "window": [50, 0], "shape": [1, 2, 600, 700]}],
    "cross": [{"shape": [1, 2, 90, 520], "kind": "cross"}, {"shape": [1, 2, 520, 90], "kind": "cross", "layer": 1}],
    "mapped": [{"is_causal": True, "shape": [1, 2, 1100, 1100]}],
    "blind rows": [{"is_causal": True, "query_offset": -200, "shape": [1, 1, 300, 300]}],
    "all hidden": [{"is_causal": True, "query_offset": -40, "shape": [1, 1, 30, 30]}],
}


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("cells, transform", [(64, "sqrt"), (16, "linear"), (100, "log")])
def test_octets_of_all_heads(files, name, cells, transform):
    service, folder = files
    file = file_of(SITES[name], np.random.default_rng(3), spread=1.5)
    run = save(folder, file, 10 + list(SITES).index(name))
    atlas = Atlas(service, run, f"max_side={cells}&transform={transform}&pool=both")
    count = 0
    assert atlas.cells.dtype == np.uint8 and atlas.cells.shape[1:] == (2, cells, cells)
    assert atlas.ranges.dtype == np.float32 and atlas.ranges.shape[1:] == (2, 2)
    for n in range(len(file.sites)):
        whole = captures.attention(file, n)
        B, H, L, S = whole["weights"].shape
        level = level_of((L, S), cells)
        for b in range(B):
            for h in range(H):
                head = atlas.heads[count]
                assert (head["site"], head["batch"], head["head"], head["level"]) == (n, b, h, level)
                visible = np.broadcast_to(whole["visible"], (B, H, L, S))[b, h]
                for plane, want in enumerate(pyramid(whole["weights"][b, h], visible, level)):
                    same(atlas.cells[count, plane], atlas.ranges[count, plane], head["shape"], want, transform)
                count += 1
    assert count == len(atlas.heads)


@pytest.fixture(scope="module")
def long(files):
    """2,100 queries and keys: the thumbnails come from the overview."""
    return Stored(files[0], {"query": literal(2, 2100, 8, seed=11), "is_causal": True,
                             "pattern": {"kind": "global", "num_keys": 3, "local": 700}})


def test_of_an_overview(files, long):
    i, j = np.indices((2100, 2100))
    visible = (j <= i) & ((j < 3) | (i < 3) | (abs(i - j) <= 700))
    atlas = Atlas(files[0], long.id, "pool=both&max_side=80")
    assert [h["level"] for h in atlas.heads] == [5, 5] and atlas.heads[0]["shape"] == [66, 66]
    for h in range(2):
        for plane, want in enumerate(pyramid(long.weights.reshape(2, 2100, 2100)[h], visible, 5)):
            same(atlas.cells[h, plane], atlas.ranges[h, plane], [66, 66], want, "linear")


def test_an_overview_has_no_cells_to_compute(files, long):
    """8.8 million weights of the heads of this run, and two million are allowed."""
    service, folder = files
    small = Daemon("--runs-dir", str(folder), "--max-cells", "2e6")
    try:
        assert np.array_equal(Atlas(small, long.id).cells, Atlas(service, long.id).cells)
        file = file_of([{"is_causal": True}], np.random.default_rng(4), L=800, B=1, H=4)
        run = save(folder, file, 30)
        problem = get(small, run, "", 413).json()
        assert problem["pointer"] == "/sites" and problem["limit"] == {"value": 2e6, "setting": "max_cells"}
        assert "4 heads" in problem["detail"]
        assert len(Atlas(small, run, "heads=1,3").heads) == 2
    finally:
        small.stop()


def test_levels_are_kept_for_tiles_and_thumbnails(files):
    """Four heads have 4.8 million weights, and 2.5 million are allowed: what is kept does not count."""
    service, folder = files
    run = save(folder, file_of([{"is_causal": True}], np.random.default_rng(9), L=1100, B=1, H=4), 36)
    want = Atlas(service, run, "pool=both").cells
    small = Daemon("--runs-dir", str(folder), "--max-cells", "2.5e6")
    try:
        assert get(small, run, "", 413).json()["limit"]["setting"] == "max_cells"
        first = [small.get(f"/v1/runs/{run}/tiles?head={h}&level=3&encoding=f32") for h in (0, 1)]
        assert [tile.status_code for tile in first] == [200, 200]
        get(small, run, "max_side=32", 200)  # heads 2 and 3 are computed
        assert np.array_equal(Atlas(small, run, "pool=both").cells, want)
        ranges = Atlas(small, run, "pool=both&max_side=128").ranges[:, 0]
        for h in range(4):
            tile = small.get(f"/v1/runs/{run}/tiles?head={h}&level=3&encoding=f32")
            assert np.float32(tile.headers["X-Tile-Max-Range"].split(",")[1]) == ranges[h, 1]
    finally:
        small.stop()


def test_one_plane(files):
    service, folder = files
    run = save(folder, file_of([{"shape": [1, 2, 200, 200]}], np.random.default_rng(5)), 31)
    both = Atlas(service, run, "pool=both")
    for n, plane in enumerate(("max", "mean")):
        one = Atlas(service, run, f"pool={plane}")
        assert one.cells.shape == (2, 64, 64) and one.ranges.shape == (2, 2) and one.about["pool"] == plane
        assert np.array_equal(one.cells, both.cells[:, n]) and np.array_equal(one.ranges, both.ranges[:, n])
    assert np.array_equal(Atlas(service, run).cells, both.cells[:, 0])


def test_json_has_the_same_octets(files, document):  # noqa: F811
    service, folder = files
    run = save(folder, file_of([{"shape": [1, 2, 70, 200], "is_causal": True}, {"shape": [1, 1, 9, 5]}], np.random.default_rng(6)), 32)
    for pool in ("max", "mean", "both"):
        answer = get(service, run, f"pool={pool}&max_side=32").json()
        schema(document, "RunAtlas").validate(answer)
        binary = Atlas(service, run, f"pool={pool}&max_side=32")
        assert answer["max_side"] == 32 and answer["pool"] == pool and answer["transform"] == "linear"
        for i, head in enumerate(answer["thumbnails"]):
            rows, cols = head["shape"]
            each = binary.cells[i].reshape(-1, 32, 32)
            limits = binary.ranges[i].reshape(-1, 2)
            for n, name in enumerate(("max", "mean") if pool == "both" else [pool]):
                cells = np.frombuffer(base64.b64decode(head[name]), np.uint8).reshape(rows, cols)
                assert np.array_equal(cells, each[n, :rows, :cols])
                assert np.allclose(head["range" if n == 0 else "mean_range"], limits[n])


@pytest.fixture(scope="module")
def mixed(files):
    """Two layers as sites, three in an axis of layers, and cross-attention."""
    sites = [{"layer": 0, "kind": "encoder", "name": "low"}, {"layer": 1, "kind": "encoder"},
             {"layer": 1, "kind": "decoder", "axes": ["layer", "batch", "head"], "shape": [3, 2, 2, 12, 12]},
             {"layer": 1, "kind": "cross", "shape": [2, 4, 12, 30]}]
    return save(files[1], file_of(sites, np.random.default_rng(7)), 33)


def test_selection(files, mixed):
    service, _ = files
    each = {0: (0, 2, 3), 1: (1, 2, 3), 3: (1, 2, 4)}
    want = [(s, layer, b, h) for s in (0, 1) for layer, B, H in [each[s]] for b in range(B) for h in range(H)]
    want += [(2, 1 + n, b, h) for n in range(3) for b in range(2) for h in range(2)]
    want += [(3, 1, b, h) for b in range(2) for h in range(4)]
    whole = Atlas(service, mixed)
    assert whole.places() == want
    for query, keep in (("kind=encoder", lambda s, n, b, h: s < 2), ("layer=1", lambda s, n, b, h: n == 1),
                        ("layer=3", lambda s, n, b, h: n == 3), ("layer=2&kind=decoder&batch=1", lambda s, n, b, h: n == 2 and b == 1),
                        ("sites=low,3", lambda s, n, b, h: s in (0, 3)), ("batch=1", lambda s, n, b, h: b == 1),
                        ("heads=0", lambda s, n, b, h: h == 0), ("heads=all", lambda *_: True)):
        part = Atlas(service, mixed, query)
        chosen = [i for i, place in enumerate(want) if keep(*place)]
        assert part.places() == [want[i] for i in chosen], query
        assert np.array_equal(part.cells, whole.cells[chosen]) and np.array_equal(part.ranges, whole.ranges[chosen])
    assert [p[3] for p in Atlas(service, mixed, "sites=1,0&heads=2,0&batch=0").places()] == [2, 0, 2, 0]
    assert [p[0] for p in Atlas(service, mixed, "sites=1,0&heads=2,0&batch=0").places()] == [1, 1, 0, 0]


@pytest.mark.parametrize("query, pointer, word", [
    ("max_side=7", "/max_side", "8"), ("max_side=129", "/max_side", "128"), ("pool=min", "/pool", "max"), ("cells=64", "/cells", "called \"max_side\""), ("planes=max", "/planes", "called \"pool\""),
    ("transform=exp", "/transform", "sqrt"),
    ("sites=nine", "/sites", "nine"), ("sites=4", "/sites", "4"), ("kind=self", "/kind", "no site"), ("layer=9", "/layer", "no site"),
    ("heads=2", "/heads", "2 heads"), ("sites=3&heads=4", "/heads", "4 heads"), ("batch=2", "/batch", "2 batch"), ("heads=", "/heads", ""),
    ("heads=mean", "/heads", "all"), ("site=0", "", "site"),
])
def test_refusals(files, mixed, query, pointer, word):
    problem = get(files[0], mixed, query, 422).json()
    assert problem["pointer"].startswith(pointer) and word in problem["detail"], problem


def test_clients_keep_the_answer(files, mixed):
    service, _ = files
    first = get(service, mixed)
    assert first.headers["Cache-Control"].endswith("immutable")
    again = get(service, mixed, status=304, headers={"If-None-Match": first.headers["ETag"]})
    assert not again.content
    assert get(service, mixed, "max_side=32").headers["ETag"] != first.headers["ETag"]
    packed = get(service, mixed, headers=SAFETENSORS)
    plain = get(service, mixed, headers=SAFETENSORS | {"Accept-Encoding": "identity"})
    assert packed.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert packed.content == plain.content and int(packed.headers["Content-Length"]) < int(plain.headers["Content-Length"]) / 4


def test_a_long_one_is_a_job(files):
    service, folder = files
    run = save(folder, file_of([{"is_causal": True, "layer": n} for n in range(3)], np.random.default_rng(8), L=500, B=1), 34)
    path = f"/v1/runs/{run}/atlas?max_side=50"
    done = ended(service, begin(service, path, {"Prefer": "respond-async, wait=0"} | SAFETENSORS))
    assert (done["state"], done["progress"], done["result"]) == ("done", 1, path)
    kept = service.get(path, headers=SAFETENSORS | {"Prefer": "respond-async, wait=0"})
    assert kept.status_code == 200 and load(kept.content)["cells"].shape == (9, 50, 50)
    again = save(folder, file_of([{"is_causal": True, "layer": n} for n in range(3)], np.random.default_rng(8), L=500, B=1), 35)
    assert get(service, again, "max_side=50", headers=SAFETENSORS).content == kept.content


def test_damage_is_seen(start, tmp_path):
    """A bit of the key of head 4: thumbnails of heads in other blocks of the file are answered."""
    daemon = start("--runs-dir", str(tmp_path))
    run = ask(daemon, {"query": {"shape": [1, 8, 1100, 256], "random": "normal", "seed": 1}, "is_causal": True, "store": True,
                       "return": []})["run"]["id"]
    want = Atlas(daemon, run, "heads=0,7").cells
    data = bytearray((tmp_path / f"{run}.safetensors").read_bytes())
    size = int.from_bytes(data[:8], "little")
    first, end = json.loads(data[8:8 + size])["sites.0.query"]["data_offsets"]
    assert end - first > 8 << 20
    data[8 + size + first + (end - first) * 9 // 16] ^= 64
    (tmp_path / ("a" * 32 + ".safetensors")).write_bytes(data)
    assert "damaged" in get(daemon, "a" * 32, "", 500).json()["detail"]
    get(daemon, "a" * 32, "heads=4", 500)
    assert np.array_equal(Atlas(daemon, "a" * 32, "heads=0,7").cells, want)
