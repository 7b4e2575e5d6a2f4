"""Every algorithm, by its name in `lim.algorithm`."""

from lbd.policy.central import Central
from lbd.policy.disted import Disted
from lbd.policy.global_ import Global
from lbd.policy.lowest import Lowest
from lbd.policy.nolb import NoLb
from lbd.policy.p2c import TwoChoices
from lbd.policy.predict import Predict
from lbd.policy.random_ import AnyHost
from lbd.policy.reserve import Reserve
from lbd.policy.thrhld import Threshold
from lbd.policy.view import Policy

POLICIES: dict[str, Policy] = {
    "GLOBAL": Global(),
    "DISTED": Disted(),
    "CENTRAL": Central(),
    "RANDOM": AnyHost(),
    "THRHLD": Threshold(),
    "LOWEST": Lowest(),
    "RESERVE": Reserve(),
    "NOLB": NoLb(),
    "P2C": TwoChoices(),
    "PREDICT": Predict(),
}
WEIGH_AGE = ("P2C", "PREDICT")  # they weigh a load by its age, not only by whether it is late
