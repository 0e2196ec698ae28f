"""Several hundred random requests against the oracle, on every kernel table."""
import json

import pytest

from serving import FLOAT32, FLOAT64, ask, compare
from oracle import tensors
from oracle.attention import served
from random_requests import request

SEEDS = range(400)


@pytest.mark.parametrize("block", range(0, len(SEEDS), 20))
def test_random(table, block):
    for seed in SEEDS[block : block + 20]:
        body = request(seed)
        double = any(tensors.dtype_of(body[n]) == "float64" for n in ("query", "key", "value") if n in body)
        try:
            compare(ask(table, body), served(body), FLOAT64 if double else FLOAT32)
        except AssertionError as fault:
            fields = {k: v for k, v in body.items() if len(json.dumps(v)) < 200}
            pytest.fail(f"seed {seed} {fields}: {fault}")
