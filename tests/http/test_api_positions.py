"""POST /v1/positions: every kind against NumPy, curves out of tables, refusals with their places."""
import numpy as np
import pytest
from api_client import array, ask, close, normal, refused
from oracle import positions
from test_api_index import document, schema  # noqa: F401, a fixture

PATH = "/v1/positions"


def made(daemon, **body):
    return ask(daemon, body, PATH)


@pytest.mark.parametrize("layout", [None, "interleaved", "halves"])
def test_sinusoidal(daemon, layout):
    answer = made(daemon, kind="sinusoidal", length=50, width=12, layout=layout, dims=[0, 11, 3])
    table = positions.sinusoidal(50, 12, layout or "interleaved")
    close(answer["table"], table, 1e-14)
    assert [c["dim"] for c in answer["curves"]] == [0, 11, 3] and answer["num_parameters"] == 0
    for curve in answer["curves"]:
        close(curve["values"], table[:, curve["dim"]], 1e-14)


def test_learned(daemon):
    close(made(daemon, kind="learned", length=5, width=3, seed=9)["table"], positions.learned(5, 3, 9), 1e-14)
    close(made(daemon, kind="learned", length=5, width=3)["table"], positions.learned(5, 3, 0), 1e-14)
    wide = made(daemon, kind="learned", length=300, width=100, seed=4, std=2)
    assert wide["num_parameters"] == 30000 and abs(array(wide["table"]).std() - 2) < 0.05
    assert made(daemon, kind="learned", length=300, width=100, seed=5, std=2) != wide


def test_rotary(daemon):
    answer = made(daemon, kind="rotary", length=20, width=8, base=100, dims=[3])
    angle = positions.angles(20, 8, 100.0)
    close(answer["cosines"], np.cos(angle), 1e-14)
    close(answer["sines"], np.sin(angle), 1e-14)
    close(answer["curves"][0]["values"], np.cos(angle[:, 3]), 1e-14)
    assert "table" not in answer


BIASES = [
    {"kind": "alibi", "num_heads": 6}, {"kind": "alibi", "slopes": [1, 0.5]}, {"kind": "alibi", "slopes": [1], "num_heads": 1},
    {"kind": "t5", "table": normal(12, 3, seed=1), "max_distance": 40},
    {"kind": "t5", "table": normal(6, 2, seed=1), "bidirectional": False, "max_distance": 9},
    {"kind": "relative", "table": normal(2, 7, seed=2)},
]


@pytest.mark.parametrize("kind", BIASES, ids=str)
@pytest.mark.parametrize("sizes", [{}, {"num_keys": 9, "query_offset": 4}, {"num_keys": 3, "query_offset": -5}], ids=str)
def test_biases(daemon, kind, sizes):
    answer = made(daemon, **kind, **sizes, length=5, dims=[0])
    keys, offset = sizes.get("num_keys", 5), sizes.get("query_offset", 0)
    distance = np.arange(keys) - np.arange(5)[:, None] - offset
    close(answer["table"], positions.bias(kind, kind.get("num_heads"), distance[None]), 1e-6)
    (curve,) = answer["curves"]
    first, last = curve["distances"]
    assert (first, last) == (distance.min(), distance.max()) and len(curve["values"]) == last - first + 1
    for i in range(5):
        for j in range(keys):
            assert curve["values"][distance[i, j] - first] == answer["table"][0][i][j]


def test_a_bias_is_what_attention_adds(daemon):
    """The difference that a position makes to the scores, and the table of the same position."""
    position = {"kind": "t5", "table": normal(8, 2, seed=3), "max_distance": 12}
    body = {"query": normal(1, 2, 6, 4, seed=4), "return": ["scores"], "query_offset": 3}
    plain, moved = (array(ask(daemon, body | x)["scores"]) for x in ({}, {"position": position}))
    close((moved - plain)[0].tolist(), array(made(daemon, **position, length=6, query_offset=3)["table"]), 1e-6)


def test_shaw(daemon):
    table = np.array(normal(5, 3, seed=2))
    answer = made(daemon, kind="shaw", length=4, num_keys=6, query_offset=1, key_table=table.tolist(), dims=[2])
    distance = np.arange(6) - np.arange(4)[:, None] - 1
    close(answer["table"], table[np.clip(distance, -2, 2) + 2])
    (curve,) = answer["curves"]
    assert curve["distances"] == [-4, 4] and answer["num_parameters"] == 15
    close(curve["values"], table[np.clip(np.arange(-4, 5), -2, 2) + 2, 2])


@pytest.mark.parametrize("body", [
    {"kind": "sinusoidal", "length": 0, "width": 4, "dims": [1]}, {"kind": "alibi", "length": 0, "num_heads": 2, "dims": [1]},
    {"kind": "alibi", "length": 2, "num_heads": 1, "num_keys": 0, "dims": [0]}, {"kind": "learned", "length": 1, "width": 1, "seed": 0},
])
def test_empty_axes(daemon, document, body):  # noqa: F811
    schema(document, "PositionsRequest").validate(body)
    answer = ask(daemon, body, PATH)
    schema(document, "Positions").validate(answer)
    assert array(answer["table"]).size == (1 if body["kind"] == "learned" else 0)


@pytest.mark.parametrize("kind", [{"kind": "alibi", "num_heads": 2}, {"kind": "t5", "table": normal(4, 2)}, {"kind": "relative", "table": normal(2, 3)},
                                  {"kind": "shaw", "key_table": normal(3, 2)}], ids=lambda body: body["kind"])
def test_curves_without_distances(daemon, kind):
    """One query and no keys have no distance. Two queries have one, though their table is empty, too."""
    answer = made(daemon, **kind, length=1, num_keys=0, dims=[0, 1])
    assert answer["curves"] == [{"dim": 0, "values": []}, {"dim": 1, "values": []}]
    assert made(daemon, **kind, length=0, num_keys=3, dims=[0])["curves"] == [{"dim": 0, "values": []}]
    assert made(daemon, **kind, length=1, num_keys=0, dims=[0, 1], dry_run=True)["dry_run"]["shapes"]["curves"] == [2, 0]
    assert daemon.post(PATH, kind | {"length": 1, "num_keys": 0, "dims": [1]}, headers={"Accept": "text/csv"}).text == "distance,1\r\n"
    longer = made(daemon, **kind, length=2, num_keys=0, dims=[0])["curves"][0]
    assert longer == {"dim": 0, "distances": [-1, -1], "values": made(daemon, **kind, length=2, num_keys=1, dims=[0])["curves"][0]["values"][:1]}


def test_decimals_and_text(daemon):
    answer = made(daemon, kind="sinusoidal", length=3, width=2, decimals=2)
    assert answer["table"] == [[0, 1], [0.84, 0.54], [0.91, -0.42]]
    text = daemon.post(PATH, {"kind": "sinusoidal", "length": 3, "width": 2, "dims": [0], "decimals": 2},
                       headers={"Accept": "text/plain"}).text
    assert text == ("table (3, 2):\n[[ 0.    1.  ]\n [ 0.84  0.54]\n [ 0.91 -0.42]]\ncurve 0 (3,):\n[0.   0.84 0.91]\n"
                    "parameters: 0\n")


@pytest.mark.parametrize("body, code, pointer, words", [
    ({}, "invalid_value", "", ["kind"]),
    ({"kind": "sinusoid"}, "invalid_value", "/kind", ['did you mean "sinusoidal"']),
    ({"kind": "sinusoidal", "width": 4}, "invalid_value", "/length", ["needs length"]),
    ({"kind": "sinusoidal", "length": 4, "width": 3}, "invalid_value", "/width", ["even", "3"]),
    ({"kind": "rotary", "length": 4, "width": 3}, "invalid_value", "/width", ["even"]),
    ({"kind": "sinusoidal", "length": 4, "width": 4, "num_heads": 2}, "invalid_value", "/num_heads", ["sinusoidal"]),
    ({"kind": "learned", "length": 4}, "invalid_value", "/width", ["width"]),
    ({"kind": "alibi", "length": 4}, "invalid_value", "/num_heads", ["slopes"]),
    ({"kind": "alibi", "length": 4, "num_heads": 2, "slopes": [1]}, "shape_mismatch", "/num_heads", []),
    ({"kind": "alibi", "length": 4, "slopes": [[1]]}, "shape_mismatch", "/slopes", ["rank 1"]),
    ({"kind": "t5", "length": 4}, "invalid_value", "/table", []),
    ({"kind": "t5", "length": 4, "table": [1, 2]}, "shape_mismatch", "/table", []),
    ({"kind": "t5", "length": 4, "table": [[1], [2], [3]]}, "invalid_value", "/table", ["2 buckets a side", "3"]),
    ({"kind": "t5", "length": 4, "table": [[1]] * 8, "max_distance": 2}, "invalid_value", "/max_distance",
     ["4 buckets a side", "found 2"]),
    ({"kind": "relative", "length": 4, "table": [[1, 2]]}, "shape_mismatch", "/table", ["odd"]),
    ({"kind": "shaw", "length": 4, "key_table": [[1], [2]]}, "shape_mismatch", "/key_table", ["odd"]),
    ({"kind": "shaw", "length": 4, "key_table": [1, 2, 3]}, "shape_mismatch", "/key_table", ["[H, 2m + 1, E]"]),
    ({"kind": "shaw", "length": 4, "key_table": [[1]], "head": 0}, "invalid_value", "/head", ["share"]),
    ({"kind": "shaw", "length": 4, "key_table": [[[1]]], "head": 1}, "invalid_value", "/head", ["1 heads of key_table, found 1"]),
    ({"kind": "shaw", "length": 4, "key_table": [[1]], "query_table": [[1]]}, "invalid_value", "/query_table", ["shaw"]),
    ({"kind": "disentangled", "length": 4}, "invalid_value", "/kind", ["key_table or query_table"]),
    ({"kind": "disentangled", "length": 4, "key_table": [[1]]}, "shape_mismatch", "/key_table", ["even"]),
    ({"kind": "disentangled", "length": 4, "query_table": [[1]]}, "shape_mismatch", "/query_table", ["even"]),
    ({"kind": "disentangled", "length": 4, "key_table": [[1]] * 2, "query_table": [[1]] * 2}, "invalid_value", "/key_table", ["exclude"]),
    ({"kind": "disentangled", "length": 4, "query_table": [[1]] * 8, "max_distance": 2}, "invalid_value", "/max_distance", ["at least 4"]),
    ({"kind": "disentangled", "length": 4, "query_table": [[1]] * 6, "max_distance": 9}, "shape_mismatch", "/query_table", ["multiple of 4"]),
    ({"kind": "disentangled", "length": 4, "key_table": [[1]] * 2, "query_positions": [1]}, "invalid_value", "/length", ["exclude"]),
    ({"kind": "sinusoidal", "length": 4, "width": 4, "dims": [0, 4]}, "invalid_value", "/dims/1", ["4"]),
    ({"kind": "alibi", "length": 4, "num_heads": 2, "dims": [2]}, "invalid_value", "/dims/0", ["2"]),
    ({"kind": "sinusoidal", "length": -1, "width": 4}, "invalid_value", "/length", []),
    ({"kind": "sinusoidal", "length": 1, "widht": 4}, "unknown_field", "/widht", ["width"]),
])
def test_refused(daemon, body, code, pointer, words):
    refused(daemon, body, code, pointer, *words, path=PATH)


def test_too_large(start):
    daemon = start("--max-request-bytes", "16MiB", "--memory-bytes", "64MiB", "--max-cells", "1e6")
    body = {"kind": "learned", "seed": 1}
    problem = refused(daemon, body | {"length": 1 << 30, "width": 1 << 30}, "too_large", None, path=PATH, status=413)
    assert problem["limit"]["setting"] == "max_cells"
    problem = refused(daemon, body | {"length": 900, "width": 900}, "too_large", None, path=PATH, status=413)
    assert problem["limit"]["setting"] == "max_request_bytes"
    assert ask(daemon, body | {"length": 900, "width": 900, "dry_run": True}, PATH)["dry_run"]["fits"] is False
    assert len(made(daemon, **body, length=100, width=100)["table"]) == 100


@pytest.mark.parametrize("body", [
    {"kind": "sinusoidal", "length": 100000, "width": 64},
    {"kind": "shaw", "length": 3000, "num_keys": 3000, "key_table": [[1], [2], [3]]},
    {"kind": "disentangled", "length": 3000, "num_keys": 3000, "query_table": [[1]] * 8, "max_distance": 30},
    {"kind": "learned", "length": 8000, "width": 64, "seed": 1},
    {"kind": "rotary", "length": 100000, "width": 64},
    {"kind": "alibi", "length": 1500, "num_heads": 3},
])
@pytest.mark.parametrize("accept", ["application/json", "application/x-npy", "text/csv"])
def test_the_deadline_ends_a_table(daemon, body, accept):
    reply = daemon.post("/v1/positions", {**body, "timeout_ms": 1}, headers={"Accept": accept})
    assert reply.status_code == 504 and reply.json()["code"] == "deadline_exceeded"
