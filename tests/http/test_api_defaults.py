"""`default` of query parameters in openapi.json: to send it is to leave the parameter out, whatever else is sent.

Generated clients send defaults, so a default that another parameter excludes would break them.
"""
import json

import pytest

SVG, PNG, TEXT, JSON = "image/svg+xml", "image/png", "text/plain", "application/json"
TEXTS = {"heads": ("all", "0,1", "mean"), "head": (1, "mean"), "batch": ("0", "1"), "analysis": ("entropy",),
         "fields": ("weight",), "side": ("source", "target"), "annotate": (".2f", "none"),
         "titles": ("a,b",), "sites": ("0",), "against": ("RUN",)}


def values(parameter):
    """Values of a parameter that show whether it gets along with the defaults of others."""
    name, schema = parameter["name"], parameter["schema"]
    if name in TEXTS:
        return TEXTS[name]
    if "enum" in schema:
        return schema["enum"]
    return {"boolean": ("true",), "integer": (schema.get("minimum", 0), schema.get("minimum", 0) + 1), "number": (0.5,),
            "string": (parameter.get("example", "x"),)}[schema["type"]]


def query_of(operation):
    return [p for p in operation["parameters"] if p.get("in") == "query"]


def text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.fixture(scope="module")
def paths(daemon):
    return daemon.get("/openapi.json").json()["paths"]


@pytest.fixture(scope="module")
def ids(daemon):
    run = daemon.post("/v1/attention", {"query": {"shape": [2, 2, 9, 4], "random": "normal"}, "is_causal": True, "return": [], "store": True})
    layers = daemon.post("/v1/models/en-fr/attention", {"text": "the cat sleeps .", "target_text": "le chat dort .", "return": [], "store": True})
    return {"run": run.json()["run"]["id"], "layers": layers.json()["run"]["id"]}


def said(reply):
    problem = reply.json() if reply.status_code >= 400 else {}
    return reply.status_code, (problem["code"], problem.get("pointer")) if problem else reply.content


ROUTES = ["/v1/runs", "/v1/models", "/v1/jobs", "/v1/models/{id}/vocabulary", *(f"/v1/runs/{{id}}/{look}" for look in (
    "weights", "rows", "top-k", "cells", "analyses", "heatmaps", "tiles", "atlas", "heads", "rollout", "flow"))]


@pytest.mark.parametrize("path", ROUTES)
def test_a_default_is_what_its_absence_means(daemon, paths, ids, path):
    parameters = query_of(paths[path]["get"])
    defaults = {p["name"]: text(p["schema"]["default"]) for p in parameters if "default" in p["schema"]}
    required = {p["name"]: "1" for p in parameters if p["required"]}
    where = path.replace("{id}", "en-fr" if "models" in path else ids["layers" if path.endswith(("rollout", "flow")) else "run"])
    types = [kind for kind in (JSON, PNG, SVG, TEXT) if kind in paths[path]["get"]["responses"]["200"]["content"]] or ["*/*"]
    answered = 0
    for accept in types:
        for name, value in [(None, None), *((p["name"], v) for p in parameters for v in values(p))]:
            own = required | ({} if name is None else {name: text(value).replace("RUN", ids["run"])})
            brief = daemon.get(where, params=own, headers={"Accept": accept})
            whole = daemon.get(where, params=defaults | own, headers={"Accept": accept})
            assert said(whole) == said(brief), (accept, own, whole.text[:300], brief.text[:300])
            answered += brief.status_code == 200
    assert answered > len(types)


def test_parameters_have_defaults_and_bodies_have_them_in_words(daemon, paths):
    """openapi-typescript makes members of bodies with a default required."""
    found = {path: {p["name"]: p["schema"]["default"] for p in query_of(item["get"]) if "default" in p["schema"]}
             for path, item in paths.items() if "get" in item}
    assert set(ROUTES) == {path for path, item in paths.items() if "get" in item and query_of(item["get"])}
    assert found["/v1/jobs"] == {"limit": 100} and found["/v1/runs/{id}/rollout"]["residual"] == 0.5
    assert found["/v1/runs/{id}/analyses"] == {"radius": 2, "top_k": 5}
    assert found["/v1/runs/{id}/atlas"] == {"max_side": 64, "pool": "max", "transform": "linear"}
    assert found["/v1/runs/{id}/heatmaps"]["colorbar"] is True and found["/v1/runs/{id}/weights"]["stage"] == "probs"
    bodies = daemon.get("/openapi.json").json()["components"]["schemas"]
    assert '"default"' not in json.dumps({name: body for name, body in bodies.items() if name.endswith("Request")})
