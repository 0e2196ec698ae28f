"""Which web pages may use the service: header by header, then with pages of other origins in a real browser."""
import json
import shutil
import subprocess

import pytest
import requests
from browsers import HEADLESS, Site
from conftest import PATIENCE, run_attnd
from test_api_jobs import PROMPT, experiment

TINY = '{"query":[[1,0],[0,1]]}'
JSON = {"Content-Type": "application/json"}
FOREIGN = {"Origin": "http://evil.example"}
RULES = "--host-resolver-rules=MAP *.example 127.0.0.1"


def code(reply):
    return reply.status_code, reply.json().get("code") if reply.status_code >= 400 else None


# --- Origin and Sec-Fetch-… ---


@pytest.mark.parametrize("origin", ["http://evil.example", "https://localhost", "null", "http://127.0.0.1:1",
                                    "http://127.0.0.1", "http://127.0.0.1.evil.example", "file://", ""])
@pytest.mark.parametrize("path,body", [("/v1/attention", TINY), ("/v1/jobs", "{}"), ("/v1/models", "{}")])
def test_foreign_origins_are_refused(daemon, origin, path, body):
    reply = daemon.post(path, body, headers={"Origin": origin, **JSON})
    assert code(reply) == (403, "forbidden")
    assert "cors_origins" in reply.json()["detail"] and f'"{origin}"' in reply.json()["detail"]
    assert "Access-Control-Allow-Origin" not in reply.headers
    assert code(daemon.get("/v1/models", headers={"Origin": origin})) == (403, "forbidden")
    assert code(daemon.request("OPTIONS", path, headers={"Origin": origin}))[0] == 403


def test_own_origin(start, daemon):
    own = {"Origin": f"http://127.0.0.1:{daemon.port}", **JSON}
    assert daemon.post("/v1/attention", TINY, headers=own).status_code == 200
    named = {"Host": f"LocalHost:{daemon.port}", "Origin": f"http://localhost:{daemon.port}", **JSON}
    assert daemon.post("/v1/attention", TINY, headers=named).status_code == 200
    for host, origin in (("localhost", "http://localhost"), ("localhost:80", "http://localhost"),
                         ("localhost.", "http://localhost"), ("[::1]:80", "http://[::1]")):
        headers = {"Host": host, "Origin": origin, **JSON}
        assert daemon.post("/v1/attention", TINY, headers=headers).status_code == 200, (host, origin)
    other = {"Host": "localhost", "Origin": "https://localhost", **JSON}
    assert code(daemon.post("/v1/attention", TINY, headers=other)) == (403, "forbidden"), "another scheme"


def test_own_origin_behind_a_proxy_that_ends_tls(start):
    daemon = start("--hosts", "attention.example.org,localhost:8443")
    for origin in ("https://attention.example.org", "https://attention.example.org:8443", "https://localhost:8443"):
        reply = daemon.post("/v1/attention", TINY, headers={"Origin": origin, **JSON})
        assert reply.status_code == 200, origin
        assert "Access-Control-Allow-Origin" not in reply.headers, "it is its own origin, not a foreign one"
    for origin in ("https://localhost:8444", "https://x.attention.example.org"):
        assert code(daemon.post("/v1/attention", TINY, headers={"Origin": origin, **JSON})) == (403, "forbidden")


def test_cross_site_requests_without_an_origin(daemon):
    def get(path, **kinds):
        headers = {f"Sec-Fetch-{kind.title()}": value for kind, value in kinds.items()}
        return daemon.get(path, headers=headers)
    assert code(get("/v1/models", site="cross-site")) == (403, "forbidden")
    assert code(get("/v1/models", site="cross-site", mode="no-cors", dest="script")) == (403, "forbidden")
    assert code(get("/v1/models", site="cross-site", mode="no-cors", dest="image")) == (403, "forbidden")
    assert get("/v1/models", site="cross-site", mode="navigate", dest="document").status_code == 200
    for site in ("same-origin", "same-site", "none"):
        assert get("/v1/models", site=site).status_code == 200
    posted = daemon.post("/v1/attention", TINY, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert code(posted) == (403, "forbidden"), "a form is no link"


def test_pictures_may_be_shown_elsewhere(daemon):
    run = daemon.post("/v1/attention", {"query": [[1, 0], [0, 1]], "store": True}).json()["run"]
    path = f"/v1/runs/{run['id'] if isinstance(run, dict) else run}/heatmaps"
    asks = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image", "Accept": "image/*"}
    reply = daemon.get(path, headers=asks)
    assert reply.status_code == 200 and reply.headers["Content-Type"].startswith("image/")
    assert not [name for name in reply.headers if name.startswith("Access-Control")]
    assert code(daemon.get(path, headers={**asks, "Sec-Fetch-Dest": "script"})) == (403, "forbidden")


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_bodies_of_pages_need_a_type_that_is_asked_for_first(start, kind):
    daemon = start("--cors-origins", "https://a.example")
    for origin in ("https://a.example", daemon.url):
        headers = {"Origin": origin, **({"Content-Type": kind} if kind else {})}
        for path in ("/v1/attention", "/v1/jobs", "/v1/models", "/v2/models/attention/infer"):
            assert code(daemon.post(path, TINY.encode(), headers=headers)) == (415, "unsupported_media_type"), path


def test_programs_need_no_type(daemon):
    curl = ["curl", "-sS", "--max-time", str(PATIENCE), daemon.url + "/v1/attention", "-d", TINY]
    for more in ([], ["-H", "Content-Type:"], ["-H", "Content-Type: application/json"]):
        assert "output" in json.loads(subprocess.run([*curl, *more], capture_output=True, check=True).stdout)


# --- Host ---

KNOWN = ["localhost", "localhost:1234", "LOCALHOST", "localhost.", "api.localhost:80", "127.0.0.1", "127.8.9.1:80",
         "192.168.1.7:8080", "[::1]", "[fe80::1]:8080", "8.8.8.8"]
FOREIGN_HOSTS = ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "notlocalhost", "localhost.example",
                 "1.2.3", "example", "localhost.."]


def ask(daemon, host, path="/v1/models"):
    return daemon.raw(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()).decode()


@pytest.mark.parametrize("host", KNOWN)
def test_hosts_that_nobody_can_point_here(daemon, host):
    assert ask(daemon, host).startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_other_hosts_are_misdirected(daemon, host):
    """A page whose name is pointed at this machine after it was loaded sends its own name as Host."""
    for path in ("/v1/models", "/healthz", "/", "/nowhere", "/metrics"):
        answer = ask(daemon, host, path)
        assert answer.startswith("HTTP/1.1 421 ") and '"code":"misdirected_request"' in answer, path
        assert f'\\"{host}\\"' in answer and '\\"hosts\\"' in answer


def test_a_target_in_absolute_form_names_the_host(daemon):
    def get(target, host):
        return daemon.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())[:13]
    assert get("http://evil.example/v1/models", "localhost") == b"HTTP/1.1 421 "
    assert get("http://localhost/v1/models", "evil.example") == b"HTTP/1.1 200 "


def test_the_container_listens_everywhere_and_is_as_strict(start):
    daemon = start("--listen", "*:0")
    daemon.host = "127.0.0.1"
    assert ask(daemon, "localhost").startswith("HTTP/1.1 200 ") and ask(daemon, "evil.example").startswith("HTTP/1.1 421 ")


def test_hosts_setting(start):
    daemon = start(env={"ATTND_HOSTS": "attnd,models.example.org:8443"})
    assert ask(daemon, "attnd").startswith("HTTP/1.1 200 ") and ask(daemon, "ATTND:81").startswith("HTTP/1.1 200 ")
    assert ask(daemon, "models.example.org:8443").startswith("HTTP/1.1 200 ")
    assert ask(daemon, "models.example.org").startswith("HTTP/1.1 421 ")
    assert ask(start("--hosts", "*"), "evil.example").startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize("entry", ["http://a.example", "a.example/path", "a.example:", "a.example:99999", "A.example", "a b"])
def test_hosts_setting_is_checked(entry):
    done = run_attnd("--hosts", entry, "--check-config")
    assert done.returncode == 2 and '"hosts" must be names' in done.stderr and entry in done.stderr


def test_with_keys_any_host_may_ask(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("someone:0123456789abcdef\n")
    keys.chmod(0o600)
    daemon = start("--keys-file", str(keys))
    assert ask(daemon, "attention.example.org").startswith("HTTP/1.1 401 ")


def test_probes_of_the_operations_port_use_any_name(daemon):
    for path in ("/healthz", "/readyz", "/metrics"):
        assert requests.get(daemon.ops_url + path, headers={"Host": "pod.example"}, timeout=PATIENCE).status_code == 200
    assert requests.get(daemon.ops_url + "/version", headers={"Host": "pod.example"}, timeout=PATIENCE).status_code == 421


# --- what a browser shows ---


@pytest.mark.parametrize("path,accept", [("/", "*/*"), ("/", "text/plain"), ("/nowhere", "*/*"), ("/v1/models", "*/*"),
                                         ("/openapi.json", "*/*"), ("/metrics", "*/*")])
def test_everything_that_a_browser_shows_is_fenced(daemon, path, accept):
    check_fence(daemon.get(path, headers={"Accept": accept}))
    for kind in ("image/svg+xml", "image/png", "text/csv"):
        check_fence(daemon.post("/v1/heatmaps", '{"weights":[[0.2,0.8]]}', headers={"Accept": kind}))


def check_fence(reply):
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "script" not in policy


def test_a_picture_of_a_job_is_fenced_and_a_replaced_one_refused(start, tmp_path):
    """Of an experiment, in jobs_dir: what shows it runs no script, and another file in its place is not that picture."""
    service = start("--jobs-dir", str(tmp_path), *PROMPT)
    job = experiment(service)
    service.stop()
    name = job["pictures"][0]
    service = start("--jobs-dir", str(tmp_path), *PROMPT)
    picture = f"/v1/jobs/{job['id']}/pictures/{name}"
    reply = service.get(picture, headers={"Accept": "image/svg+xml"})
    assert reply.status_code == 200
    check_fence(reply)
    assert "sandbox" in reply.headers["Content-Security-Policy"]
    service.stop()
    (tmp_path / f"{job['id']}.{name}.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    service = start("--jobs-dir", str(tmp_path), *PROMPT)
    reply = service.get(picture, headers={"Accept": "image/svg+xml"})
    assert reply.status_code == 500 and "<script>" not in reply.text
    check_fence(reply)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1"])
def test_files_of_the_page_are_for_every_origin(start, origin):
    """There are none yet: the path is answered, and nothing else is."""
    for service in start(), start("--cors-origins", "https://good.example"):
        for headers in ({"Origin": origin}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}):
            reply = service.get("/web/page.js", headers=headers)
            assert reply.status_code == 404 and reply.headers["Access-Control-Allow-Origin"] == "*"
        assert service.post("/web/page.js", "{}", headers={"Origin": origin}).status_code == 403
        for path in ("/webs", "/v1/models", "/web"):
            reply = service.get(path, headers={"Origin": origin})
            assert reply.status_code == 403 and "Access-Control-Allow-Origin" not in reply.headers


def test_options_tell_nothing_without_a_key(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("someone:0123456789abcdef\n")
    keys.chmod(0o600)
    daemon = start("--keys-file", str(keys), "--cors-origins", "https://a.example")
    asks = {"Origin": "https://a.example", "Access-Control-Request-Method": "GET"}
    answers = []
    for path in ("/v1/models", "/v1/models/en-fr", "/v1/nowhere", "/v1/jobs/x", "/", "/v2"):
        reply = daemon.request("OPTIONS", path, headers=asks)
        answers.append((reply.status_code, {k: v for k, v in reply.headers.items()
                                            if k not in ("Date", "X-Request-Id", "traceparent", "Vary")}))
    assert all(answer == answers[0] for answer in answers), answers
    assert answers[0][0] == 204


# --- pages in a browser ---


@pytest.fixture
def site():
    served = Site("evil.example")
    yield served
    served.close()


# What a page tries, each with its name; the page tells which were fulfilled, which says little for no-cors: what the
# service answered is in its log.
ATTACKS = """<!doctype html><body><script>
const service = "SERVICE", body = '{"query":[[1,0],[0,1]]}', done = {};
const tries = {
  blob: () => fetch(service + "/v1/attention?blob", {method: "POST", mode: "no-cors", body: new Blob([body])}),
  text: () => fetch(service + "/v1/jobs", {method: "POST", mode: "no-cors", body}),
  cors: () => fetch(service + "/v1/masks", {method: "POST", headers: {"Content-Type": "application/json"}, body}),
  read: () => fetch(service + "/v1/models"),
  image: () => load("img", service + "/v1/examples"),
  script: () => load("script", service + "/openapi.json"),
  form: () => new Promise((resolve) => {
    const frame = Object.assign(document.createElement("iframe"), {name: "target", onload: resolve});
    document.body.append(frame);
    const form = Object.assign(document.createElement("form"),
      {action: service + "/v1/models", method: "POST", enctype: "text/plain", target: "target"});
    form.append(Object.assign(document.createElement("input"), {name: body, value: ""}));
    document.body.append(form);
    form.submit();
  }),
};
const load = (tag, src) => new Promise((resolve, reject) =>
  document.body.append(Object.assign(document.createElement(tag), {src, onload: resolve, onerror: reject})));
(async () => {
  for (const [name, go] of Object.entries(tries))
    done[name] = await go().then(() => true, () => false);
  await fetch("/seen", {method: "POST", body: JSON.stringify(done)});
})();
</script>"""


def test_a_page_of_another_origin_reaches_nothing(start, site, tmp_path):
    daemon = start()
    seen = site.open(ATTACKS.replace("SERVICE", daemon.url), tmp_path, RULES)
    assert not (seen["cors"] or seen["read"] or seen["image"] or seen["script"]), seen
    asked = {"/v1/attention": "POST", "/v1/jobs": "POST", "/v1/masks": "OPTIONS", "/v1/models": "GET",
             "/v1/examples": "GET", "/openapi.json": "GET"}
    for route, method in asked.items():
        answers = {entry["status"] for entry in daemon.log(1, route=route, method=method)}
        assert answers == {403}, (route, answers)
    assert {entry["status"] for entry in daemon.log(1, route="/v1/models", method="POST")} == {403}
    assert not daemon.log(0, status=200) and not daemon.log(0, status=202)


def test_a_name_that_is_pointed_here_reads_nothing(daemon, tmp_path):
    def dom(path, host):
        return subprocess.run(
            [shutil.which("chromium"), *HEADLESS, f"--user-data-dir={tmp_path / 'rebound'}", RULES, "--dump-dom",
             f"http://{host}:{daemon.port}{path}"], check=True, capture_output=True, text=True, timeout=2 * PATIENCE).stdout
    assert "misdirected_request" in dom("/v1/models", "evil.example")
    assert "en-fr" in dom("/v1/models", "localhost")


ALLOWED = """<!doctype html><body><script>
const service = "SERVICE", done = {};
const load = (src) => new Promise((resolve, reject) => document.body.append(
  Object.assign(new Image(), {src, onload() { resolve(this.naturalWidth); }, onerror: reject})));
(async () => {
  const post = (path, body) => fetch(service + path,
    {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
  done.answer = await post("/v1/attention", {query: [[1, 0], [0, 1]], is_causal: true, store: true}).then((r) => r.json(), String);
  done.models = await fetch(service + "/v1/models").then((r) => r.status, String);
  done.picture = PICTURE ? await load(PICTURE).catch(() => 0) : 0;
  await fetch("/seen", {method: "POST", body: JSON.stringify(done)});
})();
</script>"""


def test_a_page_of_an_allowed_origin_asks_as_it_likes(start, site, tmp_path):
    daemon = start("--cors-origins", site.origin)
    page = ALLOWED.replace("SERVICE", daemon.url).replace("PICTURE", "null")
    seen = site.open(page, tmp_path, RULES)
    assert seen["answer"]["output"][0] == [1, 0] and seen["models"] == 200


def test_a_page_of_another_origin_shows_a_picture(daemon, site, tmp_path):
    run = daemon.post("/v1/attention", {"query": [[1, 0], [0, 1]], "store": True}).json()["run"]
    picture = f'"{daemon.url}/v1/runs/{run["id"] if isinstance(run, dict) else run}/heatmaps"'
    seen = site.open(ALLOWED.replace("SERVICE", daemon.url).replace("PICTURE", picture), tmp_path, RULES)
    assert seen["picture"] > 0 and "Error" in seen["answer"]


def test_a_link_to_the_service_is_followed(start, site, tmp_path):
    daemon = start()
    site.page = f'<meta http-equiv="refresh" content="0; url={daemon.url}/v1/models">'
    subprocess.run([shutil.which("chromium"), *HEADLESS, f"--user-data-dir={tmp_path / 'link'}", RULES,
                    "--virtual-time-budget=5000", "--dump-dom", site.origin], check=True, capture_output=True, timeout=2 * PATIENCE)
    [entry] = daemon.log(1, route="/v1/models")
    assert entry["status"] == 200
