"""POST /v1/models/{id}/explain, and ablate and scale of /attention and /generate, beside a transformer in NumPy float64 whose heads
and residual stream are changed while it runs; contributions are carried forward there, part by part."""
import numpy as np
import pytest
from api_client import array, ask, refused
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_models import TORCH, path, torch_daemon  # noqa: F401, a fixture
from test_api_models_states import HEADS, embed, sinusoids
from test_models_stacks import make

from oracle.layers import linear, softmax

SOURCE, OTHER, TARGET = [4, 7, 9, 5], [6, 8, 9, 10], [5, 8, 11]
BODY = {"token_ids": SOURCE, "target_token_ids": TARGET}
READ = [1, *TARGET]


class Model:
    """A model of TORCH for several sequences at once. changes: {(site, layer): f(z [B, L, heads, E])} and {(stack, layer, part): f(x)}."""

    def __init__(self, name):
        self.p = {k.removeprefix(f"{name}/p/"): v.astype(np.float64) for k, v in TORCH.items() if k.startswith(f"{name}/p/")}
        self.before = name == "before"
        learned = self.p.get("pos_encoding.position_embeddings.weight")
        self.positions = sinusoids(20, 8) if learned is None else learned

    def norm(self, x, name):
        """The norm of x, and of each of its parts with the deviation of x."""
        scale = self.p[f"{name}.weight"] / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        self.parts = {k: (v - v.mean(-1, keepdims=True)) * scale for k, v in self.parts.items()}
        self.add("bias", self.p[f"{name}.bias"])
        return (x - x.mean(-1, keepdims=True)) * scale + self.p[f"{name}.bias"]

    def add(self, name, x):
        self.parts[name] = self.parts.get(name, 0) + x

    def plain_norm(self, x, name):
        kept, self.parts = self.parts, {}
        y = self.norm(x, name)
        self.parts = kept
        return y

    def attention(self, x, memory, name, site, layer, causal=False):
        w, b = (self.p[f"{name}.in_proj_{what}"] for what in ("weight", "bias"))
        q, k, v = (linear(y, w[i * 8:i * 8 + 8], b[i * 8:i * 8 + 8]).reshape(*y.shape[:2], HEADS, -1) for i, y in enumerate((x, memory, memory)))
        scores = np.einsum("blhe,bshe->bhls", q, k) / np.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tri(x.shape[1], dtype=bool), scores, -np.inf)
        self.weights[site, layer] = softmax(scores)
        z = np.einsum("bhls,bshe->blhe", self.weights[site, layer], v)
        z = self.changes.get((site, layer), lambda z: z)(z)
        out = self.p[f"{name}.out_proj.weight"].reshape(8, HEADS, -1)
        heads = {(site, layer, h): np.einsum("ble,de->bld", z[:, :, h], out[:, h]) for h in range(HEADS)}
        return heads | {"bias": self.p[f"{name}.out_proj.bias"]}

    def stack(self, x, name, kinds, memory=None):
        self.parts = {"embedding": x}
        self.streams = [x]
        for layer in range(2):
            for number, (kind, site) in enumerate(kinds, 1):
                inner = self.plain_norm(x, f"{name}.layers.{layer}.norm{number}") if self.before else x
                if kind == "feed":
                    parts = [(self.p[f"{name}.layers.{layer}.linear{i}.weight"], self.p[f"{name}.layers.{layer}.linear{i}.bias"]) for i in (1, 2)]
                    made = {("feed", layer): linear(np.maximum(linear(inner, *parts[0]), 0), *parts[1])}
                else:
                    made = self.attention(inner, memory if kind == "multihead_attn" else inner, f"{name}.layers.{layer}.{kind}", site, layer, site == "decoder")
                for key, y in made.items():
                    self.add(key, y)
                x = x + sum(made.values())
                if not self.before:
                    x = self.norm(x, f"{name}.layers.{layer}.norm{number}")
                x = self.changes.get((name, layer, kind), lambda x: x)(x)
            self.streams.append(x)
        return self.norm(x, f"{name}.norm")

    def run(self, sources, changes=None, read=READ):
        """Logits [B, T, V]; self.parts are then what sums to the last state of the target, self.weights [B, heads, L, S] by site."""
        self.changes, self.weights = changes or {}, {}
        x = np.stack([embed(self.p, s, "src_embedding", self.positions)[None, "positions"] for s in sources])
        memory = self.stack(x, "encoder", [("self_attn", "encoder"), ("feed", None)])
        y = np.stack([embed(self.p, read, "tgt_embedding", self.positions)[None, "positions"]] * len(sources))
        y = self.stack(y, "decoder", [("self_attn", "decoder"), ("multihead_attn", "cross"), ("feed", None)], memory)
        return linear(y, self.p["output_projection.weight"], self.p["output_projection.bias"])


def log_softmax(z):
    return z - z.max(-1, keepdims=True) - np.log(np.exp(z - z.max(-1, keepdims=True)).sum(-1, keepdims=True))


def explain(service, name, **fields):
    return ask(service, BODY | fields, f"/v1/models/{name}/explain")


def head(number, f):
    def change(z):
        z = z.copy()
        z[:, :, number] = f(z[:, :, number])
        return z
    return change


@pytest.fixture(params=["before", "after"])
def model(request):
    return Model(request.param), request.param


def close(got, want):
    np.testing.assert_allclose(got, want, atol=1e-5 * max(1, np.abs(want).max()))


CHANGES = [
    ({"ablate": [{"site": "encoder", "layer": 0, "head": 1}]}, {("encoder", 0): head(1, np.zeros_like)}),
    ({"ablate": [{"site": "cross", "layer": 1}]}, {("cross", 1): np.zeros_like}),
    ({"ablate": [{"layer": 1, "head": 0, "how": "mean"}]}, {("decoder", 1): head(0, lambda z: z * 0 + z[:1].mean(1, keepdims=True))}),
    ({"scale": [{"layer": 0, "head": 1, "factor": -2.5, "position": 2}]},
     {("decoder", 0): head(1, lambda z: z * np.where(np.arange(4) == 2, -2.5, 1)[None, :, None])}),
    ({"patch": [{"site": "cross", "layer": 0, "head": 1, "position": 1}], "other_token_ids": OTHER}, "head"),
    ({"patch": [{"site": "encoder", "layer": 0, "position": 2, "other_position": 3}], "other_token_ids": OTHER}, "stream"),
    ({"patch": [{"layer": 1, "part": "cross_attention"}], "other_token_ids": OTHER}, "all"),
]


def patched(kind):
    """Changes of sequence 0 by sequence 1."""
    def one(z):
        z = z.copy()
        z[0, 1, 1] = z[1, 1, 1]
        return z

    def stream(x):
        x = x.copy()
        x[0, 2] = x[1, 3]
        return x

    def every(x):
        x = x.copy()
        x[0] = x[1]
        return x
    return {"head": {("cross", 0): one}, "stream": {("encoder", 0, "feed"): stream}, "all": {("decoder", 1, "multihead_attn"): every}}[kind]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_changes_beside_numpy(torch_daemon, document, model, number):  # noqa: F811
    numpy, name = model
    fields, changes = CHANGES[number]
    sources = [SOURCE, OTHER]
    plain = numpy.run(sources)[0]
    changed = numpy.run(sources, patched(changes) if isinstance(changes, str) else changes)[0]
    answer = explain(torch_daemon, name, positions=[1, 3], top_k=6, **fields)
    schema(document, "ModelExplanation").validate(answer)
    assert answer["tokens"]["ids"] == READ and set(answer) == {"tokens", "change"}
    for place, t in zip(answer["change"]["positions"], (1, 3)):
        ids = [x["id"] for x in place["logits"]]
        assert place["position"] == t and ids == np.argsort(-plain[t])[:6].tolist()
        for key, want in {"before": plain, "after": changed, "log_probability_before": log_softmax(plain), "log_probability_after": log_softmax(changed)}.items():
            close([x[key] for x in place["logits"]], want[t, ids])
    assert np.abs(plain[3] - changed[3]).max() > 2e-5
    loss = answer["change"]["loss"]
    assert loss["num_tokens"] == 3
    for key, logits in (("before", plain), ("after", changed)):
        assert abs(loss[key] + log_softmax(logits)[np.arange(3), TARGET].mean()) < 1e-5


def test_the_mean_of_references(torch_daemon, model):  # noqa: F811
    """The mean is that over the tokens of the references, whatever their lengths; the text itself does not count."""
    numpy, name = model
    texts = [[4, 5], [8]]
    seen = []
    for ids in texts:
        numpy.run([ids], {("encoder", 0): lambda z: seen.append(z[0, :, 0]) or z})
    mean = np.concatenate(seen).mean(0)
    changed = numpy.run([SOURCE], {("encoder", 0): head(0, lambda z: z * 0 + mean)})[0]
    answer = explain(torch_daemon, name, ablate=[{"site": "encoder", "layer": 0, "head": 0, "how": "mean"}],
                     reference_token_ids=[[4, 5], [8, 0]], top_k=9)
    logits = answer["change"]["positions"][0]["logits"]
    close([x["after"] for x in logits], changed[3, [x["id"] for x in logits]])


def test_the_lens_beside_numpy(torch_daemon, model):  # noqa: F811
    numpy, name = model
    logits = numpy.run([SOURCE])
    streams = [x[0] for x in numpy.streams]
    answer = explain(torch_daemon, name, positions=[0, 2], top_k=9)
    assert set(answer) == {"tokens", "lens"}
    for place, t in zip(answer["lens"], (0, 2)):
        assert [layer["num_layers"] for layer in place["layers"]] == [0, 1, 2]
        for layer, x in zip(place["layers"], streams):
            z = log_softmax(linear(numpy.plain_norm(x[t], "decoder.norm"), numpy.p["output_projection.weight"], numpy.p["output_projection.bias"]))
            ids = [token["id"] for token in layer["tokens"]]
            assert ids == np.argsort(-z)[:9].tolist()
            close([token["log_probability"] for token in layer["tokens"]], z[ids])
        close(z, log_softmax(logits[0, t]))


@pytest.mark.parametrize("ablate", [[], [{"site": "cross", "layer": 0, "head": 1}]], ids=["plain", "ablated"])
def test_contributions_beside_numpy(torch_daemon, model, ablate):  # noqa: F811
    numpy, name = model
    logits = numpy.run([SOURCE], {("cross", 0): head(1, np.zeros_like)} if ablate else None)[0]
    fields = {"ablate": ablate} if ablate else {}
    answer = explain(torch_daemon, name, positions=[1, 3], logit_ids=[6, 10], **fields, **{"return": "contributions"})
    assert [(c["position"], c["id"]) for c in answer["contributions"]] == [(1, 6), (1, 10), (3, 6), (3, 10)]
    for c in answer["contributions"]:
        t, u = c["position"], numpy.p["output_projection.weight"][c["id"]]
        want = {key: u @ np.broadcast_to(x, (1, 4, 8))[0, t] for key, x in numpy.parts.items()}
        want["bias"] += numpy.p["output_projection.bias"][c["id"]]
        assert [(s["kind"], s["layer"]) for s in c["sites"]] == [(kind, layer) for kind in ("decoder", "cross") for layer in (0, 1)]
        got = {"embedding": c["embedding"], "bias": c["bias"]} | {("feed", layer): x for layer, x in enumerate(c["feed_forward"])}
        got |= {(s["kind"], s["layer"], h): x for s in c["sites"] for h, x in enumerate(s["heads"])}
        assert got.keys() == want.keys() and c["patched"] == 0
        for key in want:
            assert abs(got[key] - want[key]) < 1e-5, key
        assert abs(sum(got.values()) - c["logit"]) < 1e-5 and abs(c["logit"] - logits[t, c["id"]]) < 1e-5


def test_a_patch_contributes_what_came_before_it(torch_daemon, model):  # noqa: F811
    _, name = model
    answer = explain(torch_daemon, name, patch=[{"layer": 0}], other_token_ids=OTHER, **{"return": "contributions"})["contributions"][0]
    first, second = ([s["heads"] for s in answer["sites"] if s["layer"] == layer] for layer in (0, 1))
    assert answer["patched"] != 0 and answer["embedding"] == 0 and not np.any(first) and np.all(second)
    total = answer["patched"] + answer["bias"] + sum(answer["feed_forward"]) + np.sum(second)
    assert abs(total - answer["logit"]) < 1e-5


def test_attention_with_ablated_heads(torch_daemon, model):  # noqa: F811
    """The same fields of /attention: logits, weights and the stored run are those of the changed pass."""
    numpy, name = model
    ablate = [{"site": "encoder", "layer": 0, "head": 1}, {"site": "cross", "layer": 0, "head": 0, "position": 2}]
    numpy.run([SOURCE])
    plain = numpy.weights
    only = head(0, lambda z: np.where(np.arange(4) == 2, 0, 1)[None, :, None] * z)
    want = numpy.run([SOURCE], {("encoder", 0): head(1, np.zeros_like), ("cross", 0): only})[0]
    answer = ask(torch_daemon, BODY | {"ablate": ablate, "return": ["logits", "weights"], "store": True}, f"/v1/models/{name}/attention")
    close(array(answer["logits"])[0], want)
    for number, site in enumerate(answer["sites"]):
        close(array(site["weights"])[0], numpy.weights[site["kind"], site["layer"]][0])
        stored = torch_daemon.get(f"/v1/runs/{answer['run']['id']}/weights?site={number}&heads=all").json()
        assert np.array_equal(array(stored["weights"]), array(site["weights"])[0])
    assert np.abs(plain["cross", 1] - numpy.weights["cross", 1]).max() > 1e-4


def test_the_mean_of_several_texts(torch_daemon, model):  # noqa: F811
    """A mean of /attention is that over the tokens of all texts of the request, without padding."""
    numpy, name = model
    texts, targets, seen = [[4, 7, 9, 5], [6, 8]], [[5, 8, 11], [5]], []
    for site in "encoder", "decoder":
        for text, target in zip(texts, targets):
            numpy.run([text], {(site, 0): lambda z: seen.append((site, z[0, :, 0])) or z}, [1, *target])
    means = {site: np.concatenate([z for where, z in seen if where == site]).mean(0) for site in ("encoder", "decoder")}
    for site, mean in means.items():
        answer = ask(torch_daemon, {"token_ids": [[4, 7, 9, 5], [6, 8, 0, 0]], "target_token_ids": [[5, 8, 11], [5, 0, 0]], "return": "logits",
                                    "ablate": [{"site": site, "layer": 0, "head": 0, "how": "mean"}]}, f"/v1/models/{name}/attention")
        for b, (text, target) in enumerate(zip(texts, targets)):
            want = numpy.run([text], {(site, 0): head(0, lambda z: z * 0 + mean)}, [1, *target])[0]
            close(array(answer["logits"])[b, :len(want)], want)


def test_generation_with_changed_heads(torch_daemon, model):  # noqa: F811
    """Tokens, probabilities and the grown run are those of the changed model, as a pass over them has them."""
    _, name = model
    fields = {"ablate": [{"site": "cross", "layer": 0}], "scale": [{"site": "cross", "layer": 1, "factor": -40}]}
    body = {"token_ids": SOURCE, "max_length": 5, "num_alternatives": 1, "return": []}
    plain, made = (ask(torch_daemon, body | more, f"/v1/models/{name}/generate") for more in ({}, fields | {"store": True}))
    ids = made["sequences"][0]["target"]["ids"]
    steps, before = (answer["sequences"][0]["steps"] for answer in (made, plain))
    full = ask(torch_daemon, {"token_ids": SOURCE, "target_token_ids": ids, "return": ["logits", "weights"], **fields}, f"/v1/models/{name}/attention")
    logits = array(full["logits"])[0]
    probabilities = np.exp(log_softmax(logits.astype(float)))[range(len(ids)), ids]
    np.testing.assert_allclose([step["probability"] for step in steps], probabilities, rtol=1e-5)
    assert abs(before[0]["probability"] - probabilities[0]) > 1e-3
    logits[:, :2] = -np.inf
    assert logits[:len(ids)].argmax(-1).tolist() == ids
    for number, site in enumerate(full["sites"]):
        stored = array(torch_daemon.get(f"/v1/runs/{made['run']['id']}/weights?site={number}&heads=all").json()["weights"])
        rows, keys = (len(SOURCE) if site["kind"] == "encoder" else len(ids), len(SOURCE) if site["kind"] != "decoder" else len(ids))
        np.testing.assert_allclose(stored, array(site["weights"])[0][:, :rows, :keys], atol=1e-5)


# --- models of one stack, text, refusals ---

@pytest.fixture(scope="module")
def decoder(daemon):
    words = ["the", "red", "car", "runs", "."]
    return make(daemon, architecture="decoder", target_words=words, num_heads=2, num_layers=2, width=16, seed=3)


def one(daemon, which, **fields):
    return ask(daemon, {"text": "the red car"} | fields, path(which, "/explain"))


def test_a_decoder_alone(daemon, decoder):
    answer = one(daemon, decoder, ablate=[{"layer": 0, "head": 1}], top_k=9, positions=[3])
    assert answer["tokens"]["tokens"] == ["<bos>", "the", "red", "car"]
    for fields, key in (({}, "before"), ({"ablate": [{"layer": 0, "head": 1}]}, "after")):
        logits = array(ask(daemon, {"text": "the red car", "return": "logits", **fields}, path(decoder, "/attention"))["logits"])[0, 3]
        close([x[key] for x in answer["change"]["positions"][0]["logits"]], logits[[x["id"] for x in answer["change"]["positions"][0]["logits"]]])


def test_an_encoder_alone(daemon):
    encoder = make(daemon, architecture="encoder", source_words=["a", "b"], target_words=["x", "y"], num_heads=2, num_layers=1, width=16, seed=3)
    answer = ask(daemon, {"text": "a b", "scale": [{"layer": 0, "factor": 0}], "return": ["change", "lens", "contributions"]}, path(encoder, "/explain"))
    assert "loss" not in answer["change"] and answer["tokens"]["tokens"] == ["a", "b"]
    assert [s["kind"] for s in answer["contributions"][0]["sites"]] == ["encoder"]
    assert not np.any([s["heads"] for s in answer["contributions"][0]["sites"]])


def test_text(daemon, decoder):
    text = daemon.post(path(decoder, "/explain"), {"text": "the red car", "ablate": [{"layer": 0, "head": 1}], "return": ["change", "lens", "contributions"]},
                       headers={"Accept": "text/plain"}).text
    assert text.startswith("loss ") and "\nafter 3 car: logit" in text and "\nlens at 3 car\n" in text and "\n  decoder layer 1 heads " in text


def test_dry_run(daemon, decoder):
    dry = one(daemon, decoder, dry_run=True)["dry_run"]
    assert dry["fits"] and dry["num_operations"] > 0


@pytest.mark.parametrize("fields,pointer", [
    ({"ablate": [{"layer": 2}]}, "/ablate/0/layer"),
    ({"ablate": [{"head": 0}]}, "/ablate/0/layer"),
    ({"ablate": [{"layer": 0, "head": 2}]}, "/ablate/0/head"),
    ({"ablate": [{"layer": 0}, {"layer": 0, "site": "cross"}]}, "/ablate/1/site"),
    ({"ablate": [{"layer": 0, "position": 4}]}, "/ablate/0/position"),
    ({"ablate": [{"layer": 0, "how": "median"}]}, "/ablate/0/how"),
    ({"scale": [{"layer": 0}]}, "/scale/0"),
    ({"patch": [{"layer": 0}]}, "/patch"),
    ({"other_text": "the car"}, "/other_text"),
    ({"patch": [{"layer": 0}], "other_text": "the car"}, "/patch/0/position"),
    ({"patch": [{"layer": 0, "position": 3}], "other_text": "the car"}, "/patch/0/position"),
    ({"patch": [{"layer": 0, "position": 1, "other_position": 3}], "other_text": "the car"}, "/patch/0/other_position"),
    ({"patch": [{"layer": 0, "head": 1, "part": "input"}], "other_text": "the red car"}, "/patch/0/part"),
    ({"patch": [{"layer": 0, "part": "cross_attention"}], "other_text": "the red car"}, "/patch/0/part"),
    ({"patch": [{"layer": 0}], "other_text": ["the car", "car"]}, "/other_text"),
    ({"reference_text": "the car"}, "/reference_text"),
    ({"positions": [4]}, "/positions/0"),
    ({"positions": []}, "/positions"),
    ({"logit_ids": [9], "return": "contributions"}, "/logit_ids/0"),
    ({"logit_ids": [1]}, "/logit_ids"),
    ({"return": "change"}, "/return"),
    ({"return": []}, "/return"),
    ({"text": ["the car", "car"]}, "/text"),
    ({"target_text": "the car"}, "/target_text"),
    ({"top_k": 65}, "/top_k"),
])
def test_refusals(daemon, decoder, fields, pointer):
    code = "shape_mismatch" if fields.get("text") or isinstance(fields.get("other_text"), list) else "invalid_value"
    refused(daemon, {"text": "the red car"} | fields, code, pointer, path=path(decoder, "/explain"))


def test_refused_models(daemon, decoder):
    assert "seq2seq" in daemon.post("/v1/models/en-fr/explain", {"text": "the cat"}).json()["detail"]
    pooled = make(daemon, architecture="encoder", source_words=["a"], target_words=["x"], head="pooled", num_heads=2, num_layers=1, width=16, seed=3)
    assert "no logits of tokens" in daemon.post(path(pooled, "/explain"), {"text": "a"}).json()["detail"]
    masked = make(daemon, architecture="encoder", source_words=["a"], target_words=["x"], head="masked", num_heads=2, num_layers=1, width=16, seed=3)
    refused(daemon, {"text": "a", "return": "contributions"}, "invalid_value", "/return", path=path(masked, "/explain"))
    assert len(ask(daemon, {"text": "a"}, path(masked, "/explain"))["lens"][0]["layers"]) == 2
    for fields, pointer in ({"ablate": [{"layer": 0, "how": "mean"}]}, "/ablate/0/how"), ({"scale": [{"layer": 0, "factor": 1, "position": 0}]}, "/scale/0/position"):
        refused(daemon, {"text": "the"} | fields, "invalid_value", pointer, path=path(decoder, "/generate"))


def test_refused_changes_of_attention(daemon, decoder):
    for fields, pointer in ({"ablate": [{"layer": 2}]}, "/ablate/0/layer"), ({"scale": [{"layer": 0, "factor": 1, "position": 4}]}, "/scale/0/position"):
        refused(daemon, {"text": "the red car"} | fields, "invalid_value", pointer, path=path(decoder, "/attention"))
    refused(daemon, {"text": "the", "ablate": [{"site": "cross", "layer": 0, "position": 12}]}, "invalid_value", "/ablate/0/position",
            path="/v1/models/en-fr-text/attention")
