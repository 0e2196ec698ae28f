"""The page and its files as HTTP sees them: what is answered to whom, in which coding, and under which policy."""
import gzip
import re

import pytest
from conftest import write_keys

KEY = "page-key-0123456789abcdef0123456789"
HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"}


def files(daemon, path="/"):
    """The files that a document names."""
    page = daemon.get(path, headers=HTML).text
    return re.findall(r'(?:src|href)="(web/[^"]+)"', page)


def test_browsers_get_the_page_and_all_else_the_index(daemon):
    page = daemon.get("/", headers=HTML)
    assert page.status_code == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Cache-Control"] == "no-cache" and "Accept" in page.headers["Vary"] and page.headers["ETag"]
    for accept in (None, "*/*", "application/json", "text/*;q=0.1, application/json"):
        assert daemon.get("/", headers={"Accept": accept}).json()["service"] == "attnd"
    assert daemon.get("/", headers={"Accept": "text/plain"}).headers["Content-Type"].startswith("text/plain")
    assert daemon.get("/", headers=HTML | {"If-None-Match": page.headers["ETag"]}).status_code == 304
    assert "<noscript>" in page.text and "openapi.json" in page.text


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_files_are_kept_and_equal_in_every_coding(daemon, path):
    names = files(daemon, path)
    assert len(names) >= 3
    for name in names:
        plain = daemon.get("/" + name, headers={"Accept-Encoding": "identity"})
        assert plain.status_code == 200 and "Content-Encoding" not in plain.headers
        assert plain.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert plain.headers["Access-Control-Allow-Origin"] == "*"
        packed = daemon.get("/" + name, headers={"Accept-Encoding": "gzip"}, stream=True)
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.raw.read(decode_content=False)) == plain.content
        small = daemon.get("/" + name, headers={"Accept-Encoding": "gzip, br"}, stream=True)
        assert small.headers["Content-Encoding"] == "br"
        assert len(small.raw.read(decode_content=False)) < len(plain.content)
        assert daemon.get("/" + name, headers={"Accept-Encoding": "br;q=0, gzip"}).headers["Content-Encoding"] == "gzip"


def test_the_policy_is_strict(daemon):
    for path in ("/", "/docs", "/" + files(daemon)[-1]):
        reply = daemon.get(path, headers=HTML)
        policy = dict(part.strip().split(" ", 1) for part in reply.headers["Content-Security-Policy"].split(";"))
        assert "unsafe" not in reply.headers["Content-Security-Policy"]
        assert policy["default-src"] == policy["object-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in daemon.get("/version").headers["Content-Security-Policy"]


def test_documents_name_no_other_host_and_nothing_absolute(daemon):
    """A prefix of a proxy stays in front of all addresses."""
    for path in ("/", "/docs"):
        page = daemon.get(path, headers=HTML).text
        assert not re.search(r'(?:src|href)="(?:/|\w+:)', page)
        assert not re.search(r"<style|<script(?![^>]*src=)|\bon\w+=|\bstyle=", page)


def test_unknown_files(daemon):
    for name in ("x.js", "..%2fattnd.json", "index.html.gz", "a" * 200 + ".js", "%00.js"):
        assert daemon.get("/web/" + name).status_code in (400, 404)
    assert daemon.post("/web/x.js", {}).status_code == 405
    assert daemon.request("HEAD", "/docs").status_code == 200


def test_the_page_needs_no_key_and_the_index_does(start, tmp_path):
    daemon = start("--keys-file", write_keys(tmp_path, f"ops:{KEY} admin"))
    assert daemon.get("/", headers=HTML).status_code == 200
    assert daemon.get("/" + files(daemon)[-1]).status_code == 200
    assert daemon.get("/docs", headers=HTML).status_code == 200
    assert daemon.get("/").status_code == 401
    assert daemon.get("/", headers={"Accept": "text/html;q=0.5, application/json"}).status_code == 401
    assert daemon.get("/", headers={"Authorization": "Bearer " + KEY}).status_code == 200


def test_openapi_lists_the_page_but_not_its_files(daemon):
    paths = daemon.get("/openapi.json").json()["paths"]
    assert "text/html" in paths["/"]["get"]["responses"]["200"]["content"]
    assert not any(path.startswith(("/web", "/docs")) for path in paths)
