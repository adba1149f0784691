"""Servers that send too much, too slowly, or an error now and then."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from datamodules.reading import downloads, remote_files
from datamodules.reading.downloads import Arrival, TooLarge, TooSlow, _limits, download, file_system
from datamodules.reading.remote_files import RemoteFile, RemoteFiles, content
from tests import servers
from vit_lightning.errors import InputError


def send(request: BaseHTTPRequestHandler, data: bytes, size: int | None = None) -> None:
    request.send_response(200)
    if size is not None:
        request.send_header("Content-Length", str(size))
    request.end_headers()
    request.wfile.write(data)


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """What ends a server's answer after the test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """Pauses that are asked for, and not made."""
    asked: list[float] = []
    monkeypatch.setattr(remote_files.time, "sleep", asked.append)
    return asked


@pytest.mark.parametrize("stated", [None, 2**40])
def test_a_reply_ends_at_its_size(tmp_path, pauses, stated):
    sent = []

    def endless(request: BaseHTTPRequestHandler) -> None:
        send(request, b"", stated)
        while len(sent) < 4000:  # 262 MB, lest one who reads it all fill the disk
            request.wfile.write(bytes(2**16))
            sent.append(2**16)

    with (
        servers.answering(endless) as address,
        pytest.raises(
            InputError,
            match=r"x.bin cannot be fetched: it has (more|1,099,511,627,776) bytes where 250,000 are",
        ),
    ):
        RemoteFiles([RemoteFile(f"{address}/x.bin", 250_000, "0" * 64)], tmp_path / "cache").path(0)
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} <= {".lock"}
    assert not pauses  # another attempt would be the same
    assert sum(sent) < 100e6


def test_an_index_ends_too(monkeypatch, pauses):
    monkeypatch.setattr(remote_files, "LARGEST_INDEX", 1000)
    with (
        servers.answering(lambda request: send(request, bytes(5000), 5000)) as address,
        pytest.raises(InputError, match=r"index.json cannot be fetched: it has 5,000 bytes where 1,000"),
    ):
        content(f"{address}/index.json")


def test_a_page_that_says_not_found_may_be_longer_than_the_file(tmp_path):
    with (
        servers.answering(lambda request: request.send_error(404, "x" * 500)) as address,
        pytest.raises(FileNotFoundError),
    ):
        download(f"{address}/x.bin", tmp_path / "x", 10)


def test_a_server_that_hardly_sends_is_given_up(tmp_path, monkeypatch, stop):
    monkeypatch.setattr(remote_files, "RETRY_PAUSES", (0.0,))
    monkeypatch.setattr(downloads, "PATIENCE", 0.05)

    def trickle(request: BaseHTTPRequestHandler) -> None:
        send(request, b"", 1000)
        while not stop.wait(0.01):
            request.wfile.write(b"x")

    with (
        servers.answering(trickle) as address,
        pytest.raises(InputError, match=r"cannot be fetched: \d+ bytes per second come, fewer than 10,000"),
    ):
        RemoteFiles([RemoteFile(f"{address}/x.bin", 1000)], tmp_path).path(0)


def test_a_server_that_falls_silent_is_given_up(tmp_path, monkeypatch, stop):
    monkeypatch.setattr(remote_files, "RETRY_PAUSES", ())
    monkeypatch.setattr(downloads, "SILENCE", 0.1)

    def silent(request: BaseHTTPRequestHandler) -> None:
        send(request, b"x", 1000)
        stop.wait()

    with (
        servers.answering(silent) as address,
        pytest.raises(InputError, match=r"x.bin cannot be fetched: it comes too slowly"),
    ):
        RemoteFiles([RemoteFile(f"{address}/x.bin", 1000)], tmp_path).path(0)


def test_rates_by_the_clock():
    times = iter([0, 10, 20, 31, 40, 61, 70, 92])
    arrival = Arrival(None, lambda: float(next(times)))
    for _ in range(6):  # at 31 s and at 61 s, some 10,000 bytes per second
        arrival.relative_update(155_000)
    with pytest.raises(TooSlow, match=r"5,000 bytes per second come, fewer than 10,000"):  # of 31 s
        arrival.relative_update(5)


def test_a_file_that_is_whole_was_not_too_slow():
    times = iter([0, 100, 200])
    arrival = Arrival(50, lambda: float(next(times)))
    arrival.absolute_update(50)
    with pytest.raises(TooLarge, match="it has more bytes where 50 are expected"):
        arrival.relative_update(1)


def test_errors_now_and_then_cost_little(tmp_path, pauses):
    states = iter([500, 503, 500, 200])

    def flaky(request: BaseHTTPRequestHandler) -> None:
        state = next(states)
        send(request, b"data", 4) if state == 200 else request.send_error(state)

    with servers.answering(flaky) as address:
        assert RemoteFiles([RemoteFile(f"{address}/x.bin", 4)], tmp_path).read(0, 0, 4) == b"data"
    assert sum(pauses) < 3 and pauses[0] <= 0.1


def test_an_index_is_asked_for_again(pauses):
    states = iter([500, 200])

    def flaky(request: BaseHTTPRequestHandler) -> None:
        send(request, b"{}", 2) if next(states) == 200 else request.send_error(500)

    with servers.answering(flaky) as address:
        assert content(f"{address}/index.json") == b"{}"


def test_a_damaged_packed_file_leaves_nothing(tmp_path, pauses):
    whole = gzip.compress(bytes(10_000))
    with (
        servers.answering(lambda request: send(request, whole[:-9], len(whole) - 9)) as address,
        pytest.raises(InputError, match=r"x.tar.gz cannot be fetched: "),
    ):
        RemoteFiles([RemoteFile(f"{address}/x.tar.gz")], tmp_path).path(0)
    assert [path.suffix for path in tmp_path.iterdir()] in ([".lock"], [])


@pytest.mark.parametrize(
    ("url", "extra"), [("s3://a/b", "s3"), ("gs://a/b", "gcs"), ("gcs://a/b", "gcs"), ("hf://a/b", None)]
)
def test_a_missing_package_is_named_with_what_installs_it(monkeypatch, url, extra):
    def lacks(*words, **facts):
        raise ImportError("no module x")

    monkeypatch.setattr("fsspec.core.url_to_fs", lacks)
    remedy = rf"pip install 'vit-lightning\[{extra}\]'" if extra else "no module x"
    with pytest.raises(InputError, match=f"{url} needs a package that is missing: {remedy}$"):
        file_system(url)


def test_pages_alone_are_given_limits_of_time():
    for url in ("http://a/b", "https://a/b"):
        limits = _limits(url)["client_kwargs"]["timeout"]
        assert (limits.total, limits.connect, limits.sock_read) == (None, downloads.SILENCE, downloads.SILENCE)
    assert _limits("s3://a/b") == _limits("file:///http://") == {}


def test_bytes_are_counted_one_by_one_and_up_to_what_is_expected():
    count = Arrival(3)
    count.relative_update()
    count.absolute_update(3)
    assert count.value == 3
    with pytest.raises(TooLarge, match="it has more bytes where 3 are expected"):
        count.relative_update()
    count = Arrival(3)
    count.set_size(1000)
    with pytest.raises(TooLarge, match="it has 1,000 bytes where 3 are expected"):
        count.absolute_update(4)
    Arrival(None).absolute_update(10**9)
