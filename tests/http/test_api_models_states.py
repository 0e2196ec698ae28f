"""`states` of /v1/models/{id}/attention beside both architectures in NumPy float64, computed from the model files; which
states a request chooses; their limits."""
import json

import numpy as np
import pytest
from api_client import array, ask, refused
from safetensors import deserialize
from safetensors.numpy import load
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_models import TORCH, make, path, torch_daemon  # noqa: F401, a fixture

from oracle.layers import attend, linear, lstm, norm, read_both_ways

SAFETENSORS = "application/vnd.safetensors"
HEADS = 2  # of the models of TORCH
SOURCE, TARGET = TORCH["source"].tolist(), TORCH["target"][:, 1:].tolist()  # ids, 0 is padding
BODY = {"token_ids": SOURCE, "target_token_ids": TARGET}


# --- the models in NumPy ---

def sinusoids(length, D):
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, D)


def embed(p, ids, name, positions):
    """The first two states: embeddings times sqrt(D), and with positions."""
    x = p[f"{name}.weight"][ids] * np.sqrt(p[f"{name}.weight"].shape[1])
    return {(None, "embedding"): x, (None, "positions"): x + positions[:len(ids)]}


def seq2seq(p, source, target, layers, attends):
    """The states of both sides, {(layer or None, step): [L, D]} in the order in which they are computed."""
    def sublayer(states, x, memory, name, norm_name, step):
        projections = [(p[f"{name}.{w}.weight"], p[f"{name}.{w}.bias"]) for w in ("W_q", "W_k", "W_v", "W_o")]
        states[0, f"{step}_sum"] = x + attend(x, memory, projections, HEADS)
        states[0, f"{step}_norm"] = norm(states[0, f"{step}_sum"], p, norm_name)
    D = p["src_embedding.weight"].shape[1]
    read = embed(p, source, "src_embedding", sinusoids(20, D))
    outputs, handed = read_both_ways(p, read[None, "positions"], layers)
    read |= {(layer, "lstm"): x for layer, x in enumerate(outputs)}
    if attends:
        sublayer(read, outputs[-1], outputs[-1], "encoder_attention", "encoder_norm", "self_attention")
    written = {} if attends else {(layer, f"start_{name}"): x for layer in range(layers) for name, x in zip(("hidden", "cell"), handed[layer])}
    written |= embed(p, target, "tgt_embedding", sinusoids(20, D))
    x = written[None, "positions"]
    for layer in range(layers):
        x, _ = lstm(x, p, f"decoder_lstm.*_l{layer}", (np.zeros(D),) * 2 if attends else handed[layer])
        written[layer, "lstm"] = x
    if attends:
        sublayer(written, x, read[0, "self_attention_norm"], "cross_attention", "cross_norm", "cross_attention")
    else:
        written[None, "norm"] = norm(x, p, "cross_norm")
    return read, written


def transformer(p, source, target, layers, before, positions):
    def sublayer(states, x, layer, step, f, norm_name):
        if before:
            states[layer, f"{step}_norm"] = norm(x, p, norm_name)
            states[layer, f"{step}_sum"] = x = x + f(states[layer, f"{step}_norm"])
        else:
            states[layer, f"{step}_sum"] = x + f(x)
            states[layer, f"{step}_norm"] = x = norm(states[layer, f"{step}_sum"], p, norm_name)
        return x

    def attention(name, memory=None, causal=False):
        weights = [*np.split(p[f"{name}.in_proj_weight"], 3), p[f"{name}.out_proj.weight"]]
        biases = [*np.split(p[f"{name}.in_proj_bias"], 3), p[f"{name}.out_proj.bias"]]
        return lambda x: attend(x, x if memory is None else memory, list(zip(weights, biases)), HEADS,
                                np.tri(len(x), dtype=bool) if causal else True)

    def feed_forward(name):
        parts = [(p[f"{name}.linear{i}.weight"], p[f"{name}.linear{i}.bias"]) for i in (1, 2)]
        return lambda x: linear(np.maximum(linear(x, *parts[0]), 0), *parts[1])
    read = embed(p, source, "src_embedding", positions)
    x = read[None, "positions"]
    for n in range(layers):
        name = f"encoder.layers.{n}"
        x = sublayer(read, x, n, "self_attention", attention(f"{name}.self_attn"), f"{name}.norm1")
        x = sublayer(read, x, n, "feed_forward", feed_forward(name), f"{name}.norm2")
    memory = read[None, "norm"] = norm(x, p, "encoder.norm")
    written = embed(p, target, "tgt_embedding", positions)
    x = written[None, "positions"]
    for n in range(layers):
        name = f"decoder.layers.{n}"
        x = sublayer(written, x, n, "self_attention", attention(f"{name}.self_attn", causal=True), f"{name}.norm1")
        x = sublayer(written, x, n, "cross_attention", attention(f"{name}.multihead_attn", memory), f"{name}.norm2")
        x = sublayer(written, x, n, "feed_forward", feed_forward(name), f"{name}.norm3")
    written[None, "norm"] = norm(x, p, "decoder.norm")
    return read, written


def in_numpy(name, source, target):
    """The states of both sides of the model `name` for one pair of sequences without padding."""
    p = {k.removeprefix(f"{name}/p/"): v.astype(np.float64) for k, v in TORCH.items() if k.startswith(f"{name}/p/")}
    read = [1, *target]  # what the decoder reads
    if name in ("before", "after"):
        learned = p.get("pos_encoding.position_embeddings.weight")
        return transformer(p, source, read, 2, name == "before", sinusoids(20, 8) if learned is None else learned)
    return seq2seq(p, source, read, 2, name == "textbook")


# --- every state ---

@pytest.mark.parametrize("name", ["textbook", "none", "before", "after"])
def test_the_states_are_those_of_numpy(torch_daemon, document, name):  # noqa: F811
    answer = ask(torch_daemon, BODY | {"return": ["states", "encoder_output", "logits"]}, f"/v1/models/{name}/attention")
    schema(document, "ModelAttention").validate(answer)
    compared = 0
    for b, (source, target) in enumerate(zip(SOURCE, TARGET)):
        sides = dict(zip(("source", "target"), in_numpy(name, [i for i in source if i], [i for i in target if i])))
        listed = [(side, *place) for side, states in sides.items() for place in states]
        assert [(s["side"], s.get("layer"), s["step"]) for s in answer["states"]] == listed
        for s in answer["states"]:
            want = sides[s["side"]][s.get("layer"), s["step"]]
            got = array(s["values"])[b]
            got = got[:len(want)] if want.ndim == 2 else got
            assert got.shape == want.shape and np.abs(got - want).max() < 2e-5, (s["side"], s.get("layer"), s["step"])
            compared += 1
        last = sides["target"][listed[-1][1:]]
        weight, bias = (TORCH[f"{name}/p/output_projection.{part}"].astype(np.float64) for part in ("weight", "bias"))
        assert np.abs(array(answer["logits"])[b, :len(last)] - linear(last, weight, bias)).max() < 5e-5
    assert compared == 3 * {"textbook": 12, "none": 13, "before": 26, "after": 26}[name]
    last = [s for s in answer["states"] if s["side"] == "source"][-1]
    assert last["values"] == answer["encoder_output"]  # the same float32 numbers, digit for digit


@pytest.mark.parametrize("name", ["textbook", "before"])
def test_as_safetensors(torch_daemon, name):  # noqa: F811
    asked = BODY | {"return": ["states", "weights", "logits", "encoder_output"]}
    plain = ask(torch_daemon, asked, f"/v1/models/{name}/attention")
    reply = torch_daemon.post(f"/v1/models/{name}/attention", asked, headers={"Accept": SAFETENSORS})
    assert reply.status_code == 200 and reply.headers["Content-Type"] == SAFETENSORS
    tensors = load(reply.content)
    size = int.from_bytes(reply.content[:8], "little")
    rest = json.loads(json.loads(reply.content[8:8 + size])["__metadata__"]["response"])
    assert [dict(s, values=0) for s in rest["states"]] == [dict(s, values=0) for s in plain["states"]]
    names = {".".join(["states", s["side"], *([str(s["layer"])] if "layer" in s else []), s["step"]]): s["values"] for s in plain["states"]}
    names |= {f"weights.{s['kind']}.{s['layer']}": s["weights"] for s in plain["sites"]}
    names |= {key: plain[key] for key in ("logits", "encoder_output")}
    assert set(tensors) == set(names) and len(deserialize(reply.content)) == len(names)
    for key, values in names.items():
        assert tensors[key].dtype == np.float32 and np.array_equal(tensors[key], np.array(values, np.float32)), key
    last = "states.source.norm" if name == "before" else "states.source.0.self_attention_norm"
    assert tensors[last].tobytes() == tensors["encoder_output"].tobytes()


def test_as_text(torch_daemon):  # noqa: F811
    text = torch_daemon.post("/v1/models/before/attention", BODY | {"return": ["states", "logits"], "decimals": 2},
                             headers={"Accept": "text/plain"}).text
    assert "states.source.1.feed_forward_sum (3, 6, 8):\n" in text and "states.target.norm (3, 5, 8):\n" in text
    assert "logits (3, 5, 13):\n" in text and text.count("\nstates.") == 26


# --- a choice of states ---

def chosen(daemon, name, **fields):
    answer = ask(daemon, BODY | {"return": "states"} | fields, f"/v1/models/{name}/attention")
    return [(s["side"], s.get("layer"), s["step"]) for s in answer["states"]]


def test_layers_sites_and_steps_choose(torch_daemon):  # noqa: F811
    assert chosen(torch_daemon, "textbook", layers=[1]) == [("source", 1, "lstm"), ("target", 1, "lstm")]
    assert chosen(torch_daemon, "textbook", sites="cross", steps=["lstm", "embedding"]) == [
        ("target", None, "embedding"), ("target", 0, "lstm"), ("target", 1, "lstm")]
    assert chosen(torch_daemon, "before", sites="encoder", steps="norm") == [("source", None, "norm")]
    assert chosen(torch_daemon, "before", sites=["encoder", "decoder"], layers=[1], steps=["self_attention_sum"]) == [
        ("source", 1, "self_attention_sum"), ("target", 1, "self_attention_sum")]
    whole = {(s["side"], s.get("layer"), s["step"]): s["values"] for s in
             ask(torch_daemon, BODY | {"return": "states"}, "/v1/models/before/attention")["states"]}
    part, = ask(torch_daemon, BODY | {"return": "states", "layers": [1], "steps": "cross_attention_sum"}, "/v1/models/before/attention")["states"]
    assert part["values"] == whole["target", 1, "cross_attention_sum"]


def test_the_bottleneck(torch_daemon):  # noqa: F811
    """One vector a source, made of the last row of the forward half and the first of the backward half; it is in the cost."""
    asked = BODY | {"return": "states"}
    states = {(s["side"], s.get("layer"), s["step"]): array(s["values"]) for s in ask(torch_daemon, asked, "/v1/models/none/attention")["states"]}
    for layer in (0, 1):
        for b, ids in enumerate(SOURCE):
            rows, length = states["source", layer, "lstm"][b], sum(i > 0 for i in ids)
            assert (states["target", layer, "start_hidden"][b] == np.concatenate([rows[length - 1, :4], rows[0, 4:]])).all()
    alone = asked | {"steps": ["start_hidden", "start_cell"], "layers": [1]}
    found = ask(torch_daemon, alone, "/v1/models/none/attention")["states"]
    assert [(s["step"], array(s["values"]).shape) for s in found] == [("start_hidden", (3, 8)), ("start_cell", (3, 8))]
    assert ask(torch_daemon, alone | {"dry_run": True}, "/v1/models/none/attention")["dry_run"]["shapes"]["states.start"] == [2, 3, 8]
    tensors = load(torch_daemon.post("/v1/models/none/attention", alone, headers={"Accept": SAFETENSORS}).content)
    assert (tensors["states.target.1.start_hidden"] == array(found[0]["values"]).astype(np.float32)).all()
    refused(torch_daemon, alone, "invalid_value", "/steps", "no step start_hidden", path="/v1/models/textbook/attention")


def test_positions_inside_attention_are_no_state(daemon):
    made = make(daemon, positions="alibi", architecture="transformer")
    steps = [s["step"] for s in ask(daemon, {"text": "the red", "target_text": "la", "return": "states"}, path(made, "/attention"))["states"]]
    assert steps[0] == "embedding" and "positions" not in steps
    refused(daemon, {"text": "the", "return": "states", "steps": "positions"}, "invalid_value", "/steps", "has no step positions",
            path=path(made, "/attention"))
    daemon.request("DELETE", path(made))


@pytest.mark.parametrize("fields, code, pointer, words", [
    ({"return": "states", "steps": "lstms"}, "invalid_value", "/steps", ["lstm"]),
    ({"return": "states", "steps": "feed_forward_sum"}, "invalid_value", "/steps", ["no step feed_forward_sum"]),
    ({"steps": "lstm"}, "invalid_value", "/steps", ["states", "return"]),
    ({"return": "states", "layers": [2]}, "invalid_value", "/layers/0", ["layers 0 to 1", "found 2"]),
    ({"return": "states", "layers": [0, -1]}, "invalid_value", "/layers/1", []),
    ({"layers": [1]}, "invalid_value", "/layers/0", ["site encoder", "0 to 0"]),
    ({"layers": []}, "invalid_value", "/layers", ["at least one"]),
])
def test_refusals(torch_daemon, fields, code, pointer, words):  # noqa: F811
    refused(torch_daemon, BODY | fields, code, pointer, *words, path="/v1/models/textbook/attention")


# --- limits ---

def test_states_are_counted(torch_daemon):  # noqa: F811
    def cost(**fields):
        return ask(torch_daemon, BODY | {"dry_run": True} | fields, "/v1/models/before/attention")["dry_run"]
    plain, all_, one = cost(**{"return": []}), cost(**{"return": "states"}), cost(**{"return": "states", "layers": [0], "steps": "feed_forward_sum"})
    assert all_["shapes"]["states.source"] == [11, 3, 6, 8] and all_["shapes"]["states.target"] == [15, 3, 5, 8]
    assert one["shapes"]["states.source"] == [1, 3, 6, 8] and one["shapes"]["states.target"] == [1, 3, 5, 8]
    numbers = 3 * 8 * (6 + 5)
    assert one["bytes"]["result"] - plain["bytes"]["result"] >= 4 * numbers
    assert all_["bytes"]["result"] - plain["bytes"]["result"] >= 4 * 3 * 8 * (11 * 6 + 15 * 5)
    more = all_["bytes"]["work"] - plain["bytes"]["work"]
    # the embeddings before their positions, the list of states, and the buffers of blocks, which a pass without states uses again
    assert 4 * numbers <= more < 4 * numbers + 4 * 3 * 8 * (11 * 6 + 15 * 5)
    assert not {"states.source", "states.target"} & set(plain["shapes"])


@pytest.mark.parametrize("architecture", ["seq2seq", "transformer"])
@pytest.mark.parametrize("accept", ["application/json", SAFETENSORS])
def test_memory_for_states_suffices(daemon, architecture, accept):
    made = make(daemon, width=64, num_layers=4, architecture=architecture)
    for size in ({"token_ids": [[4] * 300] * 2, "target_token_ids": [[4] * 300] * 2}, {"token_ids": [[4] * 3] * 50, "target_token_ids": [[4]] * 50},
                 {"token_ids": [4] * 40}):
        reply = daemon.post(path(made, "/attention"), size | {"return": ["states", "encoder_output"]}, headers={"Accept": accept})
        assert reply.status_code == 200, reply.text[:300]
    daemon.request("DELETE", path(made))


def test_too_many_states_are_refused_before_work(start):
    body = {"token_ids": [[4] * 40] * 4, "target_token_ids": [[4] * 40] * 4}
    sizes = dict(architecture="transformer", num_layers=8, width=32)

    def need(service, returned):
        said = ask(service, body | {"return": returned, "dry_run": True}, path(made, "/attention"))["dry_run"]
        return said["bytes"]["work"] + said["bytes"]["result"]
    made = make(wide := start(), **sizes)
    between = (need(wide, []) + need(wide, "states")) / 2
    service = start("--max-request-bytes", str(int(between)))
    made = make(service, **sizes)
    assert service.post(path(made, "/attention"), body | {"return": []}).status_code == 200
    problem = refused(service, body | {"return": "states"}, "too_large", None, path=path(made, "/attention"), status=413)
    assert problem["limit"]["setting"] == "max_request_bytes"
    few = body | {"return": "states", "layers": [7], "steps": "feed_forward_sum", "sites": "encoder"}
    assert service.post(path(made, "/attention"), few).status_code == 200
