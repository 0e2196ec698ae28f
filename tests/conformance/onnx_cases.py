"""The node cases of the ONNX operator Attention as requests of POST /v1/attention.

ONNX and the service name the same things differently; this file is the whole translation. Inputs of
the cases are random draws of the onnx package, so NumPy is seeded before they are made.
"""
import functools
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

from oracle import tensors

STAGE = {0: "scaled", 1: "softcapped", 2: "biased", 3: "probs"}  # qk_matmul_output_mode
ONNX_TYPE = {1: "float32", 7: "int64", 9: "bool", 10: "float16", 11: "float64", 16: "bfloat16"}
# Relative to the largest magnitude: ONNX computes its expectations in the type of the inputs, so its own
# rounding is in them (unit roundoff of the type, a few operations).
TOLERANCE = {"float32": 2e-6, "float16": 2.0**-9, "bfloat16": 2.0**-6}


class Case:
    def __init__(self, case):
        node = case.model.graph.node[0]
        inputs, outputs = case.data_sets[0]
        types = [ONNX_TYPE[i.type.tensor_type.elem_type] for i in case.model.graph.input]
        self.name = case.name
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        given = iter(zip(map(array, inputs), types))
        self.inputs = {n: next(given) for n in pad(node.input, 7, INPUTS) if n}
        produced = iter(map(array, outputs))
        self.expected = {ours: next(produced) for ours, n in zip(OUTPUTS, node.output) if n}
        self.dtype = types[0]
        self.tolerance = TOLERANCE[self.dtype]

    def request(self):
        """The body of the request; float32 as nested JSON arrays, other types as base64."""
        q, k = self.inputs["Q"][0], self.inputs["K"][0]
        past = self.inputs.get("past_key")
        keys = k.shape[-2] + (past[0].shape[-2] if past else 0)
        body = {"query": self.spell("Q"), "key": self.spell("K"), "value": self.spell("V")}
        if past:
            body.update(past_key=self.spell("past_key"), past_value=self.spell("past_value"))
        if q.ndim == 3:
            body.update(layout="BLD", num_heads=self.attributes["q_num_heads"],
                        num_kv_heads=self.attributes["kv_num_heads"])
        if "attn_mask" in self.inputs:
            mask, dtype = self.inputs["attn_mask"]
            body["attn_mask"] = spell(lengthen(mask, keys), dtype)
            if dtype != "bool":
                body["mask_semantics"] = "additive"
        for ours in ("scale", "softcap"):
            if self.attributes.get(ours):
                body[ours] = float(self.attributes[ours])
        if self.attributes.get("is_causal"):
            body["is_causal"] = True
        window = [self.attributes.get(side + "_window_size", -1) for side in ("left", "right")]
        if max(window) >= 0:
            body["window"] = window
        if "nonpad_kv_seqlen" in self.inputs:
            body["key_lengths"] = self.inputs["nonpad_kv_seqlen"][0].tolist()
            body["query_offset"] = "end"
        body["return"] = ["output"]
        if "present_key" in self.expected:
            body["return"].append("present")
        if "scores" in self.expected:
            body["return"].append("scores")
            body["score_stage"] = STAGE[self.attributes.get("qk_matmul_output_mode", 0)]
        return body

    def spell(self, name):
        return spell(*self.inputs[name])

    def check(self, answer):
        """Raise AssertionError unless `answer` (name -> float64 array) holds what ONNX expects."""
        for name, want in self.expected.items():
            want = np.asarray(want, np.float64)
            got = np.asarray(answer[name], np.float64)
            assert got.shape == want.shape, (name, got.shape, want.shape)
            hidden = np.isneginf(want)
            assert (np.isneginf(got) == hidden).all(), f"{name}: other cells are hidden"
            error = np.abs(np.where(hidden, 0, got) - np.where(hidden, 0, want))
            bound = self.tolerance * max(1.0, np.abs(want[~hidden]).max(initial=0))
            assert error.max(initial=0) <= bound, f"{name}: off by {error.max()}, allowed {bound}"


INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
OUTPUTS = ("output", "present_key", "present_value", "scores")


def pad(names, n, canonical):
    """Our names for a node's inputs; "" for an absent one."""
    names = list(names) + [""] * (n - len(names))
    return [ours if theirs else "" for ours, theirs in zip(canonical, names)]


def array(x):
    return x if isinstance(x, np.ndarray) else numpy_helper.to_array(x)


def spell(x, dtype):
    return tensors.nested(x) if dtype == "float32" else tensors.write(x, dtype)


def lengthen(mask, keys):
    """ONNX lets a mask be shorter than the keys: what is missing is hidden."""
    missing = keys - mask.shape[-1]
    hidden = False if mask.dtype == bool else -np.inf
    return np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=hidden)


@functools.lru_cache(maxsize=1)
def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other operators' cases overflow on purpose
        np.random.seed(0)
        from onnx.backend.test.loader import load_model_tests

        found = load_model_tests(kind="node")
    return [Case(c) for c in found
            if c.name.startswith("test_attention_") and not c.name.endswith("_expanded")]
