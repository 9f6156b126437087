import numpy as np
import pytest

from p2p_labeldp.data import load
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data

GOOD = "age,colour,label,town\n" + "".join(
    f"{20 + i},{('red', 'blue', '')[i % 3]},{('sick', 'well')[i % 2]},{('b', 'a')[i % 2]}\n" for i in range(40)
)


def read(tmp_path, text, **changes):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return load(Data(name="csv", path=str(path), **changes), seed=1)


def test_numbers_are_standardised_and_categories_one_hot(tmp_path):
    table = read(tmp_path, GOOD)
    assert table.classes == ("sick", "well")
    assert table.features.shape == (32, 1 + 3 + 2)
    assert table.features[:, 0].mean() == pytest.approx(0, abs=1e-6)
    assert table.features[:, 0].std() == pytest.approx(1, rel=1e-5)
    assert (table.features[:, 1:4].sum(axis=1) == 1).all()


def test_the_cluster_column_becomes_clusters_and_is_no_feature(tmp_path):
    table = read(tmp_path, GOOD, cluster_column="town")
    assert table.features.shape == (32, 1 + 3)
    # Everyone who is well (1) lives in town a (0), everyone who is sick in b.
    assert np.array_equal(table.given_clusters, 1 - table.labels)


def test_clusters_that_lose_all_users_to_the_draw_leave_no_gap(tmp_path):
    text = "x,label,home\n" + "".join(f"{i},{'ab'[i % 2]},h{i:02}\n" for i in range(30))
    table = read(tmp_path, text, cluster_column="home", users=5)
    assert sorted(table.given_clusters.tolist()) == [0, 1, 2, 3, 4]


def test_a_missing_number_becomes_the_mean(tmp_path):
    table = read(tmp_path, "x,label\n" + "1,a\n3,b\n" * 20 + "?,a\n,b\n" * 20)
    assert sorted(set(np.sign(table.features[:, 0]).tolist())) == [-1, 0, 1]


def test_a_column_with_too_many_categories_keeps_the_most_frequent(tmp_path):
    text = "name,label\n" + "".join(f"n{i},a\nsmith,b\n" for i in range(200))
    assert read(tmp_path, text).features.shape[1] == 51


def test_a_constant_column_and_one_label_only_are_no_mistake(tmp_path):
    table = read(tmp_path, "x,label\n" + "0.1,a\n" * 10)
    assert table.classes == ("a",)
    assert (table.features == 0).all()


def test_a_number_far_outside_the_others_still_fits(tmp_path):
    for place in range(10):
        rows = ["1,a", "2,b"] * 5
        rows[place] = "1e300,a"
        assert np.isfinite(read(tmp_path, "x,label\n" + "\n".join(rows)).features).all()


def test_fields_may_be_quoted_and_the_file_may_start_with_a_byte_order_mark(tmp_path):
    table = read(tmp_path, "\ufeffx,label\n" + '1,"a, or b"\n2,"say ""c"""\n' * 5)
    assert table.classes == ("a, or b", 'say "c"')


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        (GOOD, {"label_column": "income"}, ["data.label_column", "'age', 'colour', 'label', 'town'"]),
        (GOOD, {"cluster_column": "city"}, ["data.cluster_column", "'age', 'colour', 'label', 'town'"]),
        (GOOD, {"cluster_column": "label"}, ["data.cluster_column"]),
        (GOOD, {"users": 33}, ["data.users", "32"]),
        ("", {}, ["table.csv", "empty"]),
        ("x,label\n", {}, ["table.csv", "0 rows"]),
        ("x,label\n1,a\n", {}, ["table.csv", "1 rows"]),
        ("1,2\n3,4\n5,6\n", {"label_column": "2"}, ["table.csv", "header"]),
        ("x,x,label\n1,2,a\n3,4,b\n", {}, ["table.csv", "two columns named x"]),
        ("x,label\n1,a\n2\n", {}, ["table.csv", "line 3", "1 fields, not 2"]),
        ("x,label\n1,a\n2,\n", {}, ["table.csv", "line 3", "no label"]),
        ("x,label\n1,a\n2,b\noops,a\n", {}, ["table.csv", "line 4", "'oops'"]),
        ("x,label\n1,a\ninf,b\n", {}, ["table.csv", "line 3", "infinite"]),
        ('x,label\n1,a\n2,"b\n', {}, ["table.csv", "CSV"]),
        ("label\na\nb\n", {}, ["table.csv", "no feature"]),
    ],
)
def test_a_broken_table_is_refused_in_one_line(tmp_path, text, changes, words):
    with pytest.raises(RequestError) as caught:
        read(tmp_path, text, **changes)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xff\xfe\x00\x81" * 100)
    with pytest.raises(RequestError, match=r"table\.csv"):
        load(Data(name="csv", path=str(path)), seed=1)


def test_a_relative_path_is_also_looked_for_in_the_data_folder(tmp_path):
    (tmp_path / "table.csv").write_text(GOOD)
    assert len(load(Data(name="csv", path="table.csv"), seed=1, data_dir=tmp_path).labels) == 32


def test_a_file_that_is_not_there_is_named_with_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError) as refused:
        load(Data(name="csv", path="none.csv"), seed=1)
    assert f"there is no file none.csv; looked for in {tmp_path}" in str(refused.value)
