"""Run files of each format that was ever written stay readable: small files of then, kept in tests/http/golden."""
import gzip
import json
from pathlib import Path

import numpy as np
from test_api_runs import npy

GOLDEN = Path(__file__).parent / "golden"
NPY = {"Accept": "application/x-npy"}
ID = "0123456789abcdef0123456789abcdef"


def put(directory, name):
    data = (GOLDEN / name).read_bytes()
    (directory / f"{ID}.safetensors").write_bytes(gzip.decompress(data) if name.endswith(".gz") else data)


def test_format_1_with_every_kind_of_mask(start, tmp_path):
    put(tmp_path, "run1_forms.safetensors")
    then = json.loads((GOLDEN / "run1_forms.json").read_text())
    daemon = start("--runs_dir", str(tmp_path))
    described = daemon.get(f"/v1/runs/{ID}").json()
    assert described["format"] == 1
    site, = described["sites"]
    assert site["name"] == "attention" and site["labels"] == then["run"]["sites"][0]["labels"]
    assert site["mask"] == then["run"]["sites"][0]["mask"] and site["softcap"] == 4 and site["position"] == "alibi"
    weights = np.float32(then["weights"])
    for b in range(2):
        for h in range(4):
            got = npy(daemon.get(f"/v1/runs/{ID}/weights?batch={b}&head={h}", headers=NPY))
            assert np.array_equal(got, weights[b, h]) if site["exact"] else np.allclose(got, weights[b, h], atol=1e-6)


def test_format_1_with_an_overview(start, tmp_path):
    put(tmp_path, "run1_overview.safetensors.gz")
    daemon = start("--runs_dir", str(tmp_path))
    tiles = daemon.get(f"/v1/runs/{ID}").json()["sites"][0]["tiles"]
    assert tiles["levels"] == [[1100, 1100], [550, 550], [275, 275], [138, 138]] and tiles["overview_level"] == 2
    row = 1 / np.arange(1, 1101)  # queries of zeros under a causal mask: uniform weights
    for level in range(4):
        cells = np.frombuffer(daemon.get(f"/v1/runs/{ID}/tiles?level={level}&encoding=f32").content, "<f4")
        rows = min(256, -(-1100 >> level))
        top = cells.reshape(2, rows, -1)[0, :, 0]
        assert np.allclose(top, row[::1 << level][:rows], rtol=1e-6), level


def test_a_newer_format_is_refused_by_name_and_others_are_served(start, tmp_path):
    put(tmp_path, "run1_forms.safetensors")
    other = "f" * 32
    text = json.dumps({"version": 3, "sites": []})
    header = json.dumps({"__metadata__": {"run": text}}).encode()
    (tmp_path / f"{other}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    daemon = start("--runs_dir", str(tmp_path))
    problem = daemon.get(f"/v1/runs/{other}")
    assert problem.status_code == 500 and problem.json()["code"] == "damaged" and "format 3" in problem.json()["detail"]
    assert daemon.get(f"/v1/runs/{ID}").status_code == 200
