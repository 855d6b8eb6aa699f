"""Traces of GPU clusters as manifests: what each format says, and what is wrong with a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gangsched.cluster.manifests import load
from gangsched.cluster.manifests.traces import GPU, GPU_MILLI, NODES_OF_OPENB, form_of, read_trace
from gangsched.model.errors import InputError

PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 07:00:55,600.0,16,9600.0,6214e9
"""
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,460,,LS,Running,100,400,150
openb-pod-0001,1000,1024,0,0,,BE,Pending,50,90,
"""
GFS = """\
job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
a,o,A100,8,8,3,10,100,HP
b,o,A10,4,1,1,0,50,Spot
"""
JOBS = """\
submit_time,duration,pods,gpus,priority
2026-05-04 10:05:00,60,1,1,-5
2026-05-04 10:00:00,3600,4,8,100
"""


def _items(form: str, path: Path, **rest: Any) -> dict[str, list[dict[str, Any]]]:
    out: dict[str, list[dict[str, Any]]] = {}
    for item in json.loads(read_trace(form, str(path), "mine", **rest).text)["items"]:
        out.setdefault(item["kind"], []).append(item)
    return out


def _file(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def _hints(job: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = job["spec"]["template"]["metadata"]["annotations"]
    return found


def _asks(job: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    return found


def test_philly_jobs_of_many_gpus_are_gangs_of_whole_nodes(tmp_path: Path) -> None:
    """A job of 16 GPUs becomes two pods of 8, jobs arrive in the order of their times, and run as long as they did."""
    first, second = _items("philly", _file(tmp_path, PHILLY))["Job"]
    assert (first["spec"]["parallelism"], _asks(first)[GPU]) == (2, "8")
    assert (second["spec"]["parallelism"], _asks(second)[GPU]) == (1, "1")
    assert _hints(second) == {"sim.gangsched.dev/arrive-after": "60.000s", "sim.gangsched.dev/run-for": "66.000s"}


def test_philly_gets_nodes_for_its_mean_load_and_its_widest_job(tmp_path: Path) -> None:
    """Without nodes there are as many as the jobs keep busy, and never fewer than the widest job needs."""
    busy = 16 * 600 / 60 + 66 / 60  # GPU-seconds over the minute between the first arrival and the last
    assert len(_items("philly", _file(tmp_path, PHILLY))["Node"]) == -(-busy // 8)
    one = "timestamp,duration,num_gpus\n0,1,32\n100000,1,1\n"
    assert len(_items("philly", _file(tmp_path, one))["Node"]) == 4
    assert "Node" not in _items("philly", _file(tmp_path, one), nodes=False)


def test_openb_shares_gpus_and_has_its_own_nodes(tmp_path: Path) -> None:
    """A shared GPU is thousandths, a pod runs from its start to its deletion, and nodes are those beside the file."""
    _file(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\nn-0,32000,262144,2,T4\n", NODES_OF_OPENB)
    found = _items("openb", _file(tmp_path, OPENB))
    later = found["Job"][1]
    assert (_asks(later)[GPU_MILLI], _asks(later)["cpu"]) == ("460", "12000m")
    assert _hints(later) == {"sim.gangsched.dev/arrive-after": "50.000s", "sim.gangsched.dev/run-for": "250.000s"}
    assert [node["status"]["allocatable"][GPU_MILLI] for node in found["Node"]] == ["2000"]
    assert GPU_MILLI not in _asks(found["Job"][0])
    assert {each["metadata"]["name"]: each["value"] for each in found["PriorityClass"]} == {
        "trace-be": 0,
        "trace-ls": 1000,
    }


def test_openb_without_times_has_pods_that_stay(tmp_path: Path) -> None:
    """Variants without times arrive one after the other and never end."""
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,1000\nb,1,1,2,1000\n"
    assert [_hints(job) for job in _items("openb", _file(tmp_path, text))["Job"]] == [
        {"sim.gangsched.dev/arrive-after": "0.000s"},
        {"sim.gangsched.dev/arrive-after": "1.000s"},
    ]


def test_gfs_has_workers_and_two_classes(tmp_path: Path) -> None:
    """The workers of a job are its members, and HP jobs may displace Spot jobs."""
    spot, hp = _items("gfs", _file(tmp_path, GFS))["Job"]
    assert (hp["spec"]["parallelism"], hp["spec"]["template"]["spec"]["priorityClassName"]) == (3, "trace-hp")
    assert (spot["spec"]["parallelism"], spot["spec"]["template"]["spec"]["priorityClassName"]) == (1, "trace-spot")


def test_only_the_first_jobs_and_the_scheduler_that_is_asked_for(tmp_path: Path) -> None:
    """``most`` takes the first jobs to arrive, whatever their line, and all pods name the scheduler."""
    (job,) = _items("philly", _file(tmp_path, PHILLY), most=1)["Job"]
    assert job["metadata"]["name"] == "job-3"
    assert job["spec"]["template"]["spec"]["schedulerName"] == "mine"


def test_five_columns_say_all_about_jobs(tmp_path: Path) -> None:
    """The pods of a line are a gang, each with its GPUs, and the priority is the number."""
    found = _items("jobs", _file(tmp_path, JOBS))
    wide, small = found["Job"]
    assert (wide["spec"]["parallelism"], _asks(wide)[GPU]) == (4, "8")
    assert _hints(small) == {"sim.gangsched.dev/arrive-after": "300.000s", "sim.gangsched.dev/run-for": "60.000s"}
    classes = {each["metadata"]["name"]: each["value"] for each in found["PriorityClass"]}
    assert classes == {"trace-100": 100, "trace-minus-5": -5}
    assert small["spec"]["template"]["spec"]["priorityClassName"] == "trace-minus-5"


@pytest.mark.parametrize(
    ("form", "text"), [("philly", PHILLY), ("openb", OPENB), ("gfs", GFS), ("jobs", JOBS), ("jobs", "\ufeff" + JOBS)]
)
def test_the_columns_tell_the_format(tmp_path: Path, form: str, text: str) -> None:
    """A file has the format of which it has all columns."""
    assert form_of(str(_file(tmp_path, text))) == form


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "timestamp,duration\n1,1\n"])
def test_columns_of_no_format_are_refused(tmp_path: Path, text: str) -> None:
    """The error names the columns that each format needs."""
    with pytest.raises(InputError, match="line 1: these columns are of no known trace; known are jobs: submit_time"):
        form_of(str(_file(tmp_path, text)))


@pytest.mark.parametrize(("form", "text"), [("philly", PHILLY), ("openb", OPENB), ("gfs", GFS), ("jobs", JOBS)])
def test_every_format_is_read_without_a_warning(tmp_path: Path, form: str, text: str) -> None:
    """What a trace becomes are manifests that are understood whole."""
    trace = load([read_trace(form, str(_file(tmp_path, text)), "mine")])
    assert not trace.warnings
    assert trace.events


@pytest.mark.parametrize(
    ("form", "text", "error"),
    [
        ("philly", "timestamp,duration,num_gpus\nx:y,1,1\n", "line 2, timestamp: 'x:y' is neither a number"),
        ("philly", "timestamp,duration,num_gpus\n1,nan,1\n", "line 2, duration: 'nan' is neither a number"),
        ("philly", "timestamp,duration,num_gpus\n1,1,1\n1,1,-2\n", "line 3, num_gpus: '-2' is neither a number"),
        ("philly", "timestamp,duration\n1,1\n", "line 2, num_gpus: has no value"),
        ("philly", "timestamp,duration,num_gpus\n", "has no jobs"),
        ("gfs", GFS.replace("Spot", "Odd"), "line 3, job_type: 'Odd' is none of"),
        ("jobs", JOBS.replace("-5", "1.5"), "line 2, priority: '1.5' is not a priority"),
        ("jobs", JOBS.replace("-5", "2000000000"), "line 2, priority: '2000000000' is not a priority"),
        ("jobs", JOBS.replace(",4,", ",,"), "line 3, pods: has no value"),
        ("openb", "name,cpu_milli\na,1\n", "line 2, num_gpu: has no value"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, form: str, text: str, error: str) -> None:
    """A value that is missing or wrong is named with file, line and column."""
    path = _file(tmp_path, text)
    with pytest.raises(InputError) as found:
        read_trace(form, str(path), "mine")
    assert str(found.value).startswith(f"{path}: {error}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A trace that does not exist is an error that names it, not a traceback."""
    with pytest.raises(InputError, match="no such file"):
        read_trace("philly", str(tmp_path / "none.csv"), "mine")
