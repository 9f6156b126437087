import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from p2p_labeldp.data import load
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data


def same(one, other):
    return (
        np.array_equal(one.features, other.features)
        and np.array_equal(one.labels, other.labels)
        and np.array_equal(one.test_features, other.test_features)
    )


def test_digits_need_no_file_and_have_pixels_between_0_and_1():
    digits = load(Data(name="digits"), seed=1)
    assert digits.features.shape == (1438, 64)
    assert digits.test_features.shape == (359, 64)
    assert (digits.features.min(), digits.features.max()) == (0, 1)
    assert digits.classes == tuple("0123456789")


def test_parity_asks_for_odd_against_even():
    digits = load(Data(name="digits"), seed=1)
    parity = load(Data(name="digits", target="parity"), seed=1)
    assert parity.classes == ("even", "odd")
    assert np.array_equal(parity.labels, digits.labels % 2)
    assert np.array_equal(parity.test_labels, digits.test_labels % 2)


def test_breast_cancer_is_standardised():
    tumours = load(Data(name="breast_cancer"), seed=1)
    assert tumours.classes == ("malignant", "benign")
    assert np.allclose(tumours.features.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(tumours.features.std(axis=0), 1, atol=1e-5)


def test_the_same_seed_gives_the_same_data_and_another_seed_another_split():
    data = Data(name="digits", users=100)
    assert same(load(data, seed=1), load(data, seed=1))
    assert not same(load(data, seed=1), load(data, seed=2))


def test_fewer_users_are_drawn_without_replacement_and_leave_the_test_set_alone():
    everyone = load(Data(name="breast_cancer"), seed=1)
    some = load(Data(name="breast_cancer", users=50), seed=1)
    rows = {row.tobytes(): index for index, row in enumerate(everyone.features)}
    drawn = [rows[row.tobytes()] for row in some.features]
    assert len(drawn) == 50
    assert drawn == sorted(dict.fromkeys(drawn))
    assert np.array_equal(some.test_features, everyone.test_features)


def test_test_fraction_says_how_much_is_held_out():
    assert len(load(Data(name="digits", test_fraction=0.5), seed=1).labels) == 899


def test_the_global_random_state_is_neither_used_nor_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    load(Data(name="digits", users=10), seed=1)
    load(Data(name="synthetic", users=10), seed=1)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_the_data_do_not_depend_on_the_hash_seed(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("colour,size,label,home\n" + "red,1,a,x\nblue,2,b,y\ngreen,4,c,z\nwhite,4,d,x\n" * 5)
    program = (
        "import hashlib, sys; from p2p_labeldp.data import load; from p2p_labeldp.scenario import Data\n"
        "d = load(Data(name='csv', path=sys.argv[1], cluster_column='home', users=9), 3)\n"
        "print(d.classes, hashlib.sha256(d.features.tobytes() + d.labels.tobytes() +"
        " d.given_clusters.tobytes()).hexdigest())"
    )
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    elsewhere = subprocess.run(
        [sys.executable, "-c", program, str(table)],
        env={**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = load(Data(name="csv", path=str(table), cluster_column="home", users=9), 3)
    content = here.features.tobytes() + here.labels.tobytes() + here.given_clusters.tobytes()
    assert elsewhere == f"{here.classes} {hashlib.sha256(content).hexdigest()}\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (Data(name="digits", users=5000), ["data.users", "1438"]),
        (Data(name="breast_cancer", target="parity"), ["data.target", "class"]),
        (Data(name="digits", target="early"), ["data.target", "class, parity"]),
        (Data(name="diabetes130", target="parity"), ["data.target", "class, early, any"]),
        (Data(name="synthetic", target="parity"), ["data.target", "class"]),
        (Data(name="csv"), ["data.path"]),
        (Data(name="csv", path="no-such.csv"), ["data.path", "no-such.csv"]),
    ],
)
def test_a_wrong_request_is_answered_in_one_line_that_names_the_key(data, words):
    with pytest.raises(RequestError) as caught:
        load(data, seed=1)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_data_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(RequestError, match="missing is not a folder"):
        load(Data(name="mnist"), seed=1, data_dir=tmp_path / "missing")
