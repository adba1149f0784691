"""The example that serves a model with LitServe, asked by a client, and the image that holds it."""

import base64
import io
import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning import Predictor
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report
from vit_lightning.weights.save import save

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
SECONDS = 1800


def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8))


def encoded(image: Image.Image) -> str:
    memory = io.BytesIO()
    image.save(memory, "png")
    return base64.b64encode(memory.getvalue()).decode()


def ask(address: str, content: object) -> tuple[int, object]:
    return posted(address, json.dumps(content).encode(), "application/json")


def posted(address: str, body: bytes, kind: str) -> tuple[int, object]:
    request = urllib.request.Request(f"{address}/predict", body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    net = build(NetConfig("mu/8"), 16, 3)
    torch.nn.init.normal_(net.head.weight)
    save(net, Report("", "", class_names=["cat", "dog", "owl"]), tmp_path / "net.ckpt", "checkpoint")
    return tmp_path / "net.ckpt"


class Served(NamedTuple):
    """The example, serving the weights."""

    address: str
    process: subprocess.Popen
    log: Path


@pytest.fixture
def served(weights: Path, tmp_path: Path) -> Iterator[Served]:
    pytest.importorskip("litserve")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(ROOT / "docker/serve.py"), str(weights)]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            command,
            env=os.environ | {"PORT": str(port), "CUDA_VISIBLE_DEVICES": ""},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            wait_until_healthy(f"http://127.0.0.1:{port}/health", process, tmp_path / "log")
            yield Served(f"http://127.0.0.1:{port}", process, tmp_path / "log")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_healthy(address: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(address, timeout=SECONDS):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(log.read_text())


def in_session(leader: int) -> list[str]:
    """Processes of a session that are no zombies."""
    listed = subprocess.run(["ps", "-o", "pid=,stat=,args=", "-s", str(leader)], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if not line.split()[1].startswith("Z")]


def test_a_served_model_answers_as_predictor_does_and_all_of_it_ends_with_its_program(served, weights):
    status, answer = ask(served.address, {"image": encoded(picture())})
    assert status == 200
    assert answer == pytest.approx(Predictor(weights, device="cpu")(picture()), abs=1e-5)
    form = 'expected JSON of the form {"image": "<base64 of an image file>"}'
    for wrong in ({"img": "xx"}, {"image": 3}, {"image": None}, ["image"], "image", None):
        assert ask(served.address, wrong) == (422, {"detail": form}), wrong
    assert ask(served.address, {"image": "%"}) == (422, {"detail": f"the image is no base64: {form}"})
    status, said = ask(served.address, {"image": "bm8gaW1hZ2U="})
    assert status == 422 and "not an image of a known format" in said["detail"]
    upload = b'--x\r\nContent-Disposition: form-data; name="request"; filename="x.jpg"\r\n\r\n\xff\xd8\r\n--x--\r\n'
    for kind, body in {
        "multipart/form-data; boundary=x": upload,
        "application/json": b"{",
        "image/jpeg": b"\xff",
    }.items():
        assert posted(served.address, body, kind) == (422, {"detail": form}), kind
    assert ask(served.address, {"image": encoded(picture())})[0] == 200
    log = served.log.read_text()
    assert (
        log.index(f"loading {weights}: port") < log.index("Uvicorn running") < log.index(f"{weights} is loaded: POST")
    )

    assert len(in_session(served.process.pid)) > 2
    served.process.terminate()
    assert served.process.wait(SECONDS) == 128 + 15
    wait_until(lambda: not in_session(served.process.pid))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread looks each second")
def test_forks_end_with_a_program_that_is_killed():
    program = """
import multiprocessing, time
from vit_lightning.processes import take_forks_along
take_forks_along()
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
child.start()
print(child.pid, flush=True)
child.join()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as process:
        child = int(process.stdout.readline())
        assert any(line.split()[0] == str(child) for line in in_session(process.pid))
        process.kill()
    wait_until(lambda: not in_session(process.pid))


def test_the_example_is_short():
    assert len((ROOT / "docker/serve.py").read_text().splitlines()) <= 64


def test_the_image_installs_the_torch_that_is_supported_before_the_sources():
    """Its own layer, so that a change of the sources does not fetch it again."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = [each for each in wanted if re.match(r"torch(vision)?[>=<]", each)]
    assert len(bounds) == 2 and not any(bound in DOCKERFILE for bound in bounds)
    joined = DOCKERFILE.replace("\\\n", "")
    program = re.search(r'RUN python -c "(.*)" > torch\.txt', joined)[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == bounds
    assert DOCKERFILE.index("COPY pyproject.toml") < DOCKERFILE.index("torch.txt") < DOCKERFILE.index("COPY vit_light")


def test_all_that_the_image_copies_is_sent_to_its_build():
    allowed = (ROOT / "docker/Dockerfile.dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, flags=re.M):
        for path in line.split():
            assert (ROOT / path).exists() and f"!{path}" in allowed, path


def test_every_stage_runs_as_a_user_without_rights():
    stages = {stage.split()[2]: stage for stage in re.split(r"^FROM ", DOCKERFILE, flags=re.M)[1:]}
    assert list(stages) == ["installed", "serve", "cli"]
    assert "USER vit" in stages["serve"] and "USER vit" in stages["cli"]
    assert "/health" in stages["serve"].partition("HEALTHCHECK")[2]


@pytest.mark.parametrize(("given", "port"), [({}, 8000), ({"PORT": "9001"}, 9001)])
def test_the_health_check_asks_the_port_that_serves(monkeypatch, given, port):
    joined = DOCKERFILE.replace("\\\n", "")
    *_, program = json.loads(re.search(r"^HEALTHCHECK.*?CMD (\[.*\])$", joined, flags=re.M)[1])
    monkeypatch.delenv("PORT", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    asked: list[str] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: asked.append(url))
    exec(program, {})
    assert asked == [f"http://127.0.0.1:{port}/health"]


def test_every_stage_declares_the_arguments_that_it_uses():
    """A stage does not have those of another everywhere."""
    for stage in re.split(r"^FROM ", DOCKERFILE, flags=re.M)[1:]:
        for name in re.findall(r"\$\{(\w+)\}", stage.partition("\n")[2]):
            assert re.search(rf"^ARG {name}\b", stage, flags=re.M), f"{name} in {stage.splitlines()[0]}"
