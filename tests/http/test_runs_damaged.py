"""Stored runs whose files were changed: every bit that an answer is computed from is checked before the answer goes
out. A damaged file is a problem for that run alone, and never an answer with other numbers."""
import json

import numpy as np
import pytest
from test_api_runs import FORMS, MASKED, NPY, Stored, literal, npy

LONG = {"query": literal(2, 1100, 8, seed=1), "is_causal": True}
VIEWS = ("", "/weights?rows=0:60&head={h}", "/rows?rows=3&head={h}", "/top-k?k=2&heads=all", "/cells?row=5&col=4&head={h}",
         "/tiles?level=0&encoding=f32&head={h}", "/tiles?level=1&encoding=f32&normalize=row_max&head=mean",
         "/tiles?level=0&encoding=f32&head={h}&against={good}", "/heatmap", "/metrics", "/atlas?heads={h}", "/heads?heads={h}")


def answers(daemon, run, head, good=None):
    replies = [daemon.get("/v1/runs/" + run + view.format(h=head, good=good or run)) for view in VIEWS]
    return [(r.status_code, b"" if i == 0 else r.content) for i, r in enumerate(replies)]


@pytest.mark.parametrize("form", ["booleans", "padding", "t5", "shaw", "rotary", "additive score", "cache", "BLD", "float64"])
def test_flipped_bits(start, tmp_path, form):
    """One bit a file, in the header, in every tensor, in statistics. Each is refused, or it is in a head or a part that
    the view does not need and the answer is that of before."""
    daemon = start("--runs_dir", str(tmp_path))
    run = Stored(daemon, MASKED | FORMS[form] | {"query": literal(1, 4, 60, 16, seed=1) if form != "BLD" else
                                                 FORMS[form]["query"]})
    before = {h: answers(daemon, run.id, h) for h in (0, 3)}
    assert all(code in (200, 204) for h in before for code, _ in before[h])
    file = tmp_path / f"{run.id}.safetensors"
    data = file.read_bytes()
    rng = np.random.default_rng(len(form))
    refused = 0
    for trial in range(12):
        bad = bytearray(data)
        at = int(rng.integers(0, len(data)))
        bad[at] ^= 1 << int(rng.integers(0, 8))
        name = f"{rng.bytes(16).hex()}"
        (tmp_path / f"{name}.safetensors").write_bytes(bad)
        for h, then in before.items():
            for view, now, was in zip(VIEWS, answers(daemon, name, h, run.id), then, strict=True):
                assert now == was or (view == "" and now[0] == 200) or now[0] == 500, (trial, at, view)
                refused += now[0] == 500
        (tmp_path / f"{name}.safetensors").unlink()
    assert refused > 12
    assert answers(daemon, run.id, 0) == before[0]


def test_a_damaged_overview(start, tmp_path):
    daemon = start("--runs_dir", str(tmp_path))
    run = Stored(daemon, LONG)
    data = (tmp_path / f"{run.id}.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8:8 + size])["sites.0.overview.2.max"]["data_offsets"]
    bad = bytearray(data)
    bad[8 + size + (begin + end) // 2] ^= 64
    (tmp_path / ("a" * 32 + ".safetensors")).write_bytes(bad)
    assert daemon.get(f"/v1/runs/{'a' * 32}/tiles?level=2&x=1&y=1").status_code == 500
    assert np.array_equal(npy(run.get("/weights?rows=0:20", headers=NPY)), run.weights[0, 0, :20])


def test_an_imported_run_is_checked_in_every_view(start, tmp_path):
    daemon = start("--runs_dir", str(tmp_path))
    run = Stored(daemon, MASKED)
    reply = daemon.post("/v1/runs", data=(tmp_path / f"{run.id}.safetensors").read_bytes(),
                        headers={"Content-Type": "application/vnd.safetensors"})
    assert reply.status_code == 201, reply.text
    name = reply.json()["id"]
    other = start("--runs_dir", str(tmp_path))
    file = tmp_path / f"{name}.safetensors"
    bad = bytearray(file.read_bytes())
    bad[-20] ^= 1
    file.write_bytes(bad)
    assert other.get(f"/v1/runs/{name}/weights?head=3").status_code == 500
    for view in (f"{name}/tiles?head=mean", f"{run.id}/tiles?head=3&against={name}", f"{run.id}/tiles?head=mean&against={name}"):
        assert other.get(f"/v1/runs/{view}").status_code == 500, view
    assert other.get(f"/v1/runs/{run.id}/tiles?head=mean").status_code == 200
