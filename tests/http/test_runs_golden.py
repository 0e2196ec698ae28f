"""The text of run files (lib/runs/FORMAT.md) stays as it was: tests/http/golden has that of each form, by its request."""
import json
from pathlib import Path

import pytest
from conftest import Daemon
from test_api_runs import FORMS, MASKED, Stored, literal

TEXTS = Path(__file__).parent / "golden" / "texts.json"
SAID = {
    "labels": {"labels": {"query": list("abcdef" * 10), "key": ["<s>"] + ["t"] * 299}},
    "axes": {"query": literal(3, 2, 4, 6, 4, seed=1), "key": literal(3, 2, 4, 7, 4, seed=2),
             "value": literal(3, 2, 4, 7, 4, seed=3), "axes": ["layer", "batch", "head"]},
    "local": {"pattern": {"kind": "local", "radius": 3}, "allow_nonfinite": True},
    "block": {"pattern": {"kind": "block", "size": 8}, "dropout_p": 0.5, "seed": 2**62},
    "global": {"pattern": {"kind": "global", "num_keys": 2, "local": 1}, "precision": "fast"},
    "left": {"position": {"kind": "t5", "table": literal(8, 4, seed=4), "bidirectional": False}},
    "turned": {"position": {"kind": "rotary", "layout": "interleaved", "base": 500, "dims": 8}},
    "padded": {"key_padding_mask": [[True] * 299 + [False]] * 2, "key_padding_semantics": "keep"},
    "BLHE": {"query": literal(2, 60, 4, 16, seed=1), "key": literal(2, 300, 2, 16, seed=2),
             "value": literal(2, 300, 2, 6, seed=3), "layout": "BLHE", "is_causal": True},
}


def text_of(path):
    """What the file says, without the kernel table, and the tensors in the order of the file."""
    data = path.read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    text = header.pop("__metadata__")["run"]
    kernel = json.loads(text)["sites"][0]["kernel"]
    return {"run": text.replace(f'"kernel":"{kernel}"', '"kernel":""'),
            "tensors": [[name, t["dtype"], t["shape"]] for name, t in header.items()]}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    daemon = Daemon("--runs_dir", str(folder))

    def store(body):
        reply = daemon.post("/v1/attention", body | {"store": True, "return": []})
        assert reply.status_code == 200, reply.text
        return folder / f"{reply.json()['run']['id']}.safetensors"

    yield store
    daemon.stop()


@pytest.mark.parametrize("form", FORMS | SAID)
def test_text_of_each_form(stored, form):
    assert text_of(stored(MASKED | (FORMS | SAID)[form])) == json.loads(TEXTS.read_text())[form]


def test_a_newer_format_is_refused_by_name_and_others_are_served(start, tmp_path):
    run = Stored(start("--runs_dir", str(tmp_path)), MASKED)
    other = "f" * 32
    text = json.dumps({"version": 3, "sites": []})
    header = json.dumps({"__metadata__": {"run": text}}).encode()
    (tmp_path / f"{other}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    daemon = start("--runs_dir", str(tmp_path))
    problem = daemon.get(f"/v1/runs/{other}")
    assert problem.status_code == 500 and problem.json()["code"] == "damaged" and "format 3" in problem.json()["detail"]
    assert daemon.get(f"/v1/runs/{run.id}").status_code == 200
