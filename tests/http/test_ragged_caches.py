"""Caches of a ragged batch: past_key and past_value of each entry, or blocks of a pool that entries share. An entry has the bytes
of its own request."""
import numpy as np
import pytest
from api_client import ask, refused
from test_ragged import HQ, PARTS, QUERIES

from oracle import tensors

RNG = np.random.default_rng(21)
HKV, E, EV, T = 2, 8, 6, 4
PAST = [5, 0, 130, 1, 17]
NEW = [3, 1, 40, 2, 9]
B = range(len(PAST))
assert len(QUERIES) == len(PAST)


def rows(heads, lengths, width):
    return [np.float32(RNG.standard_normal((heads, n, width))) for n in lengths]


def listed(x):
    return [item.tolist() for item in x]


def one(x):
    return {"shape": [1, *x.shape], "dtype": "float32", "data": x.ravel().tolist()} if x.size == 0 else [x.tolist()]


OPERANDS = {"query": rows(HQ, QUERIES, E), "key": rows(HKV, NEW, E), "value": rows(HKV, NEW, EV)}
CACHES = {"past_key": rows(HKV, PAST, E), "past_value": rows(HKV, PAST, EV)}
LISTS = {name: listed(x) for name, x in (OPERANDS | CACHES).items()}


def packed(x):
    return np.concatenate([np.swapaxes(item, 0, 1) for item in x]).tolist()


PACKED = {name: packed(x) for name, x in OPERANDS.items()} | {"query_lengths": QUERIES, "key_lengths": NEW} | {n: LISTS[n] for n in CACHES}


def swapped(x):
    """[L, H, E] as [H, L, E]."""
    return np.swapaxes(x, 0, 1).tolist() if x else [[]] * HQ


def alone(daemon, b, **fields):
    return ask(daemon, {name: one(x[b]) for name, x in (OPERANDS | CACHES).items()} | fields)


def same(answer, own, b, names):
    for name in names:
        assert own[name][0] == answer[name][b], (name, b)


@pytest.mark.parametrize("fields", [
    {}, {"is_causal": True, "query_offset": "end"}, {"position": {"kind": "rotary", "layout": "halves", "past": "raw"}}, {"window": [9, 9]}])
def test_caches(daemon, fields):
    """As lists, also an empty cache; the output of packed operands is that of lists."""
    fields |= {"return": ["output", "weights", "logsumexp", "present"]}
    answer, also = ask(daemon, LISTS | fields), ask(daemon, PACKED | fields)
    for b in B:
        own = alone(daemon, b, **fields)
        same(answer, own, b, ("output", "weights", "logsumexp"))
        assert also["weights"][b] == own["weights"][0] and swapped(also["output"][b]) == own["output"][0]


def test_numbers_of_keys_count_caches(daemon):
    """document_ids of packed keys are those of the cache and of the new keys of each entry."""
    ids = [RNG.integers(0, 3, n + p) for n, p in zip(NEW, PAST)]
    fields = {"query_offset": "end", "return": ["weights"]}
    for body in (PACKED | {"document_ids": np.concatenate(ids).tolist()}, LISTS | {"document_ids": listed(ids)}):
        answer = ask(daemon, body | fields)
        for b in B:
            same(answer, alone(daemon, b, document_ids=[ids[b].tolist()], **fields), b, ["weights"])


def test_a_step_with_caches_of_several_lengths(daemon):
    """Queries and keys of one shape, and caches that differ: a step of a generation."""
    body = {"query": {"shape": [5, HQ, 1, E], "random": "normal", "seed": 3}, "key": {"shape": [5, HKV, 1, E], "random": "normal", "seed": 4},
            "value": {"shape": [5, HKV, 1, EV], "random": "normal", "seed": 5}} | {n: LISTS[n] for n in CACHES}
    drawn = {name: np.float32(tensors.read(x)) for name, x in body.items() if name not in CACHES}
    answer = ask(daemon, body | {"return": ["output", "weights"]})
    for b in B:
        own = {name: one(x[b]) for name, x in drawn.items()} | {n: one(CACHES[n][b]) for n in CACHES}
        same(answer, ask(daemon, own | {"return": ["output", "weights"]}), b, ["weights", "output"])


def test_gradients_of_caches(daemon):
    loss = rows(HQ, QUERIES, EV)
    answer = ask(daemon, LISTS | {"grad_output": listed(loss), "return": ["gradients"]})["gradients"]
    for b in B:
        own = alone(daemon, b, grad_output=one(loss[b]), **{"return": ["gradients"]})["gradients"]
        assert set(own) == set(answer) - ({"past_key", "past_value"} if not PAST[b] else set())
        same(answer, own, b, own)


# --- blocks ---

KEYS = [9, 1, 14, 4, 6]
TABLE = [[3, 0, 5, -1], [1, -1, -1, -1], [3, 3, 2, 6], [0, -1, -1, -1], [3, 7, -1, -1]]
POOLS = {"key": RNG.standard_normal((8, T, HKV, E)).tolist(), "value": RNG.standard_normal((8, T, HKV, EV)).tolist()}
BLOCKS = POOLS | {"block_table": TABLE, "key_lengths": KEYS}
SUMS = [0, *np.cumsum(QUERIES).tolist()]
WAYS = {"lists": ({"query": listed(OPERANDS["query"])}, "BHLE"), "lengths": ({"query": packed(OPERANDS["query"]), "query_lengths": QUERIES}, "BLHE"),
        "cu_seqlens": ({"query": packed(OPERANDS["query"]), "cu_seqlens": SUMS}, "BLHE")}


def of_blocks(b, layout):
    query = OPERANDS["query"][b] if layout == "BHLE" else np.swapaxes(OPERANDS["query"][b], 0, 1)
    return POOLS | {"query": one(query), "layout": layout, "block_table": [TABLE[b]], "key_lengths": [KEYS[b]]}


@pytest.mark.parametrize("way", WAYS)
def test_blocks(daemon, way):
    """Queries of any number beside the blocks of their entry, as flash-attention and vLLM take them."""
    query, layout = WAYS[way]
    for fields in ({}, {"is_causal": True, "query_offset": "end", "position": "alibi"}, {"document_ids": listed([np.arange(n) % 2 for n in KEYS])}):
        more = {"return": PARTS}
        answer = ask(daemon, BLOCKS | query | fields | more)
        for b in B:
            own = fields | ({"document_ids": [fields["document_ids"][b]]} if "document_ids" in fields else {})
            same(answer, ask(daemon, of_blocks(b, layout) | own | more), b, ("output", "weights", "logsumexp"))


def test_gradients_of_blocks(daemon):
    """The gradients of the pools are sums over the entries, which share block 3."""
    loss = rows(HQ, QUERIES, EV)
    body = BLOCKS | WAYS["lists"][0] | {"grad_output": listed(loss), "return": ["gradients"]}
    answer = ask(daemon, body)["gradients"]
    own = [ask(daemon, of_blocks(b, "BHLE") | {"grad_output": one(loss[b]), "return": ["gradients"]})["gradients"] for b in B]
    for name in ("key", "value"):
        want = np.sum([np.array(x[name]) for x in own], 0)
        assert np.array(answer[name]).shape == want.shape and np.abs(answer[name] - want).max() < 1e-5 * max(1, np.abs(want).max())
    assert [x["query"][0] for x in own] == answer["query"]
    shapes = ask(daemon, body | {"dry_run": True})["dry_run"]["shapes"]
    assert shapes["gradients/key"] == [8, T, HKV, E] and shapes["gradients/query/2"] == [HQ, QUERIES[2], E]


def test_weights_on_padding_name_the_entry(daemon):
    """Labels that mark padding: the warning names the entry and the labels of that entry."""
    labels = [{"key": [f"{i}" for i in range(n + p)]} for n, p in zip(NEW, PAST)]
    labels[2]["key"][7] = "<pad>"
    answer = ask(daemon, LISTS | {"labels": labels, "return": ["weights"]})
    found = [w for w in answer["warnings"] if w["code"] == "padding_mass"]
    assert found[0]["pointer"] == "/labels/2/key" and found[0]["detail"].startswith("batch entry 2, head 0: "), answer["warnings"]
    assert not any(w["code"] == "padding_mass" for w in ask(daemon, LISTS | {"return": ["weights"]}).get("warnings", []))


@pytest.mark.parametrize("fields, code, pointer, says", [
    (LISTS | {"past_key": LISTS["past_key"][:4]}, "shape_mismatch", "/past_key", "each of 5 entries; found 4"),
    (LISTS | {"past_value": None}, "invalid_value", "/past_key", "past_value"),
    (LISTS | {"past_value": LISTS["past_value"][1:] + LISTS["past_value"][:1]}, "shape_mismatch", "/past_value/0", "5"),
    (LISTS | {"past_key": [x[0] for x in LISTS["past_key"]]}, "shape_mismatch", "/past_key/0", ""),
    (WAYS["lists"][0] | BLOCKS | {"key_lengths": KEYS[:4]}, "shape_mismatch", "/key_lengths", "each of 5 entries; found 4"),
    (WAYS["lists"][0] | BLOCKS | {"key_lengths": None}, "invalid_value", "/block_table", "key_lengths"),
    (WAYS["lists"][0] | BLOCKS | {"block_table": TABLE[:4]}, "shape_mismatch", "/block_table", "each of 5 entries; found 4"),
    (WAYS["lengths"][0] | BLOCKS | {"block_table": [*TABLE[:2], [3, 3, 8, 6], *TABLE[3:]]}, "invalid_value", "/block_table/2/2", "one of the 8 blocks"),
    (WAYS["lists"][0] | BLOCKS | {"key_lengths": [*KEYS[:3], 99, 6]}, "invalid_value", "/key_lengths/3", "0 to 16 keys"),
    (WAYS["lists"][0] | BLOCKS | {"key": LISTS["key"]}, "shape_mismatch", "/key", "pool of blocks"),
    (WAYS["lists"][0] | BLOCKS | {"past_key": LISTS["past_key"], "past_value": LISTS["past_value"]}, "invalid_value", "/block_table", "hold all keys")])
def test_refusals(daemon, fields, code, pointer, says):
    refused(daemon, {name: x for name, x in fields.items() if x is not None}, code, pointer, says)
