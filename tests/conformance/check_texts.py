"""SmolLM2 and MiniLM over HTTP beside transformers (make check-models): 100 texts of 1 to 2,000 tokens of Debian's manual pages in seven
languages, and what SmolLM2 says next after 100 beginnings of them.

Hidden states, logits and attention weights are compared with transformers in float64 (eager, the weights of the file widened). Over all
texts, their largest error and the root mean square of the errors of the texts, relative to the largest value of a text, are at most those
of transformers in float32 times 1.25, or 1e-5 and 1e-6. Texts of up to 90 tokens are compared whole; of longer ones the probabilities of
their tokens stand for the logits, and 40 rows, computed later from the stored run, for the weights.

A continuation is the greedy one: at each of its 64 places transformers in float32 finds no token whose logit is larger by 1e-4.
ATTN_CHECK_TEXTS: how many texts, default 100.
"""
import functools
import math
import os
import random

import numpy as np
import pytest
import torch
import transformers
from check_tokenizers import manual_pages, pair
from safetensors.numpy import load

from serving import service

MODELS = service.ROOT / "build" / "models"
WHOLE, ROWS, LAYERS = 90, 40, (4, 14, 24)
LENGTHS = [*range(1, WHOLE + 1), 128, 181, 256, 362, 512, 724, 1024, 1448, 1800, 2000]
LENGTHS = LENGTHS[::len(LENGTHS) // int(os.environ.get("ATTN_CHECK_TEXTS", len(LENGTHS)))]
NEW, NEAR = 64, 1e-4
torch.set_num_threads(1)  # two that wait for each other take longer where others compute, too


@pytest.fixture(scope="module")
def daemon():
    running = service.Daemon("--models-dir", str(MODELS), "--log", "off", "--request-timeout-ms", "900000")
    yield running
    running.stop()


@functools.cache
def texts(name):
    """Ids of the beginnings of pages, of all lengths; those of MiniLM have its special tokens and its 512 positions."""
    pages, chance, found = manual_pages(), random.Random(7), []
    names, tokenizer = sorted(pages), pair(name)[1]
    for length in LENGTHS:
        ids, length = [], min(length, 512) if name == "minilm" else length
        while len(ids) < length:
            ids += tokenizer.encode(pages[chance.choice(names)][:20 * length + 100], add_special_tokens=False).ids
        found.append([101, *ids[:length - 2], 102][-length:] if name == "minilm" else ids[:length])
    return found


def reference(name, dtype):
    if name == "minilm":
        model = transformers.AutoModel.from_pretrained(MODELS / name, dtype=torch.float32, attn_implementation="eager")
    else:
        kind = transformers.AutoModelForCausalLM
        model = kind.from_pretrained(MODELS, gguf_file=f"{name}.gguf", dtype=torch.float32, attn_implementation="eager")
    return model.eval().to(dtype)


def rows_of(model, ids):
    """The (layer, head, query) of the rows of weights that are compared; None: all."""
    config, chance = model.config, random.Random(len(ids))
    if len(ids) <= WHOLE:
        return None
    return [tuple(map(chance.randrange, (config.num_hidden_layers, config.num_attention_heads, len(ids)))) for _ in range(ROWS)]


def log_probabilities(logits, ids):
    logits = logits[:-1]
    return logits[range(len(ids) - 1), ids[1:]] - torch.logsumexp(logits, -1)


def of_transformers(model, ids):
    """The arrays that are compared."""
    causal, rows, kept = hasattr(model, "lm_head"), rows_of(model, ids), []
    layers = model.model.layers if causal else model.encoder.layer
    blocks = [layer.self_attn if causal else layer.attention.self for layer in layers]
    # A look at each layer's weights while it runs: those of all layers of a long text would not fit into memory.
    hooks = [block.register_forward_hook(lambda block, args, out, n=n: kept.append(
        out[1][0].numpy() if rows is None else {(n, h, q): out[1][0, h, q].numpy().copy() for layer, h, q in rows if layer == n})) for n, block in enumerate(blocks)]
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_hidden_states=True)
    for hook in hooks:
        hook.remove()
    found = {"weights": np.stack(kept) if rows is None else np.concatenate([{k: v for part in kept for k, v in part.items()}[row] for row in rows])}
    if not causal:
        return found | {"states": out.last_hidden_state[0].numpy()}
    found["states"] = np.stack([out.hidden_states[n + 1][0].numpy() for n in LAYERS])
    found["last state"] = out.hidden_states[-1][0].numpy()
    logits = out.logits[0]
    return found | ({"logits": logits.numpy()} if rows is None else {"log probabilities": log_probabilities(logits, ids).numpy()})


def send(daemon, name, body):
    """The tensors of a pass, and its stored run."""
    reply = daemon.post(f"/v1/models/{name}/attention", body, headers={"Accept": "application/vnd.safetensors"})
    assert reply.status_code == 200, reply.text[:500]
    return load(reply.content), reply.headers.get("X-Run-Id")


def of_ours(daemon, name, model, ids):
    causal, rows = hasattr(model, "lm_head"), rows_of(model, ids)
    wanted = ["states" if causal else "encoder_output", *(["weights", *(["logits"] if causal else [])] if rows is None else [])]
    tensors, run = send(daemon, name, {"token_ids": ids, "return": wanted, "store": rows is not None} | ({"steps": ["norm"]} if causal else {}))
    if rows is None:
        found = {"weights": np.stack([tensors[f"weights.{'decoder' if causal else 'encoder'}.{n}"][0] for n in range(model.config.num_hidden_layers)])}
    else:
        look = (daemon.get(f"/v1/runs/{run}/weights?site={layer}&head={head}&rows={query}").json()["weights"] for layer, head, query in rows)
        found = {"weights": np.concatenate([np.ravel(row) for row in look])}
        daemon.request("DELETE", f"/v1/runs/{run}")
    if not causal:
        return found | {"states": tensors["encoder_output"][0]}
    layers, _ = send(daemon, name, {"token_ids": ids, "return": ["states"], "steps": ["feed_forward_sum"], "layers": LAYERS})
    found["states"] = np.stack([layers[f"states.target.{n}.feed_forward_sum"][0] for n in LAYERS])
    found["last state"] = next(x[0] for key, x in tensors.items() if key.endswith(".norm"))
    if rows is None:
        return found | {"logits": tensors["logits"][0]}
    answer = daemon.post(f"/v1/models/{name}/attention", {"token_ids": ids, "return": "log_probabilities"}).json()
    return found | {"log probabilities": np.array(answer["log_probabilities"][0][1:])}


def root_mean_square(errors):
    return math.sqrt(sum(e * e for e in errors) / len(errors))


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_texts(daemon, name, capsys):
    single, double, errors, beside = reference(name, torch.float32), reference(name, torch.float64), {}, 0
    for ids in texts(name):
        want, theirs, ours = of_transformers(double, ids), of_transformers(single, ids), of_ours(daemon, name, single, ids)
        assert want.keys() == ours.keys()
        beside = max(beside, np.abs(ours["weights"] - theirs["weights"]).max())
        for part, exact in want.items():
            if exact.size:
                most = np.abs(exact).max()
                errors.setdefault(part, []).append([np.abs(found[part] - exact).max() / most for found in (ours, theirs)])
    with capsys.disabled():
        print(f"\n{name}, {len(texts(name))} texts of {min(map(len, texts(name)))} to {max(map(len, texts(name)))} tokens; weights differ from those of "
              f"transformers in float32 by at most {beside:.1e}; errors beside float64, largest, root mean square (those of transformers in float32):")
        for part, found in errors.items():
            ours, theirs = zip(*found)
            print(f"  {part}: {max(ours):.1e}, {root_mean_square(ours):.1e} ({max(theirs):.1e}, {root_mean_square(theirs):.1e})")
    for part, found in errors.items():
        ours, theirs = zip(*found)
        assert max(ours) <= max(1e-5, 1.25 * max(theirs)), part
        assert root_mean_square(ours) <= max(1e-6, 1.25 * root_mean_square(theirs)), part


def test_continuations(daemon, capsys):
    model, near, ended = reference("smollm2", torch.float32), 0, 0
    for number, ids in enumerate(texts("smollm2")):
        prompt = ids[:4 + number % 40] if len(ids) > 3 else [*ids, *texts("smollm2")[-1][:4]]
        made = daemon.post("/v1/models/smollm2/generate", {"token_ids": prompt, "max_length": NEW, "return": []}).json()["sequences"][0]
        new = made["target"]["ids"]
        assert len(new) == NEW or made["ended"]
        ended += made["ended"]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + new[:-1]])).logits[0, len(prompt) - 1:]
        best = logits.max(-1)
        for t, token in enumerate(new):
            if best.indices[t] != token:
                near += 1
                assert best.values[t] - logits[t, token] < NEAR, (number, t, prompt, new)
    with capsys.disabled():
        print(f"\nsmollm2: {len(LENGTHS)} continuations of {NEW} tokens are those of transformers; {ended} ended before; {near} tokens are second by less than {NEAR}")
