"""Entries of the owner's rules that match nothing."""

import grp
import os
import pwd

from lbd.config.access import AdmissionConfig
from lbd.doctor.checks import WARN
from lbd.doctor.idle_rules import idle_entries, rules_checks

USER, GROUP = pwd.getpwuid(0).pw_name, grp.getgrgid(0).gr_name


def test_users_and_groups_that_this_host_does_not_have():
    assert not [*idle_entries("users", (USER, "no*", "nob?"))]
    assert not [*idle_entries("groups", (GROUP, "[n]osuch"))]
    [(says, fix)] = idle_entries("groups", (GROUP, "nosuch"))
    assert says == "this host has no group nosuch: this entry admits nobody"
    assert fix == "correct the name, or create it"
    [(says, _)] = idle_entries("deny_users", ("nosuch",))
    assert says == "this host has no user nosuch: this entry shuts out nobody"


def test_programs_that_are_links_or_do_not_exist(tmp_path):
    real = os.path.realpath(tmp_path)
    program, link, absent = (os.path.join(real, name) for name in ("gcc-12", "gcc", "nosuch"))
    with open(program, "w"):
        os.symlink(program, link)
    assert not [*idle_entries("programs", (program, "gcc", f"{real}/g*", "nosuch"))]
    [(says, fix), (gone, _)] = idle_entries("programs", (link, absent))
    assert says == f"{link} is {program}: this entry admits no program"
    assert fix == f"name {program} instead"
    assert gone == f"{absent} does not exist: this entry admits no program"
    [(says, _)] = idle_entries("deny_programs", (link,))
    assert says.endswith("this entry shuts out no program")


def test_the_doctor_warns_of_each():
    rules = AdmissionConfig(groups=("nosuch", GROUP), deny_programs=("/nosuch",))
    found = [(check.name, check.state) for check in rules_checks(rules)]
    assert found == [("admission.groups", WARN), ("admission.deny_programs", WARN)]


def test_hours_for_everybody_have_no_effect_where_everybody_may_run_anyway():
    hours = ("18:00-08:00",)
    (found,) = rules_checks(AdmissionConfig(everybody_when=hours))
    assert (found.name, found.state) == ("admission.everybody_when", WARN)
    assert not [*rules_checks(AdmissionConfig(everybody_when=hours, users=(USER,)))]


def test_a_time_too_short_to_notice_that_the_owner_types():
    (found,) = rules_checks(AdmissionConfig(owner_idle_s=5.0))
    assert (found.name, found.state) == ("admission.owner_idle_s", WARN)
    assert found.says.startswith("5 s is too short: Linux notes the use of a terminal only every")
    for enough_s in (0.0, 20.0):  # 0: terminals do not count
        assert not [*rules_checks(AdmissionConfig(owner_idle_s=enough_s))]
