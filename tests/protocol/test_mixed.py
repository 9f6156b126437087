"""The mixed exchange as its roles run it: simulated packets and real ones, in any order, with whatever goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from mixing import Mixed, Sent

from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.exchange import Rosters, exchange
from p2p_labeldp.mechanisms.mixing import secrets_of, sources
from p2p_labeldp.protocol import assembly, depositor, relay, session
from p2p_labeldp.protocol.depositor import Depositor
from p2p_labeldp.protocol.messages import (
    ATTEMPTS,
    COORDINATOR,
    HOST,
    Ask,
    Batch,
    Commit,
    Committed,
    Deposit,
    Drawn,
    Go,
    Halt,
    NoGo,
    Open,
    Opened,
    Passed,
    Refused,
    Reveal,
    Stop,
    Unlock,
)
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.sealing import Vault
from p2p_labeldp.protocol.signatures import SIGNED_BATCH, SIGNED_GO, Stamps, signed_twice

CIPHERS = pytest.mark.parametrize("make", [Vault, Onions])
SIZE = 9


def on_arrays(run: Mixed, round_: int = 0) -> dict[int, int]:
    labels = np.array(run.true)
    releases = list(exchange(labels, Rosters.of(np.zeros(len(labels), dtype=np.int64)), run.parameters, SeededCoins(5)))
    found = releases[round_]
    return dict(zip(found.users.tolist(), found.labels.tolist(), strict=True))


def swapped(message: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(message, **changes)


# An exchange in which nothing goes wrong


@CIPHERS
def test_users_report_what_the_arrays_say_and_nobody_waits_for_a_limit(make: type[Any]) -> None:
    run = Mixed(SIZE, cipher=make(), labels=3, theta=0.7).run()
    assert run.reports[0] == on_arrays(run)
    assert 0 < len(run.reports[0]) < SIZE
    assert run.all_left()
    assert (run.expired, run.refusals, run.coordinator.warnings) == (0, [], [])


@CIPHERS
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_messages_and_the_number_of_hosts_change_nothing(make: type[Any], seed: int) -> None:
    order = np.random.default_rng(seed)
    run = Mixed(SIZE, cipher=make(), hosts=seed + 1, rounds=2, noise="fresh", order=order).run()
    assert run.reports == [on_arrays(run, 0), on_arrays(run, 1)]
    assert (run.expired, run.coordinator.warnings) == (0, [])


@pytest.mark.parametrize("relays", [1, 2, 5, SIZE])
def test_any_number_of_relays_up_to_the_members(relays: int) -> None:
    run = Mixed(SIZE, relays=relays).run()
    assert run.reports[0] == on_arrays(run)
    assert len(set(run.session.relays)) == relays


def test_how_many_messages_of_each_kind() -> None:
    """Linear in members and relays, but for what relays tell each other."""
    run = Mixed(SIZE, relays=3).run()
    kinds = Counter(type(message) for _, _, message in run.sent)
    assert {kind: kinds[kind] for kind in (Commit, Open, Deposit, Drawn)} == dict.fromkeys(
        (Commit, Open, Deposit, Drawn), SIZE
    )
    assert (kinds[Go], kinds[Batch], kinds[Unlock], kinds[Reveal]) == (3 * SIZE, 3, 6, 6)
    assert (kinds[Committed], kinds[Opened], kinds[Stop], kinds[Halt]) == (1, 1, 0, 0)


@CIPHERS
def test_packets_of_a_batch_have_one_size_and_no_two_batches_share_a_packet(make: type[Any]) -> None:
    cipher = make()
    run = Mixed(SIZE, cipher=cipher, relays=3).run()
    batches = [[message.packet for _, _, message in run.of_kind(Deposit)]]
    batches += [message.packets for _, _, message in run.of_kind(Batch)]
    for step, batch in enumerate(batches):
        assert {len(packet) for packet in batch} == {cipher.packet_size(3, step)}
    assert len({packet for batch in batches for packet in batch}) == 4 * SIZE


def test_who_is_told_by_which_relay_follows_from_her_place() -> None:
    run = Mixed(SIZE, relays=2)
    run.run()
    relays = run.session.relays
    assert all(sender == relays[receiver % 2] for sender, receiver, _ in run.of_kind(Drawn))


def test_relays_and_draws_are_uniform() -> None:
    """12 ordered pairs of relays, 300 attempts: chi-square with 11 degrees of freedom above 51 once in 4 million; four
    members' draws among four, 1,000 attempts: 12 degrees of freedom, above 53 once in 2 million."""
    pairs = Counter(Mixed(4, relays=2, coins=SeededCoins(seed)).run().session.relays for seed in range(300))
    draws: Counter[Any] = Counter()
    for seed in range(1000):
        draws.update(enumerate(sources(secrets_of(SeededCoins(seed)), 0, 0, 4, 2).tolist()))
    assert chi_square(pairs, 12) < 51
    assert chi_square(draws, 16) < 53


def chi_square(counts: Counter[Any], cells: int) -> float:
    expected = sum(counts.values()) / cells
    return sum((count - expected) ** 2 for count in counts.values()) / expected + (cells - len(counts)) * expected


# What goes wrong before anything is opened


def opened(run: Mixed) -> bool:
    return bool(run.of_kind(Unlock) or run.of_kind(Drawn))


def spoiled(make: type[Any], change: Any, once: bool = True, **settings: Any) -> Mixed:
    """``change`` takes every message and the run; what it returns goes out in its place."""
    changed: list[Any] = []

    def tamper(sender: int, receiver: int, message: Any) -> Iterable[Sent]:
        if once and changed:
            return [(sender, receiver, message)]
        found = change(run, sender, receiver, message)
        if found is None:
            return [(sender, receiver, message)]
        changed.append(message)
        return list(found)

    run = Mixed(SIZE, cipher=make(), tamper=tamper, **settings)
    run.run()
    assert changed, "nothing was changed"
    return run


Chosen = int | None | Callable[[Mixed, int, Any], bool]
"""Of messages of a kind: those of a user, all, or those that a test of the run, the sender and the message chooses."""


def is_chosen(chosen: Chosen, run: Mixed, sender: int, message: Any) -> bool:
    return chosen(run, sender, message) if callable(chosen) else chosen in (None, sender)


def altering(kind: type[Any], chosen: Chosen = None, **changes: Any) -> Any:
    """A change of some messages: fields, or what makes a field of the message."""

    def change(run: Mixed, sender: int, receiver: int, message: Any) -> Any:
        if type(message) is not kind or not is_chosen(chosen, run, sender, message):
            return None
        made = {name: value(message) if callable(value) else value for name, value in changes.items()}
        return [(sender, receiver, swapped(message, **made))]

    return change


def losing(kind: type[Any], chosen: Chosen = None) -> Any:
    def change(run: Mixed, sender: int, receiver: int, message: Any) -> Any:
        return [] if type(message) is kind and is_chosen(chosen, run, sender, message) else None

    return change


def relaying_as(position: int) -> Chosen:
    return lambda run, sender, message: sender == run.session.relays[position]


def at_step(step: int) -> Chosen:
    return lambda run, sender, message: message.step == step


def shown(run: Mixed, relay_: int, batch: Any, packets: list[bytes]) -> Any:
    """The batch that a crooked last relay shows instead, signed as it must be."""
    statement = run.session.statement(SIGNED_BATCH, relay_, session.batch_digest(packets))
    return swapped(batch, packets=packets, signature=run.hosts[0].signatures.sign(relay_, statement))


def last_batch(run: Mixed, message: Any) -> bool:
    return type(message) is Batch and message.step == 3


@CIPHERS
def test_a_packet_that_is_replaced_leads_to_a_no_go_and_its_relay_is_named(make: type[Any]) -> None:
    def replace(run: Mixed, sender: int, receiver: int, message: Any) -> Any:
        if last_batch(run, message) and receiver == HOST:
            packets = [bytes(len(message.packets[0])), *message.packets[1:]]
            return [(sender, receiver, shown(run, sender, message, packets))]
        return None

    run = spoiled(make, replace)
    assert len({sender for sender, _, _ in run.of_kind(NoGo)}) == 1
    assert run.reports[0].keys() == set(range(SIZE)), "another attempt does it"
    (honest,) = {sender for sender, _, _ in run.of_kind(NoGo)}
    assert f"user {honest} was shown another batch than" in run.named
    last = run.of_kind(Batch)[2][0]
    assert f"signed by her (caught: user {last})" in run.named


@CIPHERS
def test_a_relay_that_drops_a_packet_and_says_so_is_caught(make: type[Any]) -> None:
    """Its digests are those of what it passed on, so that nobody disputes them: what was there before is not there."""

    def forget(run: Mixed, sender: int, receiver: int, message: Any) -> Any:
        if type(message) is Batch and message.step == 1 and receiver != COORDINATOR:
            crooked.append(sender)
            relay_ = run.users[sender].relay
            assert relay_ is not None
            fresh = run.cipher.seal(0, *keys_of(relay_.session), bytes(32)).layers
            run.cipher.peel(relay_._key, [fresh[0]], relay_.session.context, 0)
            relay_._passed = [fresh[1], *message.packets[1:]]
            told = swapped(run.of_kind(Passed)[-1][2], passed=session.batch_digest(relay_._passed))
            run.sent[-1] = (sender, COORDINATOR, told)
            run._queues[sender, COORDINATOR][-1] = (COORDINATOR, 0, told)
            return [(sender, receiver, swapped(message, packets=relay_._passed))]
        return None

    crooked: list[int] = []
    run = spoiled(make, forget)
    assert f"(caught: user {crooked[0]})" in run.named


def keys_of(found: session.Session) -> tuple[list[bytes], list[bytes], bytes]:
    return found.outer, found.inner, found.context


@CIPHERS
def test_a_batch_with_a_packet_twice_is_refused_and_names_who_passed_it_on(make: type[Any]) -> None:
    double = altering(Batch, at_step(1), packets=lambda message: [message.packets[1], *message.packets[1:]])
    run = spoiled(make, double, once=False)
    assert not opened(run)
    assert run.coordinator.stopped == [0]
    assert run.outcomes()[0]["abstained"] == SIZE
    assert "a packet occurs twice" in run.named
    assert run.all_left()


@CIPHERS
def test_a_packet_of_another_size_is_refused_and_its_sender_named(make: type[Any]) -> None:
    run = spoiled(make, altering(Deposit, 4, packet=lambda message: message.packet + b"x"), once=False)
    assert not opened(run)
    assert any(refusal.about == 4 and refusal.fault == "malformed" for _, refusal in run.refusals)
    assert "user 4" in run.named


@CIPHERS
def test_a_packet_that_does_not_open_halts_the_first_relay_which_names_its_sender(make: type[Any]) -> None:
    run = spoiled(make, altering(Deposit, 4, packet=lambda message: bytes(len(message.packet))))
    assert "may be to blame: user 4" in run.named
    assert run.reports[0].keys() == set(range(SIZE))


@CIPHERS
def test_stale_packets_of_an_earlier_attempt_do_not_open(make: type[Any]) -> None:
    kept: dict[int, bytes] = {}

    def replay(run: Mixed, sender: int, receiver: int, message: Any) -> Any:
        if type(message) is Batch and message.step == 2 and message.attempt == 0:
            return []  # lost: another attempt begins
        if type(message) is Deposit and message.attempt == 0:
            kept[sender] = message.packet
        elif type(message) is Deposit and sender == 2:
            return [(sender, receiver, swapped(message, packet=kept[2]))]
        return None

    run = spoiled(make, replay, once=False)
    assert not opened(run)
    assert "a packet that the relay's key does not open; may be to blame: user 2" in run.named


@CIPHERS
@pytest.mark.parametrize("kind", [Commit, Open, Deposit, Go, Batch])
def test_whatever_is_lost_costs_an_attempt_or_the_round_and_no_label(make: type[Any], kind: type[Any]) -> None:
    run = spoiled(make, losing(kind, None if kind is Batch else 3))
    assert run.expired >= 1
    assert run.all_left()
    if kind is Commit:
        assert "user 3 did not commit" in run.named
        assert run.outcomes()[0]["abstained"] == 1
        assert run.reports[0].keys() == set(range(SIZE)) - {3}
    elif kind is Open:
        assert "user 3 committed and did not open" in run.named
        assert run.reports[0].keys() == set(range(SIZE)) - {3}
    elif kind is Go:  # it came to some relays, who released: there is no way back
        assert (run.reports[0], run.outcomes()[0]["abstained"]) == ({}, SIZE)
    else:
        assert run.reports[0].keys() == set(range(SIZE))


def test_every_redraw_takes_fresh_commitments_from_all() -> None:
    run = spoiled(Vault, losing(Open, 3))
    commitments = {(message.attempt, sender): message.commitment for sender, _, message in run.of_kind(Commit)}
    again = {user for attempt, user in commitments if attempt == 1}
    assert again >= set(range(SIZE)) - {3}
    assert len(set(commitments.values())) == len(commitments)


@CIPHERS
def test_whoever_is_shown_another_batch_signs_another_digest_and_nothing_is_opened(make: type[Any]) -> None:
    """The last relay shows the second host a batch in another order."""
    run = Mixed(SIZE, cipher=make(), hosts=2)
    deliver = run._deliver

    def two_faced(sender: int, receiver: int, place: int, message: Any) -> None:
        if receiver == HOST and place == 1 and last_batch(run, message):
            message = shown(run, sender, message, message.packets[::-1])
        deliver(sender, receiver, place, message)

    run._deliver = two_faced  # type: ignore[method-assign]
    run.run()
    assert not opened(run)
    assert "the last relay signed two batches; caught, signed by her" in run.named
    assert run.outcomes()[0]["abstained"] == SIZE
    # Whoever has the relay's certificate can check it; it says nothing of another relay, and nothing if altered.
    found = next(halt for _, _, halt in run.of_kind(Halt) if halt.evidence)
    (culprit,), signatures = found.named, run.hosts[0].signatures
    assert signed_twice(signatures, culprit, found.evidence)
    assert make is Vault or not signed_twice(signatures, (culprit + 1) % SIZE, found.evidence)
    context, first, signature, *rest = found.evidence
    assert not signed_twice(signatures, culprit, [bytes(32), first, signature, *rest])
    assert not signed_twice(signatures, culprit, [context, first, signature, first, signature]), "one batch twice"


@CIPHERS
def test_keys_and_gos_that_are_altered_on_their_way_are_refused_and_named(make: type[Any]) -> None:
    """By the coordinator, which has commitments and openings to forward, or by whoever passes a go on."""
    run = spoiled(make, altering(Open, signature=bytes(8 if make is Vault else 64)), once=False)
    assert "did not sign her keys" in run.named
    assert not run.of_kind(Opened)
    run = spoiled(make, altering(Go, 4, digest=bytes(32)), once=False)
    assert {refusal.about for _, refusal in run.refusals if refusal.kind == "go"} == {4}
    assert not opened(run)


def test_a_go_of_one_member_is_none_of_another() -> None:
    """The same host, the same batch: what is signed names the user."""
    run = Mixed(SIZE, cipher=Onions()).run()
    (sender, _, go), *_ = run.of_kind(Go)
    assert run.session.said_go(sender, go)
    assert not run.session.said_go((sender + 1) % SIZE, go)


def test_a_coordinator_that_says_that_other_keys_sign_is_refused() -> None:
    run = spoiled(Vault, altering(Opened, signers=bytes([1]) * 32), once=False)
    assert any("other keys sign" in refusal.reason for _, refusal in run.refusals)
    assert not run.of_kind(Deposit)


def test_a_batch_that_the_last_relay_has_not_signed_is_refused() -> None:
    run = spoiled(Vault, altering(Batch, at_step(3), signature=bytes(8)), once=False)
    assert any("has not signed the batch" in refusal.reason for _, refusal in run.refusals)
    assert not run.of_kind(Go)


def test_a_go_is_signed_over_run_round_cluster_attempt_members_relays_and_batch() -> None:
    """Sessions that differ in any of these have different contexts."""
    run = Mixed(SIZE).run()
    others = [Mixed(SIZE, relays=2), Mixed(SIZE - 1), Mixed(SIZE, coins=SeededCoins(6))]
    found = {run.session.context, *(other.run().session.context for other in others)}
    named = Mixed(SIZE)
    for host in named.hosts:
        host.run = "another run"
    found.add(named.run().session.context)
    assert len(found) == 5
    said = run.session.statement(SIGNED_GO, 3, run.session.digest)
    user, signed = (3).to_bytes(8, "little"), run.session.context + run.session.digest
    assert said == b"p2p_labeldp mixed 1: signed go" + user + signed


# No way back


@CIPHERS
def test_no_relay_releases_without_a_go_of_everyone(make: type[Any]) -> None:
    run = spoiled(make, losing(Go, 3), once=False)
    assert not opened(run)
    assert "user 3" in run.named


@CIPHERS
def test_after_a_release_nobody_who_said_go_takes_part_in_another_attempt(make: type[Any]) -> None:
    """One relay keeps its key to itself: the others have released, so that there is no other batch to compare with."""
    run = spoiled(make, losing(Unlock, relaying_as(1)), once=False)
    first, withheld, last = run.session.relays
    for waits in (first, last):
        assert f"attempt 0: user {waits} has released her key, and waits for user {withheld}" in run.named
    assert {message.attempt for _, _, message in run.of_kind(Commit)} == {0}
    assert not run.of_kind(Halt)
    assert not run.of_kind(Drawn)
    assert run.outcomes()[0]["abstained"] == SIZE
    assert run.all_left()


def test_another_attempt_after_go_needs_the_word_of_every_relay() -> None:
    """A coordinator that claims a failure where there was none gets nobody to deposit again: no key is told."""
    run = spoiled(Vault, losing(Unlock), once=False)
    assert not run.of_kind(Halt)
    assert {message.attempt for _, _, message in run.of_kind(Deposit)} == {0}


def test_no_coordinator_gets_more_draws_of_relays_than_there_are_attempts() -> None:
    """Say, one that goes on until all relays are its own: the members abstain when the last attempt is over."""

    def again(run: Mixed, sender: int, receiver: int, message: Any) -> Any:
        if type(message) is Deposit:
            return []
        return [(sender, receiver, swapped(message, again=True))] if type(message) is Stop else None

    run = spoiled(Vault, again, once=False)
    assert {message.attempt for _, _, message in run.of_kind(Commit)} == set(range(ATTEMPTS))
    assert run.outcomes()[0]["abstained"] == SIZE


def test_a_relay_that_has_released_cannot_halt() -> None:
    assert all(relay.HALTS not in relay.TRANSITIONS[stage] for stage in relay.Stage if stage >= relay.RELEASED)
    assert depositor.TRANSITIONS[depositor.DRAWN] == {}
    assert assembly.TRANSITIONS[assembly.SETTLED] == {}
    assert session.SHOWN not in session.TRANSITIONS


@CIPHERS
def test_a_nonce_that_was_not_committed_to_is_refused_and_nothing_is_dealt_by_it(make: type[Any]) -> None:
    run = spoiled(make, altering(Reveal, relaying_as(0), nonce=bytes(16)), once=False)
    assert {refusal.about for _, refusal in run.refusals if refusal.kind == "reveal"} == {run.session.relays[0]}
    assert len(run.reports[0]) < SIZE


@CIPHERS
def test_a_wrong_inner_key_is_refused_and_its_sender_named(make: type[Any]) -> None:
    run = spoiled(make, altering(Unlock, key=lambda message: bytes(len(message.key))), once=False)
    assert {refusal.kind for _, refusal in run.refusals} >= {"unlock"}
    assert not run.of_kind(Drawn)


def test_a_label_from_another_relay_than_the_one_that_deals_to_her_is_refused() -> None:
    def elsewhere(run: Mixed, sender: int, receiver: int, message: Any) -> Any:
        if type(message) is Drawn and receiver == 0:
            other = next(relay for relay in run.session.relays if relay != sender)
            return [(other, receiver, swapped(message, label=1 - message.label)), (sender, receiver, message)]
        return None

    run = spoiled(Vault, elsewhere)
    assert [refusal.fault for receiver, refusal in run.refusals if receiver == 0] == ["misdirected"]
    assert run.reports[0] == on_arrays(run)


@CIPHERS
def test_a_packet_that_holds_no_label_counts_as_label_0(make: type[Any]) -> None:
    """User 2 seals a label that there is none of: whoever draws it reports as everyone else does."""

    class Marking(Depositor):
        __slots__ = ()

        def deposits(self, found: session.Session) -> Any:
            self.noisy = 700
            return super().deposits(found)

    run = Mixed(SIZE, cipher=make(), roles={2: Marking}).run()
    drew = [
        user for user, source in enumerate(sources(secrets_of(SeededCoins(5)), 0, 0, SIZE, 3).tolist()) if source == 2
    ]
    assert drew
    assert all(run.reports[0][user] == 0 for user in drew)
    assert run.reports[0].keys() == set(range(SIZE))
    assert run.refusals == []


# Who takes part


def test_a_cluster_with_fewer_members_than_relays_abstains() -> None:
    run = Mixed(3, relays=4).run()
    assert run.outcomes()[0]["abstained"] == 3
    assert not run.of_kind(Commit)


def test_too_few_commitments_stop_the_cluster() -> None:
    run = spoiled(Vault, losing(Commit, 1), once=False, minimum_size=SIZE)
    assert not run.of_kind(Open)
    assert run.coordinator.stopped == [0]
    assert run.outcomes()[0]["abstained"] == SIZE


def test_a_coordinator_that_leaves_fewer_members_than_the_minimum_gets_no_opening() -> None:
    """Say, one user among its own: nobody takes part in an attempt that is too small to hide her."""
    few = {"members": lambda said: said.members[: 4 * 8], "commitments": lambda said: said.commitments[: 4 * 32]}
    run = spoiled(Vault, altering(Committed, size=4, **few), once=False, minimum_size=5)
    assert any("at least 5 of them" in refusal.reason for _, refusal in run.refusals)
    assert not run.of_kind(Open)
    assert run.outcomes()[0]["abstained"] == SIZE


def test_relays_with_keys_that_nothing_can_be_sealed_for_are_named_and_left_out() -> None:
    """Users 0 to 3 publish such keys, and commit to them, so that they fit."""

    class Weak(Depositor):
        """Keys of small order: whatever is sealed for them everyone can open."""

        __slots__ = ()

        def _enter(self, attempt: int) -> Any:
            super()._enter(attempt)
            share = self._share
            assert share is not None
            share.opening = share.nonce + bytes(64)
            share.commitment = session.commitment(self.round, self.cluster, share.attempt, self.id, share.opening)
            return COORDINATOR, Commit(self.round, attempt, share.commitment)

    # Stamps of a seed, since whose keys sign has a part in who relays: certificates would draw others in every run.
    coins = SeededCoins(7)
    weak = dict.fromkeys(range(4), Weak)
    run = Mixed(SIZE, cipher=Onions(), roles=weak, coins=coins, signatures=Stamps(secrets_of(coins))).run()
    assert "published a key that seals nothing" in run.named
    assert len(set(run.session.relays) - set(weak)) == 3
    assert run.expired == 0


def test_a_coordinator_that_publishes_another_opening_is_refused() -> None:
    run = spoiled(Vault, altering(Opened, openings=lambda message: bytes(len(message.openings))), once=False)
    assert {refusal.kind for _, refusal in run.refusals} >= {"opened"}
    assert not run.of_kind(Deposit)


def test_a_coordinator_that_publishes_another_commitment_than_hers_is_refused_by_her() -> None:
    run = spoiled(Vault, altering(Committed, commitments=lambda message: bytes(len(message.commitments))), once=False)
    assert not run.of_kind(Open)
    assert len({speaker for speaker, refusal in run.refusals if refusal.kind == "committed"}) == SIZE


def test_pulling_is_refused() -> None:
    run = Mixed(SIZE).run()
    with pytest.raises(Refused, match="nobody asks"):
        run.users[0].receive(1, Ask(0))
