"""The words of the library's warnings: each code of attn/warning.h in an answer, with its field and its advice."""
import pytest
from api_client import ask


def triangle(n, keep):
    return [[1 if keep(i, j) else 0 for j in range(n)] for i in range(n)]


def query(*shape):
    return {"query": {"shape": list(shape), "random": "normal", "seed": 1}}


STRICT = triangle(3, lambda i, j: j > i)
PADDED = [[[True] * 4] * 4, [[j < 3 or i == 3 for j in range(4)] for i in range(4)]]
CACHE = {"key": [[1, 0]], "value": [[3]], "past_key": [[1, 0]] * 2, "past_value": [[1], [2]],
         "position": {"kind": "rotary", "layout": "halves"}}
# name: request, code, field, what the detail says
CASES = {
    "padding or mask": (query(3, 4, 3, 2) | {"attn_mask": [[True] * 3] * 3}, "mask_rank", "attn_mask",
                        "[3, 3] is read as [L, S], the same for every batch entry. B and L are both 3: if [B, S] was meant, "
                        "send it as key_padding_mask or as [B, 1, 1, S]"),
    "batches or heads": (query(2, 2, 3, 2) | {"attn_mask": [[[True] * 3] * 3] * 2}, "mask_rank", "attn_mask",
                         "[2, 3, 3] is read as [H, L, S]"),
    "a hide mask that is kept": (query(3, 2) | {"attn_mask": STRICT, "mask_semantics": "keep"}, "mask_not_causal", "attn_mask",
                                 "marks what a causal mask hides, so say mask_semantics \"hide\""),
    "a keep mask that hides": (query(3, 2) | {"attn_mask": triangle(3, lambda i, j: j <= i), "mask_semantics": "hide"},
                               "mask_not_causal", "attn_mask", "tril marks what a causal mask keeps, so say mask_semantics "
                               "\"keep\""),
    "a hide mask as conditions": (query(3, 2) | {"attn_mask": STRICT, "mask_semantics": "nonzero"}, "mask_not_causal",
                                  "attn_mask", "so say mask_semantics \"hide\" if it holds 0 and 1, and \"additive\" if"),
    "a fill of numbers": (query(2, 2) | {"attn_mask": [[0, -1], [0, 0]], "mask_fill": {"value": -1e9, "mode": "replace"}},
                          "fill_unused", "mask_fill", "say mask_semantics \"nonzero\"; if 1 means"),
    "booleans": (query(3, 2) | {"attn_mask": [[bool(x) for x in row] for row in STRICT]}, "mask_not_causal", "attn_mask",
                 "invert it (here true = attend)"),
    "transposed": (query(3, 2) | {"attn_mask": [[j >= i for j in range(3)] for i in range(3)]}, "mask_not_causal", "attn_mask",
                   "query i sees the keys from i on. That is the transpose of a causal mask; with a causal mask query i sees "
                   "keys 0 to i"),
    "more keys": (query(2, 2) | {"key": [[1, 2]] * 4, "value": [[1]] * 4, "attn_mask": [[j <= i for j in range(4)]
                                                                                        for i in range(2)]},
                  "causal_not_square", "attn_mask", "no query sees keys from 2 on"),
    "numbers of two masks": ({"query": [[1, 0]], "key": [[1, 0], [0, 1]], "value": [[1], [3]],
                              "attn_mask": [[-3.4028235e38, 0]], "attn_bias": [[-3.4028235e38, 0]]}, "mask_sums", "",
                             "numbers of several masks are added to one score, and a sum such as -6.80565e+38 is below the "
                             "range of float32: it hides its key as -infinity does"),
    "fewer queries": (query(1, 1, 1, 2) | {"key": [[[[1, 0]] * 3]], "value": [[[[1]] * 3]], "position": "alibi"},
                      "position_start", "position", "1 query and 3 keys: query 0 is encoded at position 0, as key 0 is. When "
                      "the queries are the last tokens, say query_offset \"end\"; query_offset 0 confirms the start"),
    "a cut cache": (query(1, 2) | CACHE | {"query_offset": 10}, "position_offset", "position",
                    "query_offset 10 moves the queries alone, and their own keys are encoded from position 2 on, behind 2 "
                    "cached keys. If the cache lacks its first tokens, send key_positions"),
    "padding on the left": ({"query": [[[1, 0], [0, 1], [1, 1]]] * 2, "position": {"kind": "learned", "table": [[1, 0]] * 3},
                             "key_padding_mask": [[0, 1, 1], [1, 1, 1]], "key_padding_semantics": "keep"},
                            "position_padding", "position", "batch entry 0: padding on the left has positions, so its first "
                            "real key is encoded at position 1 and not 0"),
    "padding on the left as a mask": ({"query": [[[1, 0], [0, 1]]] * 2, "position": "sinusoidal",
                                       "attn_mask": [[[True, True]], [[False, True]]]},
                                      "position_padding", "position", "batch entry 1"),
    "a tree of drafts": (query(2, 2) | CACHE | {"key": [[1, 0]] * 2, "value": [[2]] * 2,
                                                "attn_mask": [[True, True, True, False], [True, True, False, True]]},
                         "position_tree", "position", "query 1 does not see key 2, the token before it, as in a tree of drafts"),
    "is_causal": (query(2, 2) | {"key": [[1, 2]] * 4, "value": [[1]] * 4, "is_causal": True}, "causal_not_square", "is_causal",
                  "2 queries, 4 keys, and query 0 stands at key 0"),
    "whole queries": (query(4, 2) | {"attn_mask": [[True], [True], [False], [False]]}, "padding_by_query", "attn_mask",
                      "the last axis of [4, 1] is 1: the mask hides whole queries"),
    "padding of queries": (query(8, 2) | {"attn_mask": [[i < 5 and j < 5 for j in range(8)] for i in range(8)]},
                           "padding_by_query", "attn_mask", "3 keys are hidden from every query, and 3 queries see nothing"),
    "padding that is seen": (query(2, 4, 2) | {"attn_mask": PADDED}, "padding_by_query", "attn_mask",
                             "batch entry 1: key 3 is hidden from 3 of 4 queries but visible to query 3"),
    "a gap": (query(6, 2) | {"token_ids": [[5, 3, 0, 7, 0, 0]], "pad_id": 0} | query(1, 6, 2), "padding_gap", "token_ids",
              "batch entry 0: key 2 is padding but stands between real keys; does pad_id also mean something else?"),
    "a small fill": (query(3, 2) | {"is_causal": True, "mask_fill": {"value": -10, "mode": "add"}}, "fill_leaks", "mask_fill",
                     "a fill of -10 is not far below the scores"),
    "hidden rows": (query(2, 3, 2) | {"key_lengths": [3, 0]}, "hidden_rows", "",
                    "3 rows of 6 see no key: batch 1 query 0, batch 1 query 1, batch 1 query 2. Their output and weights are "
                    "zeros unless mask_fill is set"),
    "one hidden row": (query(3, 2) | {"attn_mask": STRICT, "mask_semantics": "keep"}, "hidden_rows", "",
                       "1 row of 3 sees no key: query 2. Its output and weights are zeros unless mask_fill is set"),
}


@pytest.mark.parametrize("name", CASES)
def test_words(daemon, name):
    body, code, where, text = CASES[name]
    found = [w for w in ask(daemon, body)["warnings"] if w["code"] == code]
    assert [w["pointer"] for w in found] == [where and "/" + where]
    assert text in found[0]["detail"] and len(found[0]["detail"]) < 400


@pytest.mark.parametrize("request_", [
    query(1, 2) | CACHE,
    query(1, 2) | CACHE | {"is_causal": True},
    query(1, 2) | CACHE | {"query_offset": 2},
    query(2, 2) | CACHE | {"key": [[1, 0]] * 2, "value": [[2]] * 2, "attn_mask": [[True] * 3 + [False], [True] * 4]},
    query(1, 2) | {"key": [[1, 0]] * 3, "value": [[1]] * 3, "position": {"kind": "rotary", "layout": "halves"},
                   "query_offset": "end", "is_causal": True},
    query(1, 1, 1, 2) | {"key": [[[[1, 0]] * 3]], "value": [[[[1]] * 3]], "position": "alibi", "query_offset": 0},
    query(1, 2) | {"key": [[1, 0]] * 3, "value": [[1]] * 3},
    {"query": [[[1, 0], [0, 1], [1, 1]]], "position": "sinusoidal", "key_padding_mask": [[1, 1, 0]],
     "key_padding_semantics": "keep"},
    {"query": [[[1, 0], [0, 1], [1, 1]]], "position": {"kind": "rotary", "layout": "halves"},
     "key_padding_mask": [[0, 1, 1]], "key_padding_semantics": "keep"},
], ids=["cache", "causal cache", "the offset of the cache", "causal mask beside a cache", "end", "start", "no encoding",
        "padding on the right", "padding on the left and distances"])
def test_positions_that_are_right_are_not_warned_of(daemon, request_):
    assert "warnings" not in ask(daemon, request_)
