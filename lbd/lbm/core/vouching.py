"""How far another host's word counts here for the users who ask there. Pure.

A host vouches for its users, unless its commands are not accepted here ([admission] origins): then
it speaks for nobody. It speaks for administrators, who may look at everybody's jobs, only if
admin.hosts on this host names it. It always knows what runs on it and what it submitted.
"""

from lbd.config.access import AdmissionConfig
from lbd.config.schema import Config
from lbd.lbm.core.admission import origin_fault


def fault_of_speaker(config: Config, admission: AdmissionConfig, host: str) -> str:
    """The setting because of which `host` speaks for none of its users here; "" if there is
    none.
    """
    if host == config.host.name or config.admin.are_on(host):
        return ""
    rule = origin_fault(admission, host)
    return f"admission.{rule}" if rule else ""


def why_withheld(
    config: Config, admission: AdmissionConfig, host: str, user: str, uid: int | None
) -> str:
    """The setting because of which `host` is not shown the jobs of that user (of everybody, if that
    is ""); "" if it is shown them."""
    if host == config.host.name or config.admin.are_on(host):
        return ""
    if not user or (config.users.map == "uid" and uid is None):
        return "admin.hosts"
    return fault_of_speaker(config, admission, host)
