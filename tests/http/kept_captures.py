"""Captures that stand in a runs_dir, beside their weights in float64."""
import numpy as np
from oracle import captures


def file_of(sites, r, L=30, H=3, B=2, S=None, E=8, dtype="F32", spread=1.0):
    """A capture of random queries and keys. `sites` has the members of each site; `shape` of a site replaces B, H, L
    and S, [*B, H, L, S]."""
    file = captures.File({"version": 2, "sites": []}, {})
    for n, site in enumerate(sites):
        *lead, l, s = site.get("shape", [B, H, L, S or L])
        file.sites.append({k: v for k, v in site.items() if k != "shape"})
        for part, tokens in (("query", l), ("key", s)):
            x = spread * r.standard_normal((*lead, tokens, E))
            file.tensors[f"sites.{n}.{part}"] = (dtype, x.astype("<f8" if dtype == "F64" else "<f4").astype(np.float64))
    return file


def save(folder, file, number):
    """Puts the file under the id that is this number, and returns the id."""
    name = f"{number:032x}"
    (folder / f"{name}.safetensors").write_bytes(captures.write(file))
    return name


def weights(file, n=None):
    """The weights [B, H, L, S] of a site, or [sites, B, H, L, S]."""
    return np.stack([weights(file, i) for i in range(len(file.sites))]) if n is None else captures.attention(file, n)["weights"]
