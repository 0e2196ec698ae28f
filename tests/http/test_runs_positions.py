"""Positions that lib/runs/FORMAT.md describes in words: rotation before a capture is made, and Shaw's table of values."""
import numpy as np
from api_client import ask
from captured import store
from kept_captures import file_of
from oracle import captures

L, E, EV = 7, 8, 5


def capture(**site):
    return file_of([site], np.random.default_rng(1), L=L, B=1, H=2, E=E)


def rotated(x):
    """Pairs (e, e + E/2), turned by position times 10000^(-2e/E) (Su et al. 2021)."""
    angle = np.arange(L)[:, None] * 10000.0 ** (-2 * np.arange(E // 2) / E)
    a, b = x[..., :E // 2], x[..., E // 2:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def test_queries_and_keys_after_rotation(daemon):
    """They give the weights that the service computes from those before it, and its own file says rotary."""
    file = capture(is_causal=True)
    before = {part: file.tensors[f"sites.0.{part}"][1] for part in ("query", "key")}
    body = {part: x.tolist() for part, x in before.items()}
    own = ask(daemon, body | {"position": {"kind": "rotary", "layout": "halves"}, "is_causal": True, "store": True, "return": ["weights"]})
    for part, x in before.items():
        file.tensors[f"sites.0.{part}"] = ("F32", rotated(x).astype("<f4").astype(float))
    recorded = store(daemon, captures.write(file))
    assert [run["sites"][0]["position"] for run in (own["run"], recorded)] == ["rotary", "none"]
    for head in range(2):
        want = own["weights"][0][head]
        for run in (own["run"], recorded):
            got = daemon.get(f"/v1/runs/{run['id']}/weights?head={head}").json()["weights"]
            assert np.abs(np.array(got) - want).max() < 1e-6


def test_the_table_of_values_changes_outputs_alone(daemon):
    r = np.random.default_rng(2)
    tables = {"keys": r.standard_normal((5, E)), "values": r.standard_normal((5, EV))}
    value = r.standard_normal((1, 2, L, EV))
    answers = []
    for more in ({}, {"value_table": "values"}):
        file = capture(position={"kind": "shaw", "key_table": "keys"} | more)
        for name, x in (tables | {"sites.0.value": value}).items():
            file.tensors[name] = ("F32", x)
        run = store(daemon, captures.write(file))["id"]
        what = ask(daemon, {"hide": [], "head": 1, "return": ["output_before", "weights_before"]}, f"/v1/runs/{run}/what-if")
        answers.append([np.array(what[name]) for name in ("weights_before", "output_before")])
    (w, plain), (same, shifted) = answers
    assert np.array_equal(w, same)
    distance = np.clip(np.arange(L) - np.arange(L)[:, None], -2, 2) + 2
    assert np.abs(plain - w @ value[0, 1]).max() < 1e-5
    assert np.abs(shifted - plain - np.einsum("ij,ije->ie", w, tables["values"][distance])).max() < 1e-5
