"""`store` on the passes of models: a run with all attention sites, whose cells are the weights of the answer bit for bit."""
import numpy as np
import pytest
from api_client import array, ask, refused
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_models import CASES, TRANSFORMERS, make, path, torch_daemon  # noqa: F401, a fixture
from test_api_models_states import BODY, SAFETENSORS

RAGGED = {"text": ["the red car .", "red", "the car"], "target_text": ["la voiture rouge .", "l' eau . la voiture .", "eau"]}
HIDING = {"hide": [[1], [], [0]]}
KINDS = ["multihead", "dot", "additive", "general", "concat", "local", "strided", "block", "global"]
POSITIONS = ["sinusoidal", "learned", "relative", "shaw", "alibi", "none"]


def stored(daemon, body, where, **options):
    """The answer of a pass with weights that is stored, and its run."""
    answer = ask(daemon, body | {"store": True}, where, **options)
    return answer, answer["run"]


def cells(daemon, run, site, batch, **kwargs):
    """All weights of a site and a sequence, [heads, L, S]."""
    answer = daemon.get(f"/v1/runs/{run['id']}/weights?site={site}&batch={batch}&heads=all", **kwargs)
    assert answer.status_code == 200, answer.text
    return array(answer.json()["weights"])


def same_bits(daemon, answer, run, batches):
    """Every weight of the answer is a cell of the run."""
    assert [(s["kind"], s["layer"]) for s in run["sites"]] == [(s["kind"], s["layer"]) for s in answer["sites"]]
    for site, kept in zip(answer["sites"], run["sites"], strict=True):
        weights = array(site["weights"])
        rows = [len(x["tokens"]) for x in answer["source" if site["kind"] == "encoder" else "target"]]
        assert kept["name"] == f"{site['kind']}.{site['layer']}" and kept["weights_shape"][-2:] == list(weights.shape[-2:])
        for b in range(batches):
            got = cells(daemon, run, kept["name"], b)
            assert np.array_equal(got[:, :rows[b]], weights[b, :, :rows[b]]), (kept["name"], b)


@pytest.mark.parametrize("name", ["en-fr", "en-fr-text"])
def test_built_in_models(daemon, document, name):  # noqa: F811
    body = {"text": ["The cat sat on the mat because it was too tired.", "I like pizza"], "return": "weights"}
    for extra in ({}, {"target_text": ["Le chat était fatigué.", "J'aime la pizza"]}):
        answer, run = stored(daemon, body | extra, f"/v1/models/{name}/attention")
        schema(document, "ModelAttention").validate(answer)
        same_bits(daemon, answer, run, 2)
        assert run["model"] == name and len(run["texts"]) == 4
        assert daemon.get(f"/v1/runs/{run['id']}").json() | {"expires_ms": run["expires_ms"]} == run


@pytest.mark.parametrize("name", [*CASES, *TRANSFORMERS])
def test_models_of_files(torch_daemon, name):  # noqa: F811
    where = f"/v1/models/{name}/attention"
    if name == "none":
        refused(torch_daemon, BODY | {"store": True}, "invalid_value", "/store", "no attention", path=where)
        return
    for extra in ({}, {"dropout_p": 0.4, "seed": 3}):
        answer, run = stored(torch_daemon, BODY | {"return": "weights"} | extra, where)
        same_bits(torch_daemon, answer, run, 3)
        drops = {s["kind"] for s in run["sites"] if s["dropout_p"]}
        assert (drops != set()) == bool(extra)


@pytest.mark.parametrize("architecture", ["seq2seq", "transformer"])
@pytest.mark.parametrize("attention, positions", [(kind, POSITIONS[i % 6]) for i, kind in enumerate(KINDS)] + [("multihead", p) for p in POSITIONS])
def test_every_kind_of_model(daemon, architecture, attention, positions):
    sizes = {"local": {"radius": 1}, "strided": {"radius": 1, "stride": 2}, "block": {"block_size": 2}, "global": {"num_global_keys": 1, "radius": 1}}
    made = make(daemon, architecture=architecture, attention=attention, positions=positions, num_layers=2, reach=2, **sizes.get(attention, {}))
    for extra in ({}, HIDING, {"target_end": False}, {"target_begin": False}):
        answer, run = stored(daemon, RAGGED | {"return": "weights"} | extra, path(made, "/attention"))
        same_bits(daemon, answer, run, 3)
    daemon.request("DELETE", path(made))


def test_all_sites_are_stored_whatever_is_answered(daemon):
    made = make(daemon, architecture="transformer", num_layers=2)
    whole, _ = stored(daemon, RAGGED | {"return": "weights"}, path(made, "/attention"))
    for fields in ({"sites": "cross", "layers": [1], "heads": [1], "return": []}, {"analysis": "entropy", "sites": "encoder"}, {"return": "logits"}):
        _, run = stored(daemon, RAGGED | fields, path(made, "/attention"))
        same_bits(daemon, whole, run, 3)
    daemon.request("DELETE", path(made))


def tokens_of(run, site, side, b):
    """The tokens that the rows (side "query") or columns ("key") of a batch entry are."""
    number, start = site[f"{side}_text"], site[f"{side}_start"]
    tokens = run["texts"][number[b] if isinstance(number, list) else number]["tokens"]
    return tokens[start:start + site["num_queries" if side == "query" else "num_keys"]]


@pytest.mark.parametrize("ends", [{}, {"target_end": False}, {"target_begin": False}])
def test_tokens_stand_beside_their_rows(daemon, ends):
    """Labels are the names of rows and columns; texts have the tokens once, with their place in what was sent."""
    body = {"text": ["Émile likes pizza", "She slept."], "target_text": ["Émile aime la pizza", "Elle dormait"], "sites": "cross", "return": [], "offset_unit": "utf16"}
    answer, run = stored(daemon, body | ends, "/v1/models/en-fr-text/attention")
    assert [t["text"] for t in run["texts"]] == body["text"] + body["target_text"]
    begin, end = ends.get("target_begin", True), not ends
    for text in run["texts"]:
        data, at = text["text"].encode(), text["offsets"]
        spelt = [data[a:b].decode() for a, b in at]
        said = [i for i in range(len(at)) if i not in text["special"]]
        assert "".join(spelt[i] for i in said) == text["text"].replace(" ", "")
        assert all(at[i][0] == at[i][1] for i in text["special"])
    for b in range(2):
        source, target = (answer[side][b]["tokens"] for side in ("source", "target"))
        read = (["<bos>"] if begin else []) + target[:len(target) - (begin and not end) - end]
        text = run["texts"][2 + b]
        assert text["tokens"] == (["<bos>"] if begin else []) + target and text["ids"][begin:] == answer["target"][b]["ids"]
        assert run["texts"][b]["tokens"] == source and [text["tokens"][i] for i in text["special"]] == ["<bos>"] * begin + ["<eos>"] * end
        for site in run["sites"]:
            rows, cols = (source if site["kind"] == "encoder" else target), (read if site["kind"] == "decoder" else source)
            labels = {side: tokens_of(run, site, side, b) for side in ("query", "key")}
            assert labels["query"] == rows and labels["key"][:len(cols)] == cols
            assert site.get("query_lengths", [len(labels["query"])] * 2)[b] == len(rows)
            assert site.get("key_lengths", [len(labels["key"])] * 2)[b] == len(cols)


def test_ids_without_words(daemon):
    made = make(daemon, source_words=None, target_words=None, source_vocabulary=9, target_vocabulary=9)
    answer, run = stored(daemon, {"token_ids": [[4, 5, 6], [7, 0, 0]], "target_token_ids": [[4, 5], [6, 7]], "return": "weights"}, path(made, "/attention"))
    same_bits(daemon, answer, run, 2)
    assert run["texts"][1] == {"tokens": ["7"], "ids": [7], "special": []} and run["texts"][2]["tokens"] == ["1", "4", "5", "2"]
    daemon.request("DELETE", path(made))


def test_every_form_of_answer_names_it(daemon):
    body = {"text": "I like pizza", "target_text": "J'aime la pizza", "store": True}
    where = "/v1/models/en-fr-text/attention"
    for accept in ("application/json", "text/plain", "image/svg+xml", SAFETENSORS):
        reply = daemon.post(where, body, headers={"Accept": accept})
        assert reply.status_code == 200
        run = daemon.get(f"/v1/runs/{reply.headers['X-Run-Id']}").json()
        assert run["model"] == "en-fr-text"
        if accept == "text/plain":
            assert f"run: {run['id']} (" in reply.text
    plain = daemon.post(where, body | {"store": False})
    assert "X-Run-Id" not in plain.headers and "run" not in plain.json()


def test_what_is_refused_stores_nothing(daemon):
    made = make(daemon, attention="none")
    refused(daemon, {"text": "red", "store": True}, "invalid_value", "/store", made["id"], "no attention", path=path(made, "/attention"))
    refused(daemon, {"text": "red", "store": 1}, "wrong_type", "/store", path="/v1/models/en-fr/attention")
    before = daemon.metric("attnd_runs_stored_total") or 0
    dry = ask(daemon, {"text": "red", "store": True, "dry_run": True}, "/v1/models/en-fr/attention")["dry_run"]
    plain = ask(daemon, {"text": "red", "dry_run": True}, "/v1/models/en-fr/attention")["dry_run"]
    assert dry["bytes"]["work"] > plain["bytes"]["work"] and dry["bytes"]["result"] > plain["bytes"]["result"]
    assert (daemon.metric("attnd_runs_stored_total") or 0) == before
    daemon.request("DELETE", path(made))


def test_a_small_store(start):
    daemon = start("--runs-bytes", "20000")
    refused(daemon, {"text": "the cat sat on the mat", "store": True}, "too_large", "/store", "20000", path="/v1/models/en-fr-text/attention", status=413)
    assert ask(daemon, {"text": "the cat"}, "/v1/models/en-fr-text/attention")


def test_memory_suffices(daemon):
    """The bound of a request holds for long sequences and for many, with an overview, too."""
    made = make(daemon, architecture="transformer", num_layers=2, width=32, max_length=1200)
    for size in ({"token_ids": [4] * 1100, "target_token_ids": [4] * 1100}, {"token_ids": [[4] * 2] * 90, "target_token_ids": [[4] * 3] * 90}):
        for accept in ("application/json", "text/plain"):
            reply = daemon.post(path(made, "/attention"), size | {"return": [], "store": True}, headers={"Accept": accept})
            assert reply.status_code == 200, reply.text[:300]
    run = daemon.get(f"/v1/runs/{reply.headers['X-Run-Id']}").json()
    daemon.request("DELETE", f"/v1/runs/{run['id']}")
    daemon.request("DELETE", path(made))


def test_kept_in_a_directory(start, tmp_path):
    """The file outlives the daemon and its model, and has the same bits."""
    daemon = start("--runs-dir", str(tmp_path))
    made = make(daemon, architecture="transformer", attention="general", positions="shaw", num_layers=2)
    answer, run = stored(daemon, RAGGED | {"return": "weights"}, path(made, "/attention"))
    assert [f.name for f in tmp_path.glob("*.safetensors")] == [f"{run['id']}.safetensors"]
    daemon.stop()
    daemon = start("--runs-dir", str(tmp_path))
    assert daemon.get(path(made)).status_code == 404
    assert all(s["exact"] for s in daemon.get(f"/v1/runs/{run['id']}").json()["sites"])
    same_bits(daemon, answer, run, 3)
