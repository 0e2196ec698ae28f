"""A real Chromium, and pages that try things in it."""
import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from conftest import PATIENCE

HEADLESS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def chromium(folder, url, *flags):
    """Open a page in a fresh browser until it has nothing more to do."""
    browser = shutil.which("chromium")
    assert browser, "chromium is missing (tests/tools/deps test)"
    subprocess.run([browser, *HEADLESS, f"--user-data-dir={Path(folder) / 'profile'}", *flags, url],
                   check=True, capture_output=True, timeout=2 * PATIENCE)


class Site:
    """Serves one page at any path, and keeps what the page sends back with POST."""

    def __init__(self, host="localhost"):
        site = self
        self.page, self.seen = "", None

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = site.page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                site.seen = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.origin = f"http://{host}:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def open(self, page, folder, *flags):
        """Open the page in a fresh browser, and give what it sent back."""
        self.page, self.seen = page, None
        chromium(folder, self.origin + "/", "--virtual-time-budget=20000", *flags)
        assert self.seen is not None, "the page sent nothing back"
        return self.seen

    def close(self):
        self.server.shutdown()
        self.server.server_close()
