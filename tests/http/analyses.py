"""What the tests of analyses share: weights to ask about, and what was said of them."""
import numpy as np
from api_client import ask

PATH = "/v1/analyses"
RNG = np.random.default_rng
SENTENCE = ["The", "cat", "sat", "on", "the", "mat", ".", "<pad>"]


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def weights(*shape, size=2.0, seed=0):
    return softmax(size * RNG(seed).standard_normal(shape))


def analysed(daemon, p, **fields):
    return ask(daemon, {"weights": np.asarray(p).tolist()} | fields, PATH)


def attended(daemon, q, k, **fields):
    body = {"query": np.asarray(q).tolist(), "key": np.asarray(k).tolist(), "value": np.asarray(k).tolist(),
            "return": [], "analysis": ["diagnoses", "entropy"]}
    return ask(daemon, body | fields)["analysis"]


def found(answer, code):
    """The one diagnosis with this code."""
    said = [d for d in answer["diagnoses"] if d["code"] == code]
    assert len(said) == 1, [d["code"] for d in answer["diagnoses"]]
    assert said[0]["text"].endswith((".", "?")) and len(said[0]["text"]) < 767
    return said[0]


def codes(answer):
    return {d["code"] for d in answer["diagnoses"]}


def heads(diagnosis):
    return [h["head"] for h in diagnosis["heads"]]


def chapter():
    """The four heads of the chapter's picture."""
    n = len(SENTENCE)
    near = np.eye(n) * 0.4 + np.eye(n, k=1) * 0.3 + np.eye(n, k=-1) * 0.3
    nouns, structure, full_stop = np.zeros((n, n)), np.eye(n) * 0.5, np.zeros((n, n))
    nouns[:, [1, 5]] = 0.5
    structure[0, 4] = structure[4, 0] = 0.5
    structure[1, 5] = structure[5, 1] = 0.25
    full_stop[:, -2] = 1
    return np.stack([h / h.sum(1, keepdims=True) for h in (near, nouns, structure, full_stop)])
