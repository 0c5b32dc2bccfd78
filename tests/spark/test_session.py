"""Sessions: what is set, what is left alone, and the ways in: found by itself, through Connect, on a cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

import pyspark
import pytest
from cbuild import ROOT
from pyspark import cloudpickle  # what Spark sends with
from pyspark.sql import SparkSession

import pyddsi.spark
import pyspark_pyddsi
from pyddsi.cli._machine import Finding
from pyddsi.spark import _session, doctor
from tests.cli.programs import Captured, run
from tests.py.golden import CAPTURES
from tests.spark.frames import one_reader

LOSS = str(CAPTURES / "p2p_loss5.pcap")
SECONDS_MAX = 400
JAVA = {
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
}  # for each of them, as in CONF


def script(text: str, *arguments: str, **environment: str) -> Any:
    """What a program prints as its last line, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        cwd=ROOT,
        env={**os.environ, **JAVA, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


# ---- settings ----


def test_what_one_forgets(spark: SparkSession) -> None:
    """Queries would die as workers have another Python, give other hours elsewhere, or need a network."""
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert conf.get("spark.python.unix.domain.socket.enabled") == "true"


def test_the_one_that_is_there(spark: SparkSession) -> None:
    """A second call would change the settings of the session that somebody works in."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert pyddsi.spark.session() is spark
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_what_others_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting from spark-defaults.conf or the command line would be overwritten."""
    (tmp_path / "spark-defaults.conf").write_text(
        "# a remark\nspark.sql.session.timeZone  Asia/Tokyo\nspark.master=yarn\n\n"
    )
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", '--conf "spark.driver.host=10.0.0.1" pyspark-shell')
    made = _session._defaults()
    assert made == {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.master": "yarn",
        "spark.driver.host": "10.0.0.1",
    }
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    assert _session._defaults() == {}


OWN_PYTHON = """
import json, os, sys
import pyddsi.spark
spark = pyddsi.spark.session(master="local[1]", conf={"spark.ui.enabled": "false", "spark.pyspark.python": sys.executable})
print(json.dumps(pyddsi.spark.read(spark, "captures/p2p_loss5.pcap", columns=["kind"]).count()))
"""


def test_python_as_a_setting() -> None:
    """A session with the setting spark.pyspark.python, which PySpark itself ignores, could run no query; and each would begin with a warning."""
    without = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, "-c", OWN_PYTHON],
        cwd=ROOT,
        env={**without, **JAVA, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert done.stdout.strip() == "1813", done.stderr[-4000:]
    assert "statically registered" not in done.stderr


NOTHING_THERE = """
import sys
if sys.argv[1] == "pyspark":
    sys.modules["pyspark"] = None
import pyddsi.spark
try:
    pyddsi.spark.session(master="local[1]")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "pyspark",
            "ModuleNotFoundError pyspark is needed for this: `pip install 'pyddsi[spark]'`",
        ),
        (
            "java",
            "CaptureError Spark needs Java 17 or newer, and JAVA_HOME is /nowhere, and has no",
        ),
    ],
)
def test_what_is_not_there(what: str, said: str) -> None:
    """Without pyspark or Java there would be a traceback of somebody else's."""
    done = subprocess.run(
        [sys.executable, "-c", NOTHING_THERE, what],
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert done.stdout.startswith(said), done.stdout + done.stderr[-2000:]


# ---- found by itself ----


def test_default_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would not find the source; or where it cannot be loaded, find no other package's either."""
    assert pyspark_pyddsi.DefaultSource is pyddsi.spark.CaptureSource
    assert not hasattr(pyspark_pyddsi, "Other")
    monkeypatch.setitem(sys.modules, "pyddsi.spark.source", None)
    assert not hasattr(pyspark_pyddsi, "DefaultSource")


CONNECT = """
import json, sys
from pyspark.sql import SparkSession
spark = (SparkSession.builder.remote("local[2]").getOrCreate())
found = {"by itself": spark.read.format("pyddsi").option("columns", "kind").load(sys.argv[1]).count()}
import pyddsi.spark
assert pyddsi.spark.session(remote="local[2]") is not None
frame = pyddsi.spark.read(spark, "captures/p2p_loss5.pcap", columns=["kind", "seq_event"])
found["repeats"] = frame.where("kind = 7 AND seq_event IN (3, 8)").count()
pyddsi.spark.register_views(spark, sys.argv[1], tables=["flows", "rates"])
found["flows"] = spark.sql("SELECT src, repeats FROM flows WHERE conduit = 0").toArrow().to_pylist()
try:
    pyddsi.spark.read(spark, sys.argv[1], tabel="x").count()
except Exception as error:
    found["slip"] = str(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def connect() -> Any:
    """What a client of a Connect server finds."""
    # the server is Java's, which a session of the classic kind in this process would be in the way of
    return script(
        CONNECT,
        LOSS,
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
        PYTHONPATH=str(
            ROOT
        ),  # as if it were installed there: an editable installation is not looked through
    )


def test_connect(connect: dict[str, Any]) -> None:
    """Through Connect, the source would not be found by itself, have other rows, or hide what is wrong."""
    assert connect["by itself"] == len(one_reader(LOSS, "messages", ["kind"]))
    assert connect["repeats"] == 401
    assert connect["flows"] == [{"src": "10.77.0.1:35402", "repeats": 401}]
    assert "did you mean 'table'?" in connect["slip"]


WITHOUT = """
import json, sys
sys.modules["pandas"] = sys.modules["numpy"] = None
from pyddsi.spark.source import CaptureSource
source = CaptureSource({"path": sys.argv[1], "columns": "kind"})
reader = source.reader(schema=source.schema())
rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
print(json.dumps(rows))
"""


def test_without_pandas_and_numpy() -> None:
    """Executors would need packages that nothing is done with."""
    assert script(WITHOUT, LOSS) == len(one_reader(LOSS, "messages", ["kind"]))


# ---- a cluster ----

JOB = """
import json, sys
import pyddsi.spark
from pyddsi.spark.doctor import looks
spark = pyddsi.spark.session(conf={"spark.ui.showConsoleProgress": "false"})
frame = pyddsi.spark.read(spark, sys.argv[1], columns=["kind"])
found = list(looks(spark, sys.argv[1], 2))
place = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyddsi").__file__).first()
print(json.dumps([spark.sparkContext.master, frame.count(), place, [look[:2] for look in found]]))
"""


def packed(folder: Path) -> Path:
    """An environment with pyddsi in it, which finds pyarrow where it lies here."""
    python = Path(sys.executable).resolve()
    places = (
        Path("lib") / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    )
    here = Path(sysconfig.get_path("purelib"))
    site = folder / "env" / places
    (folder / "env/bin").mkdir(parents=True)
    (folder / "env/bin/python").symlink_to(python)
    (folder / "env/pyvenv.cfg").write_text(f"home = {python.parent}\n")
    shutil.copytree(ROOT / "pyddsi", site / "pyddsi", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyspark_pyddsi.py", site)
    [info] = {
        info.resolve() for place in sys.path for info in Path(place).glob("pyddsi-*.dist-info")
    }
    shutil.copytree(info, site / info.name)
    (site / "rest.pth").write_text(f"import site; site.addsitedir({str(here)!r})\n")
    archive = folder / "env.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        file.add(folder / "env", ".")
    return archive


def test_cluster(tmp_path: Path) -> None:
    """On a cluster, executors would not get pyddsi with a packed environment, or `session` take the job back to one machine."""
    home = Path(pyspark.__file__).parent
    (tmp_path / "job.py").write_text(JOB)
    archive = packed(tmp_path)
    done = subprocess.run(
        [
            *(home / "bin/spark-submit", "--master", "local-cluster[1,1,1024]"),
            *("--archives", f"{archive}#env", "--conf", "spark.executor.memory=1g"),
            *("--conf", "spark.ui.enabled=false", tmp_path / "job.py", LOSS),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            **JAVA,
            "SPARK_HOME": str(home),
            "SPARK_WORKER_DIR": str(tmp_path / "work"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": "./env/bin/python",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    master, rows, place, looks = json.loads(done.stdout.splitlines()[-1])
    assert master == "local-cluster[1,1,1024]"
    assert rows == len(one_reader(LOSS, "messages", ["kind"]))
    assert "/env/lib/" in place
    assert not Path(place).is_relative_to(ROOT / "pyddsi")
    assert looks == [["driver", "ok"], ["path", "ok"], ["executor", "ok"]]


# ---- the doctor ----


def test_doctor_is_content(
    spark: SparkSession, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Spark that works would be called broken; or a path that nobody sees would be called fine."""
    monkeypatch.setattr(_session, "session", lambda **_: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    assert run("spark", "doctor", LOSS, "--tasks", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:14].split() for line in lines[:3]] == [
        ["ok", "driver"],
        ["ok", "path"],
        ["ok", "executor"],
    ]
    assert lines[-1] == "3 looks: nothing failed"
    assert run("spark", "doctor", str(CAPTURES / "none.pcap"), "--json", "--tasks", "1") == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["level"] for one in found if one["name"] == "path"] == ["fail"]


def test_doctor_says_what_differs() -> None:
    """An executor with another Python, another pyddsi or another file would be called fine."""
    here = doctor._asker(LOSS)()
    assert list(doctor._compared(here, here)) == []
    there = {
        **here,
        "host": "worker7",
        "pyddsi": "0.0.9",
        "python": "3.9",
        "path": "No such file or directory",
    }
    found = {look[0]: Finding(*look) for look in doctor._compared(here, there)}
    assert set(found) == {"python", "pyddsi", "path"}
    assert all(one.level == "fail" and one.mend for one in found.values())
    assert "executor on worker7" in found["pyddsi"].text
    assert "has pyddsi 0.0.9, and the driver" in found["pyddsi"].text
    assert "worker7" in found["path"].text


def test_doctor_runs_where_pyddsi_is_not(tmp_path: Path) -> None:
    """Where pyddsi is missing, the one who is to say so could not be loaded either."""
    (tmp_path / "sent").write_bytes(cloudpickle.dumps(doctor._asker("")))  # type: ignore[no-untyped-call]
    text = (
        "import json, pickle, sys; sys.modules['pyddsi'] = None\n"
        "print(json.dumps(pickle.load(open(sys.argv[1], 'rb'))()))"
    )
    found = script(text, str(tmp_path / "sent"))
    assert found["layout"] is None
    assert "pyddsi" in found["broken"]
    [look] = doctor._compared(doctor._asker("")(), found)
    assert "cannot load pyddsi" in look[2]


def test_submit_help(capsys: Captured) -> None:
    """How pyddsi gets to a cluster would have to be found out by trying, and the obvious way does not work."""
    assert run("spark", "submit-help") == 0
    said = capsys.readouterr().out
    assert "--archives env.tar.gz#env" in said
    assert "cannot go to a cluster with --py-files" in said
    assert run("spark", "doctor", "--conf", "x") == 2
    assert "--conf takes NAME=VALUE" in capsys.readouterr().err
