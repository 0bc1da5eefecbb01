"""The job `traces`: three steps of Spark over Arrow tables, however many tables come of it.

`scatter` reads pieces of Parquet where Spark runs it and sends each row to the task that needs it;
`gather` puts together what belongs together and counts; `finish` makes each hour's tables of the
counts. Between the steps go blobs: whole Arrow tables as one value of a row. A start of Java pays
for every query that it plans, and for every row that changes from one form to another: so there is
one query, and the rows stay columns of numbers (docs/adr tells what was measured).
"""
