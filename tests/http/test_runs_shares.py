"""runs_bytes among several keys: what makes room for a run, and that nothing does before the run is whole and valid."""
import pytest
from test_runs_imported import CAPTURE, accepted, bearer, capture, refused, send

from conftest import write_keys

ALICE, BOB = "alicealicealicealice", "bobbobbobbobbobbobbob"
MOST = 1_000_000
WIDTH = {100_000: 50, 200_000: 100, 500_000: 225, 900_000: 450}  # of captures of about so many bytes


@pytest.fixture(scope="module")
def sized(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captures")
    return {size: capture(folder / str(size), 250, width).read_bytes() for size, width in WIDTH.items()}


@pytest.fixture(params=["directory", "memory"])
def service(start, tmp_path, request):
    keys = write_keys(tmp_path, f"alice:{ALICE}", f"bob:{BOB}")
    place = ()
    if request.param == "directory":
        for name in ("runs", "captures"):
            (tmp_path / name).mkdir()
        place = ("--runs-dir", str(tmp_path / "runs"), "--captures-dir", str(tmp_path / "captures"))
    daemon = start("--keys-file", keys, "--ops-listen", "", "--runs-bytes", str(MOST), *place)
    daemon.captures = tmp_path / "captures" if place else None
    return daemon


def bring(service, data, key):
    return send(service, data, CAPTURE | bearer(key))


def states(service, paths):
    return [service.get(path, headers=bearer(ALICE)).status_code for path in paths]


def stored(service, sized, key, *sizes):
    return [accepted(bring(service, sized[size], key)) for size in sizes]


def test_an_upload_that_is_broken_off_removes_nothing(service, sized):
    runs = stored(service, sized, ALICE, 100_000, 200_000, 500_000)
    head = (f"POST /v1/runs HTTP/1.1\r\nHost: {service.host}\r\nAuthorization: Bearer {BOB}\r\n"
            "Content-Type: application/vnd.safetensors\r\n")
    for more in (f"Content-Length: {MOST}\r\n\r\n", "Content-Length: 300000\r\n\r\n",
                 "Transfer-Encoding: chunked\r\n\r\n30d40\r\n"):
        service.raw(head.encode() + more.encode() + b"x" * 200_000, timeout=1)
    assert states(service, runs) == [200] * 3


@pytest.mark.parametrize("size", [200_000, 300_000, MOST])
def test_a_body_that_is_no_run_removes_nothing(service, sized, size):
    runs = stored(service, sized, ALICE, 100_000, 200_000, 500_000)
    reply = bring(service, b"\x10" + bytes(7) + b"x" * (size - 8), BOB)
    assert reply.status_code in (400, 507), reply.text
    if service.captures:
        (service.captures / "x").write_bytes(b"\x10" + bytes(7) + b"x" * (size - 8))
        assert service.post("/v1/runs", {"file": "x", "copy": True}, headers=bearer(BOB)).status_code in (422, 507)
    assert states(service, runs) == [200] * 3


def test_who_has_the_most_makes_room(service, sized):
    many = stored(service, sized, ALICE, 200_000, 200_000, 500_000)
    few = stored(service, sized, BOB, 200_000)
    assert states(service, many + few) == [410, 200, 200, 200], "the oldest of the key with more"


def test_who_would_have_the_most_is_refused(service, sized):
    runs = stored(service, sized, ALICE, 100_000, 200_000)
    problem = refused(bring(service, sized[900_000], BOB), 507, "storage_full", "no older run")
    assert problem["limit"] == {"value": MOST, "setting": "runs_bytes"}
    own = stored(service, sized, BOB, 500_000, 500_000)
    assert states(service, runs + own) == [200, 200, 410, 200], "his own run made room"
    wide = {"query": {"shape": [1, 4_500, 4], "random": "normal", "seed": 1}, "store": True, "return": []}
    reply = service.post("/v1/attention", wide, headers=bearer(BOB))
    assert reply.status_code == 507 and reply.json()["pointer"] == "/store", reply.text[:300]
    assert states(service, runs + own) == [200, 200, 410, 200]

