"""block_table: the pages of a cache, gathered. Their answers are the bytes of keys in one piece."""
import json

import numpy as np
import pytest
from api_client import ask, refused
from captured import store

from oracle import captures, pages

B, HQ, HKV, L, T, E, EV, COUNT = 3, 4, 2, 3, 4, 8, 6, 9
LENGTHS = [5, 1, 14]
TABLE = [[8, 0, -1, -1], [8, -1, -1, -1], [8, 3, 3, 1]]  # page 8 belongs to all entries, page 3 twice to one
RNG = np.random.default_rng(7)
QUERY, KEY, VALUE = (np.float32(RNG.standard_normal(s)).tolist()
                     for s in ((B, HQ, L, E), (COUNT, T, HKV, E), (COUNT, T, HKV, EV)))
BODY = {"query": QUERY, "key": KEY, "value": VALUE, "block_table": TABLE, "key_lengths": LENGTHS}
GATHERED = B * HKV * 14 * (E + EV) * 4  # bytes of keys and values in one piece
PARTS = ["output", "weights", "logsumexp", "scores", "inputs", "weighted_values", "row_sums"]


@pytest.mark.parametrize("fields", [
    {}, {"is_causal": True, "query_offset": "end"}, {"position": "alibi", "query_offset": "end"}, {"dropout_p": 0.3, "seed": 1},
    {"position": {"kind": "rotary", "layout": "halves"}}, {"window": [6, 0], "query_offset": "end", "sinks": [0.1, 0.2, 0.3, 0.4]},
    {"normalizer": "sparsemax"}, {"layout": "BLHE", "query": np.swapaxes(QUERY, 1, 2).tolist()}, {"precision": "bf16"},
    {"score": "dot", "softcap": 3, "attn_bias": np.ones((L, 14)).tolist()}])
def test_the_bytes_of_keys_in_one_piece(daemon, fields):
    """Gathered keys are those that the oracle gathers, with every field beside them."""
    body = BODY | {"return": PARTS, "explain": True, "analysis": "all", "heatmap": {}} | fields
    paged, whole = ask(daemon, body), ask(daemon, pages.gathered(body))
    assert paged["diagnostics"].pop("pages") == "7 blocks of 4 keys, gathered for 3 batch entries"
    work = paged["diagnostics"]["bytes"].pop("work"), whole["diagnostics"]["bytes"].pop("work")
    assert work[0] - work[1] == GATHERED and paged == whole


def test_an_entry_is_its_own_request(daemon):
    """Each entry, of any length, has the bytes that it has alone."""
    answer = ask(daemon, BODY | {"return": ["output", "logsumexp"]})
    for b, n in enumerate(LENGTHS):
        alone = BODY | {"query": [QUERY[b]], "block_table": [TABLE[b]], "key_lengths": [n]}
        alone = ask(daemon, alone | {"return": ["output", "logsumexp"]})
        assert alone["output"] == [answer["output"][b]] and alone["logsumexp"] == [answer["logsumexp"][b]]


TURNED = {name: np.swapaxes(BODY[name], 1, 2).tolist() for name in ("key", "value")} | {"block_layout": "HND"}


def test_heads_before_rows(daemon):
    """FlashInfer's two orders of axes hold the same keys."""
    beside = {"return": PARTS, "explain": True, "is_causal": True, "query_offset": "end"}
    assert ask(daemon, BODY | TURNED | beside) == ask(daemon, BODY | {"block_layout": "NHD"} | beside) == ask(daemon, BODY | beside)


@pytest.mark.parametrize("fields", [
    {}, TURNED, {"is_causal": True, "query_offset": "end", "sinks": [0.1, 0.2, 0.3, 0.4]},
    {"layout": "BLHE", "query": np.swapaxes(QUERY, 1, 2).tolist()} | TURNED])
def test_gradients_are_those_of_the_pools(daemon, fields):
    """Page 8 belongs to all entries, page 3 twice to one, and pages 2 and 4 to 7 to nobody."""
    body = BODY | fields
    shape = (B, L, HQ, EV) if body.get("layout") == "BLHE" else (B, HQ, L, EV)
    loss = {"grad_output": np.random.default_rng(2).standard_normal(shape).tolist(), "return": ["gradients"]}
    loss |= {"grad_logsumexp": np.random.default_rng(3).standard_normal((B, HQ, L)).tolist()}
    pools, whole = (ask(daemon, x | loss)["gradients"] for x in (body, pages.gathered(body)))
    assert pools["query"] == whole["query"] and set(pools) == set(whole)
    for name in ("key", "value"):
        want = pages.scattered(body, np.array(whole[name]), name)
        assert np.abs(np.array(pools[name]) - want).max() < 1e-6 and not np.array(pools[name])[[2, 4, 5, 6, 7]].any()


def test_a_dry_run_of_gradients(daemon):
    body = BODY | TURNED | {"grad_output": np.zeros((B, HQ, L, EV)).tolist(), "return": ["gradients"], "dry_run": True}
    shapes = ask(daemon, body)["dry_run"]["shapes"]
    assert shapes["gradients/key"] == [COUNT, HKV, T, E] and shapes["gradients/value"] == [COUNT, HKV, T, EV]


def test_gradients_of_large_pools_are_counted(start):
    """A pool of a million rows, of which one is read, has a gradient of as many."""
    daemon = start("--max-request-bytes", str(40 << 20))
    pool = {"shape": [2**16, 16, 1, 4], "random": "normal", "seed": 4, "dtype": "float16"}
    body = {"query": [[[[1, 0, 0, 1]]]], "key": pool, "block_table": [[3]], "key_lengths": [1], "value": pool}
    assert ask(daemon, body | {"return": ["output"]})
    refused(daemon, body | {"grad_output": [[[[1, 0, 0, 1]]]], "return": ["gradients"]}, "too_large", None, "", status=413)


def test_weights_without_values(daemon):
    body = {name: x for name, x in BODY.items() if name != "value"}
    assert ask(daemon, body)["weights"] == ask(daemon, BODY)["weights"]


def test_what_no_entry_reads(daemon):
    """Rows behind the last key and pages of no entry may hold anything."""
    key = np.array(KEY, np.float32)
    key[1, 2:] = key[0, 1:] = key[5] = np.nan
    beside = {"key": key.astype(object), "allow_nonfinite": False}
    beside["key"] = [[[[None if x != x else x for x in h] for h in row] for row in page] for page in key.tolist()]
    body = BODY | {"block_table": [[8, 0, 10**6, -7], [8, 99, 0, 0], TABLE[2]]}
    assert ask(daemon, body) == ask(daemon, BODY)


def test_random_pools(daemon):
    """A pool may be large and random; it is drawn after the request is admitted."""
    pool = {"shape": [64, 16, 2, 8], "random": "normal", "seed": 4}
    body = {"query": {"shape": [2, 4, 1, 8], "random": "normal", "seed": 1}, "key": pool, "value": pool | {"seed": 5},
            "block_table": [list(range(40)), list(range(63, 23, -1))], "key_lengths": [640, 3], "return": ["output"]}
    assert ask(daemon, body) == ask(daemon, pages.gathered(body))


def test_a_dry_run(daemon):
    dry = ask(daemon, BODY | {"dry_run": True})["dry_run"]
    assert dry["shapes"]["weights"] == [B, HQ, L, 14]
    refused(daemon, BODY | {"dry_run": True, "block_table": [[8, 0], [8, -1], [8, 3]]}, "invalid_value", "/key_lengths/2", "0 to 8 keys")
    whole = ask(daemon, pages.gathered(BODY) | {"dry_run": True})["dry_run"]
    assert dry["num_cells"] == whole["num_cells"] and dry["num_operations"] == whole["num_operations"]


def test_a_run_holds_gathered_keys(start, tmp_path):
    daemon = start("--runs-dir", str(tmp_path))
    answer = ask(daemon, BODY | {"store": True, "return": ["weights"]})
    weights = np.array(answer["weights"], np.float32)
    run = answer["run"]["id"]
    for again in range(2):
        for b in range(B):
            reply = daemon.get(f"/v1/runs/{run}/weights?batch={b}&heads=all&rows=0:{L}")
            assert (np.array(reply.json()["weights"], np.float32) == weights[b]).all()
        daemon.stop()
        daemon = start("--runs-dir", str(tmp_path))


@pytest.mark.parametrize("fields, code, pointer, says", [
    ({"block_table": [[8, -1, -1, -1], *TABLE[1:]]}, "invalid_value", "/block_table/0/1", "one of the 9 blocks, because the entry has 5"),
    ({"block_table": [*TABLE[:2], [8, 3, 9, 1]]}, "invalid_value", "/block_table/2/2", "found 9"),
    ({"block_table": [*TABLE[:2], [8, 3, -2, 1]]}, "invalid_value", "/block_table/2/2", "found -2"),
    ({"block_table": TABLE[:2]}, "shape_mismatch", "/block_table", "expected [3, max_blocks]"),
    ({"block_table": TABLE[0]}, "shape_mismatch", "/block_table", "found [4]"),
    ({"block_table": [[0.5] * 4] * 3}, "invalid_value", "/block_table/0/0", "expected an integer"),
    ({"key_lengths": [5, 1, 17]}, "invalid_value", "/key_lengths/2", "0 to 16 keys, which 4 blocks of 4 hold, found 17"),
    ({"key_lengths": [-1, 1, 14]}, "invalid_value", "/key_lengths/0", "found -1"),
    ({"key_lengths": [5, 1]}, "shape_mismatch", "/key_lengths", "expected [3]"),
    ({"key_lengths": None}, "invalid_value", "/block_table", "key_lengths"),
    ({"key": None, "value": None}, "invalid_value", "/block_table", "key"),
    ({"key": [KEY]}, "shape_mismatch", "/key", "rank 5"),
    ({"key": KEY[0]}, "shape_mismatch", "/key", "num_blocks, block_size, Hkv, E"),
    ({"value": VALUE[1:]}, "shape_mismatch", "/value", "expected blocks like those of key, [9, 4, 2, Ev], found [8, 4, 2, 6]"),
    ({"query": QUERY[0]}, "shape_mismatch", "/query", "batch and heads"),
    ({"layout": "BLD", "num_heads": 2}, "invalid_value", "/layout", "BHLE and BLHE"),
    ({"past_key": [[[[0] * E]]], "past_value": [[[[0] * EV]]]}, "invalid_value", "/block_table", "hold all keys"),
    ({"projections": {"num_heads": 2}}, "invalid_value", "/block_table", "projected keys"),
    ({"block_layout": "HND", "key": KEY[0]}, "shape_mismatch", "/key", "num_blocks, Hkv, block_size, E"),
    ({"block_layout": "HND"}, "invalid_value", "/block_table/0/2", "5 keys in blocks of 2, found -1"),
    ({"block_layout": "hnd"}, "invalid_value", "/block_layout", "HND"),
    ({"block_table": None, "block_layout": "HND"}, "invalid_value", "/block_layout", "needs block_table")])
def test_errors(daemon, fields, code, pointer, says):
    body = {name: x for name, x in (BODY | fields).items() if x is not None}
    refused(daemon, body, code, pointer, says)


@pytest.mark.parametrize("turned", [{}, TURNED])
def test_a_capture_of_a_cache(start, tmp_path, turned):
    """A capture takes the pools as they are: its weights, outputs and norms of values are to the bit those of the request, in a
    file of the service, too, and its bytes count what is gathered."""
    body = BODY | turned | {"is_causal": True, "query_offset": "end"}
    answer = ask(daemon := start("--runs-dir", str(tmp_path), env={"ATTN_ISA": "ref"}), body | {"return": ["weights", "weighted_values"]})
    whole = captures.File({"version": 2, "sites": [{n: body[n] for n in (
        "is_causal", "query_offset", "key_lengths", "block_layout") if n in body}]}, {
        f"sites.0.{n}": ("I64" if n == "block_table" else "F32", np.array(body[n])) for n in ("query", "key", "value", "block_table")})
    file = captures.write(whole)
    stored = store(daemon, file)
    assert stored["sites"][0]["pages"] == "7 blocks of 4 keys, gathered for 3 batch entries"
    assert stored["bytes"] > GATHERED + len(file)
    for again in range(2):
        for b in range(B):
            got = daemon.get(f"/v1/runs/{stored['id']}/weights?batch={b}&heads=all&rows=0:{L}").json()
            assert got["weights"] == answer["weights"][b]
        cell = daemon.get(f"/v1/runs/{stored['id']}/cells?batch=2&head=1&row=2&col=13").json()
        assert cell["weight"] == answer["weights"][2][1][2][13] and cell["weight"] > 0
        daemon.stop()
        daemon = start("--runs-dir", str(tmp_path), env={"ATTN_ISA": "ref"})
    data = (path := tmp_path / f"{stored['id']}.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    for name in ("key", "block_table"):  # block 8 of the first sequence becomes 0
        damaged = bytearray(data)
        damaged[8 + size + json.loads(data[8:8 + size])[f"sites.0.{name}"]["data_offsets"][0]] ^= 8
        daemon.stop()
        path.write_bytes(damaged)
        daemon = start("--runs-dir", str(tmp_path), env={"ATTN_ISA": "ref"})
        assert daemon.get(f"/v1/runs/{stored['id']}/cells?batch=2&head=1&row=2&col=13").status_code == 500, name


def test_captures_of_caches_beyond_the_memory_of_a_run(start):
    """A small file may name a block often: what all its sites gather is bounded before anything is gathered."""
    daemon = start("--max-request-bytes", str(4 << 20))
    sites = [{"query": "q", "key": "k", "block_table": "t", "key_lengths": [4 * 2**12]} for _ in range(5)]
    tensors = {"q": ("F32", np.zeros((1, 1, 1, 16))), "k": ("F32", np.zeros((1, 4, 1, 16))), "t": ("I32", np.zeros((1, 2**12)))}
    store(daemon, captures.write(captures.File({"version": 2, "sites": sites[:3]}, tensors)))
    problem = store(daemon, captures.write(captures.File({"version": 2, "sites": sites}, tensors)), status=413)
    assert problem["pointer"] == "/sites/4/block_table" and problem["limit"] == {"value": 4 << 20, "setting": "max_request_bytes"}, problem
