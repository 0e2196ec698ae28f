"""Position "disentangled" beside DeBERTa of transformers (make check-torch).

    build/torch/bin/python tests/conformance/check_disentangled.py   writes disentangled_weights.json anew

A case is a model, the sizes of an attention of two heads, and the config of its DisentangledSelfAttention. The
projections of the model are identities, or reverse the columns, so its position table is key_table, and query_table
with the columns reversed."""
import importlib
import json
import pathlib

import numpy as np
import pytest
import torch

FILE = pathlib.Path(__file__).with_name("disentangled_weights.json")
H = 2
BOTH = ["c2p", "p2c"]
V3 = {"position_buckets": 256, "max_relative_positions": -1, "max_position_embeddings": 512}
CASES = {  # name: (model, queries and keys, width of a head, config); the first four are written
    "v1": ("deberta", 6, 3, {"max_relative_positions": 3, "pos_att_type": BOTH}),
    "v2 without buckets": ("deberta_v2", 6, 3, {"max_relative_positions": 4, "pos_att_type": BOTH}),
    "v2 with buckets": ("deberta_v2", 9, 2, {"max_relative_positions": 8, "position_buckets": 4, "pos_att_type": BOTH}),
    "v2, p2c alone": ("deberta_v2", 9, 2, {"max_relative_positions": 20, "position_buckets": 4, "pos_att_type": ["p2c"]}),
    "v1, c2p alone": ("deberta", 40, 16, {"max_relative_positions": 512, "pos_att_type": ["c2p"]}),
    "v1 of 512": ("deberta", 600, 16, {"max_relative_positions": 512, "pos_att_type": BOTH}),
    "v2 of 512": ("deberta_v2", 700, 16, V3 | {"pos_att_type": BOTH}),
    "v2, c2p alone": ("deberta_v2", 700, 16, V3 | {"pos_att_type": ["c2p"]}),
}


def random(case, seed):
    """(queries, keys, position table), [.., H * E], and the number of its rows a side."""
    _, n, E, config = case
    m = config.get("position_buckets", config["max_relative_positions"])
    r = np.random.default_rng(seed)
    return [np.round(r.standard_normal((rows, H * E)), 3) for rows in (n, n, 2 * m)] + [m]


def heads(x):
    return x.reshape(len(x), H, -1).swapaxes(0, 1)


def body(case, seed):
    _, _, _, config = case
    query, key, table, _ = random(case, seed)
    position = {"kind": "disentangled"}
    if "c2p" in config["pos_att_type"]:
        position["key_table"] = heads(table).tolist()
    if "p2c" in config["pos_att_type"]:
        position["query_table"] = heads(table[:, ::-1]).tolist()
    if "position_buckets" in config:
        span = config["max_relative_positions"]
        position["max_distance"] = span if span > 0 else config["max_position_embeddings"]
    return {"query": heads(query)[None].tolist(), "key": heads(key)[None].tolist(), "position": position}


def weights(case, seed):
    """The probabilities that the module of transformers computes in float64."""
    model, n, E, config = case
    package = importlib.import_module(f"transformers.models.{model}")
    code = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    make = package.DebertaConfig if model == "deberta" else package.DebertaV2Config
    module = code.DisentangledSelfAttention(make(hidden_size=H * E, num_attention_heads=H, relative_attention=True, **config)).double().eval()
    query, key, table, _ = (torch.tensor(x) if isinstance(x, np.ndarray) else x for x in random(case, seed))
    same, reverse = torch.eye(H * E).double(), torch.eye(H * E).double().flip(0)
    with torch.no_grad():
        for name, map_of in (("query_proj", same), ("key_proj", same), ("pos_key_proj", same), ("pos_query_proj", reverse),
                             ("pos_proj", same), ("pos_q_proj", reverse)):
            layer = getattr(module, name, None)
            if layer is not None:
                layer.weight.copy_(map_of)
                if layer.bias is not None:
                    layer.bias.zero_()
        if model == "deberta":  # its queries and keys are parts of one projection of both, laid out by head
            layer, E3 = torch.nn.Linear(2 * H * E, 3 * H * E, bias=False).double(), 3 * E
            layer.weight.zero_()
            for h in range(H):
                layer.weight[h * E3:h * E3 + E, h * E:(h + 1) * E] = torch.eye(E)
                layer.weight[h * E3 + E:h * E3 + 2 * E, (H + h) * E:(H + h + 1) * E] = torch.eye(E)
            module.in_proj = layer
            states = {"hidden_states": torch.cat((query, key), 1)[None]}
        else:
            states = {"hidden_states": key[None], "query_states": query[None]}
        at = torch.arange(n)
        if config.get("position_buckets", 0) > 0:
            relative = code.make_log_bucket_position(at[:, None] - at, config["position_buckets"], module.max_relative_positions)
        else:
            relative = at[:, None] - at
        return module(attention_mask=torch.ones(1, 1, n, n).bool(), output_attentions=True, relative_pos=relative.long()[None],
                      rel_embeddings=table, **states)[1].numpy()


@pytest.mark.parametrize("name", CASES)
def test_weights(table, name):
    reply = table.post("/v1/attention", body(CASES[name], 1) | {"return": "weights"}).json()
    assert np.abs(np.array(reply["weights"]) - weights(CASES[name], 1)).max() < 1e-6


if __name__ == "__main__":
    FILE.write_text("{" + ",\n ".join(
        json.dumps(name) + ": " + json.dumps({"body": body(case, 0), "weights": np.round(weights(case, 0), 8).tolist()})
        for name, case in list(CASES.items())[:4]) + "}\n")
