"""The model as it comes to a user host that asked for it: files, in parts, kept when all of them are whole."""

from __future__ import annotations

from collections.abc import Callable

from p2p_labeldp.deployment.items import Result
from p2p_labeldp.protocol.messages import Fault, Refused

LARGEST = 1 << 30
"""Bytes of a file that the learner may hand over."""

FILES = ("model.npz", "model-card.md")

Keep = Callable[[dict[str, bytes]], None]
"""Puts the files that the learner has handed over where the host wants them."""


class Delivery:
    """``keep`` is None where the host does not ask for the model: nothing is due then."""

    def __init__(self, keep: Keep | None) -> None:
        self._keep = keep
        self._files: dict[str, bytearray] = {}
        self._sizes: dict[str, int] = {}

    @property
    def due(self) -> bool:
        """Whether the model is waited for."""
        return self._keep is not None

    @property
    def begun(self) -> int:
        """How many files have begun to come, of a delivery that is due."""
        return len(self._files)

    def take(self, part: Result) -> None:
        if self._keep is None or part.first != len(self._files.get(part.name, b"")) or part.size > LARGEST:
            raise Refused(Fault.OUT_OF_ORDER, "nobody asked for this part of a file")
        self._files.setdefault(part.name, bytearray()).extend(part.content)
        self._sizes[part.name] = part.size
        if len(self._files) == len(FILES) and all(len(self._files[name]) == self._sizes[name] for name in FILES):
            self._keep({name: bytes(content) for name, content in self._files.items() if content})
            self._keep = None
            self._files.clear()
