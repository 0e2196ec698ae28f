"""Packages: what `make` says where one is missing, and what the daemon says of a build of OpenBLAS with threads."""
import os
import shutil
import subprocess

import pytest

from conftest import PATIENCE, ROOT

# A pkg-config that knows all libraries but one.
PKG_CONFIG = """#!/bin/sh
case "$*" in *{missing}*) exit 1 ;; esac
exec {real} "$@"
"""
# A build of OpenBLAS that has threads, as far as it can be asked.
THREADED = "int openblas_get_parallel(void) { return 1; }\n"


def make(folder, tools=None, **variables):
    path = f"{tools}:{os.environ['PATH']}" if tools else os.environ["PATH"]
    command = ["make", "--no-print-directory", f"BUILD={folder}/build", *(f"{k}={v}" for k, v in variables.items()),
               f"{folder}/build/obj/lib/base/pool.o"]
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "WERROR")}
    return subprocess.run(command, cwd=ROOT, env=environment | {"PATH": path}, capture_output=True, text=True, timeout=PATIENCE)

# A machine whose user is not root, on which sudo asks for a password, and on which dpkg knows all packages but some.
NOBODY = {"id": "#!/bin/sh\necho 1000\n", "sudo": "#!/bin/sh\nexit 1\n", "dpkg-query": """#!/bin/sh
shift 3
for package; do case " {missing} " in *" $package "*) ;; *) echo "installed $package" ;; esac; done
"""}


def deps(folder, verb, without, no_module=None):
    """tests/tools/deps as that user, without these packages and without the library of no_module."""
    tools = dict(NOBODY)
    if no_module:
        tools["pkg-config"] = PKG_CONFIG.replace("{real}", shutil.which("pkg-config")).replace("{missing}", no_module)
    for name, text in tools.items():
        tool = folder / name
        tool.write_text(text.replace("{missing}", without))
        tool.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run([ROOT / "tests" / "tools" / "deps", verb], env=environment, capture_output=True, text=True, timeout=PATIENCE)


def test_without_root_a_library_built_by_hand_will_do(tmp_path):
    done = deps(tmp_path, "build", "libjansson-dev fonts-dejavu-core")
    assert done.returncode == 0
    assert "  apt-get update && apt-get install -y --no-install-recommends libjansson-dev fonts-dejavu-core\n" in done.stderr
    assert "going on" in done.stderr
    assert deps(tmp_path, "build", "nothing").stderr == ""


def test_without_root_what_is_not_here_in_any_form_ends_it(tmp_path):
    done = deps(tmp_path, "build", "libjansson-dev fonts-dejavu-core", no_module="jansson")
    assert done.returncode == 1
    assert "--no-install-recommends libjansson-dev fonts-dejavu-core\n" in done.stderr
    assert done.stderr.endswith("cannot do without: libjansson-dev\n")


def test_without_root_tests_need_their_packages(tmp_path):
    done = deps(tmp_path, "test", "varnish")
    assert done.returncode == 1 and "--no-install-recommends varnish\n" in done.stderr and "going on" not in done.stderr


@pytest.mark.parametrize("module, package", [("librsvg-2.0", "librsvg2-dev"), ("openblas", "libopenblas-serial-dev"),
                                             ("libmicrohttpd", "libmicrohttpd-dev"), ("gnutls", "libgnutls28-dev")])
def test_make_names_the_packages_that_are_missing(tmp_path, module, package):
    tool = tmp_path / "pkg-config"
    tool.write_text(PKG_CONFIG.format(missing=module, real=shutil.which("pkg-config")))
    tool.chmod(0o755)
    done = make(tmp_path, tmp_path)
    assert done.returncode == 2
    assert f"(Debian's names): {package}\n" in done.stderr, done.stderr
    assert "`make deps`" in done.stderr and "`make run`" in done.stderr
    assert "No such file" not in done.stderr, "it is said before the compiler says it"


def test_make_without_a_compiler_names_it(tmp_path):
    done = make(tmp_path, CC="no-such-compiler -O2")
    assert done.returncode == 2
    assert "(Debian's names): gcc" in done.stderr


def test_make_with_all_of_them_says_nothing(tmp_path):
    done = make(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_warning_stops_only_our_own_builds(tmp_path):
    """A newer compiler warns of more: nobody else's build may fail for that. tests/run sets WERROR."""
    header = tmp_path / "warned.h"
    header.write_text("static int unused(void) { return 0; }\n")
    done = make(tmp_path, OPT=f"-include {header}")
    assert done.returncode == 0 and "unused" in done.stderr, done.stderr
    (tmp_path / "build/obj/lib/base/pool.o").unlink()
    assert make(tmp_path, OPT=f"-include {header}", WERROR="-Werror").returncode == 2
    assert "export WERROR=-Werror" in (ROOT / "tests/run").read_text()


def test_a_build_of_openblas_with_threads_is_warned_of(start, tmp_path):
    source, library = tmp_path / "threaded.c", tmp_path / "threaded.so"
    source.write_text(THREADED)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    daemon = start(env={"LD_PRELOAD": str(library), "ASAN_OPTIONS": asan.lstrip(":")})
    line, = [entry for entry in daemon.log(level="warn") if "OpenBLAS" in entry["event"]]
    assert "libopenblas0-serial" in line["event"]
    assert not [entry for entry in start().log() if "OpenBLAS" in entry.get("event", "")]


def test_the_daemon_finds_the_serial_build_by_itself(start):
    """Whichever build is the system's choice: the daemon that was built beside a serial one loads that."""
    maps = open(f"/proc/{start().pid}/maps").read()
    libraries = {line.split()[-1] for line in maps.splitlines() if "libopenblas" in line}
    assert libraries and all("/openblas-serial/" in library for library in libraries)
