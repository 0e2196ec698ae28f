"""A run that the library wrote site by site (attn/run_writer.h): the safetensors library and the service read it."""
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from conftest import BINARY, PATIENCE

WRITER = Path(BINARY).resolve().parent / "tests/unit/test_run_writer"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "run.safetensors"
    subprocess.run([WRITER], env={**os.environ, "ATTN_TEST_FILE": str(path)}, check=True, capture_output=True,
                   timeout=PATIENCE)
    return path


def weights_of(tensors, site, masks):
    """Weights [B, H, L, S] as NumPy computes them from the file."""
    query, key = tensors[f"sites.{site}.query"], tensors[f"sites.{site}.key"]
    bits, bias = (tensors[mask["values"]] for mask in masks)
    keep = np.unpackbits(bits, axis=-1, count=key.shape[-2], bitorder="little").astype(bool)
    scores = query.astype(float) @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]) + bias
    scores = np.where(keep, scores, -np.inf)
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return terms / terms.sum(axis=-1, keepdims=True)


def test_written_runs_are_read(daemon, written):
    with safe_open(written, framework="numpy") as file:
        run = json.loads(file.metadata()["run"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    pads = [name for name in tensors if name.startswith("pad.")]
    assert len(pads) == 1 and not tensors[pads[0]].any()
    made = daemon.post("/v1/runs", written.read_bytes(),
                       headers={"Content-Type": "application/vnd.safetensors"})
    assert made.status_code == 201, made.text
    for number, site in enumerate(run["sites"]):
        assert [mask["values"] for mask in site["masks"]] == ["sites.0.masks.0", "sites.0.masks.1"]  # site 0 stays
        expected = weights_of(tensors, number, site["masks"])
        for head in range(expected.shape[1]):
            part = daemon.get(f"{made.headers['Location']}/weights?site={number}&head={head}&rows=0:24&cols=0:24")
            assert part.status_code == 200, part.text
            np.testing.assert_allclose(np.array(part.json()["weights"]), expected[0, head], atol=1e-6)
