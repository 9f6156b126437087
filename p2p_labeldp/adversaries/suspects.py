"""Which parties a scenario's adversaries make deviate: what an audit of the run expects, and blames on nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from p2p_labeldp.adversaries.kinds import adversary_called
from p2p_labeldp.protocol.messages import PARTIES
from p2p_labeldp.scenario import ADVERSARIES


def suspects(summary: Mapping[str, Any]) -> dict[int, str]:
    """Address to kind, of every party that may send what an honest one would not, from a run's summary.

    Users who misbehave; the coordinator or the learner where it is the adversary, and then the victim too: she acts on
    what she alone was told.
    """
    found: dict[int, str] = {}
    for each in summary.get("adversaries") or ():
        kind = each["kind"]
        if kind not in ADVERSARIES or not (record := adversary_called(kind)).misbehaves:
            continue
        found |= dict.fromkeys(each.get("members", ()), kind)
        if record.alone:
            found[PARTIES[record.alone]] = kind
            if each.get("victim") is not None:
                found[each["victim"]] = kind
    return found
