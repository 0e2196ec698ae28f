"""POST /v1/masks: the resolved mask as data and as a picture for a terminal."""
import numpy as np

from . import tensors
from .masks import Places, resolve


def combined(request):
    """(places, visible, added) of the masks of a request."""
    if "token_ids" in request:
        ids = np.asarray(request["token_ids"])
        shape = (*ids.shape, ids.shape[-1])
    else:
        shape = tuple(request["shape"])
    heads = shape[-3] if len(shape) >= 4 else None
    places = Places(shape[:-3] if heads is not None else shape[:-2], heads, *shape[-2:])
    whole = {"query_offset": request.get("query_offset")}
    keep, added = resolve(places, {**whole, **{k: request[k] for k in ("token_ids", "pad_id") if k in request}})
    for mask in request.get("masks", []):
        kept, bias = resolve(places, {**whole, **mask, "is_causal": mask["kind"] == "causal"})
        keep &= kept
        added = added + bias
    return places, keep & ~np.isneginf(added), added


def masks(request):
    """The answer as JSON."""
    places, visible, added = combined(request)
    answer = {"shape": list(places.shape), "keep": visible.tolist()}
    if added[visible].any():
        answer["additive"] = tensors.nested(np.where(visible, added, -np.inf))
    answer["kept"] = float(visible.mean()) if visible.size else 1
    return answer


def masks_text(request):
    raise NotImplementedError
