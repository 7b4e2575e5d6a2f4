import pytest

from lbd.keeper.program_rules import rule_against


@pytest.mark.parametrize(
    ("allowed", "denied", "rule"),
    [
        ([], [], ""),
        (["/usr/bin/gcc*"], [], ""),
        (["/bin/gcc"], [], "programs"),
        (["gcc-12"], [], ""),
        (["gcc"], [], "programs"),
        ([], ["gcc*"], "deny_programs"),
        ([], ["make"], ""),
        ([], ["/usr/bin/*"], "deny_programs"),
        (["/usr/bin/gcc-12"], ["*/gcc*"], "deny_programs"),
    ],
)
def test_programs(allowed, denied, rule):
    assert rule_against(b"/usr/bin/gcc-12", allowed, denied) == rule
