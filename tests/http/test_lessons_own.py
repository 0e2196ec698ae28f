"""lessons_dir: a teacher's own lessons beside the built-in ones; what is no lesson is left out, and the log says why."""
import json
import os

import pytest
from conftest import run_attnd

from lesson_facts import LESSONS

OWN = {
    "id": "own", "title": "My lesson", "purpose": "One knows it afterwards.", "minutes": 3, "order": 0,
    "steps": [{"title": "First", "text": "Look.",
               "request": {"path": "v1/attention", "body": {"query": [[1, 0], [0, 1]]}},
               "look": {"view": "matrix", "query": 1},
               "question": {"ask": "Which?", "choices": ["a", "b"], "answer": 1, "hint": "No.", "right": "Yes."}},
              {"title": "Second", "text": "See.",
               "figure": {"title": "t", "x": "x", "y": "y", "source": "me", "curves": [{"name": "c", "points": [[0, 1], [1, 2]]}]},
               "facts": [{"says": "1.5", "curve": 0, "point": 1}]}],
}


def write(folder, name, content):
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / f"{name}.json").write_text(text)
    return text.encode()


def changed(**members):
    """The lesson with members of it or, by step__member, of its first step replaced. None: taken away."""
    lesson = json.loads(json.dumps(OWN))
    for name, value in members.items():
        of = lesson["steps"][0] if name.startswith("step__") else lesson
        name = name.removeprefix("step__")
        of.pop(name, None)
        if value is not None:
            of[name] = value
    return lesson


def listed(daemon):
    return [entry["id"] for entry in daemon.get("/v1/lessons").json()["lessons"]]


def left_out(daemon):
    """The events about lessons_dir, which come before that of the start."""
    daemon.log(1, event="start")
    return [entry["event"] for entry in daemon.log(0) if "lessons_dir" in entry.get("event", "")]


def test_own_lessons_stand_beside_the_built_in_ones(start, tmp_path):
    text = write(tmp_path, "own", OWN)
    (tmp_path / "notes.txt").write_text("no lesson")
    (tmp_path / "sub.json").mkdir()
    daemon = start("--lessons-dir", str(tmp_path))
    assert listed(daemon) == ["own"] + sorted(LESSONS, key=lambda name: LESSONS[name]["order"])
    assert daemon.get("/v1/lessons/own").content == text
    assert daemon.get("/v1/lessons").json()["lessons"][0] == {
        "id": "own", "title": "My lesson", "purpose": "One knows it afterwards.", "minutes": 3, "num_steps": 2,
        "href": "/v1/lessons/own"}
    assert daemon.get("/v1/lessons", headers={"Accept": "text/plain"}).text.startswith("/v1/lessons/own ")
    assert "\"own\"" in daemon.get("/v1/lessons/owm").json()["detail"], "own lessons are suggested, too"
    assert left_out(daemon) == ["lessons_dir: sub.json is left out: Is a directory"]


def test_an_own_lesson_replaces_the_built_in_one_of_its_id(start, tmp_path):
    text = write(tmp_path, "masks", changed(id="masks", order=99))
    daemon = start("--lessons-dir", str(tmp_path))
    assert daemon.get("/v1/lessons/masks").content == text
    assert sorted(listed(daemon)) == sorted(LESSONS) and listed(daemon)[-1] == "masks"


@pytest.mark.parametrize(("content", "why"), [
    (changed(id="other"), '/id: expected "own", the name of the file'),
    (changed(title=None), "/title is missing"),
    (changed(steps=[]), "/steps: expected at least 1 element, found 0"),
    (changed(minutes="3"), "/minutes: expected a whole number from 0, found a string"),
    (changed(minutes=1.5), "/minutes: expected a whole number from 0, found a number"),
    (changed(mintues=3), "/mintues is no member of a lesson"),
    (changed(step__text=None), "/steps/0/text is missing"),
    (changed(step__look={"view": 3}), "/steps/0/look/view: expected a string, found a number"),
    (changed(step__request={"path": "v1/attention"}), "/steps/0/request/body is missing"),
    (changed(step__question={"ask": "?", "hint": "!", "right": "!", "choices": ["one"], "answer": 0}),
     "/steps/0/question/choices: expected at least 2 elements, found 1"),
    (changed(step__question=["?"]), "/steps/0/question: expected an object, found a list"),
    (changed(step__facts=[{"says": 1.5}]), "/steps/0/facts/0/says: expected a string, found a number"),
    (changed(step__figure={"title": "t", "x": "x", "y": "y", "source": "me", "curves": [{"name": "c", "points": [[0, "1"]]}]}),
     "/steps/0/figure/curves/0/points/0/1: expected a number, found a string"),
    ("[1]", "expected an object, found a list"), ('{"id": "own"', "at byte 12: expected ',' or '}'"), ("", "byte 0"), ("[" * 100000, "byte"),
    (" " * (1 << 20) + "{}", "File too large"),
], ids=lambda value: value.strip("/ ")[:20] if isinstance(value, str) else "lesson")
def test_what_is_no_lesson_is_left_out(start, tmp_path, content, why):
    write(tmp_path, "own", content)
    write(tmp_path, "good", changed(id="good"))
    daemon = start("--lessons-dir", str(tmp_path))
    assert "good" in listed(daemon) and "own" not in listed(daemon)
    told, = left_out(daemon)
    assert told.startswith("lessons_dir: own.json is left out: ") and why in told


def test_a_file_that_cannot_be_read_is_left_out(start, tmp_path):
    os.mkfifo(tmp_path / "own.json")
    (tmp_path / "gone.json").symlink_to("nowhere")
    daemon = start("--lessons-dir", str(tmp_path))
    assert sorted(listed(daemon)) == sorted(LESSONS)
    assert len(left_out(daemon)) == 2


def test_more_than_the_shelf_holds(start, tmp_path):
    for n in range(260):
        write(tmp_path, f"own-{n}", changed(id=f"own-{n}"))
    daemon = start("--lessons-dir", str(tmp_path))
    assert len(listed(daemon)) == 255 and set(LESSONS) <= set(listed(daemon))
    assert len(left_out(daemon)) == 260 + len(LESSONS) - 255


def test_a_folder_that_is_not_there(tmp_path):
    for options in ((), ("--check-config",)):
        done = run_attnd(*options, "--port", "0", "--lessons-dir", str(tmp_path / "nowhere"))
        assert done.returncode == 2 and "cannot use lessons_dir" in done.stderr and "No such file" in done.stderr


def test_the_check_of_the_settings_names_what_is_left_out(tmp_path):
    write(tmp_path, "own", changed(title=None))
    done = run_attnd("--check-config", "--lessons-dir", str(tmp_path))
    assert done.returncode == 0 and "own.json is left out: /title is missing" in done.stderr
