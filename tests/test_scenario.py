"""Scenarios: what is allowed, and what a person is told when it is not."""

from __future__ import annotations

import dataclasses
import math
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import (
    MAX_SEED,
    SECTIONS,
    Scenario,
    Schema,
    documentation,
    load_scenario,
    make_entry,
    parse_scenario,
    replace,
    schema,
)
from p2p_labeldp.scenario.entries import ARRAYS
from p2p_labeldp.scenario.reading import key_of
from p2p_labeldp.scenario.rules import Address, Ids, Named, Number, OneOf, Switch, Text, Whole
from p2p_labeldp.scenario.schema import SchemaTable
from p2p_labeldp.scenario.sections import Mechanism

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").glob("*.toml"))
KEYS = [
    pytest.param(section, item, id=f"{section}.{key_of(item)}")
    for section, cls in SECTIONS.items()
    for item in dataclasses.fields(cls)
]


def complaint(text: str, *overrides: str, seed: Any = None) -> str:
    """What is said about a bad scenario; always one line."""
    with pytest.raises(RequestError) as caught:
        parse_scenario(text, "bad.toml", overrides, seed)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


# What a file may say


def test_an_empty_file_is_the_default_scenario() -> None:
    assert parse_scenario("") == Scenario()


def test_the_defaults_are_the_documented_ones() -> None:
    defaults = {name: default for name, default, _, _ in documentation()}
    assert defaults == {
        f"{section}.{name.rstrip('_')}": "" if isinstance(value, Schema) else value  # a table, said by silence
        for section, table in Scenario().tables().items()
        for name, value in table.items()
    }


@pytest.mark.parametrize(("section", "item"), KEYS)
def test_every_key_has_a_line_of_documentation_and_a_default_that_its_rule_allows(
    section: str, item: dataclasses.Field[Any]
) -> None:
    rule = item.metadata["rule"]
    assert item.metadata["doc"].strip()
    assert "\n" not in item.metadata["doc"] + str(rule)
    assert rule.allows(item.default)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name)
def test_every_scenario_that_ships_loads_and_reads_back(path: Path) -> None:
    scenario = load_scenario(path)
    assert parse_scenario(scenario.to_toml()) == scenario


def test_a_whole_number_serves_where_a_number_is_wanted() -> None:
    alpha = parse_scenario("[mechanism]\nalpha = 1").mechanism.alpha
    assert (alpha, type(alpha)) == (1.0, float)


@pytest.mark.parametrize("value", [0, 0.0, 0.5, 1, 1.0])
def test_the_ends_of_a_range_belong_to_it(value: float) -> None:
    assert parse_scenario(f"[mechanism]\nalpha = {value}\ntheta = {value}").mechanism.theta == value


def test_the_largest_seed_is_the_largest_whole_number_of_toml() -> None:
    assert parse_scenario(f"[coins]\nseed = {MAX_SEED}").coins.seed == 2**63 - 1


# What a file may not say


@pytest.mark.parametrize(
    ("line", "shown", "allowed"),
    [
        ("alpha = 1.2", "mechanism.alpha = 1.2", "a number from 0 to 1"),
        ("alpha = -0.1", "mechanism.alpha = -0.1", "a number from 0 to 1"),
        ("theta = nan", "mechanism.theta = nan", "a number from 0 to 1"),
        ("theta = inf", "mechanism.theta = inf", "a number from 0 to 1"),
        ("theta = -inf", "mechanism.theta = -inf", "a number from 0 to 1"),
        ("alpha = true", "mechanism.alpha = true", "a number from 0 to 1"),
        ('alpha = "0.1"', 'mechanism.alpha = "0.1"', "a number from 0 to 1"),
        ("alpha = [0.1]", "mechanism.alpha = [0.1]", "a number from 0 to 1"),
        ("alpha = 1979-05-27", "mechanism.alpha = 1979-05-27", "a number from 0 to 1"),
        ("rounds = true", "mechanism.rounds = true", "a whole number from 1 to 10000"),
        ("rounds = 1.0", "mechanism.rounds = 1.0", "a whole number from 1 to 10000"),
        ("rounds = 0", "mechanism.rounds = 0", "a whole number from 1 to 10000"),
        ("rounds = 10001", "mechanism.rounds = 10001", "a whole number from 1 to 10000"),
        ('noise = "loud"', 'mechanism.noise = "loud"', 'one of "sticky", "fresh"'),
        ("noise = 3", "mechanism.noise = 3", 'one of "sticky", "fresh"'),
        ('noise = ""', 'mechanism.noise = ""', 'one of "sticky", "fresh"'),
    ],
)
def test_a_bad_value_is_answered_with_its_key_its_line_and_what_is_allowed(line: str, shown: str, allowed: str) -> None:
    message = complaint(f'# a comment\n[data]\nname = "digits"\n\n[mechanism]\n{line}\n')
    assert message == f"bad.toml:6: {shown} is not allowed; it must be {allowed}"


@pytest.mark.parametrize(
    ("text", "key", "allowed"),
    [
        ("[learner]\ncorrect_flips = 1", "learner.correct_flips = 1", "true or false"),
        ('[learner]\ncorrect_flips = "yes"', 'learner.correct_flips = "yes"', "true or false"),
        ("[learner]\nl2 = inf", "learner.l2 = inf", "a number from 0 up"),
        ("[learner]\nl2 = nan", "learner.l2 = nan", "a number from 0 up"),
        ("[data]\npath = 3", "data.path = 3", "a text"),
        ('[data]\npath = "a\\u0000b"', "data.path", "a text"),
        ("[data]\nusers = -1", "data.users = -1", "a whole number from 0 "),
        ('[data]\nname = "minst"', 'data.name = "minst"', '"mnist"'),
        ("[coins]\nseed = -1", "coins.seed = -1", f"to {MAX_SEED}"),
        (f"[coins]\nseed = {2**63}", f"coins.seed = {2**63}", f"to {MAX_SEED}"),
        ("[network]\nhello_limit = 0", "network.hello_limit = 0", "a number from 0.001 up"),
    ],
)
def test_every_type_of_key_says_what_it_accepts(text: str, key: str, allowed: str) -> None:
    message = complaint(text)
    assert message.startswith(f"bad.toml:2: {key}")
    assert allowed in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[learner]\nl2 = 1{'0' * 400}", "learner.l2 = "),  # too large for a float
        (f"[coins]\nseed = {'9' * 5000}", "bad.toml"),  # more digits than Python writes
        (f"[coins]\nseed = 0x{'f' * 5000}", "bad.toml"),
        (f"[data]\nusers = {2**63}", "data.users"),
        ('[data]\nname = "dig\\nits"', "data.name"),  # two lines, shown on one
        ('[data]\n"na\\nme" = 1', "unknown key"),
        (f"[data]\npath = {'[' * 20_000}", "bad.toml"),
        ("alpha = 0.2", "did you mean mechanism.alpha?"),
        ("mechanism = 3", "mechanism is not a section; write [mechanism]"),
        ("[[mechanism]]\nalpha = 0.1", "mechanism is not a section; write [mechanism]"),
        ('[data]\nname = "csv"', "bad.toml: data.path is missing"),
        (
            "[data]\nusers = 5\n[clusters]\ncount = 6",
            "bad.toml: clusters.count = 6 is not allowed; it must be at most the number of users, 5",
        ),
        (
            "[network]\nlatency = 10\nround_limit = 40",
            "network.round_limit = 40 is not allowed; it must be above 40, which 4 messages may take",
        ),
        ("[network]\njitter = 10\nhello_limit = 1", "network.hello_limit = 1 is not allowed; it must be above 10"),
        ('[mechanism]\nkind = "uniform_rr"', "mechanism.epsilon is missing; uniform_rr needs it"),
        (
            '[mechanism]\nkind = "centralized"',
            "centralized needs it, or sigma and lambda",
        ),
        ('[mechanism]\nkind = "shuffle"\nrounds = 2', "mechanism.rounds = 2 is not allowed with shuffle"),
        ("[mechanism]\nalpha = 0.2\nepsilon = 1.0", "mechanism.alpha and mechanism.epsilon exclude each other"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(text: str, said: str) -> None:
    assert said in complaint(text)


@pytest.mark.parametrize(
    ("text", "line", "unknown", "suggestion"),
    [
        ("[mechanism]\nalhpa = 0.1", 2, "unknown key mechanism.alhpa", "did you mean mechanism.alpha?"),
        ("[mechanism]\n\nTheta = 0.1", 3, "unknown key mechanism.Theta", "did you mean mechanism.theta?"),
        ("[clusters]\nminimum = 3", 2, "unknown key clusters.minimum", "did you mean clusters.minimum_size?"),
        ("[mechanism]\nseed = 3", 2, "unknown key mechanism.seed", "did you mean data.seed or coins.seed?"),
        ("\n[machanism]\nalpha = 0.1", 2, "unknown section [machanism]", "did you mean [mechanism]?"),
        ("[cluster]", 1, "unknown section [cluster]", "did you mean [clusters]?"),
        ("[[qqq]]\nx = 1", 1, "unknown section [qqq]", "there are data, clusters"),
    ],
)
def test_an_unknown_name_is_answered_with_its_line_and_the_nearest_valid_one(
    text: str, line: int, unknown: str, suggestion: str
) -> None:
    message = complaint(text)
    assert message.startswith(f"bad.toml:{line}: {unknown}; ")
    assert suggestion in message


def line_of_the_mistake(text: str) -> int:
    return 1 + next(number for number, line in enumerate(text.splitlines()) if "1.2" in line)


@pytest.mark.parametrize(
    "text",
    [
        "\n[mechanism]  # how labels are made noisy\nalpha = 1.2",
        "\n[ mechanism ]\nalpha=1.2",
        "\n\nmechanism.alpha = 1.2",
    ],
    ids=["comment", "spaces", "dotted key"],
)
def test_the_line_is_found_in_every_usual_layout(text: str) -> None:
    line = line_of_the_mistake(text)
    assert complaint(text).startswith(f"bad.toml:{line}: mechanism.alpha = 1.2 is not allowed")


@pytest.mark.parametrize(
    "text",
    [
        '\n["mechanism"]\nalpha = 1.2',
        '\n[mechanism]\n"alpha" = 1.2',
        "\n\nmechanism = { alpha = 1.2 }",
        '[data]\npath = """\n[mechanism]\nalpha = 3\n"""\n[mechanism]\nalpha = 1.2',
    ],
    ids=["quoted section", "quoted key", "inline table", "text of many lines"],
)
def test_no_line_is_named_rather_than_a_wrong_one(text: str) -> None:
    place, _, _ = complaint(text).partition(" mechanism.alpha = 1.2 is not allowed")
    assert place in ("bad.toml:", f"bad.toml:{line_of_the_mistake(text)}:")


@pytest.mark.parametrize("text", ["\nalpha = 0.2", "\nmechanism = 3", '\nmechanism = "peer_to_peer"'])
def test_a_value_that_stands_outside_every_section_is_answered_with_its_line(text: str) -> None:
    assert complaint(text).startswith("bad.toml:2: ")


@pytest.mark.parametrize(
    "text",
    ["[mechanism", "alpha", "[mechanism]\nalpha = ", "[mechanism]\nalpha = .1", "[data]\n[data]", "a = '\x00'"],
)
def test_broken_toml_is_answered_with_the_place_where_it_breaks(text: str) -> None:
    message = complaint(text)
    assert message.startswith("bad.toml: not valid TOML: ")
    assert "line" in message or "end of document" in message


@given(st.text())
def test_any_text_is_a_scenario_or_one_line_of_complaint(text: str) -> None:
    try:
        said = parse_scenario(text).digest()
    except RequestError as error:
        said = str(error)
    assert len(said.splitlines()) == 1


# Files


def test_a_file_that_is_missing_or_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str) -> str:
        with pytest.raises(RequestError) as caught:
            load_scenario(tmp_path / name)
        return str(caught.value).removeprefix(f"{tmp_path}")

    assert refused("nowhere.toml") == "/nowhere.toml: there is no such scenario file"
    assert refused("").startswith(": cannot be read as a scenario: ")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert refused("binary.toml").startswith("/binary.toml: cannot be read as a scenario: ")

    def forbidden(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", forbidden)
    assert refused("secret.toml") == "/secret.toml: cannot be read as a scenario: Permission denied"


def test_a_message_about_a_file_begins_with_its_path_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[mechanism]\nalpha = 2\n")
    with pytest.raises(RequestError) as caught:
        load_scenario(str(path))
    assert str(caught.value).startswith(f"{path}:2: mechanism.alpha = 2 ")


# Overrides and the seed


@pytest.mark.parametrize(
    ("overrides", "key", "value"),
    [
        *(([f"mechanism.alpha={text}"], "mechanism.alpha", 0.2) for text in (".2", "0.2", "2e-1", " 0.2", "+.2")),
        *(([f"mechanism.noise={text}"], "mechanism.noise", "fresh") for text in ("fresh", '"fresh"', "'fresh'")),
        *(
            ([f"data.label_column={text}"], "data.label_column", text)  # a text may be anything
            for text in ("a=b.csv", "folder/data.csv", "with space.csv", "2020", "infinity", "true", "")
        ),
        (["learner.correct_flips=false"], "learner.correct_flips", False),
        (["mechanism.rounds=3"], "mechanism.rounds", 3),
        (["mechanism.alpha=0.2", "mechanism.alpha=0.3"], "mechanism.alpha", 0.3),  # the last one counts
    ],
)
def test_a_value_may_be_overridden_however_it_is_written(overrides: list[str], key: str, value: Any) -> None:
    scenario = parse_scenario("[mechanism]\nalpha = 0.4", overrides=overrides)
    assert attrgetter(key)(scenario) == value


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("mechanism.alpha=1.2", "mechanism.alpha = 1.2 is not allowed; it must be a number from 0 to 1"),
        ("mechanism.alpha=nan", "mechanism.alpha = nan is not allowed"),
        ("mechanism.alpha=", 'mechanism.alpha = "" is not allowed'),
        ("mechanism.alpha=lots", 'mechanism.alpha = "lots" is not allowed'),
        ("mechanism.rounds=.5", "mechanism.rounds = 0.5 is not allowed"),
        ("mechanism.alhpa=0.1", "unknown key mechanism.alhpa; did you mean mechanism.alpha?"),
        ("mecanism.alpha=0.1", "unknown section [mecanism]; did you mean [mechanism]?"),
        ("alpha=0.1", "write it as section.key=value, for example mechanism.alpha=0.2"),
        ("mechanism.alpha", "write it as section.key=value"),
        ("", "write it as section.key=value"),
    ],
)
def test_a_bad_override_is_shown_with_what_is_wrong(override: str, said: str) -> None:
    assert complaint("", override).startswith(f"--set {override}: {said}")


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 20_000, "1\n2", "a\nb"])
def test_a_monstrous_override_is_answered_in_one_line(text: str) -> None:
    assert "mechanism.rounds" in complaint("", f"mechanism.rounds={text}")


@pytest.mark.parametrize("seed", [0, 3])
def test_the_seed_goes_over_the_file_and_the_overrides(seed: int) -> None:
    assert parse_scenario("[coins]\nseed = 1", overrides=["coins.seed=2"], seed=seed).coins.seed == seed


@pytest.mark.parametrize("seed", [-1, 2**63, True, 1.5])
def test_a_bad_seed_is_answered_with_its_option(seed: Any) -> None:
    assert complaint("", seed=seed).startswith("--seed: coins.seed = ")


def test_overrides_are_checked_together_with_the_file() -> None:
    assert "clusters.count" in complaint("[data]\nusers = 5\n[clusters]\ncount = 5", "clusters.count=6")


# Writing back


def schemas() -> st.SearchStrategy[Schema]:
    names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=4)
    finite = st.floats(-1e6, 1e6)
    ranges = st.none() | st.tuples(finite, st.floats(1e6 + 1, 1e9))
    numbers = st.builds(
        schema.Number,
        name=names,
        range=ranges,
        unit=names,
        centre=finite,
        scale=st.floats(0, 1e6),
        missing=st.sampled_from(["refuse", "centre"]),
        count=st.integers(1, 3),
    )
    lists = st.lists(names, min_size=2, max_size=4, unique=True).map(tuple)
    categories = st.builds(schema.Category, name=names, values=lists, other=st.booleans())
    columns = st.lists(numbers | categories, min_size=1, max_size=4).map(tuple)
    found = st.builds(Schema, columns=columns, classes=lists, clusters=lists, missing=lists)
    return st.just(schema.NO_SCHEMA) | found.filter(lambda each: len({*each.names}) == len(each.names))


def values_of(item: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    rule = item.metadata["rule"]
    match rule:
        case OneOf():
            return st.sampled_from(tuple(rule.choices))
        case Switch():
            return st.booleans()
        case Whole():
            return st.integers(rule.low, rule.high)
        case Number():
            high = None if math.isinf(rule.high) else rule.high
            return st.floats(rule.low, high, allow_nan=False, allow_infinity=False)
        case Address():
            hosts = st.sampled_from(["localhost", "10.0.0.1", "[::1]", "coordinator"])
            found = st.builds("{}:{}".format, hosts, st.integers(0, 65535))
            return found | st.just("") if rule.optional else found
        case Ids():
            return st.lists(st.integers(0, 10**6), max_size=4)
        case SchemaTable():
            return schemas()
        case Text() | Named():
            return st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    raise AssertionError(f"no strategy for {rule}")


scenarios = st.fixed_dictionaries(
    {
        section: st.builds(cls, **{item.name: values_of(item) for item in dataclasses.fields(cls)})
        for section, cls in SECTIONS.items()
    }
)


@given(scenarios)
def test_a_scenario_written_as_toml_reads_back_equal(sections: dict[str, Any]) -> None:
    try:
        scenario = Scenario(**sections)
    except RequestError:
        return
    if scenario.mechanism.epsilon > 0:  # alpha then follows from it and is not written
        scenario = replace(scenario, mechanism__alpha=Mechanism().alpha)
    again = parse_scenario(scenario.to_toml())
    assert again == scenario
    assert again.digest() == scenario.digest()


@pytest.mark.parametrize("text", ['"', "\\", "\n", "\t", "\x7f", "\x1b", "é", "\u2028", "\U0001f600", "'''", '"""'])
def test_awkward_characters_survive_being_written(text: str) -> None:
    scenario = replace(Scenario(), data__path=text)
    assert parse_scenario(scenario.to_toml()) == scenario


def test_scenarios_that_differ_have_different_digests() -> None:
    assert Scenario().digest() != replace(Scenario(), coins__seed=1).digest()


def test_replace_changes_one_key_and_checks_it() -> None:
    changed = replace(Scenario(), mechanism__alpha=0.25)
    assert (changed.mechanism.alpha, Scenario().mechanism.alpha) == (0.25, 0.1)
    with pytest.raises(RequestError, match=r"mechanism\.alpha = 1\.2 is not allowed"):
        replace(Scenario(), mechanism__alpha=1.2)
    with pytest.raises(RequestError, match=r"did you mean mechanism\.alpha\?"):
        replace(Scenario(), mechanism__alpa=0.2)


def test_a_scenario_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Scenario().mechanism.alpha = 0.3  # type: ignore[misc]


@pytest.mark.parametrize(("file", "override"), [("alpha = 0.2", "epsilon=0.5"), ("epsilon = 1.0", "alpha=0.3")])
def test_an_override_of_one_takes_the_place_of_the_files_other(file: str, override: str) -> None:
    mechanism = parse_scenario(f"[mechanism]\n{file}", overrides=[f"mechanism.{override}"]).mechanism
    assert (mechanism.alpha, mechanism.epsilon) in ((Mechanism().alpha, 0.5), (0.3, 0.0))


# Entries: faults and adversaries


def entry_strategy(array: str) -> st.SearchStrategy[Any]:
    """Any entry that its own keys allow."""
    naming, kinds = ARRAYS[array]

    def table(cls: type) -> st.SearchStrategy[dict[str, Any]]:
        own = {item.name: values_of(item) for item in dataclasses.fields(cls)}
        some = {name: own.pop(name) for name in ("users", "count", "fraction") if name in own}
        if not some:
            return st.fixed_dictionaries({}, optional=own)
        chosen = st.one_of(*(st.fixed_dictionaries({name: values.filter(bool)}) for name, values in some.items()))
        return st.builds(lambda a, b: a | b, chosen, st.fixed_dictionaries({}, optional=own))

    def made(name: str) -> st.SearchStrategy[Any]:
        return table(kinds[name]).map(lambda keys: {naming: name} | keys)

    return st.sampled_from(sorted(kinds)).flatmap(made)


@pytest.mark.parametrize("array", ARRAYS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_entries_that_are_allowed_read_back_equal(array: str, data: st.DataObject) -> None:
    table = data.draw(entry_strategy(array))
    try:
        scenario = replace(Scenario(), **{array: [make_entry(array, table)]})
    except RequestError:
        return  # a window that is empty or outside the run, users listed twice
    assert parse_scenario(scenario.to_toml()) == scenario


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[faults]]\nrule = "los"', "scenario:1: faults[1]: rule = \"los\" is not known; did you mean 'loss'?"),
        (
            '[[faults]]\nrule = "loss"\nprob = 1',
            "scenario:1: faults[1]: loss has no key prob; did you mean probability?",
        ),
        ("[[faults]]\nprobability = 1", "scenario:1: faults[1]: rule = nothing is not known; there are delay, loss"),
        ("[faults]\nrule = 1", "scenario: faults is not an array of tables; write [[faults]]"),
        (
            '[[faults]]\nrule = "slow"\ncount = 1\n\n[[faults]]\nrule = "loss"\nprobability = 1.5',
            "scenario:5: faults[2]: probability = 1.5 is not allowed; it must be a number from 0 to 1",
        ),
        ('[[faults]]\nrule = "delay"\nstart = 5\nend = 2', "scenario:1: faults[1]: end = 2 is not after start = 5"),
        ('[[faults]]\nrule = "crash"\ncount = 1\nat = 1e9', "scenario: faults[1] (crash): begins at second 1e+09, but"),
        (
            '[[adversaries]]\nkind = "silent"',
            "scenario:1: adversaries[1]: names no users; give users, count or fraction",
        ),
        (
            '[[adversaries]]\nkind = "silent"\ncount = 1\nfraction = 0.5',
            "scenario:1: adversaries[1]: count and fraction exclude each other; give one of them",
        ),
        ('[[adversaries]]\nkind = "silent"\nusers = [1, 1]', "scenario:1: adversaries[1]: users lists someone twice"),
        (
            '[[adversaries]]\nkind = "silent"\nusers = [-1]',
            "scenario:1: adversaries[1]: users = [-1] is not allowed; it must be a list of user ids",
        ),
        (
            '[mechanism]\nkind = "none"\n[[adversaries]]\nkind = "silent"\ncount = 1',
            "scenario: faults and adversaries are for peer_to_peer, not none",
        ),
    ],
)
def test_a_bad_entry_is_named_with_its_position(text: str, expected: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse_scenario(text)
    assert str(raised.value).startswith(expected)


MIXED = '[mechanism]\nexchange = "mixed"\n'
PERMUTED = '[mechanism]\nexchange = "permutation"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[mechanism]\nexchange = "push"', 'it must be one of "pull", "mixed", "permutation"'),
        (MIXED, "mechanism.relays is missing"),
        (MIXED + "relays = 3\nwithstand = 2", "exclude each other"),
        (MIXED + "relays = 11", "mechanism.relays = 11 is not allowed; relays are members of their cluster"),
        (MIXED + "relays = 33", "a whole number from 0 to 32"),
        (MIXED + 'relays = 3\nkind = "shuffle"', "is not allowed with shuffle; it is for peer_to_peer"),
        (PERMUTED + "relays = 3", 'mechanism.relays = 3 is not allowed with exchange "permutation"; it is for "mixed"'),
        (PERMUTED + 'kind = "shuffle"', "is not allowed with shuffle; it is for peer_to_peer"),
        ("[mechanism]\nrelays = 3", 'mechanism.relays = 3 is not allowed with exchange "pull"'),
        ("[mechanism]\nwithstand = 3", 'mechanism.withstand = 3 is not allowed with exchange "pull"'),
    ],
)
def test_relays_are_for_the_mixed_exchange_and_needed_there(text: str, said: str) -> None:
    assert said in complaint(text)


def test_the_mixed_exchange_takes_relays_or_what_they_must_withstand() -> None:
    assert parse_scenario(MIXED + "relays = 3").mechanism.relays == 3
    assert parse_scenario(MIXED + "withstand = 50").mechanism.withstand == 50
