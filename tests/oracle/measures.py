"""Measures of attention heads in NumPy float64, from their definitions and nothing else.

A head is p [L, S] (0 where hidden) with visible [L, S]; query i sits at key t = i + offset. Rows that see
nothing or hold no weight do not count. `extra` holds what some measures need: scores [L, S], tokens
(queries, keys), kinds (queries, keys), segments (queries, keys, count), radius, classes {name: keys}, and
real, how many keys are no padding. A row of padding is one that sees nothing.
"""
import numpy as np

REACH = 64  # offsets at which positional heads are looked for


def entropy(q):
    q = q[q > 0]
    return float(-(q * np.log(q)).sum())


def mean(values):
    values = list(values)
    return float(np.mean(values)) if values else np.nan


def ratio(a, b):
    return float(a / b) if b else np.nan


class Head:
    def __init__(self, p, visible, offset=0, **extra):
        self.p = np.where(visible, np.asarray(p, np.float64), 0)
        self.visible = np.asarray(visible, bool)
        self.L, self.S = self.p.shape
        self.t = np.arange(self.L) + offset
        self.mass = self.p.sum(1)
        self.rows = [i for i in range(self.L) if self.visible[i].any() and self.mass[i] > 0]
        self.extra = extra

    def uniform(self):
        """The head that spreads its weight evenly over what it sees."""
        n = self.visible.sum(1, keepdims=True)
        p = np.divide(self.visible, n, out=np.zeros((self.L, self.S)), where=n > 0)
        extra = {k: v for k, v in self.extra.items() if k != "scores"}
        return Head(p, self.visible, self.t[0] if self.L else 0, **extra)

    def share(self, i):
        return self.p[i] / self.mass[i]

    def at(self, k):
        """p_i,t+k of the rows where that key exists."""
        return [self.p[i, self.t[i] + k] for i in self.rows if 0 <= self.t[i] + k < self.S]

    def many(self):
        return [i for i in self.rows if self.visible[i].sum() > 1]

    def distance(self, f):
        total = self.mass[self.rows].sum()
        away = self.t[:, None] - np.arange(self.S)[None, :]
        return ratio((self.p * f(away))[self.rows].sum(), total)

    def alpha(self):
        """Mean of p_ik over the rows that see k, and how many do."""
        seen = self.visible[self.rows].sum(0)
        return np.divide(self.p[self.rows].sum(0), seen, out=np.full(self.S, np.nan), where=seen > 0), seen

    def positional(self):
        votes = {}
        for i in self.rows:
            k = int(np.argmax(self.p[i])) - int(self.t[i])
            if abs(k) <= REACH:
                votes[k] = votes.get(k, 0) + 1
        if not votes:
            return np.nan, np.nan, np.nan
        best = min(votes, key=lambda k: (-votes[k], abs(k), k))
        return best, votes[best] / len(self.rows), mean(self.at(best))

    def sink(self):
        alpha, seen = self.alpha()
        keys = [k for k in range(self.S) if seen[k] > 0 and 2 * seen[k] >= len(self.rows)]
        if not keys:
            return np.nan, np.nan
        best = max(keys, key=lambda k: alpha[k])
        return alpha[best], best

    def received(self):
        _, seen = self.alpha()
        c = np.sort(self.p[self.rows].sum(0)[seen > 0])
        heavy = -(-self.extra.get("real", self.S) // 5)
        gaps = np.abs(c[:, None] - c[None, :]).sum()  # Gini: mean difference over twice the mean
        return ratio(c[-heavy:].sum(), c.sum()), ratio(gaps, 2 * len(c) * c.sum())

    def pairs_of(self, wanted):
        """Mean of the mass on keys j with wanted(i, j), over the rows that have such a key."""
        sums = []
        for i in self.rows:
            keys = [j for j in range(self.S) if wanted(i, j)]
            if keys:
                sums.append(self.p[i, keys].sum())
        return mean(sums)

    def tokens(self):
        queries, keys = self.extra["tokens"]
        t = self.t
        return {
            "duplicate_token": self.pairs_of(lambda i, j: j < t[i] and keys[j] == queries[i]),
            "induction": self.induction(queries, keys),
        }

    def induction(self, queries, keys):
        sums = []
        for i in self.rows:
            before = [j for j in range(self.S) if j < self.t[i] and keys[j] == queries[i]]
            if before:
                sums.append(sum(self.p[i, j + 1] for j in before if j + 1 < self.S))
        return mean(sums)

    def measures(self):
        rows, many = self.rows, self.many()
        out = {
            "entropy": mean(entropy(self.share(i)) for i in rows),
            "normalized_entropy": mean(entropy(self.share(i)) / np.log(self.visible[i].sum()) for i in many),
            "effective_tokens": mean(np.exp(entropy(self.share(i))) for i in rows),
            "participation": mean(1 / (self.share(i) ** 2).sum() for i in rows),
            "confidence": mean(self.p[i].max() for i in rows),
            "saturated_rows": mean(self.share(i).max() >= 0.99 for i in many),
            "distance": self.distance(np.abs),
            "signed_distance": self.distance(lambda d: d),
            "previous_token": mean(self.at(-1)),
            "current_token": mean(self.at(0)),
            "next_token": mean(self.at(1)),
            "local_mass": mean(self.p[i, np.abs(np.arange(self.S) - self.t[i]) <= self.extra.get("radius", 2)].sum()
                               for i in rows),
            "first_token": mean(self.p[i, 0] for i in rows if self.t[i] > 0),
            "sink_logit_mass": mean(max(0.0, 1 - self.mass[i]) for i in rows),
        }
        out["positional_offset"], out["positional_share"], out["positional_mass"] = self.positional()
        out["sink"], out["sink_key"] = self.sink()
        out["top_share"], out["gini"] = self.received() if rows else (np.nan, np.nan)
        if "tokens" in self.extra:
            out |= self.tokens()
        if "kinds" in self.extra:
            queries, keys = self.extra["kinds"]
            out["same_kind"] = self.pairs_of(lambda i, j: j != self.t[i] and queries[i] >= 0
                                             and keys[j] == queries[i])
        if "segments" in self.extra:
            queries, keys, _ = self.extra["segments"]
            out["block_mass"] = mean(self.p[i, np.asarray(keys) == queries[i]].sum() for i in rows)
        if "scores" in self.extra:
            s = self.extra["scores"]
            out["score_spread"] = mean(np.std(s[i][self.visible[i]]) for i in many)
            out["score_max"] = float(max(s[i][self.visible[i]].max() for i in rows)) if rows else np.nan
        return out

    def blocks(self):
        queries, keys, count = self.extra["segments"]
        return [[mean(self.p[i, np.asarray(keys) == b].sum() for i in self.rows if queries[i] == a)
                 for b in range(count)] for a in range(count)]

    def class_mass(self):
        return {name: mean(self.p[i, keys].sum() for i in self.rows) for name, keys in self.extra["classes"].items()}

    def all(self):
        """measures and uniform of an answer, relative_distance in both."""
        own, even = self.measures(), self.uniform().measures()
        own["relative_distance"] = ratio(own["distance"], even["distance"]) if even["distance"] > 0 else np.nan
        even["relative_distance"] = 1.0 if even["distance"] > 0 else np.nan
        return own, even


def js(a, b):
    """Mean Jensen-Shannon distance of the rows that both heads have."""
    rows = [i for i in a.rows if i in b.rows]
    return mean(entropy((a.share(i) + b.share(i)) / 2) - (entropy(a.share(i)) + entropy(b.share(i))) / 2
                for i in rows)


def cosine(a, b, centered=False):
    """Of the matrices as vectors; a row without weight is zeros."""
    def vector(h):
        p = h.p - h.uniform().p if centered else h.p
        return p[h.rows].ravel(), np.concatenate([p[i] if i in h.rows else np.zeros(h.S) for i in range(h.L)])
    x, y = vector(a)[1], vector(b)[1]
    both = [i for i in range(a.L) if i in a.rows and i in b.rows]
    dot = sum(x.reshape(a.L, -1)[i] @ y.reshape(a.L, -1)[i] for i in both)
    length = np.linalg.norm(x) * np.linalg.norm(y)
    return np.nan if centered and min(np.linalg.norm(x), np.linalg.norm(y)) ** 2 < 1e-10 * a.L else ratio(dot, length)


def rollout(weights):
    """[layers, H, L, L] -> [L, L] (Abnar and Zuidema 2020)."""
    r = np.eye(weights.shape[-1])
    for layer in weights:
        a = layer.mean(0) + np.eye(weights.shape[-1])
        r = (a / a.sum(1, keepdims=True)) @ r
    return r
