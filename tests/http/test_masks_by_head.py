"""Windows and patterns by head, and masks that compare positions of queries and keys: words, pictures, runs, counts, errors."""
import json

import numpy as np
import pytest
from api_client import ask, refused

from captured import store
from oracle import captures

ZEROS = {"query": {"shape": [1, 2, 6, 2], "fill": "zeros"}, "return": ["weights"]}
DUO = [{"kind": "full"}, {"kind": "global", "num_keys": 1, "local": 1}]
# Two sinks, and the last four keys of a cache that dropped its first eight.
ROLLED = {"query_positions": [10, 11], "key_positions": [None, None, 8, 9, 10, 11]}
SEEN = [[1, 1, 0, 1, 1, 0], [1, 1, 0, 0, 1, 1]]
WINDOW = {"kind": "window", "window": [1, 0]}


def keep_of(daemon, shape, *masks, **fields):
    return np.array(ask(daemon, {"shape": shape, "masks": list(masks)} | fields, "/v1/masks")["keep"])


def heads_of(i, j):
    """What the two heads of DUO see, below a causal mask."""
    return np.array([j <= i, (j <= i) & ((j < 1) | (i < 1) | (i - j <= 1))])


ROW, KEY = np.arange(6)[:, None], np.arange(6)


def test_heads_see_their_own(daemon):
    windows = {"kind": "window", "window": [[-1, 0], [1, 2]]}
    keep = keep_of(daemon, [1, 2, 6, 6], windows)
    assert (keep[0, 0] == (KEY <= ROW)).all() and (keep[0, 1] == ((KEY >= ROW - 1) & (KEY <= ROW + 2))).all()
    keep = keep_of(daemon, [1, 2, 6, 6], {"kind": "pattern", "pattern": DUO}, {"kind": "causal"})
    assert (keep[0] == heads_of(ROW, KEY)).all()
    one = keep_of(daemon, [1, 2, 6, 6], {"kind": "window", "window": [[2, 0]]})
    assert (one == keep_of(daemon, [1, 2, 6, 6], {"kind": "window", "window": [2, 0]})).all()
    weights = np.array(ask(daemon, ZEROS | {"is_causal": True, "pattern": DUO})["weights"])
    assert ((weights > 0) == heads_of(ROW, KEY)).all()
    nested = keep_of(daemon, [1, 2, 6, 6], {"kind": "not", "not": windows})
    assert (nested != keep_of(daemon, [1, 2, 6, 6], windows)).all()


def test_positions_instead_of_indices(daemon):
    assert (keep_of(daemon, [2, 6], WINDOW, **ROLLED) == SEEN).all()
    body = {"query": {"shape": [2, 2], "fill": "zeros"}, "key": {"shape": [6, 2], "fill": "zeros"}, "value": {"shape": [6, 2], "fill": "zeros"},
            "window": [1, 0], "return": ["weights"]}
    weights = np.array(ask(daemon, body | ROLLED | {"mask_positions": True})["weights"])
    assert ((weights > 0) == SEEN).all()
    free = keep_of(daemon, [2, 6], WINDOW, **ROLLED | {"query_positions": [None, 11]})
    assert free[0].all() and (free[1] == SEEN[1]).all()
    by_entry = keep_of(daemon, [2, 2, 3], {"kind": "causal"}, query_positions=[[1, 2], [0, 0]], key_positions=[[0, 1, 2], [2, 1, 0]])
    assert by_entry.tolist() == [[[True, True, False], [True] * 3], [[False, False, True]] * 2]
    block = keep_of(daemon, [1, 4], {"kind": "pattern", "pattern": {"kind": "block", "size": 4}}, query_positions=[5], key_positions=[3, 4, 7, 8])
    assert block.tolist() == [[False, True, True, False]]


def test_masks_without_positions_are_the_same_bytes(daemon):
    """Positions that are the indices show what the indices show."""
    body = {"query": {"shape": [1, 2, 20, 4], "random": "normal", "seed": 1}, "return": ["weights", "output"], "is_causal": True,
            "window": [5, 3], "pattern": {"kind": "strided", "stride": 3, "local": 1}}
    whole = list(range(20))
    plain = ask(daemon, body)
    assert ask(daemon, body | {"query_positions": whole, "key_positions": whole, "mask_positions": True}) == plain
    assert ask(daemon, body | {"window": [[5, 3], [5, 3]]}) == plain


@pytest.mark.parametrize(("masks", "fields", "words"), [
    ([{"kind": "window", "window": [[-1, 0], [1, 0], [-1, 0], [-1, -1]]}], {},
     "window by head (head 0, 2: query i sees keys 0 to i; head 1: query i sees keys i - 1 to i; head 3: open on both sides, hides nothing)"),
    ([{"kind": "pattern", "pattern": [{"kind": "full"}, {"kind": "local", "radius": 2}] * 2}], {},
     "pattern by head (head 0, 2: full: a query sees every key; head 1, 3: local: a query sees keys within a distance of 2)"),
    ([{"kind": "causal"}], {"query_positions": [5, 6]},
     "causal: a query at position p sees the keys at positions up to p; positions are those of query_positions, keys stand at their index"),
    ([{"kind": "window", "window": [2, -1]}], {"key_positions": [0, 0, None]},
     "window: a query at position p sees the keys at positions from p - 2 on; positions are those of key_positions, queries stand at their "
     "index, every query sees a key without a position"),
    ([{"kind": "prefix", "prefix_lengths": [2]}], {"query_positions": [None, 6], "key_positions": [0, 1, 2]},
     "masks/0/prefix_lengths: every query sees the first 2 positions; positions are those of query_positions and key_positions, a query "
     "without a position sees every key")])
def test_words(daemon, masks, fields, words):
    assert ask(daemon, {"shape": [1, 4, 2, 3], "masks": masks} | fields, "/v1/masks")["words"] == words


def test_heads_skip_what_they_hide(daemon):
    """Heads with small windows do not pay for the head that sees all keys before it."""
    body = {"query": {"shape": [1, 4, 2048, 8], "fill": "zeros"}, "dry_run": True}
    count = lambda **fields: ask(daemon, body | fields)["dry_run"]["num_computed_cells"]  # noqa: E731
    causal, window = count(window=[-1, 0]), count(window=[63, 0])
    assert window < causal / 4
    assert count(window=[[-1, 0], *[[63, 0]] * 3]) == (causal + 3 * window) / 4
    places = list(range(5000, 7048))
    assert count(window=[63, 0], query_positions=places, key_positions=places, mask_positions=True) == window
    assert count(is_causal=True, query_positions=places, key_positions=places, mask_positions=True) == causal


def test_small_windows_of_all_heads(daemon):
    """The pass keeps the keys of the widest window only, as with one window, and each head is computed as alone."""
    n, windows = 3000, [[127, 0], [15, 0], [63, 2], [0, 0]]
    body = {"query": {"shape": [1, 4, n, 8], "random": "normal"}, "return": ["output"]}
    work = lambda **fields: ask(daemon, body | fields | {"dry_run": True})["dry_run"]["bytes"]["work"]  # noqa: E731
    assert work(window=windows) == work(window=[127, 2]) < work(window=[*windows[:3], [-1, 0]])
    together = np.array(ask(daemon, body | {"window": windows})["output"])
    for h, window in enumerate(windows):
        assert (together[0, h] == np.array(ask(daemon, body | {"window": window})["output"])[0, h]).all(), window
    local = [{"kind": "local", "radius": r} for r in (9, 40, 2, 0)]
    assert work(pattern=local) == work(pattern=local[1])


def test_documents_are_of_keys(daemon):
    """With positions of their own, document_ids, parents and key_lengths are still of keys by index, while causal compares."""
    places = {"query_positions": [3, 2, 1, 0, 5, 4], "key_positions": [3, 2, 1, 0, 5, 4], "mask_positions": True}
    documents = [0, 0, 1, 1, 0, 1]
    answer = ask(daemon, ZEROS | places | {"document_ids": documents, "is_causal": True, "key_lengths": [5]})
    place, document = np.array(places["key_positions"]), np.array(documents)
    keep = (place <= place[:, None]) & (document == document[:, None]) & (KEY < 5)
    assert ((np.array(answer["weights"][0][0]) > 0) == keep).all()
    parents = ask(daemon, ZEROS | places | {"parents": [-1, 0, 1, 0, 3, 4]})
    assert [np.flatnonzero(row).tolist() for row in parents["weights"][0][0]] == [[0], [0, 1], [0, 1, 2], [0, 3], [0, 3, 4], [0, 3, 4, 5]]


@pytest.mark.parametrize("members", [
    {"window": [[-1, 0], [1, 0]]}, {"pattern": DUO, "is_causal": True},
    {"is_causal": True, "mask_positions": True, "query_positions": "p", "key_positions": "p"}])
def test_runs_mean_what_they_say(daemon, members):
    """The run has the weights, measures, reasons and what-ifs of the booleans."""
    def stored(members, more):
        r = np.random.default_rng(4)
        parts = {f"sites.0.{part}": ("F32", r.standard_normal((1, 2, 6, 4)).astype(np.float32)) for part in ("query", "key")}
        return store(daemon, captures.write(captures.File({"version": 2, "sites": [members]}, parts | more)))["id"]
    places = np.array([-2**63, 3, 1, 0, 2, 1])
    said = {name: value for name, value in members.items() if name != "mask_positions"}
    fields = said | ({"query_positions": [None, *places[1:].tolist()], "key_positions": [None, *places[1:].tolist()]} if "mask_positions" in members else {})
    kinds = {"is_causal": {"kind": "causal"}, "window": {"kind": "window"}, "pattern": {"kind": "pattern"}}
    masks = [kind | ({} if name == "is_causal" else {name: said[name]}) for name, kind in kinds.items() if name in said]
    own = {name: fields[name] for name in ("query_positions", "key_positions") if name in fields}
    keep = keep_of(daemon, [1, 2, 6, 6], *masks, **own)
    run, booleans = stored(members, {"p": ("I64", places)}), stored({}, {"sites.0.attn_mask": ("BOOL", keep)})
    def get(of, what):
        return daemon.get(f"/v1/runs/{of}/{what}").json()
    for what in ("weights?heads=all", "analyses"):
        assert get(run, what).get("weights", get(run, what).get("heads")) == get(booleans, what).get("weights", get(booleans, what).get("heads"))
    hidden = tuple(np.argwhere(~keep[0, 1])[-1])
    told = get(run, f"cells?head=1&row={hidden[0]}&col={hidden[1]}")
    assert not told["visible"] and set(told["hidden_by"]) <= set(members)
    asked = {"hide": [3], "rows": "2,4:6", "heads": "all", "return": ["weights"]}
    first, second = (daemon.post(f"/v1/runs/{of}/what-if", data=json.dumps(asked)).json() for of in (run, booleans))
    assert first == second and "detail" not in first


def test_stored_requests(daemon):
    body = {"query": {"shape": [1, 2, 6, 4], "random": "normal", "seed": 3}, "store": True, "return": ["weights"], "pattern": DUO,
            "query_positions": [None, 0, 1, 0, 1, 2], "key_positions": [None, 0, 1, 0, 1, 2], "mask_positions": True, "is_causal": True}
    answer = ask(daemon, body)
    run = answer["run"]["id"] if isinstance(answer.get("run"), dict) else answer["run_id"]
    assert daemon.get(f"/v1/runs/{run}/weights?heads=all").json()["weights"] == answer["weights"][0]


@pytest.mark.parametrize(("fields", "code", "pointer", "says"), [
    ({"mask_positions": True}, "invalid_value", "/mask_positions", "query_positions, key_positions or both"),
    ({"mask_positions": True, "query_positions": [1, 2]}, "shape_mismatch", "/query_positions", "positions of the 6 queries"),
    ({"query_positions": [0] * 6}, "invalid_value", "/query_positions", "mask_positions"),
    ({"window": [[1, 0]] * 3}, "shape_mismatch", "/window", "one for each of the 2 heads, found 3"),
    ({"window": [[1, 0], [1, -2]]}, "invalid_value", "/window/1/1", "from -1 upwards"),
    ({"window": [[1, 0], [1]]}, "invalid_value", "/window/1", "two integers"),
    ({"pattern": DUO * 2}, "shape_mismatch", "/pattern", "one for each of the 2 heads, found 4"),
    ({"pattern": []}, "invalid_value", "/pattern", "empty"),
    ({"pattern": [{"kind": "full"}, {"kind": "block"}]}, "invalid_value", "/pattern/1/kind", "needs size"),
    ({"pattern": {"kind": "full", "size": 2}}, "invalid_value", "/pattern/size", "full"),
])
def test_errors(daemon, fields, code, pointer, says):
    refused(daemon, ZEROS | fields, code, pointer, says)
