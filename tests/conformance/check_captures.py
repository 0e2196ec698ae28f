"""lib/runs/examples/capture_torch.py: what it records of PyTorch models, against the weights that PyTorch computes
(make check-torch)."""
import importlib.util
import io
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import captured
from oracle import captures
from serving import FLOAT32, service

EXAMPLE = service.ROOT / "lib" / "runs" / "examples" / "capture_torch.py"
spec = importlib.util.spec_from_file_location("capture_torch", EXAMPLE)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
SCHEMA = json.loads((EXAMPLE.parent.parent / "run.schema.json").read_text())
attend = nn.functional.scaled_dot_product_attention
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)


class Watched:
    """A Capture of a model, and beside it the weights of each call by the reference in PyTorch's documentation, in
    float64, [B, H, L, S]."""

    def __init__(self, model):
        self.weights, self.capture = [], example.Capture(model)

    def __enter__(self):
        nn.functional.scaled_dot_product_attention = self.attend
        self.capture.__enter__()
        return self

    def __exit__(self, *error):
        self.capture.__exit__(*error)
        assert nn.functional.scaled_dot_product_attention == self.attend and not self.capture.running
        nn.functional.scaled_dot_product_attention = attend

    def attend(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        output = attend(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        bias = torch.zeros(query.size(-2), key.size(-2), dtype=torch.float64)
        if is_causal:
            bias = bias.masked_fill(torch.ones_like(bias).tril() == 0, -torch.inf)
        if attn_mask is not None:
            bias = bias.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else attn_mask.double() + bias
        q, k = (x.detach().to(output.dtype).double() for x in (query, key))
        k = k.repeat_interleave(q.size(-3) // k.size(-3), -3) if enable_gqa else k
        weights = torch.softmax(q @ k.transpose(-2, -1) * (q.size(-1) ** -0.5 if scale is None else scale) + bias, -1)
        weights = weights if weights.dim() > 3 else weights.unsqueeze(-3)
        self.weights.append(weights.detach().reshape(-1, *weights.shape[-3:]).nan_to_num(0).numpy())
        return output


def same(daemon, watched, folder, **texts):
    """What the service makes of the file equals PyTorch's weights, and the oracle's; its answer and the file."""
    path = folder / "capture.safetensors"
    watched.capture.save(path, **texts)
    answer = captured.check(daemon, path.read_bytes())
    assert len(answer["sites"]) == len(watched.weights) > 0
    for n, want in enumerate(watched.weights):
        for b in range(want.shape[0]):
            reply = daemon.get(f"/v1/runs/{answer['id']}/weights?site={n}&batch={b}&heads=all&rows=0:{want.shape[2]}",
                               headers=captured.NPY)
            assert reply.status_code == 200, reply.text
            assert np.abs(np.load(io.BytesIO(reply.content)) - want[b]).max() <= FLOAT32, (n, b)
    file = captures.read(path.read_bytes())
    assert set(file.run) <= set(SCHEMA["properties"])
    assert all(set(site) <= set(SCHEMA["$defs"]["site"]["properties"]) for site in file.sites)
    return answer, file


# --- models ---

def test_the_program(table, tmp_path):
    path = tmp_path / "capture.safetensors"
    done = subprocess.run([sys.executable, str(EXAMPLE), str(path)], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    answer = captured.check(table, path.read_bytes())
    assert [site["name"] for site in answer["sites"]] == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn", "Model"]
    assert answer["sites"][2]["num_heads"] == 4 and answer["sites"][2]["num_kv_heads"] == 2
    file = captures.read(path.read_bytes())
    assert file.sites[0]["attn_mask"] == file.sites[1]["attn_mask"]  # stored once


@TYPES
def test_its_model(table, tmp_path, dtype):
    torch.manual_seed(1)
    model = example.Model().eval().to(dtype)
    with Watched(model) as watched, torch.no_grad():
        model(torch.tensor([[1, 2, 3, 4], [5, 6, 4, 0]]))
    _, file = same(table, watched, tmp_path, source=[list("abcd"), list("efg.")])
    name = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.float64: "F64"}[dtype]
    assert {kind for kind, _ in file.tensors.values()} == {name}


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
def test_a_translation(table, tmp_path, train):
    """nn.Transformer: kinds, layers and texts of its sites; in training the weights before dropout."""
    torch.manual_seed(2)
    model = nn.Transformer(32, 4, 2, 2, 64, dropout=0.3, batch_first=True).train(train)
    padding = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]).bool()
    source = [["The", "cat", "sat", ".", "<eos>"], ["Dogs", "bark", "<pad>", "<pad>", "<pad>"]]
    target = [["Le", "chat", "est", "assis"], ["Les", "chiens", "aboient", "<pad>"]]
    with Watched(model) as watched:
        model(torch.randn(2, 5, 32), torch.randn(2, 4, 32), tgt_mask=torch.ones(4, 4).triu(1).bool(),
              src_key_padding_mask=padding, memory_key_padding_mask=padding)
    answer, file = same(table, watched, tmp_path, source=source, target=target)
    kinds = {(site["kind"], site["layer"]): site for site in answer["sites"]}
    assert set(kinds) == {(kind, layer) for kind in ("encoder", "decoder", "cross") for layer in (0, 1)}
    assert kinds["cross", 1]["name"] == "decoder.layers.1.multihead_attn"
    texts = {kind: [(file.run["texts"][q]["tokens"], file.run["texts"][k]["tokens"])
                    for q, k in zip(site["query_text"], site["key_text"])]
             for kind, site in ((site["kind"], site) for site in file.sites)}
    assert texts["encoder"] == [(x, x) for x in source] and texts["decoder"] == [(x, x) for x in target]
    assert texts["cross"] == list(zip(target, source))


def test_a_generation(table, tmp_path):
    """A module that is called again with a cache: calls, names, and where its queries stand."""
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys = torch.zeros(1, 2, 0, 8)

        def forward(self, x):
            self.keys = torch.cat((self.keys, x), -2)
            return nn.functional.scaled_dot_product_attention(x, self.keys, self.keys, is_causal=x.size(-2) > 1)

    torch.manual_seed(3)
    model = nn.Sequential(Cached())
    with Watched(model) as watched:
        for L in (3, 1, 1):
            model(torch.randn(1, 2, L, 8))
    answer, file = same(table, watched, tmp_path, source=[list("abcde")])
    assert [(s["name"], s["layer"], s["call"]) for s in answer["sites"]] == [("0", 0, 0), ("0@1", 0, 1), ("0@2", 0, 2)]
    assert [site.get("query_start", 0) for site in file.sites] == [0, 3, 4]
    assert answer["texts"][0]["tokens"] == list("abcde")


def test_a_module_that_is_several_layers(table, tmp_path):
    """ALBERT calls one module for each layer: its calls in a pass are layers, those of other passes are calls."""
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Attend()

        def forward(self, x):
            return self.layer(self.layer(self.layer(x)))

    class Attend(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x)

    torch.manual_seed(4)
    model = Shared()
    with Watched(model) as watched:
        for _ in range(2):
            model(torch.randn(1, 2, 5, 8))
    answer, _ = same(table, watched, tmp_path)
    assert [(s["name"], s["layer"], s["call"]) for s in answer["sites"]] == [
        ("layer", 0, 0), ("layer#1", 1, 0), ("layer#2", 2, 0), ("layer@1", 0, 1), ("layer#1@1", 1, 1), ("layer#2@1", 2, 1)]


def test_nothing_was_recorded(tmp_path):
    with example.Capture(nn.Linear(2, 2)) as capture:
        capture.model(torch.ones(1, 2))
    with pytest.raises(ValueError, match="sdpa"):
        capture.save(tmp_path / "capture.safetensors")


def test_packed_heads(tmp_path):
    """transformers passes the query heads of one key head as rows, if there is one query and a mask."""
    class Packs(nn.Module):
        def forward(self, x, keys):
            mask = None if x.size(-2) > 1 else torch.ones(1, 1, 1, keys.size(-2), dtype=torch.bool)
            query = x if mask is None else x.reshape(1, 2, 2, 8)
            return nn.functional.scaled_dot_product_attention(query, keys, keys, attn_mask=mask, enable_gqa=mask is None)

    with example.Capture(Packs()) as capture:
        x, keys = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 6, 8)
        capture.model(x, keys[:, :, :3])
        for n in (4, 5):
            capture.model(x[:, :, :1], keys[:, :, :n])
    assert [tuple(capture.tensors[f"sites.{n}.query"].shape) for n in range(3)] == [(1, 4, 3, 8), (1, 4, 1, 8), (1, 4, 1, 8)]
    assert torch.equal(capture.tensors["sites.1.query"], x[:, :, :1])
    assert [site.get("query_start", 0) for site in capture.sites] == [0, 3, 4]


@pytest.mark.parametrize("kind", [torch.bool, torch.float32], ids=str)
def test_a_static_cache(table, tmp_path, kind):
    """Keys that are not written yet are hidden: queries stand where the mask ends, then behind those before."""
    class Cached(nn.Module):
        def forward(self, x, keys, at):
            mask = torch.arange(12) <= torch.arange(at, at + x.size(-2))[:, None]
            mask = mask if kind == torch.bool else torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(kind).min)
            return nn.functional.scaled_dot_product_attention(x, keys, keys, attn_mask=mask[None, None])

    torch.manual_seed(5)
    model, keys = Cached(), torch.randn(1, 2, 12, 8)
    with Watched(model) as watched:
        for at, L in ((0, 4), (4, 1), (5, 1)):
            model(torch.randn(1, 2, L, 8), keys, at)
    _, file = same(table, watched, tmp_path)
    assert [(site.get("query_start", 0), site.get("key_start", 0)) for site in file.sites] == [(0, 0), (4, 0), (5, 0)]


# --- single calls ---

class Call(nn.Module):
    def forward(self, *operands, **options):
        return nn.functional.scaled_dot_product_attention(*operands, **options)


def normal(*shape):
    return torch.randn(shape)


def visible(*shape):
    mask = torch.rand(shape) < 0.7
    mask[..., 0] = True
    return mask


CALLS = {
    "plain": lambda: ((normal(2, 4, 5, 8), normal(2, 4, 7, 8)), {}),
    "no heads": lambda: ((normal(3, 5, 8), normal(3, 7, 8)), {"attn_mask": visible(3, 5, 7)}),
    "neither batch nor heads": lambda: ((normal(5, 8), normal(7, 8)), {"attn_mask": normal(5, 7)}),
    "two axes of batches": lambda: ((normal(2, 3, 4, 5, 8), normal(2, 3, 4, 7, 8)), {"is_causal": True}),
    "causal, more keys": lambda: ((normal(1, 2, 5, 8), normal(1, 2, 9, 8)), {"is_causal": True}),
    "causal, more queries": lambda: ((normal(1, 2, 9, 8), normal(1, 2, 5, 8)), {"is_causal": True}),
    "booleans of all": lambda: ((normal(2, 4, 5, 8), normal(2, 4, 7, 8)), {"attn_mask": visible(2, 4, 5, 7)}),
    "booleans of heads": lambda: ((normal(2, 4, 5, 8), normal(2, 4, 7, 8)), {"attn_mask": visible(4, 5, 7)}),
    "expanded booleans": lambda: ((normal(2, 4, 5, 8), normal(2, 4, 7, 8)),
                                  {"attn_mask": visible(2, 1, 1, 7).expand(2, 4, 5, 7)}),
    "numbers": lambda: ((normal(2, 4, 5, 8), normal(2, 4, 7, 8)), {"attn_mask": normal(2, 1, 5, 7)}),
    "numbers and -infinity": lambda: ((normal(2, 4, 5, 8), normal(2, 4, 5, 8)),
                                      {"attn_mask": normal(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)}),
    "a row that sees nothing": lambda: ((normal(1, 1, 5, 8), normal(1, 1, 7, 8)),
                                        {"attn_mask": torch.arange(5)[:, None] != torch.full((1, 7), 2)}),
    "scale": lambda: ((normal(2, 4, 5, 8), normal(2, 4, 7, 8)), {"scale": 0.1}),
    "grouped": lambda: ((normal(2, 6, 5, 8), normal(2, 2, 7, 8)), {"enable_gqa": True}),
    "one key head": lambda: ((normal(2, 6, 5, 8), normal(2, 1, 7, 8)), {"enable_gqa": True, "is_causal": True}),
    "dropout": lambda: ((normal(2, 4, 5, 8), normal(2, 4, 7, 8)), {"dropout_p": 0.5}),
    "strided views": lambda: (normal(2, 9, 2, 4, 8).transpose(1, 3).unbind(2), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(table, tmp_path, name):
    torch.manual_seed(len(name))
    (query, key), options = CALLS[name]()
    model = Call()
    with Watched(model) as watched:
        model(query, key, key, **options)
        model(query, key, key, **options)
    _, file = same(table, watched, tmp_path)
    masks = [x for tensor, x in file.tensors.items() if tensor.startswith("masks.")]
    assert len(masks) == ("attn_mask" in options)
    if name == "expanded booleans":
        assert masks[0][1].shape == (2, 1, 1, 7)


def test_under_autocast(table, tmp_path):
    model = Call()
    with Watched(model) as watched, torch.autocast("cpu", torch.bfloat16):
        model(normal(1, 2, 5, 8), normal(1, 2, 5, 8), normal(1, 2, 5, 8))
    _, file = same(table, watched, tmp_path)
    assert {kind for kind, _ in file.tensors.values()} == {"BF16"}


def test_what_a_call_changes_later(table, tmp_path):
    """A cache that is written in place: the file has its keys as they were."""
    model, keys = Call(), normal(1, 2, 5, 8)
    with Watched(model) as watched:
        model(normal(1, 2, 5, 8), keys, keys)
        keys.zero_()
    same(table, watched, tmp_path)


def test_a_call_that_fails_is_not_recorded():
    model = nn.Sequential(Call())
    with Watched(model) as watched:
        with pytest.raises(RuntimeError):
            nn.functional.scaled_dot_product_attention(normal(1, 1, 2, 3), normal(1, 1, 2, 4), normal(1, 1, 2, 4))
        with pytest.raises(TypeError):
            model("no tensor")
    assert not watched.capture.sites and not watched.capture.tensors and not model._forward_hooks
