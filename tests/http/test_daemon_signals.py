"""Signals, rotated files, and a log that nobody reads."""
import json
import os
import signal
import ssl
import subprocess
import time

import pytest
from conftest import BINARY, PATIENCE, READY, clean_environment, run_attnd
from test_daemon_load import eventually, ops_metric, send_work
from test_tls import secure

TINY = '{"query":[[1,0],[0,1]]}'
KEY = "0123456789abcdef"


def events(daemon, begin, count=1):
    assert eventually(lambda: len([1 for e in daemon.log(0) if e.get("event", "").startswith(begin)]) >= count), daemon.stderr()
    return [e for e in daemon.log(0) if e.get("event", "").startswith(begin)]


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def test_hangup_without_keys_and_tls_ends_nothing(start):
    daemon = start("--workers", "1", "--requests-running", "1")
    with send_work(daemon):
        daemon.signal(signal.SIGHUP)
        assert events(daemon, "reloaded")[0]["level"] == "info"
        assert daemon.get("/healthz").status_code == 200
    assert daemon.post("/v1/attention", TINY).status_code == 200
    daemon.signal()
    assert daemon.wait() == 0


def rotate(folder, name, files):
    """As a mounted secret is: another folder behind the same link."""
    fresh = folder / f"..{name}"
    fresh.mkdir()
    for file, data in files.items():
        (fresh / file).write_bytes(data)
        (fresh / file).chmod(0o600)
    link = folder / "..next"
    link.symlink_to(fresh.name)
    link.rename(folder / "..data")


def test_rotated_keys_are_noticed(start, tmp_path):
    rotate(tmp_path, "one", {"keys": f"a:{KEY}\n".encode()})
    (tmp_path / "keys").symlink_to("..data/keys")
    daemon = start("--keys-file", str(tmp_path / "keys"))
    assert daemon.get("/version", headers=bearer(KEY)).status_code == 200
    rotate(tmp_path, "two", {"keys": f"a:{KEY[::-1]}\n".encode()})
    assert eventually(lambda: daemon.get("/version", headers=bearer(KEY[::-1])).status_code == 200)
    assert daemon.get("/version", headers=bearer(KEY)).status_code == 401
    rotate(tmp_path, "bad", {"keys": b"short\n"})
    assert events(daemon, "API keys unchanged")[0]["level"] == "error"
    assert daemon.get("/version", headers=bearer(KEY[::-1])).status_code == 200
    time.sleep(4.5)  # two more looks
    assert len(events(daemon, "API keys unchanged")) == 1, "once a change"


def certificate(folder, days):
    cert, key = folder / f"{days}.crt", folder / f"{days}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(days),
                    "-keyout", str(key), "-out", str(cert), "-subj", "/CN=localhost"], check=True, capture_output=True)
    return {"tls.crt": cert.read_bytes(), "tls.key": key.read_bytes()}


def test_rotated_certificates_are_noticed_and_their_end_is_a_metric(start, tmp_path):
    first, second = certificate(tmp_path, 30), certificate(tmp_path, 60)
    rotate(tmp_path, "one", first)
    for name in first:
        (tmp_path / name).symlink_to(f"..data/{name}")
    daemon = start("--tls-cert", str(tmp_path / "tls.crt"), "--tls-key", str(tmp_path / "tls.key"))

    def days_left():
        text = subprocess.run(["curl", "-sS", "--max-time", "10", daemon.ops_url + "/metrics"], capture_output=True, text=True).stdout
        [line] = [line for line in text.splitlines() if line.startswith("attnd_tls_certificate_expiry_timestamp_seconds ")]
        return (float(line.split()[1]) - time.time()) / 86400
    assert 29 < days_left() < 31
    rotate(tmp_path, "two", second)
    assert eventually(lambda: days_left() > 59)
    with secure(daemon) as sock:
        assert ssl.DER_cert_to_PEM_cert(sock.getpeercert(True)).encode() == second["tls.crt"]


@pytest.mark.parametrize("requests", [0, 20000])
def test_the_end_does_not_wait_for_a_reader_of_the_log(requests):
    """Standard error is a pipe that is full and that nobody reads."""
    read, write = os.pipe()
    process = subprocess.Popen([BINARY, "--port", "0", "--drain-ms", "100"], stdout=subprocess.PIPE, stderr=write,
                               env=clean_environment(), text=True)
    os.set_blocking(write, False)
    try:
        url = READY.match(process.stdout.readline().rstrip("\n")).group(2)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(write, b"x" * 65536) if not requests else os.write(write, b"x")
        if requests:
            done = subprocess.run(["curl", "-sS", "--max-time", str(PATIENCE), "-o", os.devnull, f"{url}/healthz?[1-{requests}]"],
                                  capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            dropped = subprocess.run(["curl", "-sS", f"{url}/metrics"], capture_output=True, text=True).stdout
            assert int(next(line for line in dropped.splitlines() if line.startswith("attnd_log_lines_dropped_total ")).split()[1]) > 0
        begin = time.monotonic()
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert time.monotonic() - begin < 3
    finally:
        process.kill()
        os.close(read)
        os.close(write)


def test_start_drain_and_stop_are_events_of_one_format(start):
    daemon = start()
    daemon.get("/healthz")
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    daemon.signal()
    assert daemon.wait() == 0
    lines = [json.loads(line) for line in daemon.stderr().splitlines()]
    assert all(line["level"] in ("info", "warn", "error") and line["time"].endswith("Z") for line in lines)
    first, drain, stop = [{k: v for k, v in line.items() if k not in ("time", "level")} for line in lines if "event" in line]
    assert first == {"event": "start", "version": daemon.version, "listen": daemon.url, "ops_listen": daemon.ops_url,
                     "kernels": daemon.kernels, "workers": daemon.workers, "memory_bytes": first["memory_bytes"]}
    assert first["memory_bytes"] >= 64 << 20
    assert (drain, stop) == ({"event": "drain", "requests": 0}, {"event": "stop"})


def test_lines_and_metrics_have_the_problem_code(start):
    daemon = start("--queue-length", "1", "--requests-running", "1", "--workers", "1", "--log-level", "warn")
    held = [send_work(daemon)]
    assert eventually(lambda: daemon.metric("attnd_queue_running") == 1)
    held.append(send_work(daemon))
    assert eventually(lambda: daemon.metric("attnd_queue_waiting") == 1)
    assert daemon.post("/v1/attention", {"query": {"shape": [1, 4, 600, 64], "random": "normal", "seed": 1}}).status_code == 503
    assert daemon.get("/nowhere").status_code == 404
    [line] = daemon.log(1, status=503)
    assert (line["code"], line["level"]) == ("queue_full", "warn")
    assert daemon.metric("attnd_problems_total", problem="queue_full") == 1
    assert daemon.metric("attnd_problems_total", problem="not_found") == 1
    assert daemon.metric("attnd_problems_total", problem="memory_budget") == 0
    assert not daemon.log(0, status=404), "below log_level"
    for sock in held:
        sock.close()


@pytest.mark.parametrize("name,near", [("ATTND_WORKER", "workers"), ("ATTND_LISTENS", "listen"), ("ATTND_FOO", None)])
def test_the_environment_is_as_strict_as_the_command_line(name, near):
    for arguments in (["--check-config"], ["--port", "0"]):
        done = run_attnd(*arguments, env={name: "3"})
        assert done.returncode == 2 and f"{name}: unknown setting" in done.stderr
        assert near is None or f'did you mean "{near}"?' in done.stderr


@pytest.mark.parametrize("setting", ["listen", "ops_listen"])
@pytest.mark.parametrize("value", ["localhost", "8080", "::1:8080", ":99999", "localhost:http", "localhost:"])
def test_addresses_are_refused_by_setting_value_and_form(setting, value):
    flag = "--" + setting.replace("_", "-")
    for arguments in (["--check-config"], []):
        done = run_attnd(flag, value, *arguments, *(["--listen", "127.0.0.1:0"] if setting == "ops_listen" else []))
        assert done.returncode == 2
        assert f'"{setting}" must be ADDRESS:PORT' in done.stderr and f'found "{value}"' in done.stderr
        if value == "localhost":
            assert '"localhost:8080"' in done.stderr


def test_localhost_with_a_port_is_understood(start):
    assert start("--listen", "localhost:0").get("/healthz").status_code == 200


def test_more_memory_than_the_machine_has_is_told(start):
    done = run_attnd("--memory-bytes", "900000GiB", "--check-config")
    assert done.returncode == 0 and "memory_bytes is" in done.stderr
    daemon = start("--memory-bytes", "900000GiB")
    assert events(daemon, "memory_bytes is")[0]["level"] == "warn"
    assert "memory_bytes" not in run_attnd("--check-config").stderr
