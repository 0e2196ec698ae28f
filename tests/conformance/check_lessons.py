"""The numbers of the lessons about models that `make models` has fetched (make check-models)."""
import pytest

from lesson_facts import LESSONS, faults_of
from serving import service

MODELS = service.ROOT / "build" / "models"
NEED = {name: lesson for name, lesson in LESSONS.items() if "needs" in lesson}


@pytest.fixture(scope="module")
def daemon():
    running = service.Daemon("--models-dir", str(MODELS), "--log", "off")
    yield running
    running.stop()


@pytest.mark.parametrize("name", NEED)
def test_every_fact_is_what_the_service_says(daemon, name):
    assert list(faults_of(daemon, NEED[name])) == []
