"""The static site (make site): the page with the service in it, opened from a file address without a network."""
import gzip
import json
import os
import subprocess

import numpy as np
import pytest
from conftest import PATIENCE
from serving import service

ROOT = service.ROOT
BUILD = ROOT / os.environ.get("BUILD", "build")
SITE = BUILD / "site"
MODULE = BUILD / "wasm" / "attnd.wasm"


@pytest.fixture
def site(chromium):
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    context.set_default_timeout(1000 * PATIENCE)
    page = context.new_page()
    faults = []
    page.on("console", lambda m: m.type == "error" and faults.append(m.text))
    page.on("pageerror", lambda e: faults.append(str(e)))
    page.on("request", lambda r: r.url.startswith(("file:", "blob:", "data:")) or faults.append(f"asks {r.url}"))

    def open_(where=""):
        page.goto((SITE / "index.html").as_uri() + where)
        return page

    yield open_
    context.close()
    assert not faults, "\n".join(faults)


def test_it_is_at_most_a_megabyte():
    assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in SITE.iterdir()) <= 1_000_000


def test_the_gallery_draws(site):
    site("#1/gallery").locator(".gallery-picture canvas").first.wait_for()


def test_it_begins_with_the_lessons(site):
    page = site()
    page.get_by_role("button", name="A question and three answers").click()
    page.get_by_text("Step 1 of 7").first.wait_for()


def test_own_numbers_are_computed(site):
    page = site("#1/data")
    page.get_by_role("button", name="causal, 4 words").click()
    page.get_by_role("button", name="Compute").click()
    page.click("nav button:has-text('Stages')")
    page.get_by_text("0.7696").first.wait_for()


def test_by_hand_is_computed(site):
    page = site("#1/hand")
    page.click("[data-name=query] [data-cell='0.0']")
    page.keyboard.press("Control+a")
    page.keyboard.type("0")
    page.locator("[data-name=raw] [data-cell='0.0'][data-value='4']").wait_for()


def numbers(value):
    """The numbers of an answer in their order, and everything else of it."""
    if isinstance(value, dict):
        parts = [numbers(v) for v in value.values()]
        return sum((p[0] for p in parts), []), [list(value), *(p[1] for p in parts)]
    if isinstance(value, list):
        parts = [numbers(v) for v in value]
        return sum((p[0] for p in parts), []), [p[1] for p in parts]
    return ([value], "number") if isinstance(value, (int, float)) and not isinstance(value, bool) else ([], value)


UNLIKE = {"predicted_seconds", "seconds", "instance", "bytes", "workers", "kernels", "id", "expires_ms", "run", "milliseconds", "predicted_ms"}


def without(value):
    if isinstance(value, dict):
        return {k: without(v) for k, v in value.items() if k not in UNLIKE}
    return [without(v) for v in value] if isinstance(value, list) else value


def test_its_answers_are_those_of_the_daemon(tmp_path):
    """Each case of each example: numbers within 2e-6, everything else equal; 32 bits and another C library make the rest."""
    subprocess.run([ROOT / "server/web/node_modules/.bin/esbuild", ROOT / "server/web/src/site/wasm.ts", "--format=esm",
                    f"--outfile={tmp_path}/wasm.mjs"], check=True, capture_output=True)
    daemon = service.Daemon("--isa", "ref", "--ops-listen", "", "--log", "off")
    try:
        examples = [daemon.get(e["href"]).json() for e in daemon.get("/v1/examples").json()["examples"]]
        cases = [c for e in examples for c in e["cases"]
                 if c.get("method", "POST") == "POST" and c["path"].split("/")[2] in
                 ("attention", "heatmaps", "masks", "positions", "analyses", "curves")]
        asked = "".join(json.dumps({"method": "POST", "path": c["path"], "body": c.get("request", {})}) + "\n" for c in cases)
        node = subprocess.run(["node", ROOT / "tests/web/site_answers.mjs", tmp_path / "wasm.mjs", MODULE], input=asked,
                              text=True, capture_output=True, timeout=10 * PATIENCE, check=True)
        answers = [json.loads(line) for line in node.stdout.splitlines()]
        assert len(answers) == len(cases) > 100
        for case, here in zip(cases, answers):
            there = daemon.post(case["path"], case.get("request", {}))
            what = f"{case['path']} {case.get('title')}: {here['text'][:300]}"
            assert here["status"] == there.status_code, what
            mine, yours = (numbers(without(json.loads(text))) for text in (here["text"], there.text))
            assert mine[1] == yours[1], what
            np.testing.assert_allclose(mine[0], yours[0], 2e-6, 2e-6, err_msg=what)
    finally:
        daemon.stop()
