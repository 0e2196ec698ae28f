"""What each entry of a ragged batch has of its own: masks, biases, positions and numbers of keys, labels and analyses. An entry has the bytes of
its own request."""
import numpy as np
import pytest
from api_client import ask, refused
from test_ragged import HQ, KEYS, LENGTHS, LISTS, PARTS, QUERIES, one_entry, single

RNG = np.random.default_rng(12)
B = range(len(QUERIES))


def of_cells(lead=(), chance=0.7):
    """Booleans that differ by entry; every query sees the first key."""
    keep = [RNG.random((*lead, L, S)) < chance for L, S in zip(QUERIES, KEYS)]
    for x in keep:
        x[..., :1] = True
    return keep


def of_keys(n, low=0):
    return [RNG.integers(low, n, S) for S in KEYS]


def tree():
    return [np.array([-1, *(RNG.integers(0, j) for j in range(1, S))]) for S in KEYS]


def chosen():
    return [RNG.integers(-1, S, (L, 3)) for L, S in zip(QUERIES, KEYS)]


def bias(*lead):
    return [np.float32(RNG.standard_normal((*lead, L, S))) for L, S in zip(QUERIES, KEYS)]


def positions(lengths):
    return [RNG.integers(0, 50, n) for n in lengths]


MORE = {"key_padding_mask": {"key_padding_semantics": "keep"}, "token_ids": {"pad_id": 1}}
ITEMS = {
    "attn_mask": (of_cells(), {}), "attn_mask of heads": (of_cells((HQ,)), {}), "additive": (bias(), {"mask_semantics": "additive"}),
    "attn_bias": (bias(HQ), {"is_causal": True, "query_offset": "end"}), "attn_bias of all heads": (bias(), {}),
    "top_k_indices": (chosen(), {}), "document_ids": (of_keys(3), {"query_offset": "end"}), "token_ids": (of_keys(4), {"pad_id": 1}),
    "key_padding_mask": ([x > 0 for x in of_keys(4)], {"key_padding_semantics": "keep"}), "parents": (tree(), {"query_offset": "end"}),
    "query_positions": (positions(QUERIES), {"position": {"kind": "rotary", "layout": "halves"}}),
    "key_positions": (positions(KEYS), {"position": "alibi"}), "masks of positions": (positions(KEYS), {"mask_positions": True, "window": [9, 9]}),
}
FIELD = {"attn_mask of heads": "attn_mask", "additive": "attn_mask", "attn_bias of all heads": "attn_bias", "masks of positions": "key_positions"}
PACKED = ("document_ids", "token_ids", "key_padding_mask", "parents", "query_positions", "key_positions", "masks of positions")


def same(answer, alone, b):
    for name, found in alone.items():
        if name not in ("warnings", "analysis"):
            assert found[0] == answer[name][b], (name, b)


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_of_each_entry(daemon, name):
    """As lists by entry beside lists and beside packed operands, and as packed numbers."""
    items, more = ITEMS[name]
    field, more = FIELD.get(name, name), more | {"return": PARTS}
    bodies = [(LISTS, "BHLE", [x.tolist() for x in items]), (LENGTHS, "BLHE", [x.tolist() for x in items])]
    if name in PACKED:
        bodies.append((LENGTHS, "BLHE", np.concatenate(items).tolist()))
    for body, layout, value in bodies:
        answer = ask(daemon, body | more | {field: value})
        for b in B:
            own = items[b][None].tolist() if items[b].size else one_entry(items[b]) | ({"dtype": "bool"} if items[b].dtype == bool else {})
            same(answer, ask(daemon, single(b, layout) | more | {field: own}), b)


def masks(own, packed=False):
    """Masks that combine others, with items by entry: of all entries, or of the one that `own` picks."""
    def item(x):
        return own(x) if own else np.concatenate(x).tolist() if packed else [e.tolist() for e in x]
    def number(x):
        return [x[own(None)]] if own else x
    documents, parents, cells, padding = DEEP
    images = {"kind": "any_of", "any_of": [{"kind": "causal"}, {"kind": "documents", "document_ids": item(documents)}]}
    deep = [{"kind": "tree", "parents": item(parents)}, {"kind": "prefix", "prefix_lengths": number([2, 1, 30, 90, 5])},
            {"kind": "all_of", "all_of": [images, {"kind": "not", "not": {"kind": "padding", "key_padding_mask": item(padding), "key_padding_semantics": "keep"}}]}]
    if not packed:
        deep.append({"kind": "values", "attn_mask": item(cells)})
    return {"window": [30, 30], "any_of": deep, "not": {"kind": "padding", "key_lengths": number([0, 1, 3, 2, 1])},
            "query_offset": "end"}


DEEP = of_keys(3), tree(), of_cells((HQ,), 0.2), [x > 0 for x in of_keys(2)]


def own_item(b):
    """Item b with a batch axis; the index for an item that is a number."""
    def pick(items):
        if items is None:
            return b
        x = items[b]
        return x[None].tolist() if x.size else one_entry(x) | ({"dtype": "bool"} if x.dtype == bool else {})
    return pick


def test_items_of_combined_masks(daemon):
    """Items inside any_of, all_of and not, nested: as lists by entry and as packed numbers."""
    more = {"return": PARTS + ["logsumexp"]}
    for body, layout, packed in ((LISTS, "BHLE", False), (LENGTHS, "BLHE", False), (LENGTHS, "BLHE", True)):
        answer = ask(daemon, body | masks(None, packed) | more)
        for b in B:
            alone = masks(own_item(b))
            if packed:
                alone["any_of"].pop()
            same(answer, ask(daemon, single(b, layout) | alone | more), b)


def test_rotary_axes(daemon):
    """Positions on two axes for each entry, of queries and keys apart and, in self-attention, of both."""
    def axis(own, pairs, of, packed=False):
        def item(x):
            return own(x) if own else np.concatenate(x).tolist() if packed else [e.tolist() for e in x]
        return {name: item(x) for name, x in of.items()} | {"num_pairs": pairs}
    apart = [{"query_positions": positions(QUERIES), "key_positions": positions(KEYS)} for _ in range(2)]
    both = [{"positions": positions(QUERIES)} for _ in range(2)]
    query = {"query": LENGTHS["query"], "query_lengths": QUERIES, "layout": "BLHE"}
    width = len(LENGTHS["query"][0][0]) // 2
    for places in (apart, both):
        for body, packed in ((LISTS, False), (LENGTHS, False), (LENGTHS, True)) if places is apart else ((query, False), (query, True)):
            def position(own):
                axes = [axis(own, n, of, packed and not own) for n, of in zip((1, width - 1), places)]
                return {"position": {"kind": "rotary", "layout": "halves", "axes": axes}, "return": PARTS}
            answer = ask(daemon, body | position(None))
            for b in B:
                alone = single(b, "BLHE" if body is not LISTS else "BHLE")
                if places is both:
                    alone = {name: alone[name] for name in ("query", "layout")}
                same(answer, ask(daemon, alone | position(own_item(b))), b)


def test_prefixes(daemon):
    """One length for all entries, or one each."""
    lengths = [2, 1, 30, 90, 5]
    for body, layout in ((LISTS, "BHLE"), (LENGTHS, "BLHE")):
        for given in (lengths, [4]):
            answer = ask(daemon, body | {"prefix_lengths": given, "return": ["weights"]})
            for b in B:
                alone = ask(daemon, single(b, layout) | {"prefix_lengths": [given[b % len(given)]], "return": ["weights"]})
                same(answer, alone, b)


def test_gradients_of_items(daemon):
    """Each entry has the gradients of its own bias and of its own additive mask."""
    for field, more in (("attn_bias", {}), ("attn_mask", {"mask_semantics": "additive"})):
        items = bias(HQ)
        grads = [np.float32(RNG.standard_normal((HQ, L, 6))) for L in QUERIES]
        answer = ask(daemon, LISTS | more | {field: [x.tolist() for x in items], "grad_output": [x.tolist() for x in grads], "return": ["gradients"]})
        for b in B:
            alone = ask(daemon, single(b) | more | {field: one_entry(items[b]), "grad_output": one_entry(grads[b]), "return": ["gradients"]})
            for name, found in alone["gradients"].items():
                assert found[0] == answer["gradients"][name][b], (field, name, b)


def names(b):
    words = ["the", "cat", ",", "sat", "<s>"]
    return {"query": [words[i % 5] for i in range(QUERIES[b])], "key": [words[j % 4] for j in range(KEYS[b])]}


def test_analyses_and_labels(daemon):
    """A list of analyses, each that of the request of the entry with its own labels; a run keeps the labels of each site."""
    more = {"analysis": "all", "return": ["weights"], "is_causal": True, "query_offset": "end"}
    answer = ask(daemon, LENGTHS | more | {"labels": [names(b) for b in B], "store": True})
    unnamed = ask(daemon, LISTS | more)
    for b in B:
        alone = ask(daemon, single(b, "BLHE") | more | {"labels": names(b)})
        assert answer["analysis"][b] == alone["analysis"], b
        assert unnamed["analysis"][b] == ask(daemon, single(b) | more)["analysis"], b
    run = answer["run"]["id"]
    kept = daemon.get(f"/v1/runs/{run}/analyses?site=attention.3&analysis=all").json()
    assert kept["heads"] == answer["analysis"][3]["heads"], kept
    text = daemon.post("/v1/attention", LENGTHS | more, headers={"Accept": "text/plain"})
    assert text.status_code == 200 and text.text.count("diagnoses") in (0, len(QUERIES)), text.text[:300]


def test_labels_in_heatmaps(daemon):
    maps = ask(daemon, LENGTHS | {"labels": [names(b) for b in B], "heatmap": {}, "return": []})["heatmap"]
    assert maps["labels"][2] == names(2) and {head["batch"] for head in maps["heads"]} <= set(B)


@pytest.mark.parametrize("fields, code, pointer, text", [
    ({"attn_mask": [x.tolist() for x in of_cells()[:4]]}, "shape_mismatch", "/attn_mask", "each of 5 entries; found 4"),
    ({"attn_mask": [[[True]]] * 2 + [[[True] * 7] * 40] + [[[True]]] * 2}, "shape_mismatch", "/attn_mask/2", "broadcast to [H, 40, 40]; found [40, 7]"),
    ({"document_ids": [[1] * S for S in KEYS[:4]] + [[1, 2]]}, "shape_mismatch", "/document_ids/4", "each of 200 keys; found [2]"),
    ({"query_positions": [0] * 243, "position": "alibi"}, "shape_mismatch", "/query_positions", "each packed row, 244; found 243"),
    ({"parents": [[-1] * S for S in KEYS[:2]] + [[-1] * 39 + [40]] + [[-1] * S for S in KEYS[3:]]}, "invalid_value", "/parents/2/39", "40"),
    ({"parents": [-1] * 48 + [99] + [-1] * 290}, "invalid_value", "/parents/48", "99"),
    ({"labels": [names(0)] * 4}, "shape_mismatch", "/labels", "each of 5 entries; found a list of 4"),
    ({"prefix_lengths": [1, 2]}, "shape_mismatch", "/prefix_lengths", "each of 5 entries; found 2"),
    ({"attn_mask": {"shape": [5, 1, 8], "encoding": "bits", "base64": "/////w8="}}, "invalid_value", "/attn_mask", "booleans by entry"),
    ({"any_of": [{"kind": "tree", "parents": [[-1] * S for S in KEYS[:2]] + [[-1] * 39 + [40]] + [[-1] * S for S in KEYS[3:]]}]},
     "invalid_value", "/any_of/0/parents/2/39", "40"),
    ({"not": {"kind": "tree", "parents": [-1] * 48 + [99] + [-1] * 290}}, "invalid_value", "/not/parents/48", "99"),
    ({"all_of": [{"kind": "any_of", "any_of": [{"kind": "documents", "document_ids": [[1] * S for S in KEYS[:4]] + [[1, 2]]}]}]},
     "shape_mismatch", "/all_of/0/any_of/0/document_ids/4", "each of 200 keys; found [2]"),
    ({"any_of": [{"kind": "prefix", "prefix_lengths": [1, 2]}]}, "shape_mismatch", "/any_of/0/prefix_lengths", "each of 5 entries; found 2"),
    ({"any_of": [{"kind": "padding", "key_lengths": [1, 2]}]}, "shape_mismatch", "/any_of/0/key_lengths", "each of 5 entries; found 2"),
    ({"position": {"kind": "rotary", "layout": "halves", "axes": [{"query_positions": [0] * 243, "key_positions": [0] * 339, "num_pairs": 3}]}},
     "shape_mismatch", "/position/axes/0/query_positions", "each packed row, 244; found 243"),
    ({"past_key": [[[1]]], "past_value": [[[1]]]}, "shape_mismatch", "/past_key", "each of 5 entries; found 1")])
def test_refusals(daemon, fields, code, pointer, text):
    refused(daemon, LENGTHS | fields, code, pointer, text)


def test_items_of_one_shape_of_operands(daemon):
    """Lists that differ in shape need a ragged batch."""
    refused(daemon, {"query": [[[1, 2]], [[3, 4]]], "document_ids": [[1], [1, 2]]}, "shape_mismatch", "/document_ids",
            "[1] of item 0 and [2] of item 1; expected one shape")
    refused(daemon, {"query": [[[1, 2]], [[3, 4]]], "token_ids": [[1], [1, 2]], "pad_id": 2}, "shape_mismatch", "/token_ids", "pad the shorter")
    refused(daemon, {"query": [[[1, 2]], [[3, 4]]], "any_of": [{"kind": "documents", "document_ids": [[1], [1, 2]]}]}, "shape_mismatch",
            "/any_of/0/document_ids", "one shape")
    places = [{"positions": [[1], [1, 2]], "num_pairs": 1}]
    refused(daemon, {"query": [[[1, 2]], [[3, 4]]], "position": {"kind": "rotary", "layout": "halves", "axes": places}}, "shape_mismatch",
            "/position/axes/0/positions", "one shape")
    refused(daemon, {"masks": [{"kind": "documents", "document_ids": [[1], [1, 2]]}], "shape": [2, 2]}, "shape_mismatch",
            "/masks/0/document_ids", "one shape", path="/v1/masks")
    refused(daemon, LISTS | {"document_ids": [1] * 339}, "shape_mismatch", "/document_ids", "a list for each")


def test_booleans_behind_no_keys(daemon):
    """The first element decides that a list is one of booleans, even when the first entry has none."""
    body = {"query": [[[1, 0]], [[0, 1]]], "key": [[], [[0, 1], [1, 1]]], "value": [[], [[2], [4]]], "return": ["weights"]}
    for own in ({"attn_mask": [[[]], [[True, False]]]}, {"key_padding_mask": [[], [True, False]], "key_padding_semantics": "keep"}):
        assert ask(daemon, body | own)["weights"] == [[[]], [[1, 0]]], own


def test_masks_of_heads_without_queries_and_keys(daemon):
    """JSON says of no cells for two heads that there are two heads, and neither how many rows nor how long they are."""
    operands = [[[[1, 0]], [[0, 1]]], [[], []]]
    body = {"query": operands, "attn_mask": [[[[True]], [[True]]], [[], []]], "return": ["output", "weights"]}
    assert ask(daemon, body)["output"] == operands
