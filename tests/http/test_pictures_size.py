"""The object `figure`: labels of transposed pictures, titles of panels, size and shape of cells."""
import itertools

import numpy as np
import pytest
from api_client import ask, normal, refused
from picture import NS, Picture, curves_of, numbers, path_points
from test_pictures import CSV, CURVES, HEATMAPS, MASKS, PNG, POSITIONS, drawn, picture

SINES = {"kind": "sinusoidal", "length": 100, "width": 128}
PE_T = SINES | {"figure": {"transpose": True, "aspect": "auto", "colormap": "RdBu", "x_label": "Position",
                           "y_label": "Dimension", "title": "Sinusoidal Positional Encoding",
                           "value_label": "Encoding Value", "width": 1200, "height": 600}}


def text_of(page, says):
    return next(t for t in page.texts if t.says == says)


def test_labels_belong_to_the_drawn_axes(daemon):
    """plt.imshow(pe.T, aspect="auto"); plt.xlabel("Position"); plt.ylabel("Dimension"), on 12 x 6 inches."""
    page = Picture(drawn(daemon, PE_T, POSITIONS), (128, 100), sized=True)
    panel, below, beside = page.panels[0], text_of(page, "Position"), text_of(page, "Dimension")
    assert (page.width, page.height) == (1200, 600)
    assert below.turn == 0 and below.y > panel.box[1] + panel.box[3] and beside.turn == -90 and beside.x < panel.box[0]
    assert panel.columns[-1].says == "99" or int(panel.columns[-1].says) > 80  # positions stand below, up to 99
    assert int(panel.rows[-1].says) > 100  # dimensions stand on the left, up to 127
    table = np.array(ask(daemon, SINES, POSITIONS)["table"])
    for (d, p), (red, _, blue) in panel.cells.items():
        if abs(table[p, d]) > 0.2:
            assert (blue > red) == (table[p, d] > 0)
    assert {"Encoding Value", "Sinusoidal Positional Encoding"} <= set(page.says()) and not page.outside()


@pytest.mark.parametrize("path, body, cols, rows", [
    (HEATMAPS, {"weights": [[0.5, 0.5], [0.1, 0.9]]}, "key", "query"), (MASKS, {"masks": [{"kind": "causal"}], "shape": [4, 4]},
                                                                     "key", "query"),
    (POSITIONS, SINES, "dimension", "position"), (POSITIONS, {"kind": "rotary", "length": 4, "width": 8}, "pair", "position"),
    (POSITIONS, {"kind": "alibi", "length": 4, "num_heads": 2}, "key", "query")])
def test_default_labels_of_both_ways_round(daemon, path, body, cols, rows):
    for over, (x, y) in ((False, (cols, rows)), (True, (rows, cols))):
        page = picture(daemon, body | {"figure": {"transpose": over}}, path)
        assert text_of(page, x).turn == 0 and text_of(page, y).turn == -90
    page = picture(daemon, body | {"figure": {"transpose": True, "x_label": "below", "y_label": ""}}, path)
    assert text_of(page, "below").turn == 0 and not {cols, rows} & set(page.says())


def test_labels_of_curves_and_texts_do_not_turn(daemon):
    curves = {"kind": "sinusoidal", "length": 9, "width": 8, "dims": [0]}
    assert drawn(daemon, curves, POSITIONS) == drawn(daemon, curves | {"figure": {"transpose": True}}, POSITIONS)
    body = {"weights": [[0.5, 0.5]], "figure": {"x_label": "sources", "y_label": "targets"}}
    said = daemon.post(HEATMAPS, body, headers={"Accept": "text/plain"}).text
    assert "rows: targets, columns: sources" in said
    body["figure"] = {"transpose": True, "x_label": "targets", "y_label": "sources"}
    assert daemon.post(HEATMAPS, body, headers={"Accept": "text/plain"}).text == said


def test_two_by_two_curves_with_titles(daemon):
    """fig, axes = plt.subplots(2, 2, figsize=(12, 8)): dimensions i * 20 and i * 20 + 1 in each."""
    dims = [d for i in range(4) for d in (i * 20, i * 20 + 1)]
    titles = [f"Dimensions {d}, {d + 1}" for d in dims[::2]]
    body = SINES | {"dims": dims, "figure": {"per_panel": 2, "columns": 2, "titles": titles, "width": 1200, "height": 800,
                                             "x_label": "Position", "y_label": "Value"}}
    page = picture(daemon, body, POSITIONS)
    assert (page.width, page.height) == (1200, 800) and len(page.groups) == 4 and not page.outside()
    assert [next(iter(g.findall(NS + "text"))).text for g in page.groups] == titles
    table = np.array(ask(daemon, SINES, POSITIONS)["table"])
    plot = page.root.find(f".//{NS}clipPath/{NS}rect")
    width, height = (n - 4 for n in numbers(plot, "width", "height"))
    assert 480 < width < 600 and 200 < height < 350
    for group, first in zip(page.groups, dims[::2], strict=True):
        for path, dim in zip(curves_of(group), (first, first + 1), strict=True):
            points = path_points(path)
            assert np.abs(points[:, 0] - np.linspace(0, width, 100)).max() < 0.02
            assert np.abs(points[:, 1] - (1 - table[:, dim]) / 2 * height).max() < 0.02
    single = picture(daemon, SINES | {"dims": dims[:4], "figure": {"per_panel": 1, "columns": 2}}, POSITIONS)
    places = [g.find(f"{NS}g[@class='curve']").get("transform") for g in single.groups]
    assert len(places) == 4 and len({p.split()[0] for p in places}) == 2 and len({p.split()[1] for p in places}) == 2


def test_titles_of_panels(daemon):
    body = {"weights": {"shape": [2, 2, 3, 3], "random": "uniform"}, "figure": {"titles": ["a", "b", "", "d"]}}
    assert [p.title and p.title.says for p in picture(daemon, body, HEATMAPS, (3, 3)).panels] == ["a", "b", None, "d"]
    assert "title" not in daemon.post(HEATMAPS, body).text  # a picture's alone
    one = {"weights": [[1, 0]], "figure": {"titles": ["only"]}}
    assert picture(daemon, one, HEATMAPS, (1, 2)).panels[0].title.says == "only"
    curves = {"values": [[1, 2], [2, 1]], "figure": {"per_panel": 1, "titles": ["up", "down"]}}
    assert {"up", "down"} <= set(picture(daemon, curves, CURVES).says())
    names = {"values": curves["values"], "titles": ["up", "down"], "figure": {"per_panel": 1}}
    assert drawn(daemon, names, CURVES) == drawn(daemon, curves, CURVES)
    refused(daemon, curves | {"titles": ["up", "down"]}, "invalid_value", "/titles", path=CURVES)


@pytest.mark.parametrize("path, body", [
    (HEATMAPS, {"weights": {"shape": [4, 2, 2], "fill": "ones"}, "figure": {"titles": ["a"]}}),
    (POSITIONS, SINES | {"dims": [0, 1, 2, 3], "figure": {"per_panel": 1, "titles": ["a", "b"]}}),
    (CURVES, {"values": [1, 2], "figure": {"titles": []}})])
def test_every_panel_has_a_title(daemon, path, body):
    reply = daemon.post(path, body, headers={"Accept": "image/svg+xml"})
    assert reply.status_code == 422 and reply.json()["pointer"] == "/figure/titles"
    assert "one a panel" in reply.json()["detail"], reply.text


def test_a_title_of_two_lines(daemon):
    """The causal mask in black and white, on 6 x 6 inches."""
    title = "Causal Mask\n(white = masked, black = can attend)"
    body = {"masks": [{"kind": "causal"}], "shape": [6, 6],
            "figure": {"title": title, "colormap": "Greys", "x_label": "Key Position (can attend to)",
                       "y_label": "Query Position", "width": 600, "height": 600}}
    page = Picture(drawn(daemon, body, MASKS), (6, 6), sized=True)
    first, second = (text_of(page, line) for line in title.split("\n"))
    assert first.x == second.x and second.y - first.y == 22 and second.y < page.panels[0].box[1]
    assert (page.width, page.height) == (600, 600) and page.title == title.replace("\n", " ") and not page.outside()
    width, height = page.panels[0].box[2:]
    assert abs(width - height) <= 1 and width > 400
    curves = picture(daemon, {"values": [1, 2], "figure": {"title": "one\ntwo\n\nthree\nfour"}}, CURVES)
    assert [t.says for t in curves.texts if t.size == 16] == ["one", "two", "three four"]


SIZES = [(300, 300), (640, 480), (1200, 600), (500, 1000), (2000, 400)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 8, 7), (1, 3, 40), (6, 30, 20), (1, 230, 230)])
def test_a_picture_has_the_size_that_is_asked_for(daemon, size, shape):
    count, rows, cols = shape
    words = [f"token{i}" * (1 + i % 2) for i in range(max(rows, cols))]
    body = {"weights": {"shape": list(shape), "random": "uniform", "seed": 3}, "labels": {"query": words[:rows], "key": words[:cols]},
            "heatmap": {"max_cells": 10 ** 6}}
    for aspect in ("equal", "auto"):
        figure = {"width": size[0], "height": size[1], "aspect": aspect, "title": "A picture of a given size"}
        reply = daemon.post(HEATMAPS, body | {"figure": figure}, headers={"Accept": "image/svg+xml"})
        if reply.status_code == 422:  # labels leave no room for six panels
            assert count > 1 and min(size) < 500 and reply.json()["pointer"] in ("/figure/width", "/figure/height")
            continue
        page = Picture(reply.content, (rows, cols), sized=True)
        assert (page.width, page.height) == size and len(page.panels) == count and not page.outside()
        boxes = np.array([p.box for p in page.panels])
        assert boxes[:, 2:].max() >= 19 and (boxes[:, 0] + boxes[:, 2]).max() < size[0] and (boxes[:, 1] + boxes[:, 3]).max() < size[1]
        cell = (boxes[0, 2] / cols, boxes[0, 3] / rows)
        if aspect == "equal":
            assert abs(cell[0] - cell[1]) * min(rows, cols) <= 2
        else:  # nothing is left over on the right but the bar, below but labels
            assert size[0] - (boxes[:, 0] + boxes[:, 2]).max() < 125
        for one, other in itertools.combinations(boxes, 2):
            assert one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0] or one[1] + one[3] <= other[1] or \
                other[1] + other[3] <= one[1]
        if page.panels[0].image is None:
            assert len(page.panels[0].cells) == rows * cols


def test_one_side_alone(daemon):
    body = {"weights": {"shape": [10, 20], "random": "uniform"}}
    wide = picture(daemon, body | {"figure": {"width": 900}}, HEATMAPS)
    assert wide.width == 900
    box = Picture(wide.svg, (10, 20), sized=True).panels[0].box
    assert box[2] > 700 and abs(box[2] - 2 * box[3]) <= 2
    high = picture(daemon, body | {"figure": {"height": 900, "aspect": "auto"}}, HEATMAPS)
    assert high.height == 900 and Picture(high.svg, (10, 20), sized=True).panels[0].box[3] > 750


def test_cells_without_a_size(daemon):
    body = {"weights": {"shape": [2, 12], "random": "uniform"}}
    box = {}
    for aspect in ("equal", "auto"):
        box[aspect] = Picture(drawn(daemon, body | {"figure": {"aspect": aspect}}, HEATMAPS), (2, 12), sized=True).panels[0].box
    assert abs(box["equal"][2] - 6 * box["equal"][3]) < 8 and box["auto"][3] > 500


def test_values_keep_within_the_size(daemon):
    body = {"weights": normal(20, 20), "figure": {"annotate": ".6f", "width": 400, "height": 400}}
    page = Picture(drawn(daemon, body, HEATMAPS), (20, 20), sized=True)
    assert (page.width, page.height) == (400, 400) and not page.panels[0].values
    body["figure"] |= {"annotate": ".0f", "width": 900, "height": 900}
    assert len(Picture(drawn(daemon, body, HEATMAPS), (20, 20), sized=True).panels[0].values) == 400


def test_the_legend_of_a_narrow_picture_is_cut_and_not_lost(daemon):
    page = Picture(drawn(daemon, {"masks": [{"kind": "causal"}], "shape": [3, 3], "figure": {"width": 160, "colorbar": False, "annotate": "none"}}, MASKS),
                   (3, 3), sized=True)
    assert page.width == 160 and any(t.startswith("✗ hidden") and t.endswith("…") for t in page.says()) and not page.outside()


def test_sizes_are_the_pixels_of_a_png(daemon):
    body = {"weights": [[0.1, 0.9]], "figure": {"width": 400, "height": 300, "scale": 1}}
    png = drawn(daemon, body, HEATMAPS, PNG)
    assert int.from_bytes(png[16:20]) == 400 and int.from_bytes(png[20:24]) == 300
    body["figure"]["scale"] = 2
    assert int.from_bytes(drawn(daemon, body, HEATMAPS, PNG)[16:20]) == 800
    assert drawn(daemon, body, HEATMAPS, CSV).startswith(b"batch,head,query,0,1")


@pytest.mark.parametrize("figure, pointer, says", [
    ({"width": 50, "height": 300}, "/figure/width", "expected a width of at least"),
    ({"width": 300, "height": 60}, "/figure/height", "expected a height of at least"),
    ({"width": 5000}, "/figure/width", "from 1 to 4096"), ({"aspect": "square"}, "/figure/aspect", "one of \"equal\", \"auto\""),
    ({"figsize": [12, 6]}, "/figure/figsize", "not a field here; width and height of a picture are two fields"), ({"titles": "one"}, "/figure/titles", "a list of strings")])
def test_sizes_refused(daemon, figure, pointer, says):
    for path, body in ((HEATMAPS, {"weights": [[0.1, 0.9]]}), (CURVES, {"values": [1, 2]})):
        reply = daemon.post(path, body | {"figure": figure}, headers={"Accept": "image/svg+xml"})
        assert reply.status_code == 422 and reply.json()["pointer"] == pointer and says in reply.json()["detail"], reply.text


def test_pictures_of_stored_runs(daemon):
    """In a query string titles are parted by commas."""
    run = ask(daemon, {"query": {"shape": [1, 2, 4, 4], "random": "normal"}, "store": True, "return": []})["run"]["id"]
    path = f"/v1/runs/{run}/heatmaps?titles=12:30,head%20b&width=700&height=400&transpose=true"
    page = Picture(daemon.get(path, headers={"Accept": "image/svg+xml"}).content, (4, 4), sized=True)
    assert [p.title.says for p in page.panels] == ["12:30", "head b"] and (page.width, page.height) == (700, 400)
    assert text_of(page, "query").turn == 0 and text_of(page, "key").turn == -90
