"""The attention modules of textbooks in PyTorch, small and without options, as something to compare with.

Weights are nn.Linear throughout; dropout is 0. Each returns (context, weights). `mask` is true (or 1) where
attention is allowed. Papers: Bahdanau, Cho and Bengio (2015); Luong, Pham and Manning (2015); Vaswani et
al. (2017).
"""
import math

import torch
from torch import nn


def attend(scores, values, mask=None):
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = scores.softmax(-1)
    return weights @ values, weights


class AdditiveAttention(nn.Module):
    """score(h, s) = v . tanh(W1 h + W2 s) for encoder states h [B, S, De] and a decoder state s [B, Dd]."""

    def __init__(self, encoder_dim, decoder_dim, attention_dim):
        super().__init__()
        self.W1 = nn.Linear(encoder_dim, attention_dim, bias=False)
        self.W2 = nn.Linear(decoder_dim, attention_dim, bias=False)
        self.v = nn.Linear(attention_dim, 1, bias=False)

    def forward(self, states, decoder):
        hidden = torch.tanh(self.W1(states) + self.W2(decoder)[:, None])
        context, weights = attend(self.v(hidden).transpose(1, 2), states)
        return context[:, 0], weights[:, 0]

    def score(self):
        return {"kind": "additive", "w_k": self.W1.weight, "w_q": self.W2.weight, "v": self.v.weight[0]}


class MultiplicativeAttention(nn.Module):
    """dot: h . s; general: h . W s; concat: v . tanh(W [h; s])."""

    def __init__(self, encoder_dim, decoder_dim, method):
        super().__init__()
        self.method = method
        if method == "general":
            self.W = nn.Linear(decoder_dim, encoder_dim, bias=False)
        elif method == "concat":
            self.W = nn.Linear(encoder_dim + decoder_dim, decoder_dim, bias=False)
            self.v = nn.Linear(decoder_dim, 1, bias=False)

    def forward(self, states, decoder):
        if self.method == "concat":
            both = torch.cat((states, decoder[:, None].expand(-1, states.shape[1], -1)), -1)
            scores = self.v(torch.tanh(self.W(both)))[..., 0]
        else:
            s = self.W(decoder) if self.method == "general" else decoder
            scores = torch.einsum("bsd,bd->bs", states, s)
        context, weights = attend(scores[:, None], states)
        return context[:, 0], weights[:, 0]

    def score(self):
        if self.method == "dot":
            return {"kind": "dot"}
        field = {"kind": self.method, "w": self.W.weight}
        return field if self.method == "general" else {**field, "v": self.v.weight[0]}


class SelfAttention(nn.Module):
    """One head of full width over x [B, L, D]."""

    def __init__(self, d_model):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x, mask=None):
        q, k, v = self.W_q(x), self.W_k(x), self.W_v(x)
        return attend(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), v, mask)

    def projections(self):
        return linears(q=self.W_q, k=self.W_k, v=self.W_v)


class MultiHeadAttention(nn.Module):
    """Heads over equal parts of the width, joined and projected; weights [B, H, L, S]."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.split(self.W_q(query)), self.split(self.W_k(key)), self.split(self.W_v(value))
        context, weights = attend(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), v, mask)
        return self.W_o(context.transpose(1, 2).flatten(-2)), weights

    def projections(self):
        return {"num_heads": self.num_heads, **linears(q=self.W_q, k=self.W_k, v=self.W_v, o=self.W_o)}


class CausalSelfAttention(nn.Module):
    """The same over x alone, where row i sees keys 0 … i."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.heads = MultiHeadAttention(d_model, num_heads)

    def forward(self, x):
        L = x.shape[1]
        return self.heads(x, x, x, torch.ones(L, L).tril()[None, None])

    def projections(self):
        return self.heads.projections()


class SinusoidalPositionalEncoding(nn.Module):
    """x + PE with sines in even and cosines in odd columns."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        step = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        angle = torch.arange(max_len).float()[:, None] * step
        self.register_buffer("pe", torch.stack((angle.sin(), angle.cos()), -1).flatten(-2))

    def forward(self, x):
        return x + self.pe[: x.shape[1]]


def linears(**layers):
    """The field `projections` of some nn.Linear."""
    fields = {}
    for name, layer in layers.items():
        fields["w_" + name], fields["b_" + name] = layer.weight, layer.bias
    return fields
