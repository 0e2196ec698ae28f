"""POST /v1/masks with against: how two masks differ, as numbers, cells, text and pictures."""
import io

import numpy as np
import pytest
from api_client import ask, refused
from safetensors.numpy import load

from oracle import maskroute

MASKS = "/v1/masks"
CAUSAL = {"kind": "causal"}
r = np.random.default_rng(2)
VALUES = {"kind": "values", "attn_mask": (r.random((2, 3, 5, 7)) < 0.5).tolist()}
KINDS = {
    "causal": CAUSAL, "window": {"kind": "window", "window": [2, 1]}, "values": VALUES,
    "numbers": {"kind": "values", "mask_semantics": "additive", "attn_mask": np.where(r.random((5, 7)) < 0.5, 1.5, -np.inf).tolist()},
    "lengths": {"kind": "padding", "key_lengths": [3, 6]}, "documents": {"kind": "documents", "document_ids": [0, 0, 1, 1, 1, 2, 2]},
    "tree": {"kind": "tree", "parents": [-1, 0, 0, 1, 2, 2, 3]}, "top_k": {"kind": "top_k", "top_k_indices": [[0, 2], [1, -1], [2, 3], [3, 6], [0, 1]]},
    "pattern": {"kind": "pattern", "pattern": {"kind": "strided", "stride": 3, "local": 1}},
    "any_of": {"kind": "any_of", "any_of": [CAUSAL, {"kind": "not", "not": VALUES}]},
}
KINDS["numbers"]["attn_mask"] = [[None if x == -np.inf else x for x in row] for row in KINDS["numbers"]["attn_mask"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_any_two_kinds(daemon, kind, other):
    """The counts and the first cell follow from the cells of each alone."""
    shape = [2, 3, 5, 7]
    body = {"masks": [KINDS[kind]], "against": [KINDS[other]], "shape": shape}
    answer = ask(daemon, body, MASKS)
    alone = [ask(daemon, {"masks": [KINDS[name]], "shape": shape}, MASKS) for name in (kind, other)]
    keep = [np.array(x["keep"]) for x in alone]
    said = answer["against"]
    assert said == maskroute.difference(*keep) | {"words": said["words"], "kept": alone[1]["kept"]}
    assert said["words"] == alone[1]["words"].replace("masks/0", "against/0")
    assert {n: answer[n] for n in alone[0] if n != "warnings"} == {n: x for n, x in alone[0].items() if n != "warnings"}
    drawn = ask(daemon, body | {"as": "difference"}, MASKS)
    assert drawn["against"] == said and (np.array(drawn["difference"]) == keep[0].astype(int) - keep[1]).all()


def test_files(daemon):
    body = {"masks": [CAUSAL], "against": [VALUES], "shape": [2, 3, 5, 7], "as": "difference"}
    want = np.tril(np.ones((5, 7), int)) - np.array(VALUES["attn_mask"])
    npy = daemon.post(MASKS, body, headers={"Accept": "application/x-npy"})
    assert (np.load(io.BytesIO(npy.content)) == want).all()
    file = daemon.post(MASKS, body, headers={"Accept": "application/vnd.safetensors"})
    assert (load(file.content)["difference"] == want).all()


def test_pictures(daemon):
    """A cell that both hide is hidden; with heads that differ, each has its picture."""
    body = {"masks": [CAUSAL], "against": [{"kind": "window", "window": [[1, 0], [-1, 0]]}], "shape": [1, 2, 4, 4], "as": "difference"}
    csv = daemon.post(MASKS, body, headers={"Accept": "text/csv"})
    assert csv.status_code == 200
    svg = daemon.post(MASKS, body, headers={"Accept": "image/svg+xml"}).text
    assert "1 = only masks, -1 = only against" in svg and "hidden by the mask" in svg and "head 1" in svg.lower()


def test_many_cells(daemon):
    """Beyond the cells that JSON holds the difference is named, and the counts are there."""
    n = 1000
    answer = ask(daemon, {"masks": [CAUSAL], "against": [{"kind": "window", "window": [9, 0]}], "shape": [3, n, n], "as": "difference"}, MASKS)
    assert answer["omitted"]["difference"]["num_values"] == 3 * n * n
    only = n * (n + 1) // 2 - (10 * n - 45)
    assert answer["against"] == {"kept": pytest.approx((10 * n - 45) / n**2), "words": "window: query i sees keys i - 9 to i", "num_different": 3 * only,
                                 "num_only_masks": 3 * only, "num_only_against": 0, "first": [0, 0, 10, 0]}


def test_the_same(daemon):
    body = {"masks": [CAUSAL], "against": [{"kind": "window", "window": [-1, 0]}], "query_offset": 1, "shape": [3, 4]}
    answer = ask(daemon, body, MASKS)
    assert answer["against"]["num_different"] == 0 and "first" not in answer["against"]
    assert "different: 0 cells" in daemon.post(MASKS, body, headers={"Accept": "text/plain"}).text
    assert ask(daemon, body | {"shape": [0, 4]}, MASKS)["against"]["kept"] == 1
    placed = {"query_positions": [5, 6, 7], "key_positions": [4, 5, 6, 7], "shape": [3, 4]}
    answer = ask(daemon, {"masks": [CAUSAL], "against": [{"kind": "window", "window": [0, 0]}]} | placed, MASKS)
    assert answer["against"]["num_only_masks"] == 6, "both compare positions"


@pytest.mark.parametrize("fields, code, pointer, says", [
    ({"as": "difference"}, "invalid_value", "/as", "needs against"),
    ({"against": [{"kind": "window"}]}, "invalid_value", "/against/0/kind", "needs window"),
    ({"against": [{"kind": "values", "attn_mask": [[True] * 3] * 3}]}, "shape_mismatch", "/against/0/attn_mask", "does not broadcast"),
    ({"against": {"kind": "causal"}}, "wrong_type", "/against", "such as"),
])
def test_errors(daemon, fields, code, pointer, says):
    refused(daemon, {"masks": [CAUSAL], "shape": [4, 4]} | fields, code, pointer, says, path=MASKS)
