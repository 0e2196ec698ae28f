"""What the API tests share: asking, comparing with the oracle, looking at problems."""
import numpy as np

from oracle import tensors
from oracle.attention import attention, served

TOLERANCE = 1e-6  # a unit of magnitude, for float32 answers to small random requests


def ask(daemon, body, path="/v1/attention", **kwargs):
    """The answer to a request that must be fine."""
    reply = daemon.post(path, body, **kwargs)
    assert reply.status_code == 200, reply.text
    return reply.json()


def refused(daemon, body, code, pointer, *words, path="/v1/attention", status=422):
    """A request that must be refused in this way; every one of `words` stands in the detail."""
    reply = daemon.post(path, body)
    problem = reply.json()
    assert (reply.status_code, problem["code"], problem.get("pointer")) == (status, code, pointer), problem
    assert reply.headers["Content-Type"] == "application/problem+json"
    for word in words:
        assert word in problem["detail"], problem
    return problem


def array(nested):
    """Nested lists of an answer, null as NaN."""
    return np.array(_plain(nested), dtype=np.float64)


def _plain(x):
    if isinstance(x, list):
        return [_plain(item) for item in x]
    return np.nan if x is None else x


def close(got, expected, tolerance=TOLERANCE):
    """An answered tensor equals the oracle's: null exactly where that is not finite."""
    got, expected = array(got), np.asarray(expected, np.float64)
    assert got.shape == expected.shape or got.size == expected.size == 0, (got.shape, expected.shape)
    if expected.size == 0:
        return
    finite = np.isfinite(expected)
    assert np.array_equal(np.isfinite(got), finite)
    error = np.abs(got - expected)[finite] / np.maximum(1, np.abs(expected[finite]))
    assert error.max(initial=0) <= tolerance, error.max()


def like_oracle(daemon, body, tolerance=TOLERANCE):
    """Ask, compare every tensor of the answer with the oracle's, and give the answer."""
    answer = ask(daemon, body)
    expected = served(body)
    assert set(expected) <= set(answer), (set(expected), set(answer))
    for name, value in expected.items():
        close(answer[name], value, tolerance)
    return answer


def normal(*shape, seed=0):
    """A random tensor as nested lists that are exact in float32."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return values.astype(np.float64).tolist()


def qkv(B=None, H=None, L=3, S=5, E=4, Ev=None, Hkv=None, seed=0):
    """query, key, value with the axes that are given."""
    lead = [n for n in (B,) if n is not None]
    heads = [] if H is None else [H]
    kv_heads = [] if H is None else [Hkv or H]
    return {
        "query": normal(*lead, *heads, L, E, seed=seed),
        "key": normal(*lead, *kv_heads, S, E, seed=seed + 1),
        "value": normal(*lead, *kv_heads, S, Ev or E, seed=seed + 2),
    }


__all__ = ["TOLERANCE", "array", "ask", "attention", "close", "like_oracle", "normal", "qkv", "refused",
           "served", "tensors"]
