"""Compares rotary frequencies with transformers, which the tests do not install:

    python tests/conformance/check_rotary.py http://127.0.0.1:8080   compares the tables of /v1/positions
    python tests/conformance/check_rotary.py --write                 writes rotary_tables.json anew

A case is a body of POST /v1/positions. Its tables are cos and sin of inv_freq times the positions, in float32,
times the attention factor, as the rotary modules of transformers compute them."""
import json
import pathlib
import sys
import urllib.request

FILE = pathlib.Path(__file__).with_name("rotary_tables.json")
YARN = {"kind": "yarn", "factor": 8, "original_max_position_embeddings": 64}
LLAMA = {"kind": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}
LONG = {"kind": "longrope", "factor": 4, "original_max_position_embeddings": 8, "short_factor": [1, 1.25, 1.5, 2, 3, 4],
        "long_factor": [1, 2, 4, 8, 16, 32]}
CASES = {
    "linear": {"scaling": {"kind": "linear", "factor": 4}},
    "dynamic within": {"scaling": {"kind": "dynamic", "factor": 2, "original_max_position_embeddings": 16}},
    "dynamic beyond": {"scaling": {"kind": "dynamic", "factor": 2, "original_max_position_embeddings": 5}, "base": 500000},
    "yarn": {"scaling": YARN}, "yarn of a base": {"scaling": YARN, "base": 1000000},
    "yarn of DeepSeek": {"scaling": YARN | {"factor": 40, "beta_fast": 16, "beta_slow": 2, "mscale": 0.7, "mscale_all_dim": 1.2}},
    "yarn of gpt-oss": {"scaling": YARN | {"factor": 32, "truncate": False}, "base": 150000},
    "yarn with a factor": {"scaling": YARN | {"attention_factor": 1.5}},
    "llama3": {"scaling": LLAMA}, "llama3 of a base": {"scaling": LLAMA | {"factor": 32}, "base": 500000},
    "longrope within": {"scaling": LONG, "length": 8}, "longrope beyond": {"scaling": LONG, "length": 9},
}


def body(case):
    return {"kind": "rotary", "length": 6, "width": 12} | case


def tables(b):
    """(cosines, sines) of transformers."""
    import torch
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = {k: v for k, v in b["scaling"].items() if k != "kind"}
    kind = b["scaling"]["kind"]
    known = scaling.get("original_max_position_embeddings", 2048)
    config = LlamaConfig(hidden_size=b["width"], num_attention_heads=1, head_dim=b["width"], max_position_embeddings=known,
                         rope_parameters=scaling | {"rope_type": kind, "rope_theta": float(b.get("base", 10000))})
    inv_freq, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=b["length"])
    angle = torch.arange(b["length"]).float()[:, None] * inv_freq.float()
    return (angle.cos() * factor).tolist(), (angle.sin() * factor).tolist()


def main():
    if sys.argv[1:] == ["--write"]:
        rows = [json.dumps(name) + ": " + json.dumps(
            {"body": body(case)} | {n: [[round(x, 8) for x in row] for row in table]
                                    for n, table in zip(("cosines", "sines"), tables(body(case)))})
                for name, case in CASES.items()]
        FILE.write_text("{" + ",\n ".join(rows) + "}\n")
        return
    for name, case in CASES.items():
        b = body(case | {"length": case.get("length", 64)})
        request = urllib.request.Request(sys.argv[1] + "/v1/positions", json.dumps(b).encode(), {"Content-Type": "application/json"})
        got = json.load(urllib.request.urlopen(request))
        error = max(abs(x - y) for n, table in zip(("cosines", "sines"), tables(b))
                    for row, other in zip(got[n], table) for x, y in zip(row, other))
        print(f"{name}: {error:.1e}")


main()
