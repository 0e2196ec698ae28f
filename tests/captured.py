"""A stored capture (lib/runs/FORMAT.md) beside its oracle: what the service says of each site is compared with float64."""
import base64
import io
from urllib.parse import quote, unquote

import numpy as np
from safetensors.numpy import load

from oracle import captures, measures
from oracle.masks import runs
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
    """Arrays within the bound, per unit of magnitude; -infinity, or NaN, exactly where it is wanted: JSON has null
    for both."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    got = np.where(np.isnan(got), -np.inf, got)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    hidden = np.isneginf(want)
    assert (np.isneginf(got) == hidden).all(), f"{what}: other cells are hidden"
    if (~hidden).any():
        error, unit = np.abs(got[~hidden] - want[~hidden]).max(), max(1.0, np.abs(want[~hidden]).max())
        assert error <= bound * unit, f"{what}: off by {error}, allowed {bound * unit}"


def same(got, want, what):
    """Equal arrays, bit by bit."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, f"{what}: {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    assert (got == want).all(), f"{what}: {np.abs(got.astype(float) - want).max()} from the exact weights"


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

    def __init__(self, daemon, run, n, described, want, double, seed, padding=None):
        """`want`: weights, visible and the stages of the scores as [B, H, L, S], and logsumexp as [B, H, L]; `padding`: rows
        [B, L] and keys [B, S] that are padding; None: measures, which leave them out, are not compared."""
        self.daemon, self.path, self.described = daemon, f"/v1/runs/{run}", described
        self.r = np.random.default_rng([seed, n])
        self.number = n
        self.site = n if n % 2 else quote(described["name"], safe="")
        self.want, self.entries = want, {}
        self.B, self.H, self.L, self.S = self.want["weights"].shape
        self.padding = padding
        self.no_rows, self.no_keys = padding or (None, None)
        self.bound, self.pooled_bound = (FLOAT64, 1e-7) if double else (FLOAT32, FLOAT32)

    def get(self, what, status=200, **kwargs):
        what += "" if "sites=" in what else ("&" if "?" in what else "?") + f"site={self.site}"
        reply = self.daemon.get(self.path + what, **kwargs)
        assert reply.status_code == status, f"{what}: {reply.status_code}: {reply.text[:400]}"
        return reply

    def head(self):
        """The query of a head, what the oracle says of it, and its weights as /weights answers them, which all looks share
        to the bit."""
        b, h = int(self.r.integers(self.B)), int(self.r.integers(self.H))
        return f"batch={b}&head={h}", {name: x[b, h] for name, x in self.want.items()} | {"exact": self.entry(b)[h]}

    def entry(self, b):
        """All weights of a batch entry, [H, L, S]."""
        if b not in self.entries:
            what = f"/weights?batch={b}&heads=all&rows=0:{self.L}"
            self.entries[b] = np.load(io.BytesIO(self.get(what, headers=NPY).content))
            close(self.entries[b], self.want["weights"][b], self.bound, what)
        return self.entries[b]

    def cells(self):
        for _ in range(3):
            at, want = self.head()
            i, j = int(self.r.integers(self.L)), int(self.r.integers(self.S))
            cell = self.get(f"/cells?{at}&row={i}&col={j}").json()
            what = f"cell {at}&row={i}&col={j}"
            assert "visible" not in want or cell["visible"] == bool(want["visible"][i, j]), what
            same(np.array(cell["weight"], want["exact"].dtype), want["exact"][i, j], what)
            for stage in ("raw", "scaled", "softcapped", "biased"):
                if stage in want and cell["visible"]:
                    close(cell[stage], want[stage][i, j], self.bound, f"{stage} of {what}")
            if "logsumexp" in want and cell["logsumexp"] is not None:
                close(cell["logsumexp"], want["logsumexp"][i], self.bound, f"logsumexp of {what}")

    def span(self, n):
        """A range of at least one of n."""
        return sorted(self.r.choice(n + 1, 2, replace=False).tolist())

    def weights(self):
        at, want = self.head()
        i, j = self.span(self.L), self.span(self.S)
        what = f"/weights?{at}&rows={i[0]}:{i[1]}&cols={j[0]}:{j[1]}"
        got = np.load(io.BytesIO(self.get(what, headers=NPY).content))
        same(got, want["exact"][slice(*i), slice(*j)], what)

    def rows(self):
        at, want = self.head()
        first = int(self.r.integers(self.L))
        last = min(self.L, first + 3)
        what = f"/rows?{at}&rows={first}:{last}"
        got = load(self.get(what, headers=TENSORS).content)
        same(got["weights"], want["exact"][first:last], what)
        if "visible" in want:
            assert got["num_visible_keys"].tolist() == want["visible"][first:last].sum(1).tolist(), what
        if "logsumexp" in want:
            close(got["logsumexp"], want["logsumexp"][first:last], self.bound, f"logsumexp of {what}")

    def strongest(self):
        at, want = self.head()
        i, k = int(self.r.integers(self.L)), int(self.r.integers(1, 8))
        what = f"/top-k?{at}&rows={i}&top_k={k}"
        got = load(self.get(what, headers=TENSORS).content)
        seen = want["weights"][i][want["visible"][i]]
        assert len(got["col"]) == min(k, seen.size) == len(set(got["col"].tolist())), what
        same(got["weight"], want["exact"][i, got["col"]].astype(np.float32), what)
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
        heads = self.get("/analyses?analysis=all").json()["heads"]
        maps = self.get("/heatmaps").json()["heads"]
        first = self.described["layer"]
        layers = self.described["weights_shape"][0] if self.described["axes"][:1] == ["layer"] else 1
        for got, drawn in zip(heads, maps, strict=True):
            b, h = got["batch"] + (got.get("layer", first) - first) * (self.B // layers), got["head"]
            visible = self.want["visible"][b, h] & ~self.no_rows[b][:, None]
            weights = np.where(visible, self.want["weights"][b, h], 0)
            head = measures.Head(np.maximum(weights, 0), visible, real=int((~self.no_keys[b]).sum()))
            assert got["num_rows"] == len(head.rows), f"rows of head {b}, {h}"
            close(np.sum(drawn["received"]), weights.sum(), 1e-5, f"received of head {b}, {h}")
            wants = {"entropy": head.measures()["entropy"]} if not head.rows else head.measures()
            for name in ("entropy", "confidence", "top_share", "gini"):
                if head.rows:
                    close(got["measures"][name], wants[name], 1e-4, f"{name} of head {b}, {h}")

    def lookers(self):
        at, want = self.head()
        j = int(self.r.integers(self.S))
        b = int(at.split("&")[0].removeprefix("batch="))
        got = load(self.get(f"/top-k?{at}&axis=key&cols={j}&top_k=1000", headers=TENSORS).content)
        rows = np.flatnonzero(want["visible"][:, j] & ~self.no_rows[b])
        assert sorted(got["row"].tolist()) == rows.tolist(), f"who looks at key {j} of {at}"

    def what_if(self):
        """Nothing hidden: the weights as they are; a key hidden: no weight there, and the others in proportion."""
        b, h = int(self.r.integers(self.B)), int(self.r.integers(self.H))
        first, hide = int(self.r.integers(self.L)), [int(self.r.integers(self.S))]
        last = min(self.L, first + 3)
        body = {"hide": hide, "site": unquote(str(self.site)), "batch": b, "head": h, "rows": [first, last], "return": [
            "weights_before", "weights", "removed"]}
        reply = self.daemon.post(self.path + "/what-if", body, headers=TENSORS)
        if reply.status_code == 422 and "mask_fill" in reply.text:
            return
        assert reply.status_code == 200, f"{body}: {reply.text}"
        got, exact = load(reply.content), self.entry(b)[h][first:last]
        if "strided" in self.described["mask"]:  # a few rows are computed in one pass, many in two
            close(got["weights_before"], exact, self.bound, f"what-if {body}")
        else:
            same(got["weights_before"], exact, f"what-if {body}")
        close(got["removed"], exact[:, hide[0]].astype(np.float64), 1e-6, f"removed of {body}")
        assert (got["weights"][:, hide] == 0).all(), body

    def heatmap(self):
        """Each cell is a weight where the map is small enough; a cell without a visible weight is 0."""
        at, want = self.head()
        what = f"/heatmaps?{at.replace('head=', 'heads=')}&max_cells={self.L * self.S}"
        (got,) = self.get(what).json()["heads"]
        if got["step"] == [1, 1]:
            want_cells = np.where(want["visible"], want["exact"], 0).astype(np.float32)
            same(np.array(got["max"], np.float32).reshape(self.L, self.S), want_cells, what)
            assert got["hidden"] == runs(~want["visible"]), what

    def every_head(self):
        """Looks at all heads together."""
        every = self.get(f"/heads?sites={self.number}").json()["heads"]
        what = f"/atlas?sites={self.number}&max_side=64&transform=linear"
        thumbnails = self.get(what).json()["thumbnails"]
        assert len(every) == len(thumbnails) == self.B * self.H
        for (b, h), t in zip(np.ndindex(self.B, self.H), thumbnails):
            seen, exact = self.want["visible"][b, h], self.entry(b)[h].astype(np.float32)
            codes = np.frombuffer(base64.b64decode(t["max"]), np.uint8).reshape(exact.shape)
            assert ((codes > 0) == seen).all(), f"{what}: {t}"
            if seen.any():
                same(np.array(t["range"], np.float32), np.array([exact[seen].min(), exact[seen].max()]), f"{what}: {t}")

    def check_weights(self):
        """What does not need the scores of one head."""
        if self.want["weights"].size:
            self.cells()
            self.weights()
            self.rows()

    def check(self):
        if self.want["weights"].size:
            if self.padding:
                self.measures()
                self.lookers()
            self.cells()
            self.weights()
            self.rows()
            self.strongest()
            self.tiles()
            self.what_if()
            self.heatmap()
            if max(self.L, self.S) <= 64:
                self.every_head()


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
        kind, stack = site.get("kind", "self"), site.get("stack")
        assert got["name"] == site.get("name", f"sites.{n}") and got.get("kind", "self") == kind and got.get("stack") == stack
        layer = counts.get((kind, stack), 0)
        assert got["layer"] == site.get("layer", layer) and got.get("call", 0) == site.get("call", 0)
        counts[kind, stack] = layer + 1


def check(daemon, data, seed=0):
    """Stores a capture and compares all its sites; returns the answer."""
    file, answer = captures.read(data), store(daemon, data)
    described(answer, file)
    for n, site in enumerate(answer["sites"]):
        try:
            *_, L, S = (want := captures.attention(file, n))["weights"].shape
            padding = captures.padding(file, n, site["weights_shape"][:-3], L, S)
            Site(daemon, answer["id"], n, site, want, captures.is_double(file, n), seed, padding).check()
        except AssertionError as fault:
            raise AssertionError(f"site {n} {file.sites[n]}: {fault}") from None
    return answer
