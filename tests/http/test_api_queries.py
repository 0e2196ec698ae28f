"""One rule for query parameters that a route does not know: 422 that names them (400 below /v2), and 400 for one that is
there twice, whatever the route and the method."""
import io

import numpy as np
import pytest

HTML = {"Accept": "text/html"}
NPY = {"Content-Type": "application/x-npy"}


@pytest.fixture(scope="module")
def run(daemon):
    return daemon.post("/v1/attention", {"query": {"shape": [2, 4, 3], "random": "normal"}, "store": True}).json()["run"]["id"]


@pytest.fixture(scope="module")
def job(daemon):
    return daemon.post("/v1/jobs", {"kind": "experiment", "experiment": "scale", "settings": {"widest": 64}}).json()["id"]


@pytest.fixture(scope="module")
def asked(daemon, run, job):
    """Each operation with the path of something that is there."""
    ids = {"/v1/runs": run, "/v1/jobs": job, "/v1/models": "en-fr", "/v1/examples": "causal", "/v1/lessons": "masks"}
    return [(method.upper(), path.format(id=next((i for start, i in ids.items() if path.startswith(start)), ""), name="curves", version="1",
                                         model="multi_head_attention", code="gone"))
            for path, item in daemon.get("/openapi.json").json()["paths"].items() for method in item]


def test_an_unknown_parameter_is_named_on_every_route(daemon, asked):
    assert len(asked) > 60
    for method, path in asked:
        reply = daemon.request(method, f"{path}?bogus=1", json={} if method == "POST" else None)
        problem = reply.json()
        assert (reply.status_code, problem["code"], problem["pointer"]) == (
            400 if path.startswith("/v2") else 422, "unknown_field", "/bogus"), (method, path, reply.text)
        assert '"bogus" is ' in problem["detail"]


def test_a_parameter_that_is_there_twice_is_400_on_every_route(daemon, asked):
    for method, path in asked:
        reply = daemon.request(method, f"{path}?bogus=1&bogus=2", json={} if method == "POST" else None)
        assert reply.status_code == 400 and reply.json()["detail"].endswith('"bogus" is there twice'), (method, path, reply.text)


def test_nothing_was_done(daemon, asked, run, job):
    """The routes that delete have refused, too."""
    assert daemon.get(f"/v1/runs/{run}").status_code == 200 and daemon.get(f"/v1/jobs/{job}").status_code == 200


def test_head_is_as_get(daemon):
    assert daemon.request("HEAD", "/v1/examples?bogus=1").status_code == 422


def test_a_list_that_is_written_twice_says_how_to_write_it(daemon, run):
    """As the package requests writes a list."""
    reply = daemon.get(f"/v1/runs/{run}/weights", params={"heads": [0, 1]})
    assert reply.status_code == 400 and reply.json()["pointer"] == "/heads"
    assert reply.json()["detail"] == 'the query parameter "heads" is there twice; write a list as heads=0,1'


def test_pages_for_browsers_ignore_parameters(daemon):
    for path in ("/", "/docs", "/problems", "/problems/gone", "/web/attn.js"):
        assert daemon.get(f"{path}?utm_source=x", headers=HTML | ({"Accept": "*/*"} if "web" in path else {})).status_code == 200, path
    assert daemon.get("/?utm_source=x").status_code == 422


def test_a_body_of_npy_has_its_fields_there(daemon):
    file = io.BytesIO()
    np.save(file, np.eye(2, dtype=np.float32))
    assert daemon.post("/v1/attention?return=weights", file.getvalue(), headers=NPY).status_code == 200
    reply = daemon.post("/v1/attention?bogus=1", file.getvalue(), headers=NPY)
    assert reply.status_code == 422 and reply.json()["pointer"] == "/bogus"
    reply = daemon.post("/v1/attention?is_causal=true", {"query": [[1]]})
    assert reply.status_code == 422 and reply.json()["detail"] == (
        '"is_causal" is no query parameter here: the fields of a POST stand in its body')
