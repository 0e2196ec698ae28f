"""Two daemons whose new memory holds different bytes (ATTN_FILL) answer the requests of random_axes.py alike: no number of
an answer is one that nobody wrote."""
import os
import re

import pytest

import tables
from serving import service
from test_axes import CHECKS

SEEDS = tables.share(range(10**6, 10**6 + int(os.environ.get("ATTN_TEST_FRESH", "30"))))
FILLS = ("85", "202")
# Ids and times, which two daemons do not share.
OWN = re.compile(rb'[0-9a-f]{32}|urn:request:[0-9a-zA-Z]+|"expires_ms":[0-9]+')


class Twins:
    """Sends each request to both daemons, compares their answers byte for byte, and returns the first one."""

    def __init__(self, *daemons):
        self.daemons, self.ids = daemons, {}

    def ask(self, method, path, *args, **kwargs):
        first = getattr(self.daemons[0], method)(path, *args, **kwargs)
        own = re.sub(r"[0-9a-f]{32}", lambda found: self.ids.get(found[0], found[0]), path)
        second = getattr(self.daemons[1], method)(own, *args, **kwargs)
        what = f"{method} {path}"
        assert first.status_code == second.status_code, what
        assert OWN.sub(b"@", first.content) == OWN.sub(b"@", second.content), f"{what}: {first.text[:300]} and {second.text[:300]}"
        self.ids.update(zip(re.findall(r"[0-9a-f]{32}", first.text), re.findall(r"[0-9a-f]{32}", second.text)))
        return first

    def get(self, *args, **kwargs):
        return self.ask("get", *args, **kwargs)

    def post(self, *args, **kwargs):
        return self.ask("post", *args, **kwargs)


@pytest.fixture(scope="module", params=tables.available())
def twins(request):
    daemons = [service.Daemon("--log", "off", "--ops-listen", "", env={
        "ATTN_ISA": request.param, "ATTN_FILL": fill, "GLIBC_TUNABLES": f"glibc.malloc.perturb={fill}"}) for fill in FILLS]
    yield Twins(*daemons)
    for daemon in daemons:
        daemon.stop()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_answers_hold_what_was_written(twins, check):
    for seed in SEEDS:
        try:
            check(twins, seed)
        except AssertionError as fault:
            pytest.fail(f"seed {seed}: {fault}", pytrace=False)
