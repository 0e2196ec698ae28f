"""The programs of the READMEs are run as they stand there: the Python and the C example with the
commands printed beside them. Only the address of the service is replaced."""
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import requests
from conftest import PATIENCE, ROOT, clean_environment
from documents import FENCE, blocks, console, read, section

SERVICE = "http://localhost:8080"


def program(language):
    """The README's one program in a language, and the console lines printed below it."""
    found = FENCE.findall(read("README.md"))
    [place] = [i for i, (kind, _) in enumerate(found) if kind == language]
    return found[place][1], found[place + 1][1]


def run(command, folder, **env):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=clean_environment(env), text=True,
                          capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


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


def test_the_map_of_one_request_names_what_there_is():
    """`make walk` writes the map; a file or function that was renamed since is found here."""
    text = section("lib/README.md", "The map of one request")
    rows = [line.split() for line in text.split("```")[1].splitlines() if line]
    assert int(re.search(r"enters these (\d+) files", text)[1]) == len(rows) > 30
    for file, function in rows:
        assert (ROOT / file).exists(), file
        texts = [path.read_text() for top in ("lib", "server") for path in (ROOT / top).rglob(f"{Path(file).stem}.[ch]")]
        assert any(re.search(rf"\b{function}\(", text) for text in texts), (file, function)
