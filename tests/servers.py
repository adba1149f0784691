"""Servers on the loopback that data is read from in tests: plain HTTP, and S3."""

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BUCKET = "images"


@contextmanager
def http(folder: Path) -> Iterator[str]:
    """Python's own server over a folder; gives its address."""
    with _serving("http.server", "--bind", "127.0.0.1", "--directory", str(folder)) as address:
        yield address


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A server in a thread of this process whose every answer to GET is what a function makes of the request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(ConnectionError):
                answer(self)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def s3() -> Iterator[str]:
    """Moto's server, an S3 with one empty bucket; gives its address, which AWS_ENDPOINT_URL must hold."""
    with _serving("moto.server", "-H", "127.0.0.1", "-p") as address:
        request = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request).read()
        yield address


@contextmanager
def _serving(module: str, *words: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", module, *words, str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
    try:
        _wait(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait(port: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 1800
    while True:
        assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
