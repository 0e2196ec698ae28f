"""GET /v1/lessons: the files of config/lessons, their schema, and every number that they state."""
import json

import pytest
from conftest import ROOT
from jsonschema import Draft202012Validator

from lesson_facts import FOLDER, LESSONS, faults_of, says, unstated

SCHEMA = Draft202012Validator(json.loads((FOLDER / "lesson.schema.json").read_text()))
ALONE = [name for name, lesson in LESSONS.items() if "needs" not in lesson]


@pytest.fixture(scope="module")
def document(daemon):
    return daemon.get("/openapi.json").json()


def served(document, name):
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": document["components"]})


def test_the_list_holds_every_lesson_in_order(daemon, document):
    listed = daemon.get("/v1/lessons").json()
    served(document, "Lessons").validate(listed)
    lessons = sorted(LESSONS.values(), key=lambda e: (e["order"], e["id"]))
    assert listed == {"lessons": [{k: e[k] for k in ("id", "title", "purpose", "minutes", "needs") if k in e}
                                  | {"num_steps": len(e["steps"]), "href": f"/v1/lessons/{e['id']}"} for e in lessons]}
    text = daemon.get("/v1/lessons", headers={"Accept": "text/plain"}).text
    assert [line.split()[0] for line in text.splitlines()] == [e["href"] for e in listed["lessons"]]


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_its_file(daemon, document, name):
    reply = daemon.get(f"/v1/lessons/{name}")
    assert reply.content == (FOLDER / f"{name}.json").read_bytes()
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.json()["id"] == name
    served(document, "Lesson").validate(reply.json())


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_fits_its_schema(name):
    assert [f"{list(e.path)}: {e.message}" for e in SCHEMA.iter_errors(LESSONS[name])] == []
    for step in LESSONS[name]["steps"]:
        question = step.get("question", {})
        assert question.get("answer", 0) < len(question.get("choices", [0]))
    assert 6 <= len(LESSONS[name]["steps"]) <= 8


def test_the_schema_refuses():
    lesson = LESSONS["dot-product"]
    for change in ({"title": ""}, {"steps": []}, {"more": 1}, {"id": "Up"},
                   {"steps": [{**lesson["steps"][0], "request": {"path": "v1/jobs", "body": {}}}]},
                   {"steps": [{**lesson["steps"][0], "question": {"ask": "?", "hint": "!", "right": "!"}}]}):
        assert not SCHEMA.is_valid(lesson | change), change


def test_a_lesson_that_is_not_there(daemon):
    reply = daemon.get("/v1/lessons/dot-produkt")
    assert reply.status_code == 404 and reply.json()["code"] == "not_found"
    assert '"dot-product"' in reply.json()["detail"] and "GET /v1/lessons lists them" in reply.json()["detail"]
    assert daemon.get("/v1/lessons/lesson.schema").status_code == 404


@pytest.mark.parametrize("name", LESSONS)
def test_every_number_is_a_fact(name):
    assert list(unstated(LESSONS[name])) == []


@pytest.mark.parametrize("name", ALONE)
def test_every_fact_is_what_the_service_says(daemon, name):
    assert list(faults_of(daemon, LESSONS[name])) == []


def test_a_wrong_fact_is_found(daemon):
    lesson = json.loads(json.dumps(LESSONS["dot-product"]))
    lesson["steps"][3]["facts"] = [{"says": "0.942", "query": 0, "key": 0}, {"query": 0, "largest": 1}]
    lesson["steps"][0]["look"]["query"] = 1
    assert len(list(faults_of(daemon, lesson))) == 3
    assert [n for i, n in unstated(lesson) if i == 3] == ["0.941", "0.056", "0.003"]


def test_rounding():
    assert says(0.0588, "0.059") and says(0.974, "97 %") and says(-2.8284, "−2.828") and not says(0.0584, "0.059")
    assert (ROOT / "config" / "lessons" / "README.md").is_file()
