"""The documents that people read: every README of the project, their sections, programs and console lines."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


def readmes():
    """The path of each README, the project's own first."""
    rooms = (path for top in ("server", "lib", "config", "docker", "tests") for path in sorted((ROOT / top).rglob("README.md"))
             if "node_modules" not in path.parts)
    return [ROOT / "README.md", *rooms]


def read(name):
    return (ROOT / name).read_text()


def section(name, heading):
    """The text below a heading of a document, up to the next heading of its level or above."""
    text = FENCE.sub(lambda block: block.group(0).replace("\n#", "\n\0"), read(name))  # comments in code are no headings
    found = re.findall(rf"^(#+) {re.escape(heading)}$", text, re.M)
    assert len(found) == 1, f"{name} has {len(found)} headings {heading!r}"
    below = text.split(f"\n{found[0]} {heading}\n", 1)[1]
    return re.split(rf"^#{{1,{len(found[0])}}} ", below, flags=re.M)[0].replace("\0", "#")


def blocks(language):
    """[(path, text)]: all blocks of code in a language, over all documents."""
    return [(path, text) for path in readmes() for kind, text in FENCE.findall(path.read_text()) if kind == language]


def console(text):
    """[(command, output)] of a block of console lines."""
    return [tuple(part.split("\n", 1)) for part in re.split(r"^\$ ", text, flags=re.M) if part]


def commands(start):
    """[(path, command, output)]: the console lines of all documents whose command starts so."""
    return [(path, command, output) for path, text in blocks("console") for command, output in console(text) if command.startswith(start)]
