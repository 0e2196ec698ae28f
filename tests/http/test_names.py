"""One language: the names of requests and answers follow the rules of server/api/README.md."""
import pytest

from api_client import ask, refused

# Things that are counted. As the name of an integer such a word would say what `num_` says.
COUNTED = {"heads", "kv_heads", "queries", "keys", "batches", "layers", "rows", "cells", "parameters", "operations",
           "values", "beams", "alternatives", "visible", "ahead", "past", "steps", "pairs", "symbols", "sentences"}


@pytest.fixture(scope="module")
def document(daemon):
    return daemon.get("/openapi.json").json()


def integers(where, schema):
    """(place, name) of each member that is one integer."""
    if isinstance(schema, list):
        for part in schema:
            yield from integers(where, part)
    elif isinstance(schema, dict):
        for name, part in schema.get("properties", {}).items():
            kinds = part.get("type", ()) if isinstance(part, dict) else ()
            if {"integer", "number"} & ({kinds} if isinstance(kinds, str) else set(kinds)):
                yield where, name
        for part in schema.values():
            yield from integers(where, part)


def test_numbers_of_things_are_called_num(document):
    found = [pair for name, schema in document["components"]["schemas"].items() if not name.startswith("V2")
             for pair in integers(name, schema)]
    assert ("RunSite", "num_queries") in found and ("DryRun", "num_cells") in found and ("ModelRequest", "num_layers") in found
    assert [pair for pair in found if pair[1] in COUNTED] == []


def test_a_global_pattern_counts_its_keys(daemon):
    body = {"query": [[1.0], [2.0], [3.0]], "pattern": {"kind": "global", "num_keys": 1, "local": 0}, "return": "weights"}
    assert ask(daemon, body)["weights"][1][2] == 0
    body["pattern"] = {"kind": "global", "keys": 1, "local": 0}
    refused(daemon, body, "unknown_field", "/pattern/keys", 'here it is called "num_keys", because')


def test_a_member_of_a_cell_is_asked_for_by_its_new_name(daemon):
    run = daemon.post("/v1/attention", {"query": [[1.0], [2.0]], "store": True}).json()["run"]["id"]
    assert daemon.get(f"/v1/runs/{run}/cells?row=1&col=0&fields=num_visible_keys").json() == {"num_visible_keys": 2}
    problem = daemon.get(f"/v1/runs/{run}/cells?row=1&col=0&fields=of").json()
    assert problem["status"] == 422 and problem["pointer"].startswith("/fields") and 'called "num_visible_keys"' in problem["detail"]


def test_what_is_missing_is_omitted_everywhere(daemon, document):
    """The member that names what an answer lacks has one name."""
    answer = ask(daemon, {"weights": [[1, 0], [0.5, 0.5]], "analysis": ["scores"]}, "/v1/analyses")
    assert set(answer["omitted"]) == {"scores"} and "left_out" not in answer
    large = ask(daemon, {"query": {"shape": [257, 2], "random": "normal"}})
    assert set(large["omitted"]) == {"weights"}
    schemas = document["components"]["schemas"]
    assert not [name for name, schema in schemas.items() if "left_out" in schema.get("properties", {})]
