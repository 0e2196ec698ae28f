"""The numbers that lessons state, compared with the service: for lessons of the built-in models, and of fetched ones."""
import json
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "config" / "lessons"
LESSONS = {p.stem: json.loads(p.read_text()) for p in sorted(FOLDER.glob("*.json")) if not p.name.endswith(".schema.json")}
NUMBER = re.compile(r"\d+\.\d+(?: %)?|\d+ %")  # those that no reader can check in the head
ROOTS = {"1.414"}  # √2, which needs no service


def texts_of(step):
    question = step.get("question", {})
    return [step["text"], *(question.get(k, "") for k in ("ask", "hint", "right")), *question.get("choices", [])]


def unstated(lesson):
    """Numbers of the texts that no fact of the step or of one before it has: (number of the step, number)."""
    body, said = "", set(ROOTS)
    for i, step in enumerate(lesson["steps"]):
        body = json.dumps(step["request"]["body"]) if "request" in step else body
        said |= {f.get("says") for f in step.get("facts", [])} | set(NUMBER.findall(body))
        yield from ((i, n) for text in texts_of(step) for n in NUMBER.findall(text) if n not in said)


def says(value, written):
    """Whether the value, rounded as the text writes it, is what the text says."""
    digits, percent, _ = written.replace("−", "-").partition(" %")
    decimals = len(digits.partition(".")[2])
    return f"{value * (100 if percent else 1):.{decimals}f}" == digits


def weights_of(daemon, run, fact):
    """The weights of the query that a fact names; null where hidden."""
    site, head = fact.get("site", 0), fact.get("head", 0)
    shape = daemon.get(f"/v1/runs/{run}").json()["sites"][site]
    heads = range(shape["num_heads"]) if head == "mean" else [head]
    rows = [daemon.get(f"/v1/runs/{run}/weights?site={site}&head={h}&rows={fact['query']}:{fact['query'] + 1}").json() for h in heads]
    rows = [row["weights"] for row in rows]
    while isinstance(rows[0][0], list):
        rows = [row[0] for row in rows]
    return [None if column[0] is None else sum(column) / len(column) for column in zip(*rows)]


def at(answer, pointer):
    for part in pointer.split("/")[1:]:
        answer = answer[int(part) if isinstance(answer, list) else part]
    return answer


def fault_of(daemon, answer, step, fact):
    """What is wrong with a fact, in words, or None."""
    if "largest" in fact:
        row = weights_of(daemon, answer["run"]["id"], fact)
        best = max(range(len(row)), key=lambda k: row[k] or 0)
        return None if best == fact["largest"] else f"{fact}: the largest weight is at key {best}: {row}"
    if "curve" in fact:
        value = step["figure"]["curves"][fact["curve"]]["points"][fact["point"]][1]
    elif "at" in fact:
        value = at(answer, fact["at"])
    else:
        value = weights_of(daemon, answer["run"]["id"], fact)[fact["key"]]
    return None if value is not None and says(value, fact["says"]) else f"{fact}: the service says {value}"


def faults_of(daemon, lesson):
    """What is wrong with the facts, the looks and the clicks of a lesson, in words."""
    answer = None
    for i, step in enumerate(lesson["steps"]):
        if "request" in step:
            path, body = step["request"]["path"], step["request"]["body"]
            full = {"return": ["output", "weights", "scores"]} if path == "v1/attention" else {}
            reply = daemon.post("/" + path, full | body | {"store": True})
            if reply.status_code != 200:
                yield f"step {i + 1}: {reply.text[:500]}"
                return
            answer = reply.json()
        for fact in step.get("facts", []):
            fault = fault_of(daemon, answer, step, fact)
            if fault:
                yield f"step {i + 1}: {fault}"
        look = step.get("look", {})
        site = answer["run"]["sites"][look.get("site", 0)]
        click = step.get("question", {}).get("click", {})
        for of in (look, click):
            if of.get("query", 0) >= site["num_queries"] or of.get("key", 0) >= site["num_keys"]:
                yield f"step {i + 1}: {of} is outside {site['num_queries']} queries and {site['num_keys']} keys"
        if look.get("head", 0) != "mean" and look.get("head", 0) >= site["num_heads"]:
            yield f"step {i + 1}: there is no head {look['head']}"
