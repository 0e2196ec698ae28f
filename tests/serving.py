"""How Python tests reach the daemon, and how answers are compared with the oracle."""
import http.client
import importlib.util
import json
import sys
from pathlib import Path
from urllib.parse import quote

import numpy as np
from oracle import tensors

# The daemon under test is started as the HTTP tests start it.
_spec = importlib.util.spec_from_file_location(
    "service", Path(__file__).resolve().parent / "http" / "conftest.py")
service = importlib.util.module_from_spec(_spec)
sys.modules["service"] = service
_spec.loader.exec_module(service)


class Reply:
    """An answer, with the members of requests.Response that tests read."""

    def __init__(self, response):
        self.status_code, self.headers, self.content = response.status, response.headers, response.read()

    @property
    def text(self):
        return self.content.decode()

    def json(self):
        return json.loads(self.content)


class Daemon(service.Daemon):
    """The daemon for tests of thousands of requests: get and post use one connection of http.client, which takes a quarter
    of the time that requests takes for a small request."""
    line = None

    def send(self, method, path, body=None, headers=None):
        reused = self.line is not None
        if not reused:
            self.line = http.client.HTTPConnection(self.host, self.port, timeout=service.PATIENCE)
        try:
            self.line.request(method, quote(path, safe="!#$%&'()*+,/:;=?@[]~"), body, headers or {})
            return Reply(self.line.getresponse())
        except ConnectionError:  # it was closed while nothing was sent
            self.line = None
            if not reused:
                raise
            return self.send(method, path, body, headers)

    def get(self, path, headers=None):
        return self.send("GET", path, headers=headers)

    def post(self, path, body=None, headers=None):
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body, allow_nan=False), {"Content-Type": "application/json"} | (headers or {})
        return self.send("POST", path, body.encode() if isinstance(body, str) else body, headers)

    def stop(self, check=True):
        if self.line:
            self.line.close()
        return super().stop(check)


# Per unit of magnitude, for float32 results of well-conditioned inputs against float64.
FLOAT32 = 4e-6
FLOAT64 = 1e-13


def ask(daemon, body, status=200, path="/v1/attention"):
    answer = daemon.post(path, json.dumps(body))
    assert answer.status_code == status, f"{answer.status_code}: {answer.text[:600]}"
    return answer.json()


def as_array(got, want, name):
    """A served tensor as float64, null as -infinity; its nesting must be that of `want`."""
    if want.size == 0:
        assert got == tensors.nested(want), f"{name}: {got} for shape {want.shape}"
        return want
    x = np.array(got, dtype=object)
    assert x.shape == want.shape, f"{name}: shape {x.shape}, not {want.shape}"
    return np.where(x == None, -np.inf, x).astype(np.float64)  # noqa: E711, element by element


def compare(answer, wanted, bound=FLOAT32):
    """Served tensors against the oracle's (name -> array); returns the largest error per unit."""
    worst = 0.0
    for name, want in wanted.items():
        want = np.asarray(want, np.float64)
        got = as_array(answer[name], want, name)
        hidden = np.isneginf(want)
        assert (np.isneginf(got) == hidden).all(), f"{name}: other cells are null"
        if not (~hidden).any():
            continue
        error = np.abs(got[~hidden] - want[~hidden]).max()
        unit = max(1.0, np.abs(want[~hidden]).max())
        assert error <= bound * unit, f"{name}: off by {error}, allowed {bound * unit}"
        worst = max(worst, error / unit)
    return worst
