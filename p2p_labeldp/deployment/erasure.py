"""Erasure: secrets of the mixed exchange are deleted after their round, from disk too.

A journal only grows, and a node that is killed needs all of it. So what must not last is never in it as it is: every
round has a key of its own, 32 random bytes in a file beside the journal. From that key follow the secrets of the round
(the nonces and keys of its attempts, the relays' orders, the nonces of their draws, what packets are sealed with), and
under it the journal holds what other user hosts said in the round: their packets, batches, released keys, nonces and
drawn labels. When the round is over, and every peer has acknowledged what this node said until then, the file is
overwritten and removed, and what the journal holds of the round is noise to everyone.

A node that is killed after that skips what it cannot read. What the coordinator said it can, and so it knows the
clusters, the rounds and what comes next; what it had said until then nobody will ask for again (``Mark``). Killed
before that, it resumes as if nothing had been: no key is erased that something still hangs on.

What a file system or a flash disk keeps of bytes that were overwritten is beyond a program's reach: there only an
encrypted disk helps, or a state folder in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from p2p_labeldp.deployment.disk import Disk
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.mixing import Secret, Secrets

KEY, CHECK, NONCE = 32, 8, 12  # bytes
ROUND = 4  # bytes of a round's number before what is sealed in it


class Mark(msgspec.Struct, frozen=True):
    """Where a node resumes that has erased rounds: nothing that it said before is asked for again."""

    rounds: int = 0
    """How many are erased."""
    first: int = 0
    """From which on a crash may have come between this and the erasure itself."""
    entries: int = 0
    """How many the journal held."""
    clock: int = 0
    said: dict[str, int] = {}
    """By peer, how many items."""


class RoundKeys(Secrets):
    """One for each round, made when it is first asked for; ``erased`` rounds have none any more."""

    __slots__ = ("_disk", "_entropy", "_folder", "_keys", "_rooted", "erased")

    def __init__(self, folder: Path, disk: Disk, entropy: Callable[[int], bytes], mark: Mark) -> None:
        super().__init__(b"")  # of erased rounds: whoever asks is repeating what nobody hears
        self._folder, self._disk, self._entropy = folder, disk, entropy
        self._keys: dict[int, bytes] = {}
        self._rooted: dict[int, Secrets] = {}
        self.erased = mark.first
        self.erase(mark.rounds)

    def of(self, purpose: Secret, *key: int) -> bytes:
        """Every secret is one of a round, which stands first."""
        if not key or key[0] < self.erased:
            return super().of(purpose, *key)
        round_ = key[0]
        if round_ not in self._rooted:
            self._rooted[round_] = Secrets(_derived(self._key(round_, new=True), b"secrets"))
        return self._rooted[round_].of(purpose, *key)

    def seal(self, round_: int, content: bytes) -> bytes:
        nonce, head = self._entropy(NONCE), round_.to_bytes(ROUND, "big")
        return head + nonce + self._aead(self._key(round_, new=True)).encrypt(nonce, content, head)

    def open(self, sealed: bytes) -> bytes | None:
        """What was sealed; None where its round is erased."""
        head, nonce = sealed[:ROUND], sealed[ROUND : ROUND + NONCE]
        round_ = int.from_bytes(head, "big")
        if round_ < self.erased:
            return None
        try:
            return self._aead(self._key(round_, new=False)).decrypt(nonce, sealed[ROUND + NONCE :], head)
        except InvalidTag:
            raise self._refusal(round_) from None

    def erase(self, rounds: int) -> None:
        """The keys of the first so many."""
        for round_ in range(self.erased, rounds):
            self._keys.pop(round_, None)
            self._rooted.pop(round_, None)
            self._disk.erase(self._file(round_))
        self.erased = max(self.erased, rounds)

    def _aead(self, key: bytes) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(_derived(key, b"journal"))

    def _key(self, round_: int, new: bool) -> bytes:
        """A round's key; it lasts before anything follows from it."""
        if round_ not in self._keys:
            file = self._disk.open_log(self._file(round_))
            try:
                content = file.read(0, KEY + CHECK)
                if content[KEY:] != _check(content[:KEY]):
                    if not new:
                        raise self._refusal(round_)
                    # There was none, or a crash left it unfinished: nobody has seen anything that follows from it.
                    file.cut(0)
                    key = self._entropy(KEY)
                    content = key + _check(key)
                    file.append(content)
                    file.sync()
                else:  # by a node that may have been killed before it was synced
                    file.write_again(0)
            finally:
                file.close()
            self._keys[round_] = content[:KEY]
        return self._keys[round_]

    def _file(self, round_: int) -> Path:
        return self._folder / f"round-{round_}.key"

    def _refusal(self, round_: int) -> RequestError:
        name = self._file(round_).name
        return RequestError(f"--state {self._folder}: {name} is not the one that the journal was written with")


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(key=key, digest_size=32, person=purpose).digest()


def _check(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=CHECK, person=b"check").digest()
