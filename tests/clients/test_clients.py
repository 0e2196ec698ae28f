"""Clients that generators make of openapi.json: generated, compiled, and run against the daemon; and two linters."""
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BIN = HERE / "node_modules" / ".bin"
STRICT = ["--strict", "--noEmit", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler",
          "--lib", "es2022,dom,dom.iterable"]
BODY = "{query: [[1, 0, 0], [0, 1, 0]], key: [[1, 2, 3], [4, 5, 6]], value: [[0, 1, 0], [1, 0, 1]], is_causal: true}"
WEIGHTS = "[[1,0],[0.15032545,0.8496746]]"


def run(*command, folder, **options):
    done = subprocess.run([str(part) for part in command], cwd=folder, text=True, capture_output=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def generate(generator, document, out, **properties):
    listed = ",".join(f"{name}={value}" for name, value in properties.items())
    run(Path(sys.executable).with_name("openapi-generator-cli"), "generate", "-g", generator, "-i", document, "-o", out,
        *(["--additional-properties=" + listed] if listed else []), folder=out.parent)


@pytest.fixture
def compiled(tmp_path):
    """Compiles a program beside a generated client as strictly as TypeScript can, and runs it. Returns what it prints."""
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")

    def answer(program, *generated):
        (tmp_path / "program.ts").write_text(program)
        run(BIN / "tsc", *STRICT, "program.ts", *generated, folder=tmp_path)
        run(BIN / "esbuild", "program.ts", "--bundle", "--format=esm", "--outfile=program.mjs", "--log-level=error", folder=tmp_path)
        return run("node", "program.mjs", folder=tmp_path).strip()
    return answer


def test_openapi_typescript_and_fetch(daemon, document, tmp_path, compiled):
    run(BIN / "openapi-typescript", document, "--output", "schema.d.ts", folder=tmp_path)
    program = f"""
import createClient from 'openapi-fetch';
import type {{ paths }} from './schema';
const client = createClient<paths, 'application/json' | 'application/problem+json'>({{ baseUrl: '{daemon.url}' }});
const {{ data, error }} = await client.POST('/v1/attention', {{ body: {BODY} }});
if (error || !data || !('weights' in data)) throw new Error(error?.detail ?? 'no weights');
const weights = data.weights as number[][];
const wrong = await client.POST('/v1/attention', {{ body: {{ query: [[1]], decimals: 99 }} }});
if (wrong.error?.code !== 'invalid_value') throw new Error(wrong.error?.code);
console.log(JSON.stringify(weights));
"""
    assert compiled(program, "schema.d.ts") == WEIGHTS
    with pytest.raises(AssertionError, match="TS2561.*is_causal|is_casual"):
        compiled(program.replace("is_causal", "is_casual"), "schema.d.ts")


def test_hey_api(document, tmp_path, compiled):
    """The server of the document is the one that was asked."""
    run(BIN / "openapi-ts", "--input", document, "--output", "client", folder=tmp_path)
    assert compiled(f"""
import {{ postV1Attention }} from './client';
const {{ data, error }} = await postV1Attention({{ body: {BODY} }});
if (error || !data || !('weights' in data)) throw new Error(error?.detail ?? 'no weights');
console.log(JSON.stringify(data.weights));
""") == WEIGHTS


def test_orval(daemon, document, tmp_path, compiled):
    """Where a body may be of several types, orval leaves its type to the caller."""
    (tmp_path / "orval.config.cjs").write_text(
        f"module.exports = {{ attnd: {{ input: '{document}', output: {{ target: 'client.ts', client: 'fetch', baseUrl: '{daemon.url}' }} }} }};")
    run(BIN / "orval", "--config", "./orval.config.cjs", folder=tmp_path)
    assert compiled(f"""
import {{ type Attention, postV1Attention }} from './client';
const reply = await postV1Attention({BODY}, {{ headers: {{ 'Content-Type': 'application/json' }} }});
const data = reply.data as Attention;
if (reply.status !== 200 || !data.weights) throw new Error(JSON.stringify(reply));
console.log(JSON.stringify(data.weights));
""") == WEIGHTS


def test_openapi_generator_typescript_fetch(document, tmp_path, compiled):
    """With checks at run time the generator itself loses nested lists."""
    generate("typescript-fetch", document, tmp_path / "client", withoutRuntimeChecks="true", modelPropertyNaming="original")
    assert compiled(f"""
import {{ Configuration, TensorsApi }} from './client';
const answer = await new TensorsApi(new Configuration()).postV1Attention({{ attentionRequest: {BODY} }});
console.log(JSON.stringify('weights' in answer && answer.weights));
""") == WEIGHTS


def test_openapi_generator_python(document, tmp_path):
    generate("python", document, tmp_path)
    (tmp_path / "program.py").write_text("""
import openapi_client as attnd
request = attnd.AttentionRequest.from_dict({"query": [[1, 0, 0], [0, 1, 0]], "key": [[1, 2, 3], [4, 5, 6]],
                                            "value": [[0, 1, 0], [1, 0, 1]], "is_causal": True, "return": ["weights", "scores"]})
api = attnd.TensorsApi(attnd.ApiClient(attnd.Configuration()))
answer = api.post_v1_attention(request).to_dict()
print(answer["weights"], answer["scores"][0][1])
""")
    assert run(sys.executable, "program.py", folder=tmp_path).strip() == "[[1.0, 0.0], [0.15032545, 0.8496746]] None"


def test_openapi_python_client(daemon, document, tmp_path):
    """Every operation is there but the picture of a job, which has no JSON."""
    (tmp_path / "config.yaml").write_text("post_hooks: []\n")
    told = run(Path(sys.executable).with_name("openapi-python-client"), "generate", "--path", document, "--meta", "none",
               "--output-path", "client", "--config", "config.yaml", folder=tmp_path)
    assert "removal" not in told and "Unable" not in told and "ERROR" not in told, told[-4000:]
    (tmp_path / "program.py").write_text(f"""
import pkgutil
import client.api, client.models
from client import Client
from client.api.tensors import post_v1_attention
from client.models import AttentionRequest, Problem
for module in pkgutil.walk_packages(client.__path__, "client."):
    __import__(module.name)
body = {{"query": [[1, 0, 0], [0, 1, 0]], "key": [[1, 2, 3], [4, 5, 6]], "value": [[0, 1, 0], [1, 0, 1]], "is_causal": True}}
here = Client(base_url={daemon.url!r})
print(post_v1_attention.sync(client=here, body=AttentionRequest.from_dict(body)).weights)
wrong = post_v1_attention.sync(client=here, body=AttentionRequest.from_dict(body | {{"decimals": 99}}))
print(isinstance(wrong, Problem), wrong.code)
""")
    assert run(sys.executable, "program.py", folder=tmp_path).split("\n")[:2] == [
        "[[1, 0], [0.15032545, 0.8496746]]", "True invalid_value"]


def test_linters_find_nothing(document):
    assert "No results with a severity" in run(BIN / "spectral", "lint", document, "--ruleset", HERE / "spectral.yaml",
                                               "--fail-severity", "hint", folder=HERE)
    done = subprocess.run([BIN / "redocly", "lint", document, "--config", HERE / "redocly.yaml", "--format", "json"],
                          cwd=HERE, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0 and '"problems": []' in done.stdout, done.stdout + done.stderr
