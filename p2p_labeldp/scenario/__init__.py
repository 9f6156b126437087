"""What to run: plain typed configuration, read from TOML and checked.

Every key is a dataclass field with a default, a rule that says what is allowed and a line of
documentation; reading, checking, overriding and writing back all work from those fields, so a key is
declared in exactly one place. The scenario knows nothing of the other rooms: what depends on the data
(more clusters than users, say) is checked where the data is.
"""

from p2p_labeldp.scenario.engines import ENGINES, Engine, Hosting
from p2p_labeldp.scenario.entries import ADVERSARIES, FAULTS, Entry
from p2p_labeldp.scenario.exchanges import EXCHANGES, Exchange
from p2p_labeldp.scenario.overriding import make_entry
from p2p_labeldp.scenario.reading import (
    check_override,
    documentation,
    entry_documentation,
    load_scenario,
    parse_scenario,
    replace,
)
from p2p_labeldp.scenario.rules import MAX_SEED
from p2p_labeldp.scenario.schema import Schema
from p2p_labeldp.scenario.sections import (
    DATA_SETS,
    MAX_RELAYS,
    MECHANISMS,
    MODELS,
    SECTIONS,
    TARGETS,
    Clusters,
    Coins,
    Data,
    Defences,
    Deployment,
    Examples,
    Learner,
    Network,
    Reads,
)
from p2p_labeldp.scenario.whole import Scenario

__all__ = [
    "ADVERSARIES",
    "DATA_SETS",
    "ENGINES",
    "EXCHANGES",
    "FAULTS",
    "MAX_RELAYS",
    "MAX_SEED",
    "MECHANISMS",
    "MODELS",
    "SECTIONS",
    "TARGETS",
    "Clusters",
    "Coins",
    "Data",
    "Defences",
    "Deployment",
    "Engine",
    "Entry",
    "Examples",
    "Exchange",
    "Hosting",
    "Learner",
    "Network",
    "Reads",
    "Scenario",
    "Schema",
    "check_override",
    "documentation",
    "entry_documentation",
    "load_scenario",
    "make_entry",
    "parse_scenario",
    "replace",
]
