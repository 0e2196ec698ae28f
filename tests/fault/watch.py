"""python watch.py PORT: asks for health, readiness and metrics, again and again, until the standard input ends; then
prints {"times": seconds of each, "bad": what was not 200}. A process of its own, for a thread beside a load would
measure how long that load keeps the interpreter from it."""
import http.client
import json
import select
import sys
import time

connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
times, bad = [], []
while not select.select([sys.stdin], [], [], 0.02)[0]:
    for path in ("/healthz", "/metrics", "/readyz"):
        begin = time.monotonic()
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        times.append(time.monotonic() - begin)
        if answer.status != 200:
            bad.append([path, answer.status])
json.dump({"times": times, "bad": bad}, sys.stdout)
