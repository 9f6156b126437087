"""Messages and the roles as state machines: message in, messages out, no I/O and no clock."""

from p2p_labeldp.protocol.auditor import Auditor
from p2p_labeldp.protocol.coordinator import Coordinator
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.learner import Learner
from p2p_labeldp.protocol.user import User

__all__ = ["Auditor", "Coordinator", "Host", "Learner", "User"]
