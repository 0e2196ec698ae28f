"""Heatmap data from exact weights: selection, pooling, entropy, received mass (lib/include/attn/heatmap.h).

The step of the cells is the service's choice (as many cells as `max_cells` allows); these functions
say what each cell must hold once origin and step are known.
"""
import numpy as np

from .masks import runs


def blocks(n, step):
    return [(a, min(a + step, n)) for a in range(0, n, step)]


def pool(weights, visible, step):
    """Cells of one head's [rows, cols]: max and mean over the visible weights, and which cells have none."""
    rows, cols = blocks(weights.shape[0], step[0]), blocks(weights.shape[1], step[1])
    top, mean = np.zeros((len(rows), len(cols))), np.zeros((len(rows), len(cols)))
    hidden = np.zeros((len(rows), len(cols)), bool)
    for r, (r0, r1) in enumerate(rows):
        for c, (c0, c1) in enumerate(cols):
            seen = weights[r0:r1, c0:c1][visible[r0:r1, c0:c1]]
            if seen.size:
                top[r, c], mean[r, c] = seen.max(), seen.mean()
            else:
                hidden[r, c] = True
    return top, mean, hidden


def row_entropy(weights, visible, step):
    """- sum p ln p of each row over all keys, in nats, averaged over the rows of a cell that see
    anything; NaN where none does. `weights` are whole rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(weights > 0, weights * np.log(weights), 0.0).sum(-1)
    alive = visible.any(-1)
    out = []
    for a, b in blocks(len(entropy), step):
        out.append(entropy[a:b][alive[a:b]].mean() if alive[a:b].any() else np.nan)
    return np.array(out)


def received(weights, step):
    """The mass that each group of keys receives from the chosen rows."""
    return np.array([weights[:, a:b].sum() for a, b in blocks(weights.shape[1], step)])


def one(weights, visible, rows, cols, step):
    """One heatmap of a head's [L, S]: rows and cols are half-open, step = [rows, cols] of a cell."""
    part = weights[rows[0] : rows[1], cols[0] : cols[1]]
    seen = visible[rows[0] : rows[1], cols[0] : cols[1]]
    top, mean, hidden = pool(part, seen, step)
    whole, whole_seen = weights[rows[0] : rows[1]], visible[rows[0] : rows[1]]
    return {
        "shape": list(top.shape), "max": top, "mean": mean, "hidden": runs(hidden),
        "row_entropy": row_entropy(whole, whole_seen, step[0]), "received": received(part, step[1]),
    }


def quantise(values, low, high, transform):
    """u8 cells: v in [low, high] -> t in [0, 1] -> round(255 t)."""
    t = np.clip((values - low) / (high - low), 0, 1) if high > low else np.zeros_like(values)
    if transform == "sqrt":
        t = np.sqrt(t)
    elif transform == "log":
        t = np.log1p(255 * t) / np.log(256)
    return np.rint(255 * t).astype(np.uint8)


def edges(weights, visible, top_k=0, top_p=0.0):
    """[row, col, weight]: the top_k largest of each row, or the fewest that reach top_p."""
    found = []
    for i, (line, seen) in enumerate(zip(weights, visible)):
        order = [j for j in np.argsort(-line, kind="stable") if seen[j]]
        if top_k:
            order = order[:top_k]
        if top_p:
            mass = np.cumsum(line[order])
            order = order[: int(np.searchsorted(mass, top_p)) + 1]
        found += [[i, int(j), line[j]] for j in order]
    return found
