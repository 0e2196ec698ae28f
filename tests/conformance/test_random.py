"""Several hundred random requests against the oracle, on every kernel table."""
import json

import pytest

import tables
from serving import FLOAT32, FLOAT64, ask, compare
from oracle import tensors
from oracle.attention import served
from random_requests import request

SEEDS = tables.share(range(400))


def fault_of(daemon, body, bound):
    try:
        compare(ask(daemon, body), served(body), bound)
    except AssertionError as fault:
        return str(fault)
    return None


@pytest.mark.parametrize("block", range(0, len(SEEDS), 20))
def test_random(table, block):
    for seed in SEEDS[block : block + 20]:
        body = request(seed)
        double = any(tensors.dtype_of(body[n]) == "float64" for n in ("query", "key", "value") if n in body)
        fault = fault_of(table, body, FLOAT64 if double else FLOAT32)
        if fault:
            fields = {k: v for k, v in body.items() if len(json.dumps(v)) < 200}
            pytest.fail(f"seed {seed} {fields}: {fault}", pytrace=False)
