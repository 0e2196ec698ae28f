"""POST /v1/masks: the resolved mask as data and as a picture for a terminal."""
import numpy as np

from . import tensors
from .masks import Places, resolve


def combined(request, name="masks"):
    """(places, visible, added) of the masks of a request; name: masks or against."""
    if "token_ids" in request:
        ids = np.asarray(request["token_ids"])
        shape = (*ids.shape, ids.shape[-1])
    else:
        shape = tuple(request["shape"])
    heads = shape[-3] if len(shape) >= 4 else None
    places = Places(shape[:-3] if heads is not None else shape[:-2], heads, *shape[-2:])
    whole = {"query_offset": request.get("query_offset"), "mask_positions": "query_positions" in request or "key_positions" in request}
    whole.update({name: request[name] for name in ("query_positions", "key_positions") if name in request})
    keep, added = resolve(places, {**whole, **{k: request[k] for k in ("token_ids", "pad_id") if k in request}})
    for mask in request.get(name, []):
        kept, bias = resolve(places, {**whole, **mask, "is_causal": mask["kind"] == "causal"})
        keep &= kept
        added = added + bias
    return places, keep & ~np.isneginf(added), added


def difference(visible, other):
    """What the answer says of two masks, without words."""
    at = np.argwhere(visible != other)
    lead = other.shape[:-3] if other.ndim > 3 else other.shape[:-2]
    heads = other.shape[-3] if other.ndim > 3 else 1
    said = {"kept": float(other.mean()) if other.size else 1.0, "num_different": len(at),
            "num_only_masks": int((visible & ~other).sum()), "num_only_against": int((other & ~visible).sum())}
    if len(at):
        entries = (visible != other).reshape(int(np.prod(lead, dtype=int)), heads, *other.shape[-2:])
        said["first"] = np.argwhere(entries)[0].tolist()
    return said


def words(request, places):
    """The masks of the examples in words."""
    said = []
    if "token_ids" in request:
        hidden = (np.asarray(request["token_ids"]) == request["pad_id"]).sum(-1).reshape(-1)
        each = ", ".join(map(str, hidden)) if len(set(hidden)) > 1 else str(hidden[0])
        said.append(f"token_ids: keys with the id {request['pad_id']} are padding, hides {each} of "
                    f"{places.S} keys" + (" by batch entry" if len(set(hidden)) > 1 else ""))
    said += [mask_words(mask, f"masks/{n}") for n, mask in enumerate(request.get("masks", []))]
    return "; ".join(said) or "none: every query sees every key"


def mask_words(mask, place):
    kind = mask["kind"]
    if kind == "causal":
        return "causal: query i sees keys 0 to i"
    if kind == "window":
        left, right = mask["window"]
        start = "0" if left < 0 else f"i - {left}" if left else "i"
        end = "the last" if right < 0 else f"i + {right}" if right else "i"
        return f"window: query i sees keys {start} to {end}"
    if kind == "pattern":
        return pattern_words(mask["pattern"])
    if kind == "documents":
        return f"{place}/document_ids: a query sees the keys of the document at its position"
    if kind in ("any_of", "all_of"):
        parts = (mask_words(part, f"{place}/{kind}/{n}") for n, part in enumerate(mask[kind]))
        return f"{kind.replace('_', ' ')} ({'; '.join(parts)})"
    raise ValueError(f"no words for {kind}")


def pattern_words(pattern):
    if pattern["kind"] == "local":
        return f"local: a query sees keys within a distance of {pattern['radius']}"
    if pattern["kind"] == "block":
        return f"block: a query sees the keys of its own block of {pattern['size']} positions"
    if pattern["kind"] == "global":
        return (f"global: the first {pattern['num_keys']} positions see and are seen by all, others see keys within a "
                f"distance of {pattern['local']}")
    raise ValueError(f"no words for {pattern['kind']}")


def masks(request):
    """The answer as JSON."""
    places, visible, added = combined(request)
    answer = {"shape": list(places.shape), "keep": visible.tolist()}
    if added[visible].any():
        answer["additive"] = tensors.nested(np.where(visible, added, -np.inf))
    answer["kept"] = float(visible.mean()) if visible.size else 1.0
    answer["words"] = words(request, places)
    return answer


def picture(keep):
    lines = [" ".join("✓" if cell else "✗" for cell in row) for row in keep]
    return "\n".join(lines) + "\na line is a query, a column a key: ✓ visible, ✗ hidden\n"


def masks_text(request):
    """The same for a terminal: a picture for each batch entry that differs, then what there is to say."""
    places, visible, _ = combined(request)
    entries = visible.reshape(-1, places.L, places.S)
    if (entries == entries[0]).all():
        pictures = [picture(entries[0])]
    else:
        pictures = [f"batch {b}:\n{picture(keep)}" for b, keep in enumerate(entries)]
    shape = "[" + ", ".join(map(str, places.shape)) + "]"
    return ("".join(p + "\n" for p in pictures) + f"shape: {shape}\nmask: {words(request, places)}\n"
            f"kept: {100 * visible.mean():.4g} % of {visible.size} cells\n")
