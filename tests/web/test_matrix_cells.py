"""500 cells under the pointer, in every transform, over all levels of the tiles of a run: value, rank, and whether the mask
hides it are those of /cells, and the colours of their pixels those of lib/draw."""
import random
import time

import numpy as np
import pytest
from test_matrix import View, colour_of, store, tile

TOKENS = 4096
LEVELS = range(5)
SIZE = 1.9  # CSS pixels of a cell of a tile: twice as many on the screen, so that its middle is its own
LARGE = 24  # of a weight
ROWS, COLS = 25, 4  # points of a view
RATIO = 2
CODINGS = {"linear": {"transform": "linear"}, "sqrt": {"transform": "sqrt"}, "log": {"transform": "decades"},
           "row": {"transform": "linear", "normalize": "row_max", "vmin": 0, "vmax": 1}}

# Waits for the cell that the panel shows, without a question of Python in between.
PANEL = """async ([q, k]) => {
  const end = performance.now() + 20000;
  for (;;) {
    const panel = document.querySelector('aside.cell');
    const at = [...panel.querySelectorAll('h3')].map((h) => (h.querySelector('small') ?? h.querySelector('bdi')).textContent.trim()).join();
    const says = panel.querySelector('.value')?.innerText ?? '';
    const tip = document.querySelector('.matrix-tip')?.innerText ?? '';
    if (at === `${q},${k}` && says !== '…' && tip.startsWith(`${q} → ${k}\\n`) && !tip.endsWith('…')) return [says, tip];
    if (performance.now() > end) return [`not ${q},${k} but ${at}: ${says}`, tip];
    await new Promise((go) => setTimeout(go, 1));
  }
}"""


@pytest.fixture(scope="module")
def run(daemon):
    return store(daemon, TOKENS, is_causal=True)


def show(view, level, draw):
    """Shows a part of the diagonal by the tiles of a level."""
    s = LARGE if level == 0 else SIZE / 2 ** level
    box = view.box()
    zoom = max(1.0, s * TOKENS / min(box["width"], box["height"]))
    rows, cols = box["height"] / s, box["width"] / s
    top = draw.uniform(0, max(0, TOKENS - rows))
    left = min(max(0, top + rows / 2 - cols * draw.uniform(0.4, 0.8)), max(0, TOKENS - cols))
    view.page.evaluate("v => { location.hash = location.hash.replace(/&v=[^&]*/, '') + `&v=${v}`; }", f"{top:.3f},{left:.3f},{zoom:.6f}")
    end = time.monotonic() + 20
    while view.data("level") != str(level):
        assert time.monotonic() < end, f"level {view.data('level')}, not {level}"
        view.page.wait_for_timeout(20)
    view.settle()


def points(view, draw):
    """Points of the page with the cells under them."""
    top, left, x, y, box = view.geometry()
    small = view.page.locator(".matrix-mini").bounding_box() if view.page.locator(".matrix-mini").is_visible() else None
    width, height = min(box["width"], TOKENS * x) - 2, min(box["height"], TOKENS * y) - 2
    found = []
    for _ in range(ROWS):
        py = int(box["y"] + draw.uniform(2, height))
        for _ in range(COLS):
            px = int(box["x"] + draw.uniform(2, width))
            while small and px >= small["x"] - 2 and py >= small["y"] - 2:
                px = int(box["x"] + draw.uniform(2, width))
            found.append((px, py, int(top + (py - box["y"]) / y), int(left + (px - box["x"]) / x)))
    return found


def pixels_are_right(daemon, run, view, transform, level, cells, tiles):
    pixels = view.picture()
    top, left, x, y, box = view.geometry()
    hatch = {colour_of("style", "hatch", "light"), colour_of("style", "hatch-ground", "light")}
    small = view.page.locator(".matrix-mini").bounding_box() if view.page.locator(".matrix-mini").is_visible() else None
    seen = 0
    for q, k in cells:
        r, c = q >> level, k >> level
        px, py = (((c + 0.5) * 2 ** level) - left) * x, (((r + 0.5) * 2 ** level) - top) * y
        if not (1 < px < box["width"] - 1 and 1 < py < box["height"] - 1):
            continue
        px, py = box["x"] + px, box["y"] + py
        if small and px > small["x"] - 12 and py > small["y"] - 12:  # its shadow, too
            continue
        place = level, r >> 8, c >> 8
        if place not in tiles:
            tiles[place] = tile(daemon, run, "png", head=1, colormap="cividis", level=level, y=r >> 8, x=c >> 8, **CODINGS[transform])
        want = tiles[place][r & 255, c & 255]
        got = tuple(int(v) for v in pixels[int(py * RATIO), int(px * RATIO)])
        assert got in hatch if want[3] == 0 else got == tuple(int(v) for v in want[:3]), (transform, level, q, k, got, want)
        seen += 1
    return seen


@pytest.mark.parametrize("transform", CODINGS)
def test_500_cells(daemon, run, open_page, transform):
    seed = 100 + list(CODINGS).index(transform)
    print(f"seed {seed}")
    draw = random.Random(seed)
    # So wide that the legend has one line: an emulated screen stretches a canvas whose height is not a whole number.
    view = View(open_page(f"#1/matrix?r={run}&h=1&c=cividis&t={transform}", size=(1360, 640), device_scale_factor=RATIO))
    assert view.box()["height"] % 1 < 0.1, view.box()
    hidden = coloured = hovered = 0
    for level in LEVELS:
        show(view, level, draw)
        cells = points(view, draw)
        said = []
        for px, py, q, k in cells:
            view.page.mouse.move(px, py)
            said.append(view.page.evaluate(PANEL, [q, k]))
        for (_, _, q, k), (says, tip) in zip(cells, said, strict=True):
            want = daemon.get(f"/v1/runs/{run}/cells", params={"head": 1, "row": q, "col": k, "fields": "weight,visible,rank"}).json()
            if not want["visible"]:
                assert says.split("\n") == ["hidden", "the mask hides this key"] and tip.endswith("hidden by the mask"), (level, q, k, says)
                hidden += 1
            else:
                _, rank, exact = says.split("\n")
                assert np.float32(exact) == np.float32(want["weight"]), (level, q, k, says, want)
                assert rank == f"rank {want['rank']} of {q + 1}", (level, q, k, says, want)
            hovered += 1
        coloured += pixels_are_right(daemon, run, view, transform, level, [c[2:] for c in cells], {})
    print(f"{hovered} cells, {hidden} of them hidden; colours of {coloured}")
    assert hovered >= 500 and 50 <= hidden <= 450 and coloured >= 450
