"""Models of sub-words: the built-in en-fr-text, and what `attnd train --subwords` and jobs make."""
import json
import signal
import struct
import subprocess

import numpy as np
import pytest

from conftest import BINARY, ROOT
from test_command_train import interrupted
from test_daemon_load import eventually

MODEL = ROOT / "config" / "models" / "en-fr-text.safetensors"
TINY = {"task": "en-fr-text", "subwords": 150, "shortest": 2, "longest": 6, "num_pairs": 200, "num_validation_pairs": 20, "num_scored_pairs": 5, "width": 16,
        "num_heads": 2, "num_steps": 12, "batch_tokens": 200, "evaluate_every": 6}
# The sentences that textbooks translate, and variants of them. The corpus keeps all of them out of the training data.
TEXTBOOK = [
    ("The cat sat on the mat.", "Le chat était assis sur le tapis."),
    ("The quick brown fox jumps over the lazy dog", "Le rapide renard brun saute par-dessus le chien paresseux"),
    ("The animal didn't cross the street because it was too tired", "L'animal n'a pas traversé la rue parce qu'il était trop fatigué"),
]
PEOPLE_TYPE = [
    ("The animal didn't cross the street because it was too wide.", "L'animal n'a pas traversé la rue parce qu'elle était trop large."),
    ("the cat sat on the mat", "le chat était assis sur le tapis"),
    ("The animal didn\u2019t cross the street because it was too tired.", "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."),
    ("I like pizza", "J'aime la pizza"),
    ("I eat pizza.", "Je mange de la pizza."),
    ("I am a student.", "Je suis étudiant."),
    ("She is a student.", "Elle est étudiante."),
    ("The man eats an apple.", "L'homme mange une pomme."),
    ("He doesn't like cheese.", "Il n'aime pas le fromage."),
    ("Do you like music?", "Est-ce que vous aimez la musique ?"),
]


@pytest.mark.parametrize("text, french", TEXTBOOK + PEOPLE_TYPE)
def test_sentences(daemon, text, french):
    answer = daemon.post("/v1/models/en-fr-text/generate", {"text": text}).json()
    made = answer["sequences"][0]
    assert made["text"] == french and made["ended"]
    assert "warnings" not in answer


def test_the_file_is_small():
    assert MODEL.stat().st_size <= 8_000_000


def metadata(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))["__metadata__"]


def test_the_file_says_how_it_was_made():
    """The page beside the file has the command with all options that differ from the defaults."""
    page = (ROOT / "config" / "models" / "README.md").read_text()
    command = next(line for line in page.splitlines() if line.startswith("attnd train --task en-fr-text")).split()[2:]
    said = dict(word.split("=", 1) for word in metadata(MODEL)["training.options"].split())
    before = {"num_pairs": "pairs", "num_validation_pairs": "validation", "num_steps": "steps", "num_layers": "layers", "dropout_p": "dropout"}
    for name, value in zip(command[::2], command[1::2]):
        name = name[2:].replace("-", "_")
        if name not in ("log", "out", "threads", "num_scored_pairs"):
            name = name if name in said else before[name]  # the file is older than the name
            assert float(said[name]) == float(value) if value[0].isdigit() else said[name] == value, name


def test_tokens_have_places_in_the_text(daemon):
    text = "The quick brown fox jumps  over Zörb's 猫!"
    made = daemon.post("/v1/models/en-fr-text/attention", {"text": text, "sites": "cross", "return": ["weights"]}).json()
    source = made["source"][0]
    data = text.encode()
    assert source["offsets"][-1][1] == len(data) and len(source["offsets"]) == len(source["tokens"])
    assert "<unk>" not in source["tokens"] and "warnings" not in made
    for token, (begin, end) in zip(source["tokens"], source["offsets"]):
        part = data[begin:end].decode()
        if token.startswith("<0x"):  # the first byte has the whole character
            assert not part or part.encode()[0] == int(token[3:5], 16)
        elif token in ("</w>", "<join>"):
            assert part == ""
        else:
            assert part == token.removesuffix("@@").replace("␣", " ")


def test_heatmaps_are_labelled_with_sub_words(daemon):
    request = {"text": "The cat sat on the mat.", "return": ["weights", "heatmap"], "heatmap": {"heads": "mean"}}
    made = daemon.post("/v1/models/en-fr-text/generate", request).json()["sequences"][0]
    assert made["source"]["tokens"] == ["The", "cat", "sat", "on", "the", "mat", "."]
    assert made["target"]["tokens"] == ["Le", "chat", "était", "assis", "sur", "le", "tapis", ".", "<eos>"]
    heads, rows, cols = np.array(made["weights"]).shape if isinstance(made["weights"], list) else made["weights"]["shape"]
    assert (rows, cols) == (9, 7)
    picture = daemon.post("/v1/models/en-fr-text/generate", {"text": "I like pizza"}, headers={"Accept": "image/svg+xml"}).text
    assert "pizza" in picture and "&lt;eos&gt;" in picture


@pytest.mark.parametrize("text", ["The cat sat on the mat.", "Kwyx Zörb likes the animals' \u00a0 car, doesn't he?", "\"quoted\" (text)"])
def test_streams_append_to_the_text(daemon, text):
    reply = daemon.post("/v1/models/en-fr-text/generate", {"text": text, "stream": True, "return": []}).text
    events = [json.loads(line[6:]) for line in reply.splitlines() if line.startswith("data: ")]
    _, *steps, done = events  # the first one has the source
    assert "".join(step["text"] for step in steps) == done["sequences"][0]["text"]


def test_beams_and_ids(daemon):
    text = TEXTBOOK[0][0]
    one = daemon.post("/v1/models/en-fr-text/generate", {"text": text, "num_beams": 4, "return": []}).json()["sequences"][0]
    assert one["text"] == TEXTBOOK[0][1]
    again = daemon.post("/v1/models/en-fr-text/generate", {"token_ids": one["source"]["ids"], "return": []}).json()["sequences"][0]
    assert again["text"] == one["text"]
    named = daemon.post("/v1/models/en-fr-text/generate", {"tokens": one["source"]["tokens"], "return": []}).json()["sequences"][0]
    assert named["text"] == one["text"]


def test_targets_are_split_too(daemon):
    request = {"text": TEXTBOOK[2][0], "target_text": TEXTBOOK[2][1], "sites": "cross", "return": ["weights"]}
    made = daemon.post("/v1/models/en-fr-text/attention", request).json()
    assert made["target"][0]["tokens"][:6] == ["L'", "animal", "n'", "a", "pas", "traversé"]
    generated = daemon.post("/v1/models/en-fr-text/generate", {"text": TEXTBOOK[2][0]}).json()["sequences"][0]
    assert made["target"][0]["ids"] == generated["target"]["ids"]


def test_the_list_says_which_models_have_sub_words(daemon):
    assert daemon.get("/v1/models/en-fr-text").json()["source"]["subwords"] is True
    assert "subwords" not in daemon.get("/v1/models/en-fr").json()["source"]


def test_the_shipped_model_is_as_good_as_its_page_says():
    done = subprocess.run([BINARY, "score", "--model", str(MODEL), "--count", "100", "--format", "json"], capture_output=True, text=True, timeout=600)
    scores = json.loads(done.stdout)["held_out"]
    assert scores["bleu"] > 96 and scores["num_exact"] > 85, scores
    assert scores["alignment_error"]["mean"] < 0.1, scores


def test_a_job_trains_sub_words(daemon):
    job = daemon.post("/v1/jobs", {"kind": "train", **TINY}).json()
    assert eventually(lambda: daemon.get(f"/v1/jobs/{job['id']}").json()["state"] in ("done", "failed"))
    done = daemon.get(f"/v1/jobs/{job['id']}").json()
    assert done["state"] == "done" and done["scores"]["num_sentences"] == 5, done
    assert 0 < done["peak_bytes"] <= done["reserved_bytes"]
    about = daemon.get(f"/v1/models/{done['model']}").json()
    assert about["source"]["subwords"] and about["target"]["language"] == "french"
    answer = daemon.post(f"/v1/models/{done['model']}/generate", {"text": "Any text of any words: 猫!", "return": []}).json()
    assert "warnings" not in answer


def train(path, *more):
    options = [word for name, value in TINY.items() for word in ("--" + name.replace("_", "-"), str(value))]
    return [str(word) for word in (BINARY, "train", *options, "--checkpoint-every", "1", "--out", path, *more)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "m.safetensors"
    done = subprocess.run(train(path, "--quiet"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "BLEU" in done.stdout, done.stderr
    return path


def test_training_goes_on_where_it_stopped(tiny, tmp_path):
    model, checkpoint = tmp_path / "m", tmp_path / "m.checkpoint"
    assert interrupted(signal.SIGTERM, train(model), checkpoint)[0] == 130
    done = subprocess.run(train(model, "--resume"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "continuing after step" in done.stderr
    assert model.read_bytes() == tiny.read_bytes()


def test_files_hold_the_merges(tiny):
    about = metadata(tiny)
    merges = about["target_merges"].splitlines()
    assert len(merges) == 150 and all(len(line.split(" ")) == 2 for line in merges)
    words = about["target_words"].splitlines()
    assert words[4:6] == ["</w>", "<join>"] and words[6] == "<0x00>"
    for line in merges:
        left, right = line.split(" ")
        assert left.endswith("@@") and left.removesuffix("@@") + right in words


def test_files_with_faulty_merges_are_refused(tiny, tmp_path):
    data = tiny.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header["__metadata__"] = {k: v for k, v in header["__metadata__"].items() if not k.startswith("seal.")}
    header["__metadata__"]["source_merges"] += "q@@ nothing\n"
    text = json.dumps(header).encode()
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])
    done = subprocess.run([BINARY, "score", "--model", str(tmp_path / "m")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "source_merges: line 151" in done.stderr, done.stderr


def test_experiments_look_into_the_model(tmp_path):
    done = subprocess.run([BINARY, "experiment", "heads", "--model", str(MODEL), "--num-sentences", "20", "--quiet", "--out", str(tmp_path)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "align words" in done.stdout, done.stderr
