"""Relations of worked examples (config/examples/README.md): what must hold within an answer, or between it
and an earlier answer of the same file."""
import math

import numpy as np

from .positions import shift


def at(answer, pointer):
    """The value at a JSON pointer."""
    for part in pointer.split("/")[1:]:
        answer = answer[int(part) if isinstance(answer, list) else part]
    return answer


def number_array(x):
    x = np.array(x, dtype=object)
    return np.where(x == None, -np.inf, x).astype(np.float64)  # noqa: E711, element by element


def apart(a, b, tolerance):
    """The largest difference of two arrays per unit of magnitude, in units of `tolerance`."""
    if a.shape != b.shape:
        return math.inf
    with np.errstate(invalid="ignore"):
        difference = np.where(a == b, 0.0, np.abs(a - b) / np.maximum(1.0, np.abs(b)))
    return difference.max(initial=0.0) / tolerance


def compared(relation, answer, earlier):
    for pointer in relation["at"]:
        yield pointer, number_array(at(answer, pointer)), number_array(at(earlier, pointer))


def permuted(relation, answer, earlier):
    """The earlier values with the axes that the relation names put in its order."""
    for pointer, axes in relation["at"].items():
        want = number_array(at(earlier, pointer))
        for axis in axes:
            want = np.take(want, relation["order"], axis=axis)
        yield pointer, number_array(at(answer, pointer)), want


def fault(relation, answer, earlier, tolerance):
    """What does not hold, in words, or None."""
    kind = relation["kind"]
    if kind in ("equal", "different"):
        pairs = compared(relation, answer, earlier)
    elif kind in ("permuted", "not_permuted"):
        pairs = permuted(relation, answer, earlier)
    elif kind == "shifted":
        table, k = number_array(at(answer, relation["at"])), relation["by"]
        pairs = [(relation["at"], table[k:], table[:-k] @ shift(table[k]).T)]
    elif kind == "product":
        found = at(answer, relation["at"]) * relation["times"]
        return None if found == relation["is"] else f"{relation['at']} * {relation['times']} is {found}"
    elif kind == "deviation":
        found = number_array(at(answer, relation["at"])).std()
        near = abs(found - relation["is"]) <= relation["within"]
        return None if near else f"the standard deviation of {relation['at']} is {found}"
    else:
        raise ValueError(f"no relation {kind}")
    differ = kind in ("different", "not_permuted")
    for pointer, got, want in pairs:
        distance = apart(got, want, tolerance)
        if differ and distance * tolerance < relation.get("by", 0.01):
            return f"{pointer} is not {kind.replace('_', ' ')}: off by {distance * tolerance:.2g} at most"
        if not differ and distance > 1:
            return f"{pointer} is not {kind}: off by {distance * tolerance:.2g}, allowed {tolerance}"
    return None


def faults(case, answers, tolerance):
    """All that does not hold of the last of `answers`."""
    for relation in case.get("relations", []):
        earlier = answers[relation["to"]] if "to" in relation else None
        found = fault(relation, answers[-1], earlier, tolerance)
        if found:
            yield found
