"""What must hold in every trace of an honest mixed exchange, message by message, besides what holds in all.

One pass steps a model of every attempt of every cluster: who committed to what, who the relays are, which packets
each relay took and passed on, who said go over which batch, who released what. A relay that releases its key before
every member said go to it breaks ``nothing_opened_early``; a batch that does not hold as many different packets of
one size as there are members, none of them seen before, breaks ``whole_batches``; a label that does not stand where
the relays' nonces say breaks ``draws``.

In a seeded simulation everything is recomputed: which packet each packet became, in which order, and whose label
everyone was told. Elsewhere what a packet holds cannot be known, and two members who drew one place must have been
told one label.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from p2p_labeldp.audit.invariants import Checker, Turn
from p2p_labeldp.audit.rules import INVARIANTS, Broken, require
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.mixing import (
    Secret,
    Secrets,
    draw_nonce,
    drawn_places,
    expanded,
    permutation,
    secrets_of,
)
from p2p_labeldp.privacy import Exchange
from p2p_labeldp.protocol.messages import COORDINATOR, HOST, Fault
from p2p_labeldp.protocol.sealing import TOKEN
from p2p_labeldp.protocol.session import Session, batch_digest, commitment, keys_statement
from p2p_labeldp.protocol.signatures import SIGNED_BATCH, SIGNED_GO, Stamps, signed_twice

MIXED_INVARIANTS = {
    name: what
    for name, what in INVARIANTS.items()
    if name not in ("asked_once", "asked_inside_cluster", "answer_follows_ask")
} | {
    "commitments": "everyone commits once in an attempt, opens what she committed to, and all of it is published",
    "relays": "the relays are those that all openings together choose, and nobody else acts as one",
    "whole_batches": "every batch has a packet of one size for every member, none twice, none seen before",
    "mixing": "each packet came from one packet; in a seeded simulation, the one that the seed says",
    "agreement": "every member says go to every relay, over the batch that all are shown",
    "signatures": "keys, the batch that all are shown and gos are signed; in a seeded simulation, as the seed says",
    "nothing_opened_early": "a relay releases its key when it has a go of every member, once, and then never halts; "
    "whoever said go enters another attempt only when all relays have halted",
    "draws": "every label that a member is told stands where the relays' nonces say, which they committed to",
}


@dataclass(slots=True)
class _Attempt:
    """One attempt of a cluster in a round."""

    commitments: dict[int, bytes] = field(default_factory=dict)
    openings: dict[int, bytes] = field(default_factory=dict)
    signed: dict[int, bytes] = field(default_factory=dict)  # who opened: her signature
    signers: bytes = b""
    listed: list[int] = field(default_factory=list)  # members, as published
    size: int = 0
    session: Session | None = None
    own: bytes = b""
    opened: int = 0
    batches: dict[int, list[bytes]] = field(default_factory=dict)  # by step, as far as they have been passed on
    again: list[bytes] = field(default_factory=list)  # a second batch of the last relay, as far as it has shown one
    shown: dict[bytes, bytes] = field(default_factory=dict)  # digests of what the last relay showed: its signatures
    deposits: dict[int, bytes] = field(default_factory=dict)
    gos: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (member, relay)
    keys: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (relay, to whom): commitment to a nonce
    nonces: dict[int, bytes] = field(default_factory=dict)
    revealed: set[tuple[int, int]] = field(default_factory=set)
    halted: set[int] = field(default_factory=set)
    places: list[int] | None = None
    told: dict[int, int] = field(default_factory=dict)  # by place in the batch, the label


class MixedChecker(Checker):
    """Of runs whose exchange is mixed."""

    exchange = Exchange.MIXED
    invariants = MIXED_INVARIANTS

    def __init__(self, *facts: Any, **settings: Any) -> None:
        super().__init__(*facts, **settings)
        coins = settings.get("coins")
        self.run_name = ""
        """Part of what is signed; empty in simulations."""
        self.packets: Mapping[bytes, tuple[int, int]] = {}
        """Where they are known, the packets of last batches: who sealed each, and the label that it holds."""
        simulated = isinstance(coins, SeededCoins) and not settings.get("wall_clock", False)
        self._secrets: Secrets | None = secrets_of(coins) if simulated and coins is not None else None
        self._stamps = None if self._secrets is None else Stamps(self._secrets)
        self._attempts: dict[tuple[int, int, int], _Attempt] = {}
        self._stopped: dict[tuple[int, int], float] = {}  # (round, cluster): when it was told to abstain
        self._ended: dict[tuple[int, int], int] = {}  # how many attempts of it are over
        self._unlocked: dict[tuple[int, int], int] = {}  # the attempt of which keys were released

    def _source(self, user: int, turn: Turn) -> int:
        """Any member of her cluster: a label comes about with the help of all of them."""
        return next((member for member in self._rosters[self._members[user].cluster] if self._may_lack(member)), -1)

    def _explained_by_away(self, event: Event) -> bool:
        """Of an attempt whose members were at hosts that stayed away others cannot be told to be wrong."""
        if f"on_{event.kind}" not in vars(MixedChecker):
            return False
        if event.sender == COORDINATOR:
            cluster = event.fields[1]
        else:
            cluster = self._members[event.sender].cluster if event.sender in self._members else -1
        return any(self._may_lack(member) for member in self._rosters.get(cluster, ()))

    # Who takes part.

    def on_commit(self, event: Event, round_: int, attempt: int, sealed: bytes) -> None:
        turn = self._turn(event.sender, round_, "commitments", event.sender in self._missing)
        require(self._takes_part(event.sender), "abstaining", "commits in a cluster below the minimum")
        state = self._state(event.sender, round_, attempt)
        cluster = self._members[event.sender].cluster
        require(attempt <= self._ended.get((round_, cluster), 0), "commitments", "an attempt that nobody began")
        require(event.sender not in state.commitments, "commitments", "commits again")
        if attempt == 0:
            self._timing.follows(event, turn.began, "her order to begin", late=round_ < self._round)
        state.commitments[event.sender] = sealed
        before = self._attempts.get((round_, cluster, attempt - 1))
        if before is not None and before.session is not None:
            agreed = any((event.sender, relay) in before.gos for relay in before.session.relays)
            may_open = agreed and before.halted < set(before.session.relays)
            require(not may_open, "nothing_opened_early", "enters another attempt, and a relay may have released")

    def on_committed(self, event: Event, *fields: Any) -> None:
        round_, cluster, attempt, size, first, members, sealed, own = fields
        state = self._attempt(round_, cluster, attempt)
        count = len(members) // 8
        whole = len(members) == 8 * count and len(sealed) == 32 * count and first == len(state.listed)
        require(whole and (first == 0 or own == state.own), "commitments", "not a part of the commitments")
        for place, user in enumerate(struct.unpack(f"<{count}q", members)):
            mine = sealed[32 * place : 32 * place + 32]
            require(state.commitments.get(user) == mine, "commitments", f"not what user {user} committed to")
            require(not state.listed or user > state.listed[-1], "commitments", f"lists user {user} out of order")
            state.listed.append(user)
        state.size, state.own = size, own
        require(len(state.listed) <= size, "commitments", f"lists more than {size} members")

    def on_open(self, event: Event, *fields: Any) -> None:
        round_, attempt, nonce, outer, inner, signature = fields
        state, user = self._state(event.sender, round_, attempt), event.sender
        require(user in state.listed, "commitments", "opens what was not published")
        require(user not in state.openings, "commitments", "opens again")
        opening = nonce + outer + inner
        cluster = self._members[user].cluster
        fits = commitment(round_, cluster, attempt, user, opening) == state.commitments.get(user)
        require(fits, "commitments", "opens what she did not commit to")
        self._require_signed(user, keys_statement(user, state.commitments[user], self.run_name), signature)
        state.openings[user], state.signed[user] = opening, signature

    def on_opened(self, event: Event, *fields: Any) -> None:
        round_, cluster, attempt, first, shown, own, signers = fields
        state = self._attempt(round_, cluster, attempt)
        require(
            first == state.opened and len(state.listed) == state.size > 0, "commitments", "not a part of the openings"
        )
        expected = b""
        while state.opened < state.size and len(expected) < len(shown):
            user = state.listed[state.opened]
            require(user in state.openings, "commitments", f"user {user} has not opened")
            expected += state.openings[user] + state.signed[user]
            state.opened += 1
        require(expected == shown, "commitments", "not what everyone opened")
        require(
            commitment(round_, cluster, attempt, -1, own) == state.own, "commitments", "the coordinator's own is not"
        )
        require(state.signers in (b"", signers), "signatures", "other keys sign for the members")
        state.signers = signers
        if state.opened == state.size:
            key_size = (len(state.openings[state.listed[0]]) - 16) // 2
            state.session = Session(self.run_name, round_, cluster, attempt, self._parameters.relays, key_size)
            state.session.assume({user: state.openings[user] for user in state.listed}, own, signers)

    # Packets.

    def on_deposit(self, event: Event, round_: int, attempt: int, packet: bytes) -> None:
        state, session = self._mixing(event.sender, round_, attempt)
        require(event.receiver == session.relays[0], "relays", "deposits with another than the first relay")
        require(event.sender not in state.deposits, "whole_batches", "deposits again")
        if self._secrets is not None:
            looks = self._looks(round_, attempt, event.sender, 0)
            require(packet == looks, "mixing", "not the packet that the seed gives her")
        state.deposits[event.sender] = packet
        if len(state.deposits) == len(session.members):
            state.batches[0] = [state.deposits[user] for user in session.members]
            self._require_whole(state, 0)

    def on_batch(self, event: Event, *fields: Any) -> None:
        round_, cluster, attempt, step, first, packets, signature = fields
        state, session = self._mixing(event.sender, round_, attempt)
        if event.receiver == COORDINATOR:  # evidence: shown again
            known = state.batches.get(step, [])
            require(known[first : first + len(packets)] == packets, "whole_batches", "shows another batch")
            return
        last = step == len(session.relays)
        receiver = HOST if last else session.relays[step] if 0 < step < len(session.relays) else None
        right = 0 < step <= len(session.relays) and event.sender == session.relays[step - 1]
        require(right and event.receiver == receiver, "relays", f"batch {step} is not hers to pass on to this receiver")
        before = state.batches.get(step - 1, [])
        require(len(before) == len(session.members), "whole_batches", f"passes on batch {step} before it has taken one")
        known = state.batches.setdefault(step, [])
        second = last and len(known) == len(session.members)
        if second:
            known = state.again
        require(first == len(known), "whole_batches", f"begins at place {first}, not {len(known)}")
        known.extend(packets)
        if len(known) < len(session.members):
            return
        # Whatever is wrong with it: those who are shown it act on it.
        if last:
            state.shown[batch_digest(known)] = signature
        if last and not second:
            session.batch, session.found = list(known), frozenset(known)
            session.digest, session.proof = batch_digest(known), signature
        require(not second, "agreement", "shows a second batch")
        self._require_whole(state, step)
        if self._secrets is not None:
            order = permutation(self._secrets.of(Secret.ORDER, round_, cluster, attempt, step - 1), len(known)).tolist()
            became = {
                self._looks(round_, attempt, user, step - 1): self._looks(round_, attempt, user, step)
                for user in session.members
            }
            # What a packet that is nobody's becomes only whoever made it knows.
            expected = [became.get(before[place]) for place in order]
            require(
                all(packet in (None, found) for packet, found in zip(expected, known, strict=True)),
                "mixing",
                f"batch {step} is not batch {step - 1} without a layer, in the seed's order",
            )
        if last:
            self._require_signed(event.sender, session.statement(SIGNED_BATCH, event.sender, session.digest), signature)

    def _require_whole(self, state: _Attempt, step: int) -> None:
        batch = state.batches[step]
        assert state.session is not None
        require(len(batch) == len(state.session.members), "whole_batches", f"{len(batch)} packets")
        require(all(type(packet) is bytes for packet in batch), "shape", "a packet that is no bytes")
        require(len({len(packet) for packet in batch}) == 1, "whole_batches", "packets of several sizes")
        seen = [packet for other, packets in state.batches.items() if other != step for packet in packets]
        require(len({*batch, *seen}) == len(batch) + len(set(seen)), "whole_batches", "a packet that occurs twice")

    def on_passed(self, event: Event, *fields: Any) -> None:
        """Told just before the batch itself is passed on: what was taken is known."""
        round_, _, attempt, step, taken, _ = fields
        state, session = self._mixing(event.sender, round_, attempt)
        require(step < len(session.relays) and session.relays[step] == event.sender, "relays", "is not that relay")
        require(batch_digest(state.batches.get(step, [])) == taken, "whole_batches", "not the batch that she took")

    # Agreement and opening.

    def on_go(self, event: Event, round_: int, attempt: int, signed: bytes, shown: bytes, signature: bytes) -> None:
        state, session = self._mixing(event.sender, round_, attempt)
        require(event.receiver in session.relays, "relays", "says go to someone who is no relay")
        require((event.sender, event.receiver) not in state.gos, "agreement", "says go again")
        require(signed in state.shown, "agreement", "signs another batch than all were shown")
        require(shown == state.shown[signed], "signatures", "repeats another signature of the last relay")
        self._require_signed(event.sender, session.statement(SIGNED_GO, event.sender, signed), signature)
        state.gos[event.sender, event.receiver] = signed

    def on_nogo(self, event: Event, *fields: Any) -> None:
        round_, attempt, shown, proof, layers, _ = fields
        state, session = self._mixing(event.sender, round_, attempt)
        require(shown in state.shown, "agreement", "was shown another batch than everyone")
        require(proof == state.shown[shown], "signatures", "repeats another signature of the last relay")
        there = bool(layers) and layers[-1] in session.found
        require(not there or not session.distinct, "agreement", "says no-go, and her packet is in the batch")

    def on_unlock(self, event: Event, round_: int, attempt: int, key: bytes, sealed: bytes) -> None:
        state, session = self._mixing(event.sender, round_, attempt)
        both = event.sender in session.relays and event.receiver in session.relays and event.sender != event.receiver
        require(both, "relays", "a key goes from relay to relay")
        # Whatever is wrong with it: whoever is told acts on it.
        again = (event.sender, event.receiver) in state.keys
        state.keys.setdefault((event.sender, event.receiver), sealed)
        require(not again, "nothing_opened_early", "releases again")
        gos = [state.gos[user, event.sender] for user in session.members if (user, event.sender) in state.gos]
        everyone = len(gos) == len(session.members)
        require(everyone, "nothing_opened_early", f"released with {len(gos)} gos of {len(session.members)}")
        require(len(set(gos)) == 1, "nothing_opened_early", "released with gos over several batches")
        require(event.sender not in state.halted, "nothing_opened_early", "halted, and releases all the same")
        one = self._unlocked.setdefault((round_, session.cluster), attempt) == attempt
        require(one, "nothing_opened_early", "releases in a second attempt of one round")
        same = {commitment for (relay, _), commitment in state.keys.items() if relay == event.sender} <= {sealed}
        require(same, "draws", "commits to two nonces")

    def _still_said(self, event: Event, fault: str) -> bool:
        """A relay has released its key and opened its nonce, though another one that has given up takes neither."""
        opened = event.kind in ("unlock", "reveal") and fault == Fault.OUT_OF_ORDER
        return opened or super()._still_said(event, fault)

    def on_reveal(self, event: Event, round_: int, attempt: int, nonce: bytes) -> None:
        state, session = self._mixing(event.sender, round_, attempt)
        pair = event.sender, event.receiver
        if pair in state.revealed and not self._taken:
            return
        require(pair in state.keys and pair not in state.revealed, "draws", "opens before it committed, or again")
        others = [relay for relay in session.relays if relay != event.sender]
        require(
            all((relay, event.sender) in state.keys for relay in others), "draws", "opens before all have committed"
        )
        name = round_, session.cluster, attempt
        require(commitment(*name, event.sender, nonce) == state.keys[pair], "draws", "opens what it did not commit to")
        if self._secrets is not None:
            expected = draw_nonce(self._secrets, *name, session.relays.index(event.sender))
            require(nonce == expected, "coins", "not the nonce of the seed")
        state.revealed.add(pair)
        state.nonces[event.sender] = nonce

    def on_drawn(self, event: Event, round_: int, attempt: int, label: int) -> None:
        user = event.receiver
        state, session = self._mixing(user, round_, attempt)
        place = session.places.get(user)
        require(place is not None and event.sender == session.dealer_of(place), "relays", "is told by another relay")
        assert place is not None
        turn = self._turn(user, round_, "draws", user in self._missing)
        require(turn.answer < 0, "draws", "is told twice")
        require(0 <= label < self._parameters.labels, "shape", f"label {label}")
        require(self._may_deal(state, session, event.sender), "draws", "deals before all nonces are known")
        turn.answer, turn.answered_at = label, event.time
        if state.places is None:
            nonces = [state.nonces.get(relay) or b"" for relay in session.relays]
            if len(session.relays) == 1:  # who tells nobody: only the seed knows its nonce
                if self._secrets is None:
                    return
                nonces = [draw_nonce(self._secrets, *session.name, 0)]
            state.places = drawn_places(nonces, len(session.members)).tolist()
        drawn = state.places[place]
        require(state.told.setdefault(drawn, label) == label, "draws", f"place {drawn} holds another label")
        if self._secrets is not None or self.packets:
            self._require_source(state, session, drawn, label)

    def _require_source(self, state: _Attempt, session: Session, drawn: int, label: int) -> None:
        """In a seeded simulation it is known whose packet stands there."""
        batch = state.batches.get(len(session.relays), [])
        require(len(batch) == len(session.members), "draws", "a label of a batch that nobody was shown")
        if self._secrets is None:
            source, sealed = self.packets.get(batch[drawn], (None, label))
            require(label == sealed, "draws", f"the packet at place {drawn} holds label {sealed}, not {label}")
        else:
            step = len(session.relays)
            last = {self._looks(session.round, session.attempt, user, step): user for user in session.members}
            source = last.get(batch[drawn])
        require(source is not None, "draws", f"what stands at place {drawn} is nobody's packet")
        assert source is not None
        flip_round = 0 if self._parameters.noise == "sticky" else session.round
        known = self._noisy[flip_round]
        before = known.get(source)
        require(before in (None, label), "same_answer", f"user {source} deposited {label}, but {before} before")
        known[source] = label
        if self._truth is not None and before is None:
            self.sample.flip(self._truth[source], label, self._parameters.labels)
        self._expected.noisy(source, flip_round, label)

    def _may_deal(self, state: _Attempt, session: Session, relay: int) -> bool:
        others = [other for other in session.relays if other != relay]
        if not others:
            agreed = sum((user, relay) in state.gos for user in session.members)
            return agreed == len(session.members)
        return all((other, relay) in state.revealed for other in others)

    # Giving up.

    def on_halt(self, event: Event, *fields: Any) -> None:
        round_, _, attempt, _, _, evidence = fields
        state, session = self._mixing(event.sender, round_, attempt)
        require(event.sender in session.relays, "relays", "halts and is no relay")
        released = any(relay == event.sender for relay, _ in state.keys)
        require(not released, "nothing_opened_early", "released, and halts all the same")
        state.halted.add(event.sender)
        if evidence and len(state.shown) < 2:
            last = session.relays[-1]
            proves = self._stamps is None or signed_twice(self._stamps, last, evidence)
            require(proves, "agreement", "shows evidence that proves nothing")
            raise Broken("agreement", f"user {last} signed two batches, and showed one", last)

    def on_overdue(self, event: Event, round_: int, _: int, attempt: int, named: list[int]) -> None:
        state, session = self._mixing(event.sender, round_, attempt)
        alone = event.sender in session.relays and event.sender not in state.halted
        require(alone and set(named) < set(session.relays), "relays", "waits as no relay, or for one that is none")

    def on_stop(self, event: Event, round_: int, cluster: int, attempt: int, again: bool) -> None:
        require(cluster in self._rosters and round_ == self._round, "commitments", "stops what is not under way")
        require(attempt == self._ended.get((round_, cluster), 0), "commitments", f"attempt {attempt} is not under way")
        self._note_unfinished(event, round_, cluster, attempt)
        if again:
            self._ended[round_, cluster] = attempt + 1
        else:
            self._stopped[round_, cluster] = event.time

    def _note_unfinished(self, event: Event, round_: int, cluster: int, attempt: int) -> None:
        """Relays that passed on a part of a batch: they wait for nobody, and send all of it at once."""
        state = self._attempts.get((round_, cluster, attempt))
        if state is None or state.session is None:
            return
        members, relays = len(state.session.members), state.session.relays
        for step, batch in state.batches.items():
            if step and len(batch) < members and relays[step - 1] not in self._missing:
                detail = f"user {relays[step - 1]} passed on {len(batch)} packets of {members}"
                self._note("whole_batches", event.position, detail, relays[step - 1])

    def on_done(self, event: Event, round_: int, outcome: str) -> None:
        member = self._members.get(event.sender)
        stopped = None if member is None else self._stopped.get((round_, member.cluster))
        if outcome != "abstained" or stopped is None or not self._takes_part(event.sender):
            super().on_done(event, round_, outcome)
            return
        turn = self._turn(event.sender, round_, "done_once", event.sender in self._missing)
        require(not turn.said, "done_once", "is done again")
        self._timing.follows(event, stopped, "the stop", round_ < self._round)
        turn.said = outcome
        if round_ == self._round:
            self._timing.done(event)

    # Finding things.

    def _require_signed(self, user: int, statement: bytes, signature: bytes) -> None:
        right = bool(signature) if self._stamps is None else self._stamps.verifies(user, statement, signature)
        require(right, "signatures", "is not signed as it ought to be")

    def _attempt(self, round_: int, cluster: int, attempt: int) -> _Attempt:
        known = cluster in self._rosters and 0 <= round_ <= self._round
        require(known, "commitments", f"cluster {cluster}, round {round_}")
        return self._attempts.setdefault((round_, cluster, attempt), _Attempt())

    def _state(self, user: int, round_: int, attempt: int) -> _Attempt:
        member = self._rostered(user, "commitments")
        return self._attempt(round_, member.cluster, attempt)

    def _mixing(self, user: int, round_: int, attempt: int) -> tuple[_Attempt, Session]:
        state = self._state(user, round_, attempt)
        require(state.session is not None, "relays", "nobody knows the relays yet")
        assert state.session is not None
        require(user in state.session.places, "relays", f"user {user} is no member of this attempt")
        return state, state.session

    def _looks(self, round_: int, attempt: int, user: int, step: int) -> bytes:
        """A member's packet after so many relays, in a seeded simulation."""
        assert self._secrets is not None
        secret = self._secrets.of(Secret.SEAL, round_, attempt, user)
        return expanded(b"looks", secret, TOKEN * (step + 1))[TOKEN * step :]

    def _end_round(self, event: Event, round_: int, waiting: list[int]) -> None:
        super()._end_round(event, round_, waiting)
        if not self._missing:
            self._attempts = {name: state for name, state in self._attempts.items() if name[0] == round_}
