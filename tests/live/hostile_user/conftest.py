"""What a hostile user is up against: two hosts of an administrator's, and another user on them."""

from tests.live.privileged import two

__all__ = ("two",)  # the fixture
