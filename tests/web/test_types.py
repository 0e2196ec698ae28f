"""The page's types are those of openapi.json, and its sources are right by them."""
import subprocess
from pathlib import Path

WEB = Path(__file__).parents[2] / "server" / "web"


def test_types(daemon, tmp_path):
    (tmp_path / "openapi.json").write_text(daemon.get("/openapi.json").text)
    subprocess.run(["node_modules/.bin/openapi-typescript", tmp_path / "openapi.json", "--output", "src/api/schema.d.ts"], cwd=WEB, check=True)
    done = subprocess.run(["node_modules/.bin/tsc"], cwd=WEB, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
