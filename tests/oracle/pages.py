"""Page caches: key j of batch entry b is row j % T of page block_table[b, j // T] (Kwon et al. 2023)."""
import numpy as np

from . import tensors


def gathered(request):
    """The request with key and value in one piece, zeros behind the keys of each entry."""
    if request.get("block_table") is None:
        return request
    table = np.asarray(tensors.read(request["block_table"])).astype(int)
    lengths = np.asarray(tensors.read(request["key_lengths"])).astype(int)
    made = {name: x for name, x in request.items() if name != "block_table"}
    for name in ("key", "value"):
        if request.get(name) is None:
            continue
        pool = tensors.read(request[name])
        out = np.zeros((len(lengths), lengths.max(initial=0), *pool.shape[2:]))
        for b, length in enumerate(lengths):
            for j in range(length):
                out[b, j] = pool[table[b, j // pool.shape[1]], j % pool.shape[1]]
        out = out if request.get("layout", "BHLE") == "BLHE" else np.swapaxes(out, 1, 2)
        made[name] = tensors.write(out, tensors.dtype_of(request[name]))
    return made
