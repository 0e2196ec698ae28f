"""Accept: image/png: sizes, bounds, and the same picture as Chromium draws of the SVG."""
import io
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import requests
from api_client import qkv
from conftest import BINARY, PATIENCE, ROOT, clean_environment
from picture import Picture
from PIL import Image
from test_pictures import CURVES, HEATMAPS, MASKS, PNG, POSITIONS, QUALITY, drawn, example, picture


@pytest.mark.parametrize("scale", [1, 2, 4])
def test_png_sizes(daemon, scale):
    body = {"weights": [[0.2, 0.8], [0.5, 0.5]], "figure": {"scale": scale}}
    page = picture(daemon, body, HEATMAPS)
    image = Image.open(io.BytesIO(drawn(daemon, body, HEATMAPS, PNG)))
    assert image.format == "PNG" and image.size == (page.width * scale, page.height * scale)
    if scale == 2:
        body["figure"] = {}
        assert Image.open(io.BytesIO(drawn(daemon, body, HEATMAPS, PNG))).size == image.size


def test_too_many_pixels(daemon):
    body = {"weights": {"shape": [100, 60, 60], "fill": "ones"}, "figure": {"scale": 4}}
    reply = daemon.post(HEATMAPS, body, headers=PNG)
    assert reply.status_code == 413 and reply.json()["pointer"] == "/figure/scale" and "smaller scale" in reply.text
    assert reply.json()["limit"] == {"value": 5e7}


def test_memory_is_bounded(start):
    """What the pixels need is counted before they are painted."""
    daemon = start("--memory-bytes", str(64 << 20))
    body = {"weights": {"shape": [36, 40, 40], "random": "uniform"}, "figure": {"scale": 4}}
    reply = daemon.post(HEATMAPS, body, headers=PNG)
    assert reply.status_code == 413 and reply.json()["limit"]["setting"] == "memory_bytes", reply.text
    assert daemon.post(HEATMAPS, {"weights": [[0.5, 0.5]]}, headers=PNG).status_code == 200


def test_pictures_at_the_same_time(daemon):
    bodies = [qkv(H=2, B=1, L=12, S=12, seed=n) | {"figure": {"scale": 1}} for n in range(3)]
    want = [drawn(daemon, body, headers=PNG) for body in bodies]
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda n: requests.post(daemon.url + "/v1/attention", json=bodies[n % 3], headers=PNG,
                                                    timeout=PATIENCE).content, range(18)))
    assert all(png == want[n % 3] for n, png in enumerate(got))


def test_a_machine_without_fonts_says_so(start, tmp_path):
    """In each PNG's header, and once in the log; a picture with fonts and an SVG say nothing."""
    fonts = tmp_path / "fonts.conf"
    fonts.write_text(f"<fontconfig><dir>{tmp_path}/none</dir><cachedir>{tmp_path}/cache</cachedir></fontconfig>")
    daemon, other = start(env={"FONTCONFIG_FILE": str(fonts)}), start()
    body = {"weights": [[0.2, 0.8], [0.5, 0.5]]}
    for _ in range(2):
        reply = daemon.post(HEATMAPS, body, headers=PNG)
        assert (reply.status_code, reply.headers["X-Warning"]) == (200, "no font is installed, so every letter of this picture is a box")
    assert "X-Warning" not in daemon.post(HEATMAPS, body, headers={"Accept": "image/svg+xml"}).headers
    assert "X-Warning" not in other.post(HEATMAPS, body, headers=PNG).headers
    daemon.stop()
    line, = daemon.log(level="warn")
    assert line["event"].startswith("pictures: no font is installed") and "fonts-dejavu-core" in line["event"]
    assert not other.log(0, level="warn")


# --- beside Chromium ---

@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """shot(svg) -> what Chromium draws of it, one pixel a unit, [height, width, 3]."""
    browser = shutil.which("chromium")
    assert browser, "chromium is missing (tests/tools/deps test)"
    folder = tmp_path_factory.mktemp("chromium")

    def shot(svg, page):
        (folder / "page.html").write_bytes(
            b"<!doctype html><meta charset=utf-8><style>body{margin:0}svg{display:block}</style>" + svg)
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                        "--disable-background-networking", f"--user-data-dir={folder / 'profile'}",
                        f"--window-size={int(page.width)},{int(page.height)}", f"--screenshot={folder / 'shot.png'}",
                        (folder / "page.html").as_uri()], check=True, capture_output=True, timeout=2 * PATIENCE)
        return np.asarray(Image.open(folder / "shot.png").convert("RGB")).astype(int)

    return shot


def ink(pixels, ground):
    """How much of a part of a picture is not its ground."""
    return (np.abs(pixels - ground).max(-1) > 60).mean()


def same_structure(page, one, other):
    """The same page by two programs: sizes, colours of cells, hatching, and ink where texts are."""
    assert one.shape == other.shape == (int(page.height), int(page.width), 3)
    for panel in page.panels:
        for at, colour in panel.cells.items():  # a corner, away from the text
            x, y = panel.centre(at)
            x, y = int(x - 0.35 * panel.cell[0]), int(y - 0.35 * panel.cell[1])
            for pixels in (one, other):
                assert np.abs(pixels[y, x] - colour).max() <= 2, (at, colour, pixels[y, x])
        for at in panel.hidden:
            x, y = panel.centre(at)
            w, h = 0.45 * panel.cell[0], 0.45 * panel.cell[1]
            for pixels in (one, other):
                part = pixels[int(y - h):int(y + h), int(x - w):int(x + w)]
                assert part.std() > 5, at  # lines on a ground, never one colour
    for text in page.texts:
        if text.turn or not text.says.strip():
            continue
        half = max(8.0, 0.3 * text.size * len(text.says))
        left = text.x - (0 if text.anchor == "start" else 2 * half if text.anchor == "end" else half)
        box = [slice(max(0, int(text.y - text.size * 0.6)), int(text.y + text.size * 0.6)),
               slice(max(0, int(left)), max(1, int(left + 2 * half)))]
        inks = [ink(pixels[tuple(box)], np.median(pixels[tuple(box)].reshape(-1, 3), 0)) for pixels in (one, other)]
        assert min(inks) > 0.005 and abs(inks[0] - inks[1]) < 0.12, (text.says, inks)


PLAIN, EMOJI = ["猫", "ねこ", "고양이"], ["🎉", "❤️ heart", "🇫🇷"]
SCRIPTS = {"weights": (np.eye(6) / 2 + 0.1).tolist(), "labels": {"query": PLAIN + EMOJI, "key": EMOJI + PLAIN},
           "figure": {"title": "漢字 and 👍🏽"}}

FIGURES = {
    "translation": (HEATMAPS, example("translation"), (8, 7)),
    "head-patterns": (HEATMAPS, example("head-patterns"), (8, 8)),
    "causal-mask": (MASKS, example("causal-picture", 1), (6, 6)),
    "causal-heads": ("/v1/attention", {"query": {"shape": [1, 3, 12, 8], "random": "normal"}, "is_causal": True,
                                       "figure": {"theme": "dark"}}, (12, 12)),
    "sinusoidal-map": (POSITIONS, {"kind": "sinusoidal", "length": 50, "width": 32}, (50, 32)),
    "sinusoidal-curves": (POSITIONS, {"kind": "sinusoidal", "length": 100, "width": 64, "dims": [0, 1, 20]}, None),
    "quality": (CURVES, QUALITY, None),
}


@pytest.mark.parametrize("name", FIGURES)
def test_png_and_chromium_agree(daemon, chromium, name):
    path, body, shape = FIGURES[name]
    body = body | {"figure": body.get("figure", {}) | {"scale": 1}}
    svg = drawn(daemon, body, path)
    page = Picture(svg, shape)
    png = np.asarray(Image.open(io.BytesIO(drawn(daemon, body, path, PNG))).convert("RGB")).astype(int)
    shot = chromium(svg, page)
    same_structure(page, png, shot)
    # blurred by a few pixels, so that only what is drawn where counts, they are alike all over
    blurred = [np.asarray(Image.fromarray(p.astype(np.uint8)).resize((p.shape[1] // 8, p.shape[0] // 8), Image.Resampling.BOX))
               for p in (png, shot)]
    assert np.abs(blurred[0].astype(int) - blurred[1]).mean() < 3


def blur(pixels):
    image = Image.fromarray(pixels.astype(np.uint8))
    return np.asarray(image.resize((image.width // 4, image.height // 4), Image.Resampling.BOX)).astype(int)


def vivid(pixels):
    """The share of pixels that are no shade of grey."""
    return (pixels.max(-1) - pixels.min(-1) > 60).mean()


def test_labels_in_other_scripts_have_their_glyphs_and_emoji_their_colours(daemon, chromium):
    """In PNG as in a browser that shows the SVG; the fonts are those of `make deps`."""
    for character in "猫ね고🎉":
        found = subprocess.run(["fc-list", f":charset={ord(character):x}", "family"], capture_output=True, text=True)
        assert found.stdout, f"no font has {character}"
    body = SCRIPTS | {"figure": SCRIPTS["figure"] | {"scale": 1}}
    svg = drawn(daemon, body, HEATMAPS)
    page = Picture(svg, (6, 6))
    png = np.asarray(Image.open(io.BytesIO(drawn(daemon, body, HEATMAPS, PNG))).convert("RGB")).astype(int)
    shot = chromium(svg, page)
    for text in page.panels[0].rows:
        half = 8 * len(text.says)
        box = slice(int(text.y - 9), int(text.y + 9)), slice(max(0, int(text.x - 2 * half)), int(text.x))
        one, other = png[box], shot[box]
        assert np.abs(blur(one) - blur(other)).mean() < 8, text.says
        if text.says in EMOJI:
            assert min(vivid(one), vivid(other)) > 0.03 and abs(vivid(one) - vivid(other)) < 0.1, text.says
        else:
            assert max(vivid(one), vivid(other)) < 0.01, text.says


def test_turned_and_escaped_labels_with_emoji(daemon):
    """Labels that stand upright, and what XML escapes beside an emoji."""
    words = [f"word {i} <&> 😀" for i in range(24)]
    body = {"weights": (np.eye(24) / 2 + 0.1).tolist(), "labels": {"query": words, "key": words}, "figure": {"scale": 1}}
    page = Picture(drawn(daemon, body, HEATMAPS), (24, 24))
    assert any(text.turn for text in page.panels[0].columns)
    png = np.asarray(Image.open(io.BytesIO(drawn(daemon, body, HEATMAPS, PNG))).convert("RGB")).astype(int)
    left, top = (int(v) for v in page.panels[0].box[:2])
    width, height = (int(v) for v in page.panels[0].box[2:])
    yellow = (png[..., 0] > 200) & (png[..., 1] > 150) & (png[..., 2] < 120)
    assert yellow[top:top + height, :left].sum() > 24 * 20
    assert yellow[top + height:, left:left + width].sum() + yellow[:top, left:left + width].sum() > 24 * 20


def test_embedded_images_agree(daemon, chromium):
    body = {"query": {"shape": [230, 8], "random": "normal"}, "is_causal": True, "heatmap": {"max_cells": 230 * 230},
            "figure": {"scale": 1}}
    svg = drawn(daemon, body)
    page = Picture(svg, (230, 230))
    cells, (x, y, w, _) = page.panels[0].pixels(), page.panels[0].box
    step = w / 230
    assert step == int(step)
    png = np.asarray(Image.open(io.BytesIO(drawn(daemon, body, headers=PNG))).convert("RGB")).astype(int)
    shot = chromium(svg, page)
    for row, column in ((0, 0), (50, 50), (100, 99), (229, 3), (229, 229)):
        at = int(y + (row + 0.5) * step), int(x + (column + 0.5) * step)
        for pixels in (png, shot):
            assert np.abs(pixels[at] - cells[row, column, :3]).max() <= 2, (row, column)
    for pixels in (png, shot):
        assert pixels[int(y + 5):int(y + 100), int(x + 200):int(x + 300)].std() > 5


def test_gallery(tmp_path):
    run = subprocess.run([sys.executable, ROOT / "tests/tools/gallery", tmp_path, "1"], capture_output=True, text=True,
                         env=clean_environment({"ATTND": BINARY}), timeout=4 * PATIENCE)
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "index.html").read_text()
    names = re.findall(r'<figure id="([\w-]+)"', page)
    assert {"translation", "head-patterns", "causal-mask", "sinusoidal-map", "sinusoidal-curves",
            "quality-and-length"} <= set(names)
    for name in names:
        for suffix in ("", "-dark"):
            assert not Picture((tmp_path / f"{name}{suffix}.svg").read_bytes()).outside()
            assert Image.open(tmp_path / f"{name}{suffix}.png").size[0] >= 300
