"""Accept: image/svg+xml: curves of positions and of the caller's numbers."""
import numpy as np
import pytest
from api_client import ask, normal, refused
from picture import Picture, contrast, curves_of, path_points
from test_pictures import CURVES, POSITIONS, QUALITY, drawn, picture, readable


def test_curves_of_dimensions(daemon):
    body = {"kind": "sinusoidal", "length": 100, "width": 64, "dims": [0, 1, 20, 21]}
    curves = ask(daemon, body, POSITIONS)["curves"]
    page = picture(daemon, body | {"figure": {"per_panel": 2}}, POSITIONS)
    assert len(page.groups) == 2
    paths = [p for g in page.groups for p in curves_of(g)]
    for path, curve in zip(paths, curves, strict=True):
        points = path_points(path)
        assert len(points) == 100
        x, y = points[:, 0], points[:, 1]
        assert np.allclose(np.diff(x), (x[-1] - x[0]) / 99, atol=0.02)
        expected = (1 - np.array(curve["values"])) / 2 * 210  # of a panel from 1 down to -1
        assert np.abs(y - expected).max() < 0.02
    assert len({(p.get("stroke"), p.get("stroke-dasharray")) for p in paths[:2]}) == 2
    assert {"dimension 0 (sine)", "dimension 1 (cosine)", "dimension 20 (sine)", "position"} <= set(page.says())
    readable(page)


def test_quality_against_length(daemon):
    page = picture(daemon, QUALITY, CURVES)
    paths = curves_of(page.root)
    for path, values in zip(paths, QUALITY["values"], strict=True):
        points = path_points(path)
        assert np.allclose(points[:, 0], np.linspace(0, 640, 6), atol=0.01)
        assert np.allclose(points[:, 1], (40 - np.array(values)) / 40 * 320, atol=0.01)  # 0 … 40
    assert len({p.get("stroke") for p in paths}) == len({p.get("stroke-dasharray") for p in paths}) == 2
    for colour in (p.get("stroke") for p in paths):
        assert contrast(tuple(int(colour[i:i + 2], 16) for i in (1, 3, 5)), page.ground) >= 3
    assert {*QUALITY["names"], "Quality", "length", "BLEU", "0", "40", "10", "60"} <= set(page.says())
    readable(page)
    assert ask(daemon, QUALITY, CURVES)["curves"][0] == {
        "name": "without attention", "range": [12, 35], "values": QUALITY["values"][0]}


def test_the_range_has_no_negative_zero(daemon):
    reply = daemon.post("/v1/curves", {"values": [[-0.0, -0.0], [-1, -0.0], [-0.0, 1]]})
    assert [curve["range"] for curve in reply.json()["curves"]] == [[0, 0], [-1, 0], [0, 1]] and '"range":[-0' not in reply.text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_gap_is_nan_as_text(daemon, dtype):
    body = {"values": {"dtype": dtype, "data": [[1, None, 0.5]]}}
    assert daemon.post(CURVES, body, headers={"Accept": "text/plain"}).text == "values (1, 3):\n[[1.  nan 0.5]]\n"


def test_curves_with_gaps_and_many_points(daemon):
    page = picture(daemon, {"values": [1, 2, None, 4, 5]}, CURVES)
    path = curves_of(page.root)[0][0].get("d")
    assert path.count("M") == 2 and path.count("L") == 2
    values = np.array(normal(200_000))
    values[123_456] = 30  # a spike of one point is not lost
    svg = drawn(daemon, {"values": values.tolist()}, CURVES)
    assert len(svg) < 100_000
    page = Picture(svg)
    y = path_points(curves_of(page.root)[0])[:, 1]
    assert y.min() < 0.01 * y.max() + 1


def test_many_curves_share_their_points(daemon):
    svg = drawn(daemon, {"values": {"shape": [200, 5000], "random": "uniform", "seed": 1}}, CURVES)
    points = [path_points(curve) for curve in curves_of(Picture(svg).root)]
    assert len(points) == 200 and sum(map(len, points)) <= 20_000 + 2 * 200
    for y in (p[:, 1] for p in points):  # of each 5000 the least and the largest are there
        assert y.max() - y.min() > 0.99 * max(map(np.ptp, (p[:, 1] for p in points)))


def test_dashes_of_long_lines(daemon):
    """They go on from one path to the next; a line that fills its plot has none that could be told."""
    n = np.arange(500)
    page = picture(daemon, {"values": [n.tolist(), (200 + 200 * np.sin(n / 80)).tolist(), (n % 2 * 499).tolist()]}, CURVES)
    whole, wave, full = curves_of(page.root)
    assert not whole.get("stroke-dasharray") and wave.get("stroke-dasharray") and not full.get("stroke-dasharray")
    length = 0
    for path in wave:
        assert abs(float(path.get("stroke-dashoffset", 0)) - length) < 1
        length += np.hypot(*np.diff(path_points([path]), axis=0).T).sum()
    assert len(wave) == 8
    named = picture(daemon, {"values": [n.tolist(), (n % 2 * 499).tolist()], "names": ["a", "b"]}, CURVES)
    legend = [path for path in named.root.iter() if (path.get("d") or "").endswith("h26")]
    assert [path.get("stroke-dasharray") for path in legend] == [None, None]


@pytest.mark.parametrize("dims, dashed", [([0, 1, 20, 21], [False, False]), ([20, 21, 0, 1], [False, False]),
                                          ([16, 17, 20, 21], [False, True])])
def test_dashes_follow_the_place_in_a_panel(daemon, dims, dashed):
    """Dimension 1 is too long for dashes; then dimension 21, which has its place in another panel, has none."""
    body = {"kind": "sinusoidal", "length": 100, "width": 64, "dims": dims, "figure": {"per_panel": 2}}
    page = picture(daemon, body, POSITIONS)
    for group in page.groups:
        samples = [path for path in group.iter() if (path.get("d") or "").endswith("h26")]
        for curves in (curves_of(group), samples):
            assert [bool(curve.get("stroke-dasharray")) for curve in curves] == dashed
    strokes = [[curve.get("stroke") for curve in curves_of(group)] for group in page.groups]
    assert strokes[0] == strokes[1] and len(set(strokes[0])) == 2


def test_dashes_behind_a_gap(daemon):
    """A gap has no length, and a path may begin behind it: the 65th point does."""
    values = np.full((2, 100), 5.0)
    values[1] = np.arange(100)
    body = {"values": [values[0].tolist(), [None if i == 64 else v for i, v in enumerate(values[1])]]}
    before, behind = curves_of(picture(daemon, body, CURVES).root)[1]
    length = np.hypot(*np.diff(path_points([before]), axis=0).T).sum()
    assert abs(float(behind.get("stroke-dashoffset")) - length) < 1
    assert len(path_points([before])) == 64 and len(path_points([behind])) == 35


@pytest.mark.parametrize("body, code, pointer", [
    ({"values": []}, "shape_mismatch", "/values"), ({"values": [[[1]]]}, "shape_mismatch", "/values"),
    ({"values": [1, 2], "x": [1]}, "shape_mismatch", "/x"), ({"values": [1], "names": ["a", "b"]}, "shape_mismatch", "/names"),
    ({"values": [1], "titles": ["a", "b"]}, "shape_mismatch", "/titles"), ({"value": [1]}, "unknown_field", "/value")])
def test_curves_refused(daemon, body, code, pointer):
    refused(daemon, body, code, pointer, path=CURVES)


def test_the_deadline_ends_a_csv(daemon):
    reply = daemon.post(CURVES, {"values": [[0.123] * 300000], "timeout_ms": 1}, headers={"Accept": "text/csv"})
    assert reply.status_code == 504 and reply.json()["code"] == "deadline_exceeded"
