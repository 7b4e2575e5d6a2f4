"""Trust between hosts, as lbd.toml may say it."""

from dataclasses import dataclass

from lbd.config_field import Section, within


@dataclass(frozen=True, slots=True)
class TlsConfig(Section):
    dir: str = ""  # this host's key and certificate; "" = tls in host.state_dir
    # the cluster's authority, on the host where `lbctl init` ran; "" = authority in host.state_dir
    authority_dir: str = ""
    # how long the certificates last that this host's authority signs; they are renewed when a third
    # of that is left, so a host may be away from the authority for a third of it
    certificate_s: float = within(2_592_000.0, 1.0, 315_360_000.0)
    # a host asks for news of revoked hosts this often: the longest that one is believed after
    # `lbctl revoke` by a host that it could not tell at once
    revocation_check_s: float = within(30.0, 0.1, 86_400.0)
