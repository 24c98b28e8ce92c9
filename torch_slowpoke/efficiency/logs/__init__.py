"""Accounting logs of Slurm, PBS and LSF, SWF traces and job tables, read into one form."""

from torch_slowpoke.efficiency.logs.joblog import STATES, JobLog, ReadReport
from torch_slowpoke.efficiency.logs.read import FORMATS, read_log, schedule_of_log

__all__ = ["FORMATS", "STATES", "JobLog", "ReadReport", "read_log", "schedule_of_log"]
