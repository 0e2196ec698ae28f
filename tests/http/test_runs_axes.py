"""The axes of stored weights: which one counts layers, what needs layers, and layers as sites of their own."""
import numpy as np
import pytest
from api_client import ask, refused
from conftest import Daemon
from kept_captures import file_of, save, weights
from oracle.measures import rollout
from safetensors.numpy import load

TENSORS = {"Accept": "application/vnd.safetensors"}
AXES = ["layer", "batch", "head"]


def literal(*shape, seed):
    return {"shape": list(shape), "random": "normal", "seed": seed}


def stored(daemon, *shape, **fields):
    """The path of a stored run of random queries and keys of this shape, and its weights."""
    body = {"query": literal(*shape, seed=1), "key": literal(*shape, seed=2)} | fields
    plain = {k: v for k, v in body.items() if k != "axes"}
    weights = load(daemon.post("/v1/attention", plain | {"return": ["weights"]}, headers=TENSORS).content)["weights"]
    return "/v1/runs/" + ask(daemon, body | {"store": True, "return": []})["run"]["id"], weights.astype(np.float64)


def get(daemon, path, status=200):
    reply = daemon.get(path)
    assert reply.status_code == status, reply.text
    return reply.json()


@pytest.fixture(scope="module")
def layered(daemon):
    """3 layers of 2 sequences with 4 heads of 20 tokens: (path, weights)."""
    return stored(daemon, 3, 2, 4, 20, 8, axes=AXES, is_causal=True)


# --- names ---

@pytest.mark.parametrize(("shape", "axes"), [
    ((2, 3, 20, 8), ["batch", "head"]), ((3, 20, 8), ["batch"]), ((20, 8), []), ((2, 2, 3, 20, 8), ["batch", "batch", "head"])])
def test_without_names_the_axes_in_front_are_batches(daemon, shape, axes):
    path, _ = stored(daemon, *shape)
    assert get(daemon, path)["sites"][0]["axes"] == axes


@pytest.mark.parametrize(("shape", "axes"), [((2, 3, 20, 8), ["layer", "head"]), ((3, 20, 8), ["layer"]), ((20, 8), []),
                                             ((2, 2, 3, 20, 8), AXES)])
def test_names_are_kept(daemon, shape, axes):
    path, _ = stored(daemon, *shape, axes=axes)
    assert get(daemon, path)["sites"][0]["axes"] == axes


@pytest.mark.parametrize(("axes", "code", "words"), [
    (["layer"], "shape_mismatch", ["expected 2 names", "found 1"]), (["layer", "batch", "head"], "shape_mismatch", ["found 3"]),
    (["layer", "batch"], "invalid_value", ['"head" for axis 1', '"batch"']), (["head", "head"], "invalid_value", ["axis 0"]),
    (["layers", "head"], "invalid_value", ['"layers"'])])
def test_wrong_names(daemon, axes, code, words):
    body = {"query": literal(2, 3, 5, 4, seed=1), "store": True, "axes": axes}
    refused(daemon, body, code, "/axes", *words)


def test_the_layers_are_the_first_axis(daemon):
    body = {"query": literal(2, 2, 3, 5, 4, seed=1), "store": True, "axes": ["batch", "layer", "head"]}
    refused(daemon, body, "invalid_value", "/axes", 'expected "batch" for axis 1')
    refused(daemon, body | {"store": False}, "invalid_value", "/axes", "store")


# --- a layer ---

def test_layer_selects_a_layer(daemon, layered):
    path, w = layered
    for layer in range(3):
        for batch in range(2):
            rows = get(daemon, f"{path}/weights?layer={layer}&batch={batch}&head=3")["weights"]
            assert np.abs(np.array(rows) - w[layer, batch, 3]).max() < 1e-7
            flat = get(daemon, f"{path}/weights?batch={2 * layer + batch}&head=3")["weights"]
            assert flat == rows
            assert get(daemon, f"{path}/weights?site=0&layer={layer}&batch={batch}&head=3")["weights"] == rows
    assert get(daemon, f"{path}/weights?layer=3", 422)["pointer"] == "/layer"
    assert "3 layers" not in get(daemon, f"{path}/weights?layer=0&batch=2", 422)["detail"]
    assert get(daemon, f"{path}/weights?layer=0&batch=2", 422)["pointer"] == "/batch"
    assert "0 to 2" in get(daemon, f"{path}/weights?site=0&layer=3", 422)["detail"]


def test_heatmaps_of_layers(daemon, layered):
    path, w = layered
    heads = get(daemon, f"{path}/heatmaps?heads=1")["heads"]
    assert [(m["layer"], m["batch"]) for m in heads] == [(l, b) for l in range(3) for b in range(2)]
    for m in get(daemon, f"{path}/heatmaps?layer=2&batch=1&heads=0,3")["heads"]:
        assert (m["layer"], m["batch"]) == (2, 1)
        assert np.abs(np.array(m["max"]) - w[2, 1, m["head"]]).max() < 1e-7
    assert len(get(daemon, f"{path}/heatmaps?layer=2")["heads"]) == 8
    assert get(daemon, f"{path}/heatmaps?layer=2&batch=2", 422)["pointer"] == "/batch"


# --- rollout ---

def rolled(daemon, body):
    answer = ask(daemon, body | {"analysis": ["rollout"]}, "/v1/analyses")
    return [np.array(h["max"]) for h in answer["rollout"]["heatmap"]["heads"]]


def test_rollout_goes_through_the_named_layers(daemon, layered):
    path, w = layered
    got = rolled(daemon, {"run": path[-32:]})
    assert len(got) == 2
    for b in range(2):
        assert np.abs(got[b] - rollout(w[:, b])).max() < 1e-6
    answer = ask(daemon, {"run": path[-32:], "analysis": ["entropy"]}, "/v1/analyses")
    assert [(h["layer"], h["batch"], h["head"]) for h in answer["heads"]][-1] == (2, 1, 3)
    for b, part in enumerate(rolled(daemon, {"run": path[-32:], "layer": 2})):
        assert np.abs(part - rollout(w[2:, b])).max() < 1e-6
    one = ask(daemon, {"run": path[-32:], "analysis": ["entropy"], "layer": 2}, "/v1/analyses")["heads"]
    assert [h["measures"] for h in one] == [h["measures"] for h in answer["heads"][16:]]


def test_rollout_refuses_batches(daemon):
    path, _ = stored(daemon, 3, 4, 20, 8)
    body = {"run": path[-32:], "analysis": ["rollout"]}
    refused(daemon, body, "invalid_value", "/run", "3 batch entries", '"axes": ["layer", "batch", "head"]', path="/v1/analyses")
    w = np.full((3, 1, 2, 2), 0.5).tolist()
    refused(daemon, {"weights": w, "analysis": ["rollout"]}, "invalid_value", "/weights", "[layers, B, H, L, S]", path="/v1/analyses")
    refused(daemon, {"weights": w, "layer": 1}, "invalid_value", "/layer", path="/v1/analyses")


def test_one_layer_is_a_rollout(daemon):
    path, w = stored(daemon, 1, 4, 20, 8)
    assert np.abs(rolled(daemon, {"run": path[-32:]})[0] - rollout(w)).max() < 1e-6


# --- sites ---

def keep(folder, sites, number, **sizes):
    """A capture in a runs_dir: its id and weights. Masks differ between the layers."""
    sites = [{"layer": n, "is_causal": n % 2 == 0} | site for n, site in enumerate(sites)]
    file = file_of(sites, np.random.default_rng(number), **sizes)
    return save(folder, file, number), weights(file)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    service = Daemon("--runs-dir", str(folder))
    yield service, folder
    service.stop()


def test_sites_are_layers(files):
    """Masks differ between the layers."""
    service, folder = files
    run, w = keep(folder, [{}] * 4, 1)
    for b, got in enumerate(rolled(service, {"run": run})):
        assert np.abs(got - rollout(w[:, b])).max() < 1e-6
    heads = ask(service, {"run": run, "analysis": ["entropy"]}, "/v1/analyses")["heads"]
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(w > 0, w * np.log(w), 0).sum(-1).mean(-1)
    assert np.abs(np.array([h["measures"]["entropy"] for h in heads]).reshape(4, 2, 3) - entropy).max() < 1e-5
    other = ask(service, {"run": run, "other_run": run, "site": "sites.2"}, "/v1/analyses")
    assert max(h["js"] for h in other["comparison"]["heads"]) == 0


def test_sites_in_another_order(files):
    service, folder = files
    run, w = keep(folder, [{"layer": 2}, {"layer": 0}, {"layer": 1}], 2, B=1)
    assert np.abs(rolled(service, {"run": run})[0] - rollout(w[[1, 2, 0], 0])).max() < 1e-6


def test_sites_that_are_no_layers_of_one_model(files):
    service, folder = files
    run, _ = keep(folder, [{"kind": "encoder"}, {"kind": "decoder"}], 3)
    refused(service, {"run": run}, "invalid_value", "/kind", "encoder", "decoder", path="/v1/analyses")
    run, _ = keep(folder, [{"layer": 0}, {"layer": 0, "call": 1}], 4)
    refused(service, {"run": run}, "invalid_value", "/site", "both layer 0", path="/v1/analyses")


SINGLE = {"site=1": 1, "layer=1&kind=encoder": 1, "kind=decoder": 2}


@pytest.mark.parametrize("choice", SINGLE)
def test_one_site_of_several_with_batches(files, choice):
    """Its batch entries are no layers, because the layers are sites."""
    service, folder = files
    run, w = keep(folder, [{"kind": "encoder"}, {"kind": "encoder"}, {"kind": "decoder", "layer": 0},
                           {"kind": "cross", "layer": 0}], 8, L=20)
    fields = dict(pair.split("=") for pair in choice.split("&"))
    n, whole = SINGLE[choice], w[SINGLE[choice]]
    body = {name: int(value) if name == "layer" else value for name, value in fields.items()}
    for b, got in enumerate(rolled(service, {"run": run} | body)):
        assert np.abs(got - rollout(whole[b][None])).max() < 1e-6
    span = {"layer": f"from_layer={fields.get('layer')}&to_layer=2"}
    query = "&".join(span.get(name, f"{name}={value}") for name, value in fields.items())
    for route in ("rollout", "flow"):
        got = get(service, f"/v1/runs/{run}/{route}?batch=1&{query}")
        assert np.abs(np.array(got[route]) - rollout(whole[1][None])).max() < 1e-6, route
    several = choice.replace("site=", "sites=")
    heads = get(service, f"/v1/runs/{run}/analyses?{choice}")["heads"]
    places = [(n, b, h) for b in range(2) for h in range(3)]
    assert [(h["batch"], h["head"]) for h in heads] == [place[1:] for place in places]
    for route, name in (("heads", "heads"), ("atlas", "thumbnails")):
        got = get(service, f"/v1/runs/{run}/{route}?{several}")[name]
        assert [(h["site"], h["batch"], h["head"]) for h in got] == places, route


def test_a_layer_axis_in_a_file(files):
    service, folder = files
    file = file_of([{"axes": AXES, "layer": 4, "shape": [3, 1, 2, 16, 16]}], np.random.default_rng(5))
    run, w = save(folder, file, 5), weights(file, 0)
    assert np.abs(rolled(service, {"run": run})[0] - rollout(w)).max() < 1e-6
    got = get(service, f"/v1/runs/{run}/weights?layer=5&head=1")["weights"]
    assert np.abs(np.array(got) - w[1, 1]).max() < 1e-6
    for number, axes in ((6, ["batch", "layer", "head"]), (7, ["layer", "batch"])):
        run = save(folder, file_of([{"axes": axes, "shape": [3, 1, 2, 16, 16]}], np.random.default_rng(6)), number)
        assert "sites/0/axes" in get(service, f"/v1/runs/{run}", 500)["detail"]
