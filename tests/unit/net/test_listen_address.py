import pytest

from lbd.errors import ConfigError
from lbd.net.transport import check_listen_address, packed_address


@pytest.mark.parametrize("address", ["127.0.0.1", "127.3.2.1", "::1", "0:0::1"])
def test_without_tls_daemons_listen_on_loopback(address):
    check_listen_address(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "0.0.0.0", "::", "fe80::1%eth0", "::7f00:1"])  # noqa: S104
def test_without_tls_daemons_listen_nowhere_else(address):
    with pytest.raises(ConfigError, match="loopback only"):
        check_listen_address(address)


@pytest.mark.parametrize(
    "address", ["", "h1", "127.1", "127.0.0.01", "10.0.0.1%eth0", "fe80::1%", "::1\0", ":::"]
)
def test_what_is_no_address(address):
    with pytest.raises(ConfigError, match="is not an IP address"):
        packed_address(address)
