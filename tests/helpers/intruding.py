"""What somebody dials with who means no good: certificates of its own making, any TLS, any bytes."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from p2p_labeldp.deployment.certificates import CA, CERT, KEY, key_pem, load_authority, make_folder, new_key, pem
from p2p_labeldp.deployment.signing import make_request, sign_request, store_certificate
from p2p_labeldp.network.frames import AnyFrame, Bye, Frame, FrameReader, Ping, decode, pack

PATIENCE = 60.0  # seconds; a busy machine changes no outcome


def context_of(identity: Path | None = None, **settings: Any) -> ssl.SSLContext:
    """What someone with these files dials with, whether or not a node would."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(identity / "cert.pem", identity / "key.pem")
    for name, value in settings.items():
        setattr(context, name, value)
    return context


def forge(folder: Path, certificates: Path, issuer: str, *uris: str) -> Path:
    """A folder with a certificate for these URIs, as whoever holds an authority's key could make it."""
    authority = load_authority(certificates / issuer, CERT if issuer == "enrolment" else CA)
    key = new_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "forged")]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(hours=1))
        .not_valid_after(datetime.now(UTC) + timedelta(hours=1))
    )
    if uris:
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris])
        builder = builder.add_extension(names, critical=False)
    chain = pem(builder.sign(authority.key, hashes.SHA256())) + pem(authority.certificate)
    make_folder(folder, {CA: (certificates / issuer / CA).read_bytes(), CERT: chain, KEY: key_pem(key)})
    return folder


def enrolled_in(certificates: Path, host: Path, *facts: Any) -> Path:
    """A user host that made its own key and has a certificate for it; ``facts`` are for whoever signs."""
    chain = sign_request(certificates / "enrolment", make_request(host), "clinic", *facts)
    store_certificate(host, chain, (certificates / "authority" / "ca.pem").read_bytes())
    return host


class Raw:
    """One connection of someone who says what it likes."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.reader = FrameReader(stream, silence=PATIENCE, frame=PATIENCE)
        self._frames: list[AnyFrame] = []

    async def say(self, *frames: Frame | bytes) -> None:
        await self.stream.send_all(b"".join(pack(frame) if isinstance(frame, Frame) else frame for frame in frames))

    async def hear(self) -> AnyFrame | None:
        """The next frame but pings; nothing when the node has hung up."""
        while True:
            try:
                self._frames = self._frames or [decode(frame) for frame in await self.reader.read()]
            except (trio.BrokenResourceError, ssl.SSLError):
                return None
            if not self._frames:
                return None
            frame = self._frames.pop(0)
            if not isinstance(frame, Ping):
                return frame

    async def rest(self) -> list[AnyFrame]:
        """All that comes until the node says goodbye or hangs up."""
        frames: list[AnyFrame] = []
        while (not frames or not isinstance(frames[-1], Bye)) and (frame := await self.hear()) is not None:
            frames.append(frame)
        return frames

    async def goodbye(self) -> str:
        """Why the node hangs up."""
        *before, last = await self.rest() or [None]
        assert isinstance(last, Bye), f"hung up after {before}, {last}"
        return last.reason
