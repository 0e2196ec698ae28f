"""Stored runs of mixed heads: weights are counted by output head, the scores of the stages before them by query head."""
import numpy as np
import pytest
from api_client import array, ask

QKV = {"query": {"shape": [2, 4, 5, 6], "random": "normal", "seed": 1}, "key": {"shape": [2, 2, 7, 6], "random": "normal", "seed": 2},
       "value": {"shape": [2, 1, 7, 3], "random": "normal", "seed": 3}, "is_causal": True}
RNG = np.random.default_rng(5)
MIXES = {"subtract": ({"subtract": {"lambda": 0.5, "pairs": "halves"}}, 2), "fewer": ({"mix": {"weights": RNG.standard_normal((3, 4)).tolist()}}, 3),
         "more": ({"mix": {"weights": RNG.standard_normal((6, 4)).tolist(), "logits": RNG.standard_normal((4, 4)).tolist()}}, 6)}


def get(daemon, run, what):
    reply = daemon.get(f"/v1/runs/{run}/weights?batch=1&{what}")
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("name", MIXES)
def test_heads_of_stages(daemon, name):
    fields, outputs = MIXES[name]
    answer = ask(daemon, QKV | fields | {"store": True, "return": ["weights", "scores"], "score_stage": ["raw", "scaled", "biased"]})
    run = answer["run"]["id"]
    assert np.array_equal(array(get(daemon, run, "heads=all")["weights"]), array(answer["weights"][1])) and len(answer["weights"][1]) == outputs
    for stage, scores in answer["scores"].items():
        whole = array(get(daemon, run, f"heads=all&stage={stage}")["scores"])
        assert whole.shape == (4, 5, 7) and np.array_equal(whole, array(scores[1]), equal_nan=True)
        for h in range(4):
            assert np.array_equal(array(get(daemon, run, f"head={h}&stage={stage}")["scores"]), whole[h], equal_nan=True)
        reply = daemon.get(f"/v1/runs/{run}/weights?head=4&stage={stage}").json()
        assert reply["pointer"] == "/head" and "4 heads" in reply["detail"]
    reply = daemon.get(f"/v1/runs/{run}/weights?head={outputs}").json()
    assert reply["pointer"] == "/head" and f"{outputs} heads" in reply["detail"]


def test_no_heads_to_mix(daemon):
    """Weights of output heads without heads that are read are refused: a stored run of them answered memory that was never written."""
    none = {"shape": [1, 0, 2, 3], "data": []}
    body = {"query": none, "key": none, "value": none, "mix": {"weights": {"shape": [3, 0], "data": []}}, "store": True}
    reply = daemon.post("/v1/attention", body)
    assert reply.status_code == 422 and reply.json()["pointer"] == "/mix/weights" and "none" in reply.json()["detail"], reply.text
