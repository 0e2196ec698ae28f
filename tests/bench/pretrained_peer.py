"""A peer of tests/bench/pretrained.py: KIND MODEL [LIBRARIES]. It reads lines from its input and answers each with
milliseconds of this process's processor time, as bench_pretrained.c does: "prefill N", "decode N M".

llama       llama.cpp on the same GGUF file, by its shared libraries; logits of the last token
sdpa        PyTorch, transformers, the weights of the GGUF file widened to float32; logits of the last token
eager       the same with attention weights
bert-sdpa, bert-eager   PyTorch, transformers
ort         ONNX Runtime on the model that PyTorch exports, without attention weights
openvino    OpenVINO on the same file, float32"""
import ctypes
import os
import sys
import time
from pathlib import Path

KIND, MODEL = sys.argv[1], Path(sys.argv[2])


def ids_of(n):
    return [1000 + i * 7919 % 20000 for i in range(n)]


def timed(run):
    start = time.process_time()
    run()
    return (time.process_time() - start) * 1e3


class Opaque(ctypes.Structure):
    """Parameters that the library fills and takes back; more bytes than any version has."""
    _fields_ = [("numbers", ctypes.c_uint32 * 256)]


class Batch(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int32), *((name, ctypes.c_void_p) for name in ("token", "embd", "pos", "n_seq", "seq", "logits"))]


class Llama:
    def __init__(self, folder):
        ggml, lib = (self.load(folder, f"lib{name}.so") for name in ("ggml", "llama"))
        ggml.ggml_backend_load_all_from_path(str(folder).encode())
        lib.llama_backend_init()
        for name in ("llama_model_default_params", "llama_context_default_params"):
            getattr(lib, name).restype = Opaque
        for name in ("llama_model_load_from_file", "llama_init_from_model", "llama_get_memory"):
            getattr(lib, name).restype = ctypes.c_void_p
        lib.llama_batch_get_one.restype = Batch
        lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Opaque]
        lib.llama_init_from_model.argtypes = [ctypes.c_void_p, Opaque]
        lib.llama_get_memory.argtypes = [ctypes.c_void_p]
        lib.llama_set_n_threads.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]
        lib.llama_memory_clear.argtypes = [ctypes.c_void_p, ctypes.c_bool]
        lib.llama_batch_get_one.argtypes = [ctypes.c_void_p, ctypes.c_int32]
        lib.llama_decode.argtypes = [ctypes.c_void_p, Batch]
        model = lib.llama_model_load_from_file(str(MODEL).encode(), lib.llama_model_default_params())
        params = lib.llama_context_default_params()
        params.numbers[:3] = [4096, 4096, 512]  # n_ctx, n_batch, n_ubatch
        self.lib, self.context = lib, lib.llama_init_from_model(model, params)
        if not self.context:
            sys.exit("llama.cpp: no context")
        lib.llama_set_n_threads(self.context, 1, 1)

    @staticmethod
    def load(folder, name):
        found = sorted(folder.glob(name.removesuffix(".so") + ".*so*"))
        if not found:
            sys.exit(f"{folder} holds no {name}")
        return ctypes.CDLL(str(found[0]), ctypes.RTLD_GLOBAL)

    def read(self, ids):
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(tokens, len(ids))):
            sys.exit("llama.cpp: llama_decode failed")

    def clear(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)

    def prefill(self, n):
        self.clear()
        return timed(lambda: self.read(ids_of(n)))

    def decode(self, n, more):
        self.clear()
        self.read(ids_of(n))
        return timed(lambda: [self.read([i]) for i in ids_of(more)]) / more


class Causal:
    def __init__(self, attention):
        import torch
        from transformers import AutoModelForCausalLM
        torch.set_num_threads(1)
        self.torch, self.weights = torch, attention == "eager"
        self.model = AutoModelForCausalLM.from_pretrained(MODEL.parent, gguf_file=MODEL.name, dtype=torch.float32,
                                                          attn_implementation=attention).eval()

    def read(self, ids, **options):
        return self.model(self.torch.tensor([ids]), logits_to_keep=1, output_attentions=self.weights, **options)

    def prefill(self, n):
        with self.torch.inference_mode():
            return timed(lambda: self.read(ids_of(n), use_cache=False))

    def decode(self, n, more):
        with self.torch.inference_mode():
            cache = self.read(ids_of(n), use_cache=True).past_key_values
            return timed(lambda: [self.read([i], past_key_values=cache, use_cache=True) for i in ids_of(more)]) / more


class Bert:
    def __init__(self, attention):
        import torch
        from transformers import AutoModel
        torch.set_num_threads(1)
        self.torch, self.weights = torch, attention == "eager"
        self.model = AutoModel.from_pretrained(MODEL, dtype=torch.float32, attn_implementation=attention).eval()

    def prefill(self, n):
        ids = self.torch.tensor([ids_of(n)])
        with self.torch.inference_mode():
            return timed(lambda: self.model(ids, output_attentions=self.weights))


def exported():
    """The file of the model as ONNX, which the first peer that needs it makes."""
    path = Path(os.environ["PEERS"]) / f"{MODEL.name}.onnx"
    if path.exists():
        return path
    model = Bert("sdpa").model
    import torch
    ids = torch.tensor([ids_of(9)])

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids).last_hidden_state

    length = torch.export.Dim("length", min=2, max=512)
    torch.onnx.export(Hidden(), (ids,), str(path), input_names=["input_ids"], output_names=["hidden"],
                      dynamic_shapes={"input_ids": {1: length}}, dynamo=True, external_data=False)
    return path


class Onnx:
    def __init__(self):
        import numpy
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.numpy, self.session = numpy, onnxruntime.InferenceSession(str(exported()), options)

    def prefill(self, n):
        ids = self.numpy.array([ids_of(n)])
        return timed(lambda: self.session.run(None, {"input_ids": ids}))


class OpenVino:
    def __init__(self):
        import numpy
        import openvino
        core = openvino.Core()
        options = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
        self.numpy, self.request = numpy, core.compile_model(core.read_model(exported()), "CPU", options).create_infer_request()

    def prefill(self, n):
        ids = self.numpy.array([ids_of(n)])
        return timed(lambda: self.request.infer([ids]))


def main():
    made = {"llama": lambda: Llama(Path(sys.argv[3])), "sdpa": lambda: Causal("sdpa"), "eager": lambda: Causal("eager"),
            "bert-sdpa": lambda: Bert("sdpa"), "bert-eager": lambda: Bert("eager"), "ort": Onnx, "openvino": OpenVino}[KIND]()
    for line in sys.stdin:
        what, *numbers = line.split()
        print(f"{getattr(made, what)(*map(int, numbers)):.4f}", flush=True)


if __name__ == "__main__":
    main()
