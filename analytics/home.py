"""The Spark that is started on this machine: PySpark's, by links, without what costs a start much.

Functions of its machine learning, which no report uses, go into each session before anything else
does. And where PySpark lies packed beside its jars, Python's workers take that one, and compile it
anew at each start, in place of the installed one.
"""

import os
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from analytics.errors import NotInstalled
from analytics.runs import run_folder

UNUSED = "spark-mllib_"


def package() -> Path:
    """Where PySpark is installed; raises NotInstalled."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise NotInstalled("PySpark is not installed", "pip install 'kitemq-server[analytics]'")
    return Path(spec.submodule_search_locations[0])


def spark_home(folder: Path) -> Path:
    """A SPARK_HOME in `folder`, fit for the jars that PySpark has now; made once, atomically."""
    installed = package()
    jars = sorted((installed / "jars").glob("*.jar"))
    target = folder / f"spark-{sha256(os.fsencode(':'.join(map(str, jars)))).hexdigest()[:16]}"
    if target.exists():
        return target
    with run_folder(folder / "runs") as place:
        made = place / target.name
        (made / "jars").mkdir(parents=True)
        for jar in jars:
            if not jar.name.startswith(UNUSED):
                (made / "jars" / jar.name).symlink_to(jar)
        (made / "bin").symlink_to(installed / "bin")
        try:
            made.rename(target)
        except OSError:
            if not target.exists():  # else another one was first
                raise
    return target
