#!/usr/bin/env python3
"""boofuzz on the request line: method, target, version and what stands between them. Run by test_abuse.py in an
environment of its own (tests/fault/requirements.txt): fuzz_request_line.py PORT [MOST CASES]. A case fails when
the answer is no HTTP, is a 5xx other than 501 and 505 (which say what is not supported), or does not come.
The last line says how many cases there were and how many failed."""
import os
import re
import socket
import sys
import tempfile

from boofuzz import Block, Delim, Request, Session, Static, String, Target
from boofuzz.connections import ITargetConnection
from boofuzz.fuzz_logger_text import FuzzLoggerText

PATIENCE = 60
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


class Client(ITargetConnection):
    """One connection a case: sends it, closes its sending side, reads to the end."""

    def __init__(self, port):
        self.port, self.sock, self.answer = port, None, b""

    def open(self):
        self.sock = socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def close(self):
        self.sock.close()

    def send(self, data):
        self.answer = b""
        try:
            self.sock.sendall(data)
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before the end
        try:
            while chunk := self.sock.recv(65536):
                self.answer += chunk
        except ConnectionError:
            pass
        return len(data)

    def recv(self, max_bytes):
        return self.answer

    @property
    def info(self):
        return f"127.0.0.1:{self.port}"


def fault_of(answer):
    if not answer:
        return None  # an incomplete request, or one that was cut off
    found = STATUS.match(answer)
    if not found:
        return f"no HTTP: {answer[:80]!r}"
    status = int(found.group(1))
    return f"status {status}" if status >= 500 and status not in (501, 505) else None


def line():
    """For requests with and without a body."""
    return [Block("line", children=(
        String("method", "POST"), Delim("space", " "), String("target", "/v1/attention"), Delim("query", "?"),
        String("parameters", "a=b"), Delim("gap", " "), String("scheme", "HTTP"), Delim("slash", "/"),
        String("version", "1.1"), Delim("end", "\r\n"))),
        Static("rest", "Host: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")]


def session_of(client, first, last, judge, folder):
    log = open(os.devnull, "w")
    session = Session(target=Target(connection=client), web_port=None, keep_web_open=False, index_start=first,
                      index_end=last, post_test_case_callbacks=[judge], receive_data_after_fuzz=True,
                      db_filename=f"{folder}/{first}.db", fuzz_loggers=[FuzzLoggerText(file_handle=log)],
                      restart_sleep_time=0, restart_threshold=1)
    session.connect(Request("request", children=tuple(line())))
    return session


def main():
    port, most = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None
    client, faults, cases, answers = Client(port), [], [0], {}

    def judge(target, fuzz_data_logger, session, *args, **kwargs):
        cases[0] += 1
        status = STATUS.match(client.answer)
        key = status.group(1).decode() if status else "none"
        answers[key] = answers.get(key, 0) + 1
        fault = fault_of(client.answer)
        if fault:
            faults.append(fault)

    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # its database syncs with every case
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        total = session_of(client, 1, 1, judge, folder).num_mutations(max_depth=1)
        windows = 20 if most else 1  # a part of all cases comes from all over them
        for i in range(windows):
            first = 1 + total * i // windows
            last = first + most // windows - 1 if most else total
            session_of(client, first, last, judge, folder).fuzz(max_depth=1)
    for fault in faults[:5]:
        print(fault)
    print(f"{cases[0]} of {total} cases, {len(faults)} failed, answers {dict(sorted(answers.items()))}")
    return 1 if faults or not cases[0] else 0


if __name__ == "__main__":
    sys.exit(main())
