"""What `lbctl status` says of the queue."""

import json

from lbd.cli import lbctl
from tests.unit.cli.canned import STATUS


def test_a_host_without_room_for_outputs_is_named_on_every_host(daemon, tmp_path, capsys):
    with (tmp_path / "lbd.toml").open("a") as config:
        config.write('[dispatch]\nhost = "h1"\n')
    queue = {"mode": "fcfs", "leader": "h1", "queued": 0, "running": 0}
    no_room = {"h2": "no room for its output: the disk of /s is full"}
    daemon("lim", status=STATUS)
    daemon("lbm", **{"queue.status": {"ok": True, **queue, "no_room": no_room}})
    assert lbctl.main(["status"]) == 0
    said = f"\nqueue: no job without -o begins on h2: {no_room['h2']}\n"
    assert said in capsys.readouterr().out
    assert lbctl.main(["status", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["cluster"]["dispatcher"]
    assert shown == {**queue, "no_room": no_room}
