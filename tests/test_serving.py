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
from collections.abc import Iterator
from pathlib import Path

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
    body = json.dumps(content).encode()
    request = urllib.request.Request(f"{address}/predict", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    net = build(NetConfig("mu/8"), 16, 3)
    torch.nn.init.normal_(net.head.weight)
    save(net, Report("", "", class_names=["cat", "dog", "owl"]), tmp_path / "net.ckpt", "checkpoint")
    return tmp_path / "net.ckpt"


@pytest.fixture
def served(weights: Path, tmp_path: Path) -> Iterator[str]:
    """The address of the example, serving the weights."""
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
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 9)
            process.wait()


def wait_until_healthy(address: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(address, timeout=SECONDS):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(log.read_text())


def test_a_served_model_answers_as_predictor_does(served, weights):
    status, answer = ask(served, {"image": encoded(picture())})
    assert status == 200
    assert answer == pytest.approx(Predictor(weights, device="cpu")(picture()), abs=1e-5)
    for wrong in ({"image": "bm8gaW1hZ2U="}, {"image": "%"}, {"photo": ""}):
        status, said = ask(served, wrong)
        assert status == 422, said
    assert ask(served, {"image": encoded(picture())})[0] == 200


def test_the_example_is_short():
    assert len((ROOT / "docker/serve.py").read_text().splitlines()) <= 30


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
