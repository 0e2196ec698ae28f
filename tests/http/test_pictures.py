"""Accept: image/svg+xml, text/csv, application/x-npy: what pictures show, against the data that they are drawn from."""
import csv
import io
import json
import unicodedata

import numpy as np
import pytest
from api_client import ask, normal, qkv, refused
from conftest import ROOT
from picture import NS, Picture, contrast, curves_of, luminance

SVG, PNG, CSV, NPY = ({"Accept": t} for t in ("image/svg+xml", "image/png", "text/csv", "application/x-npy"))
HEATMAPS, MASKS, POSITIONS, CURVES = "/v1/heatmaps", "/v1/masks", "/v1/positions", "/v1/curves"
QUALITY = {"x": [10, 20, 30, 40, 50, 60], "values": [[35, 32, 28, 22, 16, 12], [38, 37, 36, 35, 34, 33]],
           "names": ["without attention", "with attention"],
           "figure": {"title": "Quality", "x_label": "length", "y_label": "BLEU"}}


def drawn(daemon, body, path="/v1/attention", headers=SVG):
    reply = daemon.post(path, body, headers=headers)
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"].split(";")[0] == headers["Accept"]
    return reply.content


def picture(daemon, body, path="/v1/attention", shape=None):
    return Picture(drawn(daemon, body, path), shape)


def example(name, case=0):
    return json.loads((ROOT / "config/examples" / f"{name}.json").read_text())["cases"][case]["request"]


def monotone(panel, weights, rising):
    """A larger weight has a colour that is darker (or lighter), an equal one the same."""
    order = sorted(panel.cells, key=lambda at: weights[at])
    for one, other in zip(order, order[1:]):
        a, b = (luminance(panel.cells[at]) for at in (one, other))
        if weights[one] == weights[other]:
            assert a == b
        else:
            assert (b - a if rising else a - b) >= -0.002, (one, other)  # tables are rounded to 8 bits
    assert luminance(panel.cells[order[0]]) != luminance(panel.cells[order[-1]])


def readable(page):
    """Every text has the contrast that small print needs, on its cell or on the page."""
    for panel in page.panels:
        for at, text in (panel.values | panel.marks).items():
            if at in panel.cells:
                assert contrast(text.fill, panel.cells[at]) >= 4.5, (at, text.says)
    inside = {id(t) for p in page.groups for g in p.findall(NS + "g") if g.get("class") in ("values", "marks")
              for t in g}
    for element in page.root.iter(NS + "text"):
        if id(element) not in inside:
            fill = tuple(int(element.get("fill")[i:i + 2], 16) for i in (1, 3, 5))
            assert contrast(fill, page.ground) >= 4.5, element.text


# --- heatmaps ---

@pytest.mark.parametrize("theme", ["light", "dark"])
def test_translation(daemon, theme):
    body = example("translation")
    body["figure"] |= {"x_label": "Source (English)", "y_label": "Target (French)", "theme": theme}
    page = picture(daemon, body, HEATMAPS, (8, 7))
    panel, weights = page.panels[0], np.array(body["weights"])
    assert len(page.panels) == 1 and len(panel.cells) == 56 and not panel.hidden
    monotone(panel, weights, rising=theme == "dark")
    assert {at: float(t.says) for at, t in panel.values.items()} == {at: weights[at] for at in panel.cells}
    assert [t.says for t in panel.rows] == body["labels"]["query"]
    assert [t.says for t in panel.columns] == body["labels"]["key"]
    for label, row in zip(panel.rows, range(8)):
        assert abs(label.y - panel.centre((row, 0))[1]) < 1 and label.x < panel.box[0]
    for label, column in zip(panel.columns, range(7)):
        assert abs(label.x - panel.centre((0, column))[0]) < 1 and label.y > panel.box[1] + panel.box[3]
    for text in ("Attention Weights in Translation", "Source (English)", "Target (French)", "weight", "0", "0.2", "1"):
        assert text in page.says()
    assert page.title == "Attention Weights in Translation" and "8 rows and 7 columns" in page.description
    readable(page)
    assert not page.outside()


def test_four_heads(daemon):
    body = example("head-patterns")
    page = picture(daemon, body, HEATMAPS, (8, 8))
    assert [p.title.says for p in page.panels] == body["titles"]
    for panel, weights in zip(page.panels, np.array(body["weights"]), strict=True):
        assert len(panel.cells) == 64
        monotone(panel, weights, rising=False)
    assert [bool(p.rows) for p in page.panels] == [True, False, True, False]
    assert [bool(p.columns) for p in page.panels] == [False, False, True, True]
    boxes = [p.box for p in page.panels]
    assert len({b[0] for b in boxes}) == len({b[1] for b in boxes}) == 2 and len({b[2:] for b in boxes}) == 1
    readable(page)


@pytest.mark.parametrize("L, H", [(8, 1), (16, 12), (128, 1)])
def test_hatching_is_where_cells_are_hidden(daemon, L, H):
    words = [f"token{i}" for i in range(L)]
    body = {"query": {"shape": [1, H, L, 8], "random": "normal", "seed": 5}, "is_causal": True,
            "window": [L // 2, 0], "labels": {"query": words, "key": words}}
    heads = ask(daemon, body | {"heatmap": {}, "return": []})["heatmap"]["heads"]
    page = picture(daemon, body, shape=(L, L))
    assert len(page.panels) == H
    every = {(r, c) for r in range(L) for c in range(L)}
    for panel, head in zip(page.panels, heads, strict=True):
        hidden = {(r, c) for r, first, end in head["hidden"] for c in range(first, end)}
        assert panel.hidden == hidden and set(panel.cells) == every - hidden
        monotone(panel, np.array(head["max"]), rising=False)
        assert (H == 1 and panel.title is None) or panel.title.says == f"head {head['head']}"
    assert "hidden by the mask" in page.says() and not page.outside()
    shown = [t.says for t in page.panels[0].rows]
    assert shown == words[::len(words) // len(shown)][:len(shown)]  # all, or every k-th
    heights = [t.y for t in page.panels[0].rows]
    assert min(b - a for a, b in zip(heights, heights[1:])) >= 11
    readable(page)


def test_a_picture_asks_for_the_heatmap_alone(daemon):
    body = qkv(H=2, B=1)
    assert drawn(daemon, body) == drawn(daemon, body | {"return": ["weights", "output"]}) == drawn(
        daemon, body | {"return": [], "heatmap": {}, "decimals": 2})
    heads = picture(daemon, body | {"heatmap": {"heads": [1], "rows": [0, 2]}}, shape=(2, 5)).panels
    assert len(heads) == 1 and len(heads[0].cells) == 10


SIGNED = np.array(normal(9, 11, seed=4))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_signed_values_have_a_neutral_centre(daemon, theme):
    values = SIGNED.copy()
    values[2, 3] = 0
    page = picture(daemon, {"weights": values.tolist(), "figure": {"theme": theme}}, HEATMAPS, (9, 11))
    cells = page.panels[0].cells
    assert max(cells[2, 3]) - min(cells[2, 3]) <= 10  # a grey
    for at, (red, _, blue) in cells.items():
        if abs(values[at]) > 0.3:
            assert (blue > red) == (values[at] > 0), (at, values[at])
    for side in (1, -1):
        ordered = sorted((at for at in cells if side * values[at] >= 0), key=lambda at: abs(values[at]))
        lums = [luminance(cells[at]) for at in ordered]
        steps = np.diff(lums) if theme == "dark" else -np.diff(lums)
        assert (steps >= -0.004).all()
    readable(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["Blues", "Greys", "viridis", "cividis"])
def test_colour_maps_are_monotone(daemon, name, theme):
    weights = np.linspace(0, 1, 256).reshape(16, 16)
    page = picture(daemon, {"weights": weights.tolist(), "figure": {"colormap": name, "theme": theme}}, HEATMAPS,
                   (16, 16))
    dark_low = name in ("viridis", "cividis") or theme == "dark"
    monotone(page.panels[0], weights, rising=dark_low)
    readable(page)


def test_analyses_are_drawn(daemon):
    one, other = (np.array(normal(2, 6, 6, seed=n)) for n in (1, 2))
    one, other = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (one, other))
    body = {"weights": one.tolist(), "other": other.tolist()}
    page = picture(daemon, body, "/v1/analyses", (6, 6))
    assert len(page.panels) == 2 and "difference" in page.says()
    for panel, values in zip(page.panels, one - other):
        for at, (red, _, blue) in panel.cells.items():
            if abs(values[at]) > 0.05:
                assert (blue > red) == (values[at] > 0), (at, values[at])
    del body["other"]
    page = picture(daemon, body, "/v1/analyses", (6, 6))
    monotone(page.panels[1], one[1].astype(np.float32), rising=False)
    page = picture(daemon, {"weights": [[one[:1].tolist()]] * 2, "analysis": ["rollout"]}, "/v1/analyses", (6, 6))
    assert "rollout" in page.says()
    reply = daemon.post("/v1/analyses", body, headers=CSV)
    assert reply.text.startswith("batch,head,query,0,1,2,3,4,5\r\n0,0,0,")


def test_known_colours(daemon):
    """The ends and the middle of the published tables."""
    for name, low, middle, high in (("Blues", (247, 251, 255), (107, 174, 214), (8, 48, 107)),
                                    ("viridis", (68, 1, 84), (33, 145, 140), (253, 231, 37)),
                                    ("cividis", (0, 34, 78), (124, 123, 120), (254, 232, 56)),
                                    ("Greys", (255, 255, 255), (150, 150, 150), (0, 0, 0)),
                                    ("RdBu", (103, 0, 31), (247, 247, 247), (5, 48, 97))):
        body = {"weights": [[0, 0.5, 1]], "figure": {"colormap": name, "vmin": 0, "vmax": 1}}
        cells = picture(daemon, body, HEATMAPS, (1, 3)).panels[0].cells
        got = [cells[0, i] for i in range(3)]
        assert np.abs(np.array(got) - [low, middle, high]).max() <= 1, (name, got)


def test_range_and_transform(daemon):
    weights = [[0.0, 0.25, 0.5, 1.0]]
    plain = picture(daemon, {"weights": weights}, HEATMAPS, (1, 4)).panels[0].cells
    root = picture(daemon, {"weights": weights, "heatmap": {"transform": "sqrt"}}, HEATMAPS, (1, 4))
    assert root.panels[0].cells[0, 1] == plain[0, 2] and root.panels[0].cells[0, 3] == plain[0, 3]
    assert "weight (sqrt scale)" in root.says()
    cut = picture(daemon, {"weights": weights, "figure": {"vmin": 0.25, "vmax": 0.5}}, HEATMAPS, (1, 4))
    cells = cut.panels[0].cells
    assert cells[0, 0] == cells[0, 1] == plain[0, 0] and cells[0, 2] == cells[0, 3] == plain[0, 3]
    assert "≤ 0.25" in cut.says() and "≥ 0.5" in cut.says()


@pytest.mark.parametrize("weights, bounds, outside", [
    ([[0.1, 0.05]], {"vmin": 0, "vmax": 0.1}, False), ([[0.6, 0.4]], {"vmin": 0.4, "vmax": 0.6}, False),
    ([[0.2, 0.8]], {"vmin": 0.2, "vmax": 0.8}, False), ([[0.601095259, 0.2]], {"vmin": 0, "vmax": 0.601095259}, False),
    ([[0.1, 0.05]], {"vmin": 0, "vmax": 0.0999999}, True), ([[0.1, 0.05]], {"vmin": 0.050001, "vmax": 1}, True)])
def test_bounds_of_the_scale_are_compared_as_float32(daemon, weights, bounds, outside):
    """The float32 of 0.1 is above 0.1, and yet nothing is outside of a scale that ends there."""
    picture = daemon.post("/v1/heatmaps", {"weights": weights, "figure": bounds}, headers={"Accept": "image/svg+xml"}).text
    assert ("≥" in picture or "≤" in picture) == outside


def test_annotations(daemon):
    def values(weights, **figure):
        shape = np.shape(weights)
        panel = picture(daemon, {"weights": weights, "figure": figure}, HEATMAPS, shape).panels[0]
        return [t.says for _, t in sorted(panel.values.items())]

    assert values([[0.123, 0.877]]) == ["0.12", "0.88"]
    assert values([[0.5, 0.25, 0]]) == ["0.50", "0.25", "0"]
    assert values([[0.123, 0.877]], annotate="none") == []
    assert values([[0.123, 0.877]], annotate=".1%") == ["12.3%", "87.7%"]
    assert values([[0.123, 0.877]], annotate=".3e") == ["1.230e-01", "8.770e-01"]
    assert values([[-0.0001, 0.877]], annotate=".1f") == ["0.0", "0.9"]
    many = normal(50, 50)
    assert values(many) == [] and len(values(many, annotate=".2f")) == 2500


HOSTILE = ["  the", " cat", "\n", "\t", "", "<b>&\"'</b>", "שלום", "مرحبا", "注意力", "naïve", "\u202eevil", "a\u200bb",
           "😀", "w" * 5000, "\x07\x1b[31m", "\ufffe", "]]>", "<script>alert(1)</script>", " two words ", "�"]
SEEN = ["␣␣the", "␣cat", "↵", "⇥", "∅", "<b>&\"'</b>", "שלום", "مرحبا", "注意力", "naïve", "\ufffdevil", "a\ufffdb", "😀",
        None, "\ufffd\ufffd[31m", "\ufffd", "]]>", "<script>alert(1)</script>", "␣two words␣", "\ufffd"]


def test_labels_of_every_kind(daemon):
    n = len(HOSTILE)
    body = {"weights": {"shape": [n, n], "random": "uniform", "seed": 1}, "labels": {"query": HOSTILE, "key": HOSTILE},
            "figure": {"title": "<svg>&\n…", "x_label": "a\u202eb"}}
    page = picture(daemon, body, HEATMAPS, (n, n))
    panel = page.panels[0]
    for shown, want, token in zip([t.says for t in panel.rows], SEEN, HOSTILE, strict=True):
        assert shown == want or (want is None and shown.endswith("…") and token.startswith(shown[:-1]))
    for text in page.says():
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in text), text
    assert {e.tag.removeprefix(NS) for e in page.root.iter()} <= {
        "svg", "title", "desc", "defs", "pattern", "rect", "path", "linearGradient", "stop", "g", "text", "line"}
    assert not page.outside()


def test_labels_turn_when_they_are_long(daemon):
    for names, turn in ((list("abcd"), 0), (["representation"] * 4, -45)):
        panel = picture(daemon, {"weights": [[0.1] * 4], "labels": {"key": names}}, HEATMAPS, (1, 4)).panels[0]
        assert {t.turn for t in panel.columns} == {turn}
    body = {"weights": {"shape": [64, 64], "fill": "eye"}, "labels": {"key": ["representation"] * 64}}
    assert {t.turn for t in picture(daemon, body, HEATMAPS, (64, 64)).panels[0].columns} == {-90}
    body["figure"] = {"tick_rotation": 30}
    assert {t.turn for t in picture(daemon, body, HEATMAPS, (64, 64)).panels[0].columns} == {-30}


def test_panels_side_by_side(daemon):
    body = {"weights": {"shape": [12, 4, 4], "random": "uniform"}, "figure": {"columns": 6}}
    assert len({p.box[0] for p in picture(daemon, body, HEATMAPS, (4, 4)).panels}) == 6
    assert "at most 256 panels" in refused_picture(daemon, {"weights": {"shape": [257, 2, 2], "fill": "ones"}},
                                                   "invalid_value", "/heatmap/heads", HEATMAPS)


def test_layers_are_rows_of_panels(daemon):
    page = picture(daemon, {"weights": {"shape": [3, 1, 4, 5, 5], "random": "uniform"}}, HEATMAPS, (5, 5))
    assert [p.title.says for p in page.panels[:5]] == [*(f"layer 0, head {h}" for h in range(4)), "layer 1, head 0"]
    assert len({p.box[0] for p in page.panels}) == 4 and len({p.box[1] for p in page.panels}) == 3
    rows = drawn(daemon, {"weights": {"shape": [2, 1, 2, 1, 2], "random": "uniform"}}, HEATMAPS, CSV).decode().split("\r\n")
    assert rows[0] == "layer,batch,head,query,0,1" and rows[4].startswith("1,0,1,0,") and len(rows) == 6


def test_transposed(daemon):
    weights = np.array(normal(3, 5))
    labels = {"query": list("abc"), "key": list("vwxyz")}
    one = picture(daemon, {"weights": weights.tolist(), "labels": labels}, HEATMAPS, (3, 5)).panels[0]
    other = picture(daemon, {"weights": weights.tolist(), "labels": labels, "figure": {"transpose": True}}, HEATMAPS,
                    (5, 3)).panels[0]
    assert other.cells == {(c, r): colour for (r, c), colour in one.cells.items()}
    assert [t.says for t in other.rows] == labels["key"] and [t.says for t in other.columns] == labels["query"]


def test_large_maps_are_images(daemon):
    L = 230
    body = {"query": {"shape": [L, 8], "random": "normal", "seed": 2}, "is_causal": True}
    head = ask(daemon, body | {"heatmap": {"max_cells": L * L}, "return": []})["heatmap"]["heads"][0]
    svg = drawn(daemon, body | {"heatmap": {"max_cells": L * L}})
    panel = Picture(svg, (L, L)).panels[0]
    pixels, weights = panel.pixels(), np.array(head["max"])
    hidden = np.zeros((L, L), bool)
    for row, first, end in head["hidden"]:
        hidden[row, first:end] = True
    assert pixels.shape == (L, L, 4) and (pixels[..., 3] == np.where(hidden, 0, 255)).all()
    levels = np.array([luminance(c) for c in pixels[~hidden][:, :3]])[np.argsort(weights[~hidden])]
    assert (np.diff(levels) <= 0).all() and levels[0] > levels[-1]
    assert len(svg) < 400_000 and panel.image.get("image-rendering") == "pixelated"


def test_pooled_cells_are_said(daemon):
    page = picture(daemon, {"query": {"shape": [600, 8], "random": "normal"}, "heatmap": {"max_cells": 400}}, shape=(20, 20))
    assert "a cell: the largest of 30 × 30 values" in page.says()
    assert [t.says for t in page.panels[0].rows][:2] == ["0", "50"]


def test_not_a_number(daemon):
    body = {"query": [[1e39, 1], [0, 1]], "allow_nonfinite": True}
    assert ask(daemon, body | {"heatmap": {}, "return": []})["heatmap"]["heads"][0]["max"][0] == [None, None]
    page = picture(daemon, body, shape=(2, 2))
    panel = page.panels[0]
    assert panel.cells[0, 0] == panel.cells[0, 1] and (0, 0) not in panel.values and not panel.hidden
    swatch = [r for r in page.root.findall(NS + "rect") if r.get("stroke")]
    assert swatch[0].get("fill") == "#%02x%02x%02x" % panel.cells[0, 0] and "not a number" in page.says()


# --- masks, positions ---

@pytest.mark.parametrize("theme", ["light", "dark"])
def test_causal_mask(daemon, theme):
    body = {"masks": [{"kind": "causal"}], "shape": [6, 6], "figure": {"title": "Causal mask", "theme": theme}}
    page = picture(daemon, body, MASKS, (6, 6))
    panel = page.panels[0]
    for r in range(6):
        for c in range(6):
            assert ((r, c) in panel.cells, (r, c) in panel.hidden) == (c <= r, c > r)
            assert panel.marks[r, c].says == ("✓" if c <= r else "✗")
    assert len(set(panel.cells.values())) == 1
    legend = [t for t in page.texts if "visible" in t.says or "hidden" in t.says]
    assert [t.says for t in legend] == ["✓ visible: the query attends", "✗ hidden by the mask"]
    swatches = [r for r in page.root.findall(NS + "rect") if r.get("stroke")]
    assert [s.get("fill") for s in swatches] == ["#%02x%02x%02x" % panel.cells[0, 0], "url(#hatch)"]
    assert page.root.find(f".//{NS}linearGradient") is None
    readable(page)


def test_masks_that_differ_get_panels(daemon):
    lengths = [3, 5]
    body = {"masks": [{"kind": "padding", "key_lengths": lengths}], "shape": [2, 4, 5, 5]}
    page = picture(daemon, body, MASKS, (5, 5))
    assert [p.title.says for p in page.panels] == ["batch 0", "batch 1"]
    for panel, length in zip(page.panels, lengths):
        assert set(panel.cells) == {(r, c) for r in range(5) for c in range(length)}
    big = picture(daemon, {"masks": [{"kind": "causal"}], "shape": [3000, 3000]}, MASKS, (250, 250))
    assert "any of" in " ".join(big.says()) and (big.panels[0].pixels()[0, 1:, 3] == 0).all()


def test_sinusoidal_map(daemon):
    body = {"kind": "sinusoidal", "length": 50, "width": 64}
    table = np.array(ask(daemon, body, POSITIONS)["table"])
    page = picture(daemon, body | {"figure": {"transpose": True}}, POSITIONS, (64, 50))
    cells = page.panels[0].cells
    for (d, p), (red, _, blue) in cells.items():
        if abs(table[p, d]) > 0.2:
            assert (blue > red) == (table[p, d] > 0)
    assert {"position", "dimension", "value"} <= set(page.says())


@pytest.mark.parametrize("body, panels", [
    ({"kind": "alibi", "length": 5, "num_heads": 4}, 4), ({"kind": "rotary", "length": 5, "width": 8}, 2),
    ({"kind": "learned", "length": 5, "width": 3, "seed": 1}, 1),
    ({"kind": "shaw", "length": 4, "key_table": normal(5, 3)}, 3),
    ({"kind": "relative", "length": 4, "table": normal(2, 5)}, 2),
    ({"kind": "t5", "length": 6, "table": normal(8, 2), "max_distance": 16}, 2)], ids=lambda b: str(b)[:24])
def test_every_kind_of_positions(daemon, body, panels):
    answer = ask(daemon, body, POSITIONS)
    table = np.array(answer.get("table", answer.get("cosines")))
    if body["kind"] == "shaw":
        table = np.moveaxis(table, -1, 0)
    if body["kind"] == "rotary":
        table = np.stack([table, answer["sines"]])
    table = table.reshape(-1, *table.shape[-2:])
    page = picture(daemon, body, POSITIONS, table.shape[1:])
    assert len(page.panels) == panels == len(table)
    top = np.abs(table).max()
    for panel, values in zip(page.panels, table):
        for at, (red, _, blue) in panel.cells.items():
            if abs(values[at]) > 0.15 * top:
                assert (blue > red) == (values[at] > 0)
    assert len(curves_of(picture(daemon, body | {"dims": [1, 0]}, POSITIONS).root)) == 2


# --- media types ---

def refused_picture(daemon, body, code, pointer, path="/v1/attention", status=422):
    reply = daemon.post(path, body, headers=SVG)
    problem = reply.json()
    assert (reply.status_code, problem["code"], problem.get("pointer")) == (status, code, pointer), problem
    return problem["detail"]


@pytest.mark.parametrize("figure, code, pointer", [
    ({"annotate": "%.2f"}, "invalid_value", "/figure/annotate"), ({"annotate": ".9f"}, "invalid_value", "/figure/annotate"),
    ({"annotate": ".2n"}, "invalid_value", "/figure/annotate"), ({"vmin": 1, "vmax": 0}, "invalid_value", "/figure/vmin"),
    ({"scale": 3}, "invalid_value", "/figure/scale"), ({"scale": 5}, "invalid_value", "/figure/scale"),
    ({"tick_rotation": 91}, "invalid_value", "/figure/tick_rotation"), ({"theme": "blue"}, "invalid_value", "/figure/theme"),
    ({"colormap": "jet"}, "invalid_value", "/figure/colormap"), ({"cmap": "Blues"}, "unknown_field", "/figure/cmap")])
def test_figure_is_checked_for_every_type(daemon, figure, code, pointer):
    for path, body in (("/v1/attention", {"query": [[1.0]]}), (HEATMAPS, {"weights": [[1.0]]}), (CURVES, {"values": [1.0]}),
                       (MASKS, {"shape": [2, 2], "masks": [{"kind": "causal"}]}),
                       (POSITIONS, {"kind": "learned", "length": 2, "width": 2, "seed": 1})):
        refused_picture(daemon, body | {"figure": figure}, code, pointer, path)
        refused(daemon, body | {"figure": figure}, code, pointer, path=path)


def test_nothing_to_draw(daemon):
    refused_picture(daemon, {"query": {"shape": [0, 4], "data": []}}, "shape_mismatch", None)
    refused_picture(daemon, {"shape": [0, 4], "masks": []}, "shape_mismatch", "/shape", MASKS)
    refused_picture(daemon, {"kind": "learned", "length": 0, "width": 2, "seed": 1}, "shape_mismatch", "/length", POSITIONS)


def test_406_where_there_is_no_picture(daemon):
    reply = daemon.get("/v1/examples", headers=PNG)
    assert reply.status_code == 406 and "application/json or text/plain" in reply.json()["detail"]
    reply = daemon.post("/v1/attention", {"query": [[1.0]]}, headers={"Accept": "image/webp"})
    assert reply.status_code == 406 and "image/png, image/svg+xml or text/csv" in reply.json()["detail"]


def test_equal_requests_have_equal_pictures(daemon):
    body = qkv(H=3, B=1, L=20, S=20) | {"is_causal": True}
    for headers in (SVG, PNG):
        assert drawn(daemon, body, headers=headers) == drawn(daemon, body, headers=headers)


def test_csv_and_npy_are_the_cells(daemon):
    body = qkv(H=2, B=1, L=4, S=5) | {"is_causal": True, "labels": {"key": ["a", 'b"', "c,d", "\n", " e"]}}
    heads = ask(daemon, body | {"heatmap": {}, "return": []})["heatmap"]["heads"]
    rows = list(csv.reader(io.StringIO(drawn(daemon, body, headers=CSV).decode(), newline="")))
    assert rows[0] == ["batch", "head", "query", *body["labels"]["key"]] and len(rows) == 9
    for n, row in enumerate(rows[1:]):
        head, r = heads[n // 4], n % 4
        assert row[:3] == ["0", str(n // 4), str(r)]
        assert [float(v) for v in row[3:] if v] == head["max"][r][:r + 1] and row[4 + r:] == [""] * (4 - r)
    got = np.load(io.BytesIO(drawn(daemon, body | {"return": "heatmap"}, headers=NPY)))
    assert got.dtype == np.float32 and np.array_equal(got, np.float32([h["max"] for h in heads]))
    one = np.load(io.BytesIO(drawn(daemon, {"weights": [[0.1, 0.9]]}, HEATMAPS, NPY)))
    assert np.array_equal(one, np.float32([[0.1, 0.9]]))
    table = {"kind": "sinusoidal", "length": 4, "width": 6}
    want = ask(daemon, table, POSITIONS)["table"]
    assert np.load(io.BytesIO(drawn(daemon, table, POSITIONS, NPY))).tolist() == want
    rows = list(csv.reader(drawn(daemon, table, POSITIONS, CSV).decode().splitlines()))
    assert [[float(v) for v in row[1:]] for row in rows[1:]] == want
    rows = list(csv.reader(drawn(daemon, QUALITY, CURVES, CSV).decode().splitlines()))
    assert rows[0] == ["x", *QUALITY["names"]] and rows[1] == ["10", "35", "38"]
