"""The documents: links between them, the paths that they name, their sizes, and what a container's build sees of them."""
import re
import subprocess

import pytest

from documents import FENCE, ROOT, readmes

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:lib|server|tests|config|docker)/[\w./-]*")
HEADING = re.compile(r"^#+ (.*)$", re.M)


def documents():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True)
    return sorted(ROOT / name for name in listed.stdout.split()) if listed.returncode == 0 else readmes()


def name(path):
    return str(path.relative_to(ROOT))


def anchors(path):
    """What GitHub makes of the headings: lower case, without punctuation, hyphens for spaces."""
    text = FENCE.sub("", path.read_text())
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


@pytest.mark.parametrize("path", documents(), ids=name)
def test_links_lead_somewhere(path):
    text = FENCE.sub("", path.read_text())
    for target, anchor in LINK.findall(text):
        if "://" in target:
            continue
        place = path.parent / target if target else path
        assert place.exists(), f"{target} does not exist"
        if anchor:
            assert anchor in anchors(place), f"{target} has no heading #{anchor}"
    for word in CODE.findall(text):
        if PATH.fullmatch(word):
            assert (ROOT / word).exists(), f"{word} does not exist"


def test_a_broken_link_would_be_found(tmp_path):
    assert LINK.findall("see [a](b.md#c), [d](#e) and ![f](g.png)") == [("b.md", "c"), ("", "e"), ("g.png", "")]
    page = tmp_path / "page.md"
    page.write_text("# POST /v1/x\n## The `a`, b\n```sh\n# no heading\n```\n")
    assert anchors(page) == {"post-v1x", "the-a-b"}


def test_every_room_is_reachable_from_the_first_page():
    """The first page leads to the page of each room, or to its folder."""
    seen, ahead = set(), [ROOT / "README.md"]
    while ahead:
        path = ahead.pop()
        if path in seen:
            continue
        seen.add(path)
        for target, _ in LINK.findall(FENCE.sub("", path.read_text())):
            place = (path.parent / target).resolve() if target and "://" not in target else path
            place = place / "README.md" if place.is_dir() else place
            if place.suffix == ".md" and place.exists():
                ahead.append(place)
    assert not set(readmes()) - seen


def test_the_first_page_is_short():
    page = (ROOT / "README.md").read_bytes()
    assert len(page) <= 10 * 1024
    [picture] = re.findall(rb"!\[[^\]]+\]\(([^)]+)\)", page)
    drawn = (ROOT / picture.decode()).read_bytes()
    assert drawn.startswith(b"\x89PNG") and len(drawn) < 60_000


def test_the_build_of_the_image_sees_sources_and_no_documents():
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    copied = re.findall(r"^COPY (?!--from)(\S+) ", (ROOT / "docker/Dockerfile").read_text(), re.M)
    whole = {path for path in copied if not any(path.startswith(other + "/") for other in copied)}
    assert rules[0] == "*" and {rule[1:] for rule in rules if rule.startswith("!")} == whole
    left_out = [rule for rule in rules[1:] if not rule.startswith("!")]
    assert left_out == ["**/*.md", "config/pictures", "server/web/node_modules"] and rules[-3:] == left_out, "the last rule that matches decides"
