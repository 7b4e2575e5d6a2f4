"""How far another host's word counts here for whoever asks there. Pure.

A host vouches for its users, unless its commands are not taken here ([admission] origins): then it
speaks for nobody. It speaks for administrators, who may look at everybody's, only where admin.hosts
here names it. What runs on that host, or was submitted by it, it knows anyway.
"""

from lbd.config.access import AdmissionConfig
from lbd.config.schema import Config
from lbd.lbm.core.admission import origin_fault


def fault_of_speaker(config: Config, admission: AdmissionConfig, host: str) -> str:
    """The setting by which `host` speaks for none of its users here, "" if none does."""
    if host == config.host.name or config.admin.are_on(host):
        return ""
    rule = origin_fault(admission, host)
    return f"admission.{rule}" if rule else ""


def why_withheld(
    config: Config, admission: AdmissionConfig, host: str, user: str, uid: int | None
) -> str:
    """The setting by which `host` is not shown the jobs of that user, or everybody's if that is "";
    "" if it is."""
    if host == config.host.name or config.admin.are_on(host):
        return ""
    if not user or (config.users.map == "uid" and uid is None):
        return "admin.hosts"
    return fault_of_speaker(config, admission, host)
