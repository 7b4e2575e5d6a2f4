"""Detected features and GPUs."""

import os

from lbd.load import equipment


def made(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_cpu_is_named_by_the_architecture_programs_are_compiled_for(tmp_path):
    root = made(tmp_path, proc__cpuinfo="flags\t\t: fpu avx2 avx512f rdtscp\nflags: avx\n")
    found = equipment.features(root)
    system = os.uname()
    assert set(found) == {"avx2", "avx512f", system.machine, system.sysname.lower()}
    assert list(found) == sorted(found)
    assert "avx2" not in equipment.features(tmp_path / "nothing")


def test_gpus_of_nvidia(tmp_path):
    assert equipment.gpus(tmp_path) == 0
    root = made(tmp_path, dev__nvidia0="", dev__nvidia1="", dev__nvidiactl="")
    assert equipment.gpus(root) == 2


def test_gpus_of_nvidia_whose_devices_do_not_exist_yet(tmp_path):
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    assert equipment.gpus(tmp_path) == 1


def test_gpus_of_amd_are_the_compute_nodes(tmp_path):
    nodes = tmp_path / equipment.AMD_NODES
    for number, simd in enumerate((0, 240, 60)):
        (nodes / str(number)).mkdir(parents=True)
        (nodes / str(number) / "properties").write_text(f"cpu_cores_count 1\nsimd_count {simd}\n")
    assert equipment.gpus(tmp_path) == 0  # no driver
    assert equipment.gpus(made(tmp_path, dev__kfd="")) == 2
