"""`attnd train`: killed or stopped, it goes on to the very weights of an undisturbed run."""
import json
import os
import pty
import re
import signal
import subprocess
import time

import numpy as np
import pytest
from safetensors.numpy import load

from conftest import BINARY, ROOT

TASK = ["--task", "copy", "--num-symbols", "8", "--shortest", "1", "--longest", "5", "--num-pairs", "300", "--num-validation-pairs", "40", "--num-scored-pairs", "40",
        "--width", "16", "--num-heads", "2", "--num-steps", "300", "--evaluate-every", "30", "--checkpoint-every", "10", "--batch-tokens", "200",
        "--warmup", "10", "--rate", "0.01", "--seed", "5"]


def command(out, *more):
    return [BINARY, "train", *TASK, "--out", str(out), *more]


def interrupted(how, arguments, checkpoint):
    """(exit code, what it said) of a training that got a signal after its first checkpoint. One that was done before
    the signal reached it, for this process had to wait for its turn, is followed by another, at most ten."""
    for _ in range(10):
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        while not checkpoint.exists() and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(how)
        said = process.communicate(timeout=600)[1]
        if process.returncode != 0:
            break
    return process.returncode, said


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The model, its log and what was printed."""
    folder = tmp_path_factory.mktemp("whole")
    done = subprocess.run(command(folder / "m", "--log", str(folder / "log"), "--quiet"), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert not (folder / "m.checkpoint").exists()
    return (folder / "m").read_bytes(), (folder / "log").read_text(), done.stdout


def test_log_and_scores(undisturbed):
    _, log, printed = undisturbed
    *steps, scores = map(json.loads, log.splitlines())
    assert [line["step"] for line in steps] == list(range(30, 301, 30))
    assert steps[-1]["validation_loss"] < steps[0]["validation_loss"] / 2
    held_out = scores["held_out"]
    assert held_out["num_sentences"] == 40 and len(held_out["alignment_error"]["heads"]) == 2
    assert f"BLEU {held_out['bleu']:.2f}" in printed


def test_transformers_are_trained_and_scored(tmp_path):
    model = tmp_path / "m"
    done = subprocess.run(command(model, "--architecture", "transformer", "--num-steps", "120", "--log", str(tmp_path / "log"), "--quiet"),
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    *steps, _ = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert steps[-1]["validation_loss"] < steps[0]["validation_loss"] / 2
    scored = subprocess.run([BINARY, "score", "--model", str(model), "--count", "5", "--format", "json"], capture_output=True, text=True, timeout=120)
    assert scored.returncode == 0 and json.loads(scored.stdout)["held_out"]["num_sentences"] == 5


def test_dropout_of_weights_apart(tmp_path):
    """By default it is that of dropout; without attention it changes no value."""
    def trained(name, *more):
        done = subprocess.run(command(tmp_path / name, "--num-steps", "20", "--quiet", *more), capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        size = int.from_bytes((whole := (tmp_path / name).read_bytes())[:8], "little")
        return load(whole), json.loads(whole[8:8 + size])["__metadata__"]["attention_dropout_p"]

    def equal(one, two):
        return all((one[0][name] == values).all() for name, values in two[0].items())
    plain, same, none, lone = (trained(str(i), *more) for i, more in enumerate((
        [], ["--attention-dropout-p", "0.1"], ["--attention-dropout-p", "0"], ["--attention", "none", "--attention-dropout-p", "0.5"])))
    assert equal(plain, same) and plain[1] == same[1] and float(plain[1]) == 0.1
    assert not equal(none, plain) and float(none[1]) == 0
    assert equal(lone, trained("4", "--attention", "none"))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_interrupted_runs_end_with_the_same_weights(undisturbed, tmp_path, how):
    model, checkpoint = tmp_path / "m", tmp_path / "m.checkpoint"
    code, said = interrupted(how, command(model), checkpoint)
    assert code == (-9 if how == signal.SIGKILL else 130), said
    assert checkpoint.exists()
    if how != signal.SIGKILL:
        scored = subprocess.run([BINARY, "score", "--model", str(model), "--count", "5", "--format", "json"], capture_output=True, text=True, timeout=120)
        assert scored.returncode == 0 and json.loads(scored.stdout)["held_out"]["num_sentences"] == 5
    done = subprocess.run(command(model, "--resume"), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "continuing after step" in done.stderr, done.stderr
    assert model.read_bytes() == undisturbed[0]
    assert done.stdout == undisturbed[2]


def test_resuming_with_other_options_is_refused(tmp_path):
    model, checkpoint = tmp_path / "m", tmp_path / "m.checkpoint"
    assert interrupted(signal.SIGKILL, command(model, "--quiet"), checkpoint)[0] == -9
    done = subprocess.run(command(model, "--resume", "--rate", "0.02"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "other options" in done.stderr


@pytest.mark.parametrize("what", [["train"], ["experiment", "parameters"]])
def test_heads_are_counted_by_num_heads(what):
    done = subprocess.run([BINARY, *what, "--heads", "2"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "here it is called --num-heads" in done.stderr


def test_a_terminal_gets_a_bar(tmp_path):
    master, slave = pty.openpty()
    process = subprocess.Popen(command(tmp_path / "m", "--num-steps", "20"), stderr=slave, stdout=subprocess.DEVNULL)
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 65536):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(master)
    assert process.wait(timeout=120) == 0
    assert re.search(r"\[█+·*\] \d+/20 +loss \d", shown.decode()) and " left" in shown.decode()


@pytest.mark.parametrize("options", [["--task", "x"], ["--attention", "x"], ["--num-steps", "-1"], ["--schedule", "x"], ["--longest", "99"], ["--bogus"]])
def test_wrong_options(options, tmp_path):
    done = subprocess.run(command(tmp_path / "m", *options), capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.startswith("attnd train: ")


def test_the_shipped_model_is_as_good_as_its_page_says():
    model = ROOT / "config" / "models" / "en-fr.safetensors"
    done = subprocess.run([BINARY, "score", "--model", str(model), "--count", "50", "--by-length", "--format", "json"], capture_output=True, text=True, timeout=600)
    scores = json.loads(done.stdout)
    bleu = [score["bleu"] for score in (scores["held_out"], *scores["by_length"].values())]
    assert len(bleu) == 5 and min(bleu) > 93 and bleu[1] - bleu[4] < 5, bleu
    for score in (scores["held_out"], *scores["by_length"].values()):
        assert min(score["alignment_error"]["mean"], *score["alignment_error"]["heads"]) < 0.15


@pytest.mark.parametrize("text, french", [("the red car", "la voiture rouge"), ("she sleeps", "elle dort"), ("The red car.", "la voiture rouge.")])
def test_the_shipped_model_reads_what_people_type(daemon, text, french):
    assert daemon.post("/v1/models/en-fr/generate", {"text": text}).json()["sequences"][0]["text"] == french


def test_the_shipped_model_shows_the_crossing(daemon):
    answer = daemon.post("/v1/models/en-fr/generate", {"text": "the big red car that she loves did not sleep .", "return": ["weights"]}).json()
    made = answer["sequences"][0]
    assert made["text"] == "la grande voiture rouge qu'elle aime n'a pas dormi."
    weights = np.array(made["weights"]).reshape(4, 13, 11)  # heads, French words and the end, English words
    assert list(weights.mean(0).argmax(1)[:7]) == [0, 1, 3, 2, 4, 5, 6]  # voiture at car, rouge at red


def test_what_is_no_model(tmp_path):
    (tmp_path / "m").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    for path in (tmp_path / "m", tmp_path / "none"):
        done = subprocess.run([BINARY, "score", "--model", str(path)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and done.stderr.startswith(f"attnd score: {path}: "), done.stderr
