"""Starting, settings, exit codes: everything that happens before the first request."""
import contextlib
import grp
import json
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

import tables
from conftest import BINARY, PATIENCE, ROOT, STRICT_LIBRARY, Daemon, clean_environment, run_attnd, write_keys
from test_daemon_load import eventually


def test_ready_line_names_the_real_port(daemon):
    assert daemon.port > 0
    assert daemon.get("/healthz").json() == {"status": "ok"}


def test_version_and_help():
    version = run_attnd("--version")
    assert version.returncode == 0 and version.stdout.startswith("attnd ")
    text = run_attnd("--help")
    assert text.returncode == 0
    for key in json.loads(run_attnd("--print-config").stdout):
        assert "--" + key.replace("_", "-") in text.stdout
        assert "ATTND_" + key.upper() in text.stdout
    for code in "01234567":
        assert f"\n  {code}  " in text.stdout


@pytest.mark.parametrize("version, refused", [("0.9.74", True), ("", True), ("two", True), ("0.9.75", STRICT_LIBRARY),
                                              ("0.9.77", STRICT_LIBRARY), ("1.0.1", False), ("1.1.0", False)])
def test_versions_of_the_http_library(tmp_path, version, refused):
    """From 0.9.75 on; a build for 1.0 leaves checks to the library, and needs 1.0. This build and library are of one version."""
    source, library = tmp_path / "version.c", tmp_path / "version.so"
    source.write_text(f'const char *MHD_get_version(void) {{ return "{version}"; }}\n')
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    done = run_attnd("--listen", "192.0.2.1:1", env={"LD_PRELOAD": str(library), "ASAN_OPTIONS": asan.lstrip(":")})
    if refused:
        assert done.returncode == 7 and f"cannot use libmicrohttpd{' ' * bool(version)}{version}: " in done.stderr, done.stderr
        assert ("headers of version 1.0" if version.startswith("0.9.7") and version > "0.9.74" else "0.9.75") in done.stderr
    else:
        assert done.returncode == 3, "it goes on to listen: " + done.stderr


def test_short_help_is_help():
    assert run_attnd("-h").stdout == run_attnd("--help").stdout != ""


def test_far_names_in_the_environment_get_no_suggestion():
    told = run_attnd("--check-config", env={"ATTND_FOO": "1"})
    assert told.returncode == 2 and "ATTND_FOO" in told.stderr and "did you mean" not in told.stderr


def test_shipped_settings_are_the_defaults():
    with tempfile.NamedTemporaryFile("w", suffix=".json") as empty:
        empty.write("{}")
        empty.flush()
        bare = run_attnd("--config", empty.name, "--print-config")
    assert json.loads(bare.stdout) == json.loads((ROOT / "config" / "attnd.json").read_text())
    assert run_attnd("--print-config").stdout == bare.stdout


def test_reference_page_ends_with_the_print_of_the_table():
    printed = run_attnd("--print-config-reference").stdout
    assert len(printed.splitlines()) > 40 and (ROOT / "config" / "README.md").read_text().endswith("\n\n" + printed)


def test_later_layers_win(tmp_path):
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"queue_length": 11, "drain_ms": 12, "max_body_bytes": "2MiB", "log": "off"}))
    result = run_attnd("--config", str(file), "--print-config", "--queue-length", "31",
                       env={"ATTND_QUEUE_LENGTH": "21", "ATTND_DRAIN_MS": "22"})
    values = json.loads(result.stdout)
    assert (values["queue_length"], values["drain_ms"]) == (31, 22)
    assert (values["max_body_bytes"], values["log"]) == (2 * 1024 * 1024, "off")
    assert values["connections"] == 4096


def test_the_least_memory_answers_a_request(start):
    daemon = start("--memory-bytes", "1MiB", "--workers", "64")
    assert daemon.post("/v1/attention", '{"query":[[1,0],[0,1]]}').status_code == 200


def test_lists_and_equals_signs():
    values = json.loads(run_attnd("--print-config", "--cors-origins=https://a.example, https://b.example",
                                  "--half-close-is-gone=false").stdout)
    assert values["cors_origins"] == ["https://a.example", "https://b.example"]
    assert values["half_close_is_gone"] is False


@pytest.mark.parametrize("args, words", [
    (["--queue-lenght", "3"], ["unknown option --queue-lenght", "did you mean --queue-length?"]),
    (["--verison"], ["unknown option --verison", "did you mean --version?"]),
    (["--chekc-config"], ["did you mean --check-config?"]),
    (["--zzzzzzzz", "1"], ["unknown option --zzzzzzzz", "--help"]),
    (["--version=1"], ["--version takes no value"]),
    (["--workers", "-1"], ["workers", "between 0 and 1024", "-1"]),
    (["--max-body-bytes", "1GB"], ["max_body_bytes", "K or KiB", "M or MiB", "G or GiB", "1GB"]),
    (["--queue-length", "many"], ["queue_length", "number", "many"]),
    (["--queue-length", "0"], ["queue_length", "between 1 and"]),
    (["--queue-length", "1.5"], ["queue_length", "whole"]),
    (["--queue-length"], ["--queue-length", "value"]),
    (["--isa", "mmx"], ["isa", "avx2", "mmx"]),
    (["--log", "xml"], ["log", "json", "xml"]),
    (["--half-close-is-gone", "perhaps"], ["true or false", "perhaps"]),
    (["--listen", "nowhere"], ["listen", "ADDRESS:PORT", "nowhere"]),
    (["--listen", "127.0.0.1:99999"], ["listen", "99999"]),
    (["--listen", ":8080"], ["listen", "*:PORT", ":8080"]),
    (["--listen", "[]:8080"], ["listen", "*:PORT", "[]:8080"]),
    (["--port", "70000"], ["--port", "70000"]),
    (["--port", "0", "--listen", "unix:/tmp/attnd.sock"], ["--port", "unix:/tmp/attnd.sock"]),
    (["serve"], ["unexpected", "serve"]),
    (["--check-config", "--cors-origins", "http://localhost:8000/"], ["origins", "http://localhost:8000", "slash"]),
    (["--check-config", "--cors-origins", "https://a.example,*"], ["origins", "https://example.org", '"*"']),
    (["--check-config", "--cors-origins", "localhost:8000"], ["origins", "http://localhost:8000"]),
    (["--max-request-bytes", "2GiB", "--memory-bytes", "1GiB"], ["max_request_bytes", "memory_bytes"]),
    (["--memory-bytes", "1"], ["memory_bytes", "at least 1048576", "found 1"]),
    (["--check-config", "--memory-bytes", "1023KiB"], ["memory_bytes", "at least 1048576"]),
])
def test_wrong_options_are_one_clear_line(args, words):
    result = run_attnd(*args)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("attnd: ")
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize("text, words", [
    ('{"queue_lenght": 3}', ["queue_lenght", "queue_length"]),
    ('{"queue_length": "x"}', ["queue_length", "number"]),
    ('{"queue_length": true}', ["queue_length", "number"]),
    ('{"log": 1}', ["log", "string"]),
    ('{"cors_origins": [1]}', ["cors_origins", "list of strings"]),
    ('{"cors_origins": "*"}', ["cors_origins", "list of strings"]),
    ('{"cors_origins": ["https://a.example", "*"]}', ["cors_origins", "https://example.org", '"*"']),
    ('{"half_close_is_gone": 1}', ["half_close_is_gone", "true or false"]),
    ('{"queue_length": 3, "queue_length": 4}', ["duplicate"]),
    ('{"queue_length": 3', [":1:", "JSON"]),
    ('[]', ["object"]),
    ('', ["JSON"]),
])
def test_wrong_files_are_one_clear_line(tmp_path, text, words):
    file = tmp_path / "c.json"
    file.write_text(text)
    result = run_attnd("--check-config", "--config", str(file))
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    for word in words + [str(file)]:
        assert word in result.stderr


def test_unreadable_file(tmp_path):
    for path in (tmp_path / "absent.json", tmp_path):
        result = run_attnd("--config", str(path))
        assert result.returncode == 2 and result.stderr.count("\n") == 1
        assert str(path) in result.stderr


def test_check_config(tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"listen": "127.0.0.1:1234"}')
    result = run_attnd("--check-config", "--config", str(file))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_unknown_environment_is_fatal_but_for_kubernetes():
    result = run_attnd("--check-config", env={"ATTND_QUEUE_LENGHT": "3"})
    assert result.returncode == 2 and "queue_length" in result.stderr
    kubernetes = {"ATTND_SERVICE_HOST": "10.0.0.1", "ATTND_PORT": "tcp://10.0.0.1:80"}
    assert run_attnd("--check-config", env=kubernetes).returncode == 0


def test_bad_environment_value_names_the_variable():
    result = run_attnd("--check-config", env={"ATTND_DRAIN_MS": "soon"})
    assert result.returncode == 2 and "ATTND_DRAIN_MS" in result.stderr


def test_port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run_attnd("--port", str(port))
        assert result.returncode == 3 and result.stderr.count("\n") == 1
        assert f"127.0.0.1:{port}: Address already in use; " in result.stderr
        assert 'the setting "listen"' in result.stderr and "--port N (0: any free port)" in result.stderr
        begin = time.monotonic()
        result = run_attnd("--port", "0", "--ops-listen", f"127.0.0.1:{port}", "--drain-delay-ms", "3600000")
        assert time.monotonic() - begin < PATIENCE, "nobody has seen the service, so nobody has to see it leave"
        assert result.returncode == 3 and result.stderr.count("\n") == 1
        assert f"127.0.0.1:{port}: Address already in use; " in result.stderr
        assert 'the setting "ops_listen"' in result.stderr and "--ops-listen ADDRESS:PORT" in result.stderr


def test_a_port_of_another_attnd_is_named(start, tmp_path):
    """Also of one that wants API keys, or speaks TLS as this one does, or has the port for operations or a unix socket."""
    first = start("--ops-listen", "127.0.0.1:0")
    told = run_attnd("--port", str(first.port)).stderr
    assert f"Address already in use (attnd {first.version} listens there); " in told
    told = run_attnd("--port", "0", "--ops-listen", urlsplit(first.ops_url).netloc).stderr
    assert f"(attnd {first.version} listens there); to use another address, change the setting \"ops_listen\"" in told
    keyed = start("--keys-file", write_keys(tmp_path, "0123456789abcdef0123456789abcdef"), "--ops-listen", "")
    assert "(attnd listens there)" in run_attnd("--port", str(keyed.port)).stderr
    path = tmp_path / "attnd.sock"
    start("--listen", f"unix:{path}", "--ops-listen", "")
    told = run_attnd("--listen", f"unix:{path}").stderr
    assert f"(attnd {first.version} listens there)" in told and "--listen unix:/PATH" in told and "--port" not in told


def test_a_port_of_a_program_that_trickles_is_asked_for_a_bounded_time():
    """What has the port sends a byte every 50 ms, for ever."""
    def trickle(listener):
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            while sock.send(b"x"):
                time.sleep(0.05)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        threading.Thread(target=trickle, args=(taken,), daemon=True).start()
        begin = time.monotonic()
        result = run_attnd("--port", str(taken.getsockname()[1]))
        assert result.returncode == 3 and "listens there" not in result.stderr
        assert time.monotonic() - begin < 30, "2048 bytes take 100 seconds"


def test_kernels_that_do_not_exist():
    result = run_attnd("--port", "0", env={"ATTN_ISA": "sse9"})
    assert result.returncode == 4 and result.stderr.count("\n") == 1 and "sse9" in result.stderr


def test_kernels_can_be_forced(start):
    assert start("--isa", "ref").kernels == "ref"
    assert start(env={"ATTND_ISA": "ref"}).kernels == "ref"
    daemon = start(env={"ATTN_ISA": "ref"})
    assert daemon.kernels == "ref"
    assert daemon.get("/version").json()["kernels"]["table"] == "ref"


@pytest.mark.skipif("amx" not in tables.emulated(), reason="this processor has amx, or not even avx2")
def test_tiles_are_emulated_where_asked_for(start):
    daemon = start("--isa", "amx")
    kernels = daemon.get("/version").json()["kernels"]
    assert daemon.kernels == kernels["table"] == "amx" and kernels["amx"] == "emulated"
    assert "amx" not in kernels["available"]
    body = {"query": {"shape": [20, 24], "random": "normal", "seed": 1}, "explain": True, "return": ["output"]}
    told = daemon.post("/v1/attention", body).json()["diagnostics"]
    assert (told["kernel"], told["amx"], told["precision"]) == ("amx", "emulated", "fp32")
    other = daemon.post("/v1/attention", body | {"score": {"kind": "additive", "w_q": [[1] * 24], "w_k": [[1] * 24],
                                                           "v": [1]}}).json()["diagnostics"]
    assert other["kernel"] != "amx" and "amx" not in other


def test_starts_from_any_folder_on_built_in_settings(start, tmp_path):
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    daemon = start(cwd=str(copy))
    assert daemon.get("/healthz").status_code == 200


def test_workers_setting(start):
    assert start("--workers", "3").workers == 3
    assert start(env={"ATTND_WORKERS": "1"}).workers == 1


def test_workers_follow_the_affinity_mask(start):
    cpu = str(sorted(os.sched_getaffinity(0))[0])
    taskset = shutil.which("taskset")
    process = subprocess.Popen([taskset, "-c", cpu, BINARY, "--port", "0"], env=clean_environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        out = process.stdout.readline()
        assert ", 1 worker," in out or "1 worker)" in out
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
        process.stdout.close()


def test_operations_port_moves_when_taken(start):
    first = start("--ops-listen", "127.0.0.1:0")
    assert first.ops_url and first.ops_url != first.url
    off = start("--ops-listen", "")
    assert off.ops_url is None


def test_default_operations_port_never_prevents_a_start():
    with socket.socket() as taken, socket.socket() as free:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8081))
            taken.listen()
        except OSError:
            pass  # somebody else holds it, which serves as well
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        daemon = Daemon("--port", str(port))
        try:
            assert daemon.ops_url and not daemon.ops_url.endswith(":8081")
            assert eventually(lambda: "127.0.0.1:8081 is taken" in daemon.stderr())
        finally:
            daemon.stop()


def test_ipv6(start):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    daemon = start("--listen", "[::1]:0")
    assert daemon.url.startswith("http://[::1]:")
    assert requests.get(daemon.url + "/healthz", timeout=PATIENCE).status_code == 200
    assert start("--listen", "[::1]", "--port", "0").url.startswith("http://[::1]:")


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.0.0.1:1", "localhost"])
def test_port_beside_an_address(start, listen):
    """An address without a port may not become all addresses."""
    assert start("--listen", listen, "--port", "0").host == "127.0.0.1"


def test_all_addresses_of_both_families(start):
    daemon = start("--listen", "*:0", "--ops-listen", "*:0")
    listen = f"*:{daemon.port}"
    assert run_attnd("--healthcheck", "--listen", listen).returncode == 0
    assert requests.get(f"http://127.0.0.1:{daemon.port}/healthz", timeout=PATIENCE).status_code == 200
    assert daemon.log(2, client="127.0.0.1"), "an IPv4 client is called by its IPv4 address"
    if daemon.host != "::":
        assert daemon.host == "0.0.0.0"  # this machine has no IPv6
        return
    assert requests.get(f"http://[::1]:{daemon.port}/healthz", timeout=PATIENCE).status_code == 200
    assert run_attnd("--port", str(daemon.port)).returncode == 3, "IPv4 is taken, too"


def test_unix_socket(start, tmp_path):
    path = tmp_path / "attnd.sock"
    daemon = start("--listen", f"unix:{path}")
    assert daemon.url == f"unix:{path}" and stat.S_ISSOCK(path.stat().st_mode)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(path))
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b'{"status":"ok"}' in b"".join(iter(lambda: client.recv(4096), b""))
    assert run_attnd("--healthcheck", "--listen", f"unix:{path}").returncode == 0
    result = run_attnd("--listen", f"unix:{path}")
    assert result.returncode == 3, "a socket that is served must not be taken over"
    assert daemon.stop() == 0
    assert not path.exists()


def test_who_may_connect_to_a_unix_socket(start, tmp_path):
    path = tmp_path / "attnd.sock"
    group = os.getgroups()[0] if os.getgroups() else os.getgid()
    for name in (str(group), grp.getgrgid(group).gr_name):
        daemon = start("--listen", f"unix:{path}", "--socket-mode", "660", "--socket-group", name)
        found = path.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o660, group)
        daemon.stop()
    for option, value in (("mode", "0999"), ("mode", "66"), ("mode", "7777"), ("mode", "rw"), ("group", "no such group")):
        result = run_attnd("--listen", f"unix:{path}", f"--socket-{option}", value)
        assert result.returncode == 2 and f'"socket_{option}"' in result.stderr and value in result.stderr, result.stderr
        assert not path.exists()


def test_stale_unix_socket_is_replaced(start, tmp_path):
    path = tmp_path / "attnd.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    assert start("--listen", f"unix:{path}").url == f"unix:{path}"


def test_healthcheck(daemon):
    assert run_attnd("--healthcheck", "--port", str(daemon.port)).returncode == 0
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        result = run_attnd("--healthcheck", "--port", str(closed.getsockname()[1]))
        assert result.returncode == 1 and result.stderr.count("\n") == 1
        closed.listen()
        mute = run_attnd("--healthcheck", "--port", str(closed.getsockname()[1]))
        assert mute.returncode == 1


def test_hello_prints_a_request_to_try():
    process = subprocess.Popen([BINARY, "--port", "0", "--hello"], env=clean_environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        ready, heading, line = (process.stdout.readline() for _ in range(3))
        url = ready.split(" on ")[1].split(" ")[0]
        assert heading.startswith("try") and f"curl {url}/v1/attention -d" in line
    finally:
        process.terminate()
        assert process.wait(60) == 0
        process.stdout.close()


def test_open_files_limit_is_raised(start):
    daemon = start()
    limits = Path(f"/proc/{daemon.pid}/limits").read_text()
    line = next(row for row in limits.splitlines() if row.startswith("Max open files"))
    assert line.split()[3] == line.split()[4]


@pytest.mark.parametrize("closed", ["0<&- 2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_streams_are_nothing_else(tmp_path, closed):
    """No socket and no directory gets the number to which the log is written."""
    place = tmp_path / "socket"
    process = subprocess.Popen(["sh", "-c", f'exec "$@" {closed}', "sh", BINARY, "--listen", f"unix:{place}", "--ops-listen", "",
                                "--runs-dir", str(tmp_path)], env=clean_environment(), stdout=subprocess.DEVNULL)
    try:
        assert eventually(place.exists)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(str(place))
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        links = [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in (0, 1, 2)]
        assert links == ["/dev/null"] * 3
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
