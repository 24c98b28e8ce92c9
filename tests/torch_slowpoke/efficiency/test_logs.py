"""Logs as they are: real samples counted by hand, and made-up lines for what they lack."""

import gzip
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.logs import JobLog, read_log, schedule_of_log, slurm
from torch_slowpoke.efficiency.logs.fields import date_seconds, duration_seconds, node_count
from torch_slowpoke.efficiency.logs.joblog import JobLogBuilder, RowError
from torch_slowpoke.efficiency.logs.slurm import SACCT_FORMAT
from torch_slowpoke.efficiency.rate import failure_rate

HEADER = "JobIDRaw|Submit|Start|End|Elapsed|Timelimit|AllocNodes|State|FailedNode|NodeList|JobName"
GOOD = (
    "7|2024-03-01T00:00:00|2024-03-01T01:00:00|2024-03-01T03:00:00|02:00:00|04:00:00|8|"
    "COMPLETED||n[1-8]|a job"
)


def row(**changed: str) -> str:
    fields = dict(zip(HEADER.split("|"), GOOD.split("|"), strict=True))
    return "|".join((fields | changed).values())


def log_of(tmp_path: Path, *lines: str, end: str = "\n") -> JobLog:
    path = tmp_path / "log.txt"
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return read_log(path)


def reasons(log: JobLog) -> dict[str, int]:
    found = {r: n.count for r, n in log.report.rejected.items()}
    return found | {r: n.count for r, n in log.report.skipped.items()}


# ---- the samples, counted by hand --------------------------------------------------------------


def test_the_apel_sacct_sample(samples: Path) -> None:
    """28 lines: a header, 9 steps, 4 jobs, and job 123 in 14 states of which 2 have not started.

    RUNNING, RESIZING, SUSPENDED and COMPLETING are all still running: one run, 4 records; it is
    finished in the others.
    """
    log = read_log(samples / "sacct" / "apel_slurm.sacct.noheader.psv")
    assert log.report.n_lines == 28
    assert log.report.n_jobs == 12
    assert log.by_state == {
        "COMPLETED": 5,
        "FAILED": 1,
        "CANCELLED": 1,
        "TIMEOUT": 1,
        "NODE_FAIL": 1,
        "BOOT_FAIL": 1,
        "DEADLINE": 1,
        "PREEMPTED": 1,
    }
    assert log.report.skipped["step of a job"].count == 9
    assert log.report.skipped["step of a job"].lines == [2, 3, 4]
    assert log.report.skipped["waiting: not started yet"].count == 2
    assert log.report.n_rejected == 0
    # 1000 ran 2 s, 5940815 2-01:24:56, 5961074 01:09:48, 5979785 00:03:25, 123 8 times 16 s.
    seconds = 2 + (2 * 86400 + 1 * 3600 + 24 * 60 + 56) + (3600 + 9 * 60 + 48) + 205 + 8 * 16
    assert log.exposure_node_hours == pytest.approx(seconds / 3600, rel=1e-15)


def test_the_reportseff_sample_with_steps(samples: Path) -> None:
    """33 lines: a header, 22 steps, 9 jobs and one of them twice; 28 lines lack the last column."""
    log = read_log(samples / "sacct" / "reportseff_steps.sacct.psv")
    assert log.report.n_lines == 33
    assert log.report.n_jobs == 9
    assert log.report.skipped["step of a job"].count == 22
    assert log.report.skipped["duplicate of an earlier record"].lines == [15]
    assert log.report.n_rejected == 0
    assert sum(r.count for r in log.report.repaired.values()) == 28
    assert log.by_state == {"COMPLETED": 5, "FAILED": 1, "CANCELLED": 2, "TIMEOUT": 1}
    assert log.n_nodes.tolist() == [1, 4, 1, 1, 1, 1, 1, 20, 1]
    assert log.elapsed_seconds[7] == 12 * 86400 + 14 * 3600 + 16 * 60 + 39
    assert math.isinf(log.limit_seconds[7])
    assert log.overran.tolist() == [False] * 6 + [True, False, False]  # 46044267 by 324 s


def test_the_apel_pbs_sample(samples: Path) -> None:
    """10 lines: two walltimes are cut off, two jobs used no time, one ends before it starts."""
    log = read_log(samples / "sacct" / "apel_pbs.log")
    assert (log.report.n_lines, log.report.n_jobs) == (10, 5)
    assert reasons(log) == {
        "walltime is not [D-]HH:MM:SS": 2,
        "no time used: the job never ran": 2,
        "the job ends before it starts": 1,
    }
    assert log.report.rejected["the job ends before it starts"].lines == [10]
    assert log.elapsed_seconds.tolist() == [12767.0, 12767.0, 12144.0, 17012.0, 56.0]
    assert log.by_state == {"COMPLETED": 4, "CANCELLED": 1}


def test_the_apel_lsf_sample(samples: Path) -> None:
    """6 lines: one lacks a blank and so a field, one ends before it starts, one is there twice."""
    log = read_log(samples / "sacct" / "apel_lsf.log")
    assert (log.report.n_lines, log.report.n_jobs) == (6, 3)
    assert log.report.n_rejected == 2
    assert log.report.skipped["duplicate of an earlier record"].count == 1
    # 8 slots on comp042 and 8 on comp043 are two nodes for 16 s; the last ran 25 s.
    assert log.n_nodes.tolist() == [1.0, 2.0, 1.0]
    assert log.elapsed_seconds.tolist() == [544.0, 16.0, 25.0]
    assert log.by_state == {"COMPLETED": 2, "FAILED": 1}


def test_the_swf_samples(samples: Path) -> None:
    for name in ("easy", "filler"):
        path = samples / "swf" / f"{name}_mediumWL_smallPF.head220.swf"
        log = read_log(path)
        assert (log.report.format, log.report.n_jobs, log.report.n_rejected) == ("swf", 220, 0)
        fields = [line.split() for line in path.read_text().splitlines()]
        by_hand = sum(float(f[3]) * int(f[4]) for f in fields) / 3600
        assert log.exposure_node_hours == pytest.approx(by_hand, rel=1e-12)
        assert log.limit_seconds[0] == 149.0


def test_the_authors_table(frontier_csv: Path) -> None:
    log = read_log(frontier_csv)
    assert log.report.n_jobs == 331_640
    assert log.exposure_node_hours == pytest.approx(60_078_790.64444445, rel=1e-14)
    assert int(np.count_nonzero(log.overran)) == 64_303
    assert schedule_of_log(log).n_nodes.size == 3537


# ---- Slurm -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"State": "EXPLODED"}, "state is not one of Slurm's"),
        ({"State": ""}, "state is missing"),
        ({"AllocNodes": ""}, "no number of nodes"),
        ({"AllocNodes": "-8"}, "number of nodes is not a whole number"),
        ({"AllocNodes": "8.5"}, "number of nodes is not a whole number"),
        ({"AllocNodes": "0"}, "time used on no node"),
        ({"Elapsed": "INVALID"}, "elapsed time is not [D-]HH:MM:SS"),
        ({"Elapsed": ""}, "elapsed time is missing"),
        ({"Elapsed": "02:00"}, None),
        ({"Elapsed": "-02:00:00"}, "elapsed time is not [D-]HH:MM:SS"),
        ({"Elapsed": "02:60:00"}, "elapsed time is not [D-]HH:MM:SS"),
        ({"Elapsed": "1-02:00:00"}, "elapsed time is longer than from start to end"),
        ({"Elapsed": "00:00:00"}, "no time used: the job never ran"),
        ({"End": "2024-02-29T00:00:00"}, "the job ends before it starts"),
        ({"End": "2024-02-30T00:00:00"}, "a date is not YYYY-MM-DDTHH:MM:SS"),
        ({"End": "yesterday"}, "a date is not YYYY-MM-DDTHH:MM:SS"),
        ({"Timelimit": "soon"}, "time limit is not [D-]HH:MM:SS"),
        ({"JobIDRaw": ""}, "job id is not a number"),
        ({"JobIDRaw": "7.batch"}, "step of a job"),
        ({"JobIDRaw": "7.0"}, "step of a job"),
        ({"State": "PENDING", "Start": "Unknown", "End": "Unknown"}, "waiting: not started yet"),
        ({"JobName": "a|b|c"}, None),
        ({"Timelimit": "Partition_Limit"}, None),
        ({"Timelimit": "UNLIMITED"}, None),
        ({"JobIDRaw": "7_12"}, None),
        ({"JobIDRaw": "7+0"}, None),
        ({"State": "CANCELLED by 1000"}, None),
        ({"State": "CANCELLED+"}, None),
        ({"State": "RUNNING", "End": "Unknown"}, None),
        ({"Start": "1709254800", "End": "1709262000"}, None),
    ],
)
def test_one_line_after_another(
    tmp_path: Path, changed: dict[str, str], reason: str | None
) -> None:
    log = log_of(tmp_path, HEADER, row(JobIDRaw="1"), row(**changed))
    assert reasons(log) == ({} if reason is None else {reason: 1})
    assert log.report.n_jobs == (2 if reason is None else 1)


def test_states_in_all_their_forms(tmp_path: Path) -> None:
    texts = ("NODE_FAIL,REQUEUED", "REQUEUED,NODE_FAIL", "NF", "CANCELLED by 0", "OUT_OF_ME+", "TO")
    lines = [row(JobIDRaw=str(i), State=s) for i, s in enumerate(texts, 10)]
    log = log_of(tmp_path, HEADER, *lines)
    assert log.by_state == {"CANCELLED": 1, "TIMEOUT": 1, "NODE_FAIL": 3}
    assert reasons(log) == {"state is not one of Slurm's": 1}


def test_a_requeued_job_is_two_runs(tmp_path: Path) -> None:
    first = row(State="NODE_FAIL", FailedNode="n3")
    second = row(
        Submit="2024-03-01T03:00:01", Start="2024-03-01T04:00:00", End="2024-03-01T06:00:00"
    )
    log = log_of(tmp_path, HEADER, first, second, second)
    assert log.by_state == {"COMPLETED": 1, "NODE_FAIL": 1}
    assert reasons(log) == {"duplicate of an earlier record": 1}
    assert log.failed_hosts == {0: "n3"}


def test_a_dump_made_while_the_job_ran_gives_way(tmp_path: Path) -> None:
    running = row(State="RUNNING", End="Unknown", Elapsed="01:00:00")
    later = row(State="RUNNING", End="Unknown", Elapsed="01:30:00")
    for lines in ((running, later, GOOD), (GOOD, running, later), (running, GOOD, later)):
        log = log_of(tmp_path, HEADER, *lines)
        assert log.by_state == {"COMPLETED": 1}
        assert log.report.n_skipped == 2
    still = log_of(tmp_path, HEADER, running, later)
    assert still.elapsed_seconds.tolist() == [5400.0]


def test_our_own_command_needs_no_header(tmp_path: Path) -> None:
    values = {
        "JobIDRaw": "9", "JobID": "9", "Cluster": "c", "Submit": "2024-03-01T00:00:00",
        "Start": "2024-03-01T01:00:00", "End": "2024-03-01T03:00:00", "ElapsedRaw": "7200",
        "TimelimitRaw": "240", "NNodes": "16", "AllocNodes": "8", "State": "COMPLETED",
        "JobName": "x|y",
    }  # fmt: skip
    line = "|".join(values.get(name, "") for name in SACCT_FORMAT.split(","))
    for lines in ([line], [line.replace("x|y", "x")], [line.replace("x|y", "x|")]):
        log = log_of(tmp_path, *lines)
        assert (log.n_nodes[0], log.elapsed_seconds[0], log.limit_seconds[0]) == (8, 7200, 14400)


def test_other_delimiters_and_trailing_ones(tmp_path: Path) -> None:
    for text in (
        (HEADER + "|", GOOD + "|"),
        (HEADER.replace("|", ";"), GOOD.replace("|", ";")),
        (HEADER.replace("|", ","), GOOD.replace("|", ",").replace("n[1-8]", "n1")),
    ):
        assert log_of(tmp_path, *text).elapsed_seconds.tolist() == [7200.0]


def test_two_logs_in_one_file(tmp_path: Path) -> None:
    log = log_of(tmp_path, HEADER, GOOD, HEADER, row(JobIDRaw="8"))
    assert log.report.n_jobs == 2
    assert reasons(log) == {"header": 1}


def test_clocks_set_back_in_autumn_are_no_contradiction(tmp_path: Path) -> None:
    autumn = row(Start="2024-10-27T02:59:50", End="2024-10-27T02:00:10", Elapsed="00:00:20")
    spring = row(
        JobIDRaw="8", Start="2024-03-31T01:59:00", End="2024-03-31T03:00:00", Elapsed="00:01:00"
    )
    assert log_of(tmp_path, HEADER, autumn, spring).report.n_jobs == 2


def test_applications_come_from_a_column(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("\n".join([HEADER, GOOD, row(JobIDRaw="8", JobName="cfd"), ""]))
    log = read_log(path, application="JobName")
    assert log.applications == ("a job", "cfd")
    assert schedule_of_log(log).applications == ("a job", "cfd")
    with pytest.raises(SlowpokeError, match="no column 'Account'"):
        read_log(path, application="Account")


ODD_FIELDS = {
    "JobIDRaw": ("1", "2", "2.batch", "", "3_1", "x"),
    "Start": ("2024-03-01T01:00:00", "Unknown", "2024-03-01 01:00:00", "2024-13-01T01:00:00"),
    "End": ("2024-03-01T03:00:00", "Unknown", "2024-03-01T00:00:00", "2024-03-01T03:00"),
    "Elapsed": ("02:00:00", "00:00:00", "3-00:00:00", "INVALID", "7200"),
    "Timelimit": ("04:00:00", "UNLIMITED", "Partition_Limit", "x", ""),
    "AllocNodes": ("8", "0", "2K", "1.5K", "nan"),
    "State": ("COMPLETED", "NODE_FAIL", "RUNNING", "PENDING", "CANCELLED by 3", "??", " FAILED "),
    "JobName": ("a", "a|b", ""),
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {k: st.one_of(st.just(v[0]), st.sampled_from(v)) for k, v in ODD_FIELDS.items()}
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, max_examples=200)
@given(ROWS)
def test_reading_by_columns_is_reading_by_rows(rows: list[dict[str, str]]) -> None:
    lines = [(i, row(**r)) for i, r in enumerate(rows, 2)]
    by_columns = slurm.read_slurm([(1, HEADER), *lines]).build()
    where, delimiter = slurm._columns_of_header(HEADER, "", "")
    builder = JobLogBuilder("slurm")
    reader = slurm._RowReader(where, delimiter, HEADER, builder)
    for number, line in lines:
        try:
            reader.read(number, line)
        except RowError as error:
            builder.report.reject(str(error), number)
    by_rows = builder.build()
    assert by_columns.report.n_jobs == by_rows.report.n_jobs
    assert {k: r.count for k, r in by_columns.report.rejected.items()} == {
        k: r.count for k, r in by_rows.report.rejected.items()
    }
    assert by_columns.report.n_skipped == by_rows.report.n_skipped
    for name in ("n_nodes", "elapsed_seconds", "limit_seconds", "start_seconds", "end_seconds"):
        np.testing.assert_array_equal(
            np.sort(getattr(by_columns, name)), np.sort(getattr(by_rows, name))
        )
    assert by_columns.by_state == by_rows.by_state
    accounted = by_rows.report.n_jobs + by_rows.report.n_skipped + by_rows.report.n_rejected
    assert accounted == len(rows)


def test_every_line_is_accounted_for_wherever_the_file_is_cut(tmp_path: Path) -> None:
    whole = "\n".join([HEADER, *(row(JobIDRaw=str(i)) for i in range(3))]) + "\n"
    path = tmp_path / "log.txt"
    for cut in range(len(HEADER) + 2, len(whole)):
        path.write_text(whole[:cut])
        try:
            log = read_log(path)
        except SlowpokeError as error:
            assert "no usable record" in str(error)
            continue
        r = log.report
        assert r.n_lines == 1 + r.n_jobs + r.n_skipped + r.n_rejected
        whole_rows = whole[:cut].count("\n") - 1
        assert r.n_jobs in (whole_rows, whole_rows + 1)  # cut within the unused last field
        assert any("may be cut off" in n for n in r.notes) == (whole[cut - 1] != "\n")


# ---- PBS, LSF, SWF, tables ---------------------------------------------------------------------


def pbs(kind: str = "E", **changed: str) -> str:
    values = {
        "start": "1000",
        "end": "8200",
        "Resource_List.nodect": "4",
        "Resource_List.walltime": "04:00:00",
        "resources_used.walltime": "02:00:00",
        "Exit_status": "0",
    } | {k.replace("__", "."): v for k, v in changed.items()}
    pairs = " ".join(f"{k}={v}" for k, v in values.items() if v)
    return f"03/01/2024 01:00:00;{kind};1.server;user=u {pairs}"


def test_pbs_exit_codes(tmp_path: Path) -> None:
    codes = {
        "0": "COMPLETED",
        "1": "FAILED",
        "271": "CANCELLED",
        "-4": "NODE_FAIL",
        "-11": "REQUEUED",
        "-20": "NODE_FAIL",
        "-27": "OUT_OF_MEMORY",
        "-29": "TIMEOUT",
    }
    lines = [
        pbs(Exit_status=code, start=str(1000 + i), end=str(8200 + i))
        for i, code in enumerate(codes)
    ]
    log = log_of(tmp_path, *lines)
    names = list(codes.values())
    assert log.by_state == {s: names.count(s) for s in sorted(set(names), key=log_states)}


def log_states(state: str) -> int:
    from torch_slowpoke.efficiency.logs import STATES

    return STATES.index(state)


def test_pbs_events_and_faults(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        pbs(),
        pbs("S"),
        pbs("R", resources_used__walltime="", start="1709251200", end="", Exit_status="-11"),
        pbs(Resource_List__nodect="", exec_host="b1/0*4+b1/1+b2/0-3", start="1001"),
        pbs(Exit_status="", start="2"),
        pbs(Resource_List__nodect="", start="3"),
        "03/01/2024 01:00;E;1.server;x=1",
    )
    assert log.n_nodes.tolist() == [4.0, 4.0, 2.0]
    # The rerun is recorded at 2024-03-01 01:00:00, which is 1709254800: an hour after its start.
    assert log.elapsed_seconds.tolist() == [7200.0, 3600.0, 7200.0]
    assert log.by_state["REQUEUED"] == 1
    assert log.report.n_rejected == 3
    assert reasons(log)["queue event without usage"] == 1


def test_swf_headers_turn_processors_into_nodes(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        "; MaxNodes: 10",
        "; MaxProcs: 40",
        "; UnixStartTime: 1700000000",
        "1 0 5 100 10 -1 -1 10 200 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "2 0 5 -1 10 -1 -1 10 200 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "3 0 5 50 -1 -1 -1 8 -1 -1 0 -1 -1 -1 -1 -1 -1 -1",
        "4 0 5 50 8 -1 -1 8 -1 -1 3 -1 -1 -1 -1 -1 -1 -1",
        "5 0 5 50 8 -1 -1 8 -1",
        "6 0 5 0 8 -1 -1 8 -1 -1 5 -1 -1 -1 -1 -1 -1 -1",
    )
    assert log.n_nodes.tolist() == [3.0, 2.0]  # 10 and 8 processors, 4 a node
    assert log.start_seconds[0] == 1700000005
    assert math.isnan(log.limit_seconds[1])
    assert reasons(log) == {
        "comment": 3,
        "run time is not known": 1,
        "part of a job that has a line of its own": 1,
        "fewer than 18 fields: the line is cut off": 1,
        "no time used: the job never ran": 1,
    }


def test_a_table_tells_what_is_wrong_with_which_line(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        "Node Count,Requested Duration,Actual Duration",
        "4,3600,1800",
        "4,3600",
        "0,3600,1800",
        "4,,1800",
        "4,3600,-1",
        "4,x,1800",
        "4,nan,1800",
        "4,3600,0",
    )
    assert log.report.n_jobs == 2
    assert reasons(log) == {
        "fewer fields than columns: the line is cut off": 1,
        "number of nodes is not a whole number from 1 on": 1,
        "requested duration is missing": 1,
        "actual duration is negative": 1,
        "requested duration is not a number": 1,
        "requested duration is not a finite number": 1,
    }


def test_a_table_may_hold_a_distribution_and_applications(tmp_path: Path) -> None:
    log = log_of(tmp_path, "app,n_nodes,hours,n_jobs", "cfd,4,2,10", "llm,8,1.5,2.5", "cfd,4,2,1")
    schedule = schedule_of_log(log, durations="requested")
    assert schedule.applications == ("cfd", "llm")
    assert schedule.n_jobs.tolist() == [11.0, 2.5]
    assert schedule.scheduled_node_hours == 11 * 8 + 2.5 * 12


def test_the_fast_and_the_patient_way_read_the_same_table(tmp_path: Path) -> None:
    lines = [
        "nodes,requested_seconds,actual_seconds",
        *(f"{i},{60 * i},{50 * i}" for i in range(1, 9)),
    ]
    fast = log_of(tmp_path, *lines)
    patient = log_of(tmp_path, *lines, "not,a,row")
    np.testing.assert_array_equal(fast.n_nodes, patient.n_nodes)
    np.testing.assert_array_equal(fast.limit_seconds, patient.limit_seconds)
    np.testing.assert_array_equal(fast.elapsed_seconds, patient.elapsed_seconds)
    assert patient.report.n_rejected == 1


# ---- schedules ---------------------------------------------------------------------------------


def test_requested_times_are_scaled_by_usage_or_by_time(tmp_path: Path) -> None:
    log = log_of(tmp_path, "nodes,requested_seconds,actual_seconds", "1,3600,3600", "9,7200,1800")
    by_usage = schedule_of_log(log)
    ratio = (1 * 3600 + 9 * 1800) / (1 * 3600 + 9 * 7200)
    assert by_usage.hours.tolist() == pytest.approx([ratio, 2 * ratio])
    by_time = schedule_of_log(log, ratio="time")
    assert by_time.hours.tolist() == pytest.approx([0.5, 1.0])
    assert schedule_of_log(log, durations="actual").hours.tolist() == [1.0, 0.5]
    with pytest.raises(SlowpokeError, match="durations"):
        schedule_of_log(log, durations="guessed")  # type: ignore[arg-type]
    with pytest.raises(SlowpokeError, match="ratio"):
        schedule_of_log(log, ratio="guessed")  # type: ignore[arg-type]


def test_jobs_without_a_limit_count_with_their_actual_time(tmp_path: Path) -> None:
    log = log_of(tmp_path, HEADER, GOOD, row(JobIDRaw="8", Timelimit="UNLIMITED"))
    schedule = schedule_of_log(log)
    assert schedule.hours.tolist() == [2.0]  # 4 h requested scaled by 1/2, and 2 h run
    assert any("without a limit" in n for n in schedule.notes)


# ---- files that are none -----------------------------------------------------------------------


def test_packed_logs_and_foreign_bytes(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress("\r\n".join(["\ufeff" + HEADER, GOOD, ""]).encode()))
    assert read_log(path).report.n_jobs == 1
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SlowpokeError, match="cannot be read"):
        read_log(path)
    latin = tmp_path / "latin.txt"
    latin.write_bytes(f"{HEADER}\n{row(JobName='caf')}".encode() + b"\xe9\xff\x00\n")
    assert read_log(latin).report.n_jobs == 1


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "is empty"),
        ("\n\n  \n", "is empty"),
        ("hello\n", "no Slurm"),
        ("a,b,c\n1,2,3\n", "no Slurm"),
        (HEADER, "no usable record"),
        ("JobID|State\n1|COMPLETED\n", "no column NNodes, Elapsed"),
        ("1|2|3|4|5\n", "5 columns and no header"),
        ("n_nodes,hours\n", "no usable record"),
        ("JobID        State\n------------ ----------\n12           COMPLETED\n", "column"),
    ],
)
def test_files_that_are_no_logs_are_one_sentence(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text(text)
    with pytest.raises(SlowpokeError, match=match) as error:
        read_log(path)
    assert "\n" not in str(error.value)


def test_no_file_and_a_folder_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SlowpokeError, match="does not exist"):
        read_log(tmp_path / "none")
    with pytest.raises(SlowpokeError, match="cannot be read"):
        read_log(tmp_path)
    with pytest.raises(SlowpokeError, match="format"):
        read_log(tmp_path, format="excel")  # type: ignore[arg-type]


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=300), st.sampled_from(["slurm", "pbs", "lsf", "swf", "table", None]))
def test_any_bytes_are_a_log_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, format: str | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(content)
    try:
        read_log(path, format=format)  # type: ignore[arg-type]
    except SlowpokeError as error:
        assert len(str(error)) < 2000


def test_fields_alone() -> None:
    assert duration_seconds("2-01:02:03", "t") == 2 * 86400 + 3723
    assert duration_seconds("16:01.272", "t") == pytest.approx(961.272)
    assert node_count("2K") == 2048
    assert math.isnan(date_seconds("Unknown"))
    assert date_seconds("1970-01-02T00:00:01") == 86401.0
    with pytest.raises(RowError):
        date_seconds("2024-01-01T24:00:00")


LINES = {
    "slurm": "\n".join([HEADER, *(row(JobIDRaw=str(i)) for i in range(3))]),
    "pbs": "\n".join([pbs(), pbs("R", Exit_status="-11", start="3")]),
    "swf": "; MaxNodes: 4\n; MaxProcs: 8\n1 0 5 100 10 -1 -1 10 200 -1 1 -1 -1 -1 -1 -1 -1 -1\n",
    "table": "n_nodes,requested_hours,actual_hours,n_jobs\n2,3,2,4\n5,6,6,7\n",
}
ODD_TEXTS = (
    "", "²", "٣", "nan", "inf", "-1", "1e400", "9" * 5000, "|", '"', ";", "\x00", "\r", "\n",
    "[1-", "=", "Unknown", "0001-01-01T00:00:00", "9999-12-31T23:59:59", "NODE_FAIL", "K", ",",
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(sorted(LINES)),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 19), st.sampled_from(ODD_TEXTS)), max_size=6
    ),
)
def test_a_log_with_anything_written_into_it_is_read_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, kind: str, edits: list[tuple[float, int, str]]
) -> None:
    text = LINES[kind]
    for at, length, new in edits:
        i = int(at * len(text))
        text = text[:i] + new + text[i + length :]
    path = tmp_path_factory.getbasetemp() / "edited.txt"
    path.write_text(text, encoding="utf-8")
    try:
        log = read_log(path)
        schedule_of_log(log)
        failure_rate(log)
    except SlowpokeError as error:
        assert "\n" not in str(error)


def test_a_log_comes_through_a_pipe() -> None:
    end, start = os.pipe()
    if not Path(f"/dev/fd/{end}").exists():
        pytest.skip("this system names no open files")
    with os.fdopen(start, "w") as pipe:
        pipe.write("n_nodes,hours\n4,2\n8,1\n")
    try:
        assert read_log(f"/dev/fd/{end}").n_nodes.tolist() == [4.0, 8.0]
    finally:
        os.close(end)


def test_lines_longer_than_a_block_are_whole(tmp_path: Path) -> None:
    name = "x" * 3_000_000
    log = log_of(tmp_path, HEADER, row(JobName=name), row(JobIDRaw="8"))
    assert (log.report.n_jobs, log.report.n_lines) == (2, 3)


def test_columns_are_refused_where_they_mean_nothing(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("n_nodes,hours\n4,2\n")
    with pytest.raises(SlowpokeError, match="for sacct logs"):
        read_log(path, columns="a,b")
