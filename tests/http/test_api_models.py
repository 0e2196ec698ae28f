"""/v1/models: making, describing, deleting; where a model looks, beside PyTorch's numbers for the same state dict;
greedy and beam search beside the logits that they follow; what is refused."""
import concurrent.futures
import io

import numpy as np
import pytest
from api_client import array, ask, refused
from conftest import PATIENCE, ROOT
from PIL import Image
from safetensors.numpy import load, load_file, save_file
from test_api_index import document, schema  # noqa: F401, a fixture

TORCH = {key: value for name in ("models", "transformers")  # tests/tools/torch_models and torch_transformers
         for key, value in load_file(ROOT / "tests" / "unit" / f"{name}_torch.safetensors").items()}
CASES = {"textbook": ("multihead", "sinusoidal", 2, False), "reads": ("multihead", "sinusoidal", 1, True),
         "dot": ("dot", "learned", 1, False), "additive": ("additive", "relative", 1, False),
         "general": ("general", "shaw", 1, False), "concat": ("concat", "alibi", 1, False),
         "local": ("local", "none", 1, False), "strided": ("strided", "sinusoidal", 1, False),
         "block": ("block", "sinusoidal", 1, False), "global": ("global", "learned", 1, False),
         "none": ("none", "sinusoidal", 2, False)}
SIZES = {"block": {"block_size": 3}, "global": {"num_global_keys": 1}}  # keys that only files of this attention have
TRANSFORMERS = {"before": "sinusoidal", "after": "learned"}
SPECIALS = ["<pad>", "<bos>", "<eos>", "<unk>"]
SOURCE, TARGET = [f"s{i}" for i in range(4, 11)], [f"t{i}" for i in range(4, 13)]
WORDS = {"source_words": ["the", "red", "car", "."], "target_words": ["la", "voiture", "rouge", "l'", "eau", "."]}
SMALL = WORDS | {"width": 16, "num_heads": 2, "seed": 5}


def write_case(folder, name):
    """A model file with PyTorch's state dict."""
    transformer = name in TRANSFORMERS
    attention, positions, layers, read = ("multihead", TRANSFORMERS[name], 2, False) if transformer else CASES[name]
    prefix = f"{name}/p/"
    tensors = {key.removeprefix(prefix): value for key, value in TORCH.items() if key.startswith(prefix)}
    config = dict(architecture="transformer" if transformer else "seq2seq", attention=attention, positions=positions, source_vocabulary=11, target_vocabulary=13,
                  width=8, num_heads=2, num_layers=layers, max_length=20, radius=2, stride=3, reach=3, dropout_p=0.1,
                  attention_dropout_p=0.1, source_words="".join(f"{w}\n" for w in SPECIALS + SOURCE),
                  target_words="".join(f"{w}\n" for w in SPECIALS + TARGET))
    config |= SIZES.get(attention, {})
    config |= dict(feed_forward=12, norm=name) if transformer else dict(padding="read" if read else "respect")
    # Other programs may say more; attnd does not read it.
    config |= {"library": "torch"}
    save_file(tensors, folder / f"{name}.safetensors", {key: str(value) for key, value in config.items()})


@pytest.fixture(scope="module")
def torch_daemon(tmp_path_factory):
    from conftest import Daemon
    folder = tmp_path_factory.mktemp("models")
    for name in CASES | TRANSFORMERS:
        write_case(folder, name)
    (folder / "notes.txt").write_text("no model")
    service = Daemon("--models-dir", str(folder))
    yield service
    service.stop()


def make(daemon, **fields):
    reply = daemon.post("/v1/models", SMALL | fields)
    assert reply.status_code == 201, reply.text
    model = reply.json()
    assert reply.headers["Location"] == f"/v1/models/{model['id']}"
    return model


@pytest.fixture(scope="module")
def model(daemon):
    return make(daemon)


def path(model, what=""):
    return f"/v1/models/{model['id']}{what}"


# --- making, describing, deleting ---

def test_made_described_listed_deleted(daemon, document):  # noqa: F811
    made = make(daemon, target_language="french")
    schema(document, "Model").validate(made)
    assert daemon.get(path(made)).json() == made
    listed = daemon.get("/v1/models").json()
    schema(document, "Models").validate(listed)
    assert made in listed["models"]
    assert made["origin"] == "made" and made["target"] == {"vocabulary": 10, "words": True, "language": "french"}
    assert sum(made["num_parameters"]["parts"].values()) == made["num_parameters"]["total"]
    assert made["num_parameters"]["parts"]["src_embedding"] == 8 * 16
    assert made["num_parameters"]["parts"]["output_projection"] == 17 * 10
    assert daemon.request("DELETE", path(made)).status_code == 204
    assert daemon.get(path(made)).status_code == 404
    assert daemon.request("DELETE", path(made)).status_code == 404
    assert daemon.post(path(made, "/generate"), {"text": "a"}).status_code == 404
    assert made not in daemon.get("/v1/models").json()["models"]


@pytest.mark.parametrize("attention, positions", [
    ("multihead", "sinusoidal"), ("dot", "learned"), ("additive", "relative"), ("general", "shaw"), ("concat", "alibi"),
    ("local", "none"), ("strided", "sinusoidal"), ("block", "alibi"), ("global", "relative"), ("none", "learned")])
def test_every_kind_is_made_and_looks(daemon, attention, positions):
    made = make(daemon, attention=attention, positions=positions, padding="read")
    assert (made["attention"], made["positions"], made["padding"]) == (attention, positions, "read")
    answer = ask(daemon, {"text": "the red car", "target_text": "la voiture"}, path(made, "/attention"))
    assert [(s["kind"], len(s["heads"])) for s in answer["sites"]] == [(s["kind"], s["num_heads"]) for s in made["sites"]]
    assert daemon.request("DELETE", path(made)).status_code == 204


def seen(kind, T, S):
    """What a decoder of T tokens sees of S source tokens."""
    i, j = np.arange(T)[:, None], np.arange(S)
    return {"block": i // 2 == j // 2, "global": (i < 1) | (j < 1) | (abs(i - j) <= 1)}[kind]


@pytest.mark.parametrize("architecture", ["seq2seq", "transformer"])
@pytest.mark.parametrize("kind, sizes", [("block", {"block_size": 2}), ("global", {"num_global_keys": 1, "radius": 1})])
def test_patterns_hide_keys(daemon, document, architecture, kind, sizes):  # noqa: F811
    """Weights are 0 where the pattern hides a key, at every site, and only the pattern's own sizes are listed."""
    made = make(daemon, architecture=architecture, attention=kind, **sizes)
    schema(document, "Model").validate(made)
    assert {k: made[k] for k in sizes} == sizes and ("block_size" in made) == (kind == "block") == ("num_global_keys" not in made)
    answer = ask(daemon, {"text": "the red car .", "target_text": "la voiture rouge ."}, path(made, "/attention"))
    for site in answer["sites"]:
        weights = array(site["weights"])
        sees = seen(kind, *weights.shape[-2:])
        if site["kind"] == "decoder":
            sees = np.tril(sees)
        assert ((weights > 0) == sees).all(), site["kind"]
        hidden = ~sees.any(-1)
        assert np.allclose(weights.sum(-1)[..., ~hidden], 1, atol=1e-5) and (weights[..., hidden, :] == 0).all()
    assert daemon.request("DELETE", path(made)).status_code == 204


@pytest.mark.parametrize("fields", [{}, {"positions": "relative", "norm": "after"}, {"attention": "local", "positions": "shaw"},
                                    {"attention": "additive", "positions": "alibi", "num_layers": 1, "feed_forward": 24}])
def test_transformers_are_made_and_look(daemon, document, fields):  # noqa: F811
    made = make(daemon, **({"architecture": "transformer", "num_layers": 2} | fields))
    schema(document, "Model").validate(made)
    layers, cross = made["num_layers"], 1 if fields.get("attention") == "additive" else 2
    assert made["norm"] == fields.get("norm", "before") and made["feed_forward"] == fields.get("feed_forward", 64)
    assert made["sites"] == [{"kind": kind, "num_layers": layers, "num_heads": heads}
                             for kind, heads in (("encoder", 2), ("decoder", 2), ("cross", cross))]
    assert list(made["num_parameters"]["parts"])[-3:] == ["encoder", "decoder", "output_projection"]
    answer = ask(daemon, {"text": "the red car", "target_text": "la voiture", "return": ["weights", "heatmap"]}, path(made, "/attention"))
    schema(document, "ModelAttention").validate(answer)
    assert [(s["kind"], s["layer"]) for s in answer["sites"]] == [(k["kind"], i) for k in made["sites"] for i in range(layers)]
    decoder = answer["sites"][layers]
    assert (np.triu(array(decoder["weights"]), 1) == 0).all()
    assert decoder["heatmaps"][0]["labels"] == {"query": ["la", "voiture", "<eos>"], "key": ["<bos>", "la", "voiture"]}
    written = ask(daemon, {"text": "the red car", "max_length": 4, "num_beams": 3, "return": "weights"}, path(made, "/generate"))["sequences"][0]
    assert len(written["weights"]) == cross
    daemon.request("DELETE", path(made))


def test_layers_of_a_transformer(daemon):
    made = make(daemon, architecture="transformer", num_layers=3)
    body = {"text": "the red car", "target_text": "la"}
    whole = ask(daemon, body, path(made, "/attention"))
    part = ask(daemon, body | {"sites": ["decoder", "cross"], "layers": [2, 0], "heads": [1]}, path(made, "/attention"))
    assert [(s["kind"], s["layer"], s["heads"]) for s in part["sites"]] == [(k, i, [1]) for k in ("decoder", "cross") for i in (0, 2)]
    assert part["sites"][1]["weights"] == [[whole["sites"][5]["weights"][0][1]]]
    refused(daemon, body | {"layers": [3]}, "invalid_value", "/layers/0", "layers 0 to 2", "found 3", path=path(made, "/attention"))
    shapes = ask(daemon, body | {"dry_run": True, "sites": "decoder"}, path(made, "/attention"))["dry_run"]["shapes"]
    assert shapes["decoder"] == [1, 2, 2, 2] and "cross" not in shapes
    shown = daemon.post(path(made, "/attention"), body, headers={"Accept": "text/plain"}).text
    assert [line for line in shown.splitlines() if "layer" in line][-1] == "cross, layer 2"
    daemon.request("DELETE", path(made))


def test_the_seed_draws_the_values(daemon):
    one, same, other = make(daemon), make(daemon), make(daemon, seed=6)
    bodies = [ask(daemon, {"text": "the red car", "target_text": "la", "return": "logits"}, path(m, "/attention"))["logits"]
              for m in (one, same, other)]
    assert bodies[0] == bodies[1] != bodies[2]
    for m in (one, same, other):
        daemon.request("DELETE", path(m))


@pytest.mark.parametrize("fields, code, pointer, words", [
    ({"width": 7, "num_heads": 1}, "invalid_value", "/width", ["even"]),
    ({"width": 8, "num_heads": 3}, "invalid_value", "/num_heads", ["divide"]),
    ({"source_vocabulary": 9}, "invalid_value", "/source_vocabulary", ["expected 8", "found 9"]),
    ({"source_words": ["a", "b", "a"]}, "invalid_value", "/source_words/2", ["repeats the word at index 0: a"]),
    ({"target_words": ["a", "<pad>"]}, "invalid_value", "/target_words/1", ["special token"]),
    ({"source_words": ["a", ""]}, "invalid_value", "/source_words/1", ["empty"]),
    ({"target_words": ["a\nb"]}, "invalid_value", "/target_words/0", ["line breaks"]),
    ({"source_words": None}, "invalid_value", "/source_vocabulary", ["source_words"]),
    ({"attention": "multi"}, "invalid_value", "/attention", ["multihead"]),
    ({"architecture": "transformer", "attention": "none"}, "invalid_value", "/attention", ["source by attention"]),
    ({"embedding_std": 0}, "invalid_value", "/embedding_std", ["1000"]),
    ({"colour": 1}, "unknown_field", "/colour", []),
    ({"heads": 2}, "unknown_field", "/heads", ["num_heads", "heads selects"]),
])
def test_models_that_cannot_be(daemon, fields, code, pointer, words):
    refused(daemon, SMALL | fields, code, pointer, *words, path="/v1/models")


@pytest.mark.parametrize("std", [None, 1, 0.02])
def test_the_law_of_embeddings(daemon, std):
    """The state `embedding` is the drawn row times sqrt(width); both laws draw from the same numbers."""
    sizes = {"source_vocabulary": 4000, "target_vocabulary": 9, "width": 64, "seed": 3}
    plain, other = (daemon.post("/v1/models", sizes | more).json() for more in ({}, {} if std is None else {"embedding_std": std}))
    asked = {"token_ids": list(range(500)), "target_token_ids": [4], "return": "states", "steps": "embedding", "sites": "encoder"}
    plain, other = (array(ask(daemon, asked, path(m, "/attention"))["states"][0]["values"]) / 8 for m in (plain, other))
    want = 1 / 8 if std is None else std
    assert abs(other.std() - want) < 0.03 * want and abs(other.mean()) < 0.03 * want
    assert np.abs(other - plain * 8 * want).max() < 1e-5 * want * np.abs(plain * 8).max()


def test_the_laws_of_layers(start, tmp_path):
    """The table "Initial values" of lib/models, of the files that a directory of models gets."""
    def bounded(name, bound):
        values = tensors[name]
        assert 0.97 * bound < np.abs(values).max() <= bound and abs(values.std() - bound / np.sqrt(3)) < 0.05 * bound, name
    service = start("--models-dir", str(tmp_path))
    sizes = {"source_vocabulary": 300, "target_vocabulary": 300, "width": 128, "num_heads": 4}
    for fields in ({"attention": "additive", "positions": "learned"}, {"positions": "shaw"}, {"positions": "relative"}, {"architecture": "transformer"}):
        made = service.post("/v1/models", sizes | fields).json()
        tensors = load_file(tmp_path / f"{made['id']}.safetensors")
        bounded("output_projection.weight", 128 ** -0.5)
        bounded("output_projection.bias", 128 ** -0.5)
        assert abs(tensors["src_embedding.weight"].std() - 128 ** -0.5) < 0.03 * 128 ** -0.5
        if "architecture" in fields:
            bounded("encoder.layers.0.self_attn.in_proj_weight", (6 / 512) ** 0.5)
            bounded("encoder.layers.0.self_attn.out_proj.weight", 128 ** -0.5)
            bounded("encoder.layers.0.linear2.weight", 512 ** -0.5)
            zeros, ones = ["encoder.layers.0.self_attn.in_proj_bias", "decoder.layers.0.multihead_attn.out_proj.bias", "encoder.norm.bias"], ["encoder.norm.weight"]
        else:
            bounded("encoder_lstm.weight_ih_l0", 64 ** -0.5)
            bounded("encoder_lstm.bias_hh_l0_reverse", 64 ** -0.5)
            bounded("decoder_lstm.weight_hh_l0", 128 ** -0.5)
            bounded("encoder_attention.W_q.weight", 128 ** -0.5)
            zeros, ones = ["encoder_norm.bias"], ["encoder_norm.weight"]
        if "attention" in fields:
            bounded("cross_attention.W1.weight", 128 ** -0.5)
            bounded("cross_attention.v.weight", 128 ** -0.5)
            assert abs(tensors["pos_encoding.position_embeddings.weight"].std() - 0.02) < 0.001
        if fields.get("positions") == "shaw":
            assert abs(tensors["encoder_attention.key_table.weight"].std() - 0.02) < 0.002
        if fields.get("positions") == "relative":
            zeros.append("encoder_attention.relative.weight")
        assert all((tensors[name] == 0).all() for name in zeros) and all((tensors[name] == 1).all() for name in ones)


def test_limits_of_count_and_bytes(start):
    service = start("--models-count", "2", "--models-bytes", "1MiB")
    first = make(service)
    make(service)
    problem = refused(service, SMALL, "too_large", None, "delete one", path="/v1/models", status=413)
    assert problem["limit"] == {"value": 2, "setting": "models_count"}
    service.request("DELETE", path(first))
    make(service)
    problem = refused(service, SMALL | {"width": 1024}, "too_large", None, path="/v1/models", status=413)
    assert problem["limit"]["setting"] == "models_bytes"


def test_memory_comes_back(start):
    service = start()
    before = service.metric("attnd_memory_reserved_bytes")
    made = [make(service, width=256, max_length=2048) for _ in range(4)]
    assert service.metric("attnd_memory_reserved_bytes") >= before + sum(m["bytes"] for m in made)
    for m in made:
        service.request("DELETE", path(m))
    assert service.metric("attnd_memory_reserved_bytes") < before + made[0]["bytes"]


def test_deleted_while_used(daemon):
    made = make(daemon, width=64)
    body = {"text": ["the red car ."] * 40, "max_length": 60, "return": []}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        import requests
        asked = [pool.submit(requests.post, daemon.url + path(made, "/generate"), json=body, timeout=PATIENCE) for _ in range(12)]
        daemon.request("DELETE", path(made))
        answers = [a.result() for a in asked]
    good = [a.json()["sequences"] for a in answers if a.status_code == 200]
    assert {a.status_code for a in answers} <= {200, 404}
    assert all(g == good[0] for g in good)


def test_only_admins_make_and_delete(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(f"user:{'u' * 20}\nboss:{'b' * 20} admin\n")
    keys.chmod(0o600)
    service = start("--keys-file", str(keys))
    user, boss = ({"Authorization": f"Bearer {key * 20}"} for key in "ub")
    assert service.post("/v1/models", SMALL).status_code == 401
    assert service.post("/v1/models", SMALL, headers=user).status_code == 403
    made = service.post("/v1/models", SMALL, headers=boss).json()
    assert service.get(path(made), headers=user).json() == made
    assert service.post(path(made, "/generate"), {"text": "the"}, headers=user).status_code == 200
    assert service.request("DELETE", path(made), headers=user).status_code == 403
    assert service.request("DELETE", path(made), headers=boss).status_code == 204


# --- files ---

def test_models_of_a_directory(torch_daemon):
    listed = torch_daemon.get("/v1/models").json()["models"]
    own = [m for m in listed if m["origin"] == "file"]
    assert [m["id"] for m in own] == sorted(CASES | TRANSFORMERS)
    reply = torch_daemon.request("DELETE", "/v1/models/textbook")
    assert reply.status_code == 403 and reply.json()["code"] == "forbidden"
    assert torch_daemon.get("/v1/models/textbook").status_code == 200


def test_a_file_that_is_no_model(tmp_path):
    from conftest import run_attnd
    (tmp_path / "bad.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    done = run_attnd("--check-config", "--models-dir", str(tmp_path))
    assert done.returncode == 0 and "bad.safetensors" in done.stderr and "architecture" in done.stderr
    (tmp_path / "bad.safetensors").write_bytes(b"\x02")
    done = run_attnd("--check-config", "--models-dir", str(tmp_path))
    assert done.returncode == 0 and "bad.safetensors" in done.stderr and "expected 8 bytes" in done.stderr
    done = run_attnd("--port", "0", "--ops-listen", "", "--models-dir", str(tmp_path / "none"))
    assert done.returncode == 2 and "models_dir" in done.stderr


# --- attention ---

def tolerant(got, want):
    got = array(got)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 1e-5


@pytest.mark.parametrize("name", CASES | TRANSFORMERS)
def test_logits_and_weights_are_those_of_pytorch(torch_daemon, document, name):  # noqa: F811
    lengths, source, target = (TORCH[key] for key in ("lengths", "source", "target"))
    body = {"token_ids": source.tolist(), "target_token_ids": target[:, 1:].tolist(), "return": ["weights", "logits"]}
    answer = ask(torch_daemon, body, f"/v1/models/{name}/attention")
    schema(document, "ModelAttention").validate(answer)
    assert [len(s["ids"]) for s in answer["source"]] == lengths.tolist()
    tolerant(answer["logits"], TORCH[f"{name}/logits"])
    for site in answer["sites"]:
        recorded = TORCH[f"{name}/{site['kind']}" + (f"/{site['layer']}" if name in TRANSFORMERS else "")].copy()
        queries = answer["source" if site["kind"] == "encoder" else "target"]
        for b, sequence in enumerate(queries):
            recorded[b, ..., len(sequence["ids"]):, :] = 0  # padding: it looks at nothing
        tolerant(site["weights"], recorded if recorded.ndim == 4 else recorded[:, None])
    assert len(answer["sites"]) == (6 if name in TRANSFORMERS else 0 if name == "none" else 2)


def test_text_tokens_and_ids_are_one(daemon, model):
    bodies = [{"text": "The red car .", "target_text": "La voiture"},
              {"tokens": ["the", "red", "car", "."], "target_tokens": ["la", "voiture"]},
              {"token_ids": [4, 5, 6, 7], "target_token_ids": [4, 5]}]
    answers = [ask(daemon, b, path(model, "/attention")) for b in bodies]
    assert answers[0]["source"][0] == {"tokens": ["the", "red", "car", "."], "ids": [4, 5, 6, 7],
                                       "offsets": [[0, 3], [4, 7], [8, 11], [12, 13]]}
    assert answers[0]["target"][0]["tokens"] == ["la", "voiture", "<eos>"]
    for other in answers[1:]:
        assert other["sites"] == answers[0]["sites"]
        assert other["source"][0]["tokens"] == answers[0]["source"][0]["tokens"]


def test_a_batch_is_its_sequences(daemon, model):
    texts, targets = ["the red car .", "the car", "."], ["la", "la voiture rouge .", "rouge"]
    batch = ask(daemon, {"text": texts, "target_text": targets, "return": ["weights", "heatmap"]}, path(model, "/attention"))
    for b, (text, target) in enumerate(zip(texts, targets)):
        alone = ask(daemon, {"text": text, "target_text": target}, path(model, "/attention"))
        for many, one in zip(batch["sites"], alone["sites"]):
            expected = array(one["weights"])[0]
            _, L, S = expected.shape
            assert np.abs(array(many["weights"])[b, :, :L, :S] - expected).max() < 1e-6
            assert array(many["weights"])[b, :, :L, S:].sum() == 0
            heads = many["heatmaps"][b]["heads"]
            assert [h["batch"] for h in heads] == [b, b]
            assert np.abs(array([h["max"] for h in heads]) - expected).max() < 1e-6
            assert len(many["heatmaps"][b]["labels"]["key"]) == S


def test_without_a_target_it_is_generated(daemon, model):
    answer = ask(daemon, {"text": "the red car", "return": ["weights", "logits"]}, path(model, "/attention"))
    made = ask(daemon, {"text": "the red car", "max_length": 16}, path(model, "/generate"))["sequences"][0]
    ids = answer["target"][0]["ids"]
    assert ids[:-1] == made["target"]["ids"] and ids[-1] == 2
    logits = array(answer["logits"])[0]
    logits[:, :2] = -np.inf  # padding and begin are never taken
    assert logits.argmax(-1)[:len(ids) - 1].tolist() == ids[:-1]


def test_sites_and_heads(daemon, model):
    body = {"text": "the red car", "target_text": "la"}
    whole = ask(daemon, body, path(model, "/attention"))
    part = ask(daemon, body | {"sites": "cross", "heads": [1], "layers": [0]}, path(model, "/attention"))
    assert [s["kind"] for s in part["sites"]] == ["cross"] and part["sites"][0]["heads"] == [1]
    assert part["sites"][0]["weights"] == [[whole["sites"][1]["weights"][0][1]]]
    drawn = ask(daemon, body | {"heads": [1], "return": "heatmap"}, path(model, "/attention"))
    assert [h["head"] for h in drawn["sites"][0]["heatmaps"][0]["heads"]] == [1]
    assert ask(daemon, body | {"heads": "all"}, path(model, "/attention")) == whole


def test_the_mean_of_the_heads(daemon, model):
    """Without an axis of heads, zeros behind shorter sequences, as a heatmap, a tensor and a shape, too."""
    body = {"text": ["the red car", "red"], "target_text": ["la", "la voiture rouge"]}
    whole, mean = (ask(daemon, body | more, path(model, "/attention")) for more in ({}, {"heads": "mean"}))
    for all_heads, one in zip(whole["sites"], mean["sites"], strict=True):
        assert one["heads"] == "mean" and array(one["weights"]).ndim == 3
        assert np.abs(array(one["weights"]) - array(all_heads["weights"]).mean(1)).max() < 1e-7
    assert not array(mean["sites"][0]["weights"])[1, 1:].any()
    drawn = ask(daemon, body | {"heads": "mean", "return": "heatmap"}, path(model, "/attention"))
    assert [h["head"] for h in drawn["sites"][0]["heatmaps"][0]["heads"]] == ["mean"]
    reply = daemon.post(path(model, "/attention"), body | {"heads": "mean"}, headers={"Accept": "application/vnd.safetensors"})
    assert np.array_equal(load(reply.content)["weights.encoder.0"], array(mean["sites"][0]["weights"]).astype(np.float32))
    shapes = ask(daemon, body | {"heads": "mean", "dry_run": True}, path(model, "/attention"))["dry_run"]["shapes"]
    assert shapes["encoder"] == [2, 3, 3]


@pytest.mark.parametrize("body, code, pointer, words", [
    ({}, "invalid_value", "/text", ["text", "token_ids"]),
    ({"text": "a", "token_ids": [4]}, "invalid_value", "/token_ids", ["text"]),
    ({"text": " "}, "invalid_value", "/text", ["at least one token"]),
    ({"tokens": [["the"], []]}, "invalid_value", "/tokens/1", ["at least one token"]),
    ({"token_ids": [4, 8]}, "invalid_value", "/token_ids/1", ["0 to 7", "found 8"]),
    ({"token_ids": [[4, 5], [4, -1]]}, "invalid_value", "/token_ids/1/1", ["found -1"]),
    ({"token_ids": [4] * 513}, "invalid_value", "/token_ids", ["512"]),
    ({"text": ["the", "red"], "target_text": "la"}, "shape_mismatch", "/target_text", ["2 targets", "found 1"]),
    ({"text": "the", "sites": "decoder"}, "invalid_value", "/sites", ["decoder"]),
    ({"text": "the", "layers": [1]}, "invalid_value", "/layers/0", ["layers 0 to 0", "found 1"]),
    ({"text": "the", "heads": [0, 2]}, "invalid_value", "/heads/1", ["0 to 1"]),
    ({"text": "the", "heads": []}, "invalid_value", "/heads", ["empty list"]),
    ({"text": "the", "layers": []}, "invalid_value", "/layers", ["empty list"]),
    ({"text": "the", "sites": []}, "invalid_value", "/sites", ["empty list"]),
    ({"text": "the", "return": "states", "steps": []}, "invalid_value", "/steps", ["empty list"]),
    ({"text": "the", "heads": "max"}, "invalid_value", "/heads", ["mean"]),
    ({"text": "the", "heads": "mean", "return": ["inputs"]}, "invalid_value", "/heads", ["single heads"]),
    ({"text": 3}, "wrong_type", "/text", ["a string or a list of strings"]),
    ({"tokens": "the"}, "wrong_type", "/tokens", ["list"]),
    ({"texts": "the"}, "unknown_field", "/texts", ["text"]),
])
def test_refusals(daemon, model, body, code, pointer, words):
    refused(daemon, body, code, pointer, *words, path=path(model, "/attention"))


def test_models_without_words_read_ids(daemon):
    made = make(daemon, source_words=None, target_words=None, source_vocabulary=9, target_vocabulary=9)
    refused(daemon, {"text": "the"}, "invalid_value", "/text", "token_ids", path=path(made, "/generate"))
    answer = ask(daemon, {"token_ids": [4, 5, 0]}, path(made, "/generate"))["sequences"][0]
    assert answer["source"] == {"tokens": ["4", "5"], "ids": [4, 5]} and "text" not in answer
    daemon.request("DELETE", path(made))


def test_unknown_words_are_said(daemon, model):
    answer = ask(daemon, {"text": "the blue car", "target_text": "la"}, path(model, "/attention"))
    assert answer["source"][0]["ids"] == [4, 3, 6] and answer["source"][0]["tokens"][1] == "blue"
    assert answer["warnings"] == [{"code": "unknown_word", "pointer": "/text",
                                   "detail": '"blue" is not in the model\'s vocabulary: read as <unk>'}]


def test_many_weights_are_not_answered_unasked(daemon, model):
    body = {"token_ids": [4] * 200, "target_token_ids": [4]}
    answer = ask(daemon, body, path(model, "/attention"))
    assert answer["omitted"]["weights"]["num_values"] == 2 * 200 * 200 + 2 * 2 * 200 and "weights" not in answer["sites"][0]
    assert "weights" in ask(daemon, body | {"return": "weights"}, path(model, "/attention"))["sites"][0]


# --- generation ---

def test_generation(daemon, model, document):  # noqa: F811
    body = {"text": "the red car .", "max_length": 9, "return": ["weights", "heatmap"]}
    answer = ask(daemon, body, path(model, "/generate"))
    schema(document, "ModelGeneration").validate(answer)
    made, = answer["sequences"]
    rows = made["target"]["tokens"]
    assert len(rows) <= 9 and (rows[-1] == "<eos>") == made["ended"] and made["heatmap"]["labels"] == {"query": rows, "key": ["the", "red", "car", "."]}
    assert np.allclose(array(made["weights"]).sum(-1), 1, atol=1e-5)
    assert array([h["max"] for h in made["heatmap"]["heads"]]).tolist() == made["weights"]
    forced = ask(daemon, {"text": body["text"], "target_token_ids": made["target"]["ids"], "return": ["weights", "logits"]},
                 path(model, "/attention"))
    logits = array(forced["logits"])[0]
    sure = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    ids = made["target"]["ids"]
    assert abs(sure[np.arange(len(ids)), ids].sum() - made["score"]) < 1e-4
    cross = array(forced["sites"][1]["weights"])[0]
    assert np.abs(cross[:, :len(rows)] - array(made["weights"])).max() < 1e-5


def test_beams_are_no_worse(daemon, model):
    body = {"text": "the red car .", "max_length": 6, "length_penalty": 0, "return": []}
    greedy, wide = (ask(daemon, body | {"num_beams": n}, path(model, "/generate"))["sequences"][0] for n in (1, 8))
    assert wide["score"] >= greedy["score"] - 1e-5 and "heatmap" not in wide
    assert ask(daemon, body | {"num_beams": 8}, path(model, "/generate"))["sequences"][0] == wide
    refused(daemon, body | {"num_beams": 65}, "invalid_value", "/num_beams", "64", path=path(model, "/generate"))
    refused(daemon, body | {"max_length": 513}, "invalid_value", "/max_length", "512", path=path(model, "/generate"))


@pytest.mark.parametrize("what", ["/attention", "/generate"])
def test_pictures_and_text(daemon, model, what):
    body = {"text": "the red car", "heatmap": {"heads": "mean"}}
    svg = daemon.post(path(model, what), body, headers={"Accept": "image/svg+xml"})
    assert svg.status_code == 200 and svg.text.startswith("<svg ") and ">red<" in svg.text
    png = daemon.post(path(model, what), body, headers={"Accept": "image/png"})
    assert Image.open(io.BytesIO(png.content)).size[0] > 100
    text = daemon.post(path(model, what), body, headers={"Accept": "text/plain"}).text
    assert "heatmap, batch 0, head mean:" in text
    csv = daemon.post(path(model, what), body, headers={"Accept": "text/csv"}).text
    assert "the" in csv.splitlines()[0]
    two = daemon.post(path(model, what), body | {"text": ["the", "car"]}, headers={"Accept": "image/svg+xml"})
    assert two.status_code == 422 and "one sequence" in two.json()["detail"]


def test_a_model_without_attention_draws_nothing(daemon):
    made = make(daemon, attention="none")
    assert made["sites"] == [] and "encoder_attention" not in made["num_parameters"]["parts"]
    assert ask(daemon, {"text": "the"}, path(made, "/attention"))["sites"] == []
    assert "heatmap" not in ask(daemon, {"text": "the"}, path(made, "/generate"))["sequences"][0]
    for what in ("/attention", "/generate"):
        reply = daemon.post(path(made, what), {"text": "the"}, headers={"Accept": "image/svg+xml"})
        assert reply.status_code == 422 and "no attention" in reply.json()["detail"]
    daemon.request("DELETE", path(made))


# --- cost ---

def test_dry_runs(daemon, model, document):  # noqa: F811
    whole = {"text": "the red car", "target_text": "la", "return": ["weights", "logits"]}
    said = ask(daemon, whole | {"dry_run": True}, path(model, "/attention"))
    schema(document, "ModelAttention").validate(said)
    said = said["dry_run"]
    assert said["shapes"] == {"encoder": [1, 2, 3, 3], "cross": [1, 2, 2, 3], "logits": [1, 2, 10]}
    assert said["fits"] and said["num_cells"] == 2 * 9 + 2 * 6 and said["num_parameters"] == model["num_parameters"]["total"]
    for returned, shapes in (("weights", ["encoder", "cross"]), ("logits", ["logits"]), ("encoder_output", ["encoder_output"]), ([], [])):
        part = ask(daemon, whole | {"return": returned, "dry_run": True}, path(model, "/attention"))["dry_run"]
        assert list(part["shapes"]) == shapes, returned
    for returned, shapes in (("weights", ["ids", "cross"]), ("heatmap", ["ids"]), ([], ["ids"])):
        part = ask(daemon, {"text": "the red car", "return": returned, "dry_run": True}, path(model, "/generate"))["dry_run"]
        assert list(part["shapes"]) == shapes, returned
    more = ask(daemon, {"text": "the red car", "num_beams": 4, "dry_run": True}, path(model, "/generate"))
    schema(document, "ModelGeneration").validate(more)
    assert more["dry_run"]["num_operations"] > said["num_operations"]


def test_limits_before_work(start):
    service = start("--max-operations", "1e6", "--max-cells", "1e5")
    made = make(service)
    body = {"token_ids": [4] * 100, "num_beams": 64}
    problem = refused(service, body, "too_large", None, path=path(made, "/generate"), status=413)
    assert problem["limit"]["setting"] in ("max_operations", "max_cells")
    assert not ask(service, body | {"dry_run": True}, path(made, "/generate"))["dry_run"]["fits"]


def test_deadline(daemon):
    made = make(daemon, width=256)
    body = {"token_ids": [4] * 100, "num_beams": 64, "max_length": 200, "timeout_ms": 1, "return": []}
    reply = daemon.post(path(made, "/generate"), body)
    assert reply.status_code == 504 and reply.json()["code"].startswith("deadline")
    daemon.request("DELETE", path(made))


@pytest.mark.parametrize("architecture", ["seq2seq", "transformer"])
def test_memory_that_was_reserved_suffices(daemon, architecture):
    """Every size is refused before its work, or done: never stopped for memory on the way."""
    made = make(daemon, width=64, num_layers=2, architecture=architecture)
    for size in ({"token_ids": [[4] * 300] * 2, "target_token_ids": [[4] * 300] * 2}, {"token_ids": [[4] * 3] * 50, "target_token_ids": [[4]] * 50}):
        assert daemon.post(path(made, "/attention"), size | {"return": "heatmap"}).status_code == 200
    reply = daemon.post(path(made, "/generate"), {"token_ids": [[4] * 60] * 2, "num_beams": 16, "max_length": 60})
    assert reply.status_code == 200
    daemon.request("DELETE", path(made))
