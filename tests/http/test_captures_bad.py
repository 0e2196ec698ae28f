"""Captures with mistakes and attacks: each is refused with a problem that names the member or the tensor and says what
was expected, nothing is stored, and the daemon lives on and stays small."""
import json
import re
import struct

import numpy as np
import pytest
from captured import NPY, TYPE, store
from oracle import captures
from oracle.captures import File, container, header_of, write
from test_api_runs import npy

r = np.random.default_rng(3)
B, H, HKV, L, S, E = 2, 4, 2, 3, 5, 8
QUERY, KEY, VALUE = (r.standard_normal(s).astype(np.float32) for s in ((B, H, L, E), (B, HKV, S, E), (B, HKV, S, 6)))
TENSORS = {"sites.0.query": ("F32", QUERY), "sites.0.key": ("F32", KEY)}
TEXTS = [{"tokens": list("abcde")}, {"tokens": list("xyz")}]


def site(more=None, texts=TEXTS, **members):
    """A capture of one site with these members, and with more tensors (None: without that one)."""
    tensors = {name: x for name, x in (TENSORS | (more or {})).items() if x is not None}
    return write(File({"version": 2, "texts": texts, "sites": [members]}, tensors))


def f32(*shape):
    return ("F32", np.zeros(shape, np.float32))


def boolean(*shape):
    return ("BOOL", np.ones(shape, bool))


def run(tensors=TENSORS, **members):
    return write(File({"version": 2, "sites": [{}], **members}, tensors))


def text(raw):
    """A capture whose text is this one, which need not be JSON."""
    header, data = header_of(File({}, TENSORS))
    header["__metadata__"]["run"] = raw
    return container(header, data)


def header(change):
    """A capture whose header is changed by a function, which may return another one."""
    head, data = header_of(File({"version": 2, "sites": [{}]}, TENSORS))
    changed = change(head)
    return container(changed if changed is not None else head, data)


def entry(**changes):
    """The same with other entries of the query's tensor."""
    return header(lambda head: head["sites.0.query"].update(changes))


def unread(name, members=None, dtype="I16", shape=(4,), **entry):
    """A capture with one more tensor of 8 bytes, which no attn_tensor can show."""
    head, data = header_of(File({"version": 2, "sites": [members or {}]}, TENSORS))
    head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + 8]} | entry
    return container(head, data + bytes(8))


def length(n, rest=b"{}"):
    return struct.pack("<Q", n) + rest


def unaligned():
    """A header of odd length, so that no tensor begins at a multiple of 4."""
    head, data = header_of(File({"version": 2, "sites": [{}]}, TENSORS))
    raw = json.dumps(head).encode()
    raw += b" " * (1 - len(raw) % 2)
    return struct.pack("<Q", len(raw)) + raw + data


def pair(member):
    """A decoder's site whose text for `member` is missing or short."""
    return {"query_text": 1, "key_text": 0, "kind": "cross", **member}


def wide(*shape):
    """A site of [.., E = 0]: no bytes, but rows as many as one likes."""
    empty = lambda n: {"dtype": "F32", "shape": n, "data_offsets": [0, 0]}  # noqa: E731
    return container({"__metadata__": {"run": json.dumps({"version": 2, "sites": [{}]})},
                      "sites.0.query": empty(list(shape)), "sites.0.key": empty(list(shape))}, b"")


def pool(table=((0, 3), (2, -1)), lengths=(5, 4), shape=(4, 4, HKV, E), more=None, dtype="I32", **members):
    """A site whose keys lie in a pool of blocks."""
    members = {"block_table": "t", "key_lengths": list(lengths)} | members
    return site({"sites.0.key": f32(*shape), "t": (dtype, np.array(table)), **(more or {})}, **{k: v for k, v in members.items() if v is not None})


CASES = {
    # the container
    "empty body": (b"", "8 bytes|empty|body"),
    "7 bytes": (b"\0" * 7, "8 bytes"),
    "length without a header": (length(100, b""), "header"),
    "length of 2^64 - 1": (length(2**64 - 1), "header"),
    "length of 2^63": (length(2**63), "header"),
    "length beyond the body": (length(3, b"{}"), "header"),
    "header that is not JSON": (container(b"hello", b""), "'{'"),
    "header that is a list": (container(b"[]", b""), "'{'"),
    "header cut off": (container(b'{"a":', b""), "'{'|header"),
    "header without metadata": (header(lambda h: h.pop("__metadata__") and None), "run"),
    "metadata that is no object": (header(lambda h: h.update(__metadata__=[1])), "'{'"),
    "metadata without run": (header(lambda h: h.update(__metadata__={"format": "pt"})), "run"),
    "run that is no text": (header(lambda h: h.update(__metadata__={"run": {"version": 2}})), "'\"'|string|text"),
    "metadata twice": (header(lambda h: json.dumps(h)[:-1].encode() + b',"__metadata__":{}}'), "once"),
    "a tensor twice": (header(lambda h: (json.dumps(h)[:-1] + ',"sites.0.query":' + json.dumps(h["sites.0.query"]) + "}").encode()),
                       "sites.0.query.*(two|twice)|(two|twice).*sites.0.query"),
    "unknown type": (entry(dtype="F8_E4M3"), "sites.0.query.*F16|F16.*sites.0.query"),
    "type that is a number": (entry(dtype=32), "string|'\"'|F32"),
    "mask of an unknown type": (unread("mask", {"attn_mask": "mask"}), "/sites/0/attn_mask.*F16.*I16"),
    "mask of an unknown type, by its usual name": (unread("sites.0.attn_mask"), "sites.0.attn_mask.*F16.*I16"),
    "query without axes, by name": (unread("scalar", {"query": "scalar"}, dtype="I64", shape=[]), "/sites/0/query.*found none"),
    "another tensor whose bytes overlap": (unread("other", data_offsets=[0, 8]), "begin at 8, behind"),
    "another tensor that ends before it begins": (unread("other", data_offsets=[8, 0]), "other.*backwards"),
    "shape that is negative": (entry(shape=[2, -4, 3, 8]), "integer of 0 or more"),
    "shape with a fraction": (entry(shape=[2, 4, 3.5, 8]), "'\\]'|','|number"),
    "shape beyond 2^64": (entry(shape=[2**40, 2**40, 3, 8]), "sites.0.query"),
    "shape of rank 0": (entry(shape=[]), "sites.0.query.*found none"),
    "shape of 100 axes": (entry(shape=[1] * 100), "sites.0.query"),
    "offsets shorter than the shape": (entry(data_offsets=[0, 4]), "sites.0.query.*(bytes|needs)|needs.*bytes"),
    "offsets backwards": (entry(data_offsets=[768, 0]), "sites.0.query"),
    "offsets beyond the file": (entry(shape=[2, 4, 3, 8000], data_offsets=[0, 768000]), "sites.0"),
    "offsets of 2^63": (entry(data_offsets=[2**63, 2**63 + 768]), "below 2"),
    "offsets of 10^30": (entry(data_offsets=[0, 10**30]), "below 2"),
    "tensors that overlap": (header(lambda h: h["sites.0.key"].update(data_offsets=h["sites.0.query"]["data_offsets"][:1] + [640])),
                             "sites.0"),
    "a gap between tensors": (header(lambda h: h["sites.0.key"].update(data_offsets=[800, 1440])), "sites.0.key"),
    "bytes behind the tensors": (run() + b"\0" * 8, "end at byte|belong"),
    "data cut off": (run()[:-4], "sites.0|byte"),
    "tensors that begin at odd bytes": (unaligned(), "multiple"),
    # the text
    "not JSON": (text("hello"), "run|JSON|byte"),
    "JSON cut off": (text('{"version":2,"sites":[{}'), "byte|end"),
    "two texts in one": (text('{"version":2,"sites":[{}]}{}'), "byte|end"),
    "a list": (text("[]"), "object"),
    "null": (text("null"), "object"),
    "NaN": (text('{"version":2,"sites":[{"scale":NaN}]}'), "byte|number|scale"),
    "a number beyond a double": (text('{"version":2,"sites":[{"scale":1e999}]}'), "byte 31"),
    "a lone surrogate": (text('{"version":2,"sites":[{"name":"\\ud800"}]}'), "name|byte|surrogate|escape"),
    "NUL in a name": (text('{"version":2,"sites":[{"name":"a\\u0000b"}]}'), "u0000"),
    "a member twice": (text('{"version":2,"version":2,"sites":[{}]}'), "version.*(twice|two|once)|(twice|two|once)"),
    "100,000 brackets": (text("[" * 100000), "deep|nest|depth|level"),
    "100,000 objects in one another": (text('{"version":2,"sites":[{"x-a":' + '{"a":' * 100000), "deep|nest|depth|level"),
    "no version": (text('{"sites":[{}]}'), "version"),
    "version 0": (run(version=0), "version.*2"),
    "version 1": (run(version=1), "version.*2"),
    "version 3": (run(version=3), "format 3.*newer|newer.*3"),
    "version 10^300": (text('{"version":1e300,"sites":[{}]}'), "version"),
    "version as text": (run(version="2"), "version"),
    "no sites": (text('{"version":2}'), "sites"),
    "an empty list of sites": (run(sites=[]), "at least one site, found an empty one"),
    "sites that are an object": (run(sites={}), "sites"),
    "a site that is a text": (run(sites=["a"]), "sites/0.*object|object"),
    "a million sites": (text('{"version":2,"sites":[' + "{}," * 999999 + "{}]}"), "sites"),
    "a million equal sites with names": (text('{"version":2,"sites":[' + ",".join(
        f'{{"name":"{n}","query":"sites.0.query","key":"sites.0.key"}}' for n in range(300000)) + "]}"), "sites|bytes"),
    "an unknown member": (run(modle="x"), "modle"),
    "texts that are a text": (run(texts="abc"), "texts"),
    "a text without tokens": (run(texts=[{"text": "abc"}]), "texts/0/tokens"),
    "tokens that are numbers": (run(texts=[{"tokens": ["a", 1]}]), "texts/0/tokens.*string"),
    "an id too few": (run(texts=[{"tokens": ["a", "b"], "ids": [1]}]), "texts/0/ids"),
    "ids that are texts": (run(texts=[{"tokens": ["a"], "ids": ["1"]}]), "texts/0/ids"),
    "an offset beyond the text": (run(texts=[{"tokens": ["a"], "text": "a", "offsets": [[0, 2]]}]), "texts/0/offsets"),
    "offsets backwards in a text": (run(texts=[{"tokens": ["a"], "text": "abc", "offsets": [[2, 1]]}]), "texts/0/offsets"),
    "a special token that is not there": (run(texts=[{"tokens": ["a"], "special": [1]}]), "texts/0/special"),
    "an unknown member of a text": (run(texts=[{"tokens": ["a"], "token_ids": [1]}]), "texts/0/token_ids"),
    "a label of 100 MB": (run(texts=[{"tokens": ["a" * 100_000_000]}]), "bytes|large"),
    "labels of 30 MB": (run(texts=[{"tokens": ["a" * 1000] * 30_000}]), "bytes|large"),
    # a site: members
    "is_casual": (site(is_casual=True), "is_casual"),
    "is_causal as a number": (site(is_causal=1), "is_causal"),
    "scale as a text": (site(scale="0.5"), "scale"),
    "a negative softcap": (site(softcap=-1), "softcap"),
    "a window of one number": (site(window=[3]), "window"),
    "a window of -2": (site(window=[-2, 0]), "window"),
    "a pattern without its number": (site(pattern={"kind": "local"}), "pattern"),
    "a pattern of no kind": (site(pattern={"kind": "spiral", "radius": 1}), "pattern"),
    "a stride of 0": (site(pattern={"kind": "strided", "stride": 0, "local": 1}), "pattern"),
    "a number of another pattern": (site(pattern={"kind": "local", "radius": 1, "stride": 2}), "stride"),
    "any_of as an object": (site(any_of={"kind": "causal"}), "any_of"),
    "any_of of nothing": (site(any_of=[]), "any_of"),
    "a mask of no kind in any_of": (site(any_of=[{"kind": "diagonal"}]), "any_of/0"),
    "not of two masks": (site(any_of=[{"kind": "not", "masks": [{"kind": "causal"}] * 2}]), "expected one mask, found 2"),
    "a list without masks": (site(any_of=[{"kind": "all_of"}]), "any_of/0"),
    "17 masks": (site(any_of=[{"kind": "causal"}] * 16), "at most 16"),
    "documents without a tensor": (site(document_ids="none"), "document_ids"),
    "documents for each query and key": (site({"d": f32(3, 1, 4)}, document_ids="d"), "document_ids"),
    "an unknown kind": (site(kind="middle"), "kind.*encoder"),
    "layer -1": (site(layer=-1), "layer"),
    "layer 1.5": (site(layer=1.5), "layer"),
    "a layer above 2^40": (site(layer=2**40 + 1), r"layer.*from 0 to 2\^40"),
    "call 10^300": (site(call=1e300), "call"),
    "query_start 2^60": (site(query_start=2**60), "query_start"),
    "query_offset of 10^18": (site(query_offset=10**18), "query_offset"),
    "query_offset begin": (site(query_offset="begin"), "query_offset.*end"),
    "query_offset of another batch": (site(query_offset=[0, 1, 2]), "query_offset"),
    "a name twice": (run(sites=[{"name": "a"}, {"name": "a", "query": "sites.0.query", "key": "sites.0.key"}]), "name"),
    "a name of another site": (run(sites=[{"name": "sites.1"}, {"query": "sites.0.query", "key": "sites.0.key"}]), "sites.1|name"),
    "two sites of one layer": (run(sites=[{"layer": 1}, {"layer": 1, "query": "sites.0.query", "key": "sites.0.key"}]), "sites/1/layer.*site 0"),
    "a layer of another site's axis": (run(sites=[{"query": "q", "key": "q", "layer": 4, "axes": ["layer", "batch", "head"]},
                                                  {"layer": 6, "query": "q", "key": "q", "axes": ["layer", "batch", "head"]}],
                                           tensors={"q": f32(3, 1, 1, 2, 4)}), "sites/1/layer"),
    "a call without a layer": (run(sites=[{"call": 1}]), "sites/0/call.*layer"),
    "axes of another number": (site(axes=["head"]), "axes"),
    "axes of other names": (site(axes=["rows", "head"]), "axes"),
    "rope": (site(position={"kind": "rope"}), "position.*(alibi|t5)"),
    "an unknown score": (site(score={"kind": "cosine"}), "score.*additive"),
    # a site: tensors
    "no query": (site({"sites.0.query": None}), "sites.0.query|query"),
    "no key": (site({"sites.0.key": None}), "sites.0.key|key"),
    "a query that is not there": (site(query="layers.0.q"), "query.*layers.0.q"),
    "a query that is a number": (site(query=7), "query"),
    "a query of integers": (site({"sites.0.query": ("I64", np.zeros((B, H, L, E), np.int64))}), "query.*F32|query"),
    "a query of booleans": (site({"sites.0.query": boolean(B, H, L, E)}), "query"),
    "a query of rank 1": (site({"sites.0.query": f32(E)}), "query"),
    "a query of rank 5 without axes": (site({"sites.0.query": f32(1, B, H, L, E)}), "query|key"),
    "a key of rank 3": (site({"sites.0.key": f32(HKV, S, E)}), "key"),
    "a key of another width": (site({"sites.0.key": f32(B, HKV, S, E + 1)}), "key"),
    "a key of another batch": (site({"sites.0.key": f32(3, HKV, S, E)}), "key"),
    "heads that do not divide": (site({"sites.0.key": f32(B, 3, S, E)}), "key.*(divi|multiple)|heads"),
    "more key heads than heads": (site({"sites.0.key": f32(B, 8, S, E)}), "key|heads"),
    "no key heads": (site({"sites.0.key": f32(B, 0, S, E)}), "key|heads"),
    "a value of another batch": (site({"sites.0.value": f32(3, HKV, S, E)}), "value"),
    "a value of other heads": (site({"sites.0.value": f32(B, 4, S, E)}), "value"),
    "a value of other keys": (site({"sites.0.value": f32(B, HKV, S + 1, E)}), "value"),
    "sinks of other heads": (site({"sites.0.sinks": f32(H + 1)}), "sinks"),
    "sinks of rank 2": (site({"s": f32(1, H)}, sinks="s"), "sinks"),
    "sinks of booleans": (site({"s": boolean(H)}, sinks="s"), "sinks"),
    "a mask of another site's shape": (site({"m": boolean(B, 1, 7, 7)}, attn_mask="m"), "attn_mask"),
    "a mask that does not broadcast": (site({"m": boolean(B, L, S)}, attn_mask="m"), "attn_mask"),
    "a mask of integers": (site({"m": ("I64", np.ones((L, S), np.int64))}, attn_mask="m"), "attn_mask.*mask_semantics.*keep"),
    "a mask of integers that are no bits": (site({"m": ("I64", np.full((L, S), 2))}, attn_mask="m", mask_semantics="additives"),
                                            "mask_semantics.*finite_min"),
    "a padding mask of rank 2": (site({"m": boolean(B, S)}, attn_mask="m"), r"attn_mask.*\[B, 1, 1, S\].*mask\[:, None, None\]"),
    "a mask that is not there": (site(attn_mask=["m"]), "attn_mask.*m"),
    "bits of another number of keys": (site({"m": ("U8", np.zeros((L, 2)))}, attn_mask={"values": "m", "encoding": "bits"}),
                                       "attn_mask.*5 keys are rows of 1 byte"),
    "bits that do not broadcast": (site({"m": ("U8", np.zeros((L + 1, 1)))}, attn_mask={"values": "m", "encoding": "bits"}), "attn_mask.*broadcast"),
    "bits of booleans": (site({"m": boolean(L, 1)}, attn_mask=[{"values": "m", "encoding": "bits"}]), "attn_mask.*bool"),
    "bits behind the last key": (site({"m": ("U8", np.full((L, 1), 32))}, attn_mask={"values": "m", "encoding": "bits"}),
                                 "attn_mask.*row 0.*packbits|row 0.*packbits.*attn_mask"),
    "bits of another order in a list": (site({"m": ("U8", np.full((L, 1), 255))}, any_of=[{"kind": "bits", "values": "m"}]), "bits.*packbits"),
    "bits of a bias": (site({"m": ("U8", np.zeros((L, 1)))}, attn_bias={"values": "m", "encoding": "bits"}), "attn_bias"),
    "bits of another encoding": (site({"m": ("U8", np.zeros((L, 1)))}, attn_mask={"values": "m", "encoding": "zip"}), "attn_mask"),
    "bits without a name": (site(attn_mask={"encoding": "bits"}), "attn_mask"),
    "bits with another member": (site({"m": ("U8", np.zeros((L, 1)))}, attn_mask={"values": "m", "encoding": "bits", "shape": [3, 5]}),
                                 "shape"),
    "not of two masks": (site(**{"not": [{"kind": "causal"}] * 2}), "one mask"),
    "all_of that is no list": (site(all_of={"kind": "causal"}), "all_of.*list|list.*all_of"),
    "17 masks": (site({"m": boolean(L, S)}, attn_mask=["m"] * 17), "attn_mask.*16"),
    "a bias of booleans": (site({"m": boolean(L, S)}, attn_bias="m"), "attn_bias"),
    "key_lengths of another batch": (site(key_lengths=[5]), "key_lengths.*2"),
    "a key length beyond S": (site(key_lengths=[5, 6]), "key_lengths.*5"),
    "a negative key length": (site(key_lengths=[5, -1]), "key_lengths"),
    "a query length beyond L": (site(query_lengths=[4, 3]), "query_lengths.*3"),
    "query_lengths of fractions": (site(query_lengths=[1.5, 2]), "query_lengths"),
    "a table without lengths": (pool(key_lengths=None), "block_table.*key_lengths"),
    "a layout without a table": (site(block_layout="HND"), "block_layout.*block_table"),
    "a block that is not there": (pool(((0, 4), (2, -1))), "sites/0/block_table/0/1 expected one of the 4 blocks.*found 4"),
    "a block of -1": (pool(((0, -1), (2, -1))), "block_table/0/1.*found -1"),
    "more keys than blocks": (pool(lengths=(9, 4)), "key_lengths/0.*0 to 8 keys.*found 9"),
    "lengths of another batch": (pool(lengths=(5,)), "key_lengths.*2 numbers"),
    "a table of another batch": (pool(((0, 3),)), r"block_table.*\[2, max_blocks\]"),
    "a table of one axis": (pool((0, 3)), r"block_table.*found \[2\]"),
    "a table of floats": (pool(dtype="F32"), "block_table.*integers"),
    "keys that are no pool": (pool(shape=(4, HKV, E)), "key.*num_blocks, block_size, Hkv, E"),
    "blocks of another width": (pool(shape=(4, 4, HKV, E + 1)), "key"),
    "blocks without heads": (pool(shape=(4, 4, 0, E)), "key"),
    "values of other blocks": (pool(more={"sites.0.value": f32(4, 3, HKV, E)}), r"value.*\[4, 4, 2, Ev\]"),
    "an order of axes": (pool(block_layout="BHLE"), "block_layout.*NHD, HND"),
    "blocks of layers": (pool(lengths=(5,), more={"sites.0.query": f32(1, B, H, L, E)}, axes=["layer", "batch", "head"]), "query.*batch and heads"),
    "2^40 keys": (pool(np.zeros((2, 2**14), int), (2**31, 2**31), (1, 2**17, 1, E)), "block_table.*bytes"),
    "slopes of other heads": (site({"t": f32(HKV)}, position={"kind": "alibi", "slopes": "t"}), "position/slopes"),
    "t5 without a table": (site(position={"kind": "t5"}), "position"),
    "a t5 table of other heads": (site({"t": f32(8, HKV)}, position={"kind": "t5", "table": "t"}), "position/table"),
    "a relative table of even width": (site({"t": f32(H, 4)}, position={"kind": "relative", "table": "t"}), "position/table"),
    "a shaw table of another width": (site({"t": f32(3, E + 1)}, position={"kind": "shaw", "key_table": "t"}), "position/key_table"),
    "a shaw table of other heads": (site({"t": f32(H + 1, 3, E)}, position={"kind": "shaw", "key_table": "t"}), "position/key_table"),
    "a query table of odd rows": (site({"t": f32(3, E)}, position={"kind": "disentangled", "query_table": "t"}), "position/query_table"),
    "a score without its matrix": (site(score={"kind": "general"}), "score"),
    "a score's matrix of another shape": (site({"w": f32(E, E + 1)}, score={"kind": "general", "w": "w"}), "score/w"),
    "10^12 queries of no width": (wide(1, 1, 10**12, 0), "query"),
    "10^7 queries of no width": (wide(1, 1, 10**7, 0), "query.*width"),
    "10^9 sequences of no width": (wide(10**9, 1, 1, 0), "query.*width"),
    "2^40 heads of no width": (wide(1, 2**40, 1, 0), "query.*width"),
    "10^9 queries of no sequence": (wide(0, 1, 10**9, 8), "query.*sequence"),
    "10^9 queries of no head": (wide(1, 0, 10**9, 8), "query.*head"),
    # a site: texts
    "a key_text that is not there": (site(key_text=2), "key_text.*2"),
    "a key_text of -1": (site(key_text=-1), "key_text"),
    "a key_text without texts": (site(texts=[], key_text=0), "key_text"),
    "texts of another batch": (site(query_text=[0]), "query_text"),
    "a list with a text that is not there": (site(query_text=[0, 9]), "query_text"),
    "cross-attention to a short text": (site(**pair({"key_text": 1})), "key_text.*5.*3"),
    "cross-attention to a missing text": (site(**pair({"key_text": 5})), "key_text"),
    "a text too short for query_start": (site(query_text=1, query_start=1), "query_text.*4.*3"),
    "a text too short for one of the lengths": (site(query_text=0, key_text=[0, 1], key_lengths=[5, 4]), "key_text.*4.*3.*key_lengths"),
    "queries of a short text": (site(query_text=1, key_text=[0, 1], key_lengths=[5, 3], query_start=1), "query_text.*query_lengths"),
}


def memory(daemon):
    with open(f"/proc/{daemon.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) / 1024


@pytest.mark.parametrize(("dtype", "shape"), [("I16", (4,)), ("F8_E4M3", (8,)), ("C64", (1,)), ("I64", ()), ("U8", (1,) * 7 + (8,)),
                                              ("U8", (1,) * 9)], ids=str)
def test_tensors_that_no_site_reads_may_be_anything(daemon, dtype, shape):
    store(daemon, unread("other", dtype=dtype, shape=shape))


@pytest.mark.parametrize(("flag", "name", "most", "what"), [
    ("--max-capture-sites", "max_capture_sites", 2, {"sites": [{}] * 3}),
    ("--max-capture-text-bytes", "max_capture_text_bytes", 4096, {"texts": [{"tokens": ["a" * 5000]}]})])
def test_limits_are_named(start, flag, name, most, what):
    reply = start("--log", "off", flag, str(most)).post("/v1/runs", run(**what), headers=TYPE)
    problem = reply.json()
    assert reply.status_code == 413 and problem["limit"] == {"value": most, "setting": name}, problem


def test_there_are_many():
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_refused(daemon, name):
    data, words = CASES[name]
    reply = daemon.post("/v1/runs", data, headers=TYPE)
    assert reply.status_code in (400, 413, 422), f"{reply.status_code}: {reply.text[:400]}"
    problem = reply.json()
    assert reply.headers["Content-Type"] == "application/problem+json"
    said = problem.get("pointer", "") + " " + problem["detail"]
    assert re.search(words, said), problem
    assert len(problem["detail"]) < 1000 and daemon.get("/healthz").status_code == 200


@pytest.mark.measured
def test_nothing_of_it_stays(start):
    daemon = start("--log", "off", env={"ATTN_KEEP_BYTES": "0"})  # blocks are not kept for later requests
    store(daemon, site())

    def refused():
        for data, _ in CASES.values():
            assert daemon.post("/v1/runs", data, headers=TYPE).status_code in (400, 413, 422)
        return memory(daemon)

    first = refused()  # a sanitizer keeps what was freed for a while
    assert max(refused() for _ in range(3)) - first < 20 and daemon.metric("attnd_runs") == 1


# --- numbers that are not finite ---

def not_finite(where, value, **members):
    tensors = {name: (kind, x.copy()) for name, (kind, x) in TENSORS.items()}
    tensors[where[0]][1][where[1:]] = value
    return write(File({"version": 2, "sites": [members]}, tensors))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_query_that_is_not_finite(daemon, value):
    """Its row is refused and all others are answered."""
    run = "/v1/runs/" + store(daemon, not_finite(("sites.0.query", 1, 2, 1, 3), value))["id"]
    want = captures.attention(captures.read(site()), 0)["weights"]
    for row in (0, 2):
        got = npy(daemon.get(f"{run}/weights?batch=1&head=2&rows={row}", headers=NPY))
        assert np.abs(got - want[1, 2, row]).max() < 4e-6
    assert npy(daemon.get(f"{run}/weights?batch=1&head=1", headers=NPY)).shape == (L, S)
    for what in ("weights?rows=1", "weights", "rows?rows=0:3", "cells?row=1&col=0", "top-k?rows=1", "tiles?level=0"):
        problem = daemon.get(f"{run}/{what}{'&' if '?' in what else '?'}batch=1&head=2")
        assert problem.status_code == 422 and "query" in problem.text, (what, problem.text)


def test_a_key_that_is_not_finite(daemon):
    """Rows that see it are refused; a causal mask hides it from the first."""
    run = "/v1/runs/" + store(daemon, not_finite(("sites.0.key", 0, 1, 2, 0), np.nan, is_causal=True))["id"]
    want = captures.attention(captures.read(site(is_causal=True)), 0)["weights"]
    for head in (2, 3):  # both read key head 1
        got = npy(daemon.get(f"{run}/weights?head={head}&rows=0:2", headers=NPY))
        assert np.abs(got - want[0, head, :2]).max() < 4e-6
        problem = daemon.get(f"{run}/weights?head={head}&rows=2")
        assert problem.status_code == 422 and "key" in problem.text
    assert npy(daemon.get(f"{run}/weights?head=1", headers=NPY)).shape == (L, S)


@pytest.mark.parametrize(("name", "shape", "members"), [
    ("m", (L, S), {"attn_mask": "m"}), ("m", (L, S), {"attn_bias": "m"}), ("m", (H,), {"sinks": "m"}),
    ("m", (H,), {"position": {"kind": "alibi", "slopes": "m"}}),
    ("m", (H, 3), {"position": {"kind": "relative", "table": "m"}})], ids=["mask", "bias", "sinks", "slopes", "table"])
def test_a_table_that_is_not_finite(daemon, name, shape, members):
    """What all rows share is refused when the run is stored or looked at."""
    x = np.zeros(shape, np.float32)
    x.flat[0] = np.nan
    reply = daemon.post("/v1/runs", site({name: ("F32", x)}, **members), headers=TYPE)
    if reply.status_code == 201:
        reply = daemon.get(f"/v1/runs/{reply.json()['id']}/weights?rows=0&head=0")
    assert reply.status_code == 422 and next(iter(members)) in reply.text, reply.text


def test_a_site_that_cannot_be_opened_leaves_the_others(daemon):
    """NaN in a mask is found when the site is opened: that site has a problem, and the next one is answered."""
    q = np.ones((1, 2, 4, 8), np.float32)
    tensors = {f"sites.{i}.{name}": ("F32", q) for i in range(2) for name in ("query", "key")}
    tensors["sites.0.attn_bias"] = ("F32", np.full((4, 4), np.nan, np.float32))
    run = daemon.post("/v1/runs", data=write(File({"version": 2, "sites": [{}, {}]}, tensors)), headers=TYPE).json()
    assert "attn_bias" in run["sites"][0]["problem"] and "problem" not in run["sites"][1]
    place = f"/v1/runs/{run['id']}"
    assert daemon.get(place + "/weights?site=1").json()["weights"][3] == [0.25] * 4
    for view in ("weights", "tiles", "rows", "analyses", "cells?row=0&col=0"):
        reply = daemon.get(f"{place}/{view}{'&' if '?' in view else '?'}site=0")
        assert reply.status_code == 422, reply.text
    assert daemon.get(place + "/analyses?site=1").status_code == 200
