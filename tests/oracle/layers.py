"""Layers of sequence models, after their definitions in PyTorch's documentation. x is one sequence [L, D]."""
import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def linear(x, weight, bias):
    return x @ weight.T + bias


def norm(x, p, name):
    """torch.nn.LayerNorm with the parameters `name`.weight and `name`.bias."""
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * p[f"{name}.weight"] + p[f"{name}.bias"]


def attend(x, memory, projections, heads, keep=True):
    """Multi-head attention over memory [S, D]; projections are weight and bias of q, k, v and o, and `keep`, which
    broadcasts to [L, S], is true for keys that are seen."""
    (q, k, v), out = (linear(y, *p) for y, p in zip((x, memory, memory), projections)), projections[3]
    size = x.shape[1] // heads
    parts = []
    for h in range(heads):
        at = slice(h * size, (h + 1) * size)
        scores = np.where(keep, q[:, at] @ k[:, at].T / np.sqrt(size), -np.inf)
        parts.append(softmax(scores) @ v[:, at])
    return linear(np.concatenate(parts, -1), *out)


def lstm(x, p, name, begin):
    """One direction of a layer of torch.nn.LSTM from the state (h, c): its outputs and its last state."""
    w, u, b, c = (p[name.replace("*", part)] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    h, state = begin
    out = []
    for row in x:
        i, f, g, o = np.split(w @ row + b + u @ h + c, 4)
        state = sigmoid(f) * state + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(state)
        out.append(h)
    return np.array(out), (h, state)


def read_both_ways(p, x, layers):
    """A bidirectional LSTM: the outputs of each layer, and the last states of both directions side by side."""
    outputs, handed = [], []
    zeros = (np.zeros(x.shape[1] // 2),) * 2
    for layer in range(layers):
        ahead, one = lstm(x, p, f"encoder_lstm.*_l{layer}", zeros)
        back, two = lstm(x[::-1], p, f"encoder_lstm.*_l{layer}_reverse", zeros)
        x = np.concatenate([ahead, back[::-1]], -1)
        outputs.append(x)
        handed.append(tuple(np.concatenate(both) for both in zip(one, two)))
    return outputs, handed
