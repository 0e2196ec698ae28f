"""A stored capture (lib/runs/FORMAT.md) beside its oracle: what the service says of each site is compared with float64."""
import io
from urllib.parse import quote

import numpy as np
from safetensors.numpy import load

from oracle import captures, measures
from serving import FLOAT32, FLOAT64

TYPE = {"Content-Type": "application/vnd.safetensors"}
TENSORS = {"Accept": "application/vnd.safetensors"}
NPY = {"Accept": "application/x-npy"}


def store(daemon, data, status=201):
    """Posts a capture; the answer, which is that of GET /v1/runs/{id} or a problem."""
    reply = daemon.post("/v1/runs", data, headers=TYPE)
    assert reply.status_code == status, f"{reply.status_code}: {reply.text[:600]}"
    return reply.json()


def close(got, want, bound, what):
    """Arrays within the bound, per unit of magnitude; -infinity exactly where it is wanted."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    hidden = np.isneginf(want)
    assert (np.isneginf(got) == hidden).all(), f"{what}: other cells are hidden"
    if (~hidden).any():
        error, unit = np.abs(got[~hidden] - want[~hidden]).max(), max(1.0, np.abs(want[~hidden]).max())
        assert error <= bound * unit, f"{what}: off by {error}, allowed {bound * unit}"


def pooled(weights, visible, level):
    """Max and mean of the visible weights of each 2^level square, -infinity where there are none."""
    side = 1 << level
    R, C = (-(-n // side) for n in weights.shape)
    grow = [(0, R * side - weights.shape[0]), (0, C * side - weights.shape[1])]
    seen = np.pad(visible, grow).reshape(R, side, C, side)
    boxes = np.pad(weights, grow).reshape(R, side, C, side)
    count = seen.sum((1, 3))
    mean = np.where(seen, boxes, 0).sum((1, 3)) / np.maximum(count, 1)
    return np.where(seen, boxes, -np.inf).max((1, 3)), np.where(count, mean, -np.inf)


class Site:
    """A site of a stored run beside its oracle."""

    def __init__(self, daemon, run, described, file, n, seed):
        self.daemon, self.path, self.described = daemon, f"/v1/runs/{run}", described
        self.r = np.random.default_rng([seed, n])
        self.site = n if n % 2 else quote(described["name"], safe="")
        self.want = captures.attention(file, n)
        self.B, self.H, self.L, self.S = self.want["weights"].shape
        lead = described["weights_shape"][:-3]
        self.no_rows, self.no_keys = captures.padding(file, n, lead, self.L, self.S)
        double = captures.is_double(file, n)
        self.bound, self.pooled_bound = (FLOAT64, 1e-7) if double else (FLOAT32, FLOAT32)

    def get(self, what, status=200, **kwargs):
        what += ("&" if "?" in what else "?") + f"site={self.site}"
        reply = self.daemon.get(self.path + what, **kwargs)
        assert reply.status_code == status, f"{what}: {reply.status_code}: {reply.text[:400]}"
        return reply

    def head(self):
        b, h = int(self.r.integers(self.B)), int(self.r.integers(self.H))
        return f"batch={b}&head={h}", {name: x[b, h] for name, x in self.want.items()}

    def cells(self):
        for _ in range(3):
            at, want = self.head()
            i, j = int(self.r.integers(self.L)), int(self.r.integers(self.S))
            cell = self.get(f"/cells?{at}&row={i}&col={j}").json()
            what = f"cell {at}&row={i}&col={j}"
            assert cell["visible"] == bool(want["visible"][i, j]), what
            close(cell["weight"], want["weights"][i, j], self.bound, what)
            for stage in ("raw", "scaled", "softcapped", "biased"):
                if cell["visible"]:
                    close(cell[stage], want[stage][i, j], self.bound, f"{stage} of {what}")
            if cell["logsumexp"] is not None:
                close(cell["logsumexp"], want["logsumexp"][i], self.bound, f"logsumexp of {what}")

    def span(self, n):
        """A range of at least one of n."""
        return sorted(self.r.choice(n + 1, 2, replace=False).tolist())

    def weights(self):
        at, want = self.head()
        i, j = self.span(self.L), self.span(self.S)
        what = f"/weights?{at}&rows={i[0]}:{i[1]}&cols={j[0]}:{j[1]}"
        got = np.load(io.BytesIO(self.get(what, headers=NPY).content))
        close(got, want["weights"][slice(*i), slice(*j)], self.bound, what)

    def rows(self):
        at, want = self.head()
        first = int(self.r.integers(self.L))
        last = min(self.L, first + 3)
        what = f"/rows?{at}&rows={first}:{last}"
        got = load(self.get(what, headers=TENSORS).content)
        close(got["weights"], want["weights"][first:last], self.bound, what)
        close(got["logsumexp"], want["logsumexp"][first:last], self.bound, f"logsumexp of {what}")

    def strongest(self):
        at, want = self.head()
        i, k = int(self.r.integers(self.L)), int(self.r.integers(1, 8))
        what = f"/top-k?{at}&rows={i}&k={k}"
        got = load(self.get(what, headers=TENSORS).content)
        seen = want["weights"][i][want["visible"][i]]
        assert len(got["key"]) == min(k, seen.size) == len(set(got["key"].tolist())), what
        close(got["weight"], want["weights"][i, got["key"]], self.pooled_bound, what)
        close(got["weight"], np.sort(seen)[::-1][:k], self.pooled_bound, f"order of {what}")

    def tiles(self):
        at, want = self.head()
        for level, (R, C) in enumerate(self.described["tiles"]["levels"]):
            cells = pooled(want["weights"], want["visible"], level)
            assert cells[0].shape == (R, C)
            for y in range(-(-R // 256)):
                for x in range(-(-C // 256)):
                    what = f"/tiles?{at}&level={level}&y={y}&x={x}&encoding=f32"
                    box = [part[256 * y:256 * y + 256, 256 * x:256 * x + 256] for part in cells]
                    if np.isneginf(box[0]).all():
                        self.get(what, 204)
                    else:
                        got = np.frombuffer(self.get(what).content, "<f4").reshape(2, *box[0].shape)
                        close(got, np.stack(box), self.pooled_bound, what)

    def measures(self):
        """Rows of padding count in no measure, receive nothing on a key and are no rows that look at it."""
        if self.B * self.H > 24 or self.L * self.S > 4096:
            return
        heads = self.get("/metrics?analysis=all").json()["heads"]
        maps = self.get("/heatmap").json()["heads"]
        for got, drawn in zip(heads, maps, strict=True):
            b, h = got["batch"], got["head"]
            visible = self.want["visible"][b, h] & ~self.no_rows[b][:, None]
            weights = np.where(visible, self.want["weights"][b, h], 0)
            head = measures.Head(weights, visible, real=int((~self.no_keys[b]).sum()))
            assert got["rows"] == len(head.rows), f"rows of head {b}, {h}"
            close(np.sum(drawn["received"]), weights.sum(), 1e-5, f"received of head {b}, {h}")
            wants = {"entropy": head.measures()["entropy"]} if not head.rows else head.measures()
            for name in ("entropy", "confidence", "top_share", "gini"):
                if head.rows:
                    close(got["measures"][name], wants[name], 1e-4, f"{name} of head {b}, {h}")

    def lookers(self):
        at, want = self.head()
        j = int(self.r.integers(self.S))
        b = int(at.split("&")[0].removeprefix("batch="))
        got = load(self.get(f"/top-k?{at}&axis=key&cols={j}&k=1000", headers=TENSORS).content)
        rows = np.flatnonzero(want["visible"][:, j] & ~self.no_rows[b])
        assert sorted(got["row"].tolist()) == rows.tolist(), f"who looks at key {j} of {at}"

    def check(self):
        if self.want["weights"].size:
            self.measures()
            self.lookers()
            self.cells()
            self.weights()
            self.rows()
            self.strongest()
            self.tiles()


def labels(file, n, side, b):
    """The labels of a sequence's queries or keys, or None."""
    site = file.sites[n]
    number = site.get(f"{side}_text")
    if number is None:
        return None
    start = site.get(f"{side}_start", 0)
    return file.run["texts"][number if isinstance(number, int) else number[b]]["tokens"][start:]


def described(answer, file):
    """The answer names the sites as the file does."""
    counts = {}
    for n, (got, site) in enumerate(zip(answer["sites"], file.sites, strict=True)):
        kind = site.get("kind", "self")
        assert got["name"] == site.get("name", f"sites.{n}") and got.get("kind", "self") == kind
        assert got["layer"] == site.get("layer", counts.get(kind, 0)) and got.get("call", 0) == site.get("call", 0)
        counts[kind] = counts.get(kind, 0) + 1


def check(daemon, data, seed=0):
    """Stores a capture and compares all its sites; returns the answer."""
    file, answer = captures.read(data), store(daemon, data)
    described(answer, file)
    for n, site in enumerate(answer["sites"]):
        try:
            Site(daemon, answer["id"], site, file, n, seed).check()
        except AssertionError as fault:
            raise AssertionError(f"site {n} {file.sites[n]}: {fault}") from None
    return answer
