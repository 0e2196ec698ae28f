"""Tiles of stored runs: planes, scales, encodings, normalised weights, means over heads, differences of two runs, pictures;
against NumPy from the full weights."""
import base64
import json
import struct
import threading
import time
import zlib

import numpy as np
import pytest
from conftest import PATIENCE
from safetensors.numpy import save
from test_api_runs import FORMS, MASKED, Stored, literal

NORMALIZE = (None, "row_max", "uniform")


def visible_of(run):
    """[B, H, L, S] from the hidden cells that the service lists."""
    B, H, L, S = run.weights.shape
    seen = np.ones((B, H, L, S), bool)
    for b in range(B):
        for h in range(H):
            for row, start, end in run.json(f"/weights?batch={b}&head={h}&rows=0:{L}&cols=0:{S}&hidden=true")["hidden"]:
                seen[b, h, row, start:end] = False
    return seen


def with_visible(run):
    if not hasattr(run, "seen"):
        run.seen = visible_of(run)
    return run


def normalised(weights, seen, how):
    wide = weights.astype(np.float64)
    if how == "row_max":
        top = np.where(seen, np.nan_to_num(wide), 0).max(-1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(top > 0, wide / top, wide)
    return wide * seen.sum(-1, keepdims=True) if how == "uniform" else wide


def view(run, batch, head, normalize=None, against=None):
    """What a tile shows, as float32 [L, S], and where it is visible."""
    parts = []
    for one in (run, against):
        if one is None:
            continue
        heads = range(run.weights.shape[1]) if head == "mean" else [head]
        total = np.zeros(run.weights.shape[2:])
        for h in heads:
            total = total + normalised(one.weights[batch, h], one.seen[batch, h], normalize)
        parts.append((total / len(heads), np.logical_or.reduce([one.seen[batch, h] for h in heads])))
    if against is None:
        return parts[0][0].astype(np.float32), parts[0][1]
    return (parts[0][0] - parts[1][0]).astype(np.float32), parts[0][1] | parts[1][1]


def pooled(cells, seen, level, signed):
    """Both planes of a level; hidden cells are -infinity."""
    side = 1 << level
    R, C = (-(-n // side) for n in cells.shape)
    grow = [(0, R * side - cells.shape[0]), (0, C * side - cells.shape[1])]
    known = np.pad(seen, grow).reshape(R, side, C, side)
    boxes = np.pad(cells, grow).reshape(R, side, C, side)
    number = known & ~np.isnan(boxes)
    most = np.where(number, boxes, -np.inf).max((1, 3))
    if signed:
        least = np.where(number, boxes, np.inf).min((1, 3))
        most = np.where(-least > most, least, most)
    count = number.sum((1, 3))
    with np.errstate(invalid="ignore"):
        mean = np.where(number, boxes, 0).sum((1, 3), dtype=np.float64) / count
    empty = np.where(known.any((1, 3)), np.nan, -np.inf)
    return np.where(count > 0, most, empty).astype(np.float32), np.where(count > 0, mean, empty)


def numbers(reply, name):
    return [float(x) for x in reply.headers[f"X-Tile-{name}-Range"].split(",")]


def planes_of(reply, kind="<f4"):
    rows, cols = map(int, reply.headers["X-Tile-Shape"].split(","))
    return np.frombuffer(reply.content, kind).reshape(-1, rows, cols)


def compare(run, query, expected, level):
    """All tiles of a level as f32 against both planes. Returns them."""
    most, mean = expected
    for y in range(-(-most.shape[0] // 256)):
        for x in range(-(-most.shape[1] // 256)):
            part = np.s_[256 * y:256 * y + 256, 256 * x:256 * x + 256]
            reply = run.get(f"/tiles?{query}&level={level}&y={y}&x={x}&encoding=f32")
            if reply.status_code == 204:
                assert np.isneginf(most[part]).all()
                continue
            assert reply.status_code == 200, reply.text
            got = planes_of(reply)
            assert np.array_equal(got[0], most[part], equal_nan=True), (query, level, y, x)
            want = mean[part]
            seen = np.isfinite(want)
            assert np.array_equal(np.isneginf(got[1]), np.isneginf(want))
            assert np.array_equal(np.isnan(got[1]), np.isnan(want))
            assert np.allclose(got[1][seen], want[seen], rtol=2e-7, atol=1e-12 if "against" in query else 0)


@pytest.fixture(scope="module")
def forms(daemon):
    kept = {}

    def stored(form):
        if form not in kept:
            kept[form] = with_visible(Stored(daemon, MASKED | FORMS[form]))
        return kept[form]
    return stored


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("form", ["plain", "causal", "booleans", "by head", "additive", "padding", "tokens", "window", "pattern",
                                  "fill", "concat", "alibi", "rotary", "dropout", "float64", "float16"])
def test_every_view(forms, form, normalize):
    run, other = forms(form), forms("window" if form == "causal" else "causal")
    how = f"&normalize={normalize}" if normalize else ""
    for batch, head in ((0, 0), (1, 3), (1, "mean")):
        for against in (None, other):
            cells, seen = view(run, batch, head, normalize, against)
            minus = f"&against={against.id}" if against else ""
            for level in range(2):
                compare(run, f"batch={batch}&head={head}{how}{minus}", pooled(cells, seen, level, against is not None), level)


def test_row_max_has_a_1_in_every_row(forms):
    """The reason for row_max: in a causal run the weight of the only key of row 0 is 1, and all others are small."""
    run = forms("causal")
    whole = np.concatenate([planes_of(run.get(f"/tiles?normalize=row_max&encoding=f32&x={x}"))[0] for x in range(2)], 1)
    assert (whole.max(1) == 1).all()


@pytest.fixture(scope="module")
def long(daemon):
    """1,300 queries and 2,100 keys, two heads, masked raggedly: levels 0 to 4, of which 3 and 4 are in the overview."""
    body = {"query": literal(1, 2, 1300, 8, seed=11), "key": literal(1, 2, 2100, 8, seed=12), "value": literal(1, 2, 2100, 2, seed=13)}
    mask = np.random.default_rng(8).random((1300, 1)) < 0.9
    masked = body | {"is_causal": True, "query_offset": "end", "attn_mask": mask.tolist(), "sinks": [0.5, 3]}
    return [with_visible(Stored(daemon, masked)), with_visible(Stored(daemon, body | {"pattern": {"kind": "block", "size": 100}}))]


@pytest.mark.parametrize("against", [False, True])
@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("head", [1, "mean"])
def test_every_level(long, head, normalize, against):
    run, other = long[0], long[1] if against else None
    how = f"head={head}" + (f"&normalize={normalize}" if normalize else "") + (f"&against={other.id}" if other else "")
    cells, seen = view(run, 0, head, normalize, other)
    assert run.json()["sites"][0]["tiles"]["overview_level"] == 3
    for level in range(5):
        compare(run, how, pooled(cells, seen, level, against), level)


def test_nan(daemon):
    key = np.random.default_rng(3).standard_normal((600, 4))
    key[400, 1] = np.nan
    run = with_visible(Stored(daemon, {
        "query": literal(600, 4, seed=1), "value": literal(600, 2, seed=2), "is_causal": True, "allow_nonfinite": True,
        "key": {"shape": [600, 4], "dtype": "float64", "base64": base64.b64encode(key.tobytes()).decode()}}))
    assert np.isnan(run.weights).any()
    for normalize in NORMALIZE:
        cells, seen = view(run, 0, 0, normalize)
        for level in range(3):
            compare(run, f"normalize={normalize}" if normalize else "head=0", pooled(cells, seen, level, False), level)
    assert run.get("/tiles?y=1").status_code == 200
    assert run.get("/tiles?y=1&transform=decades").status_code == 200


def test_a_run_without_statistics(start, tmp_path):
    """Another program recorded it, so it has no overview either: high levels are computed at the first look and kept."""
    daemon = start("--runs_dir", str(tmp_path), "--max_cells", "3e6")
    draw = np.random.default_rng(6)
    q, k = (draw.standard_normal((1, 1, 1500, 8)).astype(np.float32) for _ in range(2))
    meta = {"run": json.dumps({"version": 2, "sites": [{"is_causal": True}]})}
    (tmp_path / ("c" * 32 + ".safetensors")).write_bytes(save({"sites.0.query": q, "sites.0.key": k}, meta))
    run = with_visible(Stored(daemon, {"query": q.tolist(), "key": k.tolist(), "value": k.tolist(), "is_causal": True}))
    for normalize in NORMALIZE:
        cells, seen = view(run, 0, 0, normalize)
        for level in (3, 0, 2):
            most, mean = pooled(cells, seen, level, False)
            how = f"&normalize={normalize}" if normalize else ""
            got = planes_of(daemon.get(f"/v1/runs/{'c' * 32}/tiles?level={level}&encoding=f32{how}"))
            part = np.s_[:256, :256]
            assert np.allclose(got[0], most[part], rtol=2e-5) and np.allclose(got[1], mean[part], rtol=2e-5)


def test_against_with_an_axis_of_layers(start, tmp_path):
    """layer selects in both runs, and batch counts the entries of the layer."""
    daemon = start("--runs_dir", str(tmp_path))
    draw = np.random.default_rng(9)

    def place(name, first):
        site = {"axes": ["layer", "batch", "head"], "layer": first}
        tensors = {f"sites.0.{part}": draw.standard_normal((3, 2, 2, 40, 8)).astype(np.float32) for part in ("query", "key")}
        (tmp_path / f"{name * 32}.safetensors").write_bytes(save(tensors, {"run": json.dumps({"version": 2, "sites": [site]})}))
        return name * 32

    a, b, later = place("a", 0), place("b", 0), place("c", 1)
    for head in ("1", "mean"):
        want = daemon.get(f"/v1/runs/{a}/tiles?batch=5&head={head}&against={b}&encoding=f32")
        got = daemon.get(f"/v1/runs/{a}/tiles?layer=2&batch=1&head={head}&against={b}&encoding=f32")
        assert want.status_code == got.status_code == 200, got.text
        assert want.content == got.content
    reply = daemon.get(f"/v1/runs/{a}/tiles?layer=2&batch=1&against={later}")
    assert reply.status_code == 422 and reply.json()["pointer"] == "/against" and "entry 2" in reply.json()["detail"], reply.text


def test_one_map_for_many(daemon):
    """Requests for the same head and view wait for the one that computes it, and answer the same. Even if there are more
    of them than threads, other requests are answered meanwhile."""
    body = {"query": literal(4, 12000, 8, seed=1), "store": True, "return": []}
    path = f"/v1/runs/{daemon.post('/v1/attention', body).json()['run']['id']}/tiles"
    answers = []
    query = "?level=6&head=mean&normalize=uniform&encoding=f32"
    threads = [threading.Thread(target=lambda: answers.append(daemon.get(path + query).content)) for _ in range(24)]
    for thread in threads:
        thread.start()
    for x in range(8):
        assert daemon.get(f"{path}?x={x}").status_code == 200
    assert all(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join()
    assert len(answers) == 24 and len(set(answers)) == 1


def test_work_goes_on_after_a_timeout(start, tmp_path):
    """A map that takes longer than request_timeout_ms is finished by the next requests for it."""
    patient, hasty = start("--runs_dir", str(tmp_path)), start("--runs_dir", str(tmp_path), "--request_timeout_ms", "150")
    body = {"query": literal(4, 18000, 4, seed=1), "store": True, "return": []}
    path = f"/v1/runs/{patient.post('/v1/attention', body).json()['run']['id']}/tiles?level=6&head=mean&encoding=f32"
    answers = [patient.get(path)]
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        answers.append(hasty.get(path))
        if answers[-1].status_code == 200:
            break
    assert [a.status_code for a in answers[1:]] == [504] * (len(answers) - 2) + [200] and len(answers) > 2
    assert answers[-1].content == answers[0].content


# --- planes and scales ---

def test_planes(forms):
    run = forms("causal")
    for encoding in ("u8", "f32"):
        both = run.get(f"/tiles?level=1&encoding={encoding}")
        assert both.headers["X-Tile-Pooling"] == "both"
        half = len(both.content) // 2
        most, mean = (run.get(f"/tiles?level=1&encoding={encoding}&pool={plane}") for plane in ("max", "mean"))
        assert most.content == both.content[:half] and mean.content == both.content[half:]
        assert most.headers["X-Tile-Pooling"] == "max" and "X-Tile-Mean-Range" not in most.headers
        assert mean.headers["X-Tile-Pooling"] == "mean" and "X-Tile-Max-Range" not in mean.headers
        assert run.get(f"/tiles?level=1&encoding={encoding}&pool=both").content == both.content


def bend(t, transform):
    return {"linear": t, "sqrt": np.sqrt(t), "log": np.log1p(255 * t) / np.log(256)}[transform]


def codes(cells, low, high, transform):
    """The codes of a plane as server/wire/README.md defines them."""
    cells = cells.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        if transform == "decades":
            want = 1 + np.floor(0.5 + 254 * np.clip(1 + np.log10(np.maximum(cells, 0) / high) / 6, 0, 1))
        else:
            want = np.maximum(1, np.floor(0.5 + 255 * bend(np.clip((cells - low) / (high - low), 0, 1), transform)))
    return np.where(np.isneginf(cells), 0, want)


@pytest.mark.parametrize("transform", ["linear", "sqrt", "log", "decades"])
def test_codes(long, transform):
    run = long[0]
    top = run.get("/tiles?level=4&encoding=f32")
    for query in ("level=1&y=1&x=1", "level=3&y=0&x=0&normalize=uniform", "level=2&head=1"):
        values = planes_of(run.get(f"/tiles?{query}&encoding=f32"))
        for scale in ("", "&vmin=0.001&vmax=0.25", "&range_of=head", "&range_of=head_from_0"):
            reply = run.get(f"/tiles?{query}&transform={transform}{scale}")
            assert reply.headers["X-Tile-Encoding"] == f"u8, {transform}"
            for plane, name in enumerate(("Max", "Mean")):
                low, high = numbers(reply, name)
                if "vmin" in scale:
                    assert (low, high) == (pytest.approx(0.001), 0.25)
                elif not scale:
                    seen = values[plane][np.isfinite(values[plane])]
                    assert (np.float32(low), np.float32(high)) == (seen.min(), seen.max())
                elif query.startswith("level=1"):
                    assert [low, high] == ([0, numbers(top, name)[1]] if "from_0" in scale else numbers(top, name))
                got = planes_of(reply, "u1")[plane].astype(int)
                want = codes(values[plane], np.float32(low), np.float32(high), transform)
                assert np.abs(got - want).max() <= 1 and (got != want).mean() < 1e-3  # a code at the border of two
                assert np.array_equal(got == 0, np.isneginf(values[plane]))


def test_decades_decode_to_three_percent(long):
    run = long[0]
    reply = run.get("/tiles?level=0&y=2&x=3&pool=max&transform=decades")
    values, got = planes_of(run.get("/tiles?level=0&y=2&x=3&encoding=f32"))[0], planes_of(reply, "u1")[0].astype(float)
    high = numbers(reply, "Max")[1]
    within = (got > 1)
    decoded = high * 10 ** (6 * (got - 255) / 254)
    assert within.mean() > 0.3 and np.abs(decoded[within] / values[within] - 1).max() < 0.029
    assert (values[(got == 1)] <= high * 1.03e-6).all()


def test_tiles_of_a_shared_scale_join_without_seams(long):
    """Equal weights have equal codes in all tiles, which their own ranges do not give."""
    run = long[0]
    replies = [run.get(f"/tiles?level=1&y=1&x={x}&range_of=head&pool=max") for x in range(3)]
    assert len({r.headers["X-Tile-Max-Range"] for r in replies}) == 1
    own = [run.get(f"/tiles?level=1&y=1&x={x}&pool=max") for x in range(3)]
    assert len({r.headers["X-Tile-Max-Range"] for r in own}) == 3


@pytest.mark.parametrize("transform", ["linear", "sqrt", "log"])
def test_codes_of_differences(long, transform):
    run, other = long
    for level in (1, 4):
        query = f"level={level}&against={other.id}"
        values = planes_of(run.get(f"/tiles?{query}&encoding=f32"))
        for scale in ("", "&vmin=-0.25&vmax=0.25", "&range_of=head", "&range_of=head_from_0"):
            reply = run.get(f"/tiles?{query}&transform={transform}{scale}")
            for plane, name in enumerate(("Max", "Mean")):
                low, high = numbers(reply, name)
                assert low == -high and (scale or high == np.abs(values[plane][np.isfinite(values[plane])]).max())
                v = values[plane].astype(np.float64)
                size = bend(np.clip(np.abs(np.where(np.isfinite(v), v, 0)) / np.float32(high), 0, 1), transform)
                want = np.where(np.isneginf(v), 0, 128 + np.sign(v) * np.floor(127 * size + 0.5))
                got = planes_of(reply, "u1")[plane].astype(int)
                assert np.abs(got - want).max() <= 1 and (got != want).mean() < 1e-3
                assert (got[v == 0] == 128).all() and (got[v == -np.inf] == 0).all()
    assert np.array_equal(planes_of(run.get(f"/tiles?against={run.id}"), "u1").max(), 128)


# --- pictures ---

def png(reply):
    """Pixels [rows, cols, 4] of a PNG with a palette."""
    data = reply.content
    assert reply.status_code == 200 and reply.headers["Content-Type"] == "image/png" and data[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at:at + 8])
        parts[name] = parts.get(name, b"") + data[at + 8:at + 8 + size]
        assert zlib.crc32(data[at + 4:at + 8 + size]) == struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0]
        at += 12 + size
    cols, rows, depth, kind = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    assert (depth, kind) == (8, 3)
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(rows, cols + 1)
    assert not lines[:, 0].any()
    palette = np.concatenate([np.frombuffer(parts[b"PLTE"], np.uint8).reshape(256, 3),
                              np.frombuffer(parts[b"tRNS"], np.uint8).reshape(256, 1)], 1)
    return palette[lines[:, 1:]]


def test_png(long):
    run = long[0]
    for query in ("level=1&y=1&x=1", "level=2&transform=decades", f"level=2&against={long[1].id}", "level=3&pool=mean&range_of=head"):
        pixels = png(run.get(f"/tiles?{query}&encoding=png"))
        plane = "" if "pool" in query else "&pool=max"
        got = planes_of(run.get(f"/tiles?{query}{plane}"), "u1")[0]
        assert pixels.shape[:2] == got.shape
        assert np.array_equal(pixels[..., 3], np.where(got == 0, 0, 255))
        for code in np.unique(got):
            assert len(np.unique(pixels[got == code], axis=0)) == 1
    # Blues from light to dark, RdBu from red over white to blue
    ends = png(run.get("/tiles?level=4&encoding=png")).reshape(-1, 4)
    assert [8, 48, 107, 255] in ends.tolist()
    ends = png(run.get(f"/tiles?level=4&against={long[1].id}&encoding=png")).reshape(-1, 4).tolist()
    assert [103, 0, 31, 255] in ends or [5, 48, 97, 255] in ends
    assert [253, 231, 37, 255] in png(run.get("/tiles?level=4&encoding=png&colormap=viridis")).reshape(-1, 4).tolist()


def test_png_by_accept(long):
    run = long[0]
    asked = run.get("/tiles?level=4", headers={"Accept": "image/avif,image/webp,image/*,*/*;q=0.8"})
    assert asked.content == run.get("/tiles?level=4&encoding=png").content
    assert run.get("/tiles?level=4", headers={"Accept": "*/*"}).headers["Content-Type"] == "application/octet-stream"
    assert run.get("/tiles?level=4", headers={"Accept": "text/plain"}).status_code == 406
    assert asked.headers["ETag"] != run.get("/tiles?level=4").headers["ETag"]
    hidden = run.get("/tiles?level=0&y=0&x=8&encoding=png")
    assert not png(hidden).any() and hidden.headers["X-Tile-Hidden"] == "all"
    assert run.get("/tiles?level=0&y=0&x=8").status_code == 204


# --- refusals ---

@pytest.mark.parametrize(("query", "pointer", "words"), [
    ("pool=min", "/pool", "mean"), ("pool=both&encoding=png", "/pool", "one plane"), ("planes=max", "/planes", "called \"pool\""),
    ("vmin=1", "/vmin", "needs vmax"), ("vmax=1", "/vmax", "needs vmin"), ("vmin=2&vmax=1", "/vmin", "vmin below vmax"), ("vmin=1&vmax=1", "/vmin", "vmin below vmax"),
    ("vmin=-2&vmax=-1", "/vmax", "above 0"), ("vmin=-1&vmax=0", "/vmax", "above 0"), ("vmin=0&vmax=1e300", "/vmin", "float32"), ("vmin=a&vmax=1", "/vmin", "number"),
    ("vmin=0&vmax=1e-60", "/vmin", "float32"), ("vmin=0&vmax=1&range_of=head", "/range_of", "vmin"), ("vmin=0&vmax=1&range_of=head_from_0", "/range_of", "vmin"),
    ("vmin=0&vmax=1&encoding=f32", "/vmin", "f32"), ("range_of=head&encoding=f32", "/range_of", "f32"),
    ("range_of=run", "/range_of", "\"head\""), ("range=0,1", "/range", "vmin and vmax are two numbers"), ("range=head", "/range", "called \"range_of\""), ("normalize=max", "/normalize", "row_max"), ("head=4", "/head", "4 heads"),
    ("head=max", "/head", "mean"), ("head=-1", "/head", "0"), ("encoding=jpg", "/encoding", "png"),
    ("transform=cube", "/transform", "decades"), ("transform=decades&encoding=f32", "/transform", "f32"),
    ("colormap=viridis", "/colormap", "png"), ("colormap=jet&encoding=png", "/colormap", "viridis"),
    ("against=OTHER", "/against", "[2, 4, 60, 300]"), ("against=SELF&transform=decades", "/transform", "logarithm"),
    ("against=SELF&vmin=0&vmax=1", "/vmin", "vmin = -vmax"), ("level=2", "/level", "2 levels"), ("y=1&normalize=row_max", "/y", "the only one"),
    ("normalise=row_max", "/normalise", "normalize"),
], ids=str)
def test_refusals(daemon, forms, query, pointer, words):
    run = forms("plain")
    if "OTHER" in query:
        query = query.replace("OTHER", Stored(daemon, {"query": literal(5, 4, seed=1)}).id)
    reply = run.get("/tiles?" + query.replace("SELF", run.id))
    problem = reply.json()
    assert reply.status_code == 422 and problem.get("pointer") == pointer and words in problem["detail"], problem


def test_against_an_unknown_run(forms):
    reply = forms("plain").get("/tiles?against=" + "0" * 32)
    assert reply.status_code == 404, reply.text


def test_cost_is_bounded(start):
    daemon = start("--max_cells", "2e7")
    body = {"query": literal(1, 8, 1500, 4, seed=1)}
    run, other = (daemon.post("/v1/attention", body | {"store": True, "return": [], "is_causal": c}).json()["run"]["id"]
                  for c in (True, False))
    for query, status in (("", 200), (f"&normalize=uniform&against={other}", 200), ("&head=mean", 200),
                          (f"&head=mean&against={other}", 413)):
        reply = daemon.get(f"/v1/runs/{run}/tiles?level=3{query}")
        assert reply.status_code == status, reply.text
    assert reply.json()["limit"]["setting"] == "max_cells"
