"""`default` of query parameters in openapi.json: to send it is to leave the parameter out, whatever else is sent.

Generated clients send defaults, so a default that another parameter excludes would break them. The bounds of numbers there
are true, too: a bound is accepted unless it is exclusive.
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


# --- bounds ---

# what a member of a body needs beside it
BODIES = {"/v1/attention": {"query": [[1, 0], [0, 1]]}, "/v1/masks": {"shape": [2, 2], "masks": [{"kind": "causal"}]},
          "/v1/heatmaps": {"weights": [[1, 0], [0.5, 0.5]]}, "/v1/curves": {"values": [1, 2, 3]},
          "/v1/positions": {"kind": "learned", "length": 1, "width": 1}}
BESIDE = {
    "pattern": {"radius": {"kind": "local"}, "stride": {"kind": "strided", "local": 0}, "size": {"kind": "block"},
                "num_keys": {"kind": "global", "local": 0}, "local": {"kind": "strided", "stride": 1}},
    "position": {"max_distance": {"kind": "t5", "table": [[0]] * 4}, "base": {"kind": "rotary", "layout": "halves"},
                 **dict.fromkeys(("dims", "start", "factor"), {"kind": "rotary", "layout": "halves"}), "dropout_p": {"kind": "sinusoidal", "seed": 1}},
    "scaling": {"factor": {"kind": "linear"}, "original_max_position_embeddings": {"kind": "llama3"},
                **dict.fromkeys(("low_freq_factor", "high_freq_factor"), {"kind": "llama3", "original_max_position_embeddings": 8}),
                **dict.fromkeys(("beta_fast", "beta_slow", "attention_factor"), {"kind": "yarn", "original_max_position_embeddings": 8}),
                **{a: {"kind": "yarn", "original_max_position_embeddings": 8, b: 1}
                   for a, b in (("mscale", "mscale_all_dim"), ("mscale_all_dim", "mscale"))}},
    "axes": {"num_pairs": {"positions": [0, 0]}, "base": {"positions": [0, 0], "num_pairs": 1}},
    "normalizer": {"alpha": {"kind": "entmax"}, "divisor": {"kind": "relu"}},
    "projections": {"num_heads": {}, "num_kv_heads": {"num_heads": 1}},
    "/v1/attention": {"dropout_p": {"seed": 1}, "num_heads": {"query": [[[1, 0], [0, 1]]], "layout": "BLD"},
                      "num_kv_heads": {"query": [[[1, 0], [0, 1]]], "layout": "BLD", "num_heads": 1}},
    "/v1/positions": {"max_distance": {"kind": "t5", "table": [[0]] * 4, "width": None}, "head": {"kind": "shaw", "key_table": [[[0]]], "width": None}, **dict.fromkeys(("base", "factor"), {"kind": "rotary", "width": 2}),
                      **dict.fromkeys(("num_heads", "num_keys", "query_offset"), {"kind": "alibi", "num_heads": 1, "width": None})}}
# what an object needs around it
AROUND = {**dict.fromkeys((("/v1/attention", "scaling"), ("/v1/attention", "axes")), {"kind": "rotary", "layout": "halves"}),
          ("/v1/positions", "scaling"): {"kind": "rotary", "width": 2},
          ("/v1/positions", "axes"): {"kind": "rotary", "width": 2, "length": None}}
# bounds that other members narrow: the width of the inputs, and the memory of a request
NARROWED = {("timeout_ms", "minimum"), ("dims", "maximum"), ("start", "maximum"), ("low_freq_factor", "maximum"), *((name, "maximum") for name in ("num_pairs", "num_heads", "num_kv_heads", "num_keys", "length", "width", "head"))}


def bounded(schemas, schema, where=()):
    """(the path of a number, its schema) for each number with a bound, also in objects and lists."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for part in schema.get("anyOf", ()):
        yield from bounded(schemas, part, where)
    if "items" in schema:
        yield from bounded(schemas, schema["items"], (*where, 0))
    for name, part in schema.get("properties", {}).items():
        yield from bounded(schemas, part, (*where, name))
    if where and schema.keys() & {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}:
        yield where, schema


def body_with(path, where, value):
    """A body in which a member has this value, with what it needs."""
    *outer, name = where
    body = json.loads(json.dumps(BODIES[path]))
    if "pattern" in outer and outer[0] == "masks":
        body["masks"][0] = {"kind": "pattern"}
    at = body
    for key, inner in zip(outer, where[1:]):
        if (path, key) in AROUND:
            at.update(AROUND[path, key])
        part = {"kind": "pattern"} if key in ("any_of", "all_of", "not", "against") else {}
        at = at[0] if key == 0 else at.setdefault(key, [part] if inner == 0 else part)
    of = next((key for key in reversed(outer) if key != 0), path)
    at.update(BESIDE.get(of, {}).get(name, {}) | {name: value})
    return body


@pytest.mark.parametrize("path", BODIES)
def test_bounds_are_true(daemon, paths, path):
    schemas = daemon.get("/openapi.json").json()["components"]["schemas"]
    rows = list(bounded(schemas, paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]))
    assert rows
    for where, schema in rows:
        for bound in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if bound not in schema or (where[-1], bound) in NARROWED:
                continue
            problem = daemon.post(path, body_with(path, where, schema[bound])).json()
            if bound.startswith("exclusive"):
                assert "expected a number" in problem["detail"] and problem["pointer"] == "/" + "/".join(map(str, where)), problem
            else:
                assert "detail" not in problem, (where, bound, problem)
