"""One noun, one record: every table that is keyed by a noun has all of its members, and nothing else.

Whoever adds a mechanism, a view, an exchange, a message, a data set, an adversary, a fault or an engine and forgets one
of the places that must know it is told here which. A module that nobody can name is found too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import nullcontext
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import p2p_labeldp
from p2p_labeldp.adversaries import ATTACKS
from p2p_labeldp.adversaries.kinds import adversary_of
from p2p_labeldp.adversaries.record import Adversary
from p2p_labeldp.audit.runs import CHECKED
from p2p_labeldp.audit.sight import SEEN_IN, SIGHT
from p2p_labeldp.data import data_set_of
from p2p_labeldp.data.record import DataSet
from p2p_labeldp.deployment import disturbing
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.compare import AS_PRINTED
from p2p_labeldp.experiments.games import Game, play_each
from p2p_labeldp.learning import model_of
from p2p_labeldp.learning.model import LearnerModel
from p2p_labeldp.mechanisms import Holder, Plan, make_plan, mechanism_of
from p2p_labeldp.mechanisms.plan import Mechanism
from p2p_labeldp.network import faults
from p2p_labeldp.network.faults import Delivered
from p2p_labeldp.privacy import MIXED_VIEWS, RECORDS, VIEWS, Exchange, Parameters, View, account, sees, views_of
from p2p_labeldp.privacy.account import COMES_TO
from p2p_labeldp.privacy.guarantee import Method
from p2p_labeldp.protocol.messages import BY_KIND, KINDS, PARTIES, VERSION, Fault
from p2p_labeldp.reporting import curves, styles, words
from p2p_labeldp.runs.execute import RUNS
from p2p_labeldp.runs.stated import METHODS
from p2p_labeldp.runs.summary import Curve
from p2p_labeldp.scenario import (
    ADVERSARIES,
    DATA_SETS,
    ENGINES,
    EXCHANGES,
    FAULTS,
    MECHANISMS,
    MODELS,
    TARGETS,
    Data,
    Engine,
    Scenario,
    make_entry,
    replace,
)

PACKAGE = Path(p2p_labeldp.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"
PEERS = "peer_to_peer"


def rows_of(document: str, heading: str) -> dict[str, list[str]]:
    """The first table under a heading: what its first column names, with the other cells."""
    text = (DOCS / document).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


def assert_complete(table: Collection[str], members: Collection[str]) -> None:
    """As sets, so that what is missing and what is too much are both told."""
    assert set(map(str, table)) == set(map(str, members))


# Nouns with a module for each member


@pytest.mark.parametrize(
    ("record", "kind", "folder", "members", "record_of"),
    [
        ("MECHANISM", Mechanism, "mechanisms", MECHANISMS, mechanism_of),
        ("MODEL", LearnerModel, "learning/models", MODELS, model_of),
        ("DATA_SET", DataSet, "data/sets", DATA_SETS, data_set_of),
        ("ADVERSARY", Adversary, "adversaries/kinds", ADVERSARIES, lambda kind: adversary_of(example(kind))),
    ],
    ids=["mechanism", "model", "data_set", "adversary"],
)
def test_every_member_is_a_module_with_its_record(
    record: str, kind: type, folder: str, members: Collection[str], record_of: Callable[[str], Any]
) -> None:
    declares = re.compile(rf"^{record}\b", re.MULTILINE)
    modules = (PACKAGE / folder).glob("*.py")
    assert_complete([path.stem for path in modules if declares.search(path.read_text(encoding="utf-8"))], members)
    assert all(isinstance(record_of(name), kind) for name in members)


def test_every_model_can_be_kept() -> None:
    assert all(model_of(name).storage for name in MODELS)


# Mechanisms


def plan_of(kind: str) -> Plan:
    return make_plan(kind, labels=3, sizes=[30], epsilon=1.0, delta=1e-3)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_what_a_scenario_may_set_is_what_a_mechanism_reads(kind: str) -> None:
    """But for the parameters of the exchange, which all plans are given."""
    exchange = ("theta", "noise", "rounds", "exchange", "relays", "withstand")
    keys = {key for key in MECHANISMS[kind].keys if key not in exchange}
    assert keys <= {option.rstrip("_") for option in mechanism_of(kind).options}


@pytest.mark.parametrize("kind", MECHANISMS)
def test_every_plan_states_what_it_spends_and_its_record_says_whom_it_trusts(kind: str) -> None:
    plan = plan_of(kind)
    assert plan.kind == kind
    assert plan.trust == mechanism_of(kind).trust
    assert plan.stated.view in (View.LEARNER, View.MODEL)
    assert (plan.work is not None) == (plan.holder in (Holder.CURATOR, Holder.SHUFFLER))
    assert MECHANISMS[kind].flips == (plan.parameters.alpha > 0)
    assert MECHANISMS[kind].exchanged == (plan.holder is Holder.PEERS)


def test_figures_know_every_mechanism() -> None:
    assert_complete({kind: styles.style_of(kind) for kind in styles.kinds()}, {*MECHANISMS, AS_PRINTED})


def test_every_holder_of_labels_is_some_mechanism_s_and_a_party_of_the_protocol() -> None:
    assert {plan_of(kind).holder for kind in MECHANISMS} == set(Holder)
    assert {holder.value for holder in Holder} - {"peers"} <= PARTIES.keys()


# Views


def test_every_view_has_its_record() -> None:
    assert_complete(RECORDS, View)
    assert all(record.who and record.sees for record in RECORDS.values())


def test_audits_filter_a_trace_for_every_view_of_the_exchange() -> None:
    assert_complete(SIGHT, MIXED_VIEWS)
    assert set(VIEWS) <= set(MIXED_VIEWS)


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_the_exchange_is_accounted_for_and_attacked(view: View) -> None:
    """The likelihood ratio of each is played for an instant; whether it is right is tested elsewhere."""
    colluders = int(view == View.COALITION)
    parameters = Parameters(alpha=0.2)
    assert account(view, parameters, cluster_size=6, colluders=colluders).get_epsilon(0.01).epsilon > 0
    assert set(play_each(Game(view, 6, parameters, 60, 1, colluders))) == set(ATTACKS)


def test_every_method_of_an_epsilon_and_of_a_curve_has_words() -> None:
    assert_complete(METHODS, get_args(Method))
    assert_complete(curves._RESTS, get_args(get_type_hints(Curve)["how"]))


def test_views_that_are_stated_but_not_of_the_exchange_are_some_mechanism_s_or_a_deployment_s() -> None:
    stated = {view for kind in MECHANISMS for view in plan_of(kind).privacy}
    assert stated | set(MIXED_VIEWS) | {View.USER_HOST} == set(View)


def test_every_view_of_the_mixed_exchange_is_accounted_for_and_said_in_words() -> None:
    parameters = Parameters(alpha=0.2, exchange=Exchange.MIXED, relays=2)
    for view in MIXED_VIEWS:
        answer = account(view, parameters, cluster_size=6, colluders=int(view == View.COALITION)).get_epsilon(0.01)
        sees_labels = RECORDS[view].reports or SIGHT[view].draws or SIGHT[view].opened != "never"
        assert (answer.epsilon > 0) == sees_labels
        assert sees(view, Exchange.MIXED)
    assert set(MIXED_VIEWS) - set(VIEWS) == {View.RELAY}


# Exchanges


def test_every_exchange_has_its_record_and_is_accounted_for_seen_and_audited() -> None:
    assert_complete(EXCHANGES, Exchange)
    for table in (COMES_TO, SEEN_IN, CHECKED):
        assert_complete(table, Exchange)
    for name, record in EXCHANGES.items():
        assert record.words
        assert not (record.relayed and record.permuted)
        assert any(record.hops) == any(record.messages)
        assert views_of(name) == (MIXED_VIEWS if record.relayed else VIEWS)
        assert {name in message.record.exchanges for message in BY_KIND.values()} == {True, False}
    assert [name for name, record in EXCHANGES.items() if record.independent] == [Exchange.PULL]


@pytest.mark.parametrize("relays", [0, 2])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_scenarios_and_parameters_agree_on_which_exchanges_take_relays(exchange: str, relays: int) -> None:
    allowed = EXCHANGES[exchange].relayed == (relays > 0)
    with nullcontext() if allowed else pytest.raises(RequestError, match="relays"):
        Parameters(alpha=0.2, exchange=exchange, relays=relays).check()
    with nullcontext() if allowed else pytest.raises(RequestError, match="relays"):
        replace(Scenario(), mechanism__exchange=str(exchange), mechanism__relays=relays)


# Messages


def test_every_message_is_audited_and_described() -> None:
    records = [message.record for message in BY_KIND.values()]
    assert all(record.senders and record.receivers and record.purpose for record in records)
    for checker in CHECKED.values():
        assert_complete(checker.checks(), KINDS)
    assert_complete(rows_of("protocol.md", "Messages"), KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_documents_and_audits_agree_on_a_message_s_fields_and_on_who_sends_it(kind: str) -> None:
    names = {address: name for name, address in PARTIES.items()} | {"user": "user"}
    sender, receiver, fields, meaning = rows_of("protocol.md", "Messages")[kind]
    assert tuple(re.findall(r"`(\w+)`", fields)) == KINDS[kind]
    assert meaning
    record = BY_KIND[kind].record
    for told, parties in ((sender, record.senders), (receiver, record.receivers)):
        if told != "anyone":
            assert told.split(", ") == [names[party] for party in parties]


def test_documents_name_the_version_that_hellos_carry() -> None:
    assert f"This is version {VERSION};" in (DOCS / "protocol.md").read_text(encoding="utf-8")


def test_an_answer_and_its_question_name_each_other() -> None:
    for kind, message in BY_KIND.items():
        other = message.record.counterpart
        assert other is None or BY_KIND[other].record.counterpart == kind


def test_every_fault_of_a_message_is_described() -> None:
    assert_complete(rows_of("protocol.md", "Refusals"), Fault)


# Data sets


def test_data_sets_read_keys_that_there_are_and_ask_questions_that_can_be_named() -> None:
    for name, examples in DATA_SETS.items():
        assert set(examples.keys) <= set(Data.__dataclass_fields__)
        assert set(data_set_of(name).targets) <= set(TARGETS)
    assert {target for name in DATA_SETS for target in data_set_of(name).targets} | {"class"} == set(TARGETS)


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_data_set_that_does_not_ship_says_which_files_it_reads(name: str, tmp_path: Path) -> None:
    data = Data(name=name, path="some.csv" if name == "csv" else "")
    assert bool(data_set_of(name).places(data, tmp_path)) != DATA_SETS[name].ships


def test_reports_have_words_for_every_question() -> None:
    assert_complete(words._QUESTIONS, TARGETS)


# Adversaries and faults


def example(kind: str) -> Any:
    keys = ADVERSARIES[kind].__dataclass_fields__
    needed = {"victim": 3} if "victim" in keys else {}
    chosen = {"count": 2} if "count" in keys else {}
    return make_entry("adversaries", {"kind": kind, **needed, **chosen})


@pytest.mark.parametrize("kind", ADVERSARIES)
def test_every_adversary_does_something_and_can_be_measured(kind: str) -> None:
    entry = example(kind)
    record = adversary_of(entry)
    assert record.measured(entry)
    assert record.misbehaves == bool(record.replaces or record.install)
    assert record.misbehaves or record.view(entry) in VIEWS
    assert entry.meaning()


def test_every_count_of_a_disturbed_delivery_has_words() -> None:
    assert_complete(words.DELIVERY, get_args(Delivered))


def test_every_fault_has_its_rule_and_is_described() -> None:
    assert_complete([entry.name for entry in faults._RULES], FAULTS)
    assert set(faults._RULES) == set(FAULTS.values())
    assert {*disturbing.DONE_TO_PROCESSES, *disturbing.HIDDEN_BY_TCP} == set(FAULTS.values())
    assert_complete(rows_of("protocol.md", "Faults"), FAULTS)
    assert all(rule.meaning() for rule in FAULTS.values())


# Engines


def test_every_engine_has_its_record_and_is_run() -> None:
    assert_complete(ENGINES, Engine)
    assert_complete(RUNS, Engine)


# Scenarios


def test_every_key_of_a_scenario_is_documented() -> None:
    for section in Scenario.__dataclass_fields__.values():
        for name, key in getattr(getattr(Scenario(), section.name), "__dataclass_fields__", {}).items():
            assert key.metadata["doc"], f"{section.name}.{name}"
