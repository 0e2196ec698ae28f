"""Every worked example of config/examples over HTTP, on every kernel table; and that the daemon serves
the same files at /v1/examples."""
import json
from pathlib import Path

import pytest

from oracle import relations
from oracle.attention import served
from serving import compare

FOLDER = Path(__file__).resolve().parents[2] / "config" / "examples"
EXAMPLES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
TOLERANCE = 1.2e-7
WORDS_OF_A_WARNING = ("code", "pointer")


def difference(got, want, tolerance, partial=False, at=""):
    """Where two JSON values differ, in words, or None. Partial: further fields of `got` do not count."""
    if isinstance(want, dict):
        if not isinstance(got, dict) or not (got.keys() >= want.keys() if partial else got.keys() == want.keys()):
            return f"{at}: {got!r} has not the fields {list(want)}"
        found = (difference(got[k], want[k], tolerance, partial, f"{at}/{k}") for k in want)
        return next((f for f in found if f), None)
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{at}: {got!r} is not a list of {len(want)}"
        found = (difference(g, w, tolerance, partial, f"{at}/{i}") for i, (g, w) in enumerate(zip(got, want)))
        return next((f for f in found if f), None)
    if isinstance(want, (int, float)) and not isinstance(want, bool):
        number = isinstance(got, (int, float)) and not isinstance(got, bool)
        if number and abs(got - want) <= tolerance * max(1.0, abs(want)):
            return None
        return f"{at}: {got!r}, not {want!r}"
    return None if type(got) is type(want) and got == want else f"{at}: {got!r}, not {want!r}"


def send(daemon, case):
    headers = {"Accept": case.get("accept", "application/json")}
    body = json.dumps(case["request"]) if "request" in case else None
    return daemon.request(case["method"], case["path"], data=body, headers=headers)


def fault_of(case, reply, earlier):
    """What is wrong with a reply, in words, or None."""
    if reply.status_code != case.get("status", 200):
        return f"{reply.status_code}: {reply.text[:500]}"
    if "same_as" in case and reply.content != earlier[case["same_as"]]:
        return f"other bytes than case {case['same_as']}: {reply.text[:500]}"
    if "text" in case and reply.content.decode() != case["text"]:
        return f"other text:\n{reply.text}"
    if "shapes" in case:
        return other_tensors(case, reply.json())
    if "response" not in case:
        return None
    got, want = reply.json(), case["response"]
    if case.get("status", 200) == 200:
        for warning in got.get("warnings", []):
            for word in set(warning) - set(WORDS_OF_A_WARNING):
                del warning[word]
    else:
        got = {k: v for k, v in got.items() if k in want}
    return difference(got, want, case.get("tolerance", TOLERANCE), case.get("partial", False))


def other_tensors(case, got):
    """The tensors of an answer that is too long for its file: shapes from there, values from the oracle."""
    if got.keys() != case["shapes"].keys():
        return f"the fields are {list(got)}"
    try:
        wanted = served(case["request"])
        compare(got, wanted, case.get("tolerance", TOLERANCE))
    except AssertionError as fault:
        return str(fault)
    shapes = {name: list(x.shape) for name, x in wanted.items()}
    return None if shapes == case["shapes"] else f"the shapes are {shapes}"


def relation_fault(case, replies):
    if "relations" not in case:
        return None
    answers = [json.loads(r) if r.startswith(b"{") else None for r in replies]
    return next(relations.faults(case, answers, case.get("tolerance", TOLERANCE)), None)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(table, name):
    example, replies = EXAMPLES[name], []
    for case in example["cases"]:
        reply = send(table, case)
        replies.append(reply.content)
        fault = fault_of(case, reply, replies) or relation_fault(case, replies)
        if fault:
            pytest.fail(f"{case['title']}: {fault}", pytrace=False)


@pytest.mark.parametrize("name", EXAMPLES)
def test_form(name):
    example = EXAMPLES[name]
    fields = ["id", "title", "what", "tags", "order", "cases"]
    assert [f for f in example if f != "names"] in (fields, [*fields, "data"])
    assert all(number < len(example["cases"]) for number in example.get("names", {}).values())
    assert example["id"] == name and example["cases"]
    for case in example["cases"]:
        assert {"title", "method", "path"} <= case.keys()
        assert case.keys() & {"response", "text", "same_as", "shapes", "relations"}


def test_served(table):
    listed = table.get("/v1/examples").json()["examples"]
    order = sorted(EXAMPLES.values(), key=lambda e: (e["order"], e["id"]))
    assert [e["id"] for e in listed] == [e["id"] for e in order]
    assert [e.get("names") for e in listed] == [e.get("names") for e in order]
    for name, example in EXAMPLES.items():
        assert table.get(f"/v1/examples/{name}").json() == example
