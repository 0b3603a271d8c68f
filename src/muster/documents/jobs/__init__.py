"""One job as people write it, for whoever reads job entries: scenarios, job files, the API.

known        what there is to name: queues, clusters, classes, levels
entry        the keys of a job that are about the job as a whole
groups       its task groups, or the one that the short form describes
launch       what the tasks of a group run; objects: the services and ingresses of a job
arrays       one job per index
races        the race of a job over opaque clusters
simulation   what only a simulation can know: when a job comes, how long it really runs, what clusters will show
spec         the job that all this makes
reading      job files; requests: thousands of jobs in decoded JSON
making       documents of job files from a command line or a scenario
schema       the JSON Schema of all this
"""

from __future__ import annotations

from muster.documents.jobs.arrays import parse_array
from muster.documents.jobs.known import Known
from muster.documents.jobs.launch import Launch
from muster.documents.jobs.making import from_command, without_simulation_fields
from muster.documents.jobs.reading import JobFileError, read_job_file
from muster.documents.jobs.requests import JobReader, read_jobs
from muster.documents.jobs.schema import job_schema
from muster.documents.jobs.spec import JobSpec, OnLost, as_document

__all__ = [
    "JobFileError",
    "JobReader",
    "JobSpec",
    "Known",
    "Launch",
    "OnLost",
    "as_document",
    "from_command",
    "job_schema",
    "parse_array",
    "read_job_file",
    "read_jobs",
    "without_simulation_fields",
]
