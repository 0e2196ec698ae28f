"""A daemon and its document. The tools are those of package.json and requirements.txt here (make check-clients)."""
import pytest

from serving import service


@pytest.fixture(scope="session")
def daemon():
    running = service.Daemon("--ops-listen", "", "--log", "off")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def document(daemon, tmp_path_factory):
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(daemon.get("/openapi.json").content)
    return path
