"""`inputs` of /v1/models/{id}/attention: queries, keys and values, from which NumPy and /v1/attention make the model's weights."""
import numpy as np
import pytest
from api_client import array, ask, refused
from safetensors.numpy import load
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_models import TORCH, make, path, torch_daemon  # noqa: F401, a fixture
from test_api_models_states import BODY, SAFETENSORS, SOURCE, TARGET

from oracle.layers import linear

ASKED = BODY | {"return": ["inputs", "weights", "states", "encoder_output"]}
LENGTHS = [sum(i > 0 for i in ids) for ids in SOURCE], [sum(i > 0 for i in ids) + 1 for ids in TARGET]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("name", ["textbook", "before", "after", "dot"])
def test_weights_are_made_of_them(torch_daemon, document, name):  # noqa: F811
    answer = ask(torch_daemon, ASKED, f"/v1/models/{name}/attention")
    schema(document, "ModelAttention").validate(answer)
    for s in answer["sites"]:
        q, k, v, w = (array(s[part]) for part in ("query", "key", "value", "weights"))
        heads = 1 if name == "dot" and s["kind"] == "cross" else 2
        S = max(LENGTHS[s["kind"] == "decoder"])
        assert q.shape == (*w.shape[:3], 8 // heads) and k.shape == v.shape == (3, heads, S, 8 // heads)
        for b in range(3):
            rows, cols = LENGTHS[s["kind"] != "encoder"][b], LENGTHS[s["kind"] == "decoder"][b]
            scores = q[b, :, :rows] @ k[b, :, :cols].swapaxes(-1, -2) / (1 if heads == 1 else np.sqrt(q.shape[-1]))
            if s["kind"] == "decoder":
                scores = np.where(np.tri(rows, cols, dtype=bool), scores, -np.inf)
            assert np.abs(softmax(scores) - w[b, :, :rows, :cols]).max() < 2e-6
            assert not q[b, :, rows:].any() and not k[b, :, cols:].any() and not v[b, :, cols:].any()
            if heads == 2:
                again = ask(torch_daemon, {"query": q[b, :, :rows].tolist(), "key": k[b, :, :cols].tolist(), "return": "weights",
                                           "is_causal": s["kind"] == "decoder"})
                assert np.abs(array(again["weights"]) - w[b, :, :rows, :cols]).max() < 2e-6


def test_they_are_the_projections(torch_daemon):  # noqa: F811
    """In NumPy from the file's matrices and the states before."""
    p = {k.removeprefix("textbook/p/"): v.astype(np.float64) for k, v in TORCH.items() if k.startswith("textbook/p/")}
    answer = ask(torch_daemon, ASKED, "/v1/models/textbook/attention")
    states = {(s["side"], s.get("layer"), s["step"]): array(s["values"]) for s in answer["states"]}
    cross = next(s for s in answer["sites"] if s["kind"] == "cross")
    memory = array(answer["encoder_output"])
    for part, letter, x, lengths in (("query", "q", states["target", 1, "lstm"], LENGTHS[1]), ("key", "k", memory, LENGTHS[0]), ("value", "v", memory, LENGTHS[0])):
        want = linear(x, p[f"cross_attention.W_{letter}.weight"], p[f"cross_attention.W_{letter}.bias"]).reshape(3, -1, 2, 4).swapaxes(1, 2)
        for b, n in enumerate(lengths):
            assert np.abs(array(cross[part])[b, :, :n] - want[b, :, :n]).max() < 2e-6


def test_a_choice_of_sites_layers_and_heads(torch_daemon):  # noqa: F811
    asked = BODY | {"return": "inputs"}
    whole = ask(torch_daemon, asked, "/v1/models/before/attention")
    assert "weights" not in whole["sites"][0]
    part, = ask(torch_daemon, asked | {"sites": "decoder", "layers": [1], "heads": [1]}, "/v1/models/before/attention")["sites"]
    same = next(s for s in whole["sites"] if s["kind"] == "decoder" and s["layer"] == 1)
    for name in ("query", "key", "value"):
        assert (array(part[name]) == array(same[name])[:, 1:]).all()
    reply = torch_daemon.post("/v1/models/before/attention", asked, headers={"Accept": SAFETENSORS})
    tensors = load(reply.content)
    assert set(tensors) == {f"{name}.{s['kind']}.{s['layer']}" for s in whole["sites"] for name in ("query", "key", "value")}
    assert (tensors["key.decoder.1"] == array(same["key"]).astype(np.float32)).all()
    text = torch_daemon.post("/v1/models/before/attention", asked | {"sites": "cross", "layers": [0]}, headers={"Accept": "text/plain"}).text
    assert [line for line in text.splitlines() if line.endswith(":")] == ["query.cross.0 (3, 2, 5, 4):", "key.cross.0 (3, 2, 6, 4):", "value.cross.0 (3, 2, 6, 4):"]


def test_all_names_all_sites(torch_daemon):  # noqa: F811
    for name in ("textbook", "before"):
        whole = ask(torch_daemon, ASKED, f"/v1/models/{name}/attention")
        for sites in ("all", ["all"], ["cross", "all"]):
            assert ask(torch_daemon, ASKED | {"sites": sites}, f"/v1/models/{name}/attention") == whole
    refused(torch_daemon, ASKED | {"sites": "each"}, "invalid_value", "/sites", "all", path="/v1/models/before/attention")


def test_they_are_counted(torch_daemon):  # noqa: F811
    def cost(**fields):
        return ask(torch_daemon, BODY | {"dry_run": True} | fields, "/v1/models/before/attention")["dry_run"]
    plain, all_, one = cost(**{"return": []}), cost(**{"return": "inputs"}), cost(**{"return": "inputs", "sites": "cross", "layers": [0], "heads": [1]})
    assert all_["shapes"]["query.cross"] == [3, 2, 5, 4] and all_["shapes"]["value.encoder"] == [3, 2, 6, 4] and "key.decoder" in all_["shapes"]
    assert one["shapes"]["key.cross"] == [3, 1, 6, 4] and "key.encoder" not in one["shapes"] and "query.cross" not in plain["shapes"]
    numbers = 2 * 3 * 8 * (3 * 6 + 3 * 5 + 5 + 2 * 6)
    assert 4 * numbers <= all_["bytes"]["work"] - plain["bytes"]["work"] < 4 * numbers + 4096  # rounded up to 64 bytes each
    assert all_["bytes"]["result"] - plain["bytes"]["result"] >= 4 * numbers
    assert one["bytes"]["result"] - plain["bytes"]["result"] >= 4 * 3 * 4 * (5 + 2 * 6)


@pytest.mark.parametrize("fields", [{}, {"architecture": "transformer", "num_layers": 4}, {"attention": "additive"}, {"attention": "none"}])
def test_memory_suffices(daemon, fields):
    made = make(daemon, width=64, **fields)
    for size in ({"token_ids": [[4] * 300] * 2, "target_token_ids": [[4] * 300] * 2}, {"token_ids": [4] * 40}, {"token_ids": [[4] * 2] * 90}):
        for accept in ("application/json", SAFETENSORS, "text/plain"):
            reply = daemon.post(path(made, "/attention"), size | {"return": ["logits", "inputs"], "decimals": 3}, headers={"Accept": accept})
            assert reply.status_code == 200, reply.text[:300]
    daemon.request("DELETE", path(made))


def test_the_diagnosis_names_them(daemon):
    """Small embeddings give scores without spread; the diagnosis says how to get what it needs, and /v1/attention then tells the cause."""
    made = make(daemon, architecture="transformer", norm="after", positions="none", embedding_std=0.01)
    body = {"text": "the red car . the red car .", "target_text": "la voiture", "sites": "encoder"}
    answer = ask(daemon, body | {"analysis": "all", "return": "inputs"}, path(made, "/attention"))
    said = next(d for d in answer["analyses"][0]["diagnoses"] if d["code"] == "near_uniform")
    assert '"return": "inputs"' in said["text"]
    site, = answer["sites"]
    causes = ask(daemon, {"query": site["query"], "key": site["key"], "analysis": ["diagnoses"]})["analysis"]["diagnoses"]
    assert any(d["code"].startswith("near_uniform_") for d in causes)
    refused(daemon, body | {"return": "input"}, "invalid_value", "/return", "inputs", path=path(made, "/attention"))
