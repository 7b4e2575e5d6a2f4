import os
import ssl
import time

from lbd.trust.certificates import new_authority
from lbd.web.server import renewed


def shown_by(context):
    """Returns the certificate that a client is shown now."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    any_client = ssl.create_default_context()
    any_client.check_hostname, any_client.verify_mode = False, ssl.CERT_NONE
    client = any_client.wrap_bio(to_client, to_server)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return ssl.DER_cert_to_PEM_cert(client.getpeercert(binary_form=True)).strip().encode()


def test_a_renewed_certificate_is_presented_without_a_restart(tmp_path, caplog):
    first, second = (new_authority(name, time.time()) for name in ("one", "two"))
    path = tmp_path / "host.pem"
    path.write_bytes(first.key + first.chain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    known = os.stat(path)
    assert renewed(context, str(path), known) is known
    assert shown_by(context) == first.chain.strip()
    (tmp_path / "new").write_bytes(second.key + second.chain)
    os.replace(tmp_path / "new", path)
    known = renewed(context, str(path), known)
    assert shown_by(context) == second.chain.strip()
    path.write_text("no certificate")
    assert renewed(context, str(path), known) is known
    path.unlink()
    assert renewed(context, str(path), known) is known
    assert shown_by(context) == second.chain.strip()
    assert len([text for text in caplog.messages if "still using" in text]) == 2
