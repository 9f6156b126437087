"""Binomial masses and tails against exact sums of whole numbers."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import scipy

from p2p_labeldp.privacy.binomial import fair_tail, log_pmf


@pytest.mark.parametrize("trials", [*range(40), 63, 64, 65, 200, 1001])
def test_tails_and_masses_of_fair_coins_are_those_of_exact_sums(trials: int) -> None:
    masses = [math.comb(trials, ones) for ones in range(trials + 1)]
    tails = {least: Fraction(sum(masses[max(least, 0) :]), 2**trials) for least in range(-2, trials + 3)}
    counts = np.arange(-2.0, trials + 3)
    found = dict(zip(tails, fair_tail(np.full(counts.size, float(trials)), counts), strict=True))
    assert all(
        abs(Fraction(float(found[least])) - exact) <= exact * Fraction(1, 10**12) for least, exact in tails.items()
    )
    assert (found[0], found[trials + 1]) == (1, 0)
    logs = log_pmf(np.arange(trials + 1.0), np.full(trials + 1, float(trials)), 0.5)
    assert logs == pytest.approx([math.log(mass) - trials * math.log(2) for mass in masses], abs=1e-12, rel=1e-13)


@pytest.mark.parametrize("trials", [10**4, 10**6, 10**8])
def test_tails_of_many_fair_coins_are_those_of_the_incomplete_beta_function(trials: int) -> None:
    """scipy's is good to about 1e-11 there: sums of 40 digits are nearer to ours."""
    least = np.floor(trials / 2 + np.sqrt(trials) / 2 * np.linspace(-8, 10, 1000))
    found = fair_tail(np.full(least.size, float(trials)), least)
    np.testing.assert_allclose(found, scipy.special.betainc(least, trials - least + 1, 0.5), rtol=5e-11)


def test_an_account_of_two_labels_takes_no_functions_of_scipy() -> None:
    """Their memory is more than that of all the rest that a user host has to check what it is told."""
    program = """if True:
        import sys
        import p2p_labeldp.deployment.users
        from p2p_labeldp.deployment.noise import _spent
        from p2p_labeldp.privacy import Parameters, View
        for view in (View.LEARNER, View.SHUFFLE):
            for theta in (1.0, 0.5):
                assert 0 < _spent(view, 110, Parameters(alpha=0.2, theta=theta), 1e-4) < 1.39
        sys.exit("scipy.special" in sys.modules)
    """
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
