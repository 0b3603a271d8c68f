"""The TLS side of a connection: whom we believe, and the certificate that we show."""

from __future__ import annotations

import os
import ssl
import tempfile

from muster.kubernetes.credentials import Proof
from muster.kubernetes.errors import NoCredentials


def context(ca: str | None, proof: Proof, *, is_verified: bool) -> ssl.SSLContext:
    """How to speak TLS: believing `ca` (or whom the system believes), and showing the certificate of `proof`."""
    try:
        made = ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError) as err:
        raise NoCredentials(f"the certificate authority is no PEM certificate: {err}") from err
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if not is_verified:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if proof.certificate:
        _show(made, proof)
    return made


def _show(made: ssl.SSLContext, proof: Proof) -> None:
    # Python reads certificates from files only; this one is gone again before anybody could look.
    with tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False) as file:
        file.write(f"{proof.certificate}\n{proof.key}\n")
    try:
        made.load_cert_chain(file.name)
    except (ssl.SSLError, ValueError) as err:
        raise NoCredentials(f"the client certificate or its key is wrong: {err}") from err
    finally:
        os.unlink(file.name)
