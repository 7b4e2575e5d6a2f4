import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lbd.lbm.keeper_start import STARTER
from lbd.process.late_imports import OF_DAEMONS, put_off

ROOT = Path(__file__).resolve().parents[3]
SOURCE = "import late_test_log\nlate_test_log.lines.append(__name__)\nANSWER = 42\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes a package with one module, `late_test.inner`, which lists its execution."""
    (tmp_path / "late_test_log.py").write_text("lines = []\n")
    (tmp_path / "late_test").mkdir()
    (tmp_path / "late_test/__init__.py").write_text(SOURCE)
    (tmp_path / "late_test/inner.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    before, finders = set(sys.modules), list(sys.meta_path)
    import late_test_log

    yield late_test_log.lines
    for name in set(sys.modules) - before:
        del sys.modules[name]
    sys.meta_path[:] = finders


def test_a_module_is_executed_when_something_of_it_is_used(package):
    put_off(["late_test.inner"])
    assert package == []
    import late_test.inner
    from late_test import inner

    assert package == ["late_test"]  # as usual, the package around it
    assert inner.ANSWER == 42
    assert inner is late_test.inner is sys.modules["late_test.inner"]
    assert package == ["late_test", "late_test.inner"]
    with pytest.raises(AttributeError, match="no attribute 'QUESTION'"):
        _ = inner.QUESTION


def test_a_failed_execution_is_tried_again(package, tmp_path):
    (tmp_path / "late_test/inner.py").write_text(
        "import late_test_log\nlate_test_log.lines.append(__name__)\n"
        "if len(late_test_log.lines) == 2:\n    raise OSError(24, 'no descriptor')\nANSWER = 42\n"
    )
    put_off(["late_test.inner"])
    from late_test import inner

    with pytest.raises(OSError, match="no descriptor"):
        _ = inner.ANSWER
    assert inner.ANSWER == 42


def test_a_missing_module_is_reported_at_its_import(package):
    put_off(["late_test.missing"])
    with pytest.raises(ModuleNotFoundError):
        import late_test.missing  # noqa: F401


def test_a_thread_waits_until_another_has_executed_all_of_it(package, tmp_path):
    (tmp_path / "late_test/inner.py").write_text(
        "import late_test_log\nlate_test_log.begun.set()\nlate_test_log.go_on.wait()\nANSWER = 42\n"
    )
    log = sys.modules["late_test_log"]
    log.begun, log.go_on = threading.Event(), threading.Event()
    put_off(["late_test.inner"])
    from late_test import inner

    found = []
    threads = [threading.Thread(target=lambda: found.append(inner.ANSWER)) for _ in range(2)]
    threads[0].start()
    log.begun.wait()
    threads[1].start()
    log.go_on.set()
    for thread in threads:
        thread.join()
    assert found == [42, 42]


def loaded(program, *options):
    command = [sys.executable, *options, "-c", program, str(ROOT)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    return set(found.stdout.split())


def test_a_keeper_does_without_what_it_defers():
    """`inspect` imports `ast`: 0.7 MiB, for the docstring of one dataclass that has none."""
    program = STARTER.replace("main(sys.argv[1:])", "print(*sys.modules)")
    assert not loaded(program, "-I", "-S") & {"ast", "dis", "asyncio"}


def test_daemons_do_without_what_they_defer():
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from lbd.process.late_imports import put_off;"
        f"put_off({OF_DAEMONS}); import lbd.cli.daemons.lim, lbd.cli.daemons.lbm;"
        f"print(*[name for name in {OF_DAEMONS} if '__builtins__' in vars(sys.modules[name])])"
    )
    assert not loaded(program, "-P")  # an executed module has builtins
