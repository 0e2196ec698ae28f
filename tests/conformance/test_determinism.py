"""Equal requests give equal bytes: with 1 and 2 workers, alone and under load, in place and pooled."""
import json
import threading

import pytest

import random_forms
import tables
from serving import service
from random_requests import request

LARGE = [
    {"query": {"shape": [2, 4, 300, 64], "random": "normal", "seed": 1},
     "key": {"shape": [2, 2, 520, 64], "random": "normal", "seed": 2},
     "value": {"shape": [2, 2, 520, 48], "random": "normal", "seed": 3},
     "is_causal": True, "query_offset": "end", "return": ["output", "logsumexp"]},
    {"query": {"shape": [1, 1, 16, 32], "random": "normal", "seed": 4},
     "key": {"shape": [1, 1, 20000, 32], "random": "normal", "seed": 5},
     "value": {"shape": [1, 1, 20000, 8], "random": "normal", "seed": 6}, "return": ["output", "logsumexp"]},
    {"query": {"shape": [1, 8, 129, 64], "random": "normal", "seed": 7}, "window": [40, 3],
     "heatmap": {"max_cells": 4096, "pool": "both", "top_k": 3}, "return": ["output"]},
]
BODIES = [json.dumps(x) for x in LARGE] + [json.dumps(request(seed)) for seed in range(40)]
BODIES += [json.dumps(random_forms.request(seed)) for seed in range(1000, 1040)]


def answers(daemon):
    replies = [daemon.post("/v1/attention", body) for body in BODIES]
    for reply in replies:
        assert reply.status_code == 200, reply.text[:300]
    return [reply.content for reply in replies]


@pytest.fixture
def launch(start):
    return lambda isa, *args: start("--ops-listen", "", "--log", "off", *args, env={"ATTN_ISA": isa})


class Load:
    """Other people's requests, for as long as the block runs."""

    def __init__(self, daemon, threads=4):
        self.daemon, self.stop = daemon, threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(threads)]

    def work(self, i):
        session = service.requests.Session()
        while not self.stop.is_set():
            session.post(self.daemon.url + "/v1/attention", BODIES[i % len(BODIES)], timeout=60)
            i += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()


@pytest.mark.parametrize("isa", tables.available())
def test_equal_bytes(isa, launch):
    one = launch(isa, "--workers", "1")
    wanted = answers(one)
    assert answers(one) == wanted, "a second time"

    two = launch(isa, "--workers", "2")
    assert answers(two) == wanted, "with two workers"
    with Load(two):
        assert answers(two) == wanted, "under load"

    pooled = launch(isa, "--workers", "2", "--in-place-bytes", "0")
    assert answers(pooled) == wanted, "never in place"
