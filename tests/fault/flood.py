"""python flood.py PORT CONNECTIONS SOURCE FILE: from the address SOURCE so many connections, each of which asks what FILE
holds again as soon as it is answered, until the standard input ends; then prints how many answers of each status there
were. A process of its own, for a flood beside a measurement would take the interpreter from it."""
import json
import select
import socket
import sys
import threading
from collections import Counter
from pathlib import Path

import faults

port, connections, source, request = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]).read_bytes()
statuses, stopped, open_ones = Counter(), threading.Event(), []


def client():
    while not stopped.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), 600, (source, 0)) as sock:
                open_ones.append(sock)
                while not stopped.is_set():
                    answer = faults.exchange(sock, request)
                    statuses[answer[0] if answer else 0] += 1
                    if not answer or answer[0] == 503:
                        stopped.wait(0.1)
                        break
        except (OSError, AssertionError):
            stopped.wait(0.1)


threads = [threading.Thread(target=client, daemon=True) for _ in range(connections)]
for thread in threads:
    thread.start()
print("begun", flush=True)
select.select([sys.stdin], [], [])
stopped.set()
print(json.dumps(statuses), flush=True)
