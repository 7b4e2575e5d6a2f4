"""Every algorithm by its name in `lim.algorithm`."""

from lbd.policy.central import Central
from lbd.policy.global_ import Global
from lbd.policy.lowest import Lowest
from lbd.policy.nolb import NoLb
from lbd.policy.view import Policy

POLICIES: dict[str, Policy] = {
    "GLOBAL": Global(),
    "CENTRAL": Central(),
    "LOWEST": Lowest(),
    "NOLB": NoLb(),
}
