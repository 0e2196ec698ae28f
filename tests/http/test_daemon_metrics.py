"""Metrics and the log: they agree with what the client saw, and hold nothing of what it sent."""
import re
import subprocess
from collections import Counter

import requests

from conftest import PATIENCE, ROOT
from test_daemon_load import eventually, ops_metric, work
from test_daemon_protocol import head, post, status
from test_tls import Pair

TINY = '{"query":[[1,0],[0,1]]}'
SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)$')


def parse(text):
    """Prometheus text 0.0.4 -> {family: (type, [(name, labels, value)])}, strictly."""
    assert text.endswith("\n")
    families, current = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, words = line[7:].split(" ", 1)
            assert name not in families and words
            families[name] = [None, []]
            current = name
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name == current and families[name][0] is None and kind in ("counter", "gauge", "histogram")
            families[name][0] = kind
        else:
            match = SAMPLE.match(line)
            assert match, line
            name, labels, value = match.group(1), dict(re.findall(r'(\w+)="([^"]*)"', match.group(2) or "")), match.group(3)
            base = re.sub(r"_(bucket|sum|count)$", "", name) if families[current][0] == "histogram" else name
            assert base == current, f"{name} stands outside its family"
            families[current][1].append((name, labels, float(value)))
    return families


def test_text_is_well_formed(daemon):
    daemon.post("/v1/attention", TINY)
    reply = daemon.get("/metrics")
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = parse(reply.text)
    for name, (kind, samples) in families.items():
        assert samples, name
        assert name.endswith("_total") == (kind == "counter"), name
        assert not re.search(r"_(ms|us|ns|milliseconds|kb|mb)(_|$)", name)
        assert len({(n, tuple(sorted(labels.items()))) for n, labels, _ in samples}) == len(samples)
    for name in ("attnd_requests_total", "attnd_request_duration_seconds", "attnd_queue_duration_seconds",
                 "attnd_requests_in_flight", "attnd_queue_waiting", "attnd_memory_reserved_bytes",
                 "attnd_memory_budget_bytes", "attnd_connections", "attnd_build_info",
                 "process_start_time_seconds", "process_open_fds", "process_resident_memory_bytes"):
        assert name in families, name


def test_the_readme_has_each_metric(start, tmp_path):
    """Name, type and meaning as /metrics states them; that of the certificate is there with TLS alone."""
    daemon = start(*Pair(tmp_path, "one").settings)
    text = requests.get(daemon.ops_url + "/metrics", timeout=PATIENCE).text
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
    table = "".join(f"| `{name}` | {kind} | {helps[name]} |\n" for name, (kind, _) in parse(text).items())
    written = (ROOT / "config" / "README.md").read_text().split("| metric | type | meaning |\n|---|---|---|\n")[1]
    assert written.split("\n\n")[0] + "\n" == table


def test_the_limit_of_files_is_a_metric(daemon):
    with open(f"/proc/{daemon.pid}/limits") as limits:
        soft = next(line for line in limits if line.startswith("Max open files")).split()[3]
    assert daemon.metric("process_max_fds") == float(soft) >= daemon.metric("process_open_fds") > 0


def test_promtool_finds_no_fault(daemon):
    """Prometheus' own linter, which knows the conventions of names, units and help texts."""
    subprocess.run([ROOT / "tests" / "tools" / "promtool"], check=True, cwd=ROOT, timeout=600)
    daemon.post("/v1/attention", {"query": [[1, 0], [0, 1]], "verify": 2})
    daemon.post("/v1/attention", work(n=200))
    for text, clean in ((daemon.get("/metrics").text, True), ("# TYPE attnd_x_ms counter\nattnd_x_ms 1\n", False)):
        run = subprocess.run([ROOT / "build" / "promtool", "check", "metrics"], input=text, text=True,
                             capture_output=True, timeout=PATIENCE)
        assert (run.returncode == 0 and not run.stderr.strip()) == clean, run.stdout + run.stderr


def test_reservations_and_verified_errors_are_counted(start):
    daemon = start()
    assert daemon.post("/v1/attention", TINY).status_code == 200
    assert ops_metric(daemon, "attnd_request_reserved_bytes_count") == 0, "it ran on the HTTP thread"
    assert daemon.post("/v1/attention", work(n=300, verify=3)).status_code == 200
    assert ops_metric(daemon, "attnd_request_reserved_bytes_count") == 1
    assert ops_metric(daemon, "attnd_request_reserved_bytes_sum") >= 300 * 4
    for name in ("output", "logsumexp"):
        assert ops_metric(daemon, f"attnd_verify_{name}_error_count") == 1
        assert 0 <= ops_metric(daemon, f"attnd_verify_{name}_error_sum") < 1e-4
    assert ops_metric(daemon, "attnd_queue_newest_first") == 0


def test_trace_context(daemon):
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    reply = daemon.post("/v1/attention", TINY, headers={"traceparent": f"00-{trace}-{parent}-01", "X-Request-Id": "traced"})
    match = re.fullmatch(rf"00-{trace}-([0-9a-f]{{16}})-01", reply.headers["traceparent"])
    assert match and match.group(1) not in (parent, "0" * 16)
    line, = daemon.log(1, id="traced")
    assert (line["trace_id"], line["span_id"], line["parent_id"]) == (trace, match.group(1), parent)
    fresh = [daemon.get("/healthz", headers=headers) for headers in
             ({}, {"traceparent": "x"}, {"traceparent": f"00-{trace}-{parent}-01-"}, {"traceparent": f"ff-{trace}-{parent}-01"})]
    names = [re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-00", reply.headers["traceparent"]).groups() for reply in fresh]
    assert all(reply.status_code == 200 for reply in fresh) and len(set(names)) == 4
    assert trace not in {name for name, _ in names}
    twice = daemon.raw(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\ntraceparent: 00-{trace}-{parent}-01\r\n"
                       f"TraceParent: 00-{trace}-{parent}-01\r\n\r\n".encode())
    assert status(twice) == 200 and trace not in head(twice)["traceparent"]
    refused = daemon.get("/nowhere", headers={"traceparent": f"00-{trace}-{parent}-00"})
    assert refused.status_code == 404 and refused.headers["traceparent"].startswith(f"00-{trace}-")


def test_histograms_are_cumulative(daemon):
    daemon.post("/v1/attention", TINY)
    families = parse(daemon.get("/metrics").text)
    for name in [name for name, (kind, _) in families.items() if kind == "histogram"]:
        series = {}
        for sample, labels, value in families[name][1]:
            entry = series.setdefault(labels.get("route"), {"buckets": []})
            if sample.endswith("_bucket"):
                entry["buckets"].append((float(labels["le"]), value))
            else:
                entry[sample[len(name):]] = value
        for entry in series.values():
            bounds = [bound for bound, _ in entry["buckets"]]
            counts = [count for _, count in entry["buckets"]]
            assert bounds == sorted(bounds) and bounds[-1] == float("inf")
            assert counts == sorted(counts) and counts[-1] == entry["_count"]
            assert entry["_sum"] >= 0


def test_counts_equal_what_clients_saw(start):
    daemon = start()
    seen = Counter()
    for method, path, body in [("POST", "/v1/attention", TINY), ("POST", "/v1/attention", "{"),
                               ("POST", "/v1/attention", '{"query":3}'), ("GET", "/v1/attention", None),
                               ("GET", "/healthz", None), ("HEAD", "/healthz", None),
                               ("GET", "/v1/examples/no-such", None), ("GET", "/secret/path", None),
                               ("BREW", "/other/secret", None), ("OPTIONS", "/v1/masks", None)] * 3:
        reply = daemon.request(method, path, data=body)
        route = "/v1/examples/{id}" if path.startswith("/v1/examples/") else "none" if "secret" in path else path
        seen[route, "other" if method == "BREW" else method, str(reply.status_code)] += 1

    def counted():
        text = requests.get(daemon.ops_url + "/metrics", timeout=PATIENCE).text
        return text, {(labels["route"], labels["method"], labels["code"]): value
                      for _, labels, value in parse(text)["attnd_requests_total"][1]}

    assert eventually(lambda: counted()[1] == dict(seen))  # the last is counted when its answer is out
    text, found = counted()
    assert found == dict(seen)
    assert "secret" not in text and "no-such" not in text
    durations = [value for name, _, value in parse(text)["attnd_request_duration_seconds"][1]
                 if name.endswith("_count")]
    assert sum(durations) == sum(seen.values())


def test_queue_time_is_counted_for_queued_requests_only(start):
    daemon = start("--in-place-bytes", "0")
    assert daemon.get("/healthz").status_code == 200
    assert daemon.post("/v1/attention", TINY).status_code == 200
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_duration_seconds_count") >= 1)
    assert ops_metric(daemon, "attnd_queue_duration_seconds_count") == 1


def test_log_lines(start):
    daemon = start()
    secret = "c4n4ry"
    daemon.post("/v1/attention", '{"query":[[1,0],[0,1]],"%s":1}' % secret, headers={"X-Request-Id": "my-id"})
    daemon.get(f"/{secret}?{secret}")
    daemon.get(f"/v1/examples/{secret}?{secret}")
    daemon.raw(post(b"", "Content-Length: 5", f"X-{secret}: {secret}", path=f"/v1/attention?{secret}"), half_close=True)
    assert daemon.stop() == 0
    entries = [entry for entry in daemon.log(7) if "event" not in entry]
    assert len(entries) == 4
    assert secret not in daemon.stderr()
    first = entries[0]
    assert first["id"] == "my-id" and first["method"] == "POST" and first["route"] == "/v1/attention"
    assert first["code"] == "unknown_field" and first["level"] == "info"
    assert first["status"] == 422 and first["bytes_in"] == 34 and first["bytes_out"] > 0
    assert first["client"] == "127.0.0.1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    for key in ("ms", "queue_ms", "decode_ms", "compute_ms", "encode_ms"):
        assert first[key] >= 0
    assert [entry["route"] for entry in entries[1:3]] == ["none", "/v1/examples/{id}"]
    assert entries[3]["status"] == 499


def test_log_can_be_off(start):
    daemon = start("--log", "off")
    daemon.get("/healthz")
    daemon.stop()
    assert daemon.stderr() == ""


def test_a_log_nobody_reads_does_not_stop_the_service():
    import subprocess
    from conftest import BINARY, clean_environment
    process = subprocess.Popen([BINARY, "--port", "0"], env=clean_environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        url = process.stdout.readline().split(" on ")[1].split(" ")[0]
        with requests.Session() as session:
            for _ in range(3000):  # some 600 KB of lines against a pipe of 64 KB
                assert session.get(url + "/healthz", timeout=PATIENCE).status_code == 200
    finally:
        process.terminate()
        rest = process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        assert process.wait(PATIENCE) == 0
    assert rest.count('"route":"/healthz"') > 100


def test_gauges_return_to_rest(daemon):
    for _ in range(20):
        daemon.post("/v1/attention", TINY)
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") < 65536)
