"""Clients beside each other: long work has its share of the request threads, clients take turns, a full queue makes
room, and what is cheap never waits. By counters, so that slow machines tell the same; latencies are in tests/fault."""
import concurrent.futures
import contextlib
import socket
from statistics import median

import pytest
import requests
from test_daemon_load import eventually, work
from test_daemon_protocol import post as http_post

from conftest import PATIENCE, write_keys

ONE, OTHER = "oneoneoneoneoneone", "otherotherotherother"
LONG = work().replace("[200000, 64]", "[200000, 1]").encode()  # soon decoded, and running for longer than a test
SHORT = work(1000)  # some milliseconds on a request thread: too much for the HTTP thread
THREADS = ("--workers", "2", "--requests-running", "4")


def post(daemon, body, key=None, timeout=PATIENCE):
    headers = {"Content-Type": "application/json"} | ({"Authorization": "Bearer " + key} if key else {})
    return requests.post(daemon.url + "/v1/attention", data=body, headers=headers, timeout=timeout)


@pytest.fixture
def keyed(start, tmp_path):
    keys = write_keys(tmp_path, f"one:{ONE}", f"other:{OTHER}")
    return lambda *args: start("--keys-file", keys, *args)


@contextlib.contextmanager
def held(daemon, count, key=None, source="127.0.0.1"):
    """So many connections, each with a request that runs until it is closed."""
    lines = (f"Authorization: Bearer {key}",) if key else ()
    sockets = [socket.create_connection((daemon.host, daemon.port), PATIENCE, (source, 0)) for _ in range(count)]
    for sock in sockets:
        sock.sendall(http_post(LONG, f"Content-Length: {len(LONG)}", *lines))
    try:
        yield
    finally:
        for sock in sockets:
            sock.close()


def flood(daemon, body, key, clients, answers):
    """So many connections of a key, each with a request at any time, until `answers` is closed."""
    def client():
        while not answers.closed:
            answers.append(post(daemon, body, key).status_code)
    pool = concurrent.futures.ThreadPoolExecutor(clients)
    for _ in range(clients):
        pool.submit(client)
    return pool


class Answers(list):
    closed = False


def test_short_requests_run_beside_a_flood_of_long_ones(start):
    daemon = start(*THREADS)
    with held(daemon, 8):
        assert eventually(lambda: daemon.metric("attnd_long_waiting") == 6)
        assert daemon.metric("attnd_long_running") == daemon.metric("attnd_long_limit") == 2
        assert daemon.metric("attnd_long_put_back_total") >= 2
        for _ in range(20):
            assert post(daemon, SHORT).status_code == 200
        assert daemon.metric("attnd_long_running") == 2
    assert eventually(lambda: daemon.metric("attnd_long_waiting") + daemon.metric("attnd_long_running") == 0)


def test_the_share_is_a_setting(start):
    for share, limit in (("0", 1), ("0.8", 3), ("1", 3)):
        daemon = start(*THREADS, "--long-share", share)
        with held(daemon, 5):
            assert eventually(lambda: daemon.metric("attnd_long_waiting") == 5 - limit)
            assert daemon.metric("attnd_long_running") == limit
            assert post(daemon, SHORT).status_code == 200


def test_a_request_that_waited_as_long_answers_as_any(start):
    """Its handler has run twice, once in vain."""
    daemon = start(*THREADS, "--long-ms", "1")
    bodies = [work(3000 + i, decimals=3) for i in range(8)]
    alone = [post(daemon, body).content for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        beside = list(pool.map(lambda body: post(daemon, body).content, bodies * 3))
    assert beside == alone * 3
    assert daemon.metric("attnd_long_put_back_total") > 0


def test_what_turns_out_to_be_long_keeps_nobody_out(start):
    """Drawing random numbers is no predicted work."""
    daemon = start(*THREADS, "--long-ms", "50")
    slow = b'{"query":[[1,0]],"attn_bias":{"shape":[8000,8000],"random":"normal","seed":1}}'
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for _ in range(6):
            pool.submit(post, daemon, slow)
        assert eventually(lambda: daemon.metric("attnd_queue_running") >= 4)
        assert post(daemon, SHORT).status_code == 200
        assert daemon.metric("attnd_queue_running") >= 2, "they still run"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/en-fr", "/v1/jobs", "/v1/examples"])
def test_cheap_requests_need_no_thread(start, path):
    daemon = start("--requests-running", "1", "--workers", "1", "--queue-length", "1")
    want = daemon.get(path).content
    with held(daemon, 1):
        assert eventually(lambda: daemon.metric("attnd_queue_running") == 1)
        with held(daemon, 1):
            assert eventually(lambda: daemon.metric("attnd_queue_waiting") == 1)
            assert daemon.get(path, timeout=5).content == want


def test_keys_take_turns(keyed):
    """However many of one key wait, a request of the other is served after few of them: as the log says, each waited
    for less than a quarter of what those of the flood did."""
    daemon = keyed(*THREADS)
    answers = Answers()
    with flood(daemon, work(3000), ONE, 40, answers):
        assert eventually(lambda: len(answers) > 120)
        for _ in range(8):
            assert post(daemon, work(3000), OTHER).status_code == 200
        answers.closed = True
    assert set(answers) == {200}
    waited = {key: [line["queue_ms"] for line in daemon.log(1, key=key)] for key in ("one", "other")}
    assert len(waited["other"]) == 8
    full = waited["one"][40:-40]  # the first 40 found an empty queue, the last 40 a queue that nobody filled again
    assert median(waited["other"]) < median(full) / 4, waited


def test_who_uses_more_processor_time_gets_fewer_turns(keyed):
    """Both keys get half of the processor, one of them for requests that take dozens of times as long."""
    def constant(n):  # random numbers would take longer than attention does, in proportion to n
        return work(n, **{name: {"shape": [n, width], "fill": "ones"} for name, width in
                          (("query", 64), ("key", 64), ("value", 1))})
    daemon = keyed("--workers", "1", "--requests-running", "2")
    heavy, light = Answers(), Answers()
    with flood(daemon, constant(8000), ONE, 8, heavy), flood(daemon, constant(1000), OTHER, 8, light):
        assert eventually(lambda: len(heavy) >= 8)
        heavy.closed = light.closed = True
        counts = len(light), len(heavy)
    assert counts[0] > 5 * counts[1], counts


def metric(daemon, name, key=None):
    lines = daemon.get("/metrics", headers={"Authorization": f"Bearer {key}"} if key else {}).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


@contextlib.contextmanager
def full_queue(daemon, **whose):
    """Two run; then others come until no more may wait."""
    with held(daemon, 2, **whose):
        assert eventually(lambda: metric(daemon, "attnd_queue_running", whose.get("key")) == 2)
        with held(daemon, 12, **whose):
            assert eventually(lambda: metric(daemon, "attnd_long_waiting", whose.get("key")) >= 6)
            yield


def test_a_full_queue_makes_room_for_another_key(keyed):
    daemon = keyed(*THREADS, "--queue-length", "6")
    with full_queue(daemon, key=ONE):
        assert post(daemon, SHORT, ONE).status_code == 503
        assert {post(daemon, SHORT, OTHER).status_code for _ in range(5)} == {200}


def test_a_full_queue_makes_room_for_another_address(start):
    daemon = start(*THREADS, "--queue-length", "6")
    with full_queue(daemon, source="127.0.0.2"):
        assert {post(daemon, SHORT).status_code for _ in range(5)} == {200}


def test_one_key_never_has_all_threads(keyed):
    """Though it may send as many requests as it likes."""
    daemon = keyed(*THREADS, "--long-ms", "60000")
    answers = Answers()
    with flood(daemon, work(4000), ONE, 8, answers):
        assert eventually(lambda: metric(daemon, "attnd_queue_waiting", ONE) > 0)
        assert max(metric(daemon, "attnd_queue_running", ONE) for _ in range(20)) <= 3
        answers.closed = True


def test_a_standing_queue_is_told_from_a_full_one(start):
    """Which setting it was, and how much that allows."""
    daemon = start("--workers", "1", "--requests-running", "1", "--queue-target-ms", "100", "--request-timeout-ms", "3000",
                   "--in-place-bytes", "1")
    refused = []

    def ask_at_once():
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            replies = list(pool.map(lambda _: post(daemon, work(20000)), range(12)))
        refused.extend(reply.json() for reply in replies if reply.status_code == 503)
        return refused
    assert eventually(ask_at_once)  # however fast the machine is, and whatever it does beside
    assert {problem["code"] for problem in refused} == {"queue_full"}
    assert all(problem["limit"] == {"value": 100, "setting": "queue_target_ms"} for problem in refused), refused
