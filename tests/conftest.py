"""Fixtures of all Python tests but tests/http, which has its own."""
import pytest

import tables
from serving import service

start = service.start


@pytest.fixture(scope="session", params=tables.available())
def table(request):
    """One daemon a kernel table, for the whole run."""
    daemon = service.Daemon("--ops-listen", "", "--log", "off", env={"ATTN_ISA": request.param})
    assert daemon.kernels == request.param
    yield daemon
    daemon.stop()
