"""`attnd experiment`: every experiment at a small setting, its files, and its numbers beside NumPy and closed forms."""
import json
import re
import signal
import subprocess

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from conftest import BINARY
from documents import commands, section
from oracle import rng
from picture import Picture

MODELS = "lib/models/README.md"
LESSON = ["--width", "8", "--num-steps", "20", "--num-pairs", "100", "--num-scored-pairs", "5", "--batch-tokens", "256"]
SMALL = {
    "copy": [*LESSON, "--longest", "6"],
    "attentions": [*LESSON, "--longest", "6"],
    "bottleneck": [*LESSON, "--longest", "12"],
    "permutation": ["--width", "8", "--num-permutations", "5"],
    "extrapolation": ["--trained", "8", "--width", "8", "--num-heads", "2", "--num-steps", "20", "--batch-tokens", "128"],
    "sparse": [*LESSON, "--longest", "8", "--tokens", "512"],
    "cost": ["--width", "16", "--longest", "64"],
    "parameters": [],
    "heads": ["--num-sentences", "12"],
    "scale": ["--widest", "64", "--num-keys", "16", "--num-queries", "40"],
}


def experiment(*options, code=0):
    done = subprocess.run([BINARY, "experiment", *map(str, options)], capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stderr
    return done.stdout if not code else done.stderr


@pytest.fixture(scope="module")
def schema():
    document = json.loads(subprocess.run([BINARY, "--print-openapi"], capture_output=True, text=True, check=True).stdout)
    return {"$ref": "#/components/schemas/Findings", "components": document["components"]}


class Found:
    def __init__(self, folder, name, options):
        self.printed = experiment(name, *options, "--quiet", "--out", folder)
        self.json = json.loads((folder / f"{name}.json").read_text())
        self.folder, self.name = folder, name

    def table(self, index=0):
        """{column: [its entries]}"""
        table = self.json["tables"][index]
        return {c["name"]: [row[i] for row in table["rows"]] for i, c in enumerate(table["columns"])}

    def without_times(self):
        tables = [[[cell for cell, column in zip(row, t["columns"]) if not column["measured"]] for row in t["rows"]] for t in self.json["tables"]]
        return tables, [p for p in self.json["pictures"] if not p["measured"]], self.json["closing"]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Each experiment's findings, run once."""
    runs = {}

    def run(name):
        if name not in runs:
            runs[name] = Found(tmp_path_factory.mktemp(name), name, SMALL[name])
        return runs[name]
    return run


def test_the_list_is_complete():
    listed = re.findall(r"^  (\w+) +(.+)$", experiment(), re.M)
    assert sorted(name for name, _ in listed) == sorted(SMALL)
    assert sorted(re.findall(r"^\| `(\w+)` \|", section(MODELS, "Experiments"), re.M)) == sorted(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_tables_and_json(found, schema, name):
    run = found(name)
    Draft202012Validator(schema).validate(run.json)
    assert run.json["experiment"] == name
    for table in run.json["tables"]:
        assert table["rows"] and all(len(row) == len(table["columns"]) for row in table["rows"])
        assert table["title"] in run.printed
        assert len({c["name"] for c in table["columns"]}) == len(table["columns"])
    assert run.printed.rstrip().endswith(run.json["closing"])


@pytest.mark.parametrize("name", SMALL)
def test_pictures(found, name):
    run = found(name)
    assert run.json["pictures"] and len({p["name"] for p in run.json["pictures"]}) == len(run.json["pictures"])
    for number, said in enumerate(run.json["pictures"]):
        stem = f"{name}-{said['name']}" if number else name
        picture = Picture((run.folder / f"{stem}.svg").read_bytes())
        assert picture.title == said["title"] and not picture.outside()
        assert len(picture.groups) == len(said["panels"] or [None])
        assert (run.folder / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        for cells in said.get("cells", []):
            assert len(cells) == len(said["rows"] or cells) and {len(row) for row in cells} == {len(said["columns"] or cells[0])}


@pytest.mark.parametrize("name", SMALL)
def test_the_same_again(found, name, tmp_path):
    assert Found(tmp_path, name, SMALL[name]).without_times() == found(name).without_times()


def test_parameters_are_those_of_the_formulas(found):
    classes, parts = found("parameters").table(0), found("parameters").table(1)
    assert classes["parameters"] == classes["by formula"] == [0, 262144, 524800, 262400, 197376, 1050624, 1050624, 0, 512000]
    # bidirectional, then one way: 4 gates of input, state and two biases, a layer and direction
    lstm = 2 * 2 * 4 * 128 * (256 + 128 + 2), 2 * 4 * 256 * (256 + 256 + 2)
    want = [10000 * 256, 8000 * 256, lstm[0], 4 * (256 ** 2 + 256), lstm[1], 4 * (256 ** 2 + 256), 512, 512, 8000 * 257]
    assert parts["parameters"] == [*want, sum(want)]


def test_scale_beside_numpy(found):
    """Every column, computed again from the same random numbers in float64."""
    table = found("scale").table()
    L, S, rows = 40, 16, 0
    draw = lambda stream, *shape: rng.normal(int(rng.bits(1, stream)), int(np.prod(shape))).reshape(shape).astype(np.float32).astype(float)
    values, upstream = draw(2, S, 64), draw(3, L, 64)
    for d in (4, 8, 16, 32, 64):
        query, key = draw(0, L, d), draw(1, S, d)
        for scale in (1, d ** -0.5):
            scores = scale * query @ key.T
            p = np.exp(scores - scores.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            dp = upstream @ values.T
            norms = np.linalg.norm(p * (dp - (p * dp).sum(1, keepdims=True)), axis=1)
            entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(1)
            want = {"d": d, "deviation of scores": scores.std(), "largest weight": p.max(1).mean(), "saturated rows": 100 * (p.max(1) >= 0.99).mean(),
                    "effective keys": np.exp(entropy).mean(), "gradient, mean": norms.mean(), "gradient, median": np.median(norms)}
            for column, number in want.items():
                assert table[column][rows] == pytest.approx(number, rel=2e-5, abs=1e-6), (d, scale, column)
            rows += 1
    assert rows == len(table["d"])


def test_scale_keeps_the_gradient(found):
    table = found("scale").table()
    plain, scaled = table["gradient, median"][0::2], table["gradient, median"][1::2]
    assert plain[-1] < plain[0] / 4 and min(scaled) > scaled[0] / 2
    assert table["saturated rows"][-2] > 10 and max(table["saturated rows"][1::2]) == 0


def self_attention(x, w, added=0, bias=0):
    """Outputs, and scores before the softmax, in float64."""
    q, k, v = ((x + added) @ m.T for m in w)
    scores = q @ k.T / np.sqrt(x.shape[1]) + bias
    p = np.exp(scores - scores.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) @ v, scores


def order(seed, n):
    """The order that the experiment draws from a seed."""
    at = list(range(n))
    for i in range(n - 1, 0, -1):
        j = int(rng.bits(seed, i)) % (i + 1)
        at[i], at[j] = at[j], at[i]
    return at


def test_permutation_beside_numpy(found):
    table, n, d = found("permutation").table(), 12, 8
    draw = lambda stream, size: rng.normal(int(rng.bits(1, stream)), size)
    x, w = draw(0, n * d).reshape(n, d), [draw(i, d * d).reshape(d, d) / np.sqrt(d) for i in (1, 2, 3)]
    angles = np.arange(n)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    sinusoids = np.stack([np.sin(angles), np.cos(angles)], 2).reshape(n, d)
    distances = np.arange(n)[None] - np.arange(n)[:, None]
    forms = {"none": {}, "sinusoidal, added": {"added": sinusoids}, "learned, added": {"added": 0.5 * draw(4, n * d).reshape(n, d)},
             "relative bias": {"bias": draw(5, 25)[distances + 12]}, "none, causal mask": {"bias": np.where(distances > 0, -np.inf, 0)}}
    for name, form in forms.items():
        row, plain = table["positions"].index(name), self_attention(x, w, **form)[0]
        each = mean = 0
        for p in range(5):
            at = order(int(rng.bits(int(rng.bits(1, 7)), p)), n)
            moved = self_attention(x[at], w, **form)[0]
            each = max(each, np.linalg.norm(moved - plain[at]) / np.linalg.norm(plain))
            mean = max(mean, np.linalg.norm(moved.sum(0) - plain.sum(0)) / np.linalg.norm(plain.sum(0)))
        assert table["f(Px) beside P f(x)"][row] == pytest.approx(each, rel=1e-9, abs=1e-13), name
        assert table["mean of f(Px) beside mean of f(x)"][row] == pytest.approx(mean, rel=1e-9, abs=1e-13), name


def test_permutation_finds_what_is_true(found):
    table = found("permutation").table()
    assert [n for n, f in zip(table["positions"], table["so f is"]) if f == "permutation-equivariant"] == ["none"]
    assert table["f(Px) beside P f(x)"][0] < 1e-12 and min(table["f(Px) beside P f(x)"][1:]) > 1e-3
    assert table["score of two words, spread"][0] < 1e-12


def test_costs_are_those_of_the_formulas(found):
    table, textbook = found("cost").table(0), found("cost").table(1)
    n, d = np.array(table["n"]), 16
    assert list(n) == [8, 16, 32, 64]
    assert table["LSTM path"] == list(n - 1) and set(table["attention path"]) == {1}
    assert np.allclose(table["LSTM multiply-adds"], 8 * n * d * d / 1e6) and np.allclose(table["attention multiply-adds"], (4 * n * d * d + 2 * n * n * d) / 1e6)
    assert [row[2:] for row in found("cost").json["tables"][1]["rows"]][0] == [262144000, 512000000] and textbook["n"] == [1000, 64]
    lstm, attention = table["LSTM gradient at first"], table["attention gradient at first"]
    assert lstm[-1] < 1e-3 * lstm[0] and min(attention) > 0.1


def test_sparse_patterns_keep_what_they_say(found):
    table = found("sparse").table()
    for row, (n, name) in enumerate(zip(table["tokens"], table["pattern"])):
        i, j = np.arange(n)[:, None], np.arange(n)[None]
        near = abs(i - j)
        keep = {"full": near >= 0, "local, 64 on either side": near <= 64, "strided, every 64th and 16 near": ((i - j) % 64 == 0) | (near <= 16),
                "blocks of 128": i // 128 == j // 128, "global, 16 keys and 64 near": (j < 16) | (i < 16) | (near <= 64)}[name]
        assert table["kept"][row] == pytest.approx(100 * keep.mean())
        assert table["weights, full"][row] == 4 * 4 * n * n / 2 ** 20
        assert table["pass without weights"][row] < table["weights, full"][-1]
    assert found("sparse").table(1)["attention"] == ["full", "local", "strided"]


def test_lessons_know_their_models(found):
    """Attention's own parameters at width 8, and which models have weights to show."""
    assert found("attentions").table()["its parameters"] == [0, 8 * 8 * 2 + 8, 64, 8 * 16 + 8, 4 * (64 + 8)]
    assert found("copy").table()["alignment error"][2] is None and None not in found("copy").table()["alignment error"][:2]
    assert "have not learned to translate yet" in found("bottleneck").json["closing"]  # after 20 steps
    quoted = found("bottleneck").table(2)
    assert quoted["BLEU without attention"] == [35, 32, 28, 22, 16, 12] and quoted["BLEU with attention"] == [38, 37, 36, 35, 34, 33]
    for name, pictures in (("copy", 2), ("attentions", 6), ("sparse", 4)):
        looks = found(name).json["pictures"][1]
        cells = np.array(looks["cells"][:pictures - (name != "copy")], dtype=float)  # null, NaN: hidden
        assert len(looks["cells"]) == pictures and np.allclose(np.nansum(cells, 2), 1, atol=1e-5)
        hidden, far = np.isnan(cells), abs(np.subtract.outer(np.arange(cells.shape[1]), np.arange(cells.shape[2])))
        if name == "sparse":
            assert not hidden[0].any() and (hidden[1] == (far > 4)).all() and (hidden[2] == ((far > 1) & (far % 4 != 0))).all()
        else:
            assert not hidden.any()


def test_positions_have_their_parameters(found):
    table = found("extrapolation").table()
    plain = dict(zip(table["positions"], table["parameters"]))
    none = plain.pop("none (causal mask alone)")
    more = {name: count - none for name, count in plain.items()}
    assert more == {"sinusoidal": 0, "learned": 128 * 8, "relative bias": 2 * 2 * 33, "Shaw": 2 * 2 * 33 * 4, "ALiBi": 0}


def test_memory_is_enough_for_many_heads_and_short_sequences(tmp_path):
    """It was counted without heads, and without the places that kernels pad sequences to."""
    experiment("extrapolation", "--num-steps", "1", "--trained", "8", "--batch-tokens", "2048", "--width", "8", "--num-heads", "8", "--quiet",
               "--out", tmp_path)


def test_alibi_finds_the_nearest_place_at_any_length(tmp_path):
    """It is no fault of ALiBi's that it misses the place 3 back: the place next to each is found, farther than by any other."""
    run = Found(tmp_path, "extrapolation", ["--trained", "16", "--width", "16", "--num-steps", "300", "--batch-tokens", "512", "--num-symbols", "4",
                                            "--back", "1", "--rate", "0.01"])
    table = run.table()
    longest = dict(zip(table["positions"], table["16 times"]))
    assert longest["ALiBi"] > 90 and all(right < 70 for name, right in longest.items() if name != "ALiBi")
    assert "ALiBi does not learn" not in run.json["closing"]


def test_alibi_is_explained(found):
    """The weight of the place 3 back by a penalty of slope 1/16, that of head 0 of two."""
    closing = found("extrapolation").json["closing"]
    weights = np.exp(-np.arange(1000) / 16) / np.exp(-np.arange(1000) / 16).sum()
    assert "ALiBi does not learn the task" in closing and "the place 3 back" in closing
    assert f"at most {100 * weights[3]:.1f} % of a head's weight, and the own place {100 * weights[0]:.1f} %" in closing


def test_heads_have_a_picture_each(found):
    run = found("heads")
    heads = run.table(0)
    names = [p["name"] for p in run.json["pictures"]]
    for site, number in zip(heads["attention"], heads["head"]):
        site, layer = (site.split() + ["0"])[:2]
        assert f"{site}-{layer}-{number:.0f}" in names
    assert all(0 <= share <= 1 for share in heads["normalized entropy"] + heads["largest weight"])
    kinds = run.table(1)
    assert {k for k, n in zip(kinds["sentences"], kinds["count"]) if n == 12} >= {"all"}
    assert all(far < 1e-12 for far, kind in zip(kinds["apart from all"], kinds["sentences"]) if kind == "all")


def test_a_model_of_another_task_is_refused(tmp_path):
    subprocess.run([BINARY, "train", "--task", "copy", "--num-steps", "1", "--num-pairs", "20", "--num-validation-pairs", "5", "--num-scored-pairs", "0", "--width", "8", "--num-heads", "2",
                    "--quiet", "--out", tmp_path / "m"], check=True, timeout=120)
    assert "must be trained on the task en-fr" in experiment("heads", "--model", tmp_path / "m", "--out", tmp_path, code=1)


def test_stopped_in_good_order(tmp_path):
    process = subprocess.Popen([BINARY, "experiment", "copy", "--out", tmp_path], stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline()  # it has begun
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("command, answer", [line[1:] for line in commands("build/attnd experiment ")])
def test_readme_lines(tmp_path, command, answer):
    name, quiet, out, _ = command.split()[2:]
    start = answer.split("…")[0]
    assert (quiet, out) == ("--quiet", "--out") and len(start) > 15
    assert experiment(name, quiet, out, tmp_path).startswith(start)


@pytest.mark.parametrize("options, said", [
    (["none"], 'there is no "none"; there are'),
    (["scale", "--widest", "3"], "--widest must be a whole number from 8 to 16384, found 3"),
    (["scale", "--num-keys", "2.5"], "--num-keys must be a whole number"),
    (["scale", "--bogus"], "unknown option --bogus"),
    (["parameters", "--num-heads", "7"], "--width must be a multiple of num_heads (7), found"),
])
def test_wrong_options(options, said):
    assert said in experiment(*options, code=2)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be" in experiment("parameters", "--out", tmp_path / "file" / "x", code=1)


def test_help_has_the_profile():
    assert re.search(r"--num-keys +keys \(64\)", experiment("scale", "--help"))
    assert "--model" in experiment("heads", "--help") and "--model" not in experiment("scale", "--help")
    assert re.search(r"--num-keys +keys \(256\)", experiment("scale", "--full", "--help"))


def test_a_machine_without_fonts_is_warned_of_once(tmp_path):
    fonts = tmp_path / "fonts.conf"
    fonts.write_text(f"<fontconfig><dir>{tmp_path}/none</dir><cachedir>{tmp_path}/cache</cachedir></fontconfig>")
    done = subprocess.run([BINARY, "experiment", "parameters", "--quiet", "--out", tmp_path / "found"], env={"FONTCONFIG_FILE": str(fonts)},
                          capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.count("no font is installed") == 1, done.stderr
