"""What `make install` puts, and what a service manager is told. systemd and man-db check their files where they are."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from conftest import PATIENCE, ROOT, Daemon, run_attnd


def make(*words):
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DESTDIR")}
    done = subprocess.run(["make", "--no-print-directory", *words], cwd=ROOT, env=environment, capture_output=True, text=True,
                          timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stderr


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A PREFIX with everything in it."""
    folder = tmp_path_factory.mktemp("installed") / "usr"
    make("install", f"PREFIX={folder}")
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The manual page as a package has it: it names the system's files."""
    folder = tmp_path_factory.mktemp("packed")
    make("install", "PREFIX=/usr", f"DESTDIR={folder}")
    return folder / "usr/share/man/man1/attnd.1"


def told(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def test_a_packager_chooses_the_folders(tmp_path):
    """The system's own settings are in /etc, libraries may be in a folder of their architecture, and uninstall finds all of it."""
    where = ["PREFIX=/usr", f"DESTDIR={tmp_path}", "LIBDIR=/usr/lib/some-arch", "UNITDIR=/lib/units"]
    make("install", *where)
    put = files(tmp_path)
    assert {"usr/bin/attnd", "usr/lib/some-arch/libattn.so.0", "usr/lib/some-arch/pkgconfig/attn.pc", "lib/units/attnd.service",
            "usr/lib/sysusers.d/attnd.conf", "usr/share/man/man1/attnd.1", "usr/share/doc/attnd/examples/attnd.json",
            "etc/attnd/attnd.json", "usr/include/attn/attn.h"} <= put
    unit = (tmp_path / "lib/units/attnd.service").read_text()
    assert "\nExecStart=/usr/bin/attnd --config /etc/attnd/attnd.json\n" in unit and "@BINDIR@" not in unit and str(tmp_path) not in unit
    libraries = told("pkg-config", "--variable=libdir", str(tmp_path / "usr/lib/some-arch/pkgconfig/attn.pc"))
    assert libraries.stdout == "/usr/lib/some-arch\n"
    make("uninstall", *where)
    assert files(tmp_path) == set()


def test_settings_that_were_changed_stay(tmp_path):
    make("install", f"PREFIX={tmp_path}")
    settings = tmp_path / "etc/attnd/attnd.json"
    settings.write_text("{}")
    make("install", f"PREFIX={tmp_path}")
    assert settings.read_text() == "{}"
    make("uninstall", f"PREFIX={tmp_path}")
    assert files(tmp_path) == {"etc/attnd/attnd.json"}


def test_the_manual_page_says_what_help_says(page):
    text = page.read_text().replace("\\-", "-").replace("\\fR\\fI", "")
    options = re.findall(r"^  (--[a-z-]+)", run_attnd("--help").stdout, re.M)
    assert len(options) > 60
    for option in options:
        assert re.search(rf"^\\fB{option}(\\fR| )", text, re.M), option
    for setting in json.loads(run_attnd("--print-config").stdout):
        assert f"ATTND_{setting.upper()})" in text
    for code in range(8):
        assert f"\\fB{code}\\fR\n" in text
    assert (told("mandoc", "-Tlint", page).stdout, told("mandoc", "-Tlint", page).stderr) == ("", "")


@pytest.mark.skipif(not shutil.which("man"), reason="there is no man")
def test_man_has_no_warning_of_the_manual_page(page):
    done = told("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_understands_the_unit_and_what_it_forbids(place):
    unit = place / "lib/systemd/system/attnd.service"
    done = told("systemd-analyze", "verify", "--man=no", unit)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = told("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit)
    assert done.returncode == 0, done.stdout


def test_the_installed_settings_are_good(place, tmp_path):
    """Each folder in them is one that the unit's StateDirectory makes."""
    settings = json.loads((place / "etc/attnd/attnd.json").read_text())
    unit = (place / "lib/systemd/system/attnd.service").read_text()
    folders = {f"/var/lib/{name}" for name in re.search(r"^StateDirectory=(.*)$", unit, re.M)[1].split()}
    assert folders == {"/var/lib/attnd", *(value for key, value in settings.items() if key.endswith("_dir"))}
    for key in [key for key in settings if key.endswith("_dir")]:
        settings[key] = str(tmp_path)
    (tmp_path / "attnd.json").write_text(json.dumps(settings))
    assert run_attnd("--check-config", "--config", str(tmp_path / "attnd.json")).stderr == ""


@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_is_told_of_each_state(tmp_path, abstract):
    name = f"@attnd-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(PATIENCE)
        begin = time.monotonic_ns() // 1000
        daemon = Daemon(env={"NOTIFY_SOCKET": name})
        assert manager.recv(4096) == b"READY=1"
        assert daemon.get("/readyz").status_code == 200
        daemon.signal(signal.SIGHUP)
        state, since = manager.recv(4096).decode().split("\n")
        assert state == "RELOADING=1" and since.startswith("MONOTONIC_USEC=")
        assert begin < int(since.split("=")[1]) <= time.monotonic_ns() // 1000
        assert manager.recv(4096) == b"READY=1"
        assert daemon.stop() == 0
        assert manager.recv(4096) == b"STOPPING=1"


@pytest.mark.parametrize("name", ["/nobody/receives/here", "@", "relative", "", "/" + 200 * "x"])
def test_a_service_manager_that_is_not_there_is_no_fault(start, name):
    assert start(env={"NOTIFY_SOCKET": name}).get("/healthz").status_code == 200


def test_the_package_has_the_version_of_the_program():
    """And depends on what building it needs, as tests/tools/deps lists it."""
    debian = ROOT / "docker" / "debian"
    version = re.match(r"attnd \(([0-9.]+)\) ", (debian / "changelog").read_text())[1]
    assert run_attnd("--version").stdout == f"attnd {version}\n"
    needed = re.search(r'^build="(.*)"$', (ROOT / "tests/tools/deps").read_text(), re.M)[1].split()
    control = (debian / "control").read_text()
    wanted = re.search(r"^Build-Depends:(.*?)\n\n", control, re.M | re.S)[1]
    assert {name for name in needed if name not in ("gcc", "libc6-dev", "make")} <= set(re.findall(r"[a-z][a-z0-9.+-]+", wanted))
    assert "chosen no licence" in (debian / "copyright").read_text()
