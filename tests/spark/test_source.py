"""The source in Spark: the same rows as one reader has, however they are cut, pruned and filtered."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pyddsi import capture
from pyddsi.spark import read
from tests.capture.rows import everything
from tests.capture.traffic import traffic, write
from tests.py.golden import CAPTURES, index
from tests.spark.frames import indexed, long_capture, one_reader, rows_of, same

GOLDEN = [str(CAPTURES / name) for name in sorted(index())]
LOSS = str(CAPTURES / "p2p_loss5.pcap")


@pytest.mark.parametrize("table", capture.TABLES)
def test_golden(spark: SparkSession, table: str) -> None:
    """A table in Spark would not be what the core says it is, in any column, for some capture of zhe."""
    found = rows_of(read(spark, GOLDEN, table, everything(table)))
    same(table, found, one_reader(GOLDEN, table))


@pytest.mark.parametrize(("name", "repeats"), [("p2p_loss5", 401), ("three_multicast_loss", 623)])
def test_known_repeats(spark: SparkSession, name: str, repeats: int) -> None:
    """The repeats of the two lossy captures would not be the number that was found by other means."""
    frame = read(spark, CAPTURES / f"{name}.pcap", columns=["kind", "seq_event"])
    assert frame.where("kind = 7 AND seq_event IN (3, 8)").count() == repeats


SIZES = ["64k", "100000", "250k", "1m", "1g"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some MiB with an index of small chunks."""
    path = long_capture(tmp_path_factory.mktemp("large") / "run.pcap")
    with pytest.MonkeyPatch.context() as patch:
        return indexed(path, 60_000, patch)


@pytest.mark.parametrize("size", SIZES)
def test_any_split(spark: SparkSession, large: Path, size: str) -> None:
    """Rows would depend on how a capture is cut for the tasks."""
    columns = ["file", "pkt", "msg", "usn", "seq_event", "gap", "since_first_us", "delivery_us"]
    frame = read(spark, large, columns=columns, split_size=size)
    assert (frame.rdd.getNumPartitions() > 1) == (size != "1g")
    same("messages", rows_of(frame), one_reader(large, "messages", columns))


def test_usual_schema_has_no_dear_columns(spark: SparkSession) -> None:
    """Texts and payloads, which cost more than all the rest, would be read by everybody."""
    names = spark.read.format("pyddsi").load(LOSS).columns
    assert names == [column.name for column in capture.columns("messages") if not column.dear]
    with_texts = read(spark, LOSS, addresses="string", payload="prefix:4")
    assert set(with_texts.columns) - set(names) == {"src", "dst", "payload"}
    assert max(len(row.payload) for row in with_texts.select("payload").dropna().collect()) == 4


def test_user_schema_prunes(spark: SparkSession) -> None:
    """The only way to read fewer columns would not work, or mix them up when their order is another."""
    frame = spark.read.format("pyddsi").schema("usn bigint, kind tinyint").load(LOSS)
    assert frame.columns == ["usn", "kind"]
    wanted = one_reader(LOSS, "messages", ["usn", "kind"])
    assert [(row.usn, row.kind) for row in frame.collect()] == [
        (r["usn"], r["kind"]) for r in wanted
    ]
    named = read(spark, LOSS, columns=["usn", "kind"])
    assert named.schema.fieldNames() == ["usn", "kind"]


def test_sql(spark: SparkSession) -> None:
    """Who writes SQL could not read a capture."""
    spark.sql(
        f"CREATE TEMPORARY VIEW lossy USING pyddsi OPTIONS (path '{LOSS}', table 'events', where 'type == \"gap\" or pkt > 3')"
    )
    wanted = one_reader(LOSS, "events", ["pkt"], where="type == 'gap' or pkt > 3")
    assert spark.sql("SELECT count(*) FROM lossy").collect() == [(len(wanted),)]


def test_time_and_filter(spark: SparkSession, large: Path) -> None:
    """A range of time would have other rows than one reader has."""
    options = {"where": "kind == SDATA and seq_event == 3"}
    wanted = one_reader(large, "messages", ["pkt", "usn"], start=3.0, stop=7.5, **options)
    found = rows_of(read(spark, large, columns=["pkt", "usn"], from_="3.0", to="7.5", **options))
    assert found == wanted
    assert wanted


WRONG = [
    ({"tabel": "packets"}, "no option 'tabel'; did you mean 'table'"),
    ({"table": "packet"}, "no table 'packet'; did you mean 'packets'"),
    ({"columns": "knd"}, "no column 'knd'; did you mean 'kind'"),
    ({"where": "kind == SDTA"}, "did you mean 'SDATA'"),
]


@pytest.mark.parametrize(("options", "why"), WRONG)
def test_slips_are_found_in_load(spark: SparkSession, options: dict[str, str], why: str) -> None:
    """A slip would be passed over in silence, or found by a task after minutes, or the error would not say what is right."""
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("pyddsi").options(**options).load(LOSS)
    assert why in str(caught.value)


def test_wrong_schema(spark: SparkSession) -> None:
    """A schema of other types would end in an error of the JVM that nobody understands."""
    frame = spark.read.format("pyddsi").schema("kind int").load(LOSS)
    with pytest.raises(AnalysisException, match="'kind' of table 'messages' is tinyint"):
        frame.count()


def test_no_file(spark: SparkSession, tmp_path: Path) -> None:
    """A wrong path would give an empty table."""
    with pytest.raises(AnalysisException, match="there is no such file"):
        read(spark, tmp_path / "none.pcap").count()


def test_file_that_an_executor_does_not_see(spark: SparkSession, tmp_path: Path) -> None:
    """Who names a file of the driver's disk would be told of a FileNotFoundError deep in a task."""
    path = tmp_path / "here.pcap"
    path.write_bytes(Path(LOSS).read_bytes())
    frame = read(spark, path, columns=["kind"])
    partitions = frame.rdd  # planned now
    path.unlink()
    with pytest.raises(PythonException, match="was there when the query was planned"):
        partitions.count()


def test_modes(spark: SparkSession, tmp_path: Path) -> None:
    """A bad packet would stop a query that may go on, or be passed over by one that is to stop; or Spark hide which one it is."""
    frames = traffic(4, packets=100).frames
    frames[50].data = b"\x07"
    path = write(tmp_path / "bad.pcap", frames)
    found = rows_of(read(spark, path, "packets", ["pkt", "decode"]).where("decode = 3"))
    assert found == one_reader(path, "packets", ["pkt", "decode"], where="decode == 3")
    [row] = found
    with pytest.raises(PythonException, match=rf"packet {row['pkt']} at byte \d+ is malformed"):
        read(spark, path, columns=["kind"], mode="failfast").count()


def test_packed(spark: SparkSession, tmp_path: Path) -> None:
    """A packed capture would be cut where it cannot be read from."""
    path = tmp_path / "run.pcap.gz"
    path.write_bytes(gzip.compress(Path(LOSS).read_bytes()))
    frame = read(spark, path, columns=["kind", "usn"], split_size="64k")
    assert frame.rdd.getNumPartitions() == 1
    assert rows_of(frame) == one_reader(LOSS, "messages", ["kind", "usn"])


def test_files(spark: SparkSession, large: Path) -> None:
    """Nobody could tell which file a number stands for, or what is wrong with one."""
    rows = rows_of(read(spark, [large, LOSS], "files"))
    assert [Path(row["path"]).name for row in rows] == ["run.pcap", "p2p_loss5.pcap"]
    assert [row["file"] for row in rows] == [0, 1]
    assert rows[1]["packets"] == 1487
    assert rows[1]["messages"] == len(one_reader(LOSS, "messages", ["kind"]))
    assert {row["problem"] for row in rows} == {None}


def test_counts_by_resource(spark: SparkSession) -> None:
    """An aggregation over several files, which is what one does, would not add up."""
    frame = read(spark, GOLDEN, columns=["rid", "payload_len"], where="kind == SDATA")
    found = frame.groupBy("rid").agg(f.count("*").alias("n"), f.sum("payload_len").alias("b"))
    wanted: dict[int, list[int]] = {}
    for row in one_reader(GOLDEN, "messages", ["rid", "payload_len"], where="kind == SDATA"):
        into = wanted.setdefault(row["rid"], [0, 0])
        into[0] += 1
        into[1] += row["payload_len"]
    assert {row.rid: [row.n, row.b] for row in found.collect()} == wanted


def test_capitals(spark: SparkSession) -> None:
    """A schema in capitals would end in an error of Arrow's, or its columns be empty."""
    schema = "KIND tinyint, Seq_Event tinyint"
    frame = spark.read.format("pyddsi").schema(schema).load(str(LOSS))
    assert frame.columns == ["KIND", "Seq_Event"]
    assert frame.where("kind = 7 AND seq_event IN (3, 8)").count() == 401
    files = spark.read.format("pyddsi").option("table", "files").schema("FILE int, Frames bigint")
    assert files.load(str(LOSS)).collect()[0][1] > 0


def test_view_of_a_source(spark: SparkSession) -> None:
    """What is told to whoever wants a table of a catalog would not work, or not be told."""
    options = f"USING pyddsi OPTIONS (path '{LOSS}', columns 'kind')"
    spark.sql(f"CREATE TEMPORARY VIEW kept {options}")
    assert spark.sql("SELECT count(*) FROM kept WHERE kind = 7").collect()[0][0] == 1601
    with pytest.raises(Exception, match="write CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE never {options}")
    spark.catalog.dropTempView("kept")


def test_names_are_no_letters(spark: SparkSession) -> None:
    """columns="kind" would be four columns of a letter each."""
    with pytest.raises(TypeError, match=r"columns is a list of names: \['kind'\]"):
        read(spark, LOSS, columns="kind")


def test_ids_in_pandas(spark: SparkSession) -> None:
    """An id would be another number where a column has nulls, since pandas makes floats of these."""
    messages: Any = read(spark, LOSS, columns=["flow", "src_ep"]).toPandas()
    flows: Any = read(spark, LOSS, "flows", ["flow", "src_ep"]).toPandas()
    assert str(messages.flow.dtype) == "float64"
    found = messages.dropna()
    assert len(found) == 1806
    assert int(found.flow.astype("int64").isin(flows.flow).sum()) == len(found)
    assert int(found.flow.isin(flows.flow).sum()) == len(found)
