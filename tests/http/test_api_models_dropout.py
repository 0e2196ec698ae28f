"""`dropout_p` of /v1/models/{id}/attention: what a pass drops, beside the dropouts of tests/oracle/rng.py."""
import numpy as np
import pytest
from api_client import array, ask, refused
from test_api_models import TORCH, make, path, torch_daemon  # noqa: F401, a fixture
from test_api_models_states import BODY, HEADS, SOURCE

from oracle import rng
from oracle.layers import linear, lstm

P = 0.3


def dropped(x, seed, index, p=P):
    """x after dropout number `index` of a pass with this seed."""
    keep = rng.uniform(int(rng.bits(seed, index)), x.size).reshape(x.shape) >= p
    return np.where(keep, x / (1 - p), 0)


def states_of(daemon, name, **fields):
    answer = ask(daemon, BODY | {"return": ["states", "weights", "logits"]} | fields, f"/v1/models/{name}/attention")
    return {(s["side"], s.get("layer"), s["step"]): array(s["values"]) for s in answer["states"]}, answer


def test_the_places_of_dropout(torch_daemon):  # noqa: F811
    """A seq2seq with two LSTM layers draws, for each side: embeddings, second LSTM layer, weights, residual sum."""
    states, answer = states_of(torch_daemon, "textbook", dropout_p=P, seed=11)
    plain, _ = states_of(torch_daemon, "textbook")
    for side, first in (("source", 0), ("target", 4)):
        want = dropped(plain[side, None, "positions"], 11, first)
        assert np.abs(states[side, None, "positions"] - want).max() < 2e-6
    p = {k.removeprefix("textbook/p/"): v.astype(np.float64) for k, v in TORCH.items() if k.startswith("textbook/p/")}
    for side, first, name, step in (("source", 0, "encoder_attention", "self_attention_sum"), ("target", 4, "cross_attention", "cross_attention_sum")):
        x = states[side, 1, "lstm"]
        memory = x if side == "source" else states["source", 0, "self_attention_norm"]
        weights = array(next(s for s in answer["sites"] if s["kind"] == ("encoder" if side == "source" else "cross"))["weights"])
        lengths = [sum(i > 0 for i in ids) for ids in SOURCE]
        masks = dropped(np.ones(weights.shape), 11, first + 2)
        value = linear(memory, p[f"{name}.W_v.weight"], p[f"{name}.W_v.bias"])
        size = x.shape[-1] // HEADS
        heads = [(weights * masks)[:, h] @ value[..., h * size:(h + 1) * size] for h in range(HEADS)]
        out = linear(np.concatenate(heads, -1), p[f"{name}.W_o.weight"], p[f"{name}.W_o.bias"])
        want = x + dropped(out, 11, first + 3)
        for b, length in enumerate(lengths if side == "source" else [x.shape[1]] * len(lengths)):
            if side == "target":
                length = sum(i > 0 for i in BODY["target_token_ids"][b]) + 1
            assert np.abs(states[side, 0, step][b, :length] - want[b, :length]).max() < 5e-6, (side, b)


def test_dropout_between_lstm_layers(torch_daemon):  # noqa: F811
    """The state of the first layer is before its dropout; the second layer reads it dropped."""
    states, _ = states_of(torch_daemon, "textbook", dropout_p=P, seed=11)
    p = {k.removeprefix("textbook/p/"): v.astype(np.float64) for k, v in TORCH.items() if k.startswith("textbook/p/")}
    x = dropped(states["target", 0, "lstm"], 11, 5)
    for b in range(len(x)):
        want, _ = lstm(x[b], p, "decoder_lstm.*_l1", (np.zeros(x.shape[-1]),) * 2)
        assert np.abs(states["target", 1, "lstm"][b] - want).max() < 5e-6


@pytest.mark.parametrize("name", ["textbook", "none", "additive", "local", "before", "after"])
def test_the_same_seed_the_same_answer(torch_daemon, name):  # noqa: F811
    asked = BODY | {"return": ["states", "weights", "logits", "encoder_output"], "dropout_p": 0.2}
    first, again, other = (torch_daemon.post(f"/v1/models/{name}/attention", asked | {"seed": seed}) for seed in (1, 1, 2))
    assert first.status_code == 200 and first.content == again.content != other.content
    plain = ask(torch_daemon, {k: v for k, v in asked.items() if k != "dropout_p"}, f"/v1/models/{name}/attention")
    assert ask(torch_daemon, asked | {"dropout_p": 0}, f"/v1/models/{name}/attention") == plain
    assert np.abs(array(first.json()["logits"]) - array(plain["logits"])).max() > 0.01
    for s in first.json()["sites"]:  # weights before their own dropout
        rows = array(s["weights"]).sum(-1)
        assert (np.isclose(rows, 1, atol=1e-5) | (rows == 0)).all()


def test_the_mean_of_many_passes_is_near_the_pass(torch_daemon):  # noqa: F811
    """Kept numbers are divided by 1 - p, so that embeddings have the right mean."""
    plain, _ = states_of(torch_daemon, "textbook")
    mean = np.mean([states_of(torch_daemon, "textbook", dropout_p=P, seed=s)[0]["source", None, "positions"] for s in range(60)], 0)
    x = plain["source", None, "positions"]
    assert (np.abs(mean - x) <= 5 * np.abs(x) * np.sqrt(P / (1 - P) / 60) + 1e-6).all()


@pytest.mark.parametrize("fields, pointer, words", [
    ({"dropout_p": 0.1}, "/dropout_p", ["needs seed"]),
    ({"seed": 1}, "/seed", ["needs dropout_p"]),
    ({"dropout_p": 1, "seed": 1}, "/dropout_p", ["below 1"]),
    ({"dropout_p": -0.1, "seed": 1}, "/dropout_p", []),
])
def test_refusals(torch_daemon, fields, pointer, words):  # noqa: F811
    refused(torch_daemon, BODY | fields, "invalid_value", pointer, *words, path="/v1/models/textbook/attention")


@pytest.mark.parametrize("fields", [{"num_layers": 8}, {"num_layers": 8, "architecture": "transformer"}, {"positions": "shaw"}])
def test_memory_suffices(daemon, fields):
    made = make(daemon, width=64, **fields)
    for size in ({"token_ids": [[4] * 300] * 2, "target_token_ids": [[4] * 300] * 2}, {"token_ids": [4] * 40}, {"token_ids": [[4] * 2] * 90}):
        reply = daemon.post(path(made, "/attention"), size | {"return": ["logits", "states"], "dropout_p": 0.1, "seed": 3})
        assert reply.status_code == 200, reply.text[:300]
    daemon.request("DELETE", path(made))
