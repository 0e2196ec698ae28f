"""python bystanders.py PORT SECONDS: four clients that ask one small request after the other, each on a new connection,
until the time is over or the standard input ends; then prints {"asked", "p50_ms", "p99_ms", "faults": what was not 200,
three at most}. A process of its own, for threads beside the test would measure how long the test keeps the interpreter
from them."""
import json
import select
import socket
import sys
import threading
import time

import faults

ASK = faults.post({"query": [[1, 0], [0, 1]], "is_causal": True})


def ask(port, end, times, found):
    while time.monotonic() < end[0]:
        begin = time.monotonic()
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
                answer = faults.exchange(sock, ASK)
            if not answer or answer[0] != 200:
                found.append(repr(answer))
        except OSError as fault:
            found.append(repr(fault))
        times.append(time.monotonic() - begin)
        time.sleep(0.005)


def main():
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    end, times, found = [time.monotonic() + seconds], [], []
    clients = [threading.Thread(target=ask, args=(port, end, times, found)) for _ in range(4)]
    for client in clients:
        client.start()
    select.select([sys.stdin], [], [], seconds)
    end[0] = 0
    for client in clients:
        client.join()
    times.sort()
    print(json.dumps({"asked": len(times), "p50_ms": times[len(times) // 2] * 1e3,
                      "p99_ms": times[len(times) * 99 // 100] * 1e3, "faults": found[:3]}))


main()
