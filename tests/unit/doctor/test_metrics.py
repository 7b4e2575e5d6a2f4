"""What `lbctl doctor` says of the metrics listener."""

import asyncio

import pytest

from lbd.config.schema import Config, HostConfig, MetricsConfig
from lbd.console.daemons import Daemons
from lbd.doctor.checks import FAULT, OK
from lbd.doctor.findings import check_metrics
from lbd.local.json_socket import serve_json
from lbd.metrics.daemon import Metrics
from lbd.metrics.server import MetricsServer
from tests.unit.until import until


@pytest.fixture
def config(tmp_path):
    return Config(
        host=HostConfig(
            name="h1", address="127.0.0.1", runtime_dir=str(tmp_path), state_dir=str(tmp_path)
        ),
    )


def found(config):
    return [*check_metrics(Daemons(config))]


def shown_on(config, port):
    listen = MetricsConfig(listen=f"127.0.0.1:{port}")
    return Config(host=config.host, metrics=listen)


def test_nothing_is_said_where_nothing_is_exported(config):
    assert found(config) == []


def test_a_listener_that_does_not_run(config):
    (check,) = found(shown_on(config, 9470))
    assert (check.state, "127.0.0.1:9470" in check.says) == (FAULT, True)
    assert check.fix == "start it: lbd up, or systemctl enable --now lbd-metrics"


async def test_a_port_that_is_taken_is_reported_and_retried(config, tmp_path, monkeypatch):
    monkeypatch.setattr("lbd.metrics.daemon.BIND_AGAIN_S", 0.01)
    other, stop = MetricsServer(None, None), asyncio.Event()
    config = shown_on(config, other.listen("127.0.0.1", 0))
    metrics = Metrics(config, None, lambda: ())
    sock = await serve_json(tmp_path / "metrics.sock", metrics.answer, 0o600)
    running = asyncio.create_task(metrics.run(stop))
    await until(lambda: metrics.trouble)
    (check,) = await asyncio.to_thread(found, config)
    assert check.state == FAULT
    assert "Address already in use" in check.says
    assert "metrics.listen" in check.fix
    await other.close()
    await until(lambda: not metrics.trouble)
    (check,) = await asyncio.to_thread(found, config)
    assert (check.state, check.says) == (OK, f"served on {config.metrics.listen}, no TLS")
    stop.set()
    await running
    sock.close()
