"""Fixtures of all Python tests but tests/http, which has its own."""
import pytest

import tables
from serving import Daemon, service

start = service.start


# What runs on emulated tables, too: they are slow, and what they share with others is tested there.
ON_EMULATED = {"test_nan.py", "test_onnx.py"}
LONGEST = "test_schemathesis.py"  # begun first, so that no process waits for it at the end


def pytest_collection_modifyitems(config, items):
    def left_out(item):
        table = getattr(item, "callspec", None) and item.callspec.params.get("table")
        return table in tables.emulated() and item.path.name not in ON_EMULATED

    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = [item for item in items if not left_out(item)]
    items.sort(key=lambda item: item.path.name != LONGEST)


@pytest.fixture(scope="session", params=tables.available() + tables.emulated())
def table(request):
    """One daemon a kernel table, for the whole run."""
    daemon = Daemon("--ops-listen", "", "--log", "off", env={"ATTN_ISA": request.param})
    assert daemon.kernels == request.param
    yield daemon
    daemon.stop()
