"""The requests of tests/tools/record that compute nothing: what is wrong (the bodies that the tests hold, faults in good
bodies, text that is no JSON), HTTP as such, what the service says of itself, keys and limits."""
import copy
import gzip
import json
import zlib

import test_api_analyses
import test_api_errors
import test_api_forms
import test_api_heatmaps
import test_api_jobs
import test_api_masks
import test_api_models
import test_api_positions
import test_daemon_protocol as protocol
import test_gradients
import test_pictures
import test_pictures_curves
import test_wire_vectors
from record_requests import (ANALYSES, ATTENTION, CURVES, FAMILIES, HEADS, HEATMAPS, INFER, JOBS, KINDS, MASKS, MODELS, POSITIONS, TINY, Ask,
                             family, one_of, parameters_of)


@family("spread")
def refused(r):
    """The wrong bodies that the tests of each route hold."""
    small, model = test_api_models.SMALL, f"{MODELS}/textbook/attention"
    plain = {"query": [[1], [2]], "key": [[1], [1]], "value": [[1, 2, 3], [4, 5, 6]]}
    for test, path, base in (
            (test_api_errors.test_refused, ATTENTION, test_api_errors.GOOD), (test_api_forms.test_refused, ATTENTION, test_api_forms.X),
            (test_api_forms.test_parameters_are_finite, ATTENTION, test_api_forms.X), (test_gradients.test_refusals, ATTENTION, plain),
            (test_api_masks.test_refused, MASKS, {}), (test_api_positions.test_refused, POSITIONS, {}),
            (test_api_heatmaps.test_refused, HEATMAPS, {}), (test_api_analyses.test_refusals, ANALYSES, {}),
            (test_api_analyses.test_operands_that_are_not_there, ANALYSES, {}), (test_pictures_curves.test_curves_refused, CURVES, {}),
            (test_api_models.test_models_that_cannot_be, MODELS, small), (test_api_models.test_refusals, model, {}),
            (test_api_jobs.test_jobs_that_cannot_be, JOBS, test_api_jobs.TASK),
            (test_api_jobs.test_experiments_that_cannot_be, JOBS, test_api_jobs.EXPERIMENT)):
        for values in parameters_of(test):
            yield Ask(path, base | values[0])
    for name, value, _ in parameters_of(test_api_errors.test_tensors_that_do_not_fit):
        yield Ask(ATTENTION, test_api_errors.GOOD | {name: value})
    for path, extra, *_ in parameters_of(test_api_errors.test_counts_and_choices_are_worded):
        yield Ask(path, {ATTENTION: test_api_errors.GOOD, HEATMAPS: {"weights": [[1.0]]}, POSITIONS: {}}[path] | extra)
    for figure, *_ in parameters_of(test_pictures.test_figure_is_checked_for_every_type):
        yield Ask(HEATMAPS, {"weights": [[1.0]], "figure": figure}, "svg")


def places(x):
    """(holder, key) of every member, and of the first and last item of every list."""
    keys = x.keys() if isinstance(x, dict) else sorted({0, len(x) - 1}) if isinstance(x, list) and x else []
    for key in keys:
        yield x, key
        yield from places(x[key])


def spoilt(r, body):
    """The body with one fault: a name with a typing error, a member that is missing, a value of another type or size."""
    body = copy.deepcopy(body)
    holder, key = one_of(r, list(places(body)))
    if isinstance(key, str) and r.random() < 0.4:
        at = int(r.integers(len(key)))
        name = one_of(r, [key[:at] + key[at + 1:], key[:at] + key[at:at + 1] * 2 + key[at + 1:], key + "s", key.swapcase()])
        holder[name] = holder.pop(key)
    elif isinstance(holder[key], list) and r.random() < 0.5:
        holder[key] = holder[key][:-1] if r.random() < 0.5 else holder[key] + holder[key][-1:]
    else:
        holder[key] = one_of(r, ["text", True, 3.5, -1, [], {}, None, [[1]], 1e300, 2**53, -2**40, ["a", 1], {"kind": 1}])
    return body


@family("spread")
def faults(r):
    bodies = [(path, json.loads(ask.body)) for name, _, asks in FAMILIES for ask in asks for path in [ask.path]
              if name in ("masks", "positions", "heatmaps", "analyses_of_weights", "curves", "attention_answers", "models", "inference")
              and ask.headers.get("Content-Type") == KINDS["json"] and ask.body[:1] == b"{" and 2 < len(ask.body) < 6000]
    for _ in range(120):
        path, body = one_of(r, bodies)
        yield Ask(path, spoilt(r, body))


@family("spread")
def not_json(r):
    texts = [t for t in [*test_wire_vectors.NOT_JSON, *test_wire_vectors.REFUSED_HERE] if len(t) < 1000]
    for n, text in enumerate(texts[::3]):
        where = (text, b'{"dry_run":' + text + b"}", b'{"query":[[1,' + text + b']],"key":[[1,2]],"value":[[1]]}')[n % 3]
        yield Ask((ATTENTION, MASKS, POSITIONS, HEATMAPS, INFER)[n % 5] if n % 3 != 2 else ATTENTION, where)


@family("spread")
def http(r):
    """Methods, targets, headers and framing."""
    for request, *_ in parameters_of(protocol.test_ambiguous_framing_is_refused_and_closed):
        yield Ask("", raw=request)
    for length in ("-1", "0x2", "99999999999999999999999", "1000000000"):
        yield Ask("", raw=protocol.post(b"", f"Content-Length: {length}"))
    for request in (protocol.post(b"", "Content-Length: 5", "Expect: miracles"), b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                    b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /healthz HTTP/1.0\r\n\r\n",
                    protocol.post(b"", "Connection: close")):
        yield Ask("", raw=request)
    for values in parameters_of(protocol.test_unknown_paths):
        yield Ask(values)
    for method, path, _ in parameters_of(protocol.test_other_methods):
        yield Ask(path, method=method)
    for headers, _ in parameters_of(protocol.test_content_types):
        yield Ask(ATTENTION, TINY, headers=headers)
    for header, _ in parameters_of(protocol.test_json_in_another_charset_is_refused):
        yield Ask(ATTENTION, TINY, headers={"Content-Type": header})
    for accept, _ in parameters_of(protocol.test_accept):
        yield Ask(ATTENTION, TINY, headers={"Accept": accept} if accept is not None else {})
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                    {"X-Request-Id": "Az-09._x"}, {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}):
        yield Ask(ATTENTION, TINY, headers=headers)
        yield Ask(MODELS, headers=headers)


@family("last")
def conditions(r):
    for path in ("/", "/v1/examples", "/openapi.json"):
        yield Ask(path, keep={"tag": "header ETag"}, method="HEAD")
        yield Ask(path, headers={"If-None-Match": "@tag@"})
        yield Ask(path, headers={"If-Match": '"other"'})
        yield Ask(path, method="OPTIONS")
        yield Ask(path, accept="text", headers={"Accept-Encoding": "gzip"})
        yield Ask(path, accept="image/gif")


@family("spread")
def what_it_says_of_itself(r):
    plain = ("/", "/v1/examples", "/openapi.json", "/healthz", "/readyz", "/version", "/v2", "/v2/", "/v2/health/live",
             "/v2/health/ready", "/v2/models", "/v2/models/stats", MODELS, f"{MODELS}/en-fr", f"{MODELS}/textbook", JOBS)
    model = INFER.removesuffix("/infer")
    for path in (*plain, *(base + part for base in (model, model + "/versions/1", HEADS.removesuffix("/infer")) for part in ("", "/ready", "/config", "/stats"))):
        yield Ask(path)
    for path in ("/", "/v1/examples"):
        yield Ask(path, accept="text")
    for path in ("/v1/examples/causl", f"{MODELS}/none-such", f"{JOBS}/job-0", f"/v1/runs/{'0' * 32}", "/v2/models/other", model + "/versions/2",
                 "/v1/runs?limit=1000", f"/v1/runs/{'0' * 32}/weights"):
        yield Ask(path)
    for body in ({}, {"ready": True}, {"ready": 1}, {"redy": True}, b""):
        yield Ask("/v2/repository/index", body)
    yield Ask(f"{MODELS}/en-fr", method="DELETE")
    yield Ask(POSITIONS, {"kind": "sinusoidal", "length": 100000, "width": 64, "timeout_ms": 1})


@family("spread")
def codings(r):
    text = json.dumps(TINY).encode()
    zipped = gzip.compress(text, mtime=0)
    for coding, body in (("gzip", zipped), ("deflate", zlib.compress(text)), ("X-GZIP", zipped), ("identity", text), ("br", text),
                         ("gzip, gzip", zipped), ("gzip", zipped[:-5]), ("gzip", zipped + b"x"), ("deflate", zipped), ("gzip", b"")):
        yield Ask(ATTENTION, body, headers={"Content-Encoding": coding})


@family("guarded")
def guarded(r):
    user, boss = ({"Authorization": f"Bearer {letter * 20}"} for letter in "ub")
    for headers in ({}, {"Authorization": "Bearer wrongwrongwrongwrong"}, {"Authorization": "Basic dTp1"}, user, boss):
        for ask in (Ask("/healthz"), Ask(ATTENTION, TINY), Ask("/version"), Ask(MODELS, {"width": 8}), Ask(MODELS), Ask(INFER, {}), Ask(JOBS, {"kind": "train"})):
            ask.headers |= headers
            yield ask
    yield Ask(MODELS, test_api_models.SMALL, headers=boss, keep={"guarded model": "id"})
    yield Ask(MODELS, test_api_models.SMALL, headers=boss)
    for headers in (user, boss):
        yield Ask(f"{MODELS}/made-@guarded model@", headers=headers, method="DELETE")
    yield Ask(ATTENTION, TINY | {"store": True}, headers=user, keep={"guarded run": "run.id"})
    for headers in ({}, boss, user):
        yield Ask("/v1/runs/@guarded run@", headers=headers)
    yield Ask("/v1/runs/@guarded run@", headers=boss, method="DELETE")
    for path, body in ((ATTENTION, {"query": {"shape": [40, 2], "fill": "ones"}}), (ATTENTION, {"query": {"shape": [4, 100000], "fill": "ones"}}),
                       (MASKS, {"shape": [40, 40]}), (HEATMAPS, {"weights": {"shape": [40, 40], "fill": "eye"}}), (JOBS, test_api_jobs.TASK),
                       (POSITIONS, {"kind": "learned", "length": 1 << 30, "width": 1 << 30, "seed": 1}), (ATTENTION, {"query": [[1.0] * 3000]}),
                       (ATTENTION, {"query": {"shape": [30, 9000], "fill": "ones"}, "store": True, "return": []}), (ATTENTION, b'{"query":' + b"[" * 40)):
        yield Ask(path, body, headers=user if path != JOBS else boss)
    for origin in ("https://a.example", "https://b.example"):
        yield Ask(ATTENTION, TINY, headers=user | {"Origin": origin})
        yield Ask(ATTENTION, method="OPTIONS", headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
