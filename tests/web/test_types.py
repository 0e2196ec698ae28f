"""The page's types are those of openapi.json, and its sources are right by them."""
import subprocess
from pathlib import Path

WEB = Path(__file__).parents[2] / "server" / "web"


def test_types(daemon, tmp_path):
    (tmp_path / "openapi.json").write_text(daemon.get("/openapi.json").text)
    subprocess.run(["node_modules/.bin/openapi-typescript", tmp_path / "openapi.json", "--output", "src/api/schema.d.ts"], cwd=WEB, check=True)
    done = subprocess.run(["node_modules/.bin/tsc"], cwd=WEB, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


PROGRAM = """
import type { components, paths } from './api';

type Answer = paths['/v1/attention']['post']['responses'][200]['content']['application/json'];
const body: components['schemas']['AttentionRequest'] = { query: [[1, 0], [0, 1]], is_causal: true, return: ['weights'] };
const reply = await fetch('/v1/attention', { method: 'POST', body: JSON.stringify(body) });
const answer = (await reply.json()) as Answer;
const problem = { type: '/problems/gone', title: '', status: 410, detail: '', code: 'gone' } satisfies components['schemas']['Problem'];
console.log(answer.weights, answer.run?.id, problem.code);
export {};
"""
FAULTS = {
    "body.is_casual = true;": "is_casual", "body.decimals = 'all';": "number", "console.log(answer.wieghts);": "wieghts",
    "const code: components['schemas']['ProblemCode'] = 'unheard_of'; console.log(code);": "unheard_of",
}


def test_a_program_compiles_with_the_served_types(daemon, tmp_path):
    reply = daemon.get("/web/api.d.ts")
    assert reply.status_code == 200 and reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    (tmp_path / "api.d.ts").write_text(reply.text)

    def compiled(text):
        (tmp_path / "program.ts").write_text(text)
        return subprocess.run([WEB / "node_modules/.bin/tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "esnext",
                               "--moduleResolution", "bundler", "program.ts"], cwd=tmp_path, capture_output=True, text=True)

    done = compiled(PROGRAM)
    assert done.returncode == 0, done.stdout
    for line, word in FAULTS.items():
        done = compiled(PROGRAM + line)
        assert done.returncode != 0 and word in done.stdout, line
