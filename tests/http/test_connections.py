"""Who may have how many connections: of an address, of all, and behind trusted proxies."""
import contextlib
import http.client
import socket

import pytest
from test_daemon_load import eventually, ops_metric
from test_tenants import LONG, SHORT, THREADS, http_post

from conftest import PATIENCE, run_attnd

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextlib.contextmanager
def idle(daemon, count, source="127.0.0.2", greet=False):
    """So many connections of an address, each with one request behind it if `greet`, in order of coming."""
    with contextlib.ExitStack() as stack:
        sockets = []
        for i in range(count):
            address = source if isinstance(source, str) else source(i)
            sock = stack.enter_context(socket.create_connection((daemon.host, daemon.port), PATIENCE, (address, 0)))
            sockets.append(sock)
            if greet:
                assert answers(sock)
        yield sockets


def answers(sock):
    sock.sendall(HEALTH)
    return sock.recv(65536).startswith(b"HTTP/1.1 200")


def is_open(sock):
    sock.setblocking(False)
    try:
        return sock.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        sock.settimeout(PATIENCE)


def health(daemon, source="127.0.0.3", timeout=PATIENCE, **headers):
    client = http.client.HTTPConnection(daemon.host, daemon.port, timeout, (source, 0))
    try:
        client.request("GET", "/healthz", headers=headers)
        return client.getresponse().status
    finally:
        client.close()


def test_idle_connections_of_one_address_keep_nobody_out(start):
    """As many as all may have, and more: half of them are the address' own, the others are closed, the oldest first."""
    daemon = start("--connections", "40")
    with idle(daemon, 45) as sockets:
        assert eventually(lambda: [is_open(s) for s in sockets] == [False] * 25 + [True] * 20)
        assert health(daemon) == 200
        assert answers(sockets[-1]) and answers(sockets[25])
        assert ops_metric(daemon, "attnd_closed_crowded_total") == 25
    line, = [e for e in daemon.log(level="warn") if "connections_per_address" in e.get("event", "")]
    assert "127.0.0.2" in line["event"] and "20" in line["event"]


def test_the_bound_of_an_address_is_a_setting(start):
    daemon = start("--connections", "40", "--connections-per-address", "3")
    with idle(daemon, 5) as sockets, idle(daemon, 3, "127.0.0.9") as others:
        assert eventually(lambda: [is_open(s) for s in sockets] == [False, False, True, True, True])
        assert all(answers(s) for s in others)
    assert daemon.get("/version").json()["limits"]["connections_per_address"] == 3


def test_the_oldest_idle_one_gives_way_when_all_are_taken(start):
    """Idle since its last request: who asked lately stays, though he came first."""
    daemon = start("--connections", "16")
    with idle(daemon, 16, lambda i: f"127.0.1.{i + 1}", greet=True) as sockets:
        assert all(map(is_open, sockets))
        assert answers(sockets[0])
        assert health(daemon) == 200
        assert eventually(lambda: [is_open(s) for s in sockets] == [True, False] + [True] * 14)


def test_a_connection_with_a_request_never_gives_way(start):
    daemon = start("--connections", "8", "--connections-per-address", "8", *THREADS)
    body = SHORT.encode()
    request = http_post(body, f"Content-Length: {len(body)}")
    with idle(daemon, 8) as sockets:
        for sock in sockets[:4]:  # bodies that go on coming in
            sock.sendall(request[:-100])
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 4)
        for _ in range(20):
            assert health(daemon) == 200
        assert eventually(lambda: [is_open(s) for s in sockets[:5]] == [True] * 4 + [False])
        for sock in sockets[:4]:
            sock.sendall(request[-100:])
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")


def test_while_none_is_idle_newcomers_wait(start):
    daemon = start("--connections", "4", "--connections-per-address", "4", *THREADS)
    with contextlib.ExitStack() as stack:
        sockets = stack.enter_context(idle(daemon, 5))
        for sock in sockets:
            sock.sendall(http_post(LONG, f"Content-Length: {len(LONG)}"))
        # The fifth found four with requests, or an idle one that gave way to it.
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") >= 4)
        waiting = stack.enter_context(socket.create_connection((daemon.host, daemon.port), PATIENCE))
        waiting.sendall(HEALTH)
        for sock in sockets:
            sock.close()
        assert waiting.recv(65536).startswith(b"HTTP/1.1 200")


# --- trusted proxies ---

@pytest.mark.parametrize("trusted", ["127.0.0.2", "127.0.0.0/30", "10.0.0.0/8,127.0.0.2"])
def test_a_trusted_proxy_has_no_bound_of_its_own(start, trusted):
    daemon = start("--connections", "40", "--trusted-proxies", trusted)
    with idle(daemon, 30) as sockets:
        assert health(daemon, "127.0.0.2") == 200
        assert all(map(is_open, sockets))
        with idle(daemon, 30, "127.0.1.1") as others:
            assert eventually(lambda: [is_open(s) for s in others] == [False] * 10 + [True] * 20)


def test_a_unix_socket_has_no_bound_of_its_own(start, tmp_path):
    path = tmp_path / "s"
    daemon = start("--listen", f"unix:{path}", "--connections", "40")
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(38)]
        for sock in sockets:
            sock.settimeout(PATIENCE)
            sock.connect(str(path))
        assert answers(sockets[-1]) and all(map(is_open, sockets))


def test_the_log_names_the_client_behind_a_trusted_proxy(start):
    daemon = start("--trusted-proxies", "127.0.0.2,10.0.0.0/8")
    wanted = []
    for source, forwarded, client in (("127.0.0.2", "6.6.6.6, 1.2.3.4", "1.2.3.4"),
                                      ("127.0.0.2", "6.6.6.6, 1.2.3.4, 10.0.0.1", "1.2.3.4"),
                                      ("127.0.0.2", "2001:db8::1", "2001:db8::1"),
                                      ("127.0.0.2", "\"><script>", "127.0.0.2"),
                                      ("127.0.0.3", "1.2.3.4", "127.0.0.3")):
        assert health(daemon, source, **{"X-Forwarded-For": forwarded, "X-Request-Id": f"r{len(wanted)}"}) == 200
        wanted.append(client)
    assert [daemon.log(id=f"r{i}")[0]["client"] for i in range(len(wanted))] == wanted


def test_many_lines_of_x_forwarded_for(start):
    """The last ones are the nearest proxies'; of very many the first ones are not looked at."""
    daemon = start("--trusted-proxies", "127.0.0.2,10.0.0.0/8")
    for n, addresses in enumerate((["6.6.6.6", "1.2.3.4"], ["6.6.6.6", "1.2.3.4", "10.0.0.1"],
                                   ["6.6.6.6"] * 100 + ["1.2.3.4"], ["1.2.3.4"] + ["10.0.0.7"] * 7)):
        with socket.create_connection((daemon.host, daemon.port), PATIENCE, ("127.0.0.2", 0)) as sock:
            lines = "".join(f"X-Forwarded-For: {a}\r\n" for a in addresses)
            sock.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: r{n}\r\n{lines}\r\n".encode())
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        assert daemon.log(id=f"r{n}")[0]["client"] == "1.2.3.4"


@pytest.mark.parametrize("trusted", ["", "127.0.0.2"])
def test_clients_behind_a_trusted_proxy_take_turns(start, trusted):
    """A full queue sheds the requests of whoever waits with most: of the client behind the proxy, not of the proxy."""
    daemon = start("--workers", "1", "--requests-running", "1", "--queue-length", "3", "--trusted-proxies", trusted)

    def ask(sock, client):
        sock.sendall(http_post(LONG, f"Content-Length: {len(LONG)}", f"X-Forwarded-For: {client}"))

    with idle(daemon, 4) as flood, idle(daemon, 1) as other:
        for i, sock in enumerate(flood):
            ask(sock, "1.1.1.1")
            assert eventually(lambda n=i: ops_metric(daemon, "attnd_queue_running") + ops_metric(daemon, "attnd_queue_waiting") == n + 1)
        ask(other[0], "2.2.2.2")
        refused = flood if trusted else other
        assert eventually(lambda: any(not_served(s) for s in refused))


def not_served(sock):
    sock.setblocking(False)
    try:
        return sock.recv(65536).startswith(b"HTTP/1.1 503")
    except BlockingIOError:
        return False
    finally:
        sock.settimeout(PATIENCE)


@pytest.mark.parametrize("bad", ["localhost", "10.0.0.0/40", "unix:/x", "[::1]"])
def test_what_is_no_network_is_refused(start, bad):
    done = run_attnd("--check-config", "--trusted-proxies", bad)
    assert done.returncode == 2
    assert all(word in done.stderr for word in ("trusted_proxies", "IP addresses, networks", bad))
