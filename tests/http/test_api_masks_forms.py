"""POST /v1/masks: the forms in which a mask is written (booleans, 1 and 0, numbers to add), in JSON, text, tensors and
pictures, and the shape that follows from padding masks."""
import io
import json

import numpy as np
import pytest
from api_client import ask, normal, refused
from picture import Picture
from safetensors import safe_open
from safetensors.numpy import load

MASKS = "/v1/masks"
CAUSAL = {"kind": "causal"}
IDS = [[5, 3, 7, 2, 0, 0], [8, 1, 4, 6, 9, 0]]
PADDING = {"kind": "padding", "token_ids": IDS, "pad_id": 0}
LOW = {"kind": "values", "attn_mask": [[0, -1e9, 0.5], [0, 0, -65504], [0, 0, 0]]}
# name of the form: what it makes of the visible cells and of the numbers that are added
FORMS = {
    "keep": lambda keep, add: keep,
    "keep_numbers": lambda keep, add: keep.astype(np.float32),
    "hide_numbers": lambda keep, add: 1 - keep.astype(np.float32),
    "additive": lambda keep, add: np.where(keep, add, -np.inf).astype(np.float32),
}


def npy(daemon, body):
    reply = daemon.post(MASKS, body, headers={"Accept": "application/x-npy"})
    assert reply.status_code == 200, reply.text
    return np.load(io.BytesIO(reply.content))


def tensors(daemon, body, tmp_path):
    reply = daemon.post(MASKS, body, headers={"Accept": "application/vnd.safetensors"})
    assert reply.status_code == 200, reply.text
    (tmp_path / "mask").write_bytes(reply.content)
    with safe_open(tmp_path / "mask", "numpy") as opened:
        return load(reply.content), json.loads(opened.metadata()["response"])


def picture(daemon, body, shape):
    reply = daemon.post(MASKS, body, headers={"Accept": "image/svg+xml"})
    assert reply.status_code == 200, reply.text
    return Picture(reply.text, shape)


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want)


# --- 1 and 0, and the numbers that are added ---

@pytest.mark.parametrize("form", FORMS)
def test_each_form(daemon, tmp_path, form):
    bias = np.float32(normal(5, 7))
    keep = np.broadcast_to((np.arange(7) <= np.arange(5)[:, None]) & (np.arange(7) < [[[2]], [[7]]]), (2, 5, 7))
    masks = [CAUSAL, {"kind": "values", "attn_mask": bias.tolist()}, {"kind": "padding", "key_lengths": [2, 7]}]
    body = {"masks": masks, "shape": [2, 5, 7], "as": form, "query_offset": 0}
    want = FORMS[form](keep, bias)
    answer, plain = ask(daemon, body, MASKS), [[[x if x > -np.inf else None for x in row] for row in m] for m in want.tolist()]
    assert [name for name in answer if name in FORMS][0] == form
    assert answer[form] == plain if want.dtype == bool else np.array_equal(
        np.array(answer[form], np.float32), np.array(plain, np.float32), equal_nan=True)
    assert ("keep" in answer) == (form == "keep")
    same(npy(daemon, body), want)
    got, rest = tensors(daemon, body, tmp_path)
    assert set(got) == ({"keep", "additive"} if form == "keep" else {form})
    same(got[form], want)
    assert rest == {k: v for k, v in answer.items() if k not in FORMS}


@pytest.mark.parametrize("form", FORMS)
def test_attention_reads_each_form_back(daemon, form):
    body = {"masks": [CAUSAL, {"kind": "window", "window": [2, 0]}], "shape": [6, 6], "as": form}
    meaning = {"keep": {}, "additive": {"mask_semantics": "additive"}}.get(form, {"mask_semantics": form.split("_")[0]})
    query = {"query": normal(6, 4)}
    got = ask(daemon, query | {"attn_mask": ask(daemon, body, MASKS)[form]} | meaning)
    assert got == ask(daemon, query | {"is_causal": True, "window": [2, 0]})


@pytest.mark.parametrize("form, numbers", [("keep_numbers", np.tril(np.ones((4, 4)))), ("hide_numbers", np.triu(np.ones((4, 4)), 1))])
def test_text_is_as_numpy_prints_it(daemon, form, numbers):
    body = {"masks": [CAUSAL], "shape": [4, 4], "as": form}
    text = daemon.post(MASKS, body, headers={"Accept": "text/plain"}).text
    assert text.startswith(f"{form} (4, 4):\n{numbers}\nshape: [4, 4]\n")


@pytest.mark.parametrize("form", FORMS)
def test_more_cells_than_json_writes(daemon, tmp_path, form):
    body = {"masks": [CAUSAL], "shape": [2, 3, 200, 300], "as": form}
    want = np.broadcast_to(FORMS[form](np.tri(200, 300, dtype=bool), np.float32(0)), (2, 3, 200, 300))
    same(npy(daemon, body), want)
    got, rest = tensors(daemon, body, tmp_path)
    assert set(got) == {form} and "omitted" not in rest and rest["kept"] == np.tri(200, 300).mean()
    same(got[form], want)
    answer = ask(daemon, body, MASKS)
    assert "runs" in answer["keep"]
    assert answer.get("omitted", {}).keys() == (set() if form == "keep" else {form})
    dry = tensors(daemon, body | {"dry_run": True}, tmp_path)[1]["dry_run"]
    assert dry["shapes"] == {form: [2, 3, 200, 300]} and dry["bytes"]["result"] == want.nbytes
    assert ask(daemon, body | {"dry_run": True}, MASKS)["dry_run"]["bytes"]["result"] == 0


def test_memory_bounds_the_cells(daemon):
    body = {"masks": [CAUSAL], "shape": [100000, 100000], "as": "additive"}
    reply = daemon.post(MASKS, body, headers={"Accept": "application/x-npy"})
    assert (reply.status_code, reply.json()["limit"]["setting"]) == (413, "memory_bytes")


@pytest.mark.parametrize("form, one", [("keep_numbers", lambda r, c: c <= r), ("hide_numbers", lambda r, c: c > r)])
def test_pictures_of_1_and_0(daemon, form, one):
    body = {"masks": [CAUSAL], "shape": [5, 5], "as": form}
    page = picture(daemon, body, (5, 5))
    panel = page.panels[0]
    assert not panel.hidden and not panel.marks
    assert {at: t.says for at, t in panel.values.items()} == {
        (r, c): "1" if one(r, c) else "0" for r in range(5) for c in range(5)}
    assert {"keep_numbers": "1 = attend", "hide_numbers": "1 = hidden"}[form] in page.says()
    rows = daemon.post(MASKS, body, headers={"Accept": "text/csv"}).text.split()[1:]
    assert [row.split(",")[3:] for row in rows] == [[str(int(one(r, c))) for c in range(5)] for r in range(5)]


def test_an_unknown_form(daemon):
    refused(daemon, {"shape": [2, 2], "as": "ones"}, "invalid_value", "/as", "keep_numbers", "hide_numbers", path=MASKS)


# --- a number in hidden cells ---

Q_TEST, M_TEST = [[1, 2, 3], [0, 2, 3.2]], [[0, 1, 0], [0, 0, 0]]
TERMS = [{"kind": "values", "attn_mask": Q_TEST, "mask_semantics": "additive"},
         {"kind": "values", "attn_mask": M_TEST, "mask_semantics": "keep"}]


def test_scores_and_a_fill(daemon, tmp_path):
    """q_test + (1 - mask) * -1e9, in each format of the answer."""
    body = {"masks": TERMS, "shape": [2, 3], "mask_fill": -1e9, "as": "additive"}
    want = np.float32(Q_TEST) + (1 - np.float32(M_TEST)) * np.float32(-1e9)
    assert want.tolist() == [[-1e9, 2, -1e9], [-1e9] * 3]
    answer = ask(daemon, body, MASKS)
    assert answer["additive"] == want.tolist() and "warnings" not in answer and answer["kept"] == 1 / 6
    same(npy(daemon, body), want)
    same(tensors(daemon, body, tmp_path)[0]["additive"], want)
    text = daemon.post(MASKS, body, headers={"Accept": "text/plain"}).text
    assert text.startswith(f"additive (2, 3):\n{want}\n") and "adding -1e+09 instead of hiding" in text
    rows = daemon.post(MASKS, body, headers={"Accept": "text/csv"}).text.split()[1:]
    assert [[float(x) for x in row.split(",")[3:]] for row in rows] == want.tolist()
    assert not picture(daemon, body, (2, 3)).panels[0].hidden


@pytest.mark.parametrize("fill, hidden", [(-1e9, -1e9), ({"value": -1e9}, -1e9), ({"value": -7, "mode": "replace"}, -7)])
def test_a_fill_of_a_causal_mask(daemon, fill, hidden):
    body = {"masks": [CAUSAL], "shape": [2, 4, 5], "query_offset": 1, "mask_fill": fill, "as": "additive"}
    want = np.where(np.arange(5) <= np.arange(4)[:, None] + 1, np.float32(0), np.float32(hidden))
    assert ask(daemon, body, MASKS)["additive"] == [want.tolist()] * 2


@pytest.mark.parametrize("mode, want", [("add", [[0.5, None, -98], [1, 1, None], [1, 2, 3]]),
                                        ("replace", [[0.5, -100, -100], [1, 1, -100], [1, 2, 3]])])
def test_a_fill_beside_minus_infinity(daemon, mode, want):
    """-infinity of a mask stays, unless the fill replaces a cell that another mask hides; as in attention."""
    values, fill = [[0.5, None, 2], [1, 1, None], [1, 2, 3]], {"value": -100, "mode": mode}
    masks = [CAUSAL, {"kind": "values", "attn_mask": values}]
    assert ask(daemon, {"masks": masks, "shape": [3, 3], "mask_fill": fill, "as": "additive"}, MASKS)["additive"] == want
    zeros = {"query": [[0, 0]] * 3, "is_causal": True, "attn_mask": values, "mask_fill": fill}
    assert ask(daemon, zeros | {"return": "scores"})["scores"] == want


@pytest.mark.parametrize("form", ["keep", "keep_numbers", "hide_numbers", None])
def test_a_fill_belongs_to_additive(daemon, form):
    body = {"masks": [CAUSAL], "shape": [2, 2], "mask_fill": -1e9} | ({"as": form} if form else {})
    refused(daemon, body, "invalid_value", "/mask_fill", '"as": "additive"', form or "keep", path=MASKS)


def test_a_fill_beyond_float32(daemon):
    body = {"masks": [CAUSAL], "shape": [2, 2], "as": "additive", "mask_fill": -1e39}
    refused(daemon, body, "invalid_value", "/mask_fill", "float32", path=MASKS)


# --- numbers that hide in practice ---

@pytest.mark.parametrize("form", FORMS)
def test_low_numbers_are_warned_of(daemon, form):
    body = {"masks": [CAUSAL, LOW], "shape": [3, 3], "as": form}
    (warning,) = ask(daemon, body, MASKS)["warnings"]
    assert (warning["code"], warning["pointer"]) == ("low_numbers", "/masks/1/attn_mask") and "finite_min" in warning["detail"]
    text = daemon.post(MASKS, body, headers={"Accept": "text/plain"}).text
    assert text.endswith(f"warning (low_numbers, /masks/1/attn_mask): {warning['detail']}\n")
    page = picture(daemon, body, (3, 3))
    assert warning["detail"] in " ".join(page.says())
    attention = ask(daemon, {"query": normal(3, 2), "is_causal": True} | {"attn_mask": LOW["attn_mask"]})
    assert [w["detail"] for w in attention["warnings"]] == [warning["detail"]]


@pytest.mark.parametrize("body", [{"masks": [CAUSAL], "shape": [3, 3]}, {"masks": [LOW | {"mask_semantics": "finite_min"}],
                                                                        "shape": [3, 3]}], ids=["causal", "finite_min"])
def test_other_pictures_have_no_note(daemon, body):
    assert "warnings" not in ask(daemon, body, MASKS)
    assert not any("numbers such as" in t for t in picture(daemon, body, (3, 3)).says())


def test_finite_min_hides(daemon):
    body = {"masks": [LOW | {"mask_semantics": "finite_min"}], "shape": [3, 3]}
    answer = ask(daemon, body, MASKS)
    assert answer["keep"] == [[True, False, True], [True, True, False], [True, True, True]]
    assert answer["additive"] == [[0, None, 0.5], [0, 0, None], [0, 0, 0]]
    text = daemon.post(MASKS, body, headers={"Accept": "text/plain"}).text
    assert text.startswith("✓ ✗ ✓\n✓ ✓ ✗\n✓ ✓ ✓\n") and "warning" not in text
    panel = picture(daemon, body, (3, 3)).panels[0]
    assert {at: t.says for at, t in panel.marks.items()} == {
        (r, c): "✗" if (r, c) in ((0, 1), (1, 2)) else "✓" for r in range(3) for c in range(3)}


# --- the shape of padding masks ---

KEEP = np.array(IDS) != 0


@pytest.mark.parametrize("masks, keep", [
    ([PADDING], KEEP),
    ([{"kind": "padding", "key_padding_mask": KEEP.tolist(), "key_padding_semantics": "keep"}], KEEP),
    ([{"kind": "padding", "token_ids": IDS[0], "pad_id": 0}], KEEP[0]),
    ([CAUSAL, PADDING, {"kind": "padding", "key_padding_mask": [0, 1, 0, 0, 0, 0], "key_padding_semantics": "hide"}],
     KEEP & [True, False, True, True, True, True]),
    ([{"kind": "padding", "token_ids": [IDS[0]], "pad_id": 0}, PADDING], KEEP & KEEP[:1]),
    ([{"kind": "padding", "key_lengths": [4, 5]}, PADDING], KEEP),
], ids=["token_ids", "key_padding_mask", "one sequence", "causal and two", "batch of 1", "lengths"])
def test_padding_masks_need_no_shape(daemon, masks, keep):
    S = keep.shape[-1]
    want = np.broadcast_to(keep[..., None, :], (*keep.shape[:-1], S, S)).copy()
    if CAUSAL in masks:
        want &= np.tri(S, dtype=bool)
    answer = ask(daemon, {"masks": masks}, MASKS)
    assert answer["shape"] == list(want.shape) and answer["keep"] == want.tolist()
    assert answer == ask(daemon, {"masks": masks, "shape": list(want.shape)}, MASKS)


def test_the_padding_mask_of_pytorch(daemon):
    """create_padding_mask: (seq != pad).unsqueeze(1).unsqueeze(2)."""
    body = {"masks": [PADDING], "shape": [2, 1, 1, 6]}
    same(npy(daemon, body), KEEP[:, None, None, :])
    mask = ask(daemon, body, MASKS)["keep"]
    query = {"query": normal(2, 3, 6, 4)}
    assert ask(daemon, query | {"attn_mask": mask}) == ask(daemon, query | {"token_ids": IDS, "pad_id": 0})


def padded(**fields):
    return {"masks": [PADDING, {"kind": "padding"} | fields]}


@pytest.mark.parametrize("body, pointer, words", [
    (padded(token_ids=[1, 2, 3], pad_id=0), "/masks/1/token_ids", ["3 keys", "masks/0/token_ids has 6", "shape"]),
    (padded(key_padding_mask=[[1] * 6] * 3, key_padding_semantics="keep"), "/masks/1/key_padding_mask",
     ["3 batch entries", "have 2"]),
    ({"masks": [{"kind": "padding", "token_ids": [[[1, 2]]], "pad_id": 0}]}, "/masks/0/token_ids", ["[S] or [B, S]", "[1, 1, 2]"]),
    (padded(key_lengths=[1, 2, 3]), "/masks/1/key_lengths", ["(2)", "3"]),
], ids=["keys", "batches", "rank", "lengths"])
def test_padding_masks_that_disagree(daemon, body, pointer, words):
    refused(daemon, body, "shape_mismatch", pointer, *words, path=MASKS)


def test_masks_without_a_shape(daemon):
    for masks in ([CAUSAL], [{"kind": "padding", "key_lengths": [3]}], [{"kind": "causal", "token_ids": [1], "pad_id": 0}]):
        refused(daemon, {"masks": masks}, "invalid_value", "/shape", "key_padding_mask", path=MASKS)


def test_the_shape_of_values(daemon):
    """A mask of values with two axes or more has the shape of the weights."""
    keep = {"kind": "values", "attn_mask": [[1, 0, 0], [1, 1, 0]], "mask_semantics": "keep"}
    answer = ask(daemon, {"masks": [keep, {"kind": "causal"}], "as": "keep_numbers"}, path="/v1/masks")
    assert answer["shape"] == [2, 3] and answer["keep_numbers"] == [[1, 0, 0], [1, 1, 0]]
    batch = {"kind": "values", "attn_mask": [[[True, True, False]], [[True, False, False]]]}
    answer = ask(daemon, {"masks": [batch, keep]}, path="/v1/masks")
    assert answer["shape"] == [2, 2, 3] and answer["keep"][0] == [[True, False, False], [True, True, False]]
    refused(daemon, {"masks": [{"kind": "values", "attn_mask": [True, False]}]}, "invalid_value", "/shape", "attn_mask",
            path="/v1/masks")
