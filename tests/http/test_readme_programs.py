"""The programs of the READMEs are run as they stand there: the page in a browser, the Python and the C example
with the commands printed beside them. Only the address of the service is replaced."""
import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import requests
from browsers import Site
from conftest import BINARY, PATIENCE, clean_environment, ROOT
from documents import FENCE, blocks, console, read

SERVICE = "http://localhost:8080"
PICTURES = Path(BINARY).resolve().parent / "test"

# Sends what the page has drawn back to where the page came from.
PROBE = """<script>
const timer = setInterval(() => {
  const text = document.getElementById("text").textContent;
  if (!text) return;
  clearInterval(timer);
  const canvas = document.getElementById("map"), {width, height} = canvas;
  const pixels = Array.from(canvas.getContext("2d").getImageData(0, 0, width, height).data);
  fetch("/seen", {method: "POST", body: JSON.stringify({text, width, height, pixels})});
}, 20);
</script>"""


def program(language):
    """The README's one program in a language, and the console lines printed below it."""
    found = FENCE.findall(read("README.md"))
    [place] = [i for i, (kind, _) in enumerate(found) if kind == language]
    return found[place][1], found[place + 1][1] if language != "html" else None


def run(command, folder, **env):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=clean_environment(env), text=True,
                          capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def site():
    served = Site()
    yield served
    served.close()


def show(site, page, folder, picture):
    return site.open(page, folder, "--window-size=560,620", f"--screenshot={picture}")


def drawn(seen):
    return np.array(seen["pixels"], np.uint8).reshape(seen["height"], seen["width"], 4)


def test_page_draws_the_heatmap(start, site, tmp_path):
    text, _ = program("html")
    assert len(re.search(r"<script>\n(.*)\n</script>", text, re.S).group(1).splitlines()) <= 20
    daemon = start("--cors-origins", site.origin)
    assert SERVICE in text
    PICTURES.mkdir(exist_ok=True)
    picture = PICTURES / "readme_heatmap.png"
    seen = show(site, text.replace(SERVICE, daemon.url) + PROBE, tmp_path, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")

    def normal(seed):
        return {"shape": [1, 8, 64, 32], "random": "normal", "seed": seed}

    [head] = daemon.post("/v1/attention", {
        "query": normal(1), "key": normal(2), "value": normal(3), "is_causal": True, "window": [40, 0],
        "return": [], "heatmap": {"heads": [3], "encoding": "u8", "transform": "sqrt"}}).json()["heatmap"]["heads"]
    cells = np.frombuffer(base64.b64decode(head["max"]), np.uint8).reshape(head["shape"]).astype(np.float64)
    want = np.stack([255 - cells, 255 - cells * 0.7, 255 - cells * 0.3, np.full_like(cells, 255)], -1)
    row, key = np.indices(cells.shape)
    hidden = (key > row) | (key < row - 40)
    want[hidden] = [221, 221, 221, 255]
    assert np.array_equal(drawn(seen), np.rint(want).astype(np.uint8))
    assert len(np.unique(drawn(seen)[~hidden], axis=0)) > 50
    assert seen["text"].startswith("head 3: weights ")


def test_page_says_when_the_origin_is_not_allowed(start, site, tmp_path):
    text, _ = program("html")
    daemon = start("--cors-origins", "http://localhost:1")
    seen = show(site, text.replace(SERVICE, daemon.url) + PROBE, tmp_path, tmp_path / "refused.png")
    assert "fetch" in seen["text"].lower() and not drawn(seen).any()


def test_safetensors_lines(daemon):
    (_, lines) = next(block for block in blocks("py") if "safetensors" in block[1])
    q = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
    names = {"q": q, "url": daemon.url, "requests": requests}
    exec(lines, names)
    plain = requests.post(daemon.url + "/v1/attention", json={"query": q.tolist(), "is_causal": True}).json()
    for name in ("output", "weights"):
        assert np.array_equal(names["answer"][name], np.array(plain[name], np.float32))


def test_python_example(daemon, tmp_path):
    text, shown = program("python")
    [(command, output)] = console(shown)
    assert text.count(SERVICE) == 1 and command == "python3 example.py"
    (tmp_path / "example.py").write_text(text.replace(SERVICE, daemon.url))
    (tmp_path / "python3").symlink_to(sys.executable)
    assert run(command, tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}") == output


def test_python_example_prints_the_problem(daemon, tmp_path):
    text, _ = program("python")
    wrong = text.replace(SERVICE, daemon.url).replace('"is_causal"', '"is_casual"')
    done = subprocess.run([sys.executable, "-c", wrong], text=True, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 1 and 'did you mean "is_causal"' in done.stderr


def make(*words):
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DESTDIR")}
    done = subprocess.run(["make", "--no-print-directory", *words], cwd=ROOT, env=env, text=True,
                          capture_output=True, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stderr


def test_c_example_with_the_installed_library(tmp_path):
    """`make install` into a folder of a package, the example built and run from there, and all removed again."""
    where = [f"DESTDIR={tmp_path / 'root'}", "PREFIX=/usr"]
    make("install", *where)
    usr = tmp_path / "root/usr"
    found = {str(p.relative_to(usr)) for p in usr.rglob("*") if not p.is_dir()}
    assert {"bin/attnd", "lib/libattn.a", "lib/libattn.so", "lib/pkgconfig/attn.pc"} <= found
    public = {f"include/attn/{p.name}" for p in (ROOT / "lib/include/attn").glob("*.h")}
    assert public == {f for f in found if f.startswith("include/")}
    assert str(tmp_path) not in (usr / "lib/pkgconfig/attn.pc").read_text()

    text, shown = program("c")
    (tmp_path / "example.c").write_text(text)
    [(command, output)] = console(shown)
    env = {"PKG_CONFIG_SYSROOT_DIR": str(tmp_path / "root"), "PKG_CONFIG_PATH": str(usr / "lib/pkgconfig"),
           "LD_LIBRARY_PATH": str(usr / "lib")}
    assert run(command.replace("cc ", "cc -std=c11 -Wall -Wextra -Werror "), tmp_path, **env) == output
    version = run("pkg-config --modversion attn", tmp_path, **env).strip()
    assert run(f"{usr}/bin/attnd --version", tmp_path).strip() == f"attnd {version}"

    make("uninstall", *where)
    assert not [p for p in usr.rglob("*") if not p.is_dir()]
