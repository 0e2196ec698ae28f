"""Small files as people drop them on the page, and what each shall become.

A row is (name of the file, its bytes, what it becomes). That is one of
  Weights(rows of the first head, query=, key=, layers=, heads=)  finished weights that are drawn
  Field(name, text)                                               a field of the form with this text
  Held(name, text)                                                a field that holds a tensor, described so
  Says(text)                                                      a sentence, and nothing that was there before is lost
"""
import io
import json
import zipfile
from collections import namedtuple

import numpy as np
from safetensors.numpy import save

Weights = namedtuple("Weights", "rows query key layers heads", defaults=(None, None, 1, 1))
Field = namedtuple("Field", "name text")
Held = namedtuple("Held", "name text")
Says = namedtuple("Says", "text")

W = np.array([[0.75, 0.25], [0.125, 0.875]], dtype=np.float32)
WIDE = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]], dtype=np.float32)
DEEP = np.stack([np.stack([W, W[::-1]]), np.stack([W.T / W.T.sum(1, keepdims=True), W])])[:, None]  # [layers, B, H, L, S]
AB = ["a", "b"]


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def header(text, numbers):
    """A .npy file with this header."""
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + numbers


def archive(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in members.items():
            made.writestr(name.replace("__", "/").replace("_dot_", "."), data)
    return file.getvalue()


def tensors(head):
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + bytes(320)


def text(value, **form):
    return json.dumps(value, **form).encode()


def stored(dtype, name=None):
    """[[3, 1], [0, 4]] as bytes in a file of safetensors, of a type that NumPy may lack."""
    data = np.array([[3, 1], [0, 4]], dtype).tobytes()
    head = json.dumps({"attention": {"dtype": name, "shape": [2, 2], "data_offsets": [0, len(data)]}}).encode()
    return len(head).to_bytes(8, "little") + head + data


COUNTS = np.array([[3, 1], [0, 4]])
COMPACT = {"separators": (",", ":")}
INPUTS = [
    # JSON that was taken for something else
    ("body.json", text({"body": {"query": [[1, 0], [0, 1]]}}, **COMPACT), Field("query", "[[1,0],\n [0,1]]")),
    ("old-bertviz.json", text({"attn": {"all": {"attn": [[[W.tolist()]]], "left_text": AB, "right_text": AB}}}, **COMPACT), Weights(W, AB, AB)),
    ("indented.json", b'[\n      {"a": 1}]', Says("The lists of indented.json hold objects")),
    ("id.json", text({"query": [[1, 0], [0, 1]], "id": "my-example-7"}), Field("query", "[[1,0],\n [0,1]]")),
    ("example.json", text({"id": "causal", "request": {"path": "/v1/attention", "body": {"query": [[1, 2]]}}}), Field("query", "[[1,2]]")),
    ("infinity.json", b'{"query": [[1,0],[0,1]], "attn_mask": [[0,-Infinity],[0,0]]}', Field("attn_mask", "[[0,null],\n [0,0]]")),
    ("nested.json", b"[" * 40 + b"1" + b"]" * 40, Says("lists within lists, 40 deep")),
    # Names of weights
    *[(f"{name}.json", text({name: W.tolist(), "tokens": AB}), Weights(W, AB, AB)) for name in
      ("attn", "attention", "attentions", "weights", "attention_weights", "attn_weights", "attention_probs")],
    ("layers.json", text({"attentions": DEEP.tolist(), "tokens": AB}), Weights(DEEP[0, 0, 0], AB, AB, layers=2, heads=2)),
    ("families.json", text({"encoder_attentions": DEEP.tolist(), "cross_attentions": DEEP[:1].tolist()}), Weights(DEEP[0, 0, 0], layers=2, heads=2)),
    ("list.json", text(DEEP.tolist()), Weights(DEEP[0, 0, 0], layers=2, heads=2)),
    ("body-of-heatmaps.json", text({"weights": WIDE.tolist(), "labels": {"query": AB, "key": ["c", "d", "e"]}}), Weights(WIDE, AB, ["c", "d", "e"])),
    ("a-row.json", text({"weights": [0.75, 0.25], "tokens": AB}), Weights(W[:1], None, AB)),
    ("one-query.json", text({"attn": [[0.75, 0.25]], "tokens": AB}), Weights(W[:1], None, AB)),
    ("attn_weights.npy", npy(W), Weights(W)),
    ("attention_probs.npy", npy(W), Weights(W)),
    ("layer3_attn.npy", npy(W), Weights(W)),
    ("attention-0-mean.npy", npy(W), Weights(W)),
    ("one-a-layer.npz", npz(layer_0=W[None, None], layer_1=W[None, None]), Weights(W, layers=2)),
    ("eleven-layers.npz", npz(**{f"attentions.{i}": np.stack([W if i else W[::-1]] * 2)[None] for i in (10, 1, 0)}), Weights(W[::-1], layers=3, heads=2)),
    # Names of words
    ("words.npz", npz(attention=W, tokens=np.array(AB)), Weights(W, AB, AB)),
    ("two-texts.npz", npz(attention=WIDE, query_tokens=np.array(AB), key_tokens=np.array(["c", "né", "世"])), Weights(WIDE, AB, ["c", "né", "世"])),
    ("words.safetensors", save({"attention": W}, {"tokens": json.dumps(AB)}), Weights(W, AB, AB)),
    ("tokens.npy", npy(np.array(["the", "cat"])), Field("labels", '["the","cat"]')),
    ("tokens.json", text(["the", "cat"]), Field("labels", '["the","cat"]')),
    ("too-many.json", text({"attn": W.tolist(), "tokens": ["a", "b", "c"]}), Weights(W)),
    # Tables
    ("pandas.csv", b",a,b\nx,0.75,0.25\ny,0.125,0.875\n", Weights(W, ["x", "y"], AB)),
    ("pandas.tsv", b"\t[CLS]\tthe\n[CLS]\t0.75\t0.25\nthe\t0.125\t0.875\n", Weights(W, ["[CLS]", "the"], ["[CLS]", "the"])),
    ("quoted.csv", b'"","a, b","c ""d"""\n"x",0.75,0.25\n"y",0.125,0.875\n', Weights(W, ["x", "y"], ["a, b", 'c "d"'])),
    ("savetxt.txt", b"7.5e-01 2.5e-01\n1.25e-01 8.75e-01\n", Weights(W)),
    ("numbers.csv", b"1,2\n3,4\n", Field("query", "[[1,2],\n [3,4]]")),
    ("broken.csv", b",a,b\nx,0.1,zero\n", Says('Line 2, column 3: expected a number, found "zero".')),
    # Types of numbers
    *[(f"attention-{np.dtype(t).name}.npz", npz(attention=COUNTS.astype(t)), Weights(COUNTS)) for t in ("i1", "i2", "u2", "u4", "u8", "u1", "f2", "f8")],
    *[(f"attention-big-{t[1:]}.npz", npz(attention=COUNTS.astype(t)), Weights(COUNTS)) for t in (">f4", ">f8", ">i4", ">u2")],
    ("fortran.npz", npz(attention=np.asfortranarray(COUNTS.astype(">i2"))), Weights(COUNTS)),
    ("i8.safetensors", stored("i1", "I8"), Weights(COUNTS)),
    ("u16.safetensors", stored("<u2", "U16"), Weights(COUNTS)),
    ("complex.npy", npy(W.astype("c8")), Says("no real numbers")),
    # Headers as others write them
    ("attention.npy", header("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 2L), }", W.tobytes()), Weights(W)),
    ("attention.npy", header('{"descr": "<f4", "fortran_order": False, "shape": (2, 2), }', W.tobytes()), Weights(W)),
    ("attn.npy", header("{'descr': '<u1', 'fortran_order': False, 'shape': (2, 2), }", COUNTS.astype("u1").tobytes()), Weights(COUNTS)),
    ("more-members.npz", archive(attention_dot_npy=npy(W), README_dot_txt=b"of model 7", layer0__=b""), Weights(W)),
    # What has no weights in it
    *[(f"empty-{i}.json", text({"attn": value}), Says("are empty")) for i, value in enumerate(([[], []], [[[]]], [[[[]]]]))],
    ("empty.npz", npz(attention=np.zeros((0, 4), "f4")), Says("are empty")),
    ("nan.json", b'{"attn": [[NaN, 1], [0.5, 0.5]]}', Says("NaN or null at query 0, key 0 of head 0")),
    ("ragged.json", text({"attn": [[1], [0.5, 0.5]]}), Says("unequal lengths")),
    ("steps.json", text({"attention": [[[[W.tolist()]]]]}), Says("6 axes")),
    ("no-shape.safetensors", tensors({"query": {"dtype": "F32", "data_offsets": [0, 320]}}), Says("no dtype, shape and data_offsets")),
    ("null.safetensors", tensors({"query": None}), Says("no dtype, shape and data_offsets")),
    ("no-tensors.safetensors", tensors({"__metadata__": {"run": "experiment-17"}}), Says("has no tensors")),
    ("experiment.safetensors", save({"query": W}, {"run": "experiment-17"}), Held("query", "F32, 2 × 2")),
    ("model.pt", archive(archive__data_dot_pkl=b"x"), Says("is a file of PyTorch. Save its arrays in Python")),
    ("weights.pkl", b"\x80\x04\x95abc", Says("is a pickle of Python")),
    ("attn.npy.gz", b"\x1f\x8b\x08\x00abc", Says("is compressed by gzip")),
    ("large.npy", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", Says("git lfs pull")),
]

# What is pasted into the query, and the query that is sent.
NUMBERS = [
    ("[np.float64(1.5), np.float64(-2.0)]", [1.5, -2.0]),
    ("[array([1., 2.]), array([3., 4.], dtype=float32)]", [[1, 2], [3, 4]]),
    ("(tensor([1., 2.]), tensor([3., 4.], grad_fn=<UnbindBackward0>))", [[1, 2], [3, 4]]),
    ("Parameter containing:\ntensor([[1., 2.],\n        [3., 4.]], requires_grad=True)", [[1, 2], [3, 4]]),
    ("<tf.Tensor: shape=(2, 2), dtype=float32, numpy=\narray([[1., 2.],\n       [3., 4.]], dtype=float32)>", [[1, 2], [3, 4]]),
    ("q = np.array([[1, 2], [3, 4]])", [[1, 2], [3, 4]]),
    ("1 2 # the first row\n3 4", [[1, 2], [3, 4]]),
    ("9.2e\u22124 \u22121\n3 4", [[9.2e-4, -1], [3, 4]]),
]
NO_NUMBERS = [("0,1;0,2\n0,3;0,4", "Line 1 has commas within numbers"), ("0,1\t0,2", "commas within numbers"), ("1,000 2,000\n3,000 4,000", "commas within numbers")]

# What is pasted into the labels of two queries.
LABELS = ["['the', 'cat']", "['the' 'cat']", "the cat", "the\ncat", "the, cat", '["the", "cat"]', "('the', 'cat')"]
