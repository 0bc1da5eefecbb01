"""Runs one job: `python -m analytics.job --request FILE`, a process of its own.

The request is a JSON object:

| field | meaning | default |
|---|---|---|
| job | `traces` or `lag` | |
| hours | UTC hours to compute anew, as `["2026-11-21T03"]`; at most 1,000 | |
| root | folder of the Parquet, a path or a URL that Spark reads | |
| output | folder for the results; made if it is missing, else empty but for `progress.json` | |
| folder | DATA/spark: shims, start-up caches, folders of runs | |
| master | `local[2]`, `spark://host:port` or `sc://host:port` | `local[2]` |
| java_home | which Java | found |
| driver_memory | of the Java machine | `1g` |
| params | of the job (`analytics.jobs.definitions.Params`), all optional | `{}` |
| previous | of `lag`: a file of JSON lines with the columns group, topic, queue, state and raw_state | |
| log | file for Spark's warnings | in the run's folder |

`hours` need not exist: one without rows has empty results. The driver reads `root`'s
`manifest.json`; with an object store it is read through Spark.

The folder `output` then has, while it runs, `progress.json` (replaced about twice a second):

    {"stage": "starting" | "reading" | "latency" | … | "done", "percent": 0-100, "at_ms": …,
     "tasks_done": n, "tasks": n}

and when everything is done `<table>.ndjson` of each table (analytics/results.py: one JSON object a
line, keys are its columns, 64-bit numbers as numbers, JSON columns as text), and last of all
`result.json`. Where that is missing nothing else may be used. It is written on failures too, then
without `tables`:

    {"format": 1, "job": "traces", "state": "ok" | "failed", "error_class": "", "error": "",
     "is_transient": false, "hours": […], "fingerprints": {hour: "16 hex digits"},
     "input": {"frame": {"hours": […], "rows": n, "late_rows": n}}, "rows_in": n, "rows_out": n,
     "input_position": n, "input_at_ms": n (everything stored before is in), "lag_ms": n,
     "counters": {"duplicates": n, "late": n, "skewed": n, "unmatched_acks": n, "sampled": n},
     "spark": "4.3.0", "java": "25.0.2", "master": "local[2]", "began_ms": …, "seconds": 9.1,
     "peak_kib": n,
     "tables": {"latency": {"rows": n, "file": "latency.ndjson", "replaces": "hours" | "all",
                            "key": […], "columns": [{"name": …, "kind": …}]}}}

A table whose `replaces` is "all" is left out where the run did not include the newest hour.
`fingerprints` were taken before anything was read.

Exit codes: 0 done, 1 failed and a retry may help (`is_transient`), 2 the request or its data is
wrong, 3 Spark or Java is missing, 4 failed and a retry will not help, 143 ended by SIGTERM.
Standard output stays empty; standard error has the reason. The process runs in the idle scheduling
class; SIGTERM ends it with its Java machine and its temporary files.
"""
