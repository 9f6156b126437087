"""What pages and tables say of guarantees: true of the run, rounded up, the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import TWO_LABELS, sixty

from p2p_labeldp.experiments.run import run
from p2p_labeldp.privacy import RECORDS, Account, Guarantee, View
from p2p_labeldp.privacy.numbers import factor, rounded_down, rounded_up, shown_epsilon
from p2p_labeldp.reporting.blocks import Figure, Table
from p2p_labeldp.reporting.privacy import privacy_section
from p2p_labeldp.reporting.recorded import Recorded, read_run
from p2p_labeldp.reporting.report import page_of
from p2p_labeldp.reporting.words import GLOSSARY
from p2p_labeldp.runs.stated import rows, sees, short, who
from p2p_labeldp.scenario import MECHANISMS

Record = Callable[..., Recorded]


@pytest.fixture
def recorded_of(tmp_path: Path) -> Record:
    """Run the scenario with some changes, and read its folder."""

    def record(*settings: str, extra: str = "", engine: str = "vectorized") -> Recorded:
        place = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        run(sixty(*settings, text=TWO_LABELS + extra), engine=engine, out=place)
        return read_run(place)

    return record


def said(recorded: Recorded) -> str:
    """Everything that the page says, its figures' drawings left out."""
    page = page_of(recorded, None)
    texts = [page.verdict, *page.lead, *page.warnings, *(word for tile in page.tiles for word in tile)]
    for section in page.sections:
        for block in section.blocks:
            texts.append(getattr(block, "words", ""))
            table = block.data if isinstance(block, Figure) else block
            texts += [cell for row in getattr(table, "rows", ()) for cell in (*row, *table.head)]  # type: ignore[union-attr]
    return "\n".join(texts)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("view", View)
def test_every_view_of_every_mechanism_has_words(view: View, mechanism: str) -> None:
    guarantee = Guarantee(epsilon=1.0, delta=0.0, view=view)
    assert all((who(view, guarantee), short(view, guarantee), sees(view, mechanism)))


@pytest.mark.parametrize(
    ("colluders", "words"),
    [
        (1, "the learner colluding with one user"),
        (120, "the learner colluding with 120 users"),
        (None, RECORDS[View.COALITION].who),
    ],
)
def test_a_coalition_is_told_by_its_colluders(colluders: int | None, words: str) -> None:
    assert who(View.COALITION, Guarantee(epsilon=1, delta=0, view=View.COALITION, colluders=colluders)) == words


def test_a_row_says_at_most_where_the_epsilon_is_not_exact() -> None:
    table = {
        View.LEARNER: Guarantee(epsilon=0.78551, delta=1.231e-4, view=View.LEARNER, method="exact", cluster_size=73),
        View.PEER: Guarantee(epsilon=2.18201, delta=1.231e-4, view=View.PEER, method="upper_bound", reason="why"),
        View.NETWORK: Guarantee(epsilon=math.inf, delta=0.0, view=View.NETWORK, reason="sees the true label"),
    }
    found = {row.view: row for row in rows(table, "peer_to_peer")}
    assert (found[View.LEARNER].epsilon, found[View.LEARNER].delta) == ("0.7856", "0.000124")
    assert (found[View.LEARNER].cluster_size, found[View.PEER].cluster_size) == ("73", "")
    assert found[View.PEER].line == "epsilon at most 2.183: a peer"
    assert (found[View.NETWORK].epsilon, found[View.NETWORK].reason) == ("infinite", "sees the true label")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["privacy.delta=0.7", "mechanism.theta=1"], "up to 0.7 more probable"),
        (["privacy.delta=0.7", "mechanism.alpha=0.5", "learner.correct_flips=false"], "says nothing about any label"),
        (["privacy.delta=0.7", "mechanism.theta=0"], "says nothing about any label"),
        (["clusters.minimum_size=1000"], "everyone abstained, so that there is nothing to see"),
        (["mechanism.kind=none"], "Nothing is guaranteed against the learner"),
        ([], "times as likely with one label of a user as with another, plus delta"),
        (["mechanism.kind=uniform_rr", "mechanism.epsilon=1"], "2.72 times as likely with one label of a user as with"),
    ],
)
def test_the_verdict_says_what_epsilon_and_delta_mean(recorded_of: Record, settings: list[str], words: str) -> None:
    recorded = recorded_of(*settings)
    verdict = page_of(recorded, None).verdict
    assert words in verdict
    assert ("says nothing" in verdict) == ("says nothing" in words)


def test_nothing_is_said_of_odds_or_of_a_guarantee_that_fails_with_probability_delta(recorded_of: Record) -> None:
    text = said(recorded_of()) + " ".join(meaning for _, meaning in GLOSSARY)
    for false in ("odds", "-fold", "may fail", "promise", "has all of them"):
        assert false not in text, false


def test_a_limit_without_delta_is_that_of_the_flips_over_all_rounds(recorded_of: Record) -> None:
    for settings, rounds in (
        ([], 1),
        (["mechanism.rounds=2"], 1),
        (["mechanism.rounds=2", "mechanism.noise=fresh"], 2),
    ):
        limit = rounded_up(rounds * math.log(4), 4)
        assert f"(epsilon {limit} at delta 0)" in said(recorded_of(*settings)), "flips of one in five"
    assert "A limit without any delta" not in said(recorded_of("mechanism.kind=none"))


def test_trust_is_not_told_of_flips_that_protect_nobody(recorded_of: Record) -> None:
    text = said(recorded_of(extra='\n[[adversaries]]\nkind = "fresh_answers"\nusers = [1]\n', engine="actors"))
    assert "flips alone protect" not in text
    assert "new noise for every asker: nothing protects their labels from colluders" in text
    assert "A limit without any delta" not in text
    rounds = recorded_of("mechanism.rounds=2", "mechanism.noise=fresh")
    assert "one noisy label in each of 2 rounds" in said(rounds)


def test_what_became_of_a_target_is_told(recorded_of: Record) -> None:
    assert "but everyone abstained" in said(recorded_of("mechanism.epsilon=0.5", "clusters.minimum_size=1000"))
    assert "and the noise was chosen to meet it" in said(recorded_of("mechanism.epsilon=0.5"))


def test_no_number_of_a_guarantee_is_shown_below_it(recorded_of: Record) -> None:
    summary = (recorded := recorded_of()).summary
    table, figure = (block for block in privacy_section(recorded).blocks if isinstance(block, Table | Figure))
    assert isinstance(table, Table)
    assert isinstance(figure, Figure)
    assert figure.data is not None
    for row, guarantee in zip(table.rows, summary.privacy.values(), strict=True):
        assert float(row[2].removeprefix("at most ")) >= guarantee.epsilon
        assert float(row[3]) >= guarantee.delta
        assert float(row[4]) >= math.exp(guarantee.epsilon)
    shown = summary.curves["learner"]
    cells = [row for row in figure.data.rows if row[0] == "the learner"]
    step = max(1, (len(shown.epsilons) - 1) // 8)
    for row, epsilon, delta in zip(cells, shown.epsilons[::step], shown.deltas[::step], strict=True):
        assert (float(row[1]) >= epsilon, float(row[2]) >= delta) == (True, True)


def test_a_caption_names_the_sizes_whose_curve_it_is(recorded_of: Record) -> None:
    recorded = recorded_of("data.groups=5")
    named = recorded.summary.curves["learner"].sizes
    assert len(named) >= 2
    (figure,) = (block for block in privacy_section(recorded).blocks if isinstance(block, Figure))
    assert f"and {named[-1]} users; users of clusters of other sizes have the table's pair only" in figure.caption
    assert "Every pair on a curve holds" not in figure.caption


def test_a_page_computes_no_account(recorded_of: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = recorded_of(extra='\n[[adversaries]]\nkind = "collusion"\nusers = [0, 1, 2]\n')

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a page asked for an account")

    for name in ("get_delta", "get_epsilon"):
        monkeypatch.setattr(Account, name, refuse)
    assert page_of(recorded, None).sections


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(1.16455, 3, "1.17"), (0.02439, 2, "0.025"), (0.1, 3, "0.1"), (6.25e-8, 3, "6.25e-08"), (0, 3, "0"),
     (0.9999, 3, "1"), (2.0001, 3, "2.01"), (math.inf, 3, "inf")],
)  # fmt: skip
def test_numbers_are_rounded_up(value: float, digits: int, shown: str) -> None:
    assert rounded_up(value, digits) == shown


def test_an_infinite_epsilon_is_a_word() -> None:
    assert (shown_epsilon(math.inf), shown_epsilon(2.18201)) == ("infinite", "2.183")


@given(value=st.floats(0, 1e300), digits=st.integers(1, 8))
def test_no_number_is_rounded_down_and_none_by_more_than_its_last_digit(value: float, digits: int) -> None:
    shown = float(rounded_up(value, digits))
    assert value <= shown <= value * (1 + 1.0000001 * 10.0 ** (1 - digits)) + 5e-324
    assert value * (1 - 1.0000001 * 10.0 ** (1 - digits)) - 5e-324 <= float(rounded_down(value, digits)) <= value


@given(epsilon=st.floats(0, 30))
def test_no_factor_is_shown_below_itself(epsilon: float) -> None:
    assert float(factor(epsilon).replace(",", "")) >= math.exp(epsilon)
