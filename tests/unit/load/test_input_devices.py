"""Keyboards and pointers: which devices they are, and their last use, without reading the input."""

import os

import pytest

from lbd.load.input_devices import (
    DEVICES_MAX,
    InputDevices,
    of_this_machine,
    unreadable,
    used_by_people,
)

LISTING = """\
I: Bus=0011 Vendor=0001 Product=0001 Version=ab41
N: Name="AT Translated Set 2 keyboard"
H: Handlers=sysrq kbd event0 leds
B: EV=120013

I: Bus=0003 Vendor=046d Product=c077 Version=0111
N: Name="Logitech USB Optical Mouse"
H: Handlers=mouse0 event3

N: Name="HDA Intel PCH Headphone"
H: Handlers=event7
"""


def test_keyboards_and_mice_are_found_among_other_devices():
    assert used_by_people(LISTING.encode()) == ["event0", "event3"]
    assert used_by_people(b"") == []
    many = "".join(f"H: Handlers=kbd event{number}\n" for number in range(1000))
    assert len(used_by_people(many.encode())) == DEVICES_MAX


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "listing").write_text(LISTING)
    os.mkfifo(tmp_path / "event0")
    devices = InputDevices(tmp_path / "listing", tmp_path, tmp_path / "none")
    yield devices, tmp_path
    devices.close()


def test_a_key_is_noticed_and_not_read(desk):
    devices, directory = desk
    assert devices.look(100.0) == 0.0
    keyboard = os.open(directory / "event0", os.O_RDWR | os.O_NONBLOCK)
    os.write(keyboard, b"secret")
    assert devices.look(101.0) == 101.0
    assert os.read(keyboard, 100) == b"secret"
    assert devices.look(102.0) == 101.0
    os.close(keyboard)


def test_a_device_plugged_in_later_is_found_and_a_removed_one_forgotten(desk):
    devices, directory = desk
    devices.look(100.0)
    os.mkfifo(directory / "event3")
    mouse = os.open(directory / "event3", os.O_RDWR | os.O_NONBLOCK)
    os.write(mouse, b"x")
    assert devices.look(130.0) == 0.0
    devices.look(161.0)
    assert devices.look(162.0) in (161.0, 162.0)
    (directory / "listing").write_text("")
    devices.look(230.0)
    assert devices.look(231.0) in (161.0, 162.0)
    os.close(mouse)


def test_a_machine_without_any_devices_causes_no_error(tmp_path):
    assert InputDevices(tmp_path / "listing", tmp_path, tmp_path).look(1.0) == 0.0


def test_devices_that_cannot_be_opened_are_named(desk):
    _, directory = desk
    assert unreadable(["event0", "event3"], directory) == ["event3"]


def test_if_the_listing_is_empty_the_devices_are_known_all_the_same(desk):
    _, directory = desk
    none, shown = directory / "none", directory / "input"
    assert of_this_machine(directory / "listing", none) == ["event0", "event3"]
    for name in ("event7", "input0", "mice"):
        (shown / name).mkdir(parents=True)
    assert of_this_machine(none, shown) == ["event7"]
    assert of_this_machine(none, none) == []
