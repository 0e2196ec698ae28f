"""What a figure says, read from its SVG: cells with their colours, hatching, texts; and from pixels."""
import base64
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
from PIL import Image

NS = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def rgb(text):
    assert re.fullmatch(r"#[0-9a-f]{6}", text), text
    return tuple(int(text[i:i + 2], 16) for i in (1, 3, 5))


def luminance(colour):
    """Relative luminance of WCAG 2."""
    c = np.array(colour, float) / 255
    return float(np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722))


def contrast(one, other):
    a, b = sorted((luminance(one), luminance(other)))
    return (b + 0.05) / (a + 0.05)


def numbers(element, *names):
    return [float(element.get(name)) for name in names]


class Text:
    """A <text>: what it says, its anchor's place, its colour and size."""

    def __init__(self, element):
        self.says, self.fill = element.text, rgb(element.get("fill"))
        self.size = float(element.get("font-size"))
        self.anchor = element.get("text-anchor", "start")
        turn = re.match(r"translate\((\S+) (\S+)\) rotate\((\S+)\)", element.get("transform", ""))
        self.x, self.y = map(float, turn.groups()[:2]) if turn else numbers(element, "x", "y")
        self.turn = float(turn.group(3)) if turn else 0
        if not turn:
            self.y -= 0.35 * self.size  # from the base line to the middle


class Panel:
    """cells: {(row, column): colour}, hidden: {(row, column)}, values: {(row, column): Text}. In a figure of a given
    size, cells differ by a pixel."""

    def __init__(self, group, shape, sized=False):
        self.shape = shape
        frame = [r for r in group.findall(NS + "rect") if r.get("fill") == "none"]
        assert len(frame) == 1
        x, y, w, h = numbers(frame[0], "x", "y", "width", "height")
        self.box = x + 0.5, y + 0.5, w - 1, h - 1
        self.title = next((Text(t) for t in group.findall(NS + "text")), None)
        self.rows, self.columns = self._labels(group, "rows"), self._labels(group, "columns")
        self.image = group.find(NS + "image")
        self.cells, self.hidden, self.values, self.marks = {}, set(), {}, {}
        rects = group.find(f"{NS}g[@class='cells']")
        if rects is None:
            return
        elements = rects.findall(NS + "rect")
        paths = group.findall(f"{NS}path[@class='hidden']")
        runs = [self._run(p) for d in paths for p in re.findall(r"M[^M]*z", d.get("d"))]
        self.gap = self._gap(elements, runs)
        self.cell = (self.box[2] + self.gap) / shape[1], (self.box[3] + self.gap) / shape[0]
        self.slack = 1.01 if sized else 0.03
        for rect in elements:
            rx, ry, rw, rh = numbers(rect, "x", "y", "width", "height")
            at = self._at(rx, ry)
            assert at not in self.cells and abs(rw + self.gap - self.cell[0]) < self.slack
            assert abs(rh + self.gap - self.cell[1]) < self.slack
            self.cells[at] = rgb(rect.get("fill"))
        for rx, ry, rw, rh in runs:
            row, first = self._at(rx, ry)
            for column in range(first, first + round((rw + self.gap) / self.cell[0])):
                assert (row, column) not in self.hidden
                self.hidden.add((row, column))
        for name, into in (("values", self.values), ("marks", self.marks)):
            for element in group.findall(f"{NS}g[@class='{name}']/{NS}text"):
                text = Text(element)
                into[self._at(text.x - self.cell[0] / 2, text.y - self.cell[1] / 2)] = text

    def _labels(self, group, name):
        found = group.find(f"{NS}g[@class='{name}']")
        return [] if found is None else [Text(t) for t in found.findall(NS + "text")]

    def _gap(self, rects, runs):
        """Cells are whole multiples apart, and either touch or leave one pixel."""
        if rects and len(rects) > 1:
            first, second = (numbers(r, "x", "y", "width") for r in rects[:2])
            if first[1] == second[1] and 0 < second[0] - first[0] < 1.5 * first[2]:
                return round(second[0] - first[0] - first[2])
        width = float(rects[0].get("width")) if rects else runs[0][2]
        whole = round(self.box[2] / width)
        return 0 if rects and abs(width * whole - self.box[2]) < 0.05 and whole == self.shape[1] else 1

    def _run(self, path):
        x, y, w, h, back = map(float, NUMBER.findall(path))
        assert w == -back and w > 0 and h > 0
        return x, y, w, h

    def _at(self, x, y):
        column, row = (x - self.box[0]) / self.cell[0], (y - self.box[1]) / self.cell[1]
        for place, size in ((column, self.cell[0]), (row, self.cell[1])):
            assert abs(place - round(place)) < max(0.05, self.slack / size / 1.9), (row, column)
        assert 0 <= round(row) < self.shape[0] and 0 <= round(column) < self.shape[1]
        return round(row), round(column)

    def centre(self, at):
        row, column = at
        return (self.box[0] + (column + 0.5) * self.cell[0] - self.gap / 2,
                self.box[1] + (row + 0.5) * self.cell[1] - self.gap / 2)

    def pixels(self):
        """The embedded image as RGBA, a pixel a cell, [R, C, 4]; all pixels of a cell are alike."""
        kind, _, data = self.image.get("href").partition(",")
        assert kind == "data:image/png;base64"
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        pixels = np.asarray(image.convert("RGBA"))
        (tall, down), (wide, across) = (divmod(n, cells) for n, cells in zip(pixels.shape, self.shape))
        assert tall and wide and not down and not across, (pixels.shape, self.shape)
        parts = pixels.reshape(self.shape[0], tall, self.shape[1], wide, 4)
        assert (parts == parts[:, :1, :, :1]).all()
        return parts[:, 0, :, 0]


class Picture:
    def __init__(self, svg, shape=None, sized=False):
        self.svg = svg if isinstance(svg, bytes) else svg.encode()
        self.root = ET.fromstring(self.svg)
        assert self.root.tag == NS + "svg"
        self.width, self.height = numbers(self.root, "width", "height")
        self.title, self.description = self.root.find(NS + "title").text, self.root.find(NS + "desc").text
        ground = self.root.find(NS + "rect")
        assert numbers(ground, "width", "height") == [self.width, self.height]
        self.ground = rgb(ground.get("fill"))
        groups = self.root.findall(f"{NS}g[@class='panel']")
        self.groups = groups
        self.panels = [Panel(g, shape, sized) for g in groups] if shape else []
        self.texts = [Text(t) for t in self.root.iter(NS + "text")]

    def says(self):
        return [t.says for t in self.texts]

    def outside(self):
        """Texts whose anchor is not inside of the page."""
        return [t.says for t in self.texts if not (0 <= t.x <= self.width and 0 <= t.y <= self.height)]


def curves_of(element):
    return element.findall(f".//{NS}g[@class='curve']")


def path_points(curve):
    """Of all paths of a curve: each begins where the one before ended."""
    points = [np.array(list(map(float, NUMBER.findall(p.get("d"))))).reshape(-1, 2) for p in curve]
    assert all((a[-1] == b[0]).all() for a, b in zip(points, points[1:]))
    return np.concatenate([points[0], *(p[1:] for p in points[1:])])
