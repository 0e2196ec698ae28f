"""Bodies in NumPy's formats: .npy is the route's first tensor, .npz an archive of all of them."""
import io
import json
import struct
import zipfile
import zlib

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors

NPY, NPZ = {"Content-Type": "application/x-npy"}, {"Content-Type": "application/x-npz"}
rng = np.random.default_rng(3)
QUERY = rng.standard_normal((2, 5, 4)).astype(np.float32)
KEY, VALUE = rng.standard_normal((2, 2, 7, 4)).astype(np.float32)


def npy(array, **more):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), **more)
    return out.getvalue()


def npz(save=np.savez, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def archive(members, method=zipfile.ZIP_DEFLATED, **more):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method, **more) as zipped:
        for name, data in members.items():
            zipped.writestr(name, data)
    return out.getvalue()


def post(daemon, body, kind, path="/v1/attention", **headers):
    return daemon.post(path, body, headers=kind | headers)


def fine(reply):
    assert reply.status_code == 200, reply.text
    return reply.json()


def refused(reply, status, *words, pointer=None):
    problem = reply.json()
    assert reply.status_code == status and problem.get("pointer") == pointer, problem
    for word in words:
        assert word in problem["detail"], problem
    return problem


# --- npy ---

def test_npy_is_the_first_tensor(daemon):
    want = fine(daemon.post("/v1/attention", {"query": QUERY.tolist(), "is_causal": True, "window": [2, 0], "return": ["weights"]}))
    assert fine(post(daemon, npy(QUERY), NPY, "/v1/attention?is_causal=true&window=2,0&return=weights")) == want
    assert fine(post(daemon, npy(QUERY), NPY)) == fine(daemon.post("/v1/attention", {"query": QUERY.tolist()}))
    w = np.tri(4) / np.tri(4).sum(1, keepdims=True)
    assert fine(post(daemon, npy(w), NPY, "/v1/analyses?is_causal=true&analysis=entropy,sink")) == fine(
        daemon.post("/v1/analyses", {"weights": {"shape": [4, 4], "data": w.ravel().tolist(), "dtype": "float64"},
                                     "is_causal": True, "analysis": ["entropy", "sink"]}))
    assert fine(post(daemon, npy(w), NPY, "/v1/heatmaps?max_cells=4"))["heads"][0]["step"] == [2, 2]
    assert fine(post(daemon, npy(np.arange(3.0)), NPY, "/v1/curves"))["curves"][0]["values"] == [0, 1, 2]
    scored = fine(post(daemon, npy(QUERY), NPY, "/v1/attention?score=dot"))
    assert scored == fine(daemon.post("/v1/attention", {"query": QUERY.tolist(), "score": "dot"}))
    drawn = post(daemon, npy(w), NPY, "/v1/heatmaps?title=Mine", Accept="image/svg+xml")
    assert drawn.status_code == 200 and "Mine" in drawn.text


@pytest.mark.parametrize("dtype", ["<f4", "<f2", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)], ids=str)
def test_types_orders_and_versions(daemon, dtype, order, version):
    x = np.asarray(rng.integers(0, 3, (2, 3, 4, 5)), dtype, order=order)
    answer = fine(post(daemon, npy(x, version=version), NPY, "/v1/attention?return=weights"))
    names = {"<f4": "float32", "<f2": "float16", "<f8": "float64"}
    spec = {"shape": list(x.shape), "data": x.ravel().tolist(), "dtype": names[dtype]}
    assert answer == fine(daemon.post("/v1/attention", {"query": spec, "return": "weights"}))


@pytest.mark.parametrize("dtype", ["<i4", "<i8", "u1"])
def test_integers_and_booleans(daemon, dtype):
    ids = np.array([[3, 1, 0, 0, 0], [2, 2, 2, 1, 0]], dtype)
    body = npz(query=QUERY, token_ids=ids, attn_mask=np.tri(5, dtype=bool), request='{"pad_id": 0}')
    assert fine(post(daemon, body, NPZ)) == fine(daemon.post("/v1/attention", {
        "query": QUERY.tolist(), "token_ids": ids.tolist(), "pad_id": 0, "attn_mask": np.tri(5, dtype=bool).tolist()}))


@pytest.mark.parametrize("order", "<>=|")
def test_single_bytes_have_no_order(daemon, order):
    mask = npy(np.tri(5, dtype=bool)).replace(b"'|b1'", f"'{order}b1'".encode())
    ids = npy(np.array([3, 1, 2, 0, 0], np.uint8)).replace(b"'|u1'", f"'{order}u1'".encode())
    body = archive({"query.npy": npy(QUERY), "attn_mask.npy": mask, "token_ids.npy": ids, "request.json": '{"pad_id": 0}'})
    assert fine(post(daemon, body, NPZ)) == fine(daemon.post("/v1/attention", {
        "query": QUERY.tolist(), "token_ids": [3, 1, 2, 0, 0], "pad_id": 0, "attn_mask": np.tri(5, dtype=bool).tolist()}))


def test_folders_of_an_archive_hold_nothing(daemon):
    body = archive({"layer0/": "", "query.npy": npy(QUERY)})
    assert fine(post(daemon, body, NPZ)) == fine(post(daemon, npy(QUERY), NPY))
    refused(post(daemon, archive({"layer0/": "x", "query.npy": npy(QUERY)}), NPZ), 400, "found \"layer0/\"")


def header(text, version=1, magic=b"\x93NUMPY"):
    text = text.encode()
    return magic + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }"
DATA = bytes(8)


def test_a_header_as_others_write_it(daemon):
    for text in (GOOD, GOOD.replace("'", '"'), "{'shape':(1,2),'descr':'<f4','fortran_order':True}",
                 GOOD.replace("(1, 2)", "(1L, 2L)"), GOOD + " " * 40 + "\n"):
        assert post(daemon, header(text) + DATA, NPY).status_code == 200


@pytest.mark.parametrize(("body", "words"), [
    (b"", "is no .npy file"), (b"\x93NUMPY\x01", "is no .npy file"), (header(GOOD, magic=b"\x93NUMPX") + DATA, "is no .npy file"),
    (header(GOOD, 4) + DATA, "found 4.0"), (b"\x93NUMPY\x01\x00\xff\xff" + GOOD.encode(), "the header has 65535 bytes"),
    (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + GOOD.encode(), "the header has 4294967295 bytes"),
    (header(GOOD.replace("(1, 2)", "(1, 2 3)")) + DATA, "',' or ')'"), (header(GOOD.replace("(1, 2)", "(2)")) + DATA, "','"),
    (header(GOOD.replace("(1, 2)", "(1, 2LL)")) + DATA, "',' or ')'"),
    (header(GOOD.replace("(1, 2)", "(-1, 2)")) + DATA, "an integer"), (header(GOOD.replace("(1, 2)", "(1, 02)")) + DATA, "an integer"),
    (header(GOOD.replace("(1, 2)", "(1, 99999999999999999999)")) + DATA, "below 2^63"),
    (header(GOOD.replace("False", "Maybe")) + DATA, "True or False"), (header(GOOD[:-1]) + DATA, "a string"),
    (header(GOOD.replace("'descr'", "'dtype'")) + DATA, "each once"), (header("{'descr': '<f4'}") + DATA, "each once"),
    (header(GOOD.replace("}", "'descr': '<f4'}")) + DATA, "each once"), (header(GOOD + "x") + DATA, "the end of the header"),
    (header(GOOD.replace("<f4", "<" + "f" * 40)) + DATA, "a short string"), (header("") + DATA, "'{'"),
    (header(GOOD.replace("'<f4'", "[('a', '<f4')]")) + DATA, "a string"),
])
def test_malformed_headers(daemon, body, words):
    refused(post(daemon, body, NPY), 400, "npy: query", words)


@pytest.mark.parametrize(("body", "code", "words"), [
    (header(GOOD) + DATA[:-1], "shape_mismatch", "7 bytes follow"), (header(GOOD) + DATA + b"x", "shape_mismatch", "9 bytes follow"),
    (header(GOOD.replace("(1, 2)", "()")) + DATA[:4], "shape_mismatch", "a single number"),
    (header(GOOD.replace("(1, 2)", "(1,1,1,1,1,1,1,1,2)")) + DATA, "shape_mismatch", "at most 8 axes"),
    (header(GOOD.replace("(1, 2)", f"({2**62}, 4, 2)")), "shape_mismatch", "bytes follow"),
    (npy(QUERY.astype(">f4")), "unsupported_dtype", "big-endian"), (npy(QUERY.astype("c8")), "unsupported_dtype", "<c8"),
    (npy(np.array([["a"]])), "unsupported_dtype", "<U1"), (npy(QUERY.astype("<u2")), "unsupported_dtype", "<u2"),
])
def test_tensors_that_do_not_fit(daemon, body, code, words):
    assert refused(post(daemon, body, NPY), 422, words, pointer="/query")["code"] == code


def test_npy_refuses(daemon):
    refused(post(daemon, npy(np.array([[7, 2]], np.uint8).view(bool)), NPY, "/v1/heatmaps"), 422, pointer="/weights")
    refused(post(daemon, npy(QUERY), NPY, "/v1/attention?is_casual=true"), 422, "did you mean \"is_causal\"?", pointer="/is_casual")
    refused(post(daemon, npy(QUERY), NPY, "/v1/attention?query=1"), 422, pointer="/query")
    reply = post(daemon, npy(QUERY), NPY, "/v1/jobs")
    assert reply.status_code == 415 and "no field of this route is a tensor" in reply.json()["detail"]
    huge = header(f"{{'descr': '<f4', 'fortran_order': True, 'shape': ({10**13}, 0, 2), }}")
    assert post(daemon, huge, NPY).status_code == 413
    assert daemon.post("/v1/attention", b"x", headers={"Content-Type": "image/png"}).headers["Accept-Post"] == \
        "application/json, application/vnd.safetensors, application/x-npy, application/x-npz"


# --- npz ---

REST = {"is_causal": True, "query_offset": "end", "return": ["output", "weights"]}
ALL = {"query": QUERY, "key": KEY, "value": VALUE}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("request_as", [str, lambda t: np.bytes_(t.encode()), lambda t: np.array([t]),
                                        lambda t: np.frombuffer(t.encode(), np.uint8)], ids=["str", "bytes", "list", "uint8"])
def test_npz(daemon, save, request_as):
    want = fine(daemon.post("/v1/attention", {k: v.tolist() for k, v in ALL.items()} | REST))
    body = npz(save, request=request_as(json.dumps(REST)), **ALL)
    assert fine(post(daemon, body, NPZ)) == want


def test_members_of_objects_and_lists(daemon):
    w = np.eye(4, dtype=np.float32)[:, ::-1]
    body = npz(query=np.asfortranarray(QUERY), **{"score.w": w}, request=json.dumps({"score": {"kind": "general"}}))
    assert fine(post(daemon, body, NPZ)) == fine(daemon.post("/v1/attention", {
        "query": QUERY.tolist(), "score": {"kind": "general", "w": w.tolist()}}))
    mask = np.tri(3, dtype=bool)
    body = npz(**{"masks.0.attn_mask": mask}, request=json.dumps({"masks": [{"kind": "values"}], "shape": [3, 3]}))
    assert fine(post(daemon, body, NPZ, "/v1/masks"))["keep"] == mask.tolist()


def test_archives_of_other_programs(daemon):
    plain = {"query.npy": npy(QUERY), "request.json": json.dumps({"is_causal": True, "labels": {"query": list("äb🙂cd")}})}
    want = fine(daemon.post("/v1/attention", {"query": QUERY.tolist(), "is_causal": True}))
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert fine(post(daemon, archive(plain, method), NPZ)) == want
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as zipped:
        zipped.comment = b"a comment PK\x05\x06 with the end's mark" + b"." * 40
        with zipped.open("query.npy", "w", force_zip64=True) as member:
            member.write(npy(QUERY))
    assert fine(post(daemon, out.getvalue(), NPZ)) == fine(daemon.post("/v1/attention", {"query": QUERY.tolist()}))
    odd = json.dumps({"labels": {"query": list("äb🙂cd")}, "heatmap": {}, "return": []}, ensure_ascii=False)
    assert fine(post(daemon, npz(query=QUERY, request=odd), NPZ))["heatmap"]["labels"]["query"] == list("äb🙂cd")


def test_an_answer_can_come_as_it_went(daemon):
    reply = post(daemon, npz(**ALL), NPZ, Accept="application/vnd.safetensors")
    direct = daemon.post("/v1/attention", {k: v.tolist() for k, v in ALL.items()}, headers={"Accept": "application/vnd.safetensors"})
    assert reply.content == direct.content and load_tensors(reply.content)["output"].shape == (2, 5, 4)


BODY = npz(np.savez_compressed, query=QUERY, request="{}")


@pytest.mark.parametrize(("body", "words"), [
    (b"", "is no zip archive"), (b"PK\x05\x06" + bytes(17), "is no zip archive"), (BODY[:-1], "is no zip archive"),
    (b"x" + BODY, "directory"), (BODY.replace(b"PK\x03\x04", b"PK\x03\x05", 1), "no local header"),
    (BODY.replace(b"PK\x01\x02", b"PK\x01\x03", 1), "an entry of the directory is missing"),
    (BODY.replace(b"query.npy", b"querx.npy", 1), "differs from the directory"),
    (archive({"query.npy": npy(QUERY)}, zipfile.ZIP_BZIP2), "method 12"), (archive({"query.txt": b"1"}), "expected members FIELD.npy"),
    (archive({".npy": npy(QUERY)}), "expected members"), (archive({f"m{i}.npy": b"" for i in range(257)}), "at most 256 members"),
    (archive({"query.npy": b"no npy"}), "npy: query: this is no .npy file"),
    (npz(query=QUERY, request=np.arange(3.0)), "one string of JSON"), (npz(query=QUERY, request=np.array(["{}", "{}"])), "one string"),
    (archive({"query.npy": npy(QUERY), "request.npy": header("{'descr': '<U1', 'fortran_order': False, 'shape': (), }") + b"\0\xd8\0\0"}),
     "one string of JSON"),
])
def test_malformed_archives(daemon, body, words):
    refused(post(daemon, body, NPZ), 400, words)


def changed(at, value):
    """An archive with one deflated member whose directory entry has other bytes."""
    body = bytearray(archive({"query.npy": npy(np.ones((40, 4), np.float32))}))
    entry = body.index(b"PK\x01\x02")
    body[entry + at:entry + at + len(value)] = value
    return bytes(body)


def far(offset):
    """The same archive, whose zip64 extra field says where the local header stands."""
    body, extra = bytearray(changed(42, b"\xff" * 4)), struct.pack("<HHQ", 1, 8, offset)
    entry, end = body.index(b"PK\x01\x02"), body.index(b"PK\x05\x06")
    body[end + 12:end + 16] = struct.pack("<I", end - entry + len(extra))
    body[entry + 30:entry + 32] = struct.pack("<H", len(extra))
    return bytes(body[:end] + extra + body[end:])


def test_a_zip64_offset_is_read(daemon):
    assert len(fine(post(daemon, far(0), NPZ))["output"]) == 40


@pytest.mark.parametrize(("body", "words"), [
    (far(2**63), "no local header"), (far(2**64 - 1), "no local header"),
    (changed(8, b"\1\0"), "encrypted"), (changed(10, b"\0\0"), "stored and has two sizes"), (changed(16, bytes(4)), "CRC-32"),
    (changed(20, struct.pack("<I", 10)), "does not inflate"), (changed(20, struct.pack("<I", 10**6)), "reaches into the directory"),
    (changed(24, struct.pack("<I", 700)), "does not inflate"), (changed(24, struct.pack("<I", 900)), "does not inflate"),
    (changed(28, b"\xff\xff"), "beyond the directory"), (changed(42, b"\xff\xff\xff\x7f"), "no local header"),
])
def test_entries_that_lie(daemon, body, words):
    refused(post(daemon, body, NPZ), 400, words)


def test_bombs(start):
    daemon = start("--max-inflate-ratio", "50", "--max-body-bytes", "30000000")
    zeros = npz(np.savez_compressed, query=np.zeros((2000, 1000), np.float32))
    assert refused(post(daemon, zeros, NPZ), 413, "more than 50 times")["limit"]["setting"] == "max_inflate_ratio"
    lying = changed(24, struct.pack("<I", 4 * 10**9))
    assert refused(post(daemon, lying, NPZ), 413, "decodes to")["limit"]["setting"] == "max_body_bytes"
    member = zlib.compress(bytes(600_000), 9)[2:-4]  # the same bytes for many members
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 8, 0, 0, zlib.crc32(bytes(600_000)), len(member), 600_000, 1, 0) + b"a" + member
    entries = b"".join(struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 8, 0, 0, zlib.crc32(bytes(600_000)), len(member),
                                   600_000, 1, 0, 0, 0, 0, 0, 0) + bytes([97 + i]) for i in range(20))
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 20, 20, len(entries), len(local), 0)
    assert post(daemon, local + entries + end, NPZ).status_code == 413
    assert fine(post(daemon, npz(np.savez_compressed, query=np.zeros((4, 4), np.float32)), NPZ))["output"] == [[0] * 4] * 4


def test_a_query_string_beside_npz_is_refused(daemon):
    refused(post(daemon, npz(query=QUERY), NPZ, "/v1/attention?is_causal=true"), 422, "the fields of a POST stand in its body", pointer="/is_causal")
    refused(post(daemon, npz(query=QUERY, request='{"query": [[1]]}'), NPZ), 400, "is there twice", pointer="/query")
    refused(post(daemon, npz(query=QUERY, qery=QUERY), NPZ), 422, "did you mean \"query\"?", pointer="/qery")
    refused(post(daemon, npz(softcap=QUERY, query=QUERY), NPZ), 422, "no tensor", pointer="/softcap")
