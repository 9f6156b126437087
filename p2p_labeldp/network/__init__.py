"""How messages travel."""

from p2p_labeldp.network.memory import Mailbox, MemoryNetwork

__all__ = ["Mailbox", "MemoryNetwork"]
