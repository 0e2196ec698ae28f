"""Models of files that other programs wrote, over HTTP: beside transformers (tests/tools/known_models and known_continuations made the
numbers), their texts, what is refused, and how they come and go."""
import json
import os
import shutil
import struct

import numpy as np
import pytest
from api_client import array, ask, refused
from conftest import ROOT, Daemon

SMALL = ROOT / "tests" / "unit" / "known_models"
CONTINUATIONS = json.loads((ROOT / "tests" / "http" / "known_continuations.json").read_text())
NAMES = sorted(f.name for f in SMALL.iterdir())
# A tokenizer for the 37 ids of the small models: words of WordPiece, with a template.
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "tired", "it", "##s", "##ly", "un", "##tired", ".", *"abcdefghijklmnopqrst"]
SPECIAL = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
TOKENIZER = {
    "version": "1.0",
    "added_tokens": [{"id": i, "content": WORDS[i], **SPECIAL} for i in range(5)],
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
        "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                 {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in (("[CLS]", 2), ("[SEP]", 3))},
    },
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
              "vocab": {word: i for i, word in enumerate(WORDS)}},
}


# One of bytes: a character of its own for each byte of a text, the space as Ġ.
BYTES = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(["Ġ", "Ã", "©", *"abcdefghijklmnopqrstuvwxyz", "Ġa", "Ã©"])}, "merges": ["Ġ a", "Ã ©"]},
}


def expected(name):
    """The tensors of the safetensors file of a small model."""
    data = (SMALL / name / "expected.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    kinds = {"F32": np.float32, "I32": np.int32}
    return {key: np.frombuffer(data[8 + size:][slice(*about["data_offsets"])], kinds[about["dtype"]]).reshape(about["shape"])
            for key, about in header.items() if key != "__metadata__"}


def fill(folder, names=NAMES, tokenizer=()):
    for name in names:
        if (SMALL / name / "model.gguf").exists():
            shutil.copy(SMALL / name / "model.gguf", folder / f"{name}.gguf")
            continue
        (folder / name).mkdir()
        for file in ("config.json", "model.safetensors"):
            shutil.copy(SMALL / name / file, folder / name / file)
        if name in tokenizer:
            (folder / name / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    return folder


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    folder = fill(tmp_path_factory.mktemp("known"), tokenizer=("bert", "llama", "roberta", "electra"))
    running = Daemon("--models-dir", str(folder))
    yield running
    assert running.stop() == 0


def path(name, tail=""):
    return f"/v1/models/{name}{tail}"


def test_pictures_name_tokens_as_people_read_them(tmp_path, start):
    """Pictures and texts say é and a space where the vocabulary says Ã© and Ġ; JSON says what the vocabulary says."""
    fill(tmp_path, ["llama"])
    (tmp_path / "llama" / "tokenizer.json").write_text(json.dumps(BYTES))
    daemon = start("--models-dir", str(tmp_path))
    body = {"text": "cafés a", "layers": [0], "heads": [0]}

    def read(tail, change, kind):
        reply = daemon.post(path("llama", tail), {**body, **change}, headers={"accept": kind})
        assert reply.status_code == 200, reply.text
        return reply.text

    picture = read("/attention", {}, "image/svg+xml")
    assert ">é<" in picture and ">␣a<" in picture and "Ã" not in picture and "Ġ" not in picture
    assert ask(daemon, body, path("llama", "/attention"))["target"][0]["tokens"][3:] == ["Ã©", "s", "Ġa"]
    del body["layers"], body["heads"]
    for text in read("/generate", {"max_length": 3, "num_alternatives": 20}, "text/plain"), read("/explain", {"top_k": 20, "return": ["lens"]}, "text/plain"):
        assert "é" in text and "Ã©" not in text and "Ġ" not in text


def test_they_are_described(known):
    listed = {m["id"]: m for m in known.get("/v1/models").json()["models"]}
    assert set(NAMES) <= set(listed)
    for name in NAMES:
        model, config = listed[name], SMALL / name / "config.json"
        assert model["origin"] == "file" and model["file"] == (name if config.exists() else f"{name}.gguf")
        assert model["target"]["vocabulary"] == 37 and model["bytes"] > 9000 and "words" not in json.dumps(model["target"]["vocabulary"])
        if config.exists():
            said = json.loads(config.read_text())
            assert model["family"] == {"mistral": "llama"}.get(said["model_type"], said["model_type"].removesuffix("_text"))
            assert model["width"] == next(said[key] for key in ("hidden_size", "n_embd", "d_model", "dim") if key in said)
    assert listed["llama"]["num_kv_heads"] and listed["llama"]["sites"][0]["kind"] == "decoder"


# Those whose fixture has no segments, which ids alone do not have.
@pytest.mark.parametrize("name", [n for n in NAMES if "segments" not in expected(n)])
def test_attention_is_that_of_transformers(known, name):
    want = expected(name)
    keep = want["keep"].astype(bool)
    for row in range(2):
        body = {"token_ids": [int(i) for i in want["ids"][row][keep[row]]], "return": ["weights"] + (["logits"] if "logits" in want else [])}
        if "target" in want:
            body |= {"target_token_ids": [int(i) for i in want["target"][row]], "target_begin": False, "target_end": False}
        answer = ask(known, body, path(name, "/attention"))
        n, kinds = int(keep[row].sum()), {"encoder": "stack", "decoder": "stack"}
        if "target" in want:
            kinds = {"encoder": "encoder", "decoder": "decoder", "cross": "cross"}
        for site in answer["sites"]:
            key = f"cross.{site['layer']}" if site["kind"] == "cross" else f"{kinds[site['kind']]}.weights.{site['layer']}"
            got, theirs = array(site["weights"])[0], want[key][row]
            theirs = theirs[:, :n if site["kind"] == "encoder" or "target" not in want else None, :n if site["kind"] != "decoder" or "target" not in want else None]
            if row and np.isnan(theirs).any():  # windows that only have padding: NaN in transformers
                continue
            assert np.abs(got - theirs).max() <= 1e-5, (key, np.abs(got - theirs).max())
        if "logits" in want:
            theirs = want["logits"][row][:n] if "target" not in want else want["logits"][row]
            if row and np.isnan(theirs).any():
                continue
            assert np.abs(array(answer["logits"])[0] - theirs).max() <= max(1e-5 * np.abs(theirs).max(), 1.25 * want["error.logits"][0])


@pytest.mark.parametrize("name", sorted(CONTINUATIONS))
def test_greedy_continuations_are_those_of_transformers(known, name):
    said = CONTINUATIONS[name]
    made = ask(known, {"token_ids": said["text"], "max_length": 12, "return": []}, path(name, "/generate"))["sequences"][0]
    ends = next((i + 1 for i, token in enumerate(said["ids"]) if token in said["ends"]), len(said["ids"]))
    sure = min(said["sure"], ends)
    assert sure > 0 and made["target"]["ids"][:sure] == said["ids"][:sure]
    assert made["ended"] == (said["ids"][ends - 1] in said["ends"]) or sure < ends


def test_texts_templates_and_words(known):
    body = {"text": "The unTired cats sat.", "return": ["weights", "pooled"], "words": True}
    answer = ask(known, body, path("bert", "/attention"))
    source = answer["source"][0]
    assert source["tokens"] == ["[CLS]", "the", "un", "##tired", "cat", "##s", "sat", ".", "[SEP]"]
    assert source["offsets"] == [[0, 0], [0, 3], [4, 6], [6, 11], [12, 15], [15, 16], [17, 20], [20, 21], [21, 21]]
    assert source["words"] == ["[CLS]", "The", "unTired", "cats", "sat", ".", "[SEP]"]
    assert source["word_tokens"] == [[0, 1], [1, 2], [2, 4], [4, 6], [6, 7], [7, 8], [8, 9]]
    plain = ask(known, body | {"words": False, "return": ["weights", "encoder_output"]}, path("bert", "/attention"))
    assert np.allclose(array(plain["encoder_output"])[0].mean(0), answer["pooled"][0], atol=1e-6)
    for merged, site in zip(answer["sites"], plain["sites"]):
        w = array(site["weights"])[0]
        columns = np.stack([w[:, :, a:b].sum(2) for a, b in source["word_tokens"]], 2)
        rows = np.stack([columns[:, a:b].mean(1) for a, b in source["word_tokens"]], 1)
        assert np.allclose(array(merged["weights"])[0], rows, atol=1e-6)
        assert np.allclose(array(merged["weights"]).sum(-1), 1, atol=1e-5)
    refused(known, {"token_ids": [5, 6], "words": True}, "invalid_value", "/words", "text", path=path("bert", "/attention"))


def test_pairs_are_segments(known):
    answer = ask(known, {"text": ["the cat", "it"], "text_pair": ["a mat", "cats"], "return": ["weights"]}, path("bert", "/attention"))
    assert [s["segments"] for s in answer["source"]] == [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]]
    assert answer["source"][0]["tokens"] == ["[CLS]", "the", "cat", "[SEP]", "a", "mat", "[SEP]"] and "offsets" not in answer["source"][0]
    alone = ask(known, {"token_ids": answer["source"][0]["ids"], "return": ["weights"]}, path("bert", "/attention"))
    assert not np.allclose(array(alone["sites"][0]["weights"])[0], array(answer["sites"][0]["weights"])[0], atol=1e-4)  # other segments
    refused(known, {"text": ["the", "cat"], "text_pair": "a"}, "shape_mismatch", "/text_pair", "2 texts", path=path("bert", "/attention"))
    refused(known, {"text": "the", "text_pair": "a"}, "invalid_value", "/text_pair", path=path("llama", "/attention"))


def test_masked_words(known):
    name = next(n for n in ("bert", "roberta", "electra") if "headless" != n and "logits" in expected(n))
    text = {"text": "the [MASK] sat on [MASK].", "num_alternatives": 3}
    answer = ask(known, text | {"return": ["masks", "logits"]}, path(name, "/attention"))
    logits = array(answer["logits"])[0]
    tokens = answer["source"][0]["tokens"]
    assert [m["position"] for m in answer["masks"][0]] == [i for i, t in enumerate(tokens) if t == "[MASK]"]
    for mask in answer["masks"][0]:
        z = logits[mask["position"]]
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        assert [a["id"] for a in mask["alternatives"]] == list(np.argsort(-z, kind="stable")[:3])
        assert np.allclose([a["probability"] for a in mask["alternatives"]], np.sort(p)[::-1][:3], atol=1e-6)
        assert [a["token"] for a in mask["alternatives"]] == [WORDS[a["id"]] for a in mask["alternatives"]]
    refused(known, {"text": "the cat", "return": ["masks"]}, "invalid_value", "/return", "[MASK]", path=path(name, "/attention"))
    refused(known, {"text": "[MASK]", "return": ["masks"]}, "invalid_value", "/return", "masked words", path=path("llama", "/attention"))


def test_log_probabilities(known):
    answer = ask(known, {"token_ids": [5, 9, 7, 12], "return": ["log_probabilities", "logits"]}, path("llama", "/attention"))
    z = array(answer["logits"])[0]
    log = z - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True)) - z.max(1, keepdims=True)
    got = answer["log_probabilities"][0]
    assert got[0] is None and np.allclose(got[1:], [log[t, i] for t, i in enumerate([9, 7, 12])], atol=1e-5)
    refused(known, {"token_ids": [5], "return": ["log_probabilities"]}, "invalid_value", "/return", path=path("bert", "/attention"))


@pytest.mark.parametrize("name, body", [("llama", {"text": ["the cat sat", "it"]}), ("gemma2", {"token_ids": [5, 9, 7, 12, 8, 6]}), ("roberta", {"text": "the cat"}),
                                        ("t5", {"token_ids": [5, 9, 7], "target_token_ids": [4, 6, 8]}), ("mistral", {"token_ids": [5, 9, 7, 12, 8, 6, 11]})])
def test_stored_runs_have_the_weights(known, name, body):
    answer = ask(known, body | {"store": True, "return": ["weights"]}, path(name, "/attention"))
    run = answer["run"]["id"]
    for number, site in enumerate(answer["sites"]):
        for head in site["heads"]:
            lazy = known.get(f"/v1/runs/{run}/weights?site={number}&head={head}").json()
            assert lazy["weights"] == [row[:len(lazy["weights"][0])] for row in site["weights"][0][head]][:len(lazy["weights"])]


def test_a_search_is_stored_and_streamed(known):
    body = {"token_ids": [5, 9, 7], "max_length": 5, "return": ["weights"], "store": True}
    made = ask(known, body, path("gpt_neox", "/generate"))
    sequence = made["sequences"][0]
    ids = [5, 9, 7, *sequence["target"]["ids"]]
    whole = ask(known, {"token_ids": ids[:-1], "return": ["weights"]}, path("gpt_neox", "/attention"))
    last = array(whole["sites"][-1]["weights"])[0]
    assert np.allclose(array(sequence["weights"]), last[:, 2:], atol=1e-5)
    lazy = known.get(f"/v1/runs/{made['run']['id']}/weights?site={len(whole['sites']) - 1}").json()["weights"]
    assert np.allclose(array(lazy), last[0], atol=1e-5)
    text = known.post(path("llama", "/generate"), {"text": "the cat", "max_length": 4, "return": [], "stream": True}).text
    assert text.count("event: token") >= 1 and text.count("event: done") == 1


def test_ids_beyond_the_tokenizer(tmp_path):
    """Models have rows for ids that their tokenizers lack, which search may choose: such ids have no text."""
    folder = fill(tmp_path, ["llama"])
    words = {word: i for i, word in enumerate(WORDS) if i < 8}
    short = TOKENIZER | {"model": TOKENIZER["model"] | {"vocab": words}}
    (folder / "llama" / "tokenizer.json").write_text(json.dumps(short))
    running = Daemon("--models-dir", str(folder))
    body = {"text": "the cat", "max_length": 12, "return": []}
    made = ask(running, body, path("llama", "/generate"))["sequences"][0]
    ids = made["target"]["ids"]
    assert max(ids) >= 8
    assert made["text"].split() == [WORDS[i] for i in ids if 4 < i < 8]
    told = running.post(path("llama", "/generate"), body | {"stream": True}).text
    assert told.count("event: token") == len(ids) and told.count("event: done") == 1
    assert running.stop() == 0


def test_what_is_refused(known):
    refused(known, {"messages": [{"role": "user", "content": "hi"}]}, "unknown_field", "/messages", "templates of chats", path=path("llama", "/generate"))
    refused(known, {"text": "the"}, "invalid_value", "/text", "no words", path=path("gpt2", "/attention"))
    refused(known, {"token_ids": [5], "target_begin": True}, "invalid_value", "/target_begin", path=path("llama", "/attention"))
    refused(known, {"token_ids": [5]}, "invalid_value", None, "encoder", path=path("bert", "/generate"))
    assert known.request("DELETE", path("llama")).status_code == 403


@pytest.mark.parametrize("norm", ["around", "inside"])
def test_what_cannot_be_trained_is_refused_when_asked(known, norm):
    body = {"kind": "train", "architecture": "transformer", "task": "copy", "num_symbols": 8, "longest": 5, "num_pairs": 300, "width": 16, "num_heads": 2, "num_steps": 4}
    refused(known, body | {"norm": norm}, "invalid_value", "/norm", "cannot be trained", path="/v1/jobs")
    assert known.get("/v1/jobs").json()["jobs"] == []


HOSTILE = {
    "cut": {"model.safetensors": lambda b: b[:-5]}, "empty": {"model.safetensors": lambda b: b""}, "deep": {"config.json": lambda b: b"[" * 100000},
    "other": {"config.json": lambda b: b.replace(b'"llama"', b'"mamba"')}, "sinks": {"config.json": lambda b: b.replace(b"{", b'{"attention_sinks":4,', 1)},
    "words": {"tokenizer.json": lambda b: b'{"model":{"type":"New"}}'}, "pickle": {"model.safetensors": None, "pytorch_model.bin": lambda b: b"\x80\x02"},
}


def test_hostile_files_cost_nobody_else_anything(start, tmp_path):
    fill(tmp_path, ["llama", "bert", "llama-gguf"])
    for name, changes in HOSTILE.items():
        shutil.copytree(tmp_path / "llama", tmp_path / name)
        for file, change in changes.items():
            target = tmp_path / name / file
            before = target.read_bytes() if target.exists() else b""
            target.unlink(missing_ok=True)
            if change:
                target.write_bytes(change(before))
    (tmp_path / "half.gguf").write_bytes((SMALL / "llama-gguf" / "model.gguf").read_bytes()[:700])
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "notes").mkdir()
    service = start("--models-dir", str(tmp_path))
    for name in [*HOSTILE, "half", "pipe"]:
        problem = service.get(path(name)).json()
        assert problem["code"] == "damaged" and name in problem["detail"], problem
    assert "attention_sinks" in service.get(path("sinks")).json()["detail"] and "mamba" in service.get(path("other")).json()["detail"]
    assert "tokenizer.json" in service.get(path("words")).json()["detail"] and "pickle" in service.get(path("pickle")).json()["detail"]
    assert service.get(path("notes")).json()["code"] == "not_found"
    assert {m["id"] for m in service.get("/v1/models").json()["models"]} >= {"llama", "bert", "llama-gguf"}
    assert not {m["id"] for m in service.get("/v1/models").json()["models"]} & set(HOSTILE)
    ask(service, {"token_ids": [5, 6]}, path("llama", "/attention"))
    shutil.copy(SMALL / "llama" / "config.json", tmp_path / "sinks" / "config.json.new")
    os.replace(tmp_path / "sinks" / "config.json.new", tmp_path / "sinks" / "config.json")
    (tmp_path / "more").mkdir()  # models_dir changes, so that it is scanned
    assert service.get(path("sinks")).json()["family"] == "llama"
    assert any(line.get("level") == "error" and "attention_sinks" in json.dumps(line) for line in service.log())


def loaded(service):
    return {m["id"] for m in service.get("/v1/models").json()["models"] if m.get("loaded")}


def test_models_leave_by_need(start, tmp_path):
    names = ["llama", "gpt2", "bert"]
    fill(tmp_path, names)
    service = start("--models-dir", str(tmp_path))
    sizes = {m["id"]: m["bytes"] for m in service.get("/v1/models").json()["models"] if m["id"] in names}
    assert service.stop() == 0
    room = sum(sizes.values()) - min(sizes.values()) // 2  # for two of them, and not for three
    service = start("--models-dir", str(tmp_path), "--models-bytes", str(room))
    for name in names:
        ask(service, {"token_ids": [5, 6]}, path(name, "/attention"))
    assert loaded(service) == {"gpt2", "bert"}  # the least recently used one left
    ask(service, {"token_ids": [5, 6]}, path("llama", "/attention"))
    assert loaded(service) == {"llama", "bert"}
    assert service.stop() == 0
    service = start("--models-dir", str(tmp_path), "--models-bytes", str(min(sizes.values()) - 1))
    problem = service.post(path("llama", "/attention"), {"token_ids": [5]}).json()
    assert problem["code"] == "too_large" and "models_bytes" in problem["detail"], problem
    assert service.get(path("llama")).json()["loaded"] is False


def test_a_folder_that_changes_is_noticed(start, tmp_path):
    fill(tmp_path, ["llama"])
    service = start("--models-dir", str(tmp_path))
    ask(service, {"token_ids": [5, 6]}, path("llama", "/attention"))
    for file in ("config.json", "model.safetensors"):
        shutil.copy(SMALL / "gpt2" / file, tmp_path / "llama" / "new")
        os.replace(tmp_path / "llama" / "new", tmp_path / "llama" / file)
    import time
    time.sleep(0.15)  # the least time between two looks at the files
    assert service.get(path("llama")).json()["family"] == "gpt2"
    shutil.rmtree(tmp_path / "llama")
    assert service.get(path("llama")).status_code == 404
