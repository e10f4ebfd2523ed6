"""The server of `airtcp play`: a page for this machine's user, and nothing for web sites and neighbours."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from airtcp import _csp, serving
from airtcp.serving import PageServer

PAGE = (
    b'<!doctype html><meta http-equiv="Content-Security-Policy" '
    b"content=\"default-src 'none'; base-uri 'none'\"><p>secret</p>"
)


@pytest.fixture
def server() -> Iterator[PageServer]:
    with PageServer(PAGE) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(server: PageServer, method: str = "GET", path: str | None = None, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    connection.request(method, server.path if path is None else path, headers=headers)
    return connection.getresponse()


def raw(server: PageServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=20) as client:
        client.sendall(request)
        answer = b""
        while part := client.recv(1 << 16):
            answer += part
    return answer


def test_the_page_comes_with_headers_that_keep_it_to_itself(server: PageServer) -> None:
    answer = asked(server)
    assert (answer.status, answer.read()) == (200, PAGE)
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
    for name, value in {
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Server": "airtcp",
    }.items():
        assert answer.headers[name] == value
    assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
    head = asked(server, "HEAD")
    assert (head.status, head.read(), head.headers["Content-Length"]) == (200, b"", str(len(PAGE)))


def test_the_path_cannot_be_guessed(server: PageServer) -> None:
    assert re.fullmatch(r"/[\w-]{22}/", server.path)
    with PageServer(PAGE) as other:
        assert other.path != server.path
    for path in ("/", "/index.html", server.path[:-1], server.path + "x", "/../../etc/passwd", "//", "/%2e%2e/", "*"):
        answer = asked(server, path=path)
        assert answer.status == 404, path
        assert b"secret" not in answer.read()


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "", "[::1]"],
)
def test_another_name_is_not_answered(server: PageServer, host: str) -> None:
    host = host.format(port=server.server_address[1])
    answer = asked(server, Host=host)
    assert answer.status == 421
    assert b"secret" not in answer.read()


def test_its_own_names_are_answered(server: PageServer) -> None:
    for name in (f"localhost:{server.server_address[1]}", f"LocalHost:{server.server_address[1]}"):
        assert asked(server, Host=name).status == 200


def test_a_request_without_a_name_or_with_two_is_not_answered(server: PageServer) -> None:
    line = f"GET {server.path} HTTP/1.1\r\n".encode()
    host = f"Host: {server.names[0]}\r\n".encode()
    assert b"200" in raw(server, line + host + b"\r\n").split(b"\r\n")[0]
    for request in (
        line + b"\r\n",
        line + host + host + b"\r\n",
        line + host + b"Host: evil.example\r\n\r\n",
        f"GET http://{server.names[0]}{server.path} HTTP/1.1\r\n".encode() + host + b"\r\n",
    ):
        answer = raw(server, request)
        assert re.match(rb"HTTP/1\.[01] 4\d\d ", answer), answer[:80]
        assert b"secret" not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_other_methods_are_not_answered(server: PageServer, method: str) -> None:
    answer = asked(server, method, Origin="http://evil.example")
    assert answer.status == 501
    assert b"secret" not in answer.read()
    assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


def test_it_listens_on_the_loopback_address_alone(server: PageServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_slow_clients_are_cut_and_do_not_keep_others_out(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_S", 1.0)
    begin = time.monotonic()
    slow = [
        socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=20)
        for _ in range(3 * serving.MOST_AT_A_TIME)
    ]
    try:
        for client in slow:
            client.sendall(b"G")
        # More threads than that would never be there, whatever is connected.
        time.sleep(0.3)
        assert (
            sum("process_request_thread" in thread.name for thread in threading.enumerate()) <= serving.MOST_AT_A_TIME
        )
        for client in slow:
            try:
                while client.recv(1 << 12):
                    pass
            except ConnectionError:
                pass
        assert time.monotonic() - begin < 10
        assert asked(server).status == 200
    finally:
        for client in slow:
            client.close()


def test_a_policy_of_a_page_is_read_as_written() -> None:
    assert _csp.directives(PAGE.decode()) == {"default-src": ["'none'"], "base-uri": ["'none'"]}
    assert _csp.directives("<p>none</p>") == {}
