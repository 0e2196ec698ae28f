"""Runs that grow with a generation: what other connections see of it while it goes on, that the closed run is that of
the causal pass bit for bit, and that nothing is left of a generation that does not end."""
import json
import os
import random
import threading
import time

import numpy as np
import pytest
import requests
from api_client import array, ask, refused
from conftest import PATIENCE, Daemon, write_keys
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_models import SMALL, make, path
from test_daemon_load import eventually
from test_models_runs import KINDS, POSITIONS, cells, tokens_of

LONG = " and ".join(["the red cat watches the small dog in the big house"] * 6) + " ."
SIXTY = {"text": LONG, "max_length": 60, "return": []}
SLOW = PATIENCE > 60  # under a sanitizer
HEAVY = {"architecture": "transformer", "width": 128 if SLOW else 512, "num_heads": 8, "num_layers": 6, "seed": 3}  # some ms for a step
ONE_SUM = ("avx2", "avx512")  # tables whose sums do not depend on the number of rows
WORK = {"text": "the red car .", "max_length": 80, "return": []}
FOLLOWS = ("weights?site={site}", "rows?site={site}&rows=0", "top-k?site={site}&top_k=2", "cells?site={site}&row=0&col=0", "analyses?site={site}",
           "tiles?site={site}&level=0&y=0&x=0&encoding=f32", "heatmaps?site={site}", "atlas?sites={site}", "heads?sites={site}")


class Stream:
    """A stored generation as events, read by a thread."""

    def __init__(self, daemon, body, where, **options):
        self.reply = requests.post(daemon.url + where, json=body | {"store": True, "stream": True}, stream=True, timeout=PATIENCE, **options)
        assert self.reply.status_code == 200, self.reply.text
        self.events, self.id = [], None
        self.known, self.ended = threading.Event(), threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        assert self.known.wait(PATIENCE)

    def _read(self):
        try:
            name = None
            for line in self.reply.iter_lines(chunk_size=1):
                if line.startswith(b"event: "):
                    name = line[7:].decode()
                elif line.startswith(b"data: "):
                    self.events.append((name, json.loads(line[6:])))
                    if name == "run":
                        self.id = self.events[-1][1]["id"]
                        self.known.set()
        except (requests.RequestException, AttributeError, ValueError):
            pass  # the connection was closed, by us or by the daemon
        self.known.set()
        self.ended.set()

    def done(self):
        assert self.ended.wait(PATIENCE)
        self.reader.join()
        assert [name for name, _ in self.events[:2]] == ["start", "run"] and self.events[-1][0] == "done", self.events[-1]
        assert {name for name, _ in self.events[2:-1]} == {"token"}
        return self.events[-1][1]

    def leave(self):
        self.reply.raw._fp.fp.raw._sock.shutdown(2)
        self.reply.close()


def pass_over(daemon, body, answer, where):
    """The stored causal pass over what was generated, and its weights."""
    made = answer["sequences"][0]
    ids, ended = made["target"]["ids"], made["ended"]
    asked = {k: v for k, v in body.items() if k in ("text", "token_ids", "hide")} | {"target_token_ids": ids, "target_end": ended, "return": "weights", "store": True}
    return ask(daemon, asked, where)


def same_bits(daemon, run, other):
    """Two runs have the same sites and the same bits in every cell; on ref within its accuracy."""
    assert [s["name"] for s in run["sites"]] == [s["name"] for s in other["sites"]]
    for a, b in zip(run["sites"], other["sites"], strict=True):
        x, y = (np.stack([cells(daemon, r, s["name"], i) for i in range(s["num_batches"])]) for r, s in ((run, a), (other, b)))
        assert x.shape == y.shape
        assert np.abs(x - y).max() < 2e-6 if daemon.kernels not in ONE_SUM else np.array_equal(x, y), a["name"]
        for key in ("mask", "scale", "score", "position", "query_start", "key_start", "query_text", "key_text", "kernel"):
            assert a[key] == b[key], (a["name"], key)
    for a, b in zip(run["texts"], other["texts"], strict=True):
        assert (a["tokens"], a["ids"], a["special"]) == (b["tokens"], b["ids"], b["special"])


def look(daemon, session, run_id, site, seen):
    """One look at each view; what was seen of an open run goes to `seen`."""
    for view in ("", *(f"/{v.format(site=site)}" for v in FOLLOWS)):
        reply = session.get(f"{daemon.url}/v1/runs/{run_id}{view}", timeout=PATIENCE)
        assert reply.status_code == 200, (view, reply.text)
        if reply.headers["Cache-Control"] == "no-store":
            assert "ETag" not in reply.headers and "X-Run-Id" not in reply.headers
            seen.append((view, reply))
        elif not view:
            return False
    what_if = session.post(f"{daemon.url}/v1/runs/{run_id}/what-if", json={"site": site, "hide": [0], "rows": "0", "return": "output_before"}, timeout=PATIENCE)
    assert what_if.status_code == 200, what_if.text
    return True


def equal(got, want, loose):
    got, want = got.astype(np.float32), want.astype(np.float32)
    return np.abs(got - want).max(initial=0) < 2e-6 if loose else np.array_equal(got, want)


def is_prefix(view, reply, whole, description, site, loose):
    """What was seen is that of the first rows of the closed run. Returns how many rows it had, or 0 if the view does not say."""
    grows = next(s for s in description["sites"] if s["name"] == site)["kind"] == "decoder"
    if not view:
        seen = reply.json()
        n = seen["num_rows"]
        assert seen["state"] == "open" and n <= description["num_rows"]
        for a, b in zip(seen["sites"], description["sites"], strict=True):
            rows = b["num_queries"] if a["kind"] == "encoder" else n
            assert a["num_queries"] == rows and a["num_keys"] == (n if a["kind"] == "decoder" else b["num_keys"])
            assert all(tokens_of(seen, a, side, 0) == tokens_of(description, b, side, 0)[:a["num_queries" if side == "query" else "num_keys"]]
                       for side in ("query", "key"))
        assert [t["tokens"] for t in seen["texts"]] == [description["texts"][0]["tokens"], description["texts"][1]["tokens"][:n + 1]]
        return n
    head = whole[0]
    if view.startswith("/weights"):
        got = array(reply.json()["weights"])
    elif view.startswith("/tiles"):
        shape = [int(x) for x in reply.headers["X-Tile-Shape"].split(",")]
        got = np.frombuffer(reply.content, np.float32)[:shape[0] * shape[1]].reshape(shape).astype(np.float64)
        got = np.where(np.isneginf(got), 0, got)  # hidden
    elif view.startswith("/top-k"):
        edges = reply.json()
        assert equal(np.array(edges["weight"]), head[edges["row"], edges["col"]], loose)
        return max(edges["row"]) + 1
    elif view.startswith("/cells"):
        assert reply.json()["weight"] == pytest.approx(head[0, 0], rel=1e-5)
        return 0
    elif view.startswith("/rows"):
        got = array(reply.json()["weights"])
        assert equal(got[0], head[0, :got.shape[1]], loose)
        return got.shape[1] if grows else 0
    else:
        return 0
    n = len(got)
    assert got.shape[1] == (n if grows else head.shape[1])
    assert equal(got, head[:n, :got.shape[1]], loose) and not head[:n, got.shape[1]:].any()
    return n


def watch(daemon, body, where, site):
    """A generation that another connection reads while it grows; the numbers of rows that were seen."""
    seen, session = [], requests.Session()
    stream = Stream(daemon, body, where)
    while look(daemon, session, stream.id, site, seen):
        pass
    answer = stream.done()
    description = answer["run"]
    assert description["id"] == stream.id and description["state"] == "closed"
    assert description["num_rows"] == len(answer["sequences"][0]["target"]["tokens"]) == len(stream.events) - 3
    whole = cells(daemon, description, site, 0)
    rows = [n for n in (is_prefix(view, reply, whole, description, site, daemon.kernels not in ONE_SUM) for view, reply in seen) if n]
    assert rows == sorted(rows)
    return answer, rows


def test_sixty_steps_of_en_fr(daemon, document):  # noqa: F811
    """Done when: read while it grows by another connection, it equals its closed run and the causal pass."""
    rows, where = set(), "/v1/models/en-fr"
    end = time.monotonic() + PATIENCE
    while len(rows) < 8 and time.monotonic() < end:
        answer, seen = watch(daemon, SIXTY, f"{where}/generate", "cross.0")
        rows |= {n for n in seen if n < 60}
    assert len(rows) >= 8, rows
    run = answer["run"]
    schema(document, "ModelGeneration").validate(answer)
    assert run["num_rows"] == 60 and run["model"] == "en-fr"
    same_bits(daemon, run, pass_over(daemon, SIXTY, answer, f"{where}/attention")["run"])


def test_every_view_follows_a_transformer(daemon, document):  # noqa: F811
    made = make(daemon, **HEAVY)
    answer, rows = watch(daemon, WORK, path(made, "/generate"), "decoder.3")
    assert len({n for n in rows if n < 80}) >= 8, rows
    schema(document, "Run").validate(answer["run"])
    same_bits(daemon, answer["run"], pass_over(daemon, WORK, answer, path(made, "/attention"))["run"])
    daemon.request("DELETE", path(made))


@pytest.mark.parametrize("architecture", ["seq2seq", "transformer"])
@pytest.mark.parametrize("attention, positions", [(kind, POSITIONS[i % 6]) for i, kind in enumerate(KINDS)] + [("multihead", p) for p in POSITIONS])
def test_every_kind_of_model(daemon, architecture, attention, positions):
    """With a stream and without, the run of a generation is that of the pass."""
    sizes = {"local": {"radius": 1}, "strided": {"radius": 1, "stride": 2}, "block": {"block_size": 2}, "global": {"num_global_keys": 1, "radius": 1}}
    made = make(daemon, architecture=architecture, attention=attention, positions=positions, num_layers=2, reach=2, **sizes.get(attention, {}))
    for extra in ({}, {"hide": [1]}):
        body = {"text": "the red car .", "max_length": 12} | extra
        plain = ask(daemon, body | {"store": True}, path(made, "/generate"))
        streamed = Stream(daemon, body, path(made, "/generate")).done()
        passed = pass_over(daemon, body, plain, path(made, "/attention"))
        same_bits(daemon, plain["run"], passed["run"])
        same_bits(daemon, streamed["run"], passed["run"])
        assert plain["sequences"] == streamed["sequences"]
    daemon.request("DELETE", path(made))


def test_a_batch_has_rows_of_its_own(daemon):
    """Sequences of a batch end after different numbers of steps."""
    body = {"text": ["the cat sleeps", "the red cat watches the small dog .", "she sleeps"]}
    answer = ask(daemon, body | {"store": True}, "/v1/models/en-fr/generate")
    run, lengths = answer["run"], [len(s["target"]["tokens"]) for s in answer["sequences"]]
    assert len(set(lengths)) > 1 and run["num_rows"] == max(lengths)
    assert run["sites"][1]["query_lengths"] == lengths and "query_lengths" in run["sites"][0]
    for b, text in enumerate(body["text"]):
        alone = pass_over(daemon, {"text": text}, {"sequences": [answer["sequences"][b]]}, "/v1/models/en-fr/attention")
        for site, weights in zip(run["sites"], alone["sites"], strict=True):
            want = array(weights["weights"])[0]
            got = cells(daemon, run, site["name"], b)[:, :want.shape[1], :want.shape[2]]
            assert np.abs(got - want).max() < 2e-6
        assert run["texts"][3 + b]["tokens"] == ["<bos>"] + answer["sequences"][b]["target"]["tokens"]


def test_forms_of_the_answer(daemon):
    body = {"text": "the cat sleeps", "store": True}
    for accept in ("application/json", "text/plain", "image/svg+xml"):
        reply = daemon.post("/v1/models/en-fr/generate", body, headers={"Accept": accept})
        assert reply.status_code == 200
        run = daemon.get(f"/v1/runs/{reply.headers['X-Run-Id']}")
        assert run.json()["num_rows"] == 4 and run.headers["Cache-Control"].endswith("immutable")
        assert accept != "text/plain" or f"run: {run.json()['id']} (" in reply.text
    by_accept = daemon.post("/v1/models/en-fr/generate", body, headers={"Accept": "text/event-stream"}).text
    assert by_accept.startswith('event: start\n') and '\n\nevent: run\ndata: {"id":"' in by_accept and '"state":"closed"' in by_accept


def test_what_is_refused(daemon, start):
    where = "/v1/models/en-fr/generate"
    refused(daemon, {"text": "the cat", "store": True, "num_beams": 3}, "invalid_value", "/store", "greedy", "3 beams", path=where)
    none = make(daemon, attention="none")
    refused(daemon, {"text": "red", "store": True}, "invalid_value", "/store", "no attention", path=path(none, "/generate"))
    plain, dry = (ask(daemon, SIXTY | {"store": store, "dry_run": True}, where)["dry_run"] for store in (False, True))
    assert dry["bytes"]["work"] > plain["bytes"]["work"] and dry["num_cells"] > plain["num_cells"]
    small = start("--runs-bytes", "30000")
    for stream in (False, True):  # before the first event, so with a status of its own
        refused(small, SIXTY | {"store": True, "stream": stream}, "too_large", "/store", "30000", path=where, status=413)
    assert ask(small, SIXTY, where)


def test_memory_suffices(daemon):
    """The bound of a request holds for searches that are stored."""
    for fields in ({}, {"architecture": "transformer", "num_layers": 4}, {"attention": "general", "positions": "shaw"}):
        made = make(daemon, width=128, max_length=300, **fields)
        for body in ({"token_ids": [4] * 250, "max_length": 250}, {"token_ids": [[4] * 2] * 60, "max_length": 5}):
            assert ask(daemon, body | {"return": [], "store": True}, path(made, "/generate"))
        daemon.request("DELETE", path(made))


# --- generations that do not end ---

@pytest.fixture(scope="module", params=[False, True], ids=["memory", "runs_dir"])
def shared(request, tmp_path_factory):
    """A daemon with a heavy model, and its runs_dir or None."""
    folder = tmp_path_factory.mktemp("runs") if request.param else None
    service = Daemon(*(("--runs-dir", str(folder)) if folder else ()))
    made = make(service, **HEAVY)
    yield service, path(made, "/generate"), folder
    service.stop()


def test_a_client_that_leaves(shared):
    daemon, where, folder = shared
    stream = Stream(daemon, WORK | {"max_length": 400}, where)
    assert daemon.get(f"/v1/runs/{stream.id}").json()["state"] == "open"
    stream.leave()
    assert eventually(lambda: daemon.get(f"/v1/runs/{stream.id}").status_code == 410)
    assert not folder or not list(folder.iterdir())


def test_an_open_run_is_deleted(shared):
    """The generation goes on, and stores nothing."""
    daemon, where, folder = shared
    stream = Stream(daemon, WORK, where)
    assert daemon.request("DELETE", f"/v1/runs/{stream.id}").status_code == 204
    assert daemon.get(f"/v1/runs/{stream.id}").status_code == 410
    answer = stream.done()
    assert "run" not in answer and len(answer["sequences"][0]["target"]["tokens"]) == 80
    assert daemon.get(f"/v1/runs/{stream.id}").status_code == 410
    assert not folder or not list(folder.iterdir())


def test_a_deadline(shared):
    """A busy machine may need longer than the first limit before the stream begins."""
    daemon, where, _ = shared
    for limit in (300, 600, 1200, 2400, 4800):
        try:
            stream = Stream(daemon, WORK | {"max_length": 400, "timeout_ms": limit}, where)
            break
        except AssertionError as problem:
            assert "deadline_exceeded" in str(problem)
    assert stream.ended.wait(PATIENCE) and stream.events[-1][0] == "error", stream.events[-1]
    assert daemon.get(f"/v1/runs/{stream.id}").status_code == 410


def test_a_reader_outlives_the_generation(shared):
    """Many readers, some of which hold a prefix when the run is closed."""
    daemon, where, _ = shared
    stream, failures = Stream(daemon, WORK | {"max_length": 40}, where), []

    def read():
        session = requests.Session()
        while not stream.ended.is_set():
            reply = session.post(f"{daemon.url}/v1/runs/{stream.id}/what-if", json={"site": "decoder.5", "hide": [0], "heads": "all"}, timeout=PATIENCE)
            if reply.status_code not in (200, 503):
                failures.append(reply.text)
    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    assert stream.done()["run"]["state"] == "closed"
    for reader in readers:
        reader.join()
    assert not failures


def test_other_daemons_see_closed_runs_only(start, tmp_path):
    daemon, other = (start("--runs-dir", str(tmp_path)) for _ in range(2))
    made = make(daemon, **HEAVY)
    stream = Stream(daemon, WORK, path(made, "/generate"))
    assert other.get(f"/v1/runs/{stream.id}").status_code == 404
    assert daemon.get(f"/v1/runs/{stream.id}").json()["state"] == "open"
    run = stream.done()["run"]
    seen = other.get(f"/v1/runs/{stream.id}").json()
    assert seen["state"] == "closed" and seen["num_rows"] == 80 and seen["sites"] == run["sites"]
    assert np.array_equal(cells(other, run, "decoder.0", 0), cells(daemon, run, "decoder.0", 0))


def test_owners(start, tmp_path):
    keys = write_keys(tmp_path, "first:key-of-the-first admin", "other:key-of-the-other")
    daemon = start("--keys-file", keys)
    mine, others = ({"Authorization": f"Bearer key-of-the-{who}"} for who in ("first", "other"))
    reply = daemon.post("/v1/models", SMALL | HEAVY, headers=mine)
    assert reply.status_code == 201, reply.text
    stream = Stream(daemon, WORK, path(reply.json(), "/generate"), headers=mine)
    assert daemon.get(f"/v1/runs/{stream.id}", headers=others).json()["state"] == "open"
    assert daemon.request("DELETE", f"/v1/runs/{stream.id}", headers=others).status_code == 403
    stream.done()
    assert daemon.request("DELETE", f"/v1/runs/{stream.id}", headers=others).status_code == 403
    assert daemon.request("DELETE", f"/v1/runs/{stream.id}", headers=mine).status_code == 204


def wait_for(round_, took, stream, steps, folder):
    """Waits for the moment of the kill: anywhere in the generation, around its last step, as soon as the run is being
    written to the directory, or after the answer."""
    random_ = random.Random(round_)
    if round_ % 4 == 0:
        time.sleep(random_.uniform(0, took))
    elif round_ % 4 == 3:
        assert stream.ended.wait(PATIENCE)
    else:
        while len(stream.events) < steps and not stream.ended.is_set():
            time.sleep(1e-4)
        while round_ % 4 == 2 and not any(stream.id in name for name in os.listdir(folder)) and not stream.ended.is_set():
            pass
        if round_ % 4 == 1:
            time.sleep(random_.uniform(0, .02))


def test_killed_while_it_grows(tmp_path):
    """SIGKILL in 20 rounds: afterwards a run is there as a whole or not at all, and there if its client has been
    answered, with all runs of earlier rounds; nothing else is in the directory."""
    models, runs = tmp_path / "models", tmp_path / "runs"
    models.mkdir(), runs.mkdir()
    body = WORK | {"max_length": 30}
    daemon = Daemon("--runs-dir", str(runs), "--models-dir", str(models))
    where = path(make(daemon, **(HEAVY | {"num_layers": 4})), "/generate")
    kept, outcomes, cut_short = [], set(), 0
    for round_ in range(20):
        began = time.monotonic()
        steps = len(ask(daemon, body, where)["sequences"][0]["target"]["tokens"])
        stream = Stream(daemon, body, where)
        wait_for(round_, time.monotonic() - began, stream, steps, runs)
        daemon.process.kill()
        daemon.wait()
        assert stream.ended.wait(PATIENCE)
        stream.reader.join()
        cut_short += any(f.suffix == ".part" for f in runs.iterdir())
        answered = stream.events[-1][0] == "done"
        daemon = Daemon("--runs-dir", str(runs), "--models-dir", str(models))
        reply = daemon.get(f"/v1/runs/{stream.id}")
        assert reply.status_code == 200 or (reply.status_code == 404 and not answered), (round_, reply.text)
        if reply.status_code == 200:
            kept.append(stream.id)
            run = reply.json()
            assert run["state"] == "closed" and run["num_rows"] == steps
            assert all(s["num_queries"] == steps for s in run["sites"] if s["kind"] != "encoder")
            rows = cells(daemon, run, "decoder.3", 0).sum(-1)
            assert np.allclose(rows, 1, atol=1e-5)
        assert all(daemon.get(f"/v1/runs/{id}").status_code == 200 for id in kept)
        assert sorted(f.name for f in runs.iterdir()) == sorted(f"{id}.safetensors" for id in kept)
        outcomes.add((answered, reply.status_code))
    assert {(True, 200), (False, 404)} <= outcomes and cut_short
    daemon.stop()


def test_the_service_ends(start):
    daemon = start("--drain-ms", "100")
    made = make(daemon, **HEAVY)
    stream = Stream(daemon, WORK | {"max_length": 400}, path(made, "/generate"))
    daemon.stop()
    assert stream.ended.wait(PATIENCE) and stream.events[-1][0] != "done"
