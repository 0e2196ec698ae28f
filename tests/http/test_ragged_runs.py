"""Stored runs of ragged batches: a site for each entry, whose cells are those of the run of its own request, bit for bit."""
import numpy as np
import pytest
from api_client import array, ask
from test_api_async import NOW, ended
from test_ragged import HQ, KEYS, LENGTHS, LISTS, QUERIES, SUMS, single

FIELDS = [{}, {"is_causal": True, "query_offset": "end"}, {"window": [6, 0], "sinks": [0.1, 0.2, 0.3, 0.4]}, {"position": "alibi"}, {"normalizer": "sparsemax"}]


def cells(daemon, run, site, rows):
    reply = daemon.get(f"/v1/runs/{run['id']}/weights?site={site}&heads=all" + (f"&rows=0:{rows}" if rows else ""))
    assert reply.status_code == 200, reply.text
    return reply.json()


def check_sites(daemon, run, layout, fields):
    assert [s["name"] for s in run["sites"]] == [f"attention.{b}" for b in range(len(QUERIES))]
    assert [s["call"] for s in run["sites"]] == list(range(len(QUERIES)))
    for b, (n, m) in enumerate(zip(QUERIES, KEYS)):
        assert run["sites"][b]["weights_shape"] == [1, HQ, n, m]
        alone = ask(daemon, single(b, layout) | fields | {"store": True, "return": []})["run"]
        assert cells(daemon, run, f"attention.{b}", n) | {"site": 0} == cells(daemon, alone, "attention", n) | {"site": 0}
        daemon.request("DELETE", f"/v1/runs/{alone['id']}")


@pytest.mark.parametrize("fields", FIELDS)
def test_a_site_is_the_run_of_its_entry(daemon, fields):
    for body, layout in ((LISTS, "BHLE"), (LENGTHS, "BLHE"), (SUMS, "BLHE")):
        answer = ask(daemon, body | fields | {"store": True, "return": ["weights"]})
        check_sites(daemon, answer["run"], layout, fields)
        for b, n in enumerate(QUERIES):
            if n:
                got = array(cells(daemon, answer["run"], f"attention.{b}", n)["weights"])
                assert np.array_equal(got.reshape(HQ, n, KEYS[b]), array(answer["weights"][b]))
        daemon.request("DELETE", f"/v1/runs/{answer['run']['id']}")


def test_a_job_stores_the_same_run(daemon):
    reply = daemon.post("/v1/attention", LENGTHS | {"store": True, "explain": True, "verify": 3}, headers=NOW)
    assert reply.status_code == 202, reply.text
    job = ended(daemon, reply.json())
    assert job["state"] == "done", job
    run = daemon.get(f"/v1/runs/{job['run'].rsplit('/', 1)[-1]}").json()
    check_sites(daemon, run, "BLHE", {})


def test_the_cost_of_the_run_is_counted(daemon):
    """As for the requests of the entries."""
    dry = [ask(daemon, x | {"store": True, "return": [], "dry_run": True})["dry_run"]["num_operations"] for x in (LENGTHS, *(single(b, "BLHE") for b in range(5)))]
    assert dry[0] == sum(dry[1:])
