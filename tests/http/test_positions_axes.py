"""Rotary positions on several axes, and two kinds of position: other spellings, words, pictures and dry runs."""
import json

import numpy as np

from api_client import ask
from safetensors.numpy import save

QUERY = np.random.default_rng(4).standard_normal((5, 8)).astype(np.float32)
ROW, COLUMN = [None, 0, 0, 1, 1], [None, 0, 0.5, 0, 0.5]
AXES = [{"positions": ROW, "num_pairs": 2}, {"positions": COLUMN, "num_pairs": 2}]
ROTARY = {"kind": "rotary", "layout": "halves", "axes": AXES}


def test_axes_as_binary_tensors(daemon):
    """A position without a list around it has no index in the name of its tensors; -infinity is null."""
    lists = {f"position.axes.{i}.positions": np.array([-np.inf if p is None else p for p in a["positions"]], np.float32)
             for i, a in enumerate(AXES)}
    rest = {"position": ROTARY | {"axes": [{"num_pairs": 2}] * 2}, "return": ["weights"]}
    reply = daemon.post("/v1/attention", data=save({"query": QUERY, **lists}, {"request": json.dumps(rest)}),
                        headers={"Content-Type": "application/vnd.safetensors", "Accept": "application/json"})
    assert reply.status_code == 200, reply.text
    assert reply.json()["weights"] == ask(daemon, {"query": QUERY.tolist(), "position": ROTARY, "return": ["weights"]})["weights"]


def test_an_axis_is_a_rotation_by_hand(daemon):
    """Halves of a head that turn by one axis each, beside attention of rotated queries."""
    x = QUERY.astype(np.float64)
    rates = np.array([1, 0.1, 0.01, 0.001])
    at = np.array([[np.nan_to_num(np.array(a, float)) for a in (ROW, ROW, COLUMN, COLUMN)]])[0].T
    cos, sin = np.cos(at * rates), np.sin(at * rates)
    turned = np.concatenate((x[:, :4] * cos - x[:, 4:] * sin, x[:, :4] * sin + x[:, 4:] * cos), axis=1)
    want = ask(daemon, {"query": turned.tolist(), "value": x.tolist(), "key": turned.tolist(), "return": ["weights", "output"]})
    got = ask(daemon, {"query": x.tolist(), "position": ROTARY, "return": ["weights", "output"]})
    for name in ("weights", "output"):
        assert np.allclose(got[name], want[name], atol=2e-6)


def test_words(daemon):
    body = {"query": QUERY.tolist(), "position": ["alibi", ROTARY], "explain": True}
    assert ask(daemon, body)["diagnostics"]["position"] == (
        "rotary: 2 pairs by axis 0 (queries at 0 to 1, 1 without a position; keys at 0 to 1, 1 without a position), 2 pairs by "
        "axis 1 (queries at 0 to 0.5, 1 without a position; keys at 0 to 0.5, 1 without a position) and alibi: queries at i, "
        "keys at j")


def test_a_list_of_one_is_the_one(daemon):
    body = {"query": QUERY.tolist(), "return": ["weights"]}
    assert ask(daemon, body | {"position": [ROTARY]}) == ask(daemon, body | {"position": ROTARY})
    assert ask(daemon, body | {"position": ["alibi"]}) == ask(daemon, body | {"position": "alibi"})


def test_dry_run_of_two_kinds(daemon):
    body = {"query": QUERY.tolist(), "position": [ROTARY | {"frequencies": [1, 0.5, 1, 0.5]}, {"kind": "alibi", "slopes": [0.5]}],
            "grad_output": QUERY.tolist()}
    said = ask(daemon, body | {"dry_run": True})["dry_run"]
    assert said["num_parameters"] == 5
    assert said["shapes"]["gradients/position/frequencies"] == [4] and said["shapes"]["gradients/score_position/slopes"] == [1]


def test_analyses_and_heatmaps_see_both_kinds(daemon):
    body = {"query": QUERY.tolist(), "position": ["alibi", ROTARY]}
    weights = np.array(ask(daemon, body | {"return": ["weights"]})["weights"])
    answer = ask(daemon, body | {"return": ["heatmap"], "heatmap": {}, "analysis": ["entropy"]})
    assert np.array_equal(np.float32(answer["heatmap"]["heads"][0]["max"]), np.float32(weights))
    entropy = -(weights * np.log(weights)).sum(-1).mean()
    assert abs(answer["analysis"]["heads"][0]["measures"]["entropy"] - entropy) < 1e-5


def test_tables_at_positions_are_drawn(daemon):
    for body in ({"kind": "rotary", "width": 8, "axes": AXES}, {"kind": "alibi", "num_heads": 2, "query_positions": [4, None], "key_positions": [1, 9, 4]},
                 {"kind": "sinusoidal", "width": 4, "positions": [7, None, 7], "dims": [0, 3]}):
        reply = daemon.post("/v1/positions", body, headers={"Accept": "image/svg+xml"})
        assert reply.status_code == 200 and reply.text.startswith("<svg"), reply.text[:300]
    lines = daemon.post("/v1/positions", body, headers={"Accept": "text/csv"}).text.split()
    assert lines[0] == "row,0,3" and lines[1] == lines[3].replace("2,", "0,", 1) and lines[2] == "1,0,0"
