"""`attnd models check`: what it says of a directory of good, refused and hostile models."""
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from conftest import BINARY

GGUF = (Path(__file__).parents[1] / "unit/cases.gguf").read_bytes()
KNOWN = Path(__file__).parents[1] / "unit/known_models"
CONFIG = {"model_type": "bert", "hidden_size": 4}
TOKENIZER = {"model": {"type": "WordPiece", "vocab": {"a": 0, "b": 1, "c": 2}}}


def check(folder, code):
    done = subprocess.run([BINARY, "models", "check", folder], capture_output=True, text=True, timeout=120)
    assert done.returncode == code and not done.stderr, done
    return done.stdout


def container(**tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def model(folder, **files):
    """A folder with config and tokenizer, and these further files."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    for name, data in files.items():
        (folder / name).write_bytes(data)


ONE, TWO = np.ones((2, 4), np.float32), np.ones(3, np.float32)
SHARDS = {"model-1.safetensors": container(a=ONE), "model-2.safetensors": container(b=TWO)}


def index(**places):
    return {"model.safetensors.index.json": json.dumps({"metadata": {"total_size": 44}, "weight_map": places}).encode()}


def test_models_that_are_read(tmp_path):
    for name in ("llama", "bert"):
        shutil.copytree(KNOWN / name, tmp_path / name)
    shutil.copy(KNOWN / "qwen2-gguf" / "model.gguf", tmp_path / "qwen.gguf")
    lines = check(tmp_path, 0).splitlines()
    assert [line for line in lines if not line.startswith("  ")] == [
        "bert: safetensors, architecture bert", "llama: safetensors, architecture llama",
        "qwen.gguf: GGUF, version 3, architecture qwen2, \"a random model\", 12 values of metadata"]
    assert [line for line in lines if "family" in line] == ["  family bert", "  family llama", "  family qwen2"]


def test_models_that_lack_something(tmp_path):
    model(tmp_path / "whole", **{"model.safetensors": container(a=ONE, b=TWO)})
    model(tmp_path / "shards", **SHARDS, **index(a="model-1.safetensors", b="model-2.safetensors"))
    assert check(tmp_path, 1).splitlines() == [
        "shards: safetensors, 2 files and their index, architecture bert",
        "  2 tensors: 2 float32; 11 parameters",
        "  tokenizer WordPiece, 3 tokens",
        "  refused: vocab_size: the configuration lacks the key vocab_size",
        "whole: safetensors, architecture bert",
        "  2 tensors: 2 float32; 11 parameters",
        "  tokenizer WordPiece, 3 tokens",
        "  refused: vocab_size: the configuration lacks the key vocab_size",
    ]


def test_tensors_that_are_not_read(tmp_path):
    (tmp_path / "small.gguf").write_bytes(GGUF)
    assert check(tmp_path, 1).splitlines() == [
        "small.gguf: GGUF, version 3, architecture llama, 17 values of metadata",
        "  4 tensors: 1 F32, 1 Q4_1, 1 Q8_0, 1 Q6_K; 486 parameters",
        "  no tokenizer, 0 tokens",
        "  refused: numbers: tensors of type I32 are not read",
    ]


@pytest.mark.parametrize("files, said", [
    ({}, "m: refused: expected model.safetensors or model.safetensors.index.json in the folder"),
    ({"pytorch_model.bin": b"PK"}, "m: refused: m/pytorch_model.bin: a pickle is never read, "),
    ({"model.safetensors": b""}, "m: refused: m/model.safetensors: the file is empty"),
    ({"model.safetensors": container(a=ONE)[:-1]}, "m: refused: m/model.safetensors: a: "),
    ({"model.safetensors": container(a=ONE), "config.json": b"[" * 100000}, "m: refused: m/config.json: "),
    ({"model.safetensors": container(a=ONE), "config.json": b"[]"}, "m: refused: m/config.json: expected an object, found a list"),
    ({"model.safetensors": container(a=ONE), "tokenizer.json": b"{"}, "m: refused: m/tokenizer.json: "),
    ({**SHARDS, **index(a="model-1.safetensors", c="model-2.safetensors")}, "m: refused: m/model.safetensors.index.json: b: the file model-2.safetensors has it"),
    ({**SHARDS, **index(a="model-1.safetensors", b="../model-2.safetensors")}, "m: refused: m/model.safetensors.index.json: "),
    (index(a="model-1.safetensors"), "m: refused: m/model-1.safetensors: No such file or directory"),
])
def test_refused_folders(tmp_path, files, said):
    model(tmp_path / "m", **files)
    model(tmp_path / "n", **{"model.safetensors": container(a=ONE)})
    lines = check(tmp_path, 1).splitlines()
    assert lines[0].startswith(said), lines[0]
    assert lines[1] == "n: safetensors, architecture bert"  # the rest is read


@pytest.mark.parametrize("name, data, said", [
    ("cut.gguf", GGUF[:900], "cut.gguf: refused: quarter: 80 bytes at offset 64 are beyond the 68 bytes of data"),
    ("none.gguf", b"GGML" + GGUF[4:], "none.gguf: refused: at byte 0: expected \"GGUF\""),
    ("x.safetensors", b"\xff" * 100, "x.safetensors: refused: expected the length of the header"),
    ("model.pt", b"\x80\x02", "model.pt: refused: a pickle is never read"),
    ("notes.txt", b"x", "notes.txt: refused: no model has such a name"),
])
def test_refused_files(tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)
    assert check(tmp_path, 1).startswith(said), check(tmp_path, 1)


def test_no_directory(tmp_path):
    done = subprocess.run([BINARY, "models", "check", tmp_path / "none"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "No such file or directory" in done.stderr
    assert "make models" in check(tmp_path, 0)
    for options, code in (([], 2), (["check"], 2), (["--help"], 0), (["chek", tmp_path], 2)):
        done = subprocess.run([BINARY, "models", *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == code and "usage: attnd models check DIR" in done.stdout + done.stderr


def test_pipes_do_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    model(tmp_path / "m")
    os.mkfifo(tmp_path / "m/model.safetensors")
    assert check(tmp_path, 1).count("refused") == 2
