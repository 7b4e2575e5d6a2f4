"""`lbctl web login`."""

import socket
import threading

from lbd.cli.ctl import web
from lbd.cli.lbctl import main


def test_a_login_starts_the_page_of_the_package(daemon, monkeypatch, capsys):
    """systemd listens on its behalf until somebody connects."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]} (Stream)"
        monkeypatch.setattr(web, "WHERE", ("echo", address))

        def starts():
            listening.accept()[0].close()
            daemon("web", login={"url": "http://127.0.0.1:9480/in?1", "valid_s": 60.0})

        starting = threading.Thread(target=starts)
        starting.start()
        assert main(["web", "login"]) == 0
        starting.join()
    assert capsys.readouterr().out == "http://127.0.0.1:9480/in?1\n"


def test_if_nothing_listens_no_page_runs(daemon, monkeypatch, capsys):
    for said in ("", "127.0.0.1:1 (Stream)", "/run/x.sock (Stream)"):
        monkeypatch.setattr(web, "WHERE", ("echo", said))
        assert main(["web", "login"]) == 1
        assert "no status page is running here; start one with `lbd web`" in capsys.readouterr().err
