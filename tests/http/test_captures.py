"""Captures as people write them: the programs in lib/runs/examples and the one on the page of the format, the page's
tables, and the schema."""
import ast
import copy
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from captured import check, store
from conftest import PATIENCE, ROOT
from documents import FENCE, read, section
from jsonschema import Draft202012Validator
from oracle import captures
from oracle.random_captures import capture

FORMAT = "lib/runs/FORMAT.md"
EXAMPLES = ROOT / "lib" / "runs" / "examples"
SCHEMA = json.loads((ROOT / "lib" / "runs" / "run.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)


def run_numpy(folder, *args):
    """The bytes that the NumPy example writes."""
    path = folder / "capture.safetensors"
    done = subprocess.run([sys.executable, str(EXAMPLES / "capture_numpy.py"), *args, str(path)], text=True,
                          capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return path.read_bytes()


# --- examples ---

@pytest.mark.parametrize(("name", "most"), [("capture_numpy.py", 100), ("capture_torch.py", 150)])
def test_examples_are_short(name, most):
    lines = (EXAMPLES / name).read_text().splitlines()
    assert len(lines) < most and max(map(len, lines)) <= 120


def function_of(name, function):
    """A function of an example whose other parts need packages that are not here."""
    tree = ast.parse((EXAMPLES / name).read_text())
    [found] = [part for part in tree.body if isinstance(part, ast.FunctionDef) and part.name == function]
    scope = {"re": re}
    exec(compile(ast.Module([found], []), name, "exec"), scope)
    return scope[function]


# (queries, keys, last key of the mask) of each call, and its (query_start, key_start).
CACHES = {
    "none": [((9, 9, None), (0, 0))],
    "dynamic": [((9, 9, None), (0, 0)), ((1, 10, None), (9, 0)), ((1, 11, None), (10, 0))],
    "dynamic, prompt before": [((1, 10, None), (9, 0)), ((1, 11, None), (10, 0))],
    "static": [((9, 46, 8), (0, 0)), ((1, 46, 9), (9, 0)), ((1, 46, 10), (10, 0))],
    "static, as long as the prompt": [((9, 9, 8), (0, 0)), ((1, 12, 9), (9, 0))],
    "sliding": [((9, 9, None), (0, 0)), ((1, 10, None), (9, 0)), ((1, 11, None), (10, 0)), ((1, 12, None), (11, 0)),
                ((1, 12, None), (12, 1)), ((1, 12, None), (13, 2))],
    "sliding, static": [((9, 12, 8), (0, 0)), ((1, 12, 9), (9, 0)), ((1, 12, 10), (10, 0)), ((1, 12, 11), (11, 0)),
                        ((1, 12, 11), (12, 1))],
    "a new text": [((9, 9, None), (0, 0)), ((1, 10, None), (9, 0)), ((4, 4, None), (0, 0)), ((1, 5, None), (4, 0))],
}


@pytest.mark.parametrize("cache", CACHES)
def test_where_the_torch_example_puts_its_queries(cache):
    starts, seen = function_of("capture_torch.py", "starts"), None
    for (queries, keys, last), want in CACHES[cache]:
        got = starts(queries, keys, seen, last)
        assert got == want
        seen = got[0] + queries


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16", "F64"])
def test_the_numpy_example(daemon, tmp_path, dtype):
    data = run_numpy(tmp_path, "--layers", "3", "--heads", "2", "--tokens", "300", "--width", "24", "--dtype", dtype)
    file = captures.read(data)
    VALIDATOR.validate(file.run)
    assert {kind for kind, _ in file.tensors.values()} == {dtype}
    answer = check(daemon, data)
    assert [site["name"] for site in answer["sites"]] == [f"layers.{n}.attention" for n in range(3)]
    weights = captures.attention(file, 1)["weights"][0]
    for head in range(2):  # it looks at the token head + 1 places back
        at = weights[head].argmax(-1)
        assert (at[10:] == np.arange(10, 300) - head - 1).mean() > 0.9


def test_the_numpy_example_without_a_causal_mask(daemon, tmp_path):
    data = run_numpy(tmp_path, "--no-causal", "--tokens", "20", "--layers", "1")
    assert captures.read(data).sites[0]["is_causal"] is False
    check(daemon, data)


def test_the_numpy_example_holds_one_layer(tmp_path):
    """Of 8 layers of 4 MB each, the process takes no more memory than of 1."""
    peaks = []
    for layers in (1, 8):
        code = ("import resource, runpy, sys; sys.argv[0] = 'x'; runpy.run_path(sys.argv.pop(1), run_name='__main__'); "
                "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)")
        done = subprocess.run([sys.executable, "-c", code, str(EXAMPLES / "capture_numpy.py"), "--layers", str(layers),
                               "--tokens", "4096", "--width", "64", str(tmp_path / "x")], text=True,
                              capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < 4096, peaks


# --- the page ---

def test_the_program_on_the_page(daemon, tmp_path, monkeypatch):
    program, reading = [text for kind, text in FENCE.findall(read(FORMAT)) if kind == "python"]
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(program, scope)
    data = (tmp_path / "capture.safetensors").read_bytes()
    VALIDATOR.validate(captures.read(data).run)
    answer = check(daemon, data)
    tokens = "The cat sat on the mat , and slept .".split()
    site = answer["sites"][0]
    exec(reading, scope)
    got = scope["weights"](answer["id"], 0, 0, 10, url=daemon.url)
    assert np.abs(got - captures.attention(captures.read(data), 0)["weights"][0]).max() < 1e-6
    assert answer["texts"][site["query_text"]]["tokens"] == answer["texts"][site["key_text"]]["tokens"] == tokens


def test_the_command_on_the_page(daemon, tmp_path):
    command, reading = re.findall(r"`(curl [^`]*)`", read(FORMAT))
    assert "localhost:8080" in command
    part = ("F32", np.ones((2, 4, 10, 8), np.float32))
    file = captures.File({"version": 2, "sites": [{}]}, {"sites.0.query": part, "sites.0.key": part})
    (tmp_path / "capture.safetensors").write_bytes(captures.write(file))

    def shell(line, **env):
        return json.loads(subprocess.run(["bash", "-c", line.replace("localhost:8080", daemon.url)], cwd=tmp_path, text=True,
                                         capture_output=True, timeout=PATIENCE, env=os.environ | env).stdout)
    run = shell(command)["id"]
    assert re.fullmatch("[0-9a-f]{32}", run)
    assert np.array(shell(reading, ID=run)["weights"]).shape == (4, 10, 10)


def two_towers(**other):
    """Two layers of a vision stack, then two of a text stack, by a number that counts in its stack."""
    r = np.random.default_rng(5)
    sites, tensors = [], {}
    for n, (stack, size) in enumerate((("vision", 6), ("text", 4), ("vision", 6), ("text", 4))):
        sites.append({"kind": "encoder", "stack": stack} | (other if n == 3 else {}))
        for part in ("query", "key"):
            tensors[f"sites.{n}.{part}"] = ("F32", r.standard_normal((1, 2, size, 4)).astype(np.float32))
    return captures.write(captures.File({"version": 2, "sites": sites}, tensors))


def test_stacks_of_one_kind_count_their_own_layers(daemon):
    answer = store(daemon, two_towers())
    assert [(site["stack"], site["layer"]) for site in answer["sites"]] == [
        ("vision", 0), ("text", 0), ("vision", 1), ("text", 1)]
    run = f"/v1/runs/{answer['id']}"
    read = lambda what: daemon.get(run + what).json()  # noqa: E731
    assert read("/weights?stack=text&layer=1") == read("/weights?site=3")
    assert np.shape(read("/rollout?stack=vision")["rollout"]) == (6, 6)
    assert {head["site"] for head in read("/heads?stack=text")["heads"]} == {1, 3}
    for what, pointer, says in (("/rollout", "/stack", "choose one by stack"), ("/weights?layer=1", "/site", "2 of the run's 4"),
                                ("/weights?stack=audio", "/stack", "no such site")):
        problem = read(what)
        assert problem["status"] == 422 and problem["pointer"] == pointer and says in problem["detail"], problem
    refused = store(daemon, two_towers(layer=0), 422)
    assert refused["pointer"] == "/sites/3/layer" and "layer, call or stack" in refused["detail"]


def test_the_torch_example_names_stacks():
    place_of = function_of("capture_torch.py", "place_of")
    assert [place_of(name) for name in (
        "text_model.encoder.layers.0.self_attn", "vision_model.encoder.layers.11.self_attn", "model.visual.blocks.3.attn",
        "decoder.layers.1.encoder_attn", "attention")] == [
        ("encoder", "text_model.encoder.layers"), ("encoder", "vision_model.encoder.layers"), ("self", "model.visual.blocks"),
        ("cross", "decoder.layers"), ("self", None)]


def test_steps_of_a_generation_are_one_site(daemon):
    """The queries of all steps and the keys of the last one have the weights of the steps; so has a window's cache."""
    r = np.random.default_rng(2)
    q, k = (r.standard_normal((1, 2, 9, 4)).astype(np.float32) for _ in range(2))
    for kept, members in ((9, {}), (4, {"window": [3, 0]})):
        steps, tensors = [], {"q": ("F32", q), "k": ("F32", k)}
        for call, (start, end) in enumerate(((0, 6), (6, 7), (7, 8), (8, 9))):
            first = max(0, end - kept) if call else 0
            tensors |= {f"q{call}": ("F32", q[:, :, start:end]), f"k{call}": ("F32", k[:, :, first:end])}
            steps.append({"query": f"q{call}", "key": f"k{call}", "layer": 0, "call": call, "is_causal": True,
                          "query_start": start, "key_start": first} | members)
        joined = {"query": "q", "key": "k", "layer": 1, "is_causal": True} | members
        run = store(daemon, captures.write(captures.File({"version": 2, "sites": [joined, *steps]}, tensors)))["id"]
        read_site = lambda n: np.array(daemon.get(f"/v1/runs/{run}/weights?site={n}&heads=all").json()["weights"])  # noqa: E731
        whole = read_site(0)
        for call, step in enumerate(steps):
            part = read_site(call + 1)
            at, first = step["query_start"], step["key_start"]
            assert np.abs(whole[:, at:at + part.shape[1], first:first + part.shape[2]] - part).max() < 1e-6


def members(heading):
    """The members in the first column of a section's table."""
    names = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section(FORMAT, heading), re.M)
    return {name for cell in names for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize(("heading", "place", "others"), [
    ("The text", SCHEMA, set()), ("A site", SCHEMA["$defs"]["site"], {"score"}), ("A text", SCHEMA["$defs"]["text"], set())])
def test_the_tables_are_the_schema(heading, place, others):
    assert members(heading) | others == set(place["properties"])
    assert all(f"`{name}`" in section(FORMAT, heading) for name in others)


@pytest.mark.parametrize("member", ["pattern", "position"])
def test_the_kinds_are_those_of_the_schema(member):
    [row] = re.findall(rf"^\| `{member}` \|.*$", section(FORMAT, "A site"), re.M)
    shown = {kind: set(re.findall(r'"(\w+)"', rest)) for kind, rest in re.findall(r'\{"kind": "(\w+)"([^}]*)\}', row)}
    known = {form["properties"]["kind"]["const"]: set(form["properties"]) - {"kind"}
             for form in SCHEMA["$defs"][member]["oneOf"]}
    assert shown == known


# --- the schema ---

def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("seed", range(30))
def test_random_captures_have_the_schema(seed):
    VALIDATOR.validate(capture(seed).run)


# One value of each kind that JSON has; a member takes some of them.
VALUES = [None, True, 0, -1, 1.5, 1e300, "", "sites.0.query", [], [0], [1, 1], [None], ["sites.0.query"], {}, {"kind": "nothing"}]
PLAIN = {"version": 2, "texts": [{"tokens": ["a", "b", "c"]}],
         "sites": [{"query_text": 0, "key_text": 0, "is_causal": True}]}
WHERE = ([((), name) for name in SCHEMA["properties"]] + [(("sites", 0), name) for name in SCHEMA["$defs"]["site"]["properties"]]
         + [(("texts", 0), name) for name in SCHEMA["$defs"]["text"]["properties"]])


@pytest.mark.parametrize(("path", "name"), WHERE, ids=lambda x: "/".join(map(str, x)) if isinstance(x, tuple) else x)
def test_what_the_schema_refuses_the_service_refuses(daemon, path, name):
    """Each member with values of each kind: what is not of the schema is an error that names the member."""
    r = np.random.default_rng(1)
    tensors = {f"sites.0.{part}": ("F32", r.standard_normal((1, 2, 3, 4)).astype(np.float32)) for part in ("query", "key")}
    refused = 0
    for value in VALUES:
        run = copy.deepcopy(PLAIN)
        place = run
        for step in path:
            place = place[step]
        place[name] = value
        if VALIDATOR.is_valid(run):
            continue
        problem = store(daemon, captures.write(captures.File(run, tensors)), status=422)
        assert name in problem.get("pointer", "") + problem["detail"], (value, problem)
        refused += 1
    assert refused >= 5


def test_null_is_absent(daemon):
    """What json.dumps of a dataclass writes: every member that has no value as null."""
    r = np.random.default_rng(1)
    tensors = {f"sites.0.{part}": ("F32", r.standard_normal((1, 2, 3, 4)).astype(np.float32)) for part in ("query", "key")}
    nulls = {name: None for name in SCHEMA["$defs"]["site"]["properties"] if name not in PLAIN["sites"][0]}
    run = copy.deepcopy(PLAIN) | {"model": None}
    run["sites"][0] |= nulls
    run["texts"][0] |= {name: None for name in ("ids", "text", "offsets", "special")}
    VALIDATOR.validate(run)
    answers = [store(daemon, captures.write(captures.File(x, tensors))) for x in (run, PLAIN)]
    assert [{k: v for k, v in a.items() if k not in ("id", "bytes", "expires_ms")} for a in answers[:1]] == \
        [{k: v for k, v in a.items() if k not in ("id", "bytes", "expires_ms")} for a in answers[1:]]


# --- what the numbers of a mask mean ---

LOWEST = {"F32": np.finfo(np.float32).min, "F16": -65504.0, "BF16": -3.3895314e38}
SEEN = np.tril(np.ones((8, 8), bool)) & (np.arange(8) >= 2)  # causal, and two keys of padding in front


def masked(daemon, mask, dtype, **members):
    r = np.random.default_rng(4)
    tensors = {f"sites.0.{part}": ("F32", r.standard_normal((1, 2, 8, 4)).astype(np.float32)) for part in ("query", "key")}
    tensors["sites.0.attn_mask"] = (dtype, mask)
    return store(daemon, captures.write(captures.File({"version": 2, "sites": [members]}, tensors)))


def seen_by(daemon, run):
    """Weights and measures of a run."""
    get = lambda what: daemon.get(f"/v1/runs/{run['id']}/{what}").json()  # noqa: E731
    return get("weights?heads=all")["weights"], get("analyses")["heads"]


@pytest.mark.parametrize(("dtype", "members", "one"), [
    ("F32", {"mask_semantics": "finite_min"}, LOWEST["F32"]), ("F16", {"mask_semantics": "finite_min"}, LOWEST["F16"]),
    ("BF16", {"mask_semantics": "finite_min"}, LOWEST["BF16"]), ("F32", {"mask_semantics": "finite_min"}, -1e4),
    ("F32", {}, -np.inf), ("I64", {"mask_semantics": "keep"}, None), ("U8", {"mask_semantics": "hide"}, None),
    ("F32", {"mask_semantics": "keep"}, None), ("F32", {"mask_semantics": "nonzero"}, None)])
def test_masks_mean_what_they_say(daemon, dtype, members, one):
    """Each way to hide a key has the weights and the measures of booleans."""
    hides = members.get("mask_semantics") == "hide"
    numbers = np.where(SEEN, 0, one) if one else (~SEEN if hides else SEEN).astype(np.int64)
    run = masked(daemon, numbers, dtype, **members)
    assert "warnings" not in run
    assert seen_by(daemon, run) == seen_by(daemon, masked(daemon, SEEN, "BOOL"))


IMAGES = np.array([0, 1, 1, 1, 2, 3, 3, 4])
GEMMA = {"any_of": [{"kind": "causal"}, {"kind": "not", "masks": [{"kind": "not", "masks": [{"kind": "documents", "values": "images"}]}]}],
         "window": [2, 7]}
CHOSEN = np.arange(16).reshape(8, 2) % 8
PARENTS = np.array([-1, 0, 0, 1, 1, 2, 5, 3])
ROWS = np.arange(8)[:, None]


def ancestors(key):
    return {key} | (ancestors(PARENTS[key]) if key >= 0 else set())


@pytest.mark.parametrize(("members", "tensors", "keep"), [
    (GEMMA, {"images": IMAGES}, ((np.arange(8) <= ROWS) | (IMAGES == IMAGES[:, None])) & (np.arange(8) >= ROWS - 2)),
    ({"document_ids": "d", "is_causal": True}, {"d": IMAGES}, (np.arange(8) <= ROWS) & (IMAGES == IMAGES[:, None])),
    ({"prefix_lengths": "p"}, {"p": np.array([3])}, np.arange(8) < 3 * np.ones((8, 1))),
    ({"top_k_indices": "t"}, {"t": CHOSEN}, (CHOSEN[:, :, None] == np.arange(8)).any(1)),
    ({"parents": "p"}, {"p": PARENTS}, np.array([[key in ancestors(row) for key in range(8)] for row in range(8)])),
])
def test_rules_mean_what_they_say(daemon, members, tensors, keep):
    """The run of rules has the weights, measures, explained cells and what-ifs of their booleans."""
    def stored(members, more):
        r = np.random.default_rng(4)
        parts = {f"sites.0.{part}": ("F32", r.standard_normal((1, 2, 8, 4)).astype(np.float32)) for part in ("query", "key")}
        return store(daemon, captures.write(captures.File({"version": 2, "sites": [members]}, parts | more)))
    rules = stored(members, {name: ("I64", x) for name, x in tensors.items()})
    booleans = stored({}, {"sites.0.attn_mask": ("BOOL", keep)})
    assert seen_by(daemon, rules) == seen_by(daemon, booleans)
    hidden, seen = (tuple(np.argwhere(keep == which)[-1]) for which in (False, True))
    get = lambda run, what: daemon.get(f"/v1/runs/{run['id']}/{what}").json()  # noqa: E731
    what = f"cells?row={seen[0]}&col={seen[1]}"
    assert get(rules, what) == get(booleans, what) and "detail" not in get(rules, what)
    if_hidden = [daemon.post(f"/v1/runs/{run['id']}/what-if", {"hide": [3], "rows": "2,5:7", "heads": "all", "return": ["weights"]}).json()
                 for run in (rules, booleans)]
    assert if_hidden[0] == if_hidden[1] and "detail" not in if_hidden[0]
    told = get(rules, f"cells?row={hidden[0]}&col={hidden[1]}")
    assert not told["visible"] and set(told["hidden_by"]) <= set(members)


@pytest.mark.parametrize(("mask", "members", "code", "says"), [
    (np.where(SEEN, 0, LOWEST["F32"]), {}, "low_numbers", "finite_min"), (np.where(SEEN, 0, -1e4), {}, "low_numbers", "finite_min"),
    (SEEN.astype(float), {}, "only_bits", "keep"), (SEEN.astype(float), {"mask_semantics": "additive"}, None, ""),
    (np.zeros((8, 8)), {}, None, ""), (SEEN * 0.5, {}, None, "")])
def test_numbers_that_hide_nothing_are_told(daemon, mask, members, code, says):
    run = masked(daemon, mask, "F32", **members)
    found = [(w["code"], w["pointer"]) for w in run.get("warnings", [])]
    assert found == ([(code, "/sites/0/attn_mask")] if code else [])
    assert not code or says in run["warnings"][0]["detail"]
    assert "warnings" not in daemon.get(f"/v1/runs/{run['id']}").json()


def test_a_mask_that_layers_share_is_told_once(daemon):
    part = ("F32", np.ones((1, 2, 8, 4), np.float32))
    tensors = {"q": part, "m": ("F32", np.where(SEEN, 0, LOWEST["F32"])), "n": ("F32", SEEN.astype(float))}
    sites = [{"query": "q", "key": "q", "attn_mask": name} for name in "mmmn"]
    run = store(daemon, captures.write(captures.File({"version": 2, "sites": sites}, tensors)))
    assert [w["pointer"] for w in run["warnings"]] == ["/sites/0/attn_mask", "/sites/3/attn_mask"]


# --- special tokens ---

@pytest.mark.parametrize(("tokens", "special", "named"), [
    (["aa", "xx", "bb", "cc"], [1], True), (["aa", "[CLS]", "bb", "cc"], None, True), (["aa", "[CLS]", "bb", "cc"], [], False),
    (["aa", "[CLS]", "bb", "cc"], [0], False), (["aa", ",", "bb", "cc"], [1], True)])
@pytest.mark.parametrize("start", [0, 2])
def test_special_tokens_are_those_of_the_text(daemon, tokens, special, named, start):
    """A head that puts everything on token 1: it looks at special tokens if the text says that this is one."""
    q, k = np.zeros((1, 1, 4, 4), np.float32), np.eye(4, dtype=np.float32).reshape(1, 1, 4, 4)
    q[..., 1] = 300
    text = {"tokens": ["before"] * start + tokens}
    text |= {} if special is None else {"special": [start + n for n in special]}
    run = {"version": 2, "texts": [text], "sites": [{"query_text": 0, "key_text": 0, "query_start": start, "key_start": start}]}
    answer = store(daemon, captures.write(captures.File(run, {"sites.0.query": ("F32", q), "sites.0.key": ("F32", k)})))
    [head] = daemon.get(f"/v1/runs/{answer['id']}/analyses").json()["heads"]
    mass = {c["name"]: c["mass"] for c in head.get("classes", [])}
    assert mass.get("special tokens") == (1 if named else 0 if special else None)
    assert (head["pattern"]["name"] == "special tokens") == named


# --- offsets ---

SPOKEN = "é🙂 ab 中" + "xé🙂" * 40
PLACES = [0, 1, 2, 3, 5, 6, 7, 60, 61, 62, 63, 64, 65, 66, 100, len(SPOKEN)]
COUNTS = {"bytes": lambda text: len(text.encode()), "codepoints": len, "utf16": lambda text: len(text.encode("utf-16-le")) // 2}


def spoken(offsets, **members):
    tokens = ["x"] * len(offsets)
    run = {"version": 2, "texts": [{"tokens": tokens, "offsets": offsets} | members], "sites": [{}]}
    part = ("F32", np.ones((1, 1, 2, 2), np.float32))
    return captures.write(captures.File(run, {"sites.0.query": part, "sites.0.key": part}))


@pytest.mark.parametrize("unit", COUNTS)
def test_offsets_count_in_their_unit(daemon, unit):
    pairs = [(a, b) for a in PLACES for b in PLACES if a <= b]
    answer = store(daemon, spoken([[COUNTS[unit](SPOKEN[:n]) for n in pair] for pair in pairs], text=SPOKEN, offset_unit=unit))
    assert answer["texts"][0]["offsets"] == [[COUNTS["bytes"](SPOKEN[:n]) for n in pair] for pair in pairs]


@pytest.mark.parametrize(("offsets", "members", "where"), [
    ([[0, 1]], {"text": "é"}, "offsets"), ([[1, 2]], {"text": "é"}, "offsets"), ([[0, 1]], {"text": "🙂", "offset_unit": "utf16"}, "offsets"),
    ([[0, 2]], {"text": "é", "offset_unit": "codepoints"}, "offsets"), ([[0, 65]], {"text": "a" * 63 + "🙂", "offset_unit": "codepoints"}, "offsets"),
    ([[0, 64]], {"text": "a" * 63 + "🙂", "offset_unit": "utf16"}, "offsets"), ([[0, 1]], {"offset_unit": "utf16"}, "offset_unit"),
    ([[0, 1]], {"text": "a", "offset_unit": "chars"}, "offset_unit")])
def test_offsets_that_cut_a_character(daemon, offsets, members, where):
    problem = store(daemon, spoken(offsets, **members), status=422)
    assert problem["pointer"] == f"/texts/0/{where}", problem
