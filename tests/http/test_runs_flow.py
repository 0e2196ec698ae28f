"""GET /v1/runs/{id}/flow: rows of the attention flow, against augmenting paths in whole numbers, and its bounds."""
import io
from collections import deque

import numpy as np
import pytest
from conftest import Daemon
from kept_captures import file_of, save, weights
from safetensors.numpy import load
from test_api_async import NOW, ended
from test_api_index import document, schema  # noqa: F401, a fixture

UNIT = 1 << 50  # of the oracle's capacities
TOLERANCE = {"F32": 3e-7, "F64": 1e-10}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    service = Daemon("--runs-dir", str(folder), "--workers", "2")
    yield service, folder
    service.stop()


def get(service, run, query, status=200, route="flow", **kwargs):
    reply = service.get(f"/v1/runs/{run}/{route}?{query}", **kwargs)
    assert reply.status_code == status, reply.text
    return reply


def flows(service, run, query, route="flow"):
    return np.array(get(service, run, query, route=route).json()[route], np.float64)


def steps(w, residual=0.5, heads=slice(None)):
    """[layers, H, L, L] -> [layers, L, L], the capacities from the tokens above a layer to those below it."""
    a = (1 - residual) * w[:, heads].mean(1) + residual * np.eye(w.shape[-1])
    sums = a.sum(2, keepdims=True)
    return a / np.where(sums == 0, 1, sums)


def max_flow(a, source, sink):
    """Edmonds and Karp (1972): shortest augmenting paths, in whole numbers, so that nothing is rounded."""
    layers, n = a.shape[:2]
    left = [{} for _ in range((layers + 1) * n)]
    for k in range(layers):
        for i in range(n):
            for j in range(n):
                capacity = int(round(a[k, i, j] * UNIT))
                if capacity:
                    left[(k + 1) * n + i][k * n + j] = capacity
                    left[k * n + j].setdefault((k + 1) * n + i, 0)
    start, total = layers * n + source, 0
    while True:
        came, todo = {start: None}, deque([start])
        while todo and sink not in came:
            u = todo.popleft()
            for v, capacity in left[u].items():
                if capacity and v not in came:
                    came[v] = u
                    todo.append(v)
        if sink not in came:
            return total / UNIT
        path = [sink]
        while came[path[-1]] is not None:
            path.append(came[path[-1]])
        edges = list(zip(path[1:], path))
        got = min(left[u][v] for u, v in edges)
        for u, v in edges:
            left[u][v] -= got
            left[v][u] += got
        total += got


def whole(a):
    n = a.shape[1]
    return np.array([[max_flow(a, i, j) for j in range(n)] for i in range(n)])


def test_the_oracle():
    """Two paths of 0.5 share a node of the middle unless the first gives way."""
    a = np.array([[[1, 0], [0.5, 0]], [[0.5, 0.5], [0.5, 0]], [[0.5, 0.5], [0, 0]]])
    assert max_flow(a, 0, 0) == 1 and max_flow(a, 1, 0) == 0 and max_flow(a, 0, 1) == 0


MASKS = {
    "plain": [{}] * 3,
    "causal": [{"is_causal": True}] * 3,
    "windows": [{"is_causal": True, "window": [2, 0]}, {"window": [1, 1]}, {"is_causal": True}],
    "unequal heads": [{"shape": [2, h, 7, 7]} for h in (1, 4, 2)],
    "blind rows": [{"is_causal": True, "query_offset": -3}] * 3,
    "many layers": [{"window": [1, 1]}] * 8,
}


@pytest.mark.parametrize("dtype", ["F32", "F64"])
@pytest.mark.parametrize("name", MASKS)
def test_rows_of_sites(files, name, dtype):
    service, folder = files
    sites = [{"layer": n} | site for n, site in enumerate(MASKS[name])]
    file = file_of(sites, np.random.default_rng(3), L=7, dtype=dtype, spread=2.5)
    run = save(folder, file, 10 + 2 * list(MASKS).index(name) + (dtype == "F64"))
    w = [weights(file, n) for n in range(len(sites))]
    above = False
    for b in range(2):
        for residual in (0.5, 0.1, 0):
            want = whole(np.stack([steps(layer[b][None], residual)[0] for layer in w]))
            for query, rows in (("rows=6", [6]), ("rows=5,0:2", [5, 0, 1]), ("", range(7))):
                query += f"&batch={b}&residual={residual}"
                got = flows(service, run, query)
                rolled = flows(service, run, query, "rollout")
                assert np.abs(got - want[list(rows)]).max() < TOLERANCE[dtype], query
                assert (got >= rolled - TOLERANCE[dtype]).all(), query
                above |= (got > rolled + 0.01).any()
    assert above


def test_sizes_and_spreads(files):
    """Peaked weights, of which flow has to be sent back more often."""
    service, folder = files
    r = np.random.default_rng(12)
    for n in range(24):
        L, layers = int(r.integers(1, 9)), int(r.integers(1, 6))
        sites = [{"layer": k, "is_causal": bool(r.integers(2))} for k in range(layers)]
        file = file_of(sites, r, L=L, B=1, H=int(r.integers(1, 3)), dtype="F64", spread=float(r.choice([0.1, 1, 3, 8])))
        run, residual = save(folder, file, 100 + n), float(r.choice([0, 0.05, 0.5, 1]))
        got = flows(service, run, f"residual={residual}")
        assert np.abs(got - whole(steps(weights(file)[:, 0], residual))).max() < 1e-10, n


def test_one_layer_is_the_rollout(files):
    service, folder = files
    file = file_of([{"is_causal": True}, {"layer": 1}], np.random.default_rng(4), L=150, B=1, dtype="F64")
    run = save(folder, file, 40)
    for layer in range(2):
        query = f"from_layer={layer}&to_layer={layer + 1}&rows=0,149,70:75&heads=2,0&residual=0.3"
        assert np.abs(flows(service, run, query) - flows(service, run, query, "rollout")).max() < 1e-15


@pytest.mark.parametrize("causal", [True, False])
def test_bounds(files, causal):
    """A flow is at most what leaves the token above and what enters the token below, and at least the rollout."""
    service, folder = files
    file = file_of([{"layer": n, "is_causal": causal} for n in range(6)], np.random.default_rng(5), L=90, dtype="F64", spread=2)
    run, rows = save(folder, file, 41 + causal), [0, 1, 44, 88, 89]
    a = steps(weights(file)[:, 1])
    got = flows(service, run, "batch=1&rows=" + ",".join(map(str, rows)))
    rolled = flows(service, run, "batch=1&rows=" + ",".join(map(str, rows)), "rollout")
    for f, r, i in zip(got, rolled, rows):
        reach = i + 1 if causal else 90
        assert (f >= r - 1e-12).all() and (f[reach:] == 0).all()
        assert (f <= 1 + 1e-12).all() and (f <= a[0, :reach].sum(0) + 1e-12).all()
        # the path that stays with the token carries at least its smallest edge
        assert f[i] >= min(layer[i, i] for layer in a) - 1e-12


def test_the_number_of_threads_changes_no_byte(files):
    """Nor do other rows that are asked for. 64 threads would need 300 MB for copies of the capacities, so that fewer work."""
    service, folder = files
    file = file_of([{"layer": n, "is_causal": n == 0} for n in range(12)], np.random.default_rng(6), L=220, B=1, H=2)
    run = save(folder, file, 43)
    want = get(service, run, "rows=219,60").content
    for workers in ("1", "3", "64"):
        other = Daemon("--runs-dir", str(folder), "--workers", workers)
        try:
            assert get(other, run, "rows=219,60").content == want
        finally:
            other.stop()
    both = flows(service, run, "rows=219,60")
    assert np.array_equal(both[0], flows(service, run, "rows=219")[0])
    assert np.array_equal(both[1], flows(service, run, "rows=60")[0])


def test_options_and_media_types(files, document):  # noqa: F811
    service, folder = files
    file = file_of([{"is_causal": True, "layer": n} for n in range(6)], np.random.default_rng(7), L=8)
    run, w = save(folder, file, 44), weights(file)[:, 1]
    query = "rows=7,3&batch=1&from_layer=2&to_layer=5&heads=2,0&residual=0.2"
    answer = get(service, run, query).json()
    schema(document, "RunFlow").validate(answer)
    want = whole(steps(w[2:5], 0.2, [2, 0]))[[7, 3]]
    assert answer["layers"] == [2, 3, 4] and np.abs(np.array(answer["flow"]) - want).max() < 1e-6
    for accept, read in (("application/x-npy", lambda x: np.load(io.BytesIO(x))),
                         ("application/vnd.safetensors", lambda x: load(x)["flow"])):
        got = read(get(service, run, query, headers={"Accept": accept}).content)
        assert got.dtype == np.float32 and np.abs(got - want).max() < 1e-6
    assert get(service, run, query, headers={"Accept": "text/plain"}).text.startswith("flow (2, 8):")
    assert get(service, run, "rows=3&decimals=2").json()["flow"][0][0] in [round(n / 100, 2) for n in range(101)]


def test_refusals(files):
    service, folder = files
    sites = [{"kind": "decoder", "layer": n, "shape": [2, 2, 6, 6]} for n in range(2)] + [{"kind": "cross", "shape": [2, 2, 6, 9]}]
    run = save(folder, file_of(sites, np.random.default_rng(8)), 45)
    for query, pointer, word in (("kind=cross", "/kind", "flow goes"), ("site=2", "/site", "flow goes from layer"),
                                 ("batch=2", "/batch", "2 batch"), ("rows=6", "/rows", "6"), ("residual=1.5", "/residual", "1"),
                                 ("from_layer=2", "/from_layer", "no layer"), ("heads=2", "/heads", "2 heads")):
        problem = get(service, run, query, 422).json()
        assert problem["pointer"] == pointer and word in problem["detail"], problem


def test_limits(files):
    """The limit counts the tokens that the rows reach, so an early row of a long causal run is allowed."""
    service, folder = files
    r = np.random.default_rng(9)
    causal = save(folder, file_of([{"layer": n, "is_causal": True} for n in range(2)], r, L=700, B=1, H=1), 46)
    plain = save(folder, file_of([{"layer": n} for n in range(2)], r, L=513, B=1, H=1), 47)
    windows = save(folder, file_of([{"layer": n, "window": [9, 9]} for n in range(2)], r, L=5000, B=1, H=1), 48)
    got = flows(service, causal, "rows=511")
    assert got.shape == (1, 700) and (got[0, :512] > 0).all() and not got[0, 512:].any()
    got = flows(service, windows, "rows=2500")[0]
    assert np.array_equal(np.flatnonzero(got), np.arange(2482, 2519))
    for run, query in ((causal, "rows=512"), (causal, "rows=0,699"), (plain, "rows=0"), (windows, "rows=0,4000")):
        for headers in ({}, NOW):
            problem = get(service, run, query, 413, headers=headers).json()
            assert problem["pointer"] == "/rows" and "at most 512 tokens (ATTN_RUN_FLOW_TOKENS)" in problem["detail"], problem


@pytest.mark.parametrize("setting, value, pointer", [("max_operations", "1e7", "/rows"), ("max_cells", "1e4", "/rows"),
                                                     ("max_request_bytes", "200000", None)])
def test_settings_bound_it(tmp_path, setting, value, pointer):
    service = Daemon("--runs-dir", str(tmp_path), "--" + setting.replace("_", "-"), value)
    try:
        run = save(tmp_path, file_of([{"layer": n} for n in range(4)], np.random.default_rng(10), L=60, B=1, H=2), 1)
        problem = get(service, run, "rows=3", 413).json()
        assert problem["limit"]["setting"] == setting and problem.get("pointer") == pointer, problem
    finally:
        service.stop()


def test_it_is_a_look(files, tmp_path):
    """A job computes the same, the deadline stops it, and the memory is given back."""
    service, folder = files
    file = file_of([{"layer": n} for n in range(12)], np.random.default_rng(11), L=256, B=1, H=2)
    run = save(folder, file, 49)
    hurried = Daemon("--runs-dir", str(folder), "--request-timeout-ms", "150")
    try:
        problem = get(hurried, run, "rows=0:256", 504).json()
        assert "respond-async" in problem["detail"]
        assert get(hurried, run, "rows=0&to_layer=1").status_code == 200
    finally:
        hurried.stop()
    reply = service.get(f"/v1/runs/{run}/flow?rows=7", headers=NOW)
    assert reply.status_code == 202
    job = ended(service, reply.json())
    assert (job["state"], job["progress"]) == ("done", 1) and job["result"].endswith("/flow?rows=7")
    kept = get(service, run, "rows=7")
    assert "compute" not in kept.headers.get("Server-Timing", "") or "compute;dur=0.000" in kept.headers["Server-Timing"]
    assert kept.json()["layers"] == list(range(12))
