"""heads=mean of /weights and /rows: the mean of the weights over the heads of a site."""
import io

import numpy as np
import pytest
from api_client import ask
from safetensors.numpy import load
from test_api_index import document, schema  # noqa: F401, a fixture

TENSORS = {"Accept": "application/vnd.safetensors"}
L, S = 70, 130


def literal(*shape, seed, dtype="float32"):
    return {"shape": list(shape), "random": "normal", "seed": seed, "dtype": dtype}


rng = np.random.default_rng(4)
CASES = {
    "plain": {}, "float64": {"query": literal(2, 5, L, 8, seed=1, dtype="float64")}, "causal": {"is_causal": True, "query_offset": 60},
    "by head": {"attn_mask": (rng.random((5, 1, S)) < 0.3).tolist()}, "no key": {"key_lengths": [0, 9]},
    "filled": {"is_causal": True, "mask_fill": -3}, "sinks": {"sinks": [0, 1, 2, 3, 4.5]},
}


class Case:
    def __init__(self, daemon, name):
        body = {"query": literal(2, 5, L, 8, seed=1), "key": literal(2, 5, S, 8, seed=2), "value": literal(2, 5, S, 3, seed=3)} | CASES[name]
        self.daemon, self.path = daemon, "/v1/runs/" + ask(daemon, body | {"store": True, "return": []})["run"]["id"]
        self.dtype = np.float64 if name == "float64" else np.float32
        self.each = [load(self.get(f"/weights?heads=all&batch={b}&rows=0:{L}", headers=TENSORS).content)["weights"] for b in range(2)]
        self.mean = [x.astype(np.float64).mean(0) for x in self.each]

    def get(self, what, status=200, **kwargs):
        reply = self.daemon.get(self.path + what, **kwargs)
        assert reply.status_code == status, reply.text
        return reply


@pytest.fixture(scope="module", params=CASES)
def case(request, daemon):
    return Case(daemon, request.param)


def test_weights(case):
    bound = 1e-15 if case.dtype == np.float64 else 4e-8
    for b in range(2):
        got = np.load(io.BytesIO(case.get(f"/weights?heads=mean&batch={b}&rows=3,60:70&cols=5:129", headers={"Accept": "application/x-npy"}).content))
        assert got.dtype == case.dtype and got.shape == (11, 124)
        assert np.abs(got - case.mean[b][[3, *range(60, 70)], 5:129]).max() <= bound


def test_rows(case, document):  # noqa: F811
    for b in range(2):
        answer = case.get(f"/rows?heads=mean&batch={b}&rows=0:{L}").json()
        schema(document, "RunRows").validate(answer)
        assert np.abs(np.array(answer["weights"]) - case.mean[b]).max() < 1e-6 and "logsumexp" not in answer
        every = case.get(f"/rows?heads=all&batch={b}&rows=0:{L}").json()
        seen = np.ones((5, L, S), bool)
        for h, hidden in enumerate(every["hidden"]):
            for row, start, end in hidden:
                seen[h, row, start:end] = False
        want = np.ones((L, S), bool)
        for row, start, end in answer["hidden"]:
            want[row, start:end] = False
        assert np.array_equal(want, seen.any(0)) and answer["num_visible_keys"] == want.sum(1).tolist()


def test_all_rows_are_few_enough_together(daemon):
    """Four heads of 200 x 200 weights are too many unasked, and their mean is not."""
    run = Case.__new__(Case)
    body = {"query": literal(4, 200, 4, seed=1)}
    run.daemon, run.path = daemon, "/v1/runs/" + ask(daemon, {"query": literal(1, 4, 200, 4, seed=1), "store": True, "return": []})["run"]["id"]
    assert run.get("/weights?heads=all", 422).json()["pointer"] == "/rows"
    want = np.array(ask(daemon, body | {"return": ["weights"]})["weights"]).mean(0)
    assert np.abs(np.array(run.get("/weights?heads=mean").json()["weights"]) - want).max() < 1e-6
    assert run.get("/weights?heads=mean&stage=raw", 422).json()["pointer"] == "/heads"
    assert run.get("/weights?heads=mean&head=1", 422).json()["pointer"] == "/heads"
    assert run.get("/top-k?heads=mean", 422).json()["pointer"] == "/heads"
