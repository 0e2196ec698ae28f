"""The expected answers of config/examples/*.json, computed by the oracle.

    examples.py --check    fail when a file's answers are not the oracle's (`make test`)
    examples.py --write    write the oracle's answers into the files, in the files' own form

Cases with a status other than 200 or with same_as are left as their author wrote them. Shapes and
relations are their author's word too: both verbs only check that they hold of the oracle's answers.
"""
import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from oracle import ragged, relations, tensors  # noqa: E402
from oracle.attention import attention, gradients_of_logsumexp, served  # noqa: E402
from oracle.maskroute import masks, masks_text  # noqa: E402
from oracle.tour import dry_run, heatmap_answer, position_answer  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "config" / "examples"
WIDTH = 100
COMPUTED = ("hidden_rows", "padding_mass")  # warnings that the oracle gives
DIGITS = 10  # of the numbers in the files: far below the tolerance of 1.2e-7


def rounded(x):
    """float64 as the files print it: ten significant digits, whole numbers without a point."""
    x = float(f"{x:.{DIGITS}g}")
    return int(x) if x.is_integer() and abs(x) < 1e15 else x


def tidy(x):
    if isinstance(x, list):
        return [tidy(v) for v in x]
    return rounded(x) if isinstance(x, float) else x


def attention_json(request):
    """The answer of POST /v1/attention as JSON."""
    if request.get("dry_run"):
        return dry_run(request)
    if ragged.is_ragged(request):
        each = [served(entry) for entry in ragged.entries(request)]
        return {name: [tidy(tensors.nested(x[name][0])) for x in each] for name in each[0]}
    answer = {name: tidy(tensors.nested(x)) for name, x in served(request).items()}
    if "heatmap" in request:
        raise ValueError("examples with heatmaps are checked by tests/conformance/test_heatmap.py")
    if "grad_logsumexp" in request:
        answer["gradients"] = {name: tidy(tensors.nested(x)) for name, x in gradients_of_logsumexp(request).items()}
    if attention(request)["hidden_rows"]:
        answer["warnings"] = [{"code": "hidden_rows", "pointer": ""}]
    return answer


def printed(x, decimals, double):
    """A tensor as numpy.array_str prints it, in the type of the answer."""
    x = np.asarray(x, np.float64 if double else np.float32)
    if decimals is not None:
        x = np.round(x.astype(np.float64), decimals).astype(x.dtype)
    return np.array_str(x, max_line_width=75, precision=8, suppress_small=decimals is None)


def attention_text(request):
    """The same for a terminal: each tensor under its name, as NumPy prints it."""
    double = any(tensors.dtype_of(request[n]) == "float64" for n in ("query", "key", "value") if n in request)
    return "".join(f"{name} {np.shape(x)}:\n{printed(x, request.get('decimals'), double)}\n"
                   for name, x in served(request).items())


ROUTES = {
    "/v1/attention": {"response": attention_json, "text": attention_text},
    "/v1/masks": {"response": masks, "text": masks_text},
    "/v1/positions": {"response": lambda request: tidy(position_answer(request))},
    "/v1/heatmaps": {"response": lambda request: tidy(heatmap_answer(request))},
}


def in_file(case):
    """Does the file hold the answer?"""
    return "shapes" not in case and ("relations" not in case or "response" in case)


def expected(case):
    """(key, answer) of a case, or None where the oracle has nothing to say."""
    if case.get("status", 200) != 200 or case["path"] not in ROUTES:
        return None
    key = "text" if case.get("accept") == "text/plain" else "response"
    answer = ROUTES[case["path"]][key](case["request"])
    if key == "response":
        # What the linter should say is the author's word: it is not computed from tensors.
        said = [w for w in (case.get("response") or {}).get("warnings", []) if w["code"] not in COMPUTED]
        if said:
            answer["warnings"] = said + answer.get("warnings", [])
    return key, answer


def case_faults(case, answers):
    """What does not hold of the oracle's answers; the last of them belongs to the case."""
    if "shapes" in case:
        shapes = {name: list(x.shape) for name, x in served(case["request"]).items()}
        if shapes != case["shapes"]:
            yield f"the shapes are {shapes}"
    yield from relations.faults(case, answers, 1e-8)


def agree(a, b):
    """Equal up to the digits that the files hold."""
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None or isinstance(a, str):
        return type(a) is type(b) and a == b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(agree, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(agree(a[k], b[k]) for k in a)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)
    return False


def dump(x, indent=0):
    """JSON with one line for what fits into one."""
    line = json.dumps(x, ensure_ascii=False)
    if len(line) + indent <= WIDTH or not isinstance(x, (list, dict)) or not x:
        return line
    pad = " " * (indent + 2)
    if isinstance(x, dict):
        parts = [f"{pad}{json.dumps(k, ensure_ascii=False)}: {dump(v, indent + 2)}" for k, v in x.items()]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    if not any(isinstance(v, (list, dict, str)) for v in x):
        return "[" + wrapped(x, pad) + "]"
    return "[\n" + ",\n".join(pad + dump(v, indent + 2) for v in x) + "\n" + " " * indent + "]"


def wrapped(numbers, pad):
    lines = [""]
    for i, v in enumerate(numbers):
        word = json.dumps(v) + (", " if i + 1 < len(numbers) else "")
        if len(lines[-1]) + len(word) + len(pad) > WIDTH:
            lines.append("")
        lines[-1] += word
    return ("\n" + pad).join(line.rstrip() for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--check", action="store_true")
    group.add_argument("--write", action="store_true")
    options = parser.parse_args()
    faults = cases = 0
    for path in sorted(FOLDER.glob("*.json")):
        example, answers = json.loads(path.read_text()), []
        for i, case in enumerate(example["cases"]):
            want = expected(case)
            answers.append(want[1] if want else None)
            found = list(case_faults(case, answers)) if want else []
            cases += want is not None
            if want and "same_as" in case and not agree(answers[case["same_as"]], want[1]):
                found.append(f"not the same as case {case['same_as']}")
            if want and "same_as" not in case and in_file(case) and not agree(case.get(want[0]), want[1]):
                if options.check:
                    found.append(f"{want[0]} is not the oracle's:\n  file   {json.dumps(case.get(want[0]))}\n"
                                 f"  oracle {json.dumps(want[1])}")
                case[want[0]] = want[1]
            faults += len(found)
            for fault in found:
                print(f"{path.name}: case {i} ({case['title']}): {fault}")
        if options.write:
            path.write_text(dump(example) + "\n")
    print(f"examples: {cases} answers, {faults} faults")
    return 1 if faults or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
