"""Large bodies are read in pieces by several workers: the same bytes out as with one worker, and the same words about
what is wrong, wherever it is."""
import json

import numpy as np
import pytest

from conftest import Daemon

H, L, D = 5, 300, 37


@pytest.fixture(scope="module")
def daemons():
    running = [Daemon("--workers", str(n)) for n in (1, 3)]
    yield running
    for daemon in running:
        daemon.stop()


def text(shape=(1, H, L, D), seed=1, form="%.9g", comma=","):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return json.dumps(values.tolist(), separators=(comma, ":")) if form is None else nested(values, form, comma)


def nested(values, form, comma):
    if values.ndim == 1:
        return "[" + comma.join(form % x for x in values) + "]"
    return "[" + comma.join(nested(v, form, comma) for v in values) + "]"


def both(daemons, body):
    one, many = (d.post("/v1/attention", body.encode()) for d in daemons)
    assert one.status_code == many.status_code
    if one.status_code == 200:
        assert one.content == many.content
    else:
        assert {**one.json(), "instance": ""} == {**many.json(), "instance": ""}
    return one


def request(query, more='"return":["output"]'):
    return '{"query":%s,%s}' % (query, more)


@pytest.mark.parametrize("shape", [(1, H, L, D), (H, L, D), (H * L, D), (1, 1, H * L, D), (H * L, 1, 1, D), (2, 5, 150, D),
                                   (80000, 1), (3, 20000)])
def test_shapes(daemons, shape):
    query = text(shape)
    assert len(query) > 1 << 19
    small = '"key":%s,"value":%s,"return":["output"]' % ((text((*shape[:-2], 3, shape[-1]), 2),) * 2)
    reply = both(daemons, request(query, small))
    assert reply.status_code == 200, reply.text[:300]
    got = np.asarray(reply.json()["output"])
    assert got.shape == shape


@pytest.mark.parametrize("form, comma", [(None, ","), (None, ", "), ("%.3e", ","), ("%.17g", ", "), ("%.6f", " , "),
                                         ("%.2f", ",\n")])
def test_forms(daemons, form, comma):
    assert both(daemons, request(text((1, 2, 900, 40), form=form, comma=comma))).status_code == 200


def test_what_stands_around(daemons):
    query, key = text(seed=1), text(seed=2)
    for body in ('{"query":%s,"key":%s,"value":%s , "is_causal":true}' % (query, key, key),
                 '{"is_causal":true,"key":%s,"value":%s,"query":%s}' % (key, key, query),
                 ' {\n"query" : %s\n}\n' % query):
        assert both(daemons, body).status_code == 200
    mask = '{"masks":[{"kind":"values","attn_mask":%s}],"shape":[%d,%d]}' % (text((500, 120)), 500, 120)
    one, many = (d.post("/v1/masks", mask.encode()) for d in daemons)
    assert one.status_code == many.status_code and one.json().get("detail") == many.json().get("detail")


def test_nested_data_of_an_object(daemons):
    """{"data": lists} without shape is the tensor of the lists alone, however large, and so is its refusal."""
    query, key = text(seed=1), text(seed=2)
    plain = both(daemons, '{"query":%s,"key":%s,"value":%s}' % (query, key, key))
    for query_object in ('{"data":%s}', '{"dtype":"float32","data":%s}', '{"data": %s , "dtype":"float32"}'):
        objects = both(daemons, '{"query":%s,"key":{"data":%s},"value":%s}' % (query_object % query, key, key))
        assert objects.status_code == 200 and objects.content == plain.content
    ragged = query[:-4] + ",1]]]]"
    refusals = [both(daemons, request(q)).json() for q in (ragged, '{"data":%s}' % ragged)]
    assert [r["pointer"].replace("/data", "") for r in refusals] == [refusals[0]["pointer"]] * 2
    assert refusals[1]["detail"].replace("/data", "") == refusals[0]["detail"]


PLACES = [0.0, 0.2, 0.5, 0.77, 0.999]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("change", [
    lambda n: n + ",1", lambda n: "", lambda n: "null", lambda n: "1e99", lambda n: "1.5.5", lambda n: "-", lambda n: "[1]",
    lambda n: n + "]", lambda n: "[" + n, lambda n: n + "],[1", lambda n: "\"1\"", lambda n: n + " x", lambda n: "{}",
    lambda n: n + "]],[[1", lambda n: "01.5"])
def test_errors(daemons, change, place):
    query = text()
    at = query.index(",", int(len(query) * place)) + 1
    end = min(query.index(c, at) for c in ",]" if c in query[at:])
    while query[at] == "[":
        at += 1
    reply = both(daemons, request(query[:at] + change(query[at:end]) + query[end:]))
    assert reply.status_code in (400, 422), reply.text[:300]


@pytest.mark.parametrize("cut", PLACES[1:])
def test_cut(daemons, cut):
    query = text()
    assert both(daemons, '{"query":' + query[:int(len(query) * cut)]).status_code == 400
